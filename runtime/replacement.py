"""When native code replaces Python functions.

In: the number of calls that Python has executed. Out: whether native code should replace the functions now. Invariant:
code that is not on disk is compiled in this process only once the calls have taken about as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import weft.runtime as runtime  # (names load when they are used)

if TYPE_CHECKING:
    from weft.runtime.background import Request

# Number of calls after which code from the disk cache replaces Python, after which a second process compiles code that
# is not there, and after which this process compiles it: a call takes 3 us longer in Python, and the compilation 100 ms.
# The last is the number of calls between two checks.
ENOUGH, REQUESTED, COMPILED, BETWEEN = 100, 1_000, 30_000, 500


class Replacement:
    """Native code that replaces Python functions.

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
        self._request: Request | None = None

    def is_due(self, calls: int) -> bool:
        """Return whether the code should replace Python, which has executed `calls` calls."""
        if self._request is not None and self._request.is_over() and self._request.state != "lost":
            return self._request.state != "crashed"
        if self._request is None:
            if runtime.is_kept(self._text()):
                return True
            if calls >= REQUESTED:
                self._request = runtime.submit(self._install, ())
        return calls >= COMPILED
