"""Memory for somebody who writes to it directly: an explicit kernel, a copy, another library.

In: a storage. Out: its buffer, evaluated and its own. Always true: what was recorded before the call keeps the values
of that time, and no other storage changes when the buffer is written to.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from weft.fusion.evaluate import evaluate, evaluate_epoch
from weft.fusion.storage import Epoch, Storage, recording
from weft.runtime import Buffer


def flush() -> None:
    """Evaluate everything that is pending in this thread."""
    epoch = recording.epoch
    if epoch is not None:
        live = epoch.live()
        if live:
            evaluate_epoch(epoch, live)


def exclusive(storage: Storage) -> Buffer:
    """The buffer of `storage`, which nobody else refers to.

    What this thread recorded with it is evaluated first. Where another array or an exported view shares the memory,
    the storage gets a copy of its own.
    """
    if storage.buffer is None:
        evaluate([storage])
    assert storage.buffer is not None
    epoch = recording.epoch
    if epoch is not None and id(storage.buffer) in epoch.slot_of:
        flush()
        if recording.epoch is epoch:
            epoch.forget()
            recording.epoch = Epoch(epoch.device)
    storage.epoch = storage.expr = None
    if _references(storage) > _UNSHARED:
        old = storage.buffer
        fresh = storage.device.allocate(old.nbytes)
        storage.device.copy(old, fresh, old.nbytes)
        storage.buffer = fresh
    storage.buffer.unwritten = None  # whoever asks is about to write
    return storage.buffer


def is_free(storage: Storage) -> bool:
    """Whether the storage is in memory of the host that can be written to at once: nobody else refers to it, and nothing
    that is recorded needs what is in it."""
    epoch = recording.epoch
    return (
        storage.buffer is not None
        and storage.device.name == "cpu"
        and storage.buffer.unwritten is None
        and (epoch is None or id(storage.buffer) not in epoch.slot_of)
        and _references(storage) <= _UNSHARED
    )


def _references(storage: Storage) -> int:
    return getrefcount(storage.buffer)


def _count_unshared() -> int:
    """References to a buffer that only its storage holds, as `_references` counts them here."""
    return _references(Storage((), np.dtype(bool), None, Buffer(None, 0, 0)))  # type: ignore[arg-type]


_UNSHARED = _count_unshared()
