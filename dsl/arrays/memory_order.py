"""The order of an array's axes in memory, which elementwise operations preserve.

In: arrays. Out: the order of axes that NumPy chooses with ``order="K"``, and views with permuted axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, Scalar, adopt_new, convert, layout, scalar, wrap_view
from weft.dsl.arrays.validation import check_order
from weft.dsl.arrays.windows import is_c_ordered
from weft.dsl.immediate.host_values import values_of
from weft.fusion import contiguous_strides
from weft.runtime import IMMEDIATE

Order = tuple[int, ...]


def memory_order(arrays: Sequence[Array]) -> Order | None:
    """Return the memory order of a result's axes, chosen as in NumPy, or None for C order.

    An axis moves inward past another if its stride is smaller in every array in which neither axis has length 1 or
    stride 0. Other axes keep C order.
    """
    views = [one._view for one in arrays]
    if not any(views):
        return None
    return _order_of(*[seen or (one._storage.shape,) for one, seen in zip(arrays, views, strict=True)])


@lru_cache(maxsize=4096)
def _order_of(*views: tuple[Any, ...]) -> Order | None:
    """Return the `memory_order` of views, each given as a shape and, optionally, strides."""
    rank = max(len(seen[0]) for seen in views)
    known = []
    for shape, *strided in views:
        strides = strided[0] if strided else contiguous_strides(shape)
        own = [0 if n == 1 else abs(step) for n, step in zip(shape, strides, strict=True)]
        known.append([0] * (rank - len(own)) + own)
    order: list[int] = []  # innermost axis first
    for axis in reversed(range(rank)):
        at = len(order)
        for k in reversed(range(len(order))):
            pairs = [(own[axis], own[order[k]]) for own in known if own[axis] and own[order[k]]]
            if not all(mine < theirs for mine, theirs in pairs):
                break
            at = k if pairs else at
        order.insert(at, axis)
    found = tuple(reversed(order))
    return None if found == tuple(range(rank)) else found


def permuted(array: Array, order: Order) -> Array:
    """Return a view with the axes permuted by `order`, after adding leading axes of length 1 as needed."""
    shape, strides, offset = layout(array)
    more = len(order) - len(shape)
    shape, strides = (1,) * more + shape, (0,) * more + strides
    return wrap_view(array._storage, (tuple([shape[k] for k in order]), tuple([strides[k] for k in order]), offset))


def unpermuted(array: Array, order: Order) -> Array:
    """Return a view of an array with its axes permuted by the inverse of `order`."""
    return permuted(array, tuple([order.index(k) for k in range(len(order))]))


def reduce_array(array: Array) -> Any:
    """Implement ``__reduce__``, so that pickling preserves an array's memory order."""
    return _restore, (np.array(array.numpy()), isinstance(array, Scalar))


def _restore(values: np.ndarray, is_scalar: bool = False) -> Array:
    order = _order_of((values.shape, values.strides))
    found = convert(values) if order is None else unpermuted(convert(values.transpose(order)), order)
    return scalar(found._storage) if is_scalar else found


def resolve_order(order: str, source: object) -> str:
    """Return the memory order `order`, with "A" resolved to "C" or "F" for a copy of `source`.

    "A" means "F" if `source` is in Fortran but not in C order, otherwise "C".
    """
    if order != "A":
        return order
    return "F" if getattr(getattr(source, "flags", None), "fnc", False) else "C"


def memory_axes(source: Any, order: str) -> tuple[int, ...] | None:
    """Return the axes of a new array from outermost to innermost in memory, or None for C order."""
    rank = source.ndim
    if order == "C" or rank < 2:
        return None
    order = resolve_order(order, source)
    seen = source._values if isinstance(source, Array) else source
    in_order = is_c_ordered(source) if seen is None else seen.flags.c_contiguous
    steps = source.strides if order == "K" and not in_order else ()
    axes = tuple(sorted(range(rank), key=lambda k: -abs(steps[k]))) if steps else tuple(range(rank))
    axes = axes[::-1] if order == "F" else axes
    return None if axes == tuple(range(rank)) else axes


def copy_in_order(values: Array, order: str) -> Array:
    """Copy an array to new memory in the requested order."""
    seen = values_of(values)
    if type(values) is Array and seen is not None and seen.size <= IMMEDIATE[0]:
        if (copied := seen.copy(order)).flags.forc:  # type: ignore[arg-type]
            VALUE_READS[0] += 1
            return adopt_new(copied, values.device)
    axes = memory_axes(values, order)
    return values.copy() if axes is None else unpermuted(permuted(values, axes).copy(), axes)


def in_order(values: Array, order: str | None, source: object = None) -> Array:
    """Return an array in a memory order, copied if necessary.

    "A" and "K" refer to the memory order of `source` or, if `source` has no strides, of the array itself.
    """
    order = check_order(order)
    if values.ndim < 2:
        return values if order in "AK" or is_c_ordered(values) else values.copy()
    like = source if order in "AK" and hasattr(source, "strides") else values
    axes = memory_axes(like, order)
    placed = values if axes is None else permuted(values, axes)
    return values if is_c_ordered(placed) else copy_in_order(values, "C" if axes is None else order)


def in_requested_order(found: Any, order: str, operands: Iterable[Any]) -> Any:
    """Return a result in the memory order that a call requests.

    "A" requests Fortran order if all operands with several axes are in Fortran order and not in C order, otherwise C
    order. "K" requests no other order.
    """
    if (order := check_order(order)) == "A":
        arrays = [value for value in operands if isinstance(value, Array) and value.ndim > 1]
        order = "F" if arrays and all(is_c_ordered(a.T) and not is_c_ordered(a) for a in arrays) else "C"
    return in_order(found, order) if order != "K" and isinstance(found, Array) else found
