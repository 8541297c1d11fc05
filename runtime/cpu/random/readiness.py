"""Rules for the compilation and loading of native code for random draws.

In: functions that obtain and check code. Out: the code, once it is on disk or enough elements have been drawn.
Invariant: code is used only if it passed its check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from weft.runtime.errors import CompileError
from weft.runtime.failures import report_failure
from weft.runtime.fork_locks import renew_in_children

Code = TypeVar("Code")

# Number of elements that NumPy draws in the time that compiling a method takes (a power of two).
COMPILED_FROM = 1 << 22


class Readiness(Generic[Code]):
    """The state of the native code for random draws: not loaded yet, loaded, or failed. The method `find` loads or compiles the code.

    Parameters
    ----------
    obtain : callable
        ``obtain(compiling)`` returns the code, or None if it is not available yet. With `compiling`, missing code is
        compiled.
    check : callable
        Returns whether code draws the same sample as NumPy.
    """

    def __init__(self, obtain: Callable[[bool], Code | None], check: Callable[[Code], bool]) -> None:
        self._obtain = obtain
        self._check = check
        self._lock = threading.RLock()
        renew_in_children(self)
        self._drawn = 0
        self._failed = False
        self.loaded: Code | None = None

    def find(self, count: int) -> Code | None:
        """Return the native code to draw `count` random numbers, or None if NumPy must draw them."""
        if self.loaded is not None or self._failed:
            return self.loaded
        with self._lock:
            before, now = self._drawn, self._drawn + count
            self._drawn = now
            # (The disk cache may contain code of other processes. It is queried at the first draw, and from
            # `COMPILED_FROM` elements on whenever the number of elements drawn has doubled.)
            if before and (now < COMPILED_FROM or now.bit_length() == before.bit_length()):
                return None
            try:
                code = self._obtain(now >= COMPILED_FROM)
            except CompileError as error:
                self._failed = True
                report_failure("native code for random numbers", "NumPy draws them, which is slower", error)
                return None
            if code is not None and self._check(code):
                self.loaded = code
            else:
                self._failed = code is not None
            return self.loaded
