"""Host memory that a storage of the CPU shares with other code, which may read and write it at any time.

In: a storage, and memory. Out: the storage with its elements in `Storage.host`. Invariant: a recorded operation reads
a copy that was made when it was recorded, and a write is done immediately. Each side therefore sees the writes of the
other, in the order of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from sys import getrefcount
from weakref import WeakKeyDictionary, ref

import numpy as np

from weft.fusion.graph.expr import Expr
from weft.fusion.record.storage import Epoch, Storage
from weft.runtime import Buffer


class SharedMemory:
    """Owner of memory that is shared. NumPy arrays and buffers over the memory keep this object alive."""

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
        """Return a NumPy array over the memory. Strides and offset are in bytes."""
        return np.ndarray(shape, dtype, np.asarray(self), offset, strides)


# Storage -> its shared memory, and the owner of the memory. The owner is held weakly while other code has it, or
# permanently.
_shared: WeakKeyDictionary[Storage, tuple[Buffer, ref[SharedMemory] | SharedMemory]] = WeakKeyDictionary()


def lend(storage: Storage, values: np.ndarray) -> np.ndarray:
    """Share the memory of an evaluated storage. `values` is the C-contiguous array over this memory.

    The memory stays shared while other code has arrays whose base is the result. This takes a fraction of the time of
    `share`.
    """
    lender = np.frombuffer(memoryview(values), np.uint8)  # type: ignore[arg-type]
    storage.lender = lender, 0
    storage.host = values
    storage.buffer = storage.epoch = storage.expr = None
    return lender


def lend_owner(storage: Storage, values: np.ndarray) -> np.ndarray:
    """Mark a new storage's memory as shared.

    Other code also holds `values`, the C-contiguous array that owns the memory. Return the array through which the
    storage uses the memory. The memory stays shared while other code has `values`.
    """
    # (Of the arrays over a memoryview, only the memoryview itself refers to `values`.)
    memory = memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    storage.host = np.frombuffer(memory, np.uint8)
    storage.lender = values, 1
    return np.ndarray(values.shape, values.dtype, storage.host)


def lender_of(storage: Storage) -> np.ndarray | None:
    """Return the base of the arrays that use a storage's memory if `lend` has shared the memory, otherwise None."""
    return storage.lender[0] if storage.lender is not None else None


def _find_lent(storage: Storage) -> SharedMemory | None:
    """Return an owner of the memory that `lend` has shared.

    If only the storage uses it, end the sharing and return None.
    """
    values = storage.host
    if storage.lender is None or values is None:
        return None
    lender, own = storage.lender
    buffer = Buffer(storage.device, lender.ctypes.data, values.nbytes, values)
    if getrefcount(lender) > _UNLENT + own:
        buffer._owner = lender
        return SharedMemory(buffer)
    buffer.values = values
    storage.buffer, storage.host = buffer, None
    storage.lender = None
    return None


def _count_unlent() -> int:
    """Return the reference count of an array that only its storage references, as `_find_lent` counts it."""
    held = np.empty(0), 0
    lender, _ = held
    return getrefcount(lender)


_UNLENT = _count_unlent()


def find_shared(storage: Storage) -> SharedMemory | None:
    """Return the owner of a storage's shared memory, or None. The memory stays shared as long as the owner exists."""
    if storage.host is None:
        return None
    if (entry := _shared.get(storage)) is None:
        return _find_lent(storage)
    owner = entry[1]
    if isinstance(owner, SharedMemory):
        return owner
    alive = owner()
    if alive is None:
        _take_back(storage, owner)
    return alive


def _take_back(storage: Storage, owner: ref[SharedMemory]) -> None:
    """End the sharing of a storage's memory after `owner` has been deleted."""
    entry = _shared.get(storage)
    if entry is not None and entry[1] is owner:
        storage.buffer = entry[0]
        storage.host = None
        del _shared[storage]


def share(storage: Storage, buffer: Buffer) -> SharedMemory:
    """Share the memory of an evaluated storage with other code until the returned object is deleted."""
    owner, held = SharedMemory(buffer), ref(storage)

    def released(owner: ref[SharedMemory]) -> None:
        if (storage := held()) is not None:
            _take_back(storage, owner)

    _shared[storage] = buffer, ref(owner, released)
    memory = (ctypes.c_char * buffer.nbytes).from_address(buffer.address)
    storage.host = np.frombuffer(memory, np.uint8, prod(storage.shape) * storage.dtype.itemsize)  # type: ignore[call-overload]
    storage.buffer = storage.epoch = storage.expr = None
    return owner


def keep_shared(storage: Storage, owner: SharedMemory) -> None:
    """Keep the memory of a storage shared until the storage is deleted."""
    _shared[storage] = owner.buffer, owner


def copy_shared(storage: Storage, owner: SharedMemory) -> Buffer:
    """Return a copy of the present elements of a storage with shared memory."""
    source = owner.buffer
    copy = storage.device.allocate(source.nbytes)
    storage.device.copy(source, copy, source.nbytes)
    return copy


def write_shared(
    storage: Storage,
    owner: SharedMemory,
    epoch: Epoch,
    make: Callable[[Expr], Expr],
    evaluate: Callable[[Expr, Epoch], Buffer],
) -> tuple[Expr, Expr]:
    """Write the result of `make` to shared memory immediately. Return the old and the new version."""
    previous = epoch.bind(copy_shared(storage, owner), storage.shape, storage.dtype)
    made = make(previous)
    epoch.check(made)
    storage.device.copy(evaluate(made, epoch), owner.buffer, owner.buffer.nbytes)
    return previous, made
