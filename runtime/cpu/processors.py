"""The processors on which the threads of this process run.

On some virtual machines, a thread that wakes on the processor of the thread that woke it waits for milliseconds until
the system moves it to an idle processor.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

# Maximum number of threads whose affinity is changed. With more threads, there are many processors.
MOST_MOVED = 16


def move_away(here: int, threads: Sequence[int]) -> None:
    """Move threads away from the processor `here`.

    The threads, given by their handles in the C library, run on the remaining processors of this process. They must not
    have ended. If there are no other processors, if `here` is negative, or if there are more than `MOST_MOVED` threads,
    nothing is changed.
    """
    others = os.sched_getaffinity(0) - {here} if here >= 0 else None
    if others and len(threads) <= MOST_MOVED:
        mask = sum(1 << k for k in others).to_bytes(max(others) // 64 * 8 + 8, "little")
        for handle in tuple(threads):
            ctypes.CDLL(None).pthread_setaffinity_np(ctypes.c_void_p(handle), ctypes.c_size_t(len(mask)), mask)


# Returns the number of the processor on which the calling thread runs, or -1 if it is unknown.
processor: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
