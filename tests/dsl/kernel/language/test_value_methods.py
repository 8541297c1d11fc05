"""Tests of methods of arrays, numbers and named tuples in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
from weft import cuda
from weft.runtime import override

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")
NAN = float("nan")


class Point(NamedTuple):
    """A named tuple with a static method."""

    x: float
    y: float

    @staticmethod
    def twice(value: float) -> float:
        return value * 2


def result(function: Callable[..., None], *arguments: Any, count: int = 2) -> np.ndarray:
    """Return the array that a kernel of one thread fills."""
    out = np.full(count, -1.0)
    weft.kernel(function)[1, 1](*arguments, out)
    return out


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, NAN, 3.0, NAN, -1.0]),
        np.array([NAN, 5.0], np.float32),
        np.array([1.0, 7.0, -2.0, 7.0], np.float16),
        np.array([2 + 1j, complex(NAN, 1), -1]),
        np.array([3, 9, -4]),
    ],
)
def test_position_of_extremes(values: np.ndarray) -> None:
    def kernel(x: Any, out: Any) -> None:
        out[0] = x.argmin()
        out[1] = x.argmax()

    assert result(kernel, values).tolist() == [values.argmin(), values.argmax()]


def test_item_at_a_flat_position() -> None:
    def kernel(x: Any, out: Any) -> None:
        out[0] = x.item(3) + x.item(-1)
        out[1] = x.item(1, 0)

    assert result(kernel, np.arange(6.0).reshape(2, 3)).tolist() == [8.0, 3.0]


def test_static_method_of_a_named_tuple() -> None:
    def kernel(x: Any, out: Any) -> None:
        p = Point(x[0], x[1])
        out[0] = p.twice(p.y)
        out[1] = p._replace(x=9.0).x

    assert result(kernel, np.array([3.0, 4.0])).tolist() == [8.0, 9.0]


def test_view_in_a_larger_dtype() -> None:
    def kernel(x: Any, out: Any) -> None:
        out[0] = x.view(np.float64).size

    assert result(kernel, np.zeros(4, np.float32))[0] == 2
    with override(checked=True), pytest.raises(ValueError, match="a last axis of 3 elements cannot be seen as float64"):
        result(kernel, np.zeros(3, np.float32))


def replace_by_position(x: Any, out: Any) -> None:
    out[0] = Point(x[0], x[1])._replace(9.0).x


def keyword_of_a_number(x: Any, out: Any) -> None:
    out[0] = x[0].astype(np.float32, copy=False)


def two_open_lengths(x: Any, out: Any) -> None:
    out[0] = x.reshape(-1, -1).size


def two_negative_lengths(x: Any, out: Any) -> None:
    out[0] = x.reshape(-2, -3).size


def view_of_odd_length(x: Any, out: Any) -> None:
    out[0] = cuda.local.array(3, np.float32).view(np.float64).size


def three_indices_of_two_axes(x: Any, out: Any) -> None:
    out[0] = x.item(0, 0, 0)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (replace_by_position, "fields by name only"),
        (keyword_of_a_number, "takes no keyword arguments .*copy"),
        (two_open_lengths, "can leave one length open only"),
        (two_negative_lengths, "can leave one length open only"),
        (view_of_odd_length, "the 12 bytes of the last axis cannot be divided"),
        (three_indices_of_two_axes, "takes one index"),
    ],
)
def test_wrong_arguments(function: Callable[..., None], message: str) -> None:
    with pytest.raises(weft.KernelTypeError, match=message):
        result(function, np.zeros(2))
