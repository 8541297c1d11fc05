"""Native code for NumPy's functions in scripts.

In: NumPy's function, weft's function, and the Python function that `choose` returns. Out: a builtin that calls NumPy's
function if every argument is a small array, a number, another plain value, or a short tuple or list of these. The first
other argument decides what is called instead: for a weft array, usually weft's function, and otherwise the Python
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate import native_objects_text
from weft.dsl.immediate.at_call import COMMON
from weft.dsl.immediate.small_work import METHODS_OF_FUNCTIONS
from weft.dsl.script import native_callers as native_callers
from weft.dsl.script.kinds import ALIKE, PLAIN, MemoryEffect, is_computed, take
from weft.runtime import (
    FIXED,
    IMMEDIATE,
    SEVERAL_DEVICES,
    Builtin,
    Replacement,
    Text,
    get_device,
    python_function,
    read_llvm,
    slots_of,
)

NAME = "weft_script"
_FUNCTIONS = (
    "PyObject_Vectorcall PyDict_GetItemWithError PyTuple_Size PyTuple_GetItem PyList_Size PyType_GetFlags "
    "PyType_GenericAlloc PyLong_AsLongLongAndOverflow Py_IncRef"
).split()
_IN_EVERY_TABLE = ("Py_DecRef", "PyList_GetItem")  # Python functions that every builtin's table contains
_RANGE = 2  # the word "alike" of `arange`
# The offset of a builtin's table, type flags (which subclasses inherit), and a bound of the lengths whose squares fit in
# a word. `native_objects_text` defines the other offsets.
_LAYOUT = {
    "TABLE": bytes.__basicsize__ - 1,
    "LIST": 1 << 25,
    "TUPLE": 1 << 26,
    "MOST": 1 << 31,
    "FIRST_ITEMS": 8,
    "OTHER_ORDER": ord(native_objects_text.OTHER_ORDER),
    "COMMON": COMMON,
    "RANGE": _RANGE,
}
_OBJECTS: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Array, Scalar, np.ndarray, float, int)},
    "axis": "axis",
    "plain": dict.fromkeys(PLAIN, True),
    # NumPy integers may be lengths, too. The Python function handles them.
    "plain.lengths": dict.fromkeys(PLAIN - {np.dtype(code).type for code in "bBhHiIlLqQ"} - {float, np.float64}, True),
    "take": partial(take, held=1),
    "several": SEVERAL_DEVICES,
    "false": False,
    "cpu": get_device("cpu"),
    "none": None,
}
# For functions in `ALIKE`, of which NumPy also creates larger arrays: the same types without str, which may name a
# device. `_VALUED` also contains the float types, and is used for all of these functions except `arange`.
_UNNAMED = {kind: True for kind in _OBJECTS["plain.lengths"] if kind is not str}
_VALUED = {**_UNNAMED, float: True, np.float64: True}
_WORDS = ("function", "numpys.method", "own", "method", "slow", "limit", "kind", "alike", "computes", "most.positional")


def check() -> bool:
    """Compile the native code as a test, and return True. Raises CompileError on failure."""
    make_native(len, len, len, MemoryEffect.COMPUTE)
    native_callers.native_class(len)
    return True


def make_native(
    wrapped: Callable[..., Any], own: Callable[..., Any], slow: Callable[..., Any], kind: MemoryEffect
) -> Any:
    """Return native code that replaces a script's function, or raise CompileError."""
    name = getattr(wrapped, "__name__", "")
    numpys, most = METHODS_OF_FUNCTIONS.get(wrapped, (wrapped, 0))
    if isinstance(own, UFunc):  # Python calls its method faster than the object itself
        own = own.__call__
    # (calling the method is fastest for small weft arrays, too)
    method = vars(Array)[numpys.__name__] if most else own
    alike = (_RANGE if name == "arange" else 1) if kind is MemoryEffect.CREATE and name in ALIKE else 0
    computes = int(is_computed(name, kind))
    given = {**_OBJECTS, "plain.lengths": [_OBJECTS["plain.lengths"], _VALUED, _UNNAMED][alike]}
    objects: Sequence[Any] = (*given.values(), wrapped, numpys, own, method, slow)
    words = [
        *map(python_function, _FUNCTIONS),
        *map(id, objects),
        IMMEDIATE.buffer_info()[0] + FIXED * IMMEDIATE.itemsize,
        int(kind),
        alike,
        computes,
        most,
    ]
    return Builtin(NAME, native_text(), words, (*objects, IMMEDIATE), getattr(wrapped, "__name__", "call")).call


@cache
def native_text() -> str:
    """Return the LLVM IR of ``call(self, ...)``, the native code for a script's function."""
    names = (*_FUNCTIONS, *_OBJECTS, *_WORDS)
    numbers = {name: k for k, name in enumerate(Text().begin_builtin(NAME, names))}
    words = {name.upper().replace(".", "_"): numbers[name] for name in (*names, *_IN_EVERY_TABLE)}
    effects = {effect.name: int(effect) for effect in MemoryEffect}
    slots = {f"{name.upper()}_SLOT": slots_of(Array)[f"_{name}"] for name in ("values", "device", "view")}
    layout = vars(native_objects_text)
    return read_llvm(__file__, "native_script", layout, NAME=NAME, **_LAYOUT, **slots, **effects, **words)


replacement = Replacement("weft.dsl.script.script_function.install_native_code", native_text)
