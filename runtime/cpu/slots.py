"""Byte offsets of ``__slots__`` attributes in objects, for native code.

In: a class. Out: offsets in bytes. Invariant: the offsets are measured, not derived from a Python version's object
layout.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def slots_of(kind: type) -> dict[str, int]:
    """Return a dict from the slots of a class to their byte offsets in instances."""
    quiet: Any = type("Probe", (kind,), {"__slots__": (), "__del__": lambda self: None})
    probe = quiet.__new__(quiet)
    names = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if name[:2] != "__"]
    marks = {name: object() for name in names}
    for name, mark in marks.items():
        # (bypass the class's own `__setattr__` and properties of the same name)
        object.__setattr__(probe, name, mark)
    words = list((ctypes.c_int64 * (kind.__basicsize__ // 8)).from_address(id(probe)))
    return {name: 8 * words.index(id(mark)) for name, mark in marks.items()}
