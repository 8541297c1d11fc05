"""Tests of how the blocks of explicit kernels are divided among CPU threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.runtime import default_device, override
from weft.runtime.cpu.grids import divide_blocks
from weft.runtime.cpu.pool import ALONE


def doubled(x, o):
    i = cuda.grid(1)
    if i < x.shape[0]:
        o[i] = 2 * x[i, 0]


def sums(x, o):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        o[i] = total


def joint_sums(x, o):
    i = cuda.grid(1)
    if i < x.shape[0]:
        for j in range(x.shape[1]):
            cuda.atomic.add(o, 0, x[i, j])


def strided_sums(x, o):
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        o[i] += x[i, 0]


def counts(x, o):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cuda.atomic.add(o, int(x[i, 0]), 1)


@pytest.mark.parametrize(
    ("kernel", "blocks", "expected"),
    [
        (doubled, 10, (1, 10, 0)),
        (doubled, 1000, (2, 16, 0)),
        (sums, 10, (2, 1, ALONE)),  # (workers are woken only if this takes long)
        (sums, 1, (1, 1, 0)),
        (sums, 1000, (2, 16, 0)),
        (joint_sums, 10, (1, 10, 0)),  # the sum depends on the order of the blocks
        (strided_sums, 10, (2, 5, 0)),
        (counts, 100, (2, 50, 0)),  # (few private copies)
        (counts, 10_000, (2, 157, 0)),
    ],
)
def test_blocks_are_divided(kernel: Callable[..., None], blocks: int, expected: tuple[int, int, int]) -> None:
    compiled = cuda.jit(kernel)
    x, o = np.ones((600, 30), np.float32), np.zeros(600, np.int64 if kernel is counts else np.float32)
    with override(threads=2):
        compiled[10, 64](x, o)
    if kernel not in (counts, joint_sums):
        assert set(o.tolist()) == {{doubled: 2.0, sums: 30.0, strided_sums: 1.0}[kernel]}
    (made,) = compiled.overloads.values()
    function: Any = made.function_on(default_device())
    assert divide_blocks(function, blocks, (64, 1, 1), 2) == expected
