"""LLVM text of the scheduler that runs a block's threads as coroutines.

A thread's record contains its state. In: a block's threads, all runnable (`READY`). Out: 0 if all threads have ended, 1
if the remaining threads wait at a grid barrier, 2 if no thread can continue. Invariant: threads that wait for each
other at a synchronization point (a group) become runnable together. At this time, the values that the threads of a warp
contribute are copied. A fast thread therefore cannot overwrite a value before a slow thread has read it.
"""

from __future__ import annotations

from enum import IntEnum

from weft.runtime import read_llvm

# The state of a thread: the reason why it waits.
State = IntEnum("State", "READY BARRIER WARP ACTIVE GRID ENDED", start=0)
# The fields of a thread's record, in order.
Field = IntEnum("Field", "HANDLE STATE SITE MASK MEMBERS BALLOT MAIL COPY", start=0)
RECORD = "%weft.thread"
RECORD_TYPE = f"{RECORD} = type {{ ptr, i32, i32, i32, i32, i32, i64, i64 }}"
RECORD_BYTES = 48

# Fill value of shared memory that makes a missing write visible: NaN, or the largest value of an unsigned type.
POISON = -1


def scheduler_text(backward: bool) -> str:
    """Return the LLVM text of the functions that run the coroutines of a block.

    They run the coroutines in the order of the threads or, if `backward` is true, in reverse.
    """
    names = {**State.__members__, **Field.__members__}
    return read_llvm(__file__, "host_scheduler", BACKWARD=str(backward).lower(), POISON=POISON, **names)


def entry_text(name: str, parameters: int, cooperative: bool, shared_bytes: int, poison: bool) -> str:
    """Return the LLVM text of a kernel's entry function, for threads that run as coroutines.

    One set of coroutines runs all blocks of the call, one after another. In a cooperative kernel every block has its
    own set, and the blocks that wait at a grid barrier continue once all blocks wait there. If `poison` is true, the
    shared memory of each block is filled with `POISON` before the block starts.
    """
    return read_llvm(
        __file__,
        "host_entry",
        NAME=name,
        PARAMETERS=parameters,
        RECORD_BYTES=RECORD_BYTES,
        SHARED_BYTES=shared_bytes,
        COOPERATIVE=str(cooperative).lower(),
        POISONED=str(poison).lower(),
        STATE=Field.STATE,
        READY=State.READY,
        POISON=POISON,
    )
