"""Free lists of a memory pool, which hold deleted buffers for reuse.

There is one list per block size. One native call serves all requests of a plan.

In: the class of a pool's buffers, and the required values of their attributes. Out: buffers. Invariant: when a buffer
from a free list is deleted, it returns to this list or is destroyed by its class's ``__del__``. The byte counters are
those of the pool. The counters and the free lists themselves are never freed, because buffers may outlive all else.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from weft.runtime.cpu.free_list_code import (
    CLOSED,
    COUNTS,
    FUNCTIONS,
    KEEP,
    KEPT,
    MADE,
    MOST,
    PEAK,
    TAKE,
    TAKES,
    keep_text,
    take_text,
)
from weft.runtime.cpu.native import Builtin, check_objects, immortal, obtain_native, python_function
from weft.runtime.cpu.slots import slots_of
from weft.runtime.device import Buffer, BufferRequests
from weft.runtime.failures import try_compiling
from weft.runtime.fork_locks import renew_in_children

_python = ctypes.pythonapi
PATIENCE = 2  # number of the run that prepares free lists: many plans run only once, and would wait for native code
_NO_INSTANCES = 1 << 7  # Py_TPFLAGS_DISALLOW_INSTANTIATION
_TP_DEALLOC = 52


def _count(word: int, doc: str) -> Any:
    return property(lambda pool: pool.counts[word], doc=doc)


class Counted:
    """A memory pool whose counters can be updated by native code.

    Subclasses define the class of the pool's `buffers`, and the attribute values that `FreeLists` expects of them.

    Attributes
    ----------
    counts : array of int64
    limit : int or None
        The maximum number of bytes of all blocks, in use or free.
    free_lists : FreeLists or None
        The free lists of deleted buffers. They are created when a plan runs repeatedly.
    """

    buffers: type[Buffer]
    expected: Mapping[str, object] = {}

    def __init__(self, most_kept: int, lock: threading.RLock) -> None:
        self.counts = immortal(array("q", bytes(8 * COUNTS)))
        self.counts[MOST] = most_kept
        self._lock = lock
        renew_in_children(self)
        self.limit: int | None = None
        self.free_lists: FreeLists | None = None

    kept: int = _count(KEPT, "The total size of free blocks in bytes.")
    made: int = _count(MADE, "The total size of all blocks in bytes.")
    peak: int = _count(PEAK, "The maximum number of bytes that buffers have used at one time.")
    most_kept: int = _count(MOST, "The limit on the total size of free blocks in bytes.")

    @property
    def held(self) -> int:
        """The number of bytes in blocks that are not free, because buffers hold them."""
        return self.counts[MADE] - self.counts[KEPT]

    def note_peak(self) -> None:
        """Update the recorded peak of memory use."""
        held = self.counts[MADE] - self.counts[KEPT]
        if held > self.counts[PEAK]:
            self.counts[PEAK] = held

    def obtain_free_lists(self) -> FreeLists | None:
        """Return the free lists of the pool's buffers, or None if they cannot be created."""
        if self.free_lists is None:
            found = make_free_lists(self.buffers, self, self.expected)
            with self._lock:
                self.free_lists = self.free_lists or found
        return self.free_lists


class FreeLists:
    """The free lists of a memory pool.

    Parameters
    ----------
    base : type of Buffer
        The pool's class of buffers. Its ``__del__`` returns the memory of buffers that do not go on a free list.
    pool : Counted
    expected : mapping of str to object
        The attribute values that a buffer must have to go on a free list. They are compared by identity.

    Raises
    ------
    CompileError
        If the native functions cannot be compiled.
    """

    def __init__(self, base: type, pool: Counted, expected: Mapping[str, object]) -> None:
        check_objects()
        self._hidden = base.__basicsize__
        self._kind = native_kind(base)
        self._take = _taker().call
        at = slots_of(base)
        expects = [word for name, value in expected.items() for word in (at[name], id(value))]
        # in the order of `free_list_code`; the slot `device` comes last, because the device keeps the pool alive
        offsets = sorted(at.values(), key=lambda offset: offset == at["device"])
        named = [at[name] for name in ("unwritten", "origin", "nbytes", "_owner")]
        head = [_address(pool.counts), 0, id(self._kind), id(None), base.__weakrefoffset__, *named]
        words = [*head, len(expected), len(offsets), *map(python_function, FUNCTIONS), *expects, *offsets]
        self._store = immortal(array("q", words))
        self._lock = threading.RLock()
        renew_in_children(self)
        self._of: dict[int, int] = {}  # size of blocks -> address of their free list
        self._closed = _address(immortal(array("q", [0, 0, _address(self._store)])))

    def _free_list(self, size: int) -> int:
        found = self._of.get(size)
        if found is None:
            found = _address(immortal(array("q", [0, size, _address(self._store)])))
            found = self._of.setdefault(size, found)
        return found

    def make(self, size: int, *fields: Any) -> Buffer:
        """Return a new buffer in a block of `size` bytes.

        The buffer's deallocator puts the buffer on the free list for this size, or destroys it. `fields` are the
        arguments of the buffer's class.
        """
        buffer: Buffer = _generic_alloc(self._kind, 0)
        ctypes.c_int64.from_address(id(buffer) + self._hidden).value = self._free_list(size)
        buffer.__init__(*fields)  # type: ignore[misc]
        return buffer

    def take(self, size: int, nbytes: int) -> Buffer | None:
        """Return a buffer of `nbytes` bytes, whose memory is a block of `size` bytes from the free list for that size, or None if the list is empty."""
        found: list[Any] = [None]
        record = array("q", (1, 0, self._free_list(size), id(nbytes)))
        self._take(record.buffer_info()[0], found)
        return found[0]

    def prepare(self, requests: BufferRequests, sizes: Sequence[int | None]) -> None:
        """Prepare a plan's memory requests for one native call, `requests.call`.

        The call takes buffers from free lists. `sizes` are the block sizes of the requests, or None for requests that
        free lists do not serve.
        """
        words = array("q", [len(sizes)])
        for slot, size, nbytes in zip(requests.slots, sizes, requests.sizes, strict=True):
            words.extend((slot, self._closed if size is None else self._free_list(size), id(nbytes)))
        with self._lock:
            # (only once: other threads may already use the address)
            if requests.call is None:
                requests.words = words
                requests.address = _address(words)
                requests.call = self._take

    def clear(self) -> None:
        """Destroy all buffers on the free lists. This returns their blocks to the pool."""
        with self._lock:
            self._store[CLOSED] += 1
            try:
                for size in list(self._of):
                    while self.take(size, size) is not None:
                        pass
            finally:
                self._store[CLOSED] -= 1


def make_free_lists(base: type, pool: Counted, expected: Mapping[str, object]) -> FreeLists | None:
    """Return the `FreeLists` of a pool, or None if native code cannot be compiled."""
    instead = "Python allocates buffers one by one, which is slower"
    return try_compiling("native code for free lists", instead, lambda: FreeLists(base, pool, expected))


def allocate_for_plan(
    device: Any, table: list[Any], requests: BufferRequests, size_of: Callable[[int], int | None]
) -> None:
    """Allocate, one by one, the buffers of a plan that are missing in `table`.

    From the second run on, also prepare the plan's requests if possible, so that later runs take buffers from free
    lists in one native call.

    `size_of` maps requested bytes to a block size, or to None for requests that free lists do not serve.
    """
    requests.runs += 1
    if requests.runs >= PATIENCE and requests.call is None:
        free_lists = device.memory.obtain_free_lists()
        if free_lists is not None:
            free_lists.prepare(requests, [size_of(nbytes) for nbytes in requests.sizes])
    for slot, nbytes in zip(requests.slots, requests.sizes, strict=True):
        if table[slot] is None:
            table[slot] = device.allocate(nbytes)


@cache
def _taker() -> Builtin:
    return Builtin(TAKE, take_text(), [python_function(name) for name in TAKES])


def _address(words: array[int]) -> int:
    return words.buffer_info()[0]


# -- the type ---------------------------------------------------------------------------------------------


class _Slot(ctypes.Structure):
    """The PyType_Slot structure of Python's C API."""

    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    """The PyType_Spec structure of Python's C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


@cache
def native_kind(base: type) -> Any:
    """Return a subclass of `base` for reusable buffers, with a deallocator in native code."""
    keep = obtain_native(KEEP, keep_text(base.__basicsize__))
    slots = (_Slot * 2)(_Slot(_TP_DEALLOC, keep.address), _Slot(0, None))
    name = f"{base.__module__}.{base.__name__}".encode()
    spec = immortal(_Spec(name, base.__basicsize__ + 8, 0, _NO_INSTANCES, slots))
    make: Callable[..., Any] = _python.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object)  # type: ignore[attr-defined]
    return immortal(make(ctypes.addressof(spec), (base,)))


_generic_alloc = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t)(
    ("PyType_GenericAlloc", _python)
)


def kind_words(base: type) -> list[int]:
    """Return two integers for native code: the address of the class of reusable buffers, and the offset of the field `address` in a buffer."""
    return [id(native_kind(base)), slots_of(base)["address"]]
