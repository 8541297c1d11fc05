"""The function that writes the output of ``print`` in kernels to `sys.stdout`.

In: three addresses. At the first address are a length and JSON text with the pieces, the dtypes of the values and their
C formats. At the second address is one 64-bit word per value. The third address is that of the launch's failure record,
or 0.
"""

from __future__ import annotations

import ctypes
import json
import sys
from functools import lru_cache

import numpy as np

from weft.runtime.cpu import fault_words
from weft.runtime.cpu.native import immortal, link_native, python_function
from weft.runtime.llvm_files import read_llvm

PRINT = "weft_print"
_PYTHON = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyLong_FromVoidPtr",
    "PyObject_Vectorcall",
    "Py_DecRef",
    "PyErr_Fetch",
    "PyErr_WriteUnraisable",
)


def print_line(told: int, values: int) -> None:
    """Write the output of one ``print`` call, given the addresses of its format and its values."""
    pieces, dtypes, formats = _read(ctypes.string_at(told + 8, ctypes.c_int64.from_address(told).value))
    parts = [pieces[0]]
    for k, (piece, dtype, form) in enumerate(zip(pieces[1:], dtypes, formats, strict=True)):
        word = ctypes.string_at(values + 8 * k, dtype.itemsize)
        parts += [_shown(np.frombuffer(word, dtype)[0].item(), form), piece]
    sys.stdout.write("".join(parts))


def _shown(value: bool | int | float, form: str) -> str:
    """Return a value as text in the printf format `form`, or in a default format if `form` is empty."""
    if isinstance(value, bool) and not form:
        return str(value)
    return f"%{form or ('g' if isinstance(value, float) else 'd')}" % value


@lru_cache(maxsize=256)
def _read(text: bytes) -> tuple[list[str], list[np.dtype], list[str]]:
    pieces, dtypes, formats = json.loads(text)
    return pieces, [np.dtype(name) for name in dtypes], formats


def _link() -> ctypes.c_void_p:
    """Return the address of the native function that calls `print_line` and handles its exceptions.

    `print_line` cannot handle them: a signal handler may raise an exception before the first statement of `print_line`.
    """
    outside = {"print_line": id(immortal(print_line))} | {name: python_function(name) for name in _PYTHON}
    text = read_llvm(__file__, "printing", vars(fault_words))
    (address,) = link_native(text, outside, (PRINT,))
    return ctypes.c_void_p(address)


ADDRESS = _link()
