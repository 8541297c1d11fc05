"""NumPy's `pad` and `diag`."""

from __future__ import annotations

import builtins
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, record_array, start
from weft.dsl.arrays.indexing import assign_recorded
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import memory_order, permuted, unpermuted
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.creation import asarray, empty, eye, zeros
from weft.dsl.functions.manipulation import diagonal, expand_dims
from weft.dsl.functions.selection import where
from weft.fusion import broadcast_to as broadcast_expr
from weft.fusion import constant, current_epoch

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike


def _pad_widths(given: object, ndim: int) -> list[list[int]]:
    """Return the numbers of elements to add at the start and at the end of each axis.

    `given` is the argument `pad_width` of `numpy.pad`.
    """
    if isinstance(given, dict):
        by_axis: list[Any] = [(0, 0)] * ndim
        for axis, width in given.items():
            by_axis[normalize_axis(axis, ndim)] = width if isinstance(width, (tuple, list)) else (width, width)
        given = by_axis
    widths = np.asarray(given)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    return np.broadcast_to(widths, (ndim, 2)).tolist()


# For each mode, slices of the elements to copy before and after an axis of `n` elements, for the widths `lo` and `hi`.
_BORDERS: dict[str, Any] = {
    "edge": lambda n, lo, hi: (slice(0, 1), slice(n - 1, n)),
    "reflect": lambda n, lo, hi: (slice(lo, 0, -1), slice(n - 2, n - 2 - hi if hi < n - 1 else None, -1)),
    "symmetric": lambda n, lo, hi: (slice(lo - 1, None, -1), slice(n - 1, n - 1 - hi if hi < n else None, -1)),
    "wrap": lambda n, lo, hi: (slice(n - lo, n), slice(0, hi)),
}


def _pad_with_own(array: Array, widths: list[list[int]], border: Any) -> Array:
    """Pad each axis with copies of the array's own elements.

    The function `border` returns slices that select these elements, as in `_BORDERS`.
    """
    start()
    shape = tuple(lo + n + hi for (lo, hi), n in zip(widths, array.shape, strict=True))
    result: Any = empty(shape, array.dtype, device=array.device)
    inside = tuple(slice(lo, lo + n) for (lo, _), n in zip(widths, array.shape, strict=True))
    assign_recorded(result, inside, array)
    for k, ((lo, hi), n) in enumerate(zip(widths, array.shape, strict=True)):
        before, behind = (slice(None),) * k, inside[k + 1 :]
        own = result[(*before, *inside[k:])]
        for width, target, part in zip((lo, hi), (slice(0, lo), slice(lo + n, None)), border(n, lo, hi), strict=True):
            if width:
                assign_recorded(result, (*before, target, *behind), own[(*before, part)])
    return result


@memoized
def pad(array: Any, pad_width: ArrayLike, mode: Any = "constant", **options: Any) -> Array:
    """Pad an array, like `numpy.pad`.

    Examples
    --------
    >>> wf.pad([1, 2, 3], 2, mode='reflect')
    array([3, 2, 1, 2, 3, 2, 1])
    """
    given, array = array, asarray(array)
    widths = _pad_widths(pad_width, array.ndim)
    if mode == "constant":
        values = np.broadcast_to(np.asarray(options.pop("constant_values", 0)), (array.ndim, 2))
        if options:
            raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(options)}")
        start()
        fill = values.flat[0] if values.size else np.int64(0)
        if fill == fill and values.tobytes() == values.size * fill.tobytes():
            if (order := memory_order([array])) is not None:
                array, widths = permuted(array, order), [widths[k] for k in order]
            shape = tuple(lo + n + hi for (lo, hi), n in zip(widths, array.shape, strict=True))
            if isinstance(fill, np.integer) and array.dtype.kind == "i":
                fill = array.dtype.type(int(fill))  # (signed integers raise OverflowError; unsigned ones wrap around)
            current_epoch(array.device)  # (the array may be on another device than the default one)
            result = record_array(broadcast_expr(constant(fill, array.dtype), shape))
            assign_recorded(
                result, tuple(slice(lo, lo + n) for (lo, _), n in zip(widths, array.shape, strict=True)), array
            )
            return result if order is None else unpermuted(result, order)
    elif mode in _BORDERS and not options and all(array.shape):
        if array.flags.fnc:  # (the result has the order of the array, as in NumPy)
            return pad(array.T, widths[::-1], mode).T
        least = 0 if mode in ("edge", "reflect") else 1
        # (Pending elements are computed where they are read, without intermediate memory.)
        stored = array._storage.buffer is not None and array._storage.device.name == "cpu"
        if stored and all(
            mode == "edge" or builtins.max(pair) < n + least for pair, n in zip(widths, array.shape, strict=True)
        ):
            return _pad_with_own(array, widths, _BORDERS[mode])
        for k, (lo, hi) in enumerate(widths):
            which = np.pad(np.arange(array.shape[k]), (lo, hi), mode=mode)
            array = array[(slice(None),) * k + (which,)]
        return array
    if mode == "constant":
        options["constant_values"] = values
    return call_numpy(np.pad, (given, pad_width), {"mode": mode, **options})


@memoized
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return a diagonal of a matrix, or a matrix with the given diagonal.

    A diagonal of a matrix is a view. `k` is the diagonal's offset.

    Examples
    --------
    >>> wf.diag([1, 2])
    array([[1, 0],
           [0, 2]])
    >>> wf.diag([[1, 2], [3, 4]])
    array([1, 4])
    """
    array, k = asarray(v), operator.index(k)
    if array.ndim == 2:
        return diagonal(array, k)
    if array.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = array.shape[0] + abs(k)
    entries = pad(array, (0, abs(k)))
    along = expand_dims(entries, 1 if k >= 0 else 0)
    return where(eye(n, k=k, dtype=bool, device=array.device), along, zeros((), array.dtype, device=array.device))
