"""Extremes of complex numbers on a GPU, whose kernels have no maximum of them.

In: a complex array and axes. Out: the positions of the extremes, or their values. Invariant: as in NumPy, complex
numbers are ordered by their real parts, then by their imaginary parts, and the first NaN is an extreme.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.functions import reductions
from weft.dsl.functions.along_axis import take_along_axis
from weft.dsl.functions.manipulation import moveaxis, reshape
from weft.dsl.functions.selecting import where


def _rows(values: Array, axes: tuple[int, ...]) -> Any:
    """Return an array with the reduced axes as one last axis."""
    kept = [n for k, n in enumerate(values.shape) if k not in axes]
    last = moveaxis(values, axes, range(values.ndim - len(axes), values.ndim))  # type: ignore[arg-type]
    return reshape(last, (*kept, prod(values.shape[k] for k in axes)))


def _positions(rows: Any, largest: bool) -> Any:
    """Return the position of the extreme of each row."""
    real, imag = rows.real, rows.imag
    extreme, none = (reductions.max, -np.inf) if largest else (reductions.min, np.inf)
    unknown = np.isnan(real) | np.isnan(imag)
    first = real == extreme(where(unknown, none, real), axis=-1, keepdims=True)
    both = first & (imag == extreme(where(first & ~unknown, imag, none), axis=-1, keepdims=True))
    found = where(reductions.any(unknown, axis=-1, keepdims=True), unknown, both & ~unknown)
    return reductions.argmax(found, axis=-1, keepdims=True)


def find_position(op: str, values: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the positions of the extremes along axes, counted in the elements of these axes."""
    found = _positions(_rows(values, axes), op == "argmax")
    return reshape(found, _shape(values, axes, keepdims))


def find_extreme(op: str, values: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the extremes along axes."""
    rows = _rows(values, axes)
    found = take_along_axis(rows, _positions(rows, op == "maximum"), -1)
    return reshape(found, _shape(values, axes, keepdims))


def _shape(values: Array, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if k in axes else n for k, n in enumerate(values.shape) if keepdims or k not in axes)
