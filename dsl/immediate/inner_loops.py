"""Tables of ufunc inner loops for native code to call.

In: a dtype, and an op's ufunc, which is NumPy's or compiled. Out: a table of words for each op: the number of operands,
then an entry for each dtype's type number. Invariant: an entry is empty, or its loop gives the same results as the op.
"""

from __future__ import annotations

from array import array
from functools import cache

import numpy as np

import weft.runtime as runtime

# The words of an entry: operand dtype, result dtype, loop, loop data, bytes of an operand, bytes of a result, whether the
# loop was compiled, and by how many bits the limit on elements is shifted.
OPERAND, RESULT, LOOP, LOOP_DATA, BYTES, RESULT_BYTES, COMPILED, SHIFT = range(8)
# Values of the word `COMPILED`: a loop of NumPy, a loop that weft has compiled, and a compiled loop of `power`.
NUMPYS, COMPILED_LOOP, POWER = range(3)
HEAD, ENTRY = 1, 8
MOST = np.dtype("D").num  # type number of the last dtype
_DTYPES = {np.dtype(code).num: np.dtype(code) for code in "?bBhHiIlLqQfdFD"}


def store_numpy_loops(name: str, ufunc: np.ufunc, types: int, shifts: int) -> None:
    """Store the inner loops of a NumPy ufunc in the table of op `name`, for several dtypes.

    `types` is a bit mask of dtypes.
    """
    for number, dtype in _DTYPES.items():
        if (types >> number) & 1:
            note_loop(name, ufunc, dtype, shifts)


def note_loop(name: str, ufunc: np.ufunc, dtype: np.dtype, shifts: int, compiled: bool = False) -> None:
    """Store the inner loop of a ufunc for one dtype in the table of op `name`.

    `shifts` has two bits for each dtype, as returned by `shifts_of`.
    """
    dtype = np.dtype(dtype.char)
    found = runtime.find_inner_loop(ufunc, dtype)
    if found is None or found[2].num > MOST:
        return
    loop, data, result = found
    table, begin = loops_of(name), HEAD + ENTRY * dtype.num
    table[0] = ufunc.nin
    # (NumPy keeps its dtypes for the lifetime of the process.)
    entry = [
        id(dtype),
        id(result),
        loop,
        data,
        dtype.itemsize,
        result.itemsize,
        (POWER if name == "power" else COMPILED_LOOP) if compiled else NUMPYS,
        (shifts >> 2 * dtype.num) & 3,
    ]
    table[begin : begin + ENTRY] = array("q", entry)


@cache
def loops_of(op: str) -> array[int]:
    """Return the table of an op's inner loops, which is initially empty."""
    return array("q", [0] * (HEAD + ENTRY * (MOST + 1)))
