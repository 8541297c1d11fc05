"""Views, remembered: integers and slices as indices, other shapes, and what they show of an array.

In: an array and an index. Out: the view that it makes, or where its element lies, if the same index was taken apart before.
Always true: what an index of whole numbers and slices shows depends on the array's layout, and its storage's shape, alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from typing import Any

from weft.codegen import dtype_kind
from weft.dsl.array import Array, Scalar, View, scalar, wrap
from weft.dsl.scalars import NUMBER_OF, known, read
from weft.fusion import Storage, free_memory
from weft.runtime import Buffer

LIMIT = 20_000

# What is computed from up to so many elements, in up to so many operations, is computed at once when one of them is asked for.
FEW, OPERATIONS = 16, 64

# Elements of an array that are written one after the other from here on at once, in memory.
MANY = 8

WINDOWS: dict[Any, View | int | None] = {}


def key_of(array: Array, index: Any) -> Any:
    """What the index of this array is found again by; None where it is not a basic one."""
    key: list[Any] = [array._view, array._storage.shape]
    return tuple(key) if _describe(index, key) else None


def _describe(item: Any, key: list[Any], inside: bool = False) -> bool:
    """Append what an index, or what is inside of one, is known by."""
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
    """The view that an index makes (None: all of the storage), the offset of its element, or ``...`` if it was never met."""
    return WINDOWS.get(key, ...)


def remember_window(key: Any, found: View | int | None) -> None:
    """Let an index be found again."""
    if len(WINDOWS) >= LIMIT:
        WINDOWS.clear()
    WINDOWS[key] = found


def recalled_view(function: Callable[..., Array]) -> Callable[..., Array]:
    """Let the views that a function makes of an array by whole numbers, and tuples of them, be found again."""
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
    """Whether this is an int, or a tuple of them (a bool is equal to one, but none)."""
    kind = type(value)
    return kind is int or (kind is tuple and all(type(item) is int for item in value))


def read_element(storage: Storage, buffer: Buffer, offset: int) -> Array:
    """An element of a storage's memory on the host: read at once, which costs less than planning to copy it."""
    kind = NUMBER_OF.get(storage.dtype)
    size = storage.dtype.itemsize
    if kind is not None:
        return known(kind.from_address(buffer.address + offset * size).value, storage.device)
    own = storage.device.allocate(size)
    ctypes.memmove(own.address, buffer.address + offset * size, size)
    return scalar(Storage((), storage.dtype, storage.device, own))


def write_element(storage: Storage, offset: int, value: Any) -> bool:
    """Set an element of memory on the host at once, where nobody else needs what was there before; whether that was so.

    Where another thread began to write to the storage meanwhile, it may have a copy without the element: then it was not.
    """
    dtype = storage.dtype
    if type(value) is Scalar:
        value = read(value)
        if type(value) is float and dtype_kind(dtype) != "f":
            return False
    if type(value) not in (int, float, bool) or dtype_kind(dtype) not in "biuf":
        return False
    buffer = free_memory(storage)
    if buffer is None:
        return False
    ctypes.memmove(buffer.address + offset * dtype.itemsize, dtype.type(value).tobytes(), dtype.itemsize)
    return storage.buffer is buffer


def many_elements(storage: Storage) -> bool:
    """Whether the last things that were recorded of a storage on the host are writes to single elements."""
    node = storage.expr
    if storage.buffer is not None or storage.device.name != "cpu":
        return False
    for _ in range(MANY):
        if node is None or node.kind != "update" or node.attrs[0]:
            return False
        node = node.operands[0]
    return True


def is_soon_done(storage: Storage) -> bool:
    """Whether what is pending of a storage on the host is an operation or two on few elements, written into memory or into
    something new: a program that goes on with one of the elements is done with it sooner than with recording on."""
    root = storage.expr
    if storage.buffer is not None or storage.device.name != "cpu" or root is None:
        return False
    results = storage.epoch.results if storage.epoch is not None else {}
    waiting, seen = [root], 0
    while waiting:
        node = waiting.pop()
        seen += 1
        if node.kind in ("leaf", "scalar", "constant", "empty") or node in results:
            continue
        if seen > OPERATIONS:
            return False
        if node.kind not in ("update", "view") and any(n.size > FEW for n in (node, *node.operands)):
            return False
        waiting += node.operands
    return True
