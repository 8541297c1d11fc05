"""Convolution and correlation of 1-D arrays, and conversion between flat indices and coordinates.

In: arrays. Out: recorded arrays. On a GPU, each element of a convolution is the dot product of one array and a window
that slides over the other. NumPy computes convolutions on the CPU.
"""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.results import as_array
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import as_shape, check_new_order, check_order
from weft.dsl.functions.linear import matmul
from weft.dsl.functions.manipulation import sliding_window_view
from weft.dsl.functions.padding import pad
from weft.dsl.functions.sorting import on_host

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, ShapeLike

_MODES = {"valid": 0, "same": 1, "full": 2, 0: 0, 1: 1, 2: 2, "v": 0, "s": 1, "f": 2}


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Any:
    """Return the discrete convolution of two 1-D arrays, like `numpy.convolve`.

    Examples
    --------
    >>> wf.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    """
    x, y = (each.reshape(1) if not each.ndim else each for each in map(as_array, (a, v)))  # type: ignore[attr-defined]
    if not _uses_sliding_windows(x, y, mode):
        return on_host(np.convolve, a, v, mode)
    if y.size > x.size:
        x, y = y, x
    return _sliding_dot_products(x, y[::-1], _MODES[mode])


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Any:
    """Return the cross-correlation of two 1-D arrays, like `numpy.correlate`.

    Examples
    --------
    >>> wf.correlate([1.0, 2.0, 3.0], [1.0, 0.5])
    array([2. , 3.5])
    """
    x, y = as_array(a), as_array(v)
    if not _uses_sliding_windows(x, y, mode):
        return on_host(np.correlate, a, v, mode)
    second: Any = y.conj()
    if y.size <= x.size:
        return _sliding_dot_products(x, second, _MODES[mode])
    return _sliding_dot_products(second, x, _MODES[mode])[::-1]


def _uses_sliding_windows(x: Array, y: Array, mode: str) -> bool:
    """Return True if a GPU computes the convolution of `x` and `y` (by sliding windows), and False if NumPy computes it."""
    return x.ndim == y.ndim == 1 and bool(x.size and y.size) and mode in _MODES and is_gpu(x.device)


def _sliding_dot_products(x: Any, window: Any, mode: int) -> Any:
    """Return the dot products of `window` with all sections of `x` that are as long as `window`.

    `mode` is one of the values in `_MODES`. In the modes "same" and "full", `x` is first padded with zeros.
    """
    kind = np.result_type(x.dtype, window.dtype)
    n = window.size
    before, after = ((0, 0), (n // 2, n - 1 - n // 2), (n - 1, n - 1))[mode]
    if before or after:
        x = pad(x, (before, after))
    return matmul(sliding_window_view(x.astype(kind), n), window.astype(kind))


def unravel_index(indices: ArrayLike, shape: ShapeLike, order: str = "C") -> Any:
    """Convert flat indices to a tuple of index arrays, like `numpy.unravel_index`.

    Examples
    --------
    >>> wf.unravel_index([1, 5], (2, 3))
    (array([0, 1]), array([1, 2]))
    """
    lengths, order = as_shape(shape, sys.maxsize), check_order(order)
    values: Any = indices
    if not isinstance(indices, Array) or indices.dtype.kind not in "iu" or order not in ("C", "F") or not lengths:
        return on_host(np.unravel_index, indices, lengths, order)
    size = prod(lengths)
    wrong = (values < 0) | (values >= size)
    if values.size and bool(wrong.any()):
        first = int(values[wrong][0])
        raise ValueError(f"index {first} is out of bounds for array with size {size}")
    rest, found = values.astype(np.intp), []
    for n in lengths[::-1] if order == "C" else lengths:
        found.append(rest % n)
        rest = rest // n
    return tuple(found[::-1] if order == "C" else found)


def ravel_multi_index(multi_index: Any, dims: ShapeLike, mode: str = "raise", order: str = "C") -> Any:
    """Convert a tuple of index arrays to flat indices, like `numpy.ravel_multi_index`.

    Examples
    --------
    >>> wf.ravel_multi_index(([0, 1], [1, 2]), (2, 3))
    array([1, 5])
    """
    lengths, order = as_shape(dims, sys.maxsize), check_new_order(order)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(lengths)
    given = tuple(multi_index) if isinstance(multi_index, (tuple, list, Array)) else ()
    typed = len(given) == len(lengths) == len(modes) and any(isinstance(each, Array) for each in given)
    parts: list[Any] = [as_array(each) for each in given] if typed else []
    usual = set(modes) <= {"raise", "wrap", "clip"} and 0 not in lengths  # (an empty shape is an error)
    if not typed or not usual or not all(p.dtype.kind in "iu" for p in parts):
        return on_host(np.ravel_multi_index, multi_index, dims, mode, order)
    wrong: Any = False
    for k, (part, n, rule) in enumerate(zip(parts, lengths, modes, strict=True)):
        if rule == "raise":
            wrong = wrong | ((part < 0) | (part >= n))
        part = part.astype(np.intp)  # (a narrow dtype may not hold the length)
        parts[k] = part.clip(0, n - 1) if rule == "clip" else part % n if rule == "wrap" else part
    if isinstance(wrong, Array) and wrong.size and bool(wrong.any()):
        raise ValueError("invalid entry in coordinates array")
    found: Any = 0
    for part, n in zip(parts if order == "C" else parts[::-1], lengths if order == "C" else lengths[::-1], strict=True):
        found = found * n + part
    return found
