"""Functions, objects and tables that the native code for small arrays uses.

Out: names of functions of Python's C interface, and objects by name. The addresses of both are words of each `Builtin`.
"""

from __future__ import annotations

from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.immediate.at_call import CODES, NUMBERS, finish, from_numpy_result, seen, types_of
from weft.dsl.immediate.callers import is_library
from weft.fusion import ALONE, Storage
from weft.runtime import Buffer, Listening, get_device

FUNCTIONS = (
    "PyObject_Vectorcall PyObject_GetItem PyObject_SetItem PyObject_IsTrue PyDict_GetItemWithError PyDict_SetItem "
    "PyTuple_New PyTuple_GetItem PyTuple_Pack PyList_New PyList_GetItem PyList_SetItem PyList_AsTuple PySequence_Size "
    "PyUnicode_Compare PyType_GenericAlloc PyLong_FromVoidPtr PyEval_GetGlobals PyEval_GetFrame PyFrame_GetCode "
    "PyFrame_GetLasti Py_IncRef"
).split()
# The type number of a NumPy scalar's dtype, -1 for Python's bools, ints and floats, and an unused number for other types
# (axes are a tuple).
_PLAIN = dict.fromkeys((*NUMBERS, NoneType, EllipsisType, slice, tuple), 63) | dict.fromkeys((bool, int, float), -1)
_PLAIN |= {np.dtype(code).type: np.dtype(code).num for code in "?bBhHiIlLqQfdFD"}
_WHOLE: dict[type, bool] = dict.fromkeys((bool, int, *(np.dtype(code).type for code in "?bBhHiIlLqQ")), True)
_REALS: dict[type, bool] = {**_WHOLE, **dict.fromkeys((float, np.float32, np.float64), True)}


def _casts() -> dict[Any, int]:
    """Return a dict from each dtype (in all its notations) to the dtypes that NumPy and weft cast to it with the same
    result.

    The source dtypes are a bit mask (see `types_of`). Casts that discard imaginary parts are left out, because they warn.
    """
    found: dict[Any, int] = {}
    for code in CODES:
        kind = np.dtype(code)
        sources = {each for each in CODES if np.can_cast(each, kind)} | set("?bBhHiIlLqQ")  # (integers wrap)
        sources |= set({"f": "d", "F": "fdD"}.get(code, ""))  # (large values become infinite)
        if kind.kind == "b":
            sources |= set("fd")
        names = kind.type, kind, kind.name, kind.char, kind.str[1:]
        found |= dict.fromkeys(names, types_of(sources))
    return found | {each: found[np.dtype(each)] for each in (bool, int, float, complex)}


_CASTS = _casts()
_TYPES = (Array, np.ndarray, tuple, list, float, int, str, np.float32, np.float64, slice, Listening, Storage, Buffer)
_CALLED = (np.array, np.dot, np.matmul, from_numpy_result, finish, seen, is_library)
SHARED: dict[str, Any] = {
    **{each.__name__: each for each in (*_TYPES, *_CALLED)},
    **{name: name for name in ("out", "immediate", "listeners", "host_math", "nbytes", "shape")},
    "None": None,
    "True": True,
    "Ellipsis": ...,
    "plain": _PLAIN,
    "numbers": dict.fromkeys(NUMBERS, True),
    "real": _REALS,
    "whole": _WHOLE,
    "casts": _CASTS,
    "kinds of dtypes": dict.fromkeys(map(type, _CASTS), True),
    "options": dict.fromkeys(
        "assume_unique axes axis axis1 axis2 ddof decimals equal_nan indexing invert k keepdims kind minlength mode n offset "
        "ord return_counts return_index return_inverse rtol atol side".split(),
        True,
    ),
    # Options that NumPy's functions and the equivalent methods have in common. (The method `swapaxes` has none.)
    "options of methods": dict.fromkeys("axis ddof decimals keepdims kind mode offset side".split(), True),
    "call": "__call__",
    "two": 2,
    **{name: UFUNCS[name].immediate for name in ("power", "square")},
    "cpu": get_device("cpu"),
    "forward": slice(None),
    "backward": slice(None, None, -1),
    "sites alone": ALONE,
}
