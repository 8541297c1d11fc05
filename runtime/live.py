"""Which arrays hold a device's memory, and the error that says so where there is none left.

In: a device's name. Out: its live buffers, largest first, with the user's line that made each. Nothing is recorded for this
ahead but the line: the interpreter's own list of objects is walked on demand.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from weft.runtime.device import Buffer
from weft.runtime.errors import OutOfMemoryError

SHOWN = 5


def show_place(place: Any) -> str:
    """A place in the user's program (code object and offset of an instruction) as ``file.py:12``; empty for none."""
    if place is None:
        return ""
    code, offset = place
    line = next((n for start, end, n in code.co_lines() if start <= offset < end), code.co_firstlineno)
    return f"{show_file(code.co_filename)}:{line}"


def show_file(path: str) -> str:
    """A file by its name, a notebook's cell as the notebook numbers it."""
    return show_cell(path) or path.rsplit("/", 1)[-1]


def show_cell(path: str) -> str:
    """The cell of a notebook that a file of code stands for, as ``Cell In[3]``; empty for other files."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return " ".join((shell.compile.format_code_name(path) if shell is not None else None) or ())


def largest_buffers(device: str, count: int = SHOWN) -> tuple[tuple[int, str], ...]:
    """Bytes and origin of the largest live buffers on a device."""
    found = [
        (thing.nbytes, thing.origin)
        for thing in gc.get_objects()
        if isinstance(thing, Buffer) and thing.nbytes and getattr(thing.device, "name", None) == device
    ]
    found.sort(key=lambda pair: -pair[0])
    return tuple((nbytes, show_place(origin) or "made inside an evaluation") for nbytes, origin in found[:count])


def out_of_memory(
    device: str, requested: int, held: int, total: int | None = None, limit: int | None = None
) -> OutOfMemoryError:
    """The error for a request that could not be met, with the largest live arrays."""
    return OutOfMemoryError(device, requested, held, total, limit, largest_buffers(device))
