"""Protection of a recording from user functions that interrupt it, such as finalizers.

In: the collector's callbacks before and after a collection, and calls to user functions. Out: during these calls, the
thread has no epoch. A function that records gets its own epoch, and treats the interrupted epoch like an epoch of
another thread. Invariant: the interrupted code continues in the epoch in which it began.

An interrupt during a collection is raised in a callback or finalizer, for example of LLVM's objects. Python reports
such exceptions as unraisable and continues. The hook for unraisable exceptions therefore raises the interrupt again
after the collection.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from time import sleep
from types import FrameType
from typing import Any

from weft.fusion.record.storage import recording


def _begin(phase: str, info: dict[str, Any]) -> None:
    """When a garbage collection starts, suspend the recording of this thread."""
    if phase == "start":
        recording.interrupted = (recording.epoch,)
        recording.epoch = None
        if gc.callbacks[-1] is not _end:
            gc.callbacks.remove(_end)
            gc.callbacks.append(_end)


def _end(phase: str, info: dict[str, Any]) -> None:
    """When a garbage collection stops, resume the recording that `_begin` suspended."""
    before = recording.interrupted
    if phase == "stop" and before is not None:  # (an interrupt may have ended `_begin`)
        if recording.epoch is not None:
            recording.epoch.ended = True
        recording.epoch = before[0]
        recording.interrupted = None


def call_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that may run user code, without changing the recording in progress."""
    before, recording.epoch = recording.epoch, None
    try:
        return function(*arguments)
    finally:
        if recording.epoch is not None:
            recording.epoch.ended = True
        recording.epoch = before


_report = sys.unraisablehook


def _raise_again(unraisable: Any) -> None:
    """Handle an exception that Python would only report as unraisable. Raise a KeyboardInterrupt again in the main thread, and report others."""
    if unraisable.exc_type is KeyboardInterrupt:
        # (in a separate thread: in this function, the exception would be lost again)
        _thread.start_new_thread(_interrupt, (threading.main_thread().ident or 0,))
    else:
        _report(unraisable)


def _interrupt(thread: int) -> None:
    """Wait until a thread has returned from the exception hook `_raise_again`, and then raise KeyboardInterrupt in that thread.

    `_thread.interrupt_main` would do nothing in processes that ignore SIGINT, such as the background jobs of a shell.
    """
    while _raises_again(sys._current_frames()[thread]):
        sleep(1e-4)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


def _raises_again(frame: FrameType | None) -> bool:
    """Return whether a frame or one of its callers is running `_raise_again`."""
    while frame is not None and frame.f_code is not _raise_again.__code__:
        frame = frame.f_back
    return frame is not None


def install_collector_callbacks() -> None:
    """Install garbage collector callbacks that suspend recording while finalizers run.

    A KeyboardInterrupt that Python would only report, because it was raised in a finalizer, is raised again in the main
    thread.
    """
    gc.callbacks.insert(0, _begin)
    gc.callbacks.append(_end)
    sys.unraisablehook = _raise_again
