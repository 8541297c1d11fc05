"""Tests of slices, indices and assigned tuples in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda


@cuda.jit
def lengths(x: Any, end: Any, out: Any) -> None:
    out[0] = len(x[:end])
    out[1] = len(x[end:])
    out[2] = len(x[:end:2])
    out[3] = len(x[end::-1])
    out[4] = len(x[:end:-1])
    out[5] = len(x[: 2**40])
    out[6] = len(x[-(2**40) :])


@pytest.mark.parametrize(
    "end",
    [
        *(2**40, -(2**40), 2**32 + 3, -(2**32) - 3, 2**31, -(2**31), -(2**31) - 2, 2**63 - 1, -(2**63), 3, -3),
        *(np.uint32(2**32 - 1), np.uint64(2**64 - 1), np.int32(-(2**31)), np.uint8(255)),
    ],
)
def test_ends_of_slices_are_clipped(end: Any) -> None:
    x, out = np.arange(5.0), np.zeros(7)
    lengths[1, 1](x, end, out)
    assert out.tolist() == [len(x[:end]), len(x[end:]), len(x[:end:2]), len(x[end::-1]), len(x[:end:-1]), 5, 5]


@pytest.mark.parametrize("length", [2, 3, 4])
def test_debug_kernels_check_constant_indices(length: int) -> None:
    @cuda.jit(debug=True)
    def read(x: Any, out: Any) -> None:
        out[0] = x[-3]

    @cuda.jit(debug=True)
    def write(x: Any, out: Any) -> None:
        x[-3] = 7
        out[0] = x[-3]

    for kernel in (read, write):
        x, out = np.arange(float(length)), np.zeros(1)
        if length < 3:
            with pytest.raises(IndexError, match="index -3 is out of bounds for axis 0 of x with size 2"):
                kernel[1, 1](x, out)
        else:
            kernel[1, 1](x, out)
            assert out[0] == x[-3]


def test_a_tuple_of_one_value_is_broadcast() -> None:
    @cuda.jit
    def fill(x: Any, y: Any) -> None:
        x[:] = (5,)
        y[...] = ((3,),)

    x, y = np.zeros(4), np.zeros((2, 3))
    fill[1, 1](x, y)
    assert x.tolist() == [5] * 4 and y.tolist() == [[3] * 3] * 2


def test_debug_kernels_check_the_number_of_assigned_values() -> None:
    @cuda.jit(debug=True)
    def fill(x: Any) -> None:
        x[:] = (5, 6)

    x = np.zeros(2)
    fill[1, 1](x)
    assert x.tolist() == [5, 6]
    with pytest.raises(ValueError, match="2 values cannot be assigned to 3 elements"):
        fill[1, 1](np.zeros(3))


def test_operands_on_both_sides_of_the_output() -> None:
    def kernel(x: Any) -> None:
        np.add(x[:-2], x[2:], x[1:-1])

    with pytest.raises(ValueError, match="overlap the output on both sides"):
        cuda.jit(kernel)[1, 1](np.arange(6.0))


def _rows(m: Any, q: Any) -> None:
    m -= m[1]
    m[::-1] += m[2]


def _columns(m: Any, q: Any) -> None:
    m *= m[:, 1][:, None]
    m[1:] -= m[0]


def _rows_of_planes(m: Any, q: Any) -> None:
    q -= q[0, 1]
    q += q[1][:, 2][:, None]
    np.subtract(q, q[1], q)


@pytest.mark.parametrize("function", [_rows, _columns, _rows_of_planes])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_broadcast_part_of_the_output_is_read_before_it_is_overwritten(function: Any, order: Any) -> None:
    m, q = np.arange(1.0, 21).reshape((5, 4), order=order), np.arange(1.0, 61).reshape(3, 5, 4)
    expected = m.copy(), q.copy()
    function(*expected)
    wf.kernel(function)[1, 1](m, q)
    assert m.tolist() == expected[0].tolist() and q.tolist() == expected[1].tolist()


def test_an_array_keeps_its_name_after_an_operation_in_place() -> None:
    def function(m: Any, k: Any) -> None:
        m -= 1
        m[0] = 7
        for i in range(3):
            m += 1
            if i == k:
                m *= 2
                m[1] -= 5
        part = m[1:]
        part *= 2
        part[0] += 3

    m = np.arange(4.0)
    expected = m.copy()
    function(expected, 1)
    wf.kernel(function)[1, 1](m, 1)
    assert m.tolist() == expected.tolist()
