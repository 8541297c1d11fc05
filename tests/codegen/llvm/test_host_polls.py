"""Tests of the interrupt polls in the loops of explicit kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft import cuda


def sums_of_neighbors(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        total = x[i]
        for k in range(1, 9):
            for _ in range(4):
                total += x[i + k]
        out[i] = total


def many_iterations(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        for _ in range(9):
            for k in range(8):
                out[i] += x[i + k]


def unknown_iterations(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        for k in range(out.size):
            out[i] += x[k]


@pytest.mark.parametrize(
    "function, reference, polls",
    [
        (sums_of_neighbors, lambda x, i: x[i] + 4 * x[i + 1 : i + 9].sum(), 1),
        (many_iterations, lambda x, i: 9 * x[i : i + 8].sum(), 2),
        (unknown_iterations, lambda x, i: x[:100].sum(), 2),
    ],
)
def test_loops_with_few_iterations_do_not_poll(function: Any, reference: Any, polls: int) -> None:
    """Test that a loop polls only if it has many or an unknown number of iterations.

    One more poll follows each block.
    """
    kernel = cuda.jit(function)
    x, out = np.arange(200.0), np.zeros(100)
    kernel[2, 64](x, out)
    np.testing.assert_array_equal(out, [reference(x, i) for i in range(100)])
    assert kernel.stage("llvm", cc="host").count("call fastcc void @weft_poll") == polls
