"""The native code of the worker threads.

The threads wait for jobs and run parts of kernels. They enter the interpreter only when a kernel prints.

In: the structure defined below, which `pool` fills. Out: LLVM text with the functions `ENTRIES`: run a job, serve as a
worker, copy bytes, pause. Invariant: a worker reads a job only while it is registered and the job is open. When a job
has run, the job is closed and no worker is registered.
"""

from __future__ import annotations

import platform

from weft.runtime.llvm_files import read_llvm

ENTRIES = ("weft_pool_run", "weft_pool_thread", "weft_pool_copy", "weft_pool_pause")

# Byte offsets in a pool's memory. Words that different threads write at the same time are on different cache lines.
# (the number of the open job or 0; the number of workers in that job; the number of sleeping workers; whether a thread
# waits for the workers)
OPEN, INSIDE, SLEEPERS, WAITING = 0, 64, 128, 136
SPINS = 152  # number of spin iterations before a thread sleeps
WAKE = 160  # nanoseconds after which the thread that started the job wakes the sleeping workers, or 0
TICK = 144  # address of the function that a thread calls periodically while it waits for workers, or 0
JOB = 192  # entry, slots, extent, chunk, parts; the number of the last job
MUTEX, START, DONE = 256, 384, 512  # a mutex, and two condition variables: a job is open; no worker is in a job
LINES, LINE = 1024, 64  # cache line of a part: next index, end; for a worker also the pool and the worker's number
MOST_PARTS = 256

SYMBOLS = (
    "memcpy",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "clock_gettime",
    "pthread_cond_broadcast",
)
NAP = 50_000_000  # nanoseconds between two calls to the function at `TICK`
CLOCK = 1  # the C library's monotonic clock


# The declaration and the call of the processor's spin-wait hint.
_HINTS = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def text() -> str:
    """Return the LLVM text of the native functions of the thread pool."""
    hint, spin = _HINTS.get(platform.machine(), ("", ""))
    return read_llvm(__file__, "pool", globals(), HINT=hint, SPIN=spin)
