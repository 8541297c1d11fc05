"""Rules for when native code replaces Python functions.

In: the number of calls that Python has executed. Out: whether native code should replace the functions now. Invariant:
code that is not on disk is compiled in this process, whose calls then wait, only if no second process compiles it.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.runtime.background import Request, prepare, submit
from weft.runtime.cpu.native import is_kept
from weft.runtime.errors import CompileError
from weft.runtime.failures import report_failure

# Number of calls after which a second process compiles code that is not on disk, after which this process compiles it if
# there is no other, and after which this process no longer waits for the second one. A call takes 3 us longer in Python,
# and the compilation takes 100 ms. Functions ask once in `BETWEEN` calls.
REQUESTED, COMPILED, PATIENCE = 1_000, 30_000, 600_000


class Replacement:
    """Native code that replaces Python functions after a number of calls.

    Parameters
    ----------
    install : str
        Module and name of the function without parameters that compiles the code and replaces the Python functions.
        A second process calls it so that the code is on disk.
    text : callable
        Returns the LLVM text whose compilation takes the longest.
    enough : int
        Number of calls after which code on disk is loaded, and after which the second process starts at once if there is
        none on disk. Native code saves the time of loading in twice as many calls.
    """

    def __init__(self, install: str, text: Callable[[], str], enough: int) -> None:
        self._install, self._text, self._enough = install, text, enough
        self._kept: bool | None = None
        self._request: Request | None = None
        self._hurried = False  # whether the second process was asked to start at once
        self._over = False  # whether it was due before

    def is_due(self, calls: int) -> bool:
        """Return whether native code should replace Python after `calls` calls. The answer is True at most once."""
        if self._over or calls < REQUESTED:
            return False
        if self._kept is None:
            self._kept = is_kept(self._text())
        if not self._kept:
            if self._request is None:
                self._request = submit(self._install, ())
            elif self._request.is_over():
                if self._request.state == "crashed":  # (LLVM would end this process, too)
                    self._over = True
                    error = CompileError("the process that compiled it ended unexpectedly")
                    report_failure("native code for functions", "they stay in Python, which is slower", error)
                    return False
                self._kept = self._request.state != "lost"
        waits = self._request is not None and self._request.state == "waiting"
        if waits and calls >= self._enough and not self._hurried:
            self._hurried = True
            prepare()
        self._over = calls >= (self._enough if self._kept else PATIENCE if waits else COMPILED)
        return self._over
