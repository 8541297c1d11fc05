"""NumPy arrays over the memory of weft arrays on the host.

In: an array. Out: a NumPy array over its elements, or None if they are pending or on another device. Invariant: the
view is used only while the storage has the memory from which the view was created. A later version of the storage has
different memory, or none yet.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from weft.fusion import Storage, contiguous_strides, end_small_run, export_owner, realise, release_memory
from weft.runtime import IMMEDIATE, Buffer, Device, address_of


def values_of(array: Any) -> np.ndarray | None:
    """Return a NumPy array over the elements of a weft array, or None if they are not in host memory.

    Before writing to the NumPy array, call `is_free`, and afterwards call `write_back`.
    """
    values: np.ndarray | None = array._values
    if values is not None:
        if array._device is not None:
            return values
        buffer = array._storage.buffer
        if buffer is not None:
            root = buffer.values
            if root is not None and (values is root or values.base is root):
                return values
    return _make_view(array)


def _make_view(array: Any) -> np.ndarray | None:
    """Create a NumPy view of an array in host memory, or return None for other arrays."""
    storage = array._storage
    buffer, dtype, size = storage.buffer, storage.dtype, prod(storage.shape)
    if (root := storage.host) is not None or storage.device.name != "cpu":
        if root is None:
            return None
        values = array._values
        if values is not None and (values is root or values.base is root):
            return values
    elif buffer is None or buffer.unwritten is not None:
        return None
    else:
        root = buffer.values
        if size and (root is None or root.nbytes < size * dtype.itemsize):
            memory = (ctypes.c_char * buffer.nbytes).from_address(buffer.address)
            root = buffer.values = np.frombuffer(memory, np.uint8)
        elif size and not root.flags.c_contiguous:  # (memory of a NumPy result in another order, without gaps)
            root = root.ravel("K")
    if not size:
        return np.empty(array.shape, dtype)
    if array._view is None:
        values = np.ndarray(storage.shape, dtype, root)
    else:
        shape, strides, offset = array._view
        width = dtype.itemsize
        values = np.ndarray(shape, dtype, root, offset * width, [step * width for step in strides])
        if overlaps(shape, strides):
            values.flags.writeable = False
    array._values = values
    return values


# C types by the character of the dtype, for reading scalars.
_NUMBERS: dict[str, Any] = {
    "?": ctypes.c_bool,
    **{np.dtype(kind).char: kind for kind in (ctypes.c_float, ctypes.c_double, ctypes.c_int32, ctypes.c_int64)},
}


def read_number(scalar: Any) -> Any:
    """Evaluate a scalar on the CPU and return its value, or return None for an unsupported scalar.

    The value is a NumPy scalar. The dtype must be bool, int32, int64, float32 or float64, and the scalar must have a
    storage and not be a view. This function takes less time than creating a NumPy view of the memory.
    """
    if scalar._device is not None or scalar._view is not None:
        return None
    storage = scalar._storage
    kind = _NUMBERS.get(storage.dtype.char)
    if kind is None or storage.device.name != "cpu":
        return None
    buffer = realise(storage)
    return storage.dtype.type(kind.from_address(buffer.address).value) if buffer.unwritten is None else None


def overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether elements of a layout may share memory, as in broadcast views."""
    if 0 in shape:
        return False
    if 0 in strides and max([n for n, s in zip(shape, strides, strict=True) if not s]) > 1:
        return True
    reach = 0
    for step, n in sorted([(abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1]):
        if step <= reach:
            return True
        reach += step * (n - 1)
    return False


def view_of(values: np.ndarray, storage: Storage) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """Return a NumPy view's shape, strides and offset in a storage, or None for the whole storage.

    Strides and offset are in elements.
    """
    width, base = values.itemsize, values.base
    offset = (address_of(values) - address_of(base)) // width if type(base) is np.ndarray else 0
    strides = tuple([step // width for step in values.strides])
    if not offset and values.shape == storage.shape and strides == contiguous_strides(storage.shape):
        return None
    return values.shape, strides, offset


def adopt(values: np.ndarray, device: Device) -> Storage:
    """Return a new storage over the memory of a C-contiguous NumPy array."""
    if device.name != "cpu":
        made = Storage(values.shape, values.dtype, device)
        made.host = values
        return made
    buffer = Buffer(device, address_of(values), values.nbytes, values)
    buffer.values = values
    return Storage(values.shape, values.dtype, device, buffer)


def make_storage(array: Any) -> Storage:
    """Return a new storage for an array that immediate execution has created without one.

    The storage of an array in Fortran order has the axes in reverse.
    """
    values, device = array._values, array._device
    in_order = values if values.flags.c_contiguous else values.T
    if not array._exported:
        storage = adopt(in_order, device)
        if storage.buffer is not None:
            storage.buffer.values = values
        return storage
    storage = Storage(in_order.shape, values.dtype, device)
    array._values = export_owner(storage, values)
    return storage


def view_of_storage(array: Any, seen: np.ndarray) -> np.ndarray:
    """Return a NumPy view of the array's current storage, with the layout of `seen`.

    (Other code may have a reference to the array's NumPy array. A view of that array would keep the memory shared.)
    """
    before = array._values
    offset = address_of(seen) - address_of(before)
    view: np.ndarray = np.ndarray(seen.shape, seen.dtype, array._storage.host, offset, seen.strides)
    view.flags.writeable = seen.flags.writeable
    return view


def stays_small(one: tuple[int, ...], other: tuple[int, ...], limit: int) -> bool:
    """Return whether the broadcast of two shapes has at most `limit` elements, assuming that the shapes are compatible."""
    if one == other or not other:  # (most calls)
        return prod(one) <= limit
    size = 1
    for n, m in zip((1,) * (len(other) - len(one)) + one, (1,) * (len(one) - len(other)) + other, strict=True):
        size *= max(n, m) if n and m else 0
    return size <= limit


def values_after_small_run(array: Any, operands: Iterable[Any] = ()) -> np.ndarray | None:
    """Return a weft array as a NumPy array in host memory. If its value is pending after a run of small operations, evaluate it first.

    Like `values_of`, return None if the elements are not in host memory. Pending work is evaluated by `end_small_run`,
    and only if the weft array is small. With `operands`, the result of an elementwise operation on them must be small too.
    """
    values, limit = values_of(array), IMMEDIATE[0]
    if values is None and array.size <= limit:
        if all(stays_small(array.shape, getattr(each, "shape", ()), limit) for each in operands) and end_small_run():
            return values_of(array)
    return values


def is_free(array: Any) -> bool:
    """Return whether an array's memory may be overwritten, because nothing else needs its elements."""
    if array._device is not None or getrefcount(array._storage.buffer) <= _UNSHARED:
        return True
    if array._storage.buffer is None:
        return array._storage.host is not None
    return release_memory(array._storage) and getrefcount(array._storage.buffer) <= _UNSHARED


def writable_values(array: Any) -> np.ndarray | None:
    """Return a NumPy array for writing to a weft array, or None if the array must not be overwritten in host memory.

    Call `write_back` afterwards.
    """
    values = values_of(array)
    return values if values is not None and values.flags.writeable and is_free(array) else None


def write_back(array: Any, values: np.ndarray) -> None:
    """After a write to a NumPy view, copy the view to its weft array if the array is no longer in host memory.

    Another thread may have moved the array to its device since the view was created.
    """
    if array._device is None and array._storage.host is None and array._storage.device.name != "cpu":
        array[...] = values.copy()


def _count_unshared() -> int:
    """Measure the reference count that `getrefcount` reports for an unshared buffer. The call itself may add references to the count.

    `is_free` compares a buffer's count with it.
    """

    class Held:
        _storage = Storage((), np.dtype(bool), None, Buffer(None, 0, 0))  # type: ignore[arg-type]

    return getrefcount(Held._storage.buffer)


_UNSHARED = _count_unshared()
