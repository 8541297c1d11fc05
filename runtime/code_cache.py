"""A bounded cache of loaded functions in memory. Threads that need the same function wait for one build.

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
    """A cache of at most `limit` functions, which evicts the least recently used. It holds no lock during a build."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._found: OrderedDict[Any, Any] = OrderedDict()
        # the building thread holds the lock, and other threads wait for it (a finalizer in the same thread builds by
        # itself)
        self._building: dict[Any, threading.RLock] = {}
        self._lock = threading.RLock()
        _caches.add(self)

    def forget_builds(self) -> None:
        """Reset the lock and the unfinished builds in a forked child, where the threads that held them do not exist."""
        self._lock = threading.RLock()
        self._building.clear()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Any) -> Any | None:
        """Return the function cached for `key`, or None."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            return None

    def get_or_build(self, key: Any, build: Callable[[], Any]) -> Any:
        """Return the function cached for `key`. If there is none, call `build` and cache its result.

        If a build fails, the next caller tries it again.
        """
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            turn = self._building.setdefault(key, threading.RLock())
        with turn:  # (Python releases it wherever Ctrl-C arrives; a ``finally`` block guarantees less)
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
