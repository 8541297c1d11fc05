"""Normalization of axis arguments, and evaluation of arrays in options."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array


def settled(value: Any) -> Any:
    """Return an option in which each weft array is replaced by its value: a Python scalar or nested lists."""
    if isinstance(value, Array):
        return value.item() if not value.ndim else value.tolist()
    if type(value) in (tuple, list):
        return type(value)(map(settled, value))
    return value


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as a tuple of non-negative integers. Raises AxisError for an axis out of bounds."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list, range)) else (axis,)
    found = tuple(normalize_axis(a, ndim) for a in given)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def normalize_axis(axis: Any, ndim: int) -> int:
    """Return one axis as a non-negative integer. Raises AxisError for an axis out of bounds."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return int(number % ndim)
