"""Tests of `can_merge_blocks`: which blocks of a kernel may run as one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.codegen.passes.find_merged_axis import can_merge_blocks
from weft.codegen.passes.forward_variables import forward_variables
from weft.dsl.kernel.launch.dispatcher import KernelDispatcher


def grid(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i


def written_out(x, o):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    k = cuda.blockDim.x * cuda.blockIdx.x + cuda.threadIdx.x
    if i < x.size and k < o.size:
        o[i] = x[k] + i


def rows_of_blocks(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i + cuda.gridDim.x - cuda.gridDim.x + cuda.blockDim.x - cuda.blockDim.x


def counts(x, o):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(o, i, x[i] + i)


MERGED = [grid, written_out, rows_of_blocks, counts]


def number_of_thread(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i + cuda.threadIdx.x - i % cuda.blockDim.x


def number_of_block(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i + cuda.blockIdx.x - i // cuda.blockDim.x


def narrow(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i + np.int8(cuda.threadIdx.x) - np.int8(i % cuda.blockDim.x)


def other_size(x, o):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.y
    i += cuda.blockIdx.x * (cuda.blockDim.x - cuda.blockDim.y)
    if i < x.size:
        o[i] = x[i] + i


def shares(x, o):
    part = cuda.shared.array(1, np.float64)
    i = cuda.grid(1)
    part[0] = 0
    if i < x.size:
        o[i] = x[i] + i + part[0]


def waits(x, o):
    i = cuda.grid(1)
    while cuda.atomic.add(o, 0, 0.0) < 0:
        pass
    if i < x.size:
        o[i] = x[i] + i


def fences(x, o):
    i = cuda.grid(1)
    cuda.threadfence()
    if i < x.size:
        o[i] = x[i] + i


@cuda.jit(device=True)
def thread():
    return cuda.threadIdx.x


def asks(x, o):
    i = cuda.grid(1)
    if i < x.size:
        o[i] = x[i] + i + thread() - i % cuda.blockDim.x


APART = [number_of_thread, number_of_block, narrow, other_size, shares, waits, fences, asks]


@pytest.mark.parametrize("function", MERGED + APART, ids=lambda f: f.__name__)
def test_kernels(function: Callable[..., None]) -> None:
    kernel = cuda.jit(function)
    assert isinstance(kernel, KernelDispatcher)
    x = np.arange(1000.0)
    for launch in ((8, 128), (40, 32), (1, 1000), (1000, 1), (200, 64)):
        out = np.zeros_like(x)
        kernel[launch](x, out)
        np.testing.assert_array_equal(out, 2 * x)
    (found,) = kernel._found.values()
    kernel = forward_variables(found.kernel)
    assert can_merge_blocks(kernel, list(kernel.walk()), 0) == (function in MERGED)


@pytest.mark.parametrize("block", [(16, 16), (4, 32), (32, 2)])
@pytest.mark.parametrize("order", [0, 1])
def test_planes(block: Any, order: int) -> None:
    """Test that each thread of merged blocks updates its own element. The arrays do not fill the last blocks."""

    def ordered(x, o):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            o[i, j] += x[i, j] + 1000 * i + j

    def swapped(x, o):
        j, i = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            o[i, j] += x[i, j] + 1000 * i + j

    x = np.random.default_rng(0).integers(0, 9, (75, 131)).astype(np.float64)
    out = np.zeros_like(x)
    sizes = x.shape if order == 0 else x.shape[::-1]
    blocks = tuple(-(-n // size) for n, size in zip(sizes, block, strict=True))
    cuda.jit((ordered, swapped)[order])[blocks, block](x, out)
    i, j = np.indices(x.shape)
    np.testing.assert_array_equal(out, x + 1000 * i + j)
