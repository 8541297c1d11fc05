"""Axes as NumPy takes them: numbers that are not negative, and options in which no array is."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array


def settled(value: Any) -> Any:
    """An option, an axis or several say, in which no array is: what is pending is evaluated before anything is recorded."""
    if isinstance(value, Array):
        return value.item() if not value.ndim else value.tolist()
    if type(value) in (tuple, list):
        return type(value)(map(settled, value))
    return value


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a tuple of numbers that are not negative. Raises AxisError."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list, range)) else (axis,)
    found = tuple(normalize_axis(a, ndim) for a in given)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def normalize_axis(axis: Any, ndim: int) -> int:
    """One axis, not negative. Raises AxisError."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return int(number % ndim)
