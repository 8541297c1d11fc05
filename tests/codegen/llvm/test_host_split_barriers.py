"""Tests of synchronization points in kernels that the host runs as loops over threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import lower_stages, resolve_target

FULL = 0xFFFFFFFF


def check_vectors(moved: Any, block: int, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    """Check a kernel's results on five blocks, and that its code has no gathers."""
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


def test_elements_at_a_distance_known_at_run_time_are_accessed_one_by_one() -> None:
    @cuda.jit
    def reduce(x: Any, out: Any) -> None:
        shared = cuda.shared.array(256, np.int64)
        t = cuda.threadIdx.x
        shared[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        s = 1
        while s < 256:
            index = 2 * s * t
            if index < 256:
                shared[index] += shared[index + s]
            cuda.syncthreads()
            s *= 2
        if t == 0:
            out[cuda.blockIdx.x] = shared[0]

    x, out = np.arange(1024), np.zeros(4, np.int64)
    reduce[4, 256](x, out)
    np.testing.assert_array_equal(out, x.reshape(4, 256).sum(1))
    (found,) = reduce.overloads.values()
    assert "gather" not in lower_stages(found.kernel, resolve_target("host"))["llvm"]


@pytest.mark.parametrize("again", [False, True], ids=["at the end", "before a barrier"])
@pytest.mark.parametrize("shape", [(32, 1), (96, 1), (16, 8), (40, 3), (1000, 1)])
def test_only_some_warps_take_a_branch(shape: tuple[int, int], again: bool) -> None:
    """Test warp operations in a branch that at most one warp of a block takes."""

    @cuda.jit
    def kernel(x: Any, out: Any, again: Any) -> None:
        shared = cuda.shared.array(1024, np.int64)
        t = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
        i = cuda.blockIdx.x * cuda.blockDim.x * cuda.blockDim.y + t
        v = x[i]
        shared[t] = v
        cuda.syncthreads()
        if t // 32 == (cuda.blockIdx.x + 1) % 3:
            d = 1
            while d < 32:
                v = 3 * v + cuda.shfl_up_sync(FULL, v, d)
                d *= 2
            v += cuda.reduce_add_sync(FULL, v) + cuda.ballot_sync(FULL, v % 2 == 0)
            shared[t] = v
            for s in (16, 2):
                v -= 2 * cuda.shfl_xor_sync(FULL, v, s)
        if again:
            cuda.syncthreads()
            v += shared[(t + 1) % 32]
        out[i] = v

    size = 5 * shape[0] * shape[1]
    x = np.random.default_rng(0).integers(-1000, 1000, size)
    found, expected = np.zeros(size, np.int64), np.zeros(size, np.int64)
    kernel[5, shape](x, found, again)
    with wf.device("simt::backward"):
        kernel[5, shape](cuda.In(x), cuda.Out(expected), again)
    np.testing.assert_array_equal(found, expected)


def test_the_lanes_of_a_divergent_warp_are_named() -> None:
    @cuda.jit
    def kernel(x: Any) -> None:
        t = cuda.threadIdx.x
        if 64 <= t < 133:
            x[t] = cuda.shfl_down_sync(FULL, x[t], 1)
        cuda.syncthreads()
        x[t] += 1

    with pytest.raises(wf.KernelFault, match=r"thread \(128, 0, 0\)[\s\S]*\(133, 0, 0\)"):
        kernel[1, 256](np.zeros(256, np.int32))


@pytest.mark.parametrize(("divisor", "offset"), [(3, 0), (2, 1), (64, 0), (5, 2), (96, 95)])
def test_guards_by_remainders_in_branches_of_some_warps(divisor: int, offset: int) -> None:
    @cuda.jit
    def shuffle(x: Any, out: Any) -> None:
        t = cuda.threadIdx.x
        if t // 32 == 1:
            v = cuda.shfl_sync(FULL, x[t], 0)
            if (t + offset) % divisor == 0:
                out[t] = v

    @cuda.jit
    def copy(x: Any, out: Any) -> None:
        t = cuda.threadIdx.x
        if x[t] > 0:
            for _ in range(2):
                out[t] += 1
            if (t + offset) % divisor == 0:
                out[t] = x[t]

    @cuda.jit
    def nested(x: Any, out: Any) -> None:
        t = cuda.threadIdx.x
        if (t + offset) % divisor == 0 and x[t] > 0:
            for k in range(2):
                out[t] += k

    t = np.arange(96)
    chosen = (t // 32 == 1) & ((t + offset) % divisor == 0)
    x = np.where(t // 32 == 1, 7, 0)
    for kernel, wanted in (
        (shuffle, np.where(chosen, 7, 0)),
        (copy, np.where(chosen, 7, np.where(x > 0, 2, 0))),
        (nested, np.where(chosen, 1, 0)),
    ):
        out = np.zeros(96, np.int64)
        kernel[1, 96](x, out)
        np.testing.assert_array_equal(out, wanted)
