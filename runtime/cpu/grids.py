"""Prepared launches of user-written kernels on the CPU.

In: a kernel with its grid and block, and the argument words of each launch. Out: the completed launches. Invariant:
blocks are divided as for a single launch. A record is used by one launch at a time.
"""

from __future__ import annotations

from array import array
from math import prod

from weft.runtime.cpu import interrupts
from weft.runtime.cpu.faults import FaultRecord
from weft.runtime.cpu.host_launch_code import kernel_words
from weft.runtime.cpu.host_launches import runner
from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.pool import ALONE, CHUNKS, Entry, workers
from weft.runtime.settings import thread_count

Triple = tuple[int, int, int]

# Minimum number of threads of a kernel for which a second core pays off.
THREADS_GRAIN = 1 << 12
# Minimum number of threads per chunk, if there are enough: in kernels with strided loops, whose threads run each
# iteration together, on adjacent elements; and in kernels with private copies of arrays, which a chunk's threads share.
IN_STEP = 1 << 15
ON_COPY = 1 << 13


def divide_blocks(function: HostFunction, blocks: int, block: Triple, threads: int) -> tuple[int, int, int]:
    """Divide the blocks of a kernel among CPU threads.

    Returns
    -------
    (int, int, int)
        The number of CPU threads that run the blocks, the number of blocks per chunk, and the time in nanoseconds after
        which sleeping workers are woken.
    """
    parts, few = min(threads, blocks), blocks * prod(block) < THREADS_GRAIN and not function.strided
    if parts == 1 or function.cooperative or not function.parallel or (few and not function.loops):
        return 1, blocks, 0
    together = IN_STEP if function.strided else ON_COPY if function.private else 1
    least = min(-(-blocks // parts), together // prod(block))
    return parts, max(-(-blocks // (parts * CHUNKS)), least), ALONE if few else 0


def guarded(function: HostFunction, arguments: list[int], fault: FaultRecord) -> tuple[Entry, list[int]]:
    """Make a kernel interruptible by Ctrl-C. Return the entry point to call instead of the kernel's, and the arguments to pass to it.

    For fused kernels, and if interrupts are not supported, return the kernel's own entry and `arguments`.
    """
    found = interrupts.guard()
    if found is None or function.schedule.threads:
        return Entry(function.call, function.address), arguments
    workers().while_waiting(found.tick)
    return Entry(found.call, found.address), [function.address, fault.address, *arguments]


def hidden_slots(grid: Triple, block: Triple, shared_bytes: int, fault: FaultRecord) -> list[int]:
    """Return the hidden arguments of a user-written kernel, which follow the user's arguments."""
    return [*grid, *block, shared_bytes, fault.address]


class PreparedGrid:
    """A user-written kernel that is prepared for repeated launches with the same grid and block.

    Each launch takes a list of `count` arguments.
    """

    def __init__(self, function: HostFunction, grid: Triple, block: Triple, shared_bytes: int, count: int) -> None:
        self._function = function
        self._grid, self._block, self._shared, self._count = grid, block, shared_bytes, count
        self._call = runner().call  # type: ignore[union-attr]
        self._wide = divide_blocks(function, prod(grid), block, 2)[0] > 1
        self._parts = self._threads = 1
        self._spare: list[tuple[int, FaultRecord, array[int]]] = []

    def run(self, items: list[int], stream: object = None) -> None:
        """Run the kernel to completion with the arguments `items`.

        `stream` has no effect. Raises `KernelFault` if threads wait for each other forever.
        """
        function = self._function
        if self._wide and (threads := thread_count()) != self._threads:
            self._spare = []
            self._threads = threads
        spare = self._spare  # (records for the current number of threads)
        record = spare.pop() if spare else self._record()
        address, fault, _ = record
        pool = workers() if self._parts > 1 else None
        there = pool.enter(self._parts) if pool is not None else 0
        try:
            self._call(address, items, there)
        finally:
            if there:
                pool.leave()  # type: ignore[union-attr]
        fault.check(function, self._grid, self._block)
        spare.append(record)

    def _record(self) -> tuple[int, FaultRecord, array[int]]:
        """Create an array of 64-bit words that describes a launch. Return the array's address, a `FaultRecord` for failures, and the array."""
        blocks, fault = prod(self._grid), FaultRecord()
        parts, chunk, alone = divide_blocks(self._function, blocks, self._block, self._threads)
        own = [0] * self._count + hidden_slots(self._grid, self._block, self._shared, fault)
        entry, arguments = guarded(self._function, own, fault)
        first = len(arguments) - len(own)
        numbers = [(k + first, k) for k in range(self._count)]
        # (releases the GIL: the kernel may run for long)
        words = [
            1,
            len(arguments),
            1,
            *kernel_words(entry.address, blocks, chunk, parts, alone, arguments, (), numbers),
        ]
        self._parts = parts
        made = array("q", words)
        return made.buffer_info()[0], fault, made
