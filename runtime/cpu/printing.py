"""``print`` of explicit kernels: what host code calls to write a line to sys.stdout.

In: the address of a length and JSON text (the pieces, the dtypes of the values), and that of one 64-bit word a value.
"""

from __future__ import annotations

import ctypes
import json
import sys
from functools import lru_cache

import numpy as np


def print_line(told: int, values: int) -> None:
    """Write the pieces and values of one call, and end the line."""
    pieces, dtypes = _read(ctypes.string_at(told + 8, ctypes.c_int64.from_address(told).value))
    parts = [pieces[0]]
    for k, (piece, dtype) in enumerate(zip(pieces[1:], dtypes, strict=True)):
        word = ctypes.string_at(values + 8 * k, dtype.itemsize)
        parts += [str(np.frombuffer(word, dtype)[0]), piece]
    sys.stdout.write("".join(parts))


@lru_cache(maxsize=256)
def _read(text: bytes) -> tuple[list[str], list[np.dtype]]:
    pieces, dtypes = json.loads(text)
    return pieces, [np.dtype(name) for name in dtypes]


# kept for as long as the process: code that was loaded calls it
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(print_line)
