"""Tests of arguments with unusual types that NumPy accepts, such as an array as an axis, or a float as the number of sections of a split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.dsl.script.numpy_face import NUMPY


def sections(m: Any) -> list[Any]:
    x = m.arange(7)
    given = (np.array(2), 3.5, [2, None], np.array([2, 5]), [m.arange(4)[2], 5])
    return [[part.tolist() for part in m.array_split(x, each)] for each in given] + [len(m.split(x[:6], 3.0))]


def paired_axes(m: Any) -> list[Any]:
    x = m.arange(12).reshape(3, 4)
    given = (np.array(1), ([1], 0), (np.array([0]), [1]), np.array([[1], [0]]))
    return [m.tensordot(x, x.T, axes).tolist() for axes in given]


def small_corrections(m: Any) -> list[Any]:
    x = m.arange(500.0)
    return [m.std(x, ddof=np.int8(1)).item(), m.var(x, correction=m.ones(2, dtype="u1")[0]).item()]


def sums_with_initial(m: Any) -> list[Any]:
    x, flags, large = m.ones((2, 3), dtype="i1"), m.ones((2, 4), dtype=bool), m.zeros((3, 3))
    return [m.cumulative_sum(x, axis=k, out=out, include_initial=True).tolist() for k, out in ((1, flags), (0, large))]


class Number:
    """An object with the method ``__index__`` that is neither an int nor an array."""

    def __index__(self) -> int:
        return 1


def indices_of_other_types(m: Any) -> list[Any]:
    x, k = m.arange(12).reshape(3, 4), Number()
    x[k, k] = 50
    x[:, k] += 1
    return [x[k].tolist(), x[:, k].tolist(), int(x[k, k]), x[k, [0, 1]].tolist(), x.reshape(-1)[k:][k].item()]


def reduced_over_no_slices(m: Any) -> list[Any]:
    begins = ([], [0, 2], np.array([1, 3, 4]), m.array([0, 1]))
    return [m.add.reduceat(m.ones(shape), k, axis=0).tolist() for shape in ((5, 2), (300, 200)) for k in begins]


@pytest.mark.parametrize(
    "program",
    [sections, paired_axes, small_corrections, sums_with_initial, indices_of_other_types, reduced_over_no_slices],
    ids=lambda f: f.__name__,
)
def test_as_numpy(program: Callable[[Any], Any]) -> None:
    assert program(NUMPY) == program(np)
