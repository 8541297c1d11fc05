"""Tests of the descriptors of kernel arguments."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.dsl.kernel.language.kernel_errors import KernelTypeError


@wf.kernel
def write(x: Any) -> None:
    if cuda.grid(1) == 0:
        x[0] = 7.0


@wf.kernel("void(float64[:])")
def write_with_signature(x: Any) -> None:
    x[0] = 7.0


@wf.kernel
def read(out: Any, x: Any) -> None:
    out[0] = x[1]


def _numpys() -> Any:
    x = np.arange(5.0)
    x.flags.writeable = False
    return x


def _wefts() -> Any:
    x = wf.evaluate(wf.arange(5.0))
    x.flags.writeable = False
    return x


def _repeated() -> Any:
    return wf.broadcast_to(wf.evaluate(wf.arange(3.0))[1:2], (5,))


@pytest.mark.parametrize("kernel", [write, write_with_signature])
@pytest.mark.parametrize("make", [_numpys, _wefts, _repeated])
def test_read_only_arrays_are_read_but_not_written(make: Callable[[], Any], kernel: Any) -> None:
    x, out = make(), wf.zeros(1)
    before = np.array(x)
    with pytest.raises(KernelTypeError, match="read-only"):
        kernel[1, 1](x)
    read[1, 1](out, x)
    assert np.array_equal(np.array(x), before) and out[0] == x[1]


def test_read_only_arrays_in_declared_tuples_are_not_written() -> None:
    @wf.kernel("void(UniTuple(float64[:], 2))")
    def write_first(pair: Any) -> None:
        pair[0][0] = pair[1][1]

    x, y = np.zeros(2), _numpys()
    write_first[1, 1]((x, x))
    with pytest.raises(KernelTypeError, match="read-only"):
        write_first[1, 1]((y, x))
    assert y[0] == 0


class Color(enum.IntEnum):
    RED = 1


class Size(enum.IntEnum):
    SMALL = 1


@wf.kernel
def is_red(out: Any, value: Any) -> None:
    out[0] = 1 if value is Color.RED else 0


def test_equal_members_of_two_enumerations_are_different_arguments() -> None:
    found = []
    for value in (Color.RED, Size.SMALL, Color.RED):
        out = np.zeros(1, np.int32)
        is_red[1, 1](out, value)
        found.append(out[0])
    assert found == [1, 0, 1]


@pytest.mark.parametrize(("dtype", "value"), [("float32", 1e300), ("float16", -1e6), ("float16", 70000)])
def test_numbers_beyond_the_range_of_a_declared_dtype_become_infinite(dtype: str, value: Any) -> None:
    @cuda.jit(f"void({dtype}[:], {dtype})")
    def store(out: Any, x: Any) -> None:
        out[0] = x

    out = np.zeros(1, dtype)
    store[1, 1](out, value)
    assert out[0] == np.copysign(np.inf, value)
