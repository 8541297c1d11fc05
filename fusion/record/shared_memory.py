"""Host memory that a storage of the CPU shares with other code, which may read and write it at any time.

In: a storage, and memory. Out: the storage with its elements in `Storage.host`. Invariant: a recorded operation reads
a copy that was made when it was recorded, and a write is done at once. So each side sees the writes of the other, in
the order of the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
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


# Storages with shared memory: the memory, and the object that lives as long as others have it, or None for ever.
_shared: WeakKeyDictionary[Storage, tuple[Buffer, Callable[[], SharedMemory | None] | None]] = WeakKeyDictionary()


def is_shared(storage: Storage) -> bool:
    """Return whether a storage's memory is shared. The memory is taken back from others that have let go of it."""
    if storage.host is None or storage.device.name != "cpu":
        return False
    buffer, alive = _shared[storage]
    if alive is None or alive() is not None:
        return True
    storage.buffer = buffer
    storage.host = None
    del _shared[storage]
    return False


def shared_buffer(storage: Storage) -> Buffer:
    """Return the shared memory of a storage, for direct writes."""
    return _shared[storage][0]


def share(storage: Storage, buffer: Buffer, for_ever: bool = False) -> SharedMemory:
    """Share the memory of an evaluated storage with other code, for as long as the result lives, or for ever."""
    owner = SharedMemory(buffer)
    _shared[storage] = buffer, None if for_ever else ref(owner)
    memory = (ctypes.c_char * buffer.nbytes).from_address(buffer.address)
    size = prod(storage.shape) * storage.dtype.itemsize
    storage.host = np.frombuffer(memory, np.uint8, size)
    storage.buffer = storage.epoch = storage.expr = None
    return owner


def keep_shared(storage: Storage) -> None:
    """Share a storage's shared memory for ever."""
    _shared[storage] = _shared[storage][0], None


def owner_of(storage: Storage) -> SharedMemory:
    """Return the owner of a storage's shared memory, through which others have it."""
    buffer, alive = _shared[storage]
    owner = None if alive is None else alive()
    if owner is None:
        owner = SharedMemory(buffer)
        if alive is not None:
            _shared[storage] = buffer, ref(owner)
    return owner


def copy_shared(storage: Storage) -> Buffer:
    """Return a copy of the present elements of a storage with shared memory."""
    source = shared_buffer(storage)
    copy = storage.device.allocate(source.nbytes)
    storage.device.copy(source, copy, source.nbytes)
    return copy


def write_shared(
    storage: Storage, epoch: Epoch, make: Callable[[Expr], Expr], evaluate: Callable[[Expr, Epoch], Buffer]
) -> tuple[Expr, Expr]:
    """Write the result of `make` to shared memory at once. Return the old and the new version."""
    previous = epoch.bind(copy_shared(storage), storage.shape, storage.dtype)
    made = make(previous)
    epoch.check(made)
    target = shared_buffer(storage)
    storage.device.copy(evaluate(made, epoch), target, target.nbytes)
    return previous, made
