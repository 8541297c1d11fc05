"""Reports of the live buffers of a device, and the out-of-memory error.

The error lists the largest buffers.

In: a device's name. Out: its live buffers, largest first, with the user's line that created each buffer, if known. Only
this line is recorded when a buffer is created. The buffers are found on demand, among all objects of the garbage
collector.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from weft.runtime.device import Buffer
from weft.runtime.errors import OutOfMemoryError

SHOWN = 5


def counted(count: int, thing: str, things: str = "") -> str:
    """Return a count followed by its noun, such as "1 kernel" or "2,000 kernels"."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def show_location(location: object) -> str:
    """Return a source location as text such as ``file.py:12``, or "" for None.

    A location is a code object and an instruction offset. If the code is weft's, the code object and offset of the
    user's call follow.
    """
    if location is None:
        return ""
    path, line = source_line(location)
    return f"{show_file(path)}:{line}"


def source_line(location: Any) -> tuple[str, int]:
    """Return the file and the line number of a source location.

    For a location in weft's code, they are those of the user's call.
    """
    code, offset = location[-2:]
    line = next((n for start, end, n in code.co_lines() if start <= offset < end), None)
    return code.co_filename, line or code.co_firstlineno


def show_file(path: str) -> str:
    """Return a file's name without folders, or the label of a notebook cell."""
    return show_cell(path) or path.rsplit("/", 1)[-1]


def show_cell(path: str) -> str:
    """Return the label of a notebook cell, such as ``Cell In[3]``. If `path` is not the file of a notebook cell, return ""."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return " ".join((shell.compile.format_code_name(path) if shell is not None else None) or ())


def largest_buffers(device: str, count: int = SHOWN) -> tuple[tuple[int, str], ...]:
    """Return the sizes in bytes and the source locations of a device's largest buffers."""
    found = [
        (thing.nbytes, thing.origin)
        for thing in gc.get_objects()
        if isinstance(thing, Buffer) and thing.nbytes and getattr(thing.device, "name", None) == device
    ]
    found.sort(key=lambda pair: -pair[0])
    return tuple((nbytes, show_location(origin) or "made inside an evaluation") for nbytes, origin in found[:count])


def out_of_memory(
    device: str, requested: int, held: int, total: int | None = None, limit: int | None = None
) -> OutOfMemoryError:
    """Return the error for a failed memory request, with a list of the largest live buffers."""
    return OutOfMemoryError(device, requested, held, total, limit, largest_buffers(device))
