"""Views of arrays, with a memo of basic indices.

In: an array and an index. Out: the index's view or element offset, if the same index was resolved before. Invariant:
a basic index depends only on the array's layout and its storage's shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from weft.dsl.arrays.array import Array, ReadOnly, Scalar, View, expr_of, record, whole, wrap
from weft.fusion import contiguous_strides

LIMIT = 20_000

WINDOWS: dict[Any, View | int | None] = {}


def key_of(array: Array, index: Any) -> Any:
    """Return the memo key of an index of this array, or None if the index is not basic."""
    key: list[Any] = [array._view, array._storage.shape]
    return tuple(key) if _describe(index, key) else None


def _describe(item: Any, key: list[Any], inside: bool = False) -> bool:
    """Append an item of an index to a memo key. Return False if the item is not basic."""
    kind = type(item)
    if kind is int or item is None or item is Ellipsis:
        key += (kind, item)
        return True
    if kind is slice:
        start, stop, step = item.start, item.stop, item.step
        key += (slice, start, stop, step)
        return (
            (start is None or type(start) is int)
            and (stop is None or type(stop) is int)
            and (step is None or type(step) is int)
        )
    if kind is not tuple or inside:
        return False
    key += (tuple, len(item))
    for each in item:
        if not _describe(each, key, True):
            return False
    return True


def recall_window(key: Any) -> Any:
    """Return the memoized view or element offset of an index, or ``...`` on a miss.

    None is the view of the whole storage.
    """
    return WINDOWS.get(key, ...)


def remember_window(key: Any, found: View | int | None) -> None:
    """Memoize the view or element offset of an index."""
    if len(WINDOWS) >= LIMIT:
        WINDOWS.clear()
    WINDOWS[key] = found


def memoized_view(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a function that returns views: memoize them by the array and the integers (or tuples) passed with it."""
    name = function.__name__

    @wraps(function)
    def found_again(array: Any, *given: Any, **options: Any) -> Array:
        if type(array) is not Array or options or not all(map(_is_whole, given)):
            return function(array, *given, **options)
        storage = array._storage
        key = array._view, storage.shape, name, given
        found = recall_window(key)
        if found is not ...:
            return wrap(storage, found)
        made = function(array, *given)
        if type(made) is Array and made._storage is storage:
            remember_window(key, made._view)
        return made

    return found_again


def _is_whole(value: Any) -> bool:
    """Return whether a value is an int or a tuple of ints. A bool does not count as an int."""
    kind = type(value)
    return kind is int or (kind is tuple and all(type(item) is int for item in value))


def window(array: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
    """Return another view of an array's storage, or an array over the whole storage if the view covers it in C order.

    With axes, the view of a `Scalar` is a copy, since a scalar is immutable. Without axes, it is the scalar itself.
    """
    if type(array) is Scalar and not shape:
        return array
    storage = record(expr_of(array))._storage if type(array) is Scalar and shape else array._storage
    kind = ReadOnly if type(array) is ReadOnly else Array
    if not offset and shape == storage.shape and strides == contiguous_strides(shape):
        return wrap(storage, None, kind)
    return wrap(storage, (shape, strides, offset), kind)


def layout(array: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return an array's shape, strides in elements, and offset in its storage."""
    return array._view or whole(array._storage)


def lies_in_order(array: Array) -> bool:
    """Return whether the elements are C-contiguous, ignoring axes of length 1. True for empty arrays."""
    shape, strides, _ = layout(array)
    wanted = contiguous_strides(shape)
    return 0 in shape or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))
