"""Rules that decide when native code replaces Python functions.

In: the number of calls that Python has executed. Out: whether native code should replace the functions now. Invariant:
code that is not on disk is compiled in this process, whose calls then wait, only if no second process has compiled it
in time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from weft.runtime.background import Request, prepare, submit
from weft.runtime.cpu.native import is_kept
from weft.runtime.errors import CompileError
from weft.runtime.failures import report_failure

# Code that is not on disk is compiled by this process: after `COMPILED` calls if there is no second process, and after
# `PATIENCE` calls if the second process has not compiled it. A call takes 3 us longer in Python, and the compilation
# takes 100 ms. Callers of `is_due` ask once every `BETWEEN` calls.
COMPILED, PATIENCE = 30_000, 600_000


class Replacement:
    """Native code that replaces Python functions once they have been called often enough.

    Parameters
    ----------
    install : str
        Module and name of the function without parameters that compiles the code and replaces the Python functions.
        A second process calls it so that the code is on disk.
    text : callable
        Returns the LLVM text whose compilation takes the longest.
    """

    def __init__(self, install: str, text: Callable[[], str]) -> None:
        self._install, self._text = install, text
        self._kept: bool | None = None
        self._request: Request | None = None
        self._over = False  # whether `is_due` has returned True, or the second process has crashed

    def is_due(self, calls: int) -> bool:
        """Return whether native code should replace Python now, after `calls` calls.

        The answer is True at most once.

        Callers ask only after the number of calls that justifies loading code from disk. If the code is not on disk,
        the second process starts at once.
        """
        if self._over:
            return False
        if self._kept is None:
            self._kept = is_kept(self._text())
        if not self._kept:
            if self._request is None:
                self._request = submit(self._install, ())
                prepare()
            elif self._request.is_over():
                if self._request.state == "crashed":  # (LLVM would end this process, too)
                    self._over = True
                    error = CompileError("the process that compiled it ended unexpectedly")
                    report_failure("native code for functions", "they stay in Python, which is slower", error)
                    return False
                self._kept = self._request.state != "lost"
        waits = self._request is not None and self._request.state == "waiting"
        self._over = bool(self._kept) or calls >= (PATIENCE if waits else COMPILED)
        return self._over

    def install_if_due(self, calls: int) -> None:
        """Replace the Python functions by native code if the number of calls so far, `calls`, is high enough."""
        if self.is_due(calls):
            module, _, name = self._install.rpartition(".")
            getattr(import_module(module), name)()
