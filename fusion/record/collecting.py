"""Separate recording during garbage collection, when finalizers may interrupt another recording.

In: the collector's calls before and after a collection. Out: while it runs, the thread has no epoch; who records then gets one
of his own, to which the interrupted one is another thread's. Invariant: what was interrupted goes on in the epoch that it
began in.

An interrupt that comes during a collection is raised in a callback, or in a finaliser such as those of LLVM's objects, where Python
reports it as unraisable and goes on. So what is told of those raises it again, behind the collection.
"""

from __future__ import annotations

import _thread
import gc
import sys
from typing import Any

from weft.fusion.record.storage import recording


def _begin(phase: str, info: dict[str, Any]) -> None:
    """Set the interrupted epoch aside, before all other callbacks of a collection."""
    if phase == "start":
        recording.interrupted = (recording.epoch,)
        recording.epoch = None
        if gc.callbacks[-1] is not _end:
            gc.callbacks.remove(_end)
            gc.callbacks.append(_end)


def _end(phase: str, info: dict[str, Any]) -> None:
    """Restore the interrupted epoch, after all other callbacks of a collection."""
    before = recording.interrupted
    if phase == "stop" and before is not None:  # (an interrupt may have ended `_begin`)
        if recording.epoch is not None:
            recording.epoch.ended = True
        recording.epoch = before[0]
        recording.interrupted = None


_report = sys.unraisablehook


def _raise_again(unraisable: Any) -> None:
    """Raise KeyboardInterrupt in the main thread again if a finalizer swallowed it."""
    if unraisable.exc_type is KeyboardInterrupt:
        # (in a thread of its own: here it would be lost again)
        _thread.start_new_thread(_thread.interrupt_main, ())
    else:
        _report(unraisable)


def keep_apart() -> None:
    """Install the callbacks of the garbage collector."""
    gc.callbacks.insert(0, _begin)
    gc.callbacks.append(_end)
    sys.unraisablehook = _raise_again
