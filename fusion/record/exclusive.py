"""Unshared memory for direct writes by explicit kernels, copies and other libraries.

In: a storage. Out: its evaluated, unshared buffer. Invariant: expressions recorded before the call keep their values,
and a write to the buffer changes no other storage.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from weft.fusion.record.evaluate import evaluate_epoch, realise
from weft.fusion.record.shared_memory import SharedMemory, find_shared, share
from weft.fusion.record.storage import Epoch, Storage, recording
from weft.runtime import Buffer


def flush() -> None:
    """Evaluate all pending work of the current thread."""
    epoch = recording.epoch
    if epoch is not None:
        live = epoch.live()
        if live:
            evaluate_epoch(epoch, live)


def exclusive(storage: Storage) -> Buffer:
    """Return the buffer of `storage`. If other storages share the buffer, it is copied first.

    Pending work of this thread that uses the buffer is evaluated first. If another array or an exported view shares the
    memory, the storage gets a private copy. Memory that is shared with other code is returned as it is.
    """
    while True:
        if (owner := find_shared(storage)) is not None:
            return owner.buffer  # (what was recorded has copies)
        old = realise(storage)
        epoch = recording.epoch
        if epoch is not None and id(old) in epoch.slot_of:
            flush()
            if recording.epoch is epoch:
                epoch.forget()
                recording.epoch = Epoch(epoch.device)
        before = storage.epoch  # (a reference, so that nothing is deleted in the next three lines)
        if storage.buffer is not old:
            continue  # another thread has written to it
        storage.epoch = storage.expr = None
        del before
        if _references(old) > _UNSHARED:
            fresh = storage.device.allocate(old.nbytes)
            storage.device.copy(old, fresh, old.nbytes)
            if storage.buffer is not old:
                continue
            storage.buffer = fresh
            old = fresh
        old.unwritten = None  # the caller will write to it
        return old


def share_memory(storage: Storage) -> SharedMemory:
    """Let other code read and write the memory of a storage on the CPU, for as long as the result lives."""
    while (owner := find_shared(storage)) is None:
        buffer = exclusive(storage)
        if storage.buffer is buffer:
            return share(storage, buffer)
    return owner


def _references(buffer: Buffer) -> int:
    return getrefcount(buffer)


def _count_unshared() -> int:
    """Return the reference count in `_references` for a buffer that belongs to a single storage."""
    storage = Storage((), np.dtype(bool), None, Buffer(None, 0, 0))  # type: ignore[arg-type]
    buffer = storage.buffer
    return _references(buffer)  # type: ignore[arg-type]


_UNSHARED = _count_unshared()
