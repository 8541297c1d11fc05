"""Host memory that an array shares with other code.

Other code may read and write the memory at any time. In: a storage, and memory. Out: the storage with its elements in
`Storage.host`. Invariant: a recorded operation reads a copy that was made when it was recorded, and a write is done
immediately. Each side therefore sees the writes of the other, in the order of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from sys import getrefcount, is_finalizing
from weakref import WeakKeyDictionary, ref

import numpy as np

from weft.fusion.record.storage import Storage
from weft.runtime import Buffer


class SharedMemory:
    """Owner of shared memory, kept alive by the arrays and buffers over the memory."""

    __slots__ = ("__array_interface__", "__weakref__", "buffer")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "data": (buffer.address, False),
            "shape": (buffer.nbytes,),
            "typestr": "|u1",
        }

    def array(self, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
        """Return a NumPy array over the memory, with strides and offset in bytes."""
        return np.ndarray(shape, dtype, np.asarray(self), offset, strides)


# Storage -> its shared memory, and the owner of the memory. The owner is held weakly while other code has it, or
# permanently.
_shared: WeakKeyDictionary[Storage, tuple[Buffer, ref[SharedMemory] | SharedMemory]] = WeakKeyDictionary()


def export_memory(storage: Storage, values: np.ndarray) -> np.ndarray:
    """Share the memory of an evaluated storage with other code.

    Return an array over the memory. `values` is a C-contiguous array over the memory. The memory stays shared while
    other code has arrays whose base is the result. This function takes a fraction of the time that `share` takes.
    """
    # (a memoryview cannot describe bfloat16)
    known = values if values.dtype.isbuiltin == 1 else values.reshape(-1).view(np.uint8)
    exporter = np.frombuffer(memoryview(known), np.uint8)  # type: ignore[arg-type]
    storage.exporter = exporter, 0
    storage.host = values
    storage.buffer = storage.epoch = storage.expr = None
    return exporter


def export_owner(storage: Storage, values: np.ndarray) -> np.ndarray:
    """Mark a new storage's memory as shared.

    Other code also holds `values`, the array in C or Fortran order that owns the memory. Return the array through which
    the storage uses the memory. The memory stays shared while other code has `values`.
    """
    # (Of the arrays over a memoryview, only the memoryview itself refers to `values`.)
    memory = memoryview(values.ravel("K").view(np.uint8))  # type: ignore[arg-type]
    storage.host = np.frombuffer(memory, np.uint8)
    storage.exporter = values, 1
    return np.ndarray(values.shape, values.dtype, storage.host, strides=values.strides)


def exporter_of(storage: Storage) -> np.ndarray | None:
    """Return the NumPy array through which a storage's memory was exported, or None."""
    return storage.exporter[0] if storage.exporter is not None else None


def _find_exported(storage: Storage) -> SharedMemory | None:
    """Return the owner of a storage's exported memory, or None if no other code uses the memory.

    If only the storage uses the memory, end the sharing and return None.
    """
    values = storage.host
    if storage.exporter is None or values is None:
        return None
    exporter, own = storage.exporter
    buffer = Buffer(storage.device, exporter.ctypes.data, values.nbytes, values)
    if getrefcount(exporter) > _UNEXPORTED + own:
        buffer._owner = exporter
        return SharedMemory(buffer)
    buffer.values = values
    storage.buffer, storage.host = buffer, None
    storage.exporter = None
    return None


def _count_unexported() -> int:
    """Measure the reference count of an array that only one `Storage` refers to. A larger count shows that other code uses an array."""
    held = np.empty(0), 0
    exporter, _ = held
    return getrefcount(exporter)


_UNEXPORTED = _count_unexported()


def find_shared(storage: Storage) -> SharedMemory | None:
    """Return the owner of a storage's shared memory, or None if the memory is not shared."""
    if storage.host is None:
        return None
    if (entry := _shared.get(storage)) is None:
        return _find_exported(storage)
    owner = entry[1]
    if isinstance(owner, SharedMemory):
        return owner
    alive = owner()
    if alive is None:
        _take_back(storage, owner)
    return alive


def _take_back(storage: Storage, owner: ref[SharedMemory]) -> None:
    """Make a storage the exclusive user of its memory again, once no other code holds the memory.

    `owner` is the weak reference to the deleted `SharedMemory` object. If the memory has another owner, nothing changes.
    """
    entry = _shared.get(storage)
    if entry is not None and entry[1] is owner:
        storage.buffer = entry[0]
        storage.host = None
        del _shared[storage]


def share(storage: Storage, buffer: Buffer) -> SharedMemory:
    """Share the memory of an evaluated storage with other code until the returned object is deleted."""
    owner, held = SharedMemory(buffer), ref(storage)

    # (When the interpreter exits, module globals may already be None.)
    def released(owner: ref[SharedMemory], exiting: Callable[[], bool] = is_finalizing) -> None:
        if not exiting() and (storage := held()) is not None:
            _take_back(storage, owner)

    _shared[storage] = buffer, ref(owner, released)
    memory = (ctypes.c_char * buffer.nbytes).from_address(buffer.address)
    storage.host = np.frombuffer(memory, np.uint8, prod(storage.shape) * storage.dtype.itemsize)  # type: ignore[call-overload]
    storage.buffer = storage.epoch = storage.expr = None
    return owner


def keep_shared(storage: Storage, owner: SharedMemory) -> None:
    """Let NumPy arrays use the memory of a storage until the storage is deleted."""
    _shared[storage] = owner.buffer, owner


def copy_buffer(source: Buffer) -> Buffer:
    """Return a copy of a buffer on the same device."""
    copy = source.device.allocate(source.nbytes)
    source.device.copy(source, copy, source.nbytes)
    return copy
