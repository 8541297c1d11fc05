"""Listeners that are notified of launches and compilations.

In: a launch that is about to start, or a compilation. Out: the launch, started inside every listener, or a call to
every listener when the compilation ends. Invariant: without a listener a plan only checks an empty tuple. Listeners are
called in the thread that launches or compiles.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

from weft.runtime.settings import setting

# Seconds of a compilation before the progress line is shown.
PATIENCE = 1.0


class LaunchNote(NamedTuple):
    """A description of a kernel launch, or of other work such as a copy, for listeners.

    Attributes
    ----------
    name : str
    members : tuple of str
        The operations in the kernel, with the user's lines.
    nbytes : int
        Bytes that the kernel has to move.
    instructions : int
        The approximate number of instructions executed, or 0 if unknown.
    location : str
        The user's line.
    key : int
        The key of the kernel, as in the notes of its compilation, or 0 if the name identifies the kernel.
    sources : tuple of (str, int, float)
        The lines of the user's program that caused the launch: file, line, and share of the kernel's instructions.
    """

    name: str
    members: tuple[str, ...] = ()
    nbytes: int = 0
    instructions: int = 0
    location: str = ""
    key: int = 0
    sources: tuple[tuple[str, int, float], ...] = ()


class BuildNote(NamedTuple):
    """A description of a compilation, or of the loading of compiled code, for the listeners.

    Times are from `time.perf_counter_ns`.
    """

    name: str
    target: str
    stage: Literal["compile", "load"]
    key: int
    begin: int
    end: int


class Listener(Protocol):
    """Protocol of listeners that are notified of launches and compilations."""

    def launch(self, device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
        """Launch the kernel or other work by calling `start`, and possibly measure the time."""

    def built(self, note: BuildNote) -> None:
        """Receive a description of code that was compiled, or that was loaded in compiled form."""


class Listening:
    """The active listeners to launches and compilations, from the outermost to the innermost."""

    listeners: tuple[Listener, ...] = ()
    _lock = threading.RLock()

    @classmethod
    def add(cls, listener: Listener) -> None:
        """Add a listener as the innermost listener."""
        with cls._lock:
            cls.listeners = (*cls.listeners, listener)

    @classmethod
    def remove(cls, listener: Listener) -> None:
        """Remove a listener."""
        with cls._lock:
            cls.listeners = tuple(other for other in cls.listeners if other is not listener)


os.register_at_fork(after_in_child=lambda: setattr(Listening, "_lock", threading.RLock()))


def kernel_number(digest: str) -> int:
    """Convert a kernel's digest to an integer key. Listeners receive this key with each launch and each compilation of the kernel."""
    return int(digest[:15], 16)


def launch_heard(device: Any, note: LaunchNote, start: Callable[[], None]) -> None:
    """Call the first active listener. Each listener calls the next one, and the last one calls `start`."""
    for listener in reversed(Listening.listeners):
        start = partial(listener.launch, device, note, start)
    start()


@contextmanager
def building(name: str, target: str, stage: Literal["compile", "load"], key: int) -> Iterator[None]:
    """Context manager that notifies the listeners when a compilation or a load of code ends.

    If the compilation or load takes long, a terminal shows a progress line in the meantime.
    """
    begin = time.perf_counter_ns()
    shown = _Progress(name, target) if setting("progress") and sys.stderr is not None and sys.stderr.isatty() else None
    try:
        yield
    finally:
        if shown is not None:
            shown.end()
        end = time.perf_counter_ns()
        for listener in Listening.listeners:
            listener.built(BuildNote(name, target, stage, key, begin, end))


class _Progress:
    """A line on the terminal that counts the seconds of a long compilation."""

    def __init__(self, name: str, target: str) -> None:
        self._text = f"weft: compiling {name} for {target}"
        self._begin = time.perf_counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, name="weft-progress", daemon=True)
        with suppress(RuntimeError):  # (no thread starts while the interpreter shuts down)
            self._thread.start()

    def _show(self) -> None:
        pause, width = PATIENCE, 0
        while not self._done.wait(pause):
            line = f"{self._text}, {time.perf_counter() - self._begin:.0f} s"
            width = max(width, len(line))
            sys.stderr.write(f"\r{line}")
            sys.stderr.flush()
            pause = 0.5
        if width:
            sys.stderr.write(f"\r{' ' * width}\r")
            sys.stderr.flush()

    def end(self) -> None:
        """Erase the progress line."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join()
