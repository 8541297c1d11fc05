"""The order of an array's axes in memory, which elementwise operations preserve.

In: arrays. Out: the order of axes that NumPy chooses with ``order="K"``, and views with permuted axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, Scalar, View, convert, scalar, whole, wrap
from weft.fusion import contiguous_strides

Order = tuple[int, ...]


def memory_order(arrays: Sequence[Array]) -> Order | None:
    """Return the axis order of a result in memory as NumPy chooses it, or None for C order.

    An axis is moved inward past another if its stride is smaller in every array that has both. Other axes keep C order.
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
    shape, strides, offset = array._view or whole(array._storage)
    more = len(order) - len(shape)
    shape, strides = (1,) * more + shape, (0,) * more + strides
    return _view(array, (tuple([shape[k] for k in order]), tuple([strides[k] for k in order]), offset))


def unpermuted(array: Array, order: Order) -> Array:
    """Return a view of an array with its axes permuted by the inverse of `order`."""
    shape, strides, offset = array._view or whole(array._storage)
    inverse = [order.index(k) for k in range(len(order))]
    return _view(array, (tuple([shape[k] for k in inverse]), tuple([strides[k] for k in inverse]), offset))


def _view(array: Array, view: View) -> Array:
    storage = array._storage
    shape, strides, offset = view
    plain = not offset and shape == storage.shape and strides == contiguous_strides(shape)
    return wrap(storage, None if plain else view)


def reduce_array(array: Array) -> Any:
    """Implement pickling of an array, with its memory order."""
    return _restore, (np.array(array.numpy()), isinstance(array, Scalar))


def _restore(values: np.ndarray, is_scalar: bool = False) -> Array:
    order = _order_of((values.shape, values.strides))
    found = convert(values) if order is None else unpermuted(convert(values.transpose(order)), order)
    return scalar(found._storage) if is_scalar else found
