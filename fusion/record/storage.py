"""Storages (the data of arrays) and epochs (recordings of operations).

A `Storage` is the shared state of aliasing arrays: its current version, as an expression while pending and as a buffer
once evaluated. An `Epoch` is one thread's recording between two evaluations. The epoch binds leaves to numbered slots,
so that every iteration of a program creates the same expressions and finds its cached plan. Invariant: an expression is
used only with the epoch whose slots it names. A storage that is pending in another epoch is evaluated before the
current epoch uses it.

Thread switches occur between calls, but not between attribute accesses without a call. The attributes `buffer`, `expr`
and `epoch` of a storage change together. A thread that changes them first checks that they have not changed since it
read them (`recording.assign`).
"""

from __future__ import annotations

import threading
from _thread import RLock  # (the C implementation of threading.RLock, since every epoch needs one)
from itertools import count
from sys import getrefcount
from typing import Any

import numpy as np

from weft.fusion.graph.expr import INTERNED, Expr, Location, leaf, scalar, to_number
from weft.fusion.record.by_value import MOST_BYTES, ValueBuffer
from weft.fusion.record.loops import Site, site_of
from weft.runtime import IMMEDIATE, Buffer, Device, DeviceMismatchError, default_device

# Recording is cut at the head of a loop (`loops.py`) if at least SOFT_LIMIT operations are pending. It is cut anywhere
# if there are HARD_LIMIT operations, or if the leaves hold more than HELD_BYTES.
SOFT_LIMIT = 256
# Limit if iterations differ in their array lengths or reduce large arrays to numbers, or if no plan is found for a long
# time. Long programs of such iterations are never equal, but short programs find their plans again (`plan_cache.py`).
SHORT_LIMIT = 16
# Limit if these short programs also have too many forms: each iteration is then a separate recording.
TURN_LIMIT = 2
HARD_LIMIT = 2048
HELD_BYTES = 1 << 30
# Number of consecutive small operations beside large pending arrays after which the arrays are evaluated, and later
# operations run immediately. It exceeds the number of boundary updates in a time step with several fields.
SMALL_RUN = 16


class Storage:
    """The data of an array and of all its views.

    The elements are in `buffer` or `host`, or they are the pending value of `expr`.
    """

    __slots__ = ("__weakref__", "buffer", "device", "dtype", "epoch", "exporter", "expr", "host", "shape", "value")
    # The elements in host memory, if other code shares them, or if the array is small and its device has other memory.
    # There is no buffer then.
    host: np.ndarray | None
    # for memory of a small NumPy array that is shared: the array that other code's arrays have as their base, and how
    # often the storage itself refers to that array
    exporter: tuple[np.ndarray, int] | None
    value: ValueBuffer | None  # the elements that kernels last took by value

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        device: Device,
        buffer: Buffer | None = None,
        expr: Expr | None = None,
        epoch: Epoch | None = None,
    ) -> None:
        self.shape = shape  # (of the whole storage, in C order)
        self.dtype = dtype
        self.device = device
        self.buffer = buffer  # the elements, after an evaluation and until a later version is pending
        self.host = None
        self.expr = expr  # the current version, in terms of the slots of `epoch`
        self.epoch = epoch

    def __getattr__(self, name: str) -> None:
        if name in ("host", "exporter", "value"):  # (unset in storages that native code or recording creates)
            return None
        raise AttributeError(name)


_numbers = count()


# Source line -> maximum length of recordings that begin there. Bounded.
limits: dict[Site, int] = {}
LIMITS_LIMIT = 10_000


# Stages of an evaluation. From OVERWRITING on, the evaluation cannot be restarted.
IDLE, EVALUATING, OVERWRITING = range(3)


class Epoch:
    """A recording of array operations. It contains the input buffers of these operations, and the arrays whose values are still pending."""

    __slots__ = (
        "asides",
        "bytes_held",
        "device",
        "ended",
        "examined",
        "first",
        "followed",
        "head",
        "history",
        "limit",
        "lock",
        "look",
        "number",
        "pending",
        "results",
        "slot_of",
        "slots",
        "soft",
        "stage",
        "taken",
        "withdrawn",
    )

    def __init__(self, device: Device, before: Epoch | None = None) -> None:
        """Begin a recording on a device. It shares the lock of `before`, an earlier recording, or gets a new lock if `before` is None."""
        self.device = device
        self.number = next(_numbers)
        self.slots: list[Any] = []  # Buffer, or a scalar that is bound to a slot
        self.slot_of: dict[int, int] = {}  # id of a bound buffer -> its slot
        self.pending: list[Storage | Expr] = []  # storages recorded here, and expressions of updates of a storage
        self.results: dict[Expr, Expr] = {}  # value evaluated here -> the leaf that holds it
        self.followed: Device | None = None  # the device of a recording on another device that this recording ended
        self.first: Location | None = None  # call site at which the recording began
        # number of operations at which the recording is cut, or searched for a loop
        self.soft = self.look = SOFT_LIMIT
        # number of operations below which the recording is not examined
        self.limit = min(SMALL_RUN, SOFT_LIMIT) if IMMEDIATE[0] and device.name == "cpu" else SOFT_LIMIT
        self.examined = SMALL_RUN // 2  # number of operations at the last search for a run of small operations
        self.head: Site | None = None  # the line at which the recording is cut
        # visits to lines in the preceding recordings whose programs were unknown
        self.history: list[Site | None] = []
        self.taken: set[Expr] = set()  # expressions of this recording that may be operands
        self.bytes_held = 0
        self.asides = 0  # number of evaluations after which recording continued here
        self.ended = False  # whether nothing more may be recorded here
        self.stage = IDLE  # stage of the epoch's evaluation
        self.withdrawn = 0  # number of items that evaluations outside the recording have removed from `pending`
        self.lock: RLock = RLock() if before is None else before.lock

    def begin(self, where: Location | None) -> None:
        """Set the call site of the first operation, and apply the maximum length, if any, for recordings that begin at this source line."""
        self.first = where
        if limits and where is not None:
            site = site_of(where)
            known = limits.get(site)
            if known is not None:
                self.head, self.soft, self.look = site, min(known, SOFT_LIMIT), 2 * SOFT_LIMIT
                self.limit = min(self.limit, self.soft)

    def bind(self, buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype) -> Expr:
        """Store a buffer in the recording's buffer table, and return the expression that reads it."""
        slot_of, number = self.slot_of, id(buffer)
        slot = slot_of.get(number)
        if slot is None:
            buffer.unwritten = None  # recorded operations may write to it
            slots = self.slots
            slots.append(buffer)
            slot = len(slots) - 1
            while slots[slot] is not buffer:  # (another thread that evaluates this epoch may append too)
                slot -= 1
            slot = slot_of.setdefault(number, slot)
            self.bytes_held += buffer.nbytes
            # (its elements change: the next snapshot gets another slot)
            if type(buffer) is ValueBuffer and buffer.steady:
                self.bytes_held += HELD_BYTES // MOST_BYTES * buffer.capacity
                self.limit = self.limit if self.bytes_held < HELD_BYTES else 0
        device, given = self.device.name, buffer.capacity
        key = (slot, device, shape, dtype, given) if given else (slot, device, shape, dtype)
        node = INTERNED.get(key) or leaf(slot, shape, dtype, device, given)
        self.taken.add(node)
        return node

    def bind_scalar(self, value: object, dtype: np.dtype) -> Expr:
        """Store a scalar in the recording's buffer table, and return the 0-d expression that reads it."""
        number = to_number(value, dtype.type)
        slots = self.slots
        slots.append(number)
        slot = len(slots) - 1
        while slots[slot] is not number:
            slot -= 1
        node = scalar(slot, dtype)
        self.taken.add(node)
        return node

    def check(self, expr: Expr) -> None:
        """Raise RuntimeError if an expression belongs to a recording that has ended.

        Raises DeviceMismatchError if recording has changed to another device within the operation.
        """
        taken = self.taken
        waiting, seen = [expr], {expr}
        while waiting:
            node = waiting.pop()
            if node in taken:
                continue
            if node.kind in ("leaf", "scalar"):
                if self.followed is not None:
                    here, there = self.device.name, self.followed.name
                    raise DeviceMismatchError(
                        f"an operation of arrays on {here} and {there}: move one, for example with .to({here!r})"
                    )
                raise RuntimeError(
                    f"{expr!r} belongs to a recording that has ended: recording was cut within an operation"
                )
            new = [child for child in node.operands if child not in seen]
            seen.update(new)
            waiting += new
        taken |= seen

    def forget(self) -> None:
        """End a recording that has no pending work, and release its buffers."""
        self.ended = True
        self.slots, self.slot_of, self.results = [], {}, {}

    def release_if_ended(self) -> bool:
        """Release the buffers of an ended recording if its pending values are not referenced.

        Return whether `forget` was called. It is not called during an evaluation of the epoch.
        """
        if not self.ended or not self.slots or not self.lock.acquire(blocking=False):
            return False
        try:
            if self.stage != IDLE or self.live():
                return False
            self.pending = []
            self.forget()
            return True
        finally:
            self.lock.release()

    def live(self, among: list[Storage | Expr] | None = None) -> list[Storage]:
        """Return the pending storages that the program still references.

        Only the storages in `among` are considered, by default all of `pending`.
        """
        listed, count = (self.pending, _UNREFERENCED) if among is None else (among, _UNREFERENCED + 1)
        return [
            s for s in listed if type(s) is Storage and s.epoch is self and s.buffer is None and getrefcount(s) > count
        ]

    def drop_unreferenced(self, begin: int) -> None:
        """Remove each pending value that the user's program no longer references. Only values at index `begin` or later are removed.

        The memo of recorded calls uses this to drop the intermediate values of a call, and `fill_memory` to drop its
        storage. Nothing is removed during an evaluation.
        """
        if self.lock.acquire(blocking=False):
            try:
                if self.stage == IDLE:
                    self.pending[begin:] = self.live(self.pending[begin:])
            finally:
                self.lock.release()


def bind(storage: Storage, buffer: Buffer, epoch: Epoch) -> Expr:
    """Make an array's buffer an input of the recording, and return the expression that represents this input."""
    node = epoch.bind(buffer, storage.shape, storage.dtype)
    before = storage.epoch  # (a reference, so that nothing is deleted in the next three lines)
    if storage.buffer is buffer:
        storage.expr = node
        storage.epoch = epoch
    del before
    return node


class Recording(threading.local):
    """A thread's current recording and its state."""

    epoch: Epoch | None = None
    held = False  # whether an operation is running that must not be cut
    interrupted: tuple[Epoch | None] | None = None  # epoch set aside by the garbage collector


recording = Recording()


def current_epoch(device: Device | None = None) -> Epoch:
    """Return this thread's recording on `device` (None: the default device). If there is none, begin one."""
    epoch = recording.epoch
    if device is None:
        device = default_device()
    if epoch is None or epoch.device is not device:
        before = epoch
        epoch = recording.epoch = Epoch(device)
        if before is not None:
            before.ended, epoch.followed = True, before.device
    return epoch


def _count_unreferenced() -> int:
    """Return what `getrefcount` reports for a `Storage` object that the user's program does not reference. Only the pending list refers to it."""
    (found,) = [getrefcount(s) for s in [Storage((), np.dtype(bool), None)]]  # type: ignore[arg-type]
    return found


_UNREFERENCED = _count_unreferenced()


def references(held: list[Any], k: int) -> int:
    """Return the number of references to element `k` of a list, including the list's own reference."""
    return getrefcount(held[k]) - _OWN


_OWN = 0
_OWN = references([object()], 0) - 1  # references of the call itself
