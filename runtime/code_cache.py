"""Loaded functions in memory: a bounded cache that builds each function once for all threads.

In: a key, and a function that builds its value. Out: the value, built outside the lock. Invariant: a thread that
waits for another thread's build continues when the build ends, even if it fails. A forked child does not wait for
threads that it does not have.
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
    """A least-recently-used cache of at most `limit` functions. Builds run outside the lock."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._found: OrderedDict[Any, Any] = OrderedDict()
        # who builds holds the lock; other threads wait for it (a finaliser that comes between builds by itself)
        self._building: dict[Any, threading.RLock] = {}
        self._lock = threading.RLock()
        _caches.add(self)

    def forget_builds(self) -> None:
        """Reset builds and lock in a forked child, which does not have the threads that held them."""
        self._lock = threading.RLock()
        self._building.clear()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Any) -> Any | None:
        """Return the cached function, or None."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            return None

    def get_or_build(self, key: Any, build: Callable[[], Any]) -> Any:
        """Return the function of `key`, calling `build` if it is missing. A failed build is tried again by the next
        caller.
        """
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            turn = self._building.setdefault(key, threading.RLock())
        with turn:  # (Python lets go of it wherever Ctrl-C comes; it promises less for the lines of a ``finally``)
            made = self.get(key)
            try:
                if made is None:
                    made = build()
            finally:
                with self._lock:
                    self._building.pop(key, None)
                    if made is not None:
                        self._found[key] = made
                        if len(self._found) > self._limit:
                            self._found.popitem(last=False)
            return made


def _after_fork() -> None:
    for cache in _caches:
        cache.forget_builds()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
