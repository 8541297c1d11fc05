"""The event log of instrumented kernels.

In: the events of one launch, each of which has the same number of 64-bit words. Out: rows of numbers in order.
Invariant: one launch is instrumented at a time. An exception of the reader ends the reading, and is raised at the end
of the launch.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from weft.runtime.fork_locks import renew_in_children

WORDS = 1 << 17

# Number of words in use, last position at which one more event fits, events. Loaded code writes here.
LOG = (ctypes.c_int64 * (2 + WORDS))()
_words: np.ndarray = np.frombuffer(memoryview(LOG), np.int64)
_lock = threading.Lock()
renew_in_children(sys.modules[__name__], threading.Lock)
Reader = Callable[[list[list[int]]], None]


class _Trace:
    """A record of the function that processes the event log, and of the first exception that this function raised."""

    __slots__ = ("error", "reader", "width")

    def __init__(self, width: int, reader: Reader) -> None:
        self.width = width
        self.reader = reader
        self.error: BaseException | None = None

    def drain(self) -> None:
        """Pass the events in the log to the reader, and empty the log."""
        rows = _words[2 : 2 + int(_words[0])].reshape(-1, self.width).tolist()
        _words[0] = 0
        if self.error is None:
            try:
                self.reader(rows)
            except BaseException as error:  # raised by `tracing`: no exception passes through compiled code
                self.error = error


_open: _Trace | None = None


def _full() -> None:
    if _open is not None:
        _open.drain()
    _words[0] = 0


FULL = ctypes.CFUNCTYPE(None)(_full)


@contextmanager
def tracing(width: int, reader: Reader) -> Iterator[None]:
    """Context manager that passes the events of a kernel launch to `reader`.

    All events have been read at the end of the block.

    Parameters
    ----------
    width : int
        Words of an event.
    reader : callable
        Called one or several times, with a list of events in order.
    """
    global _open
    with _lock:
        trace = _open = _Trace(width, reader)
        _words[0], _words[1] = 0, WORDS - width
        try:
            yield
        finally:
            trace.drain()
            _open = None
        if trace.error is not None:
            raise trace.error
