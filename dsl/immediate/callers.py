"""Classification of the code that calls a small operation: a library, a user's program, or other code.

The program is the script that ``weft run`` runs, and whose NumPy imports are redirected to weft.

In: the frame that executes an operation. Out: whether the frame belongs to a library. A library computes with NumPy,
whose operations on small arrays are fastest if no operand is a weft array. Therefore new small arrays are NumPy arrays
in a library. In the program, native code returns NumPy arrays if they have few elements, as the program's creation
functions do. Invariant: no frame belongs to a library unless a program is redirected.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

SLOTS = 4096  # a power of two, so large that the modules of a program rarely share a slot
SHIFT = 5  # number of low address bits to ignore, since they hardly differ
OTHER, LIBRARY, PROGRAM = range(3)
# Table for native code. The first word tells whether a program is redirected. Each slot then has two words: the address
# of a module's global names, and the kind of the module: `LIBRARY`, `PROGRAM` for a module of the program that does not
# import weft, or `OTHER`.
CALLERS = array("q", [0] * (1 + 2 * SLOTS))
_names: dict[int, dict[str, Any]] = {}  # by slot; kept alive, so that no other module gets the same address
# Code without a module, by its address: the code, the address of its global names, and its kind. The size is bounded.
_generated: dict[int, tuple[CodeType, int, int]] = {}
_programs: list[Callable[[FrameType], bool]] = []


def set_program_test(is_program: Callable[[FrameType], bool] | None) -> None:
    """Set the function that tests whether a stack frame belongs to the program that ``weft run`` runs.

    None means that no program is redirected.
    """
    _programs[:] = [] if is_program is None else [is_program]
    CALLERS[:] = array("q", [int(is_program is not None)] + [0] * (2 * SLOTS))
    _names.clear()
    _generated.clear()


def is_library(depth: int = 1, between: str = "") -> bool:
    """Return whether the frame `depth` levels up the stack belongs to a library that does not use weft.

    If this frame belongs to the module `between`, the nearest caller outside this module is tested instead.
    """
    if not _programs:
        return False
    frame: FrameType | None = sys._getframe(depth)
    while between and frame is not None and frame.f_globals.get("__name__") == between:
        frame = frame.f_back
    if frame is None:
        return False
    names = frame.f_globals
    slot = 1 + 2 * ((id(names) >> SHIFT) % SLOTS)
    if CALLERS[slot] == id(names):
        return CALLERS[slot + 1] == LIBRARY
    if "__file__" in names:
        found = _kind_of(frame)
        CALLERS[slot], CALLERS[slot + 1], _names[slot] = id(names), found, names
        return found == LIBRARY
    # For a generated function, keep the code but not the names, because the names of ``exec`` may hold large arrays.
    code, about, found = _generated.get(id(frame.f_code), (None, 0, OTHER))
    if code is None or about != id(names):
        if len(_generated) >= SLOTS:
            _generated.clear()
        found = _kind_of(frame)
        _generated[id(frame.f_code)] = frame.f_code, id(names), found
    return found == LIBRARY


def _kind_of(frame: FrameType) -> int:
    """Classify a frame's code: `PROGRAM` (the user's program), `LIBRARY`, or `OTHER` (code that uses weft explicitly)."""
    names = frame.f_globals
    if _programs[0](frame):
        return OTHER if _imports_weft(names) else PROGRAM
    return OTHER if _uses_weft(names) else LIBRARY


def sees_numpy(depth: int = 1) -> bool:
    """Return whether the caller is a library that does not use weft, or a program module that does not import weft.

    The caller is the frame `depth` levels up the stack.
    """
    if is_library(depth + 1):
        return True
    return in_program(depth + 1) and not _imports_weft(sys._getframe(depth).f_globals)


def in_program(depth: int = 1) -> bool:
    """Return whether the frame `depth` levels up the stack belongs to the program that ``weft run`` runs."""
    frame = sys._getframe(depth)
    return any(is_program(frame) for is_program in _programs)


def _imports_weft(names: dict[str, Any]) -> bool:
    """Return whether one of a module's global values is a module of weft."""
    values = tuple(names.values())
    # (generated functions may have a namespace of a thousand names each)
    modules = {kind for kind in set(map(type, values)) if issubclass(kind, ModuleType)}
    return bool(modules) and any(_is_wefts(value.__name__) for value in values if type(value) in modules)


def _uses_weft(names: dict[str, Any]) -> bool:
    """Return whether a module is part of weft, imports weft, or has a global value of a weft type."""
    kinds = set(map(type, tuple(names.values())))
    if any(_is_wefts(vars(kind).get("__module__")) for kind in kinds):
        return True
    return _imports_weft(names) or _is_wefts(names.get("__name__"))


def _is_wefts(module: object) -> bool:
    return type(module) is str and module.partition(".")[0] == "weft"
