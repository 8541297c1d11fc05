"""Replacement of locks in forked children.

In: an object with a lock. Out: a new lock in each child. Invariant: a child does not wait for a thread that exists only
in its parent. The data that the lock protects must be valid at every moment, since the parent's thread may stop
anywhere.
"""

from __future__ import annotations

import os
import threading
from typing import Any


def renew_in_children(owner: Any) -> None:
    """Replace the attribute `_lock` of an object or module by a new `threading.RLock` in every forked child.

    The object then exists until the process ends.
    """
    os.register_at_fork(after_in_child=lambda: setattr(owner, "_lock", threading.RLock()))
