"""Sharing of arrays between processes with CUDA IPC.

In: an array. Out: an `IpcArrayHandle`, which can be sent to another process and opened there. `open_ipc_array` opens
a raw handle. Invariant: each process sees what kernels and copies of the other process write. The process that
allocated the memory keeps it alive. An assignment to such an array (``d[:] = x``) may move the array to other memory,
so use kernels or `copy_to_device` for writes.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import wrap
from weft.dsl.arrays.foreign_memory import byte_strides, extent_of, storage_over
from weft.dsl.arrays.validation import as_shape
from weft.dsl.cuda.memory_array import BYTE, MemoryArray, lacks_arithmetic, storage_of
from weft.fusion import Storage, exclusive
from weft.runtime import Buffer, default_device, get_device

_handles: weakref.WeakKeyDictionary[Buffer, bytes] = weakref.WeakKeyDictionary()  # of the shared buffers


class HandleBytes(bytes):
    """The bytes of a CUDA IPC handle, with the attribute `reserved` of CUDA's structure."""

    @property
    def reserved(self) -> bytes:
        """The bytes of the handle. In CUDA's structure `cudaIpcMemHandle_t`, the field with these bytes is named `reserved`."""
        return bytes(self)


@dataclass(eq=False, repr=False)
class IpcArrayHandle:
    """A picklable handle of an array's memory, which another process opens in a ``with`` statement.

    The process that created the handle must keep the array alive.
    """

    device: str
    handle: bytes
    nbytes: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    _opened: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.handle = HandleBytes(self.handle)

    @property
    def size(self) -> int:
        """Total size of the array's elements in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"<handle of a shared {self.dtype} array of shape {self.shape} on {self.device}>"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def open(self) -> Any:
        """Open the handle, and return an array over the shared memory.

        Raises ValueError if the handle is already open.
        """
        if self._opened is not None:
            raise ValueError("IpcHandle is already opened")
        device = get_device(self.device)
        buffer = device.open_shared(self.handle, self.nbytes)
        if not lacks_arithmetic(self.dtype):
            self._opened = wrap(*storage_over(device, buffer, self.dtype, self.shape, self.strides, self.offset))
        else:
            storage = Storage((self.nbytes,), BYTE, device, buffer)
            self._opened = MemoryArray(storage, self.dtype, self.shape, self.strides, self.offset)
        return self._opened

    def close(self) -> None:
        """Close the handle and release the array. Raises ValueError if the handle is not open."""
        if self._opened is None:
            raise ValueError("this handle is not open")
        get_device(self.device).synchronize()  # no other process waits for this process's work
        self._opened = None

    def __enter__(self) -> Any:
        return self.open()

    def __exit__(self, *error: Any) -> None:
        self.close()


def get_ipc_handle(self: Any) -> IpcArrayHandle:
    """Return a handle with which another process can open this array.

    If the array is not in shareable memory yet, it is moved there.

    Examples
    --------
    >>> handle = cuda.to_device(np.arange(3)).get_ipc_handle()
    >>> handle
    <handle of a shared int64 array of shape (3,) on cpu>
    """
    storage, offset = storage_of(self)
    handle = _handles.get(exclusive(storage)) or _move(storage)
    assert storage.buffer is not None
    storage.device.synchronize()  # the other process does not wait for this process's work
    return IpcArrayHandle(
        storage.device.name, handle, storage.buffer.nbytes, self.dtype, self.shape, self.strides, offset
    )


def _move(storage: Storage) -> bytes:
    """Move a storage to shareable memory, and return the memory's IPC handle as bytes."""
    assert storage.buffer is not None
    fresh, handle = storage.device.share(storage.buffer.nbytes)
    storage.device.copy(storage.buffer, fresh, storage.buffer.nbytes)
    storage.buffer = fresh
    _handles[fresh] = handle
    return handle


@contextmanager
def open_ipc_array(handle: Any, shape: Any, dtype: Any, strides: Any = None, offset: int = 0) -> Iterator[Any]:
    """Open another process's array in a ``with`` block, given the array's handle as bytes.

    Parameters
    ----------
    handle : bytes or sequence of int
    shape : int or tuple of int
    dtype
    strides : int or tuple of int, optional
        Strides in bytes. By default, the strides of an array in C order.
    offset : int
        Offset from the start of the memory, in bytes.

    Examples
    --------
    >>> x = cuda.to_device(np.arange(3))
    >>> handle = x.get_ipc_handle().handle
    >>> with cuda.open_ipc_array(handle, 3, np.int64) as y:
    ...     print(y.copy_to_host())
    [0 1 2]
    """
    lengths, kind = as_shape(shape), np.dtype(dtype)
    steps = byte_strides(lengths, kind.itemsize, strides, "C")
    nbytes = offset + extent_of(lengths, steps, kind.itemsize)
    opened = IpcArrayHandle(default_device().name, bytes(handle), nbytes, kind, lengths, steps, offset)
    with opened as array:
        yield array
