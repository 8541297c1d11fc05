"""Loaded functions in memory: bounded, each built once however many threads ask.

In: a key, and how to build what it names. Out: that, built outside the lock. Always true: whoever waits for another thread's
build goes on when it ends, well or not; a forked child waits for no thread that it does not have.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_caches: weakref.WeakSet[CodeCache] = weakref.WeakSet()


class CodeCache:
    """Least recently used of at most `limit` functions; builds run outside the lock."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._found: OrderedDict[Any, Any] = OrderedDict()
        self._building: dict[Any, threading.Event] = {}
        self._lock = threading.Lock()
        _caches.add(self)

    def forget_builds(self) -> None:
        """In a forked child: the threads that were building, or held the lock, are not there."""
        self._lock = threading.Lock()
        self._building.clear()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Any) -> Any | None:
        """The function, or None."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            return None

    def get_or_build(self, key: Any, build: Callable[[], Any]) -> Any:
        """The function of `key`; made by `build` where there is none. A failed build is tried again by
        whoever asks next."""
        mine = threading.Event()
        try:
            while True:
                with self._lock:
                    if key in self._found:
                        self._found.move_to_end(key)
                        return self._found[key]
                    running = self._building.setdefault(key, mine)
                if running is mine:
                    break
                running.wait()
            made = build()
            with self._lock:
                self._found[key] = made
                if len(self._found) > self._limit:
                    self._found.popitem(last=False)
            return made
        finally:  # also where Ctrl-C came between any two of these lines: nobody may wait for a build that is not
            with self._lock:
                if self._building.get(key) is mine:
                    del self._building[key]
            mine.set()


def _after_fork() -> None:
    for cache in _caches:
        cache.forget_builds()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
