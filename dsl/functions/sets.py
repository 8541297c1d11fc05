"""NumPy's `unique`, `isin` and `setdiff1d`, implemented by sorting on a GPU.

In: arrays. Out: recorded arrays. A length that depends on elements is evaluated immediately. Invariant: NumPy handles
arrays in host memory. The first of several equal values represents all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.masks import find_true
from weft.dsl.arrays.positions import rank
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.creation import asarray, empty, full
from weft.dsl.functions.joining import concatenate
from weft.dsl.functions.manipulation import moveaxis, ravel, reshape
from weft.dsl.functions.reductions import any as any_
from weft.dsl.functions.reductions import cumsum
from weft.dsl.functions.sorting import is_sorted_here, lexsort, on_host, order_along
from weft.fusion import gather, scatter
from weft.runtime import device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, ShapeLike

_FLAT = ((0, (), 0),)
# Maximum number of columns for which rows are sorted column by column.
MOST_COLUMNS = 64
# Minimum number of integers that the host sorts instead of using NumPy's hash table.
LEAST_SORTED = 256


# -- different values ---------------------------------------------------------------------------------


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: ShapeLike | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Return the sorted unique values, or the unique slices along an axis, like `numpy.unique`.

    The array is evaluated, because its elements determine the length of the result.

    Examples
    --------
    >>> values, counts = wf.unique([3, 1, 3], return_counts=True)
    >>> values
    array([1, 3])
    >>> counts
    array([1, 2])
    """
    rows = axis is not None and _are_rows(ar, axis)
    if not rows and (axis is not None or not is_sorted_here(ar, None)):
        if sorted and not (return_index or return_inverse or return_counts or axis is not None) and _sorts_faster(ar):
            return on_host(_unique_by_sorting, ar)
        options = {} if sorted else {"sorted": False}
        return on_host(np.unique, ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan, **options)
    axis_number = normalize_axis(axis, ar.ndim) if rows else 0
    along = moveaxis(ar, axis_number, 0) if rows else ravel(ar)
    with device(ar.device):
        values, order = _values_in_order(along, rows, return_index or return_inverse)
        following, before = values[1:], values[:-1]
        differ = following != before
        if rows:
            differ = any_(differ, axis=tuple(range(1, values.ndim)))
        elif equal_nan and ar.dtype.kind in "fc":
            differ = differ & (before == before)  # (all NaNs are treated as one value)
        begins = concatenate([np.ones(1, bool), differ])
        (first,) = find_true(begins)
        found = [values[first]]
        if rows:
            found[0] = moveaxis(found[0], 0, axis_number)
        if order is not None and return_index:
            found.append(order[first])
        if order is not None and return_inverse:
            found.append(_inverse(begins, order, order.shape if rows else ar.shape))
        if return_counts:
            found.append(np.diff(first, append=values.shape[0]))  # type: ignore[arg-type]
    return found[0] if len(found) == 1 else tuple(found)


def _sorts_faster(ar: Any) -> bool:
    """Return whether sorting finds the unique integers faster than NumPy's hash table."""
    dtype = getattr(ar, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize > 1 and ar.size >= LEAST_SORTED


def _unique_by_sorting(ar: np.ndarray) -> np.ndarray:
    """Return the sorted unique values of an integer array."""
    values = np.sort(ar, axis=None)
    return values[np.concatenate([[True], values[1:] != values[:-1]])]


def _are_rows(ar: Any, axis: ShapeLike | None) -> bool:
    """Return whether kernels can find the unique slices along an axis. The array must be on a GPU, and the slices must be short."""
    if not is_sorted_here(ar, None, "biuf") or not ar.ndim:
        return False
    n = ar.shape[normalize_axis(axis, ar.ndim)]
    return 0 < ar.size // n <= MOST_COLUMNS


def _values_in_order(values: Array, rows: bool, numbered: bool) -> tuple[Array, Array | None]:
    """Sort an array's elements or, if `rows` is true, its rows.

    Also return the original indices if `rows` or `numbered` is true, otherwise None in their place.
    """
    if not rows and not numbered:
        return order_along(values, 0, False, False), None
    if rows:
        flat = reshape(values, (values.shape[0], -1))
        order = lexsort([flat[:, k] for k in range(flat.shape[1] - 1, -1, -1)])
        return values[order], order
    order = order_along(values, 0, False, True)
    start()
    return record(gather(expr_of(values), [expr_of(order)], _FLAT, values.shape)), order


def _inverse(begins: Array, order: Array, shape: tuple[int, ...]) -> Array:
    """Return, for each element of an array, its index among the unique values."""
    number = cumsum(begins, dtype=np.int64) - 1
    start()
    node = scatter(expr_of(empty(order.shape, np.int64)), expr_of(number), [expr_of(order)], _FLAT, order.shape, "same")
    return reshape(record(node), shape)


# -- sets ---------------------------------------------------------------------------------------------


def isin(
    element: Any,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Any:
    """Test whether each element of an array occurs in another array, like `numpy.isin`.

    Examples
    --------
    >>> wf.isin([1, 2, 3], [2, 3])
    array([False,  True,  True])
    """
    if not is_sorted_here(element, None, "biuf") or kind not in (None, "sort"):
        return on_host(np.isin, element, test_elements, assume_unique, invert, kind=kind)
    with device(element.device):
        others = asarray(test_elements)
        if not others.size:
            return full(element.shape, invert)
        if others.dtype.kind not in "biuf" or not is_sorted_here(others, None):
            return on_host(np.isin, element, test_elements, assume_unique, invert, kind=kind)
        both, inside = np.result_type(element.dtype, others.dtype), None
        if both.kind == "f" and element.dtype.kind in "biu" and others.dtype.kind in "biu":  # (int64 and uint64)
            both = others.dtype
            inside = element >= 0 if both.kind == "u" else element <= np.iinfo(both).max
        marks = order_along(others, None, False, False).astype(both)
        values = element.astype(both)
        start()
        rank_of = rank(expr_of(marks), expr_of(values), "left", np.dtype(np.int64))
        rank_of = expr_of(record(rank_of).clip(0, others.size - 1))
        nearest = record(gather(expr_of(marks), [rank_of], _FLAT, values.shape))
        found = nearest == values if inside is None else (nearest == values) & inside
        return ~found if invert else found


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Any:
    """Return the unique values of one array that are not in another, like `numpy.setdiff1d`.

    The values are sorted. If `assume_unique` is true, they keep the order of the first array.

    Examples
    --------
    >>> wf.setdiff1d([1, 2, 3], [2])
    array([1, 3])
    """
    if not is_sorted_here(ar1, None, "biuf"):
        return on_host(np.setdiff1d, ar1, ar2, assume_unique)
    values = ravel(ar1) if assume_unique else unique(ar1)
    return values[isin(values, ar2, invert=True)]
