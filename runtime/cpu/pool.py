"""Worker threads that run parts of a kernel side by side. ctypes lets go of the interpreter's lock while one runs."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

# Elements that are worth a thread of their own.
GRAIN = 1 << 15


class _Job:
    __slots__ = ("done", "error", "pending", "run")

    def __init__(self, run: Callable[[int, int], None], pending: int) -> None:
        self.run = run
        self.pending = pending
        self.done = threading.Event()
        self.error: BaseException | None = None


class Workers:
    """A pool of threads that lives as long as the process; a forked child starts its own."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[_Job, int, int]] = queue.SimpleQueue()
        self._count = 0
        self._lock = threading.Lock()

    def _grow(self, wanted: int) -> None:
        with self._lock:
            while self._count < wanted:
                self._count += 1
                threading.Thread(target=self._work, name=f"weft-{self._count}", daemon=True).start()

    def _work(self) -> None:
        while True:
            job, start, stop = self._queue.get()
            self._run_part(job, start, stop)

    @staticmethod
    def _run_part(job: _Job, start: int, stop: int) -> None:
        try:
            job.run(start, stop)
        except BaseException as error:  # handed to the thread that waits
            job.error = error
        job.pending -= 1
        if not job.pending:
            job.done.set()

    def split(self, run: Callable[[int, int], None], extent: int, parts: int) -> None:
        """Call ``run(start, stop)`` for `parts` parts of ``range(extent)``, the last one here."""
        self._grow(parts - 1)
        edges = [extent * k // parts for k in range(parts + 1)]
        job = _Job(run, parts - 1)
        for k in range(parts - 1):
            self._queue.put((job, edges[k], edges[k + 1]))
        run(edges[-2], edges[-1])
        job.done.wait()
        if job.error is not None:
            raise job.error


_workers = Workers()


def workers() -> Workers:
    """This process's pool."""
    return _workers


def _after_fork() -> None:
    global _workers
    _workers = Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
