"""Python threads that run NumPy's loops in parallel.

The loops release the GIL.

In: independent calls. Out: the completed calls. Invariant: when `run_calls` returns or raises, no call is running, so
the memory that they wrote may be released.
"""

from __future__ import annotations

import _thread
import itertools
import os
from _queue import SimpleQueue  # (the module `queue` takes a millisecond to load)
from collections import deque
from collections.abc import Callable, Sequence

from weft.runtime.cpu.processors import move_away, processor

# Minimum number of bytes per call for which a thread pays off: waking a thread takes about as long as moving a fifth of
# these bytes.
BLOCK_BYTES = 1 << 20


class _Job:
    """A queue of calls, which the calling thread and the workers execute.

    The queue has no lock, since an interrupt may end any step of the calling thread. Workers are not interrupted.
    """

    def __init__(self, calls: Sequence[Callable[[], object]]) -> None:
        self._calls = deque(calls)
        # one item per worker that may run calls, and one per worker that has run its last call
        self._begun: list[None] = []
        self._ended: list[None] = []
        self._signals: SimpleQueue[None] = SimpleQueue()
        self._errors: list[BaseException] = []

    def serve(self) -> None:
        """Run calls in a worker thread until the queue is empty."""
        # Invariant: a worker registers before it takes a call, so that a caller that finds an empty queue waits for the
        # worker
        self._begun.append(None)
        try:
            self._run()
        except BaseException as error:  # raised by `finish`
            self._errors.append(error)
            self._calls.clear()
        self._ended.append(None)
        self._signals.put(None)

    def _run(self) -> None:
        while self._calls:
            try:
                call = self._calls.popleft()
            except IndexError:
                return
            call()

    def finish(self) -> None:
        """Run calls in this thread until the queue is empty, and wait for the workers.

        Raises the exception of a failed call or of a signal handler, if there is one.
        """
        stopped: BaseException | None = None
        try:
            self._run()
        except BaseException as error:
            stopped = error
        while True:
            try:
                if stopped is not None:
                    self._calls.clear()
                while len(self._ended) < len(self._begun):
                    self._signals.get()
                break
            except BaseException as error:  # (of a signal handler)
                stopped = error
        if stopped is not None or self._errors:
            raise stopped or self._errors[0]


class _Workers:
    """Daemon threads that wait for jobs."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._count = 0
        self._handles: list[int] = []  # of the threads that have started
        self._avoided = (-1, 0)  # the processor that the workers avoid, and the number of workers that avoid it

    def offer(self, job: _Job, threads: int) -> None:
        """Give a job to at most `threads` workers."""
        try:
            while self._count < threads:
                # (`threading` would wait for the thread to start: forever, if there is no memory)
                _thread.start_new_thread(self._serve, ())
                self._count += 1
        except (RuntimeError, MemoryError):
            return  # the interpreter is shutting down, or there is no memory: the caller runs all calls
        if (found := (processor(), len(self._handles))) != self._avoided:
            self._avoided = found
            move_away(found[0], self._handles)
        for _ in range(threads):
            self._jobs.put(job)

    def _serve(self) -> None:
        self._handles.append(_thread.get_ident())
        while True:
            self._jobs.get().serve()


_workers = _Workers()
os.register_at_fork(after_in_child=lambda: globals().update(_workers=_Workers()))


def run_calls(calls: Sequence[Callable[[], object]], threads: int) -> None:
    """Run calls on at most `threads` threads, including this one.

    Raises the exception of a call that failed. The calls that have not started are then skipped.
    """
    if threads < 2 or len(calls) < 2:
        for call in calls:
            call()
        return
    job = _Job(calls)
    _workers.offer(job, min(threads, len(calls)) - 1)
    job.finish()


def divide_axis(length: int, nbytes: int, threads: int) -> list[slice]:
    """Divide an axis of an array of `nbytes` bytes into blocks, and return one slice per block.

    There are four blocks per thread, or fewer if the blocks would otherwise have less than `BLOCK_BYTES` bytes or no
    elements. For a single thread, there is one block.
    """
    parts = min(4 * threads, nbytes // BLOCK_BYTES, length) if threads > 1 else 1
    if parts < 2:
        return [slice(None)]
    edges = [length * k // parts for k in range(parts + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
