"""Tests of synchronization points in kernels on the host whose threads run as loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen import lower_stages, resolve_target

FULL = 0xFFFFFFFF


def check_vectors(moved: Any, block: int, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    """Run a kernel on five blocks, compare the rows of its result, and check that its code gathers no elements."""
    x = np.random.default_rng(0).integers(-100, 100, 5 * block)
    out = np.zeros_like(x)
    kernel = cuda.jit(moved)
    kernel[5, block](x, out)
    np.testing.assert_array_equal(out.reshape(5, block), expected(x.reshape(5, block)))
    (found,) = kernel.overloads.values()
    assert "gather" not in lower_stages(found.kernel, resolve_target("host"))["llvm"]


@pytest.mark.parametrize("name", ["shfl_down_sync", "shfl_up_sync"])
@pytest.mark.parametrize("block", [32, 33, 64, 100])
def test_lanes_at_one_distance_are_loaded_as_vectors(name: str, block: int) -> None:
    shuffle = getattr(cuda, name)

    def moved(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        v = x[i]
        s = 16
        while s > 0:
            v = 3 * v + shuffle(FULL, v, s)
            s //= 2
        out[i] = v

    def expected(rows: np.ndarray) -> np.ndarray:
        threads = np.arange(block)
        for s in (16, 8, 4, 2, 1):
            other = threads + (s if "down" in name else -s)
            inside = (other // 32 == threads // 32) & (other < block)
            rows = 3 * rows + rows[:, np.where(inside, other, threads)]
        return rows

    check_vectors(moved, block, expected)


@pytest.mark.parametrize("width", [8, 32])
@pytest.mark.parametrize("block", [32, 33, 72, 100])
def test_lanes_are_exchanged_as_vectors(block: int, width: int) -> None:
    def moved(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        v = x[i]
        for s in (16, 8, 4, 2, 1):
            v = 3 * v + cuda.shfl_xor_sync(FULL, v, s)
        v = 3 * v + cuda.shfl_xor_sync(FULL, v, 4, width)
        out[i] = v

    def expected(rows: np.ndarray) -> np.ndarray:
        threads = np.arange(block)
        for s in (16, 8, 4, 2, 1, 4):
            rows = 3 * rows + rows[:, np.where(threads ^ s < block, threads ^ s, threads)]
        return rows

    check_vectors(moved, block, expected)
