"""Code objects that recorded operations are found by, kept alive so that an id names one of them."""

from __future__ import annotations

from types import CodeType

# Code that is equal to code met before: a cell of a notebook or a script that is run again, a function that is made again.
_again: dict[int, CodeType] = {}
_AGAIN_LIMIT = 20_000


def keep_equal_code(code: CodeType, first: CodeType) -> bool:
    """Whether `code` is kept here, whose nodes keep an equal one."""
    return id(code) in _again or (code == first and keep_code(code))


def keep_code(code: CodeType) -> bool:
    """Keep a code object, so that its id stays its own; whether there was room."""
    if id(code) not in _again and len(_again) >= _AGAIN_LIMIT:
        return False
    _again[id(code)] = code
    return True
