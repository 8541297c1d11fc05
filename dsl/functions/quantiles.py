"""Medians, quantiles and percentiles on a GPU, computed from sorted rows.

In: an array, axes, and quantiles. Out: recorded arrays. Invariant: NumPy handles arrays in host memory, because NumPy
finds single elements without sorting the others. Functions that ignore NaNs record an operation that counts the
elements of each row that are not NaN, so that no array is evaluated.

The position of a quantile follows Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), with NumPy's
order of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft.codegen import dtype_kind, is_bfloat16
from weft.dsl.arrays.array import Array, expr_of
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.results import return_result
from weft.dsl.functions.along_axis import take_along_axis
from weft.dsl.functions.manipulation import expand_dims, moveaxis, reshape
from weft.dsl.functions.partitions import with_fast_partitions
from weft.dsl.functions.reductions import mean
from weft.dsl.functions.reductions import sum as sum_
from weft.dsl.functions.selection import where
from weft.dsl.functions.sorting import is_sorted_here, on_host, sort
from weft.runtime import device

# The parameters alpha and beta of Hyndman and Fan's position, ``n * q + alpha + q * (1 - alpha - beta)``.
_SHIFTS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_DISCRETE = frozenset({"lower", "higher", "nearest", "inverted_cdf", "closest_observation"})
_METHODS = frozenset({*_SHIFTS, *_DISCRETE, "linear", "midpoint", "averaged_inverted_cdf"})


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """Return the median along the given axes, like `numpy.median`.

    The median is NaN if an element is NaN.

    Examples
    --------
    >>> wf.median([1.0, 7.0, 3.0])
    np.float64(3.0)
    """
    if not is_sorted_here(a, None):
        return on_host(with_fast_partitions(np.median), a, axis, out, False, keepdims)
    with device(a.device):
        rows = _rows(a, axis)
        n = rows.shape[-1]
        found = _or_nan(rows, mean(rows[..., (n - 1) // 2 : n // 2 + 1], axis=-1))
        return _arrange_axes(found, a, axis, 0, keepdims, out)


def nanmedian(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False) -> Any:
    """Return the median of the elements that are not NaN, like `numpy.nanmedian`.

    Examples
    --------
    >>> wf.nanmedian([1.0, np.nan, 3.0])
    np.float64(2.0)
    """
    if not is_sorted_here(a, None, "iuf"):
        return on_host(with_fast_partitions(np.nanmedian), a, axis, out, False, keepdims=keepdims)
    with device(a.device):
        rows = _rows(a, axis)
        count = _count(rows)
        both = expand_dims(count, -1) + np.array([-1, 0])
        two = _at(rows, both // 2)
        found = where(count % 2 == 1, two[..., 0], mean(two, axis=-1))
        return _arrange_axes(found, a, axis, 0, keepdims, out)


def _quantiles(name: str, whole: int, numbers_only: bool) -> Callable[..., Any]:
    """Return weft's version of a NumPy quantile function.

    The values of `q` are from 0 to `whole`, which is 1 or 100. If `numbers_only` is true, NaNs are ignored.
    """

    def found(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = False,
        *,
        weights: Any = None,
    ) -> Any:
        here = is_sorted_here(a, None, "iuf") and not is_bfloat16(a.dtype)
        if weights is not None or not here or method not in _METHODS:
            theirs = with_fast_partitions(getattr(np, name))
            return on_host(theirs, a, q, axis, out, False, method, keepdims, weights=weights)
        shares = np.asarray(q)
        if whole != 1:
            shares = np.true_divide(shares, whole)
        elif shares.dtype.kind == "b":  # (NumPy treats bools as integers here)
            shares = shares.astype(np.int64)
        return _find(a, shares, axis, method, keepdims, out, type(q) in (int, float), numbers_only)

    return named(name, found)  # type: ignore[no-any-return]


quantile = _quantiles("quantile", 1, False)
percentile = _quantiles("percentile", 100, False)
nanquantile = _quantiles("nanquantile", 1, True)
nanpercentile = _quantiles("nanpercentile", 100, True)


# -- rows in order ------------------------------------------------------------------------------


def _rows(a: Array, axis: Any) -> Array:
    """Sort the elements along the given axes, and return them as rows.

    The last axis of the result replaces the given axes.
    """
    axes = normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim)
    kept = [n for k, n in enumerate(a.shape) if k not in axes]
    moved = moveaxis(a, axes, range(len(kept), a.ndim))
    return sort(reshape(moved, (*kept, -1)))


def _count(rows: Array) -> Any:
    """Return the number of non-NaN elements in each row."""
    return sum_(rows == rows, axis=-1, dtype=np.int64)


def _at(rows: Array, indices: Any) -> Array:
    """Return the elements at the given indices of each row, with indices clipped to the row."""
    inside = np.clip(indices, 0, rows.shape[-1] - 1).astype(np.int64)
    if isinstance(inside, Array):
        kept = rows.shape[:-1]
        return reshape(take_along_axis(rows, reshape(inside, (*kept, -1)), -1), inside.shape)
    return rows[..., inside if inside.ndim else int(inside)]


def _or_nan(rows: Array, found: Any) -> Any:
    """Replace the quantiles of each row that contains a NaN by NaN. The array `found` contains the quantiles."""
    if dtype_kind(rows.dtype) not in "fc":
        return found
    last = rows[..., -1]
    more = found.ndim - last.ndim
    last = reshape(last, last.shape + (1,) * more) if more else last
    return where(last != last, last, found)


def _arrange_axes(found: Any, a: Array, axis: Any, more: int, keepdims: Any, out: Any) -> Any:
    """Bring the axes of computed quantiles into NumPy's order, and then apply the arguments `keepdims` and `out`.

    The last `more` axes of `found` correspond to the requested quantiles. They are moved to the front.
    """
    kept = found.ndim - more
    if more and kept:
        found = moveaxis(found, range(kept, found.ndim), range(more))
    if keepdims and keepdims is not np._NoValue:
        axes = normalize_axis_tuple(range(a.ndim) if axis is None else axis, a.ndim)
        found = reshape(found, (*found.shape[:more], *(1 if k in axes else n for k, n in enumerate(a.shape))))
    return found if out is None else return_result("positive", expr_of(found), out, casting="unsafe")


# -- positions and interpolation -----------------------------------------------------------------------


def _find(
    a: Array, q: np.ndarray, axis: Any, method: str, keepdims: Any, out: Any, weak: bool, numbers_only: bool
) -> Any:
    """Compute quantiles of an array on a GPU.

    If `weak` is true, `q` is a Python scalar and does not affect the dtype.
    """
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError("Quantiles must be in the range [0, 1], percentiles in the range [0, 100]")
    with device(a.device):
        rows = _rows(a, axis)
        n: Any = rows.shape[-1]
        some_missing = numbers_only and dtype_kind(a.dtype) == "f"
        if some_missing:
            n = reshape(_count(rows), rows.shape[:-1] + (1,) * q.ndim)
            n = n if q.dtype.kind in "iu" else n.astype(q.dtype)
        if method in _DISCRETE or (method == "linear" and q.dtype.kind in "iu"):
            found = _at(rows, _nearest(n, q, method))
        else:
            below, above, share = _neighbours(n, q, method)
            kind = np.result_type(a.dtype, 0.5) if weak else None
            found = _between(_at(rows, below), _at(rows, above), share, kind)
        return _arrange_axes(found if some_missing else _or_nan(rows, found), a, axis, q.ndim, keepdims, out)


def _nearest(n: Any, q: np.ndarray, method: str) -> Any:
    """Return the indices of quantiles in sorted rows of `n` elements, without interpolation."""
    rounding: Any = {"lower": np.floor, "higher": np.ceil, "nearest": np.around, "linear": np.floor}.get(method)
    if rounding is not None:
        return rounding((n - 1) * q)
    even = method == "closest_observation"
    index = n * q - 1 - 0.5 if even else n * q - 1
    down = np.floor(index)
    is_exact = (index == down) & (down % 2 == 1) if even else index == down
    return np.where(is_exact, down, down + 1)


def _neighbours(n: Any, q: np.ndarray, method: str) -> tuple[Any, Any, Any]:
    """Find the two elements of a sorted row between which a quantile is interpolated. Return their indices, and the weight of the second element."""
    if method == "linear":
        position = (n - 1) * q
    elif method == "midpoint":
        position = 0.5 * (np.floor((n - 1) * q) + np.ceil((n - 1) * q))
    elif method == "averaged_inverted_cdf":
        position = n * q - 1
    else:
        low, high = _SHIFTS[method]
        position = n * q + (low + q * (1 - low - high)) - 1
    down, past, before = np.floor(position), position >= n - 1, position < 0
    share = position - np.where(past, -1, np.where(before, 0, down))  # (NumPy uses the index -1 for the last element)
    if method == "midpoint":
        share = np.where(position % 1 == 0, 0.0, 0.5)
    elif method == "averaged_inverted_cdf":
        share = np.where(share == 0, 0.5, 1.0)
    first = np.where(past, n - 1, np.where(before, 0, down))
    return first, np.where(past | before, first, down + 1), share.astype(position.dtype)


def _between(a: Array, b: Array, share: Any, kind: np.dtype | None) -> Any:
    """Interpolate linearly between `a` and `b`, with the weight `share` for `b`.

    The weights are cast to `kind` unless it is None.
    """

    def typed(weight: Any) -> Any:
        return weight if kind is None else weight.astype(kind)

    way, near_end = b - a, share >= 0.5
    if not np.ndim(near_end) and not isinstance(near_end, Array):
        return b - way * typed(1 - share) if near_end else a + way * typed(share)
    return where(near_end, b - way * typed(1 - share), a + way * typed(share))
