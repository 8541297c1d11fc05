"""Calls that Ctrl-C and other signals do not interrupt.

A signal handler must not end code that holds locks of another library, such as LLVM.

In: work and its name. Out: its result. Invariant: an exception of a signal handler is raised in the main thread at
once. The work runs to completion in a separate thread, where no signals are handled. A later request for the same work
waits for this thread. At exit, when other threads can no longer call such a library, the main thread does the work
itself.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections.abc import Callable, Hashable
from time import monotonic, sleep
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _Work(Generic[Result]):
    """A call in a separate thread, with its result or exception."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._outcome: list[Any] = []
        self.error: BaseException | None = None  # of the call
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._ended.acquire()

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return  # another thread runs it
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # raised again in the thread that waits
            self.error = error
        finally:
            self._ended.release()

    def wait(self) -> Result:
        """Return the result of the call, or raise its exception.

        An exception of a signal handler, such as KeyboardInterrupt, ends the wait, but not the call.
        """
        if not self._begun.locked():
            try:
                _thread.start_new_thread(self._run, ())
            except (RuntimeError, MemoryError):
                self._run()  # the interpreter is shutting down, or there is no memory for a thread
            # (Without memory, a thread ends before it starts, and `threading` would wait for the start forever.)
            end = monotonic() + PATIENCE
            while not self._begun.locked() and monotonic() < end:
                sleep(1e-4)
            self._run()
        with self._ended:
            pass
        if self.error is not None:
            raise self.error
        result: Result = self._outcome[0]
        return result


# Seconds that a new thread may take to start.
PATIENCE = 1.0

# Work that continues after an interrupt, by name.
_left: dict[Hashable, _Work[Any]] = {}


# Functions that are called at exit, and whether they have been called.
_last: list[Callable[[], object]] = []
_exiting = False


def call_at_exit(function: Callable[[], object]) -> None:
    """Call `function` at exit, after other exit handlers.

    The other handlers are those that were registered after weft was imported. `function` may prevent other threads from
    calling a library.
    """
    _last.append(function)


@atexit.register
def _exit() -> None:
    global _exiting
    _exiting = bool(_last)
    for function in _last:
        function()


def uninterruptible(work: Callable[[], Result], name: Hashable) -> Result:
    """Call `work` without interruption by signals, and return the result.

    A signal handler can interrupt only the wait for the result. If work of the same `name` is still running after an
    interrupt, this function waits for that result instead of calling `work`.
    """
    if _exiting or threading.get_ident() != threading.main_thread().ident:
        return work()  # Python handles signals only in the main thread
    under_way = _left.pop(name, None) or _Work(work)
    try:
        return under_way.wait()
    except BaseException as error:
        if error is not under_way.error:  # (of a signal handler)
            _left[name] = under_way
        raise


os.register_at_fork(after_in_child=_left.clear)  # the threads that do the work exist only in the parent
