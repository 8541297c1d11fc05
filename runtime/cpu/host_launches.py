"""Launches of a single kernel, or of all kernels of a plan, on the CPU.

In: kernels, their work and their arguments. Out: the completed launches. Invariant: a kernel is divided into the same
chunks in both cases. A plan that runs once does not wait for the compilation of the native function.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from weft.runtime.cpu import host_launch_code as launch_code
from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.native import Builtin
from weft.runtime.cpu.pool import ALONE, CHUNKS, GRAIN, MOST_PARTS, ROUND, split_address, workers
from weft.runtime.failures import try_compiling
from weft.runtime.launches import Launch
from weft.runtime.settings import thread_count

# Minimum number of elements for which the GIL is released.
LET_GO = 1 << 12
# Number of instructions per element at which a thread needs only half as many elements. (In measurements, two threads
# pay off for jobs of at least 80 us.)
INSTRUCTIONS = 64
# Jobs below this multiple of the minimum work per thread may end before a sleeping thread has woken.
SHORT = 8
# Maximum number of arguments in one record. The arguments are on the stack while the record runs.
MOST_SLOTS = 1 << 13


def elements_of(function: HostFunction) -> int:
    """Return the minimum work per thread, as a number of array elements. If threads have fewer elements, an additional thread does not save time."""
    return max(1, GRAIN * INSTRUCTIONS // (INSTRUCTIONS + function.cost))


def chunk_of(extent: int, parts: int, work: int, grain: int, least: int = GRAIN) -> int:
    """Return the number of loop indices that a thread takes at a time.

    The loop has `extent` indices, and `work` elements in total. The result is a multiple of `grain`, and corresponds to
    at least `least` elements.
    """
    chunk = max(-(-least * extent // work), extent // (parts * CHUNKS), 1)
    unit = max(grain, ROUND if chunk >= 4 * ROUND else 1)
    return -(-chunk // unit) * unit


def divide(function: HostFunction, parallel: tuple[int, ...], work: int, threads: int) -> tuple[int, int, int, int]:
    """Divide the work of a kernel among threads.

    The result is the extent of the kernel's outermost loop, the chunk size, the number of threads, and the nanoseconds
    after which sleeping threads are woken.
    """
    extent = parallel[0] if parallel else 1
    least = elements_of(function)
    parts = min(threads, MOST_PARTS, work // least, extent) if function.parallel else 1
    if parts < 2:
        return extent, extent, 1, 0
    chunk = chunk_of(extent, parts, work, function.grain, least)
    return extent, chunk, parts, ALONE if work <= SHORT * least else 0


def launch(
    function: HostFunction,
    extent: int,
    chunk: int,
    parts: int,
    alone: int,
    arguments: array[int],
    begun: list[Any] | None = None,
) -> None:
    """Run a kernel on one or several threads, with the division of work from `divide`.

    If `begun` is given, its last item is incremented immediately before the kernel starts.
    """
    address = arguments.buffer_info()[0]
    if parts > 1:
        workers().split(function, address, extent, parts, chunk, begun, alone)
        return
    call = function.call
    if begun is not None:
        begun[-1] += 1  # (no signal is handled before the call)
    call(address, 0, extent)


class HostLaunches:
    """The kernels of a plan, prepared to run together repeatedly.

    The first run launches the kernels one by one, since many plans run only once. All runs do so if the native function
    cannot be compiled.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = tuple(launches)
        self._long = any(k.work >= 2 * elements_of(k.function) and k.function.parallel for k in launches)
        self._runs = 0
        self._threads = 0
        self._records: tuple[tuple[int, int, array[int]], ...] = ()
        self._call: Any = None

    def _write(self, threads: int) -> tuple[tuple[int, int, array[int]], ...]:
        """Return launch records for running the kernels on `threads` threads.

        For each record, return its address, the number of kernels up to its end (including previous records), and its
        words.
        """
        found: list[list[Launch]] = []
        room = 0
        for launch in self._launches:
            if not found or len(launch.arguments) > room:
                found.append([])
                room = MOST_SLOTS
            room -= len(launch.arguments)
            found[-1].append(launch)
        made = [array("q", _words(launches, threads)) for launches in found]
        behind = accumulate(map(len, found))
        return tuple((words.buffer_info()[0], count, words) for count, words in zip(behind, made, strict=True))

    def run(self, table: list[Any]) -> None:
        """Run the kernels on the buffers in `table`.

        The last item of `table` is the number of kernels to skip. It increases as kernels start.
        """
        if table[-1]:
            self._run_singly(table)
            return
        threads = thread_count() if self._long else 1
        if threads != self._threads:
            if not self._runs or runner() is None:
                self._runs = 1
                self._run_singly(table)
                return
            # (`_threads` is set last: another thread that reads the new number uses the new records)
            self._records = self._write(threads)
            self._call = runner().call  # type: ignore[union-attr]
            self._threads = threads
        if not self._long:
            for address, behind, _ in self._records:
                table[-1] = behind  # (no signal is handled before the call)
                self._call(address, table, 0)
            return
        pool = workers()
        there = pool.enter(threads)
        try:
            for address, behind, _ in self._records:
                table[-1] = behind
                self._call(address, table, there)
        finally:
            if there:
                pool.leave()

    def _run_singly(self, table: list[Any]) -> None:
        for k in self._launches[table[-1] :]:
            arguments = k.arguments[:]
            for argument, slot, offset in k.patches:
                arguments[argument] = table[slot].address + offset
            for argument, slot in k.scalars:
                arguments[argument] = table[slot]
            threads = thread_count() if k.work >= 2 * elements_of(k.function) else 1
            launch(k.function, *divide(k.function, k.parallel, k.work, threads), arguments, table)


def _words(launches: list[Launch], threads: int) -> list[int]:
    arguments = sum(len(k.arguments) for k in launches)
    words = [len(launches), arguments, int(sum(k.work for k in launches) >= LET_GO)]
    for k in launches:
        division = divide(k.function, k.parallel, k.work, threads)
        words += launch_code.kernel_words(k.function.address, *division, k.arguments, k.patches, k.scalars)
    return words


@cache
def runner() -> Builtin | None:
    """Return the native function that runs launch records, or None if it cannot be compiled."""
    instead = "Python starts kernels one by one, which is slower"
    return try_compiling("native code for launches", instead, lambda: launch_code.native_runner(split_address()))
