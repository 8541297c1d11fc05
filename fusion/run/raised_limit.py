"""A temporarily raised size limit for immediate execution.

In: the request of an interpreted program whose arrays have medium sizes. Out: until the request is answered, NumPy
executes operations on arrays of these sizes. An interpreted program takes up to 50 us longer for each operation.
Invariant: after the answer, recording is the same as before, even if the second process ends unexpectedly.
"""

from __future__ import annotations

import os
import threading
from time import sleep
from typing import TYPE_CHECKING

from weft.runtime import raise_immediate, reset_immediate

if TYPE_CHECKING:
    from weft.runtime import Request

# Seconds between two checks for the answer. Nothing else receives answers if no operation is recorded.
INTERVAL = 0.01
_watched: list[Request] = []


def raise_limit(request: Request) -> None:
    """Raise the size limit for immediate execution until `request` has ended.

    Nothing changes if the limit is already raised.
    """
    if not _watched:
        _watched.append(request)
        try:
            threading.Thread(target=_watch, args=(request,), daemon=True).start()
        except RuntimeError:  # no thread can be started, for example while the process ends
            _watched.clear()


def _watch(request: Request) -> None:
    raise_immediate()
    try:
        while not request.is_over():
            sleep(INTERVAL)
    finally:
        _stop()


def _stop() -> None:
    reset_immediate()
    _watched.clear()


os.register_at_fork(after_in_child=_stop)  # (the thread belongs to the parent)
