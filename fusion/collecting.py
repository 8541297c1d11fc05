"""What finalisers record while the garbage collector runs: it may run in the middle of anything, also of a recording.

In: the collector's calls before and after a collection. Out: while it runs, the thread has no epoch; who records then gets one
of his own, to which the interrupted one is another thread's. Always true: what was interrupted goes on in the epoch that it
began in.

An interrupt that comes in the microsecond of a callback is raised to nobody, and Python has handled it: it is lost.
"""

from __future__ import annotations

import gc
from typing import Any

from weft.fusion.storage import recording


def _begin(phase: str, info: dict[str, Any]) -> None:
    """Before a collection, first of all callbacks."""
    if phase == "start":
        recording.interrupted = (recording.epoch,)
        recording.epoch = None
        if gc.callbacks[-1] is not _end:
            gc.callbacks.remove(_end)
            gc.callbacks.append(_end)


def _end(phase: str, info: dict[str, Any]) -> None:
    """After a collection, last of all callbacks."""
    before = recording.interrupted
    if phase == "stop" and before is not None:  # (an interrupt may have ended `_begin`)
        if recording.epoch is not None:
            recording.epoch.ended = True
        recording.epoch = before[0]
        recording.interrupted = None


def keep_apart() -> None:
    """Let collections be told of."""
    gc.callbacks.insert(0, _begin)
    gc.callbacks.append(_end)
