"""Replacement of locks in forked children.

In: an object with a lock. Out: a new lock in each child. Invariant: a child does not wait for a thread that exists only
in its parent. The data that the lock protects must be valid at every moment, since the parent's thread may stop
anywhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import ref


def renew_in_children(owner: Any, make: Callable[[], Any] = threading.RLock, name: str = "_lock") -> None:
    """Replace the attribute `name` of an object or module by ``make()``, such as a new lock, in every forked child."""
    found = ref(owner)

    def renew() -> None:
        if (existing := found()) is not None:
            setattr(existing, name, make())

    os.register_at_fork(after_in_child=renew)
