"""The order of axes in memory: results of elementwise work are laid out as their operands are, as NumPy's are (``order="K"``).

In: arrays that broadcast. Out: their axes from the one whose elements lie farthest apart to the nearest, views of the arrays with
their axes in this order, and a result of those with its axes back in place. Arrays in C order, the usual ones, cost a look at
their views.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.dsl.array import Array, View, whole, wrap
from weft.fusion import contiguous_strides

Order = tuple[int, ...]


def memory_order(arrays: Sequence[Array]) -> Order | None:
    """Return the axes of what arrays broadcast to, as NumPy's iterators order them; None for C order.

    An axis moves inside of another where its strides are shorter in each array that has both. In doubt, it is C order.
    """
    views = [array._view for array in arrays]
    if not any(views):
        return None
    rank = max(array.ndim for array in arrays)
    known = []
    for array, seen in zip(arrays, views, strict=True):
        shape, strides, _ = seen or whole(array._storage)
        own = [0 if n == 1 else abs(step) for n, step in zip(shape, strides, strict=True)]
        known.append([0] * (rank - len(own)) + own)
    order: list[int] = []  # from the nearest axis on
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


def turned(array: Array, order: Order) -> Array:
    """Return a view of an array, which may have fewer axes, with its axes in an order."""
    shape, strides, offset = array._view or whole(array._storage)
    more = len(order) - len(shape)
    shape, strides = (1,) * more + shape, (0,) * more + strides
    return _seen(array, (tuple([shape[k] for k in order]), tuple([strides[k] for k in order]), offset))


def turned_back(array: Array, order: Order) -> Array:
    """Return a view of an array, the axes of which are in an order, with its axes in place."""
    shape, strides, offset = array._view or whole(array._storage)
    places = [order.index(k) for k in range(len(order))]
    return _seen(array, (tuple([shape[k] for k in places]), tuple([strides[k] for k in places]), offset))


def _seen(array: Array, view: View) -> Array:
    storage = array._storage
    shape, strides, offset = view
    plain = not offset and shape == storage.shape and strides == contiguous_strides(shape)
    return wrap(storage, None if plain else view)
