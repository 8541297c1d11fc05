"""The function that kernels call for ``print``. The function writes to `sys.stdout`.

In: three addresses. At the first address are a length and JSON text with the pieces, the dtypes of the values and their
C formats. At the second address is one 64-bit word per value. The third address is that of the launch's record, or 0.
"""

from __future__ import annotations

import ctypes
import json
import sys
from functools import lru_cache

import numpy as np

from weft.runtime.cpu.fault_words import request_poll, stop


def print_line(told: int, values: int) -> None:
    """Write the output of one call to ``print``, given the addresses of the format and of the values."""
    pieces, dtypes, formats = _read(ctypes.string_at(told + 8, ctypes.c_int64.from_address(told).value))
    parts = [pieces[0]]
    for k, (piece, dtype, form) in enumerate(zip(pieces[1:], dtypes, formats, strict=True)):
        word = ctypes.string_at(values + 8 * k, dtype.itemsize)
        parts += [_shown(np.frombuffer(word, dtype)[0].item(), form), piece]
    sys.stdout.write("".join(parts))


def _shown(value: bool | int | float, form: str) -> str:
    """Return a value as text, in the format of C's printf."""
    if isinstance(value, bool) and not form:
        return str(value)
    return f"%{form or ('g' if isinstance(value, float) else 'd')}" % value


@lru_cache(maxsize=256)
def _read(text: bytes) -> tuple[list[str], list[np.dtype], list[str]]:
    pieces, dtypes, formats = json.loads(text)
    return pieces, [np.dtype(name) for name in dtypes], formats


def _print(told: int, values: int, record: int | None) -> None:
    """Print the output of a kernel. Native code calls this function.

    An exception stops the kernel and is raised after the launch. The kernel then checks for signals at its next poll.
    """
    try:
        print_line(told, values)
    except BaseException as error:
        if not record:
            raise
        stop(record, error)
    finally:
        if record:
            request_poll(record)


# lives as long as the process: loaded code calls it
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(_print)
