"""Tests of statements on whole arrays in kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


def _assigned(out: Any, x: Any, y: Any, n: Any) -> None:
    out[:] = x[:, :n]
    out += x[1 : n + 1]
    np.multiply(out, x[:n, 1 : n + 1], out)
    out[:, n:] -= y[:n]


def _first(out: Any, x: Any, y: Any, n: Any) -> None:
    out -= y
    out[:] = x


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_slices_and_arguments_of_length_1_are_broadcast(debug: bool, order: Any, device: str) -> None:
    x, y = np.arange(1.0, 21).reshape((5, 4), order=order), np.array([100.0, 7])
    for function, operands in ((_assigned, (x, y)), (_first, (x[:, :1], y[:1])), (_first, (x, x[:1]))):
        out = np.ones((5, 4), order=order)
        expected = out.copy()
        function(expected, *operands, 1)
        with wf.device(device):
            cuda.jit(function, debug=debug)[1, 1](out, *operands, 1)
        assert out.tolist() == expected.tolist()


def test_debug_kernels_refuse_other_lengths() -> None:
    def function(out: Any, x: Any) -> None:
        out += x

    with pytest.raises(ValueError, match="an array of length 3 cannot be assigned to 4 elements"):
        cuda.jit(function, debug=True)[1, 1](np.zeros(4), np.zeros(3))


def test_only_lengths_that_may_differ_are_compared() -> None:
    def same(x: Any, y: Any) -> None:
        x += x[:]
        np.add(x, x, x)

    def other(x: Any, y: Any) -> None:
        x += y

    found = []
    for function in (same, other):
        kernel = cuda.jit(function)
        kernel[1, 1](np.zeros(4), np.zeros(4))
        found.append(re.findall(r"icmp eq i32 %arg\.(._n0), 1\b", kernel.stage("llvm")))
    assert found == [[], ["y_n0"]]


def _columns(m: Any, k: Any) -> None:
    m -= m[:, k : k + 1]
    np.add(m[k : k + 1], m[:, 1:k], m)


def _moved(m: Any, k: Any) -> None:
    m[1:] -= m[:-1, k : k + 1]
    m[:, 1:] += m[k : k + 1, :-1]
    m[:-1, :k] -= m[1:, k - 1 : k]


def _points(m: Any, k: Any) -> None:
    m *= m[1:k, k : k + 1]
    m -= m[1][2]
    m[k:] -= m[:1]


@pytest.mark.parametrize("function", [_columns, _moved, _points])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("step", [1, -1])
def test_a_part_of_length_1_is_read_before_it_is_overwritten(function: Any, order: Any, step: int) -> None:
    m = np.arange(1.0, 31).reshape((5, 6), order=order)[:, ::step]
    expected = m.copy()
    function(expected, 2)
    wf.kernel(function)[1, 1](m, 2)
    assert m.tolist() == expected.tolist()


def _rows_of_planes(q: Any) -> None:
    q -= q[0, 1]
    q += q[1][:, 2][:, None]
    q[1:] -= q[:-1, 1, 2][:, None, None]


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_that_are_broadcast_along_two_axes(order: Any) -> None:
    q = np.arange(1.0, 61).reshape((3, 5, 4), order=order)
    expected = q.copy()
    _rows_of_planes(expected)
    wf.kernel(_rows_of_planes)[1, 1](q)
    assert q.tolist() == expected.tolist()


def test_parts_of_which_none_can_be_read_last() -> None:
    def function(m: Any) -> None:
        np.add(m[0], m[1], m)

    with pytest.raises(ValueError, match="overlap the output on both sides"):
        cuda.jit(function)[1, 1](np.ones((3, 4)))


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (1, 5), (5, 1)])
def test_arrays_of_length_0_and_1(shape: tuple[int, int]) -> None:
    def function(m: Any) -> None:
        m -= m[:1]
        m += m[:, :1]
        m -= m[:, -1:]

    m, expected = np.ones(shape), np.ones(shape)
    function(expected)
    wf.kernel(function)[1, 1](m)
    assert m.tolist() == expected.tolist()


def _between(q: Any, z: Any, k: Any) -> None:
    q[:, 1:] -= q[1:2, :-1, k : k + 1]
    q -= q[1, 1, k, ...]
    np.add(q[:-1], q[:1], q[1:])
    np.subtract(q[1:-1, :-2], q[:-2, 2:], q[1:-1, 1:-1])


def _parts_of_numbers(q: Any, z: Any, k: Any) -> None:
    z[1:] = z.real[:-1]
    z.imag -= z.real[k]
    z.real[:-1] *= z.imag[1:]


def _selected(q: Any, z: Any, k: Any) -> None:
    a, b = q, q[::-1]
    for _ in range(3):
        a[1:] += a[:-1]
        a -= a[k:, :1, 1:2][0]
        part = b[:, 1:]
        part[:, 1:] = part[:, :-1]
        a, b = b, a


@pytest.mark.parametrize("function", [_between, _parts_of_numbers, _selected])
@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0), (1, 0, 2)])
def test_operands_that_are_broadcast_and_moved(function: Any, device: str, axes: Any) -> None:
    q, z = np.arange(1.0, 121).reshape(4, 5, 6).transpose(axes), np.arange(5) + 2j * np.arange(3, 8)
    expected = q.copy(), z.copy()
    function(*expected, 2)
    with wf.device(device):
        wf.kernel(function)[1, 1](q, z, 2)
    np.testing.assert_array_equal(q, expected[0])
    np.testing.assert_array_equal(z, expected[1])


def test_a_part_with_other_axes_is_refused() -> None:
    def function(q: Any) -> None:
        q -= q[:, 0]

    with pytest.raises(wf.KernelTypeError, match="may overlap"):
        cuda.jit(function)[1, 1](np.ones((3, 3, 3)))
