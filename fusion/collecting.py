"""What finalisers record while the garbage collector runs: it may run in the middle of anything, also of a recording.

In: the collector's calls before and after a collection. Out: while it runs, the thread has no epoch; who records then gets one
of his own, to which the interrupted one is another thread's. Always true: what was interrupted goes on in the epoch that it
began in.

An interrupt that comes in a callback is raised to nobody, and Python has handled it: it is lost. So where native code is loaded
anyway it takes the place of these functions (`native_collecting`), and interrupts wait for the end of the collection.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from weft.fusion.storage import recording


def _begin(phase: str, info: dict[str, Any]) -> None:
    """Before a collection, first of all callbacks."""
    if phase == "start":
        recording.interrupted = (recording.epoch,)
        recording.epoch = None
        if gc.callbacks[-1] is not _told[1]:
            gc.callbacks.remove(_told[1])
            gc.callbacks.append(_told[1])


def _end(phase: str, info: dict[str, Any]) -> None:
    """After a collection, last of all callbacks."""
    before = recording.interrupted
    if phase == "stop" and before is not None:  # (an interrupt may have ended `_begin`)
        if recording.epoch is not None:
            recording.epoch.ended = True
        recording.epoch = before[0]
        recording.interrupted = None


# Who is called first, and who last.
_told: tuple[Any, Any] = (_begin, _end)


def keep_apart() -> None:
    """Let collections be told of."""
    gc.callbacks.insert(0, _begin)
    gc.callbacks.append(_end)


def keep_apart_natively() -> None:
    """Let native code do it from here on. Raises CompileError where it cannot be made."""
    global _told
    if _told[0] is _begin:
        before, made = _told, import_module("weft.fusion.native_collecting").make_callbacks(_begin, gc.callbacks)
        others = [each for each in gc.callbacks if each not in before]
        _told, gc.callbacks[:] = made, [made[0], *others, made[1]]
