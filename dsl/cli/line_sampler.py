"""Host time of each source line of a program, estimated by sampling the main thread's stack.

In: a running program, and its launches. Out: seconds by line. Invariant: the seconds of the lines do not include the
time of launches that have a source line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from weft.dsl.profile import user_lines
from weft.dsl.script.redirect import is_program
from weft.runtime import BuildNote, LaunchNote, Listening

PERIOD = 1e-3  # seconds between samples
UNLOCATED = "kernels without a source line"  # in place of a package
Line = tuple[str, int]


class LineSampler:
    """A sampler of the main thread's stack that runs during a ``with`` block.

    Attributes
    ----------
    seconds : dict
        Seconds on the host by file and line, without the launches that have a source line.
    packages : dict of dict
        By file and line: seconds by package or library function. The empty name stands for the program and the standard
        library.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[Line, float] = defaultdict(float)
        self.packages: dict[Line, defaultdict[str, float]] = {}
        self._thread = threading.Thread(target=self._sample_all, name="weft-sampler", daemon=True)
        self._done = threading.Event()
        self._main = threading.get_ident()
        self._outer = sys.modules["__main__"].__dict__  # the command's `__main__`, which the program replaces
        self._busy = 0.0  # seconds in launches that have ended
        self._since = 0.0  # start time of the launch that is running, or 0
        self._function = ""  # the library function that is running, if its launch has no source line
        self._last = 0.0  # time that the samples cover, without launches

    def __enter__(self) -> LineSampler:
        # the interpreter passes the GIL to the sampler at most this often
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(PERIOD / 2)
        Listening.add(self)
        self._last = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._thread.join()
        Listening.remove(self)
        sys.setswitchinterval(self._interval)

    def launch(self, device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
        """Launch a kernel. If the source line of the launch is known, the time of the launch does not count as host time."""
        if threading.get_ident() != self._main or self._since:
            start()
            return
        if not user_lines(note):
            before, self._function = self._function, UNLOCATED if note.key else note.name
            start()
            self._function = before
            return
        self._since = begin = time.perf_counter()
        try:
            start()
        finally:
            self._busy += time.perf_counter() - begin
            self._since = 0.0

    def built(self, note: BuildNote) -> None:
        """Ignore the notification that code was compiled. The sampled times already include the time of the compilation."""

    def _sample_all(self) -> None:
        while not self._done.wait(PERIOD):
            self._sample()

    def _sample(self) -> None:
        now, since = time.perf_counter(), self._since
        covered = now - self._busy - (now - since if since else 0.0)
        seconds, self._last = covered - self._last, max(covered, self._last)
        if seconds <= 0:
            return
        innermost = frame = sys._current_frames().get(self._main)
        while frame is not None and not self._is_own(frame):
            frame = frame.f_back
        if frame is None or innermost is None:
            return
        line = frame.f_code.co_filename, frame.f_lineno or frame.f_code.co_firstlineno
        self.seconds[line] += seconds
        package = self._function or _package_of(innermost, frame)
        self.packages.setdefault(line, defaultdict(float))[package] += seconds

    def _is_own(self, frame: FrameType) -> bool:
        """Return whether a frame executes code from one of the program's files."""
        names = frame.f_globals
        main = sys.modules["__main__"].__dict__
        return names is not self._outer and ("__file__" in names or names is main) and is_program(frame)


def _package_of(innermost: FrameType, program: FrameType) -> str:
    """Return the package of the innermost frame outside the standard library.

    Return "" if the search reaches the frame `program`.
    """
    frame: FrameType | None = innermost
    while frame is not None and frame is not program:
        name: str = frame.f_globals.get("__name__", "").partition(".")[0]
        if name not in sys.stdlib_module_names:
            return name
        frame = frame.f_back
    return ""
