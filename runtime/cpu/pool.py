"""The worker threads of the CPU device.

They are native threads, which hold Python's GIL only while a kernel prints.

In: a kernel's entry, its slots, and the extent of its outermost loop. Out: the completed loop. Invariant: one job at
a time is divided among the workers. If a second thread has a job at that time, it runs the job alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from array import array
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

from weft.runtime.cpu import pool_code
from weft.runtime.cpu.loader import ENTRY, HostFunction, external_addresses
from weft.runtime.cpu.native import immortal, link_native
from weft.runtime.cpu.processors import move_away, processor

# Minimum number of elements for which another thread pays off.
GRAIN = 1 << 15
# Minimum number of bytes of a copy for which another thread pays off.
COPY_GRAIN = 1 << 19
# Number of chunks per thread. If a thread is delayed, other threads take over its chunks.
CHUNKS = 32
# Long chunks are multiples of this number of indices, so that two threads do not write to the same cache line.
ROUND = 64
# Maximum number of threads of a job.
MOST_PARTS = pool_code.MOST_PARTS

# Seconds that a thread spins for the next job before it sleeps. (A woken thread starts after 50 to 200 us, and operations
# on medium-sized arrays follow each other in about 100 us.)
LOOKING = 200e-6
# Nanoseconds after which a thread wakes the other threads for a job in short chunks. A shorter job ends sooner without
# the other threads.
ALONE = 50_000
# Number of spin iterations that are timed, and maximum number of spin iterations.
MEASURED, MOST_SPINS = 1000, 100_000

_RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4)
_PAUSE = ctypes.CFUNCTYPE(None, ctypes.c_int64)
# Synchronous signals, which must reach the thread that caused them.
_OF_THE_THREAD = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


class Entry(NamedTuple):
    """A native function that computes one part of a job, as a callable and as an address."""

    call: Callable[[int, int, int], None]
    address: int


class _Code(NamedTuple):
    """The native functions of the thread pool."""

    run: Any
    address: int
    thread: int
    copy: Entry
    pause: Any


class Workers:
    """The pool of worker threads of this process. A forked child gets its own pool."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()
        self._address = 0
        self._handles: list[int] = []
        self._avoided = -1  # the processor that the workers avoid
        self._tick = 0

    def split(
        self,
        function: HostFunction | Entry,
        slots: int,
        extent: int,
        parts: int,
        chunk: int,
        begun: list[Any] | None = None,
        alone: int = 0,
    ) -> None:
        """Run a kernel's loop over ``range(extent)`` in chunks on several threads.

        At most `parts` threads take part, including this thread.

        Sleeping workers are woken when the job has taken `alone` nanoseconds, which is checked between chunks.
        The last item of `begun` is incremented immediately before the kernel starts. No interrupt occurs in between.
        """
        address = self.enter(parts)
        try:
            run: Any = function.call
            arguments: tuple[int, ...] = (slots, 0, extent)
            if address:
                run, arguments = (
                    _code().run,
                    (address, function.address, slots, extent, chunk, min(parts, MOST_PARTS), alone),
                )
            if begun is not None:
                begun[-1] += 1
            run(*arguments)
        finally:
            if address:
                self.leave()

    def while_waiting(self, tick: int) -> None:
        """Set the function that threads call periodically while waiting for workers. The function takes pointers to a job's code and arguments."""
        self._tick = tick
        if self._address:
            ctypes.c_int64.from_address(self._address + pool_code.TICK).value = tick

    def enter(self, parts: int) -> int:
        """Reserve the pool until `leave` is called, and return its address.

        Return 0 if `parts` is less than 2, or if the pool is already reserved.
        """
        if parts < 2 or not self._lock.acquire(blocking=False):
            return 0
        try:
            if self._count < parts - 1 and self._count < MOST_PARTS - 1:
                self._grow(min(parts, MOST_PARTS) - 1)
            if (here := processor()) != self._avoided:
                self._avoided = here
                move_away(here, self._handles)
        except BaseException:
            self._lock.release()
            raise
        return self._address

    def leave(self) -> None:
        """Release the pool after `enter`."""
        self._lock.release()

    def _grow(self, wanted: int) -> None:
        if not self._address:
            self._address = _fresh_memory()
            self.while_waiting(self._tick)
        libc = ctypes.CDLL(None)
        thread = _code().thread
        # only threads that Python knows may handle signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OF_THE_THREAD)
        try:
            while self._count < wanted:
                number = self._count + 1
                line = self._address + pool_code.LINES + number * pool_code.LINE
                (ctypes.c_int64 * 2).from_address(line + 16)[:] = [self._address, number]
                handle = ctypes.c_void_p()
                if libc.pthread_create(ctypes.byref(handle), None, ctypes.c_void_p(thread), ctypes.c_void_p(line)):
                    return  # fewer threads than requested: the existing threads run all parts
                libc.pthread_detach(handle)
                self._handles.append(handle.value or 0)
                self._avoided = -1
                self._count = number
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def _code() -> _Code:
    """Return the native functions of the pool."""
    outside = external_addresses(pool_code.SYMBOLS)
    run, thread, copy, pause = link_native(pool_code.text(), outside, pool_code.ENTRIES)
    return _Code(_RUN(run), run, thread, Entry(ENTRY(copy), copy), _PAUSE(pause))


def copy_bytes(source: int, target: int, nbytes: int, parts: int) -> None:
    """Copy memory, with at most `parts` threads for a large copy."""
    parts = min(parts, nbytes // COPY_GRAIN)
    if parts < 2:
        ctypes.memmove(target, source, nbytes)
        return
    slots = array("q", (source, target))
    chunk = -(-nbytes // (parts * CHUNKS * COPY_GRAIN)) * COPY_GRAIN
    workers().split(_code().copy, slots.buffer_info()[0], nbytes, parts, chunk)


def _fresh_memory() -> int:
    """Allocate the memory of a pool that has no threads yet, and return its address."""
    size = pool_code.LINES + pool_code.MOST_PARTS * pool_code.LINE
    raw = ctypes.create_string_buffer(size + pool_code.LINE)
    immortal(raw)  # (workers may use it even during interpreter shutdown)
    address = -(-ctypes.addressof(raw) // pool_code.LINE) * pool_code.LINE
    libc = ctypes.CDLL(None)
    libc.pthread_mutex_init(ctypes.c_void_p(address + pool_code.MUTEX), None)
    for condition in (pool_code.START, pool_code.DONE):
        libc.pthread_cond_init(ctypes.c_void_p(address + condition), None)
    ctypes.c_int64.from_address(address + pool_code.SPINS).value = _count_spins()
    return address


@cache
def _count_spins() -> int:
    """Return the number of iterations of the spin loop in which a worker waits before it sleeps."""
    times = []
    for _ in range(3):
        begin = perf_counter()
        _code().pause(MEASURED)
        times.append(perf_counter() - begin)
    return max(MEASURED, min(MOST_SPINS, round(LOOKING / min(times) * MEASURED)))


def split_address() -> int:
    """Return the address of the native function that splits a loop into chunks and runs them on the pool's threads.

    The arguments of the function are a pool, an entry, the entry's slots, an extent, a chunk, the number of parts, and
    the nanoseconds after which sleeping workers are woken.
    """
    return _code().address


_workers = Workers()
os.register_at_fork(after_in_child=lambda: globals().update(_workers=Workers()))


def workers() -> Workers:
    """Return this process's thread pool, whose threads start on first use."""
    return _workers
