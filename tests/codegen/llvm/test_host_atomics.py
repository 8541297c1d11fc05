"""Tests of user-written kernels on the host: atomics, and grids over matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import lower_stages, resolve_target


def host_text(kernel: Any) -> str:
    """Return the LLVM IR into which a launched kernel is compiled on the host."""
    (found,) = kernel.overloads.values()
    return lower_stages(found.kernel, resolve_target("host"))["llvm"]


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32, np.float64])
def test_shared_memory_needs_no_atomic_instructions(dtype: Any) -> None:
    def counts(x: Any, out: Any, before: Any) -> None:
        part = cuda.shared.array(4, dtype)
        t = cuda.threadIdx.x
        if t < 4:
            part[t] = 0
        cuda.syncthreads()
        for i in range(t, x.size, cuda.blockDim.x):
            cuda.atomic.add(part, x[i], 1)
        before[t] = cuda.atomic.sub(part, 0, 1)
        cuda.syncthreads()
        if t < 4:
            out[t] = cuda.atomic.exch(part, t, 0)

    x = np.random.default_rng(0).integers(0, 4, 1_000)
    out, before = np.zeros(4, dtype), np.zeros(32, dtype)
    kernel = cuda.jit(counts)
    kernel[1, 32](x, out, before)
    wanted = np.bincount(x)
    assert out.tolist() == [wanted[0] - 32, *wanted[1:]]
    assert len(set(before.tolist())) == 32
    text = host_text(kernel)
    assert "atomicrmw" not in text and "cmpxchg" not in text


def test_global_memory_has_atomic_instructions() -> None:
    def count(out: Any) -> None:
        cuda.atomic.add(out, 0, 1)

    out = np.zeros(1, np.int64)
    kernel = cuda.jit(count)
    kernel[500, 64](out)
    assert out[0] == 32_000
    assert "atomicrmw add" in host_text(kernel)


@pytest.mark.parametrize("block", [(16, 16), (32, 8), (1, 64), (7, 3)])
def test_every_block_runs_once_in_both_index_orders(block: tuple[int, int]) -> None:
    def rows(out: Any) -> None:
        j, i = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            cuda.atomic.add(out, (i, j), 1 + i + 100 * j)

    def columns(out: Any) -> None:
        i, j = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] += 1 + i + 100 * j

    wanted = 1 + np.arange(37)[:, None] + 100 * np.arange(53)
    for kernel, order in ((rows, (53, 37)), (columns, (37, 53))):
        out = np.zeros((37, 53), int)
        grid = tuple(-(-n // b) for n, b in zip(order, block, strict=True))
        wf.kernel(kernel)[grid, block](out)
        np.testing.assert_array_equal(out, wanted)
