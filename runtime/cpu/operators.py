"""Native functions as the operator methods of a Python class, such as ``__add__`` and ``__getitem__``.

Python calls the functions directly through type slots.

In: a class with slots, and a `Builtin` for each of its methods. Out: descriptors like those of classes written in C.
Invariant: subclasses, and later replacements of the methods, behave as with methods written in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from weft.runtime.cpu.native import (
    HEADER,
    TUPLE_ITEMS,
    TUPLE_LENGTH,
    TYPE,
    Builtin,
    immortal,
    link_native,
    python_function,
    words_with_code,
)
from weft.runtime.llvm_files import read_llvm

_NAME, _TABLE_NAME = "weft_operator", "weft_operators"
_ON_STACK = 10  # a call with fewer arguments, including the called object, passes them on the stack
# Words shared by all operators: the class; the functions of Python's C API below, whose names in `operators.ll` are the
# keys; the function that deletes an item. Each operator has four more words: its function and the object to which it is
# bound, and the same for its reflected form. (For ``__call__``, the third word is the object for keyword arguments.)
_FUNCTIONS = {
    "IS_SUBTYPE": "PyType_IsSubtype",
    "VECTORCALL": "PyObject_Vectorcall",
    "RELEASE": "Py_DecRef",
    "WITH_DICTIONARY": "PyObject_VectorcallDict",
    "ALLOCATE": "PyMem_Malloc",
    "FREE": "PyMem_Free",
    "NO_MEMORY": "PyErr_NoMemory",
}
_FIRST, _EACH = 2 + len(_FUNCTIONS), 4
_BASE = HEADER + 24  # offset of the slot's description in a descriptor
# Kinds of slot functions: name, return type, parameters, maximum number.
_WAYS = (("either", "ptr", "ab", 14), ("first", "ptr", "ab", 24), ("set", "i32", "abc", 1), ("call", "ptr", "abc", 2))
_EITHER, _FIRST_ONLY, _SET, _CALL = range(len(_WAYS))
_MOST = sum(room for *_, room in _WAYS)
_free = [
    iter(range(end - room, end)) for end, (*_, room) in zip(accumulate(way[-1] for way in _WAYS), _WAYS, strict=True)
]
_TABLE = (ctypes.c_int64 * (_FIRST + _EACH * _MOST))()
words_with_code.append((ctypes.addressof(_TABLE), len(_TABLE)))


def put_operators(kind: type, methods: Mapping[str, Builtin], delete: Callable[..., Any]) -> None:
    """Replace the operator methods of a class with native functions.

    Parameters
    ----------
    kind : type
    methods : mapping of str to Builtin
        ``__getitem__``, ``__setitem__``, in-place operators, and other operators with their reflected methods.
    delete : callable
        Called to delete an item.

    Raises
    ------
    CompileError
        If native code cannot be compiled.
    """
    _find_operator()  # (this may fail, but nothing has been changed yet)
    _TABLE[0], _TABLE[_FIRST - 1] = id(kind), id(immortal(delete))
    for name, method in methods.items():
        reflected = f"__r{name[2:]}"
        if name.startswith("__r") and f"__{name[3:]}" in methods:  # (handled together with the operator)
            continue
        both = (method, methods.get(reflected, method))
        words = [word for each in both for word in (each.address, id(each.table))]
        if name == "__setitem__":
            _put(kind, _SET, ("__setitem__", "__delitem__"), np.ndarray, words)
        elif reflected in methods:
            _put(kind, _EITHER, (name, reflected), np.ndarray, words)
        else:
            _put(kind, _FIRST_ONLY, (name,), np.ndarray, words)


def put_call(kind: type, builtin: Builtin) -> None:
    """Make a native function the ``__call__`` method of a class.

    Raises CompileError if native code cannot be compiled.
    """
    _put(kind, _CALL, ("__call__",), np.ufunc, [builtin.address, id(builtin.table), id(builtin.call), 0])


def _put(kind: type, way: int, names: tuple[str, ...], like: type, words: list[int]) -> None:
    """Set special methods of a class to native code, as in an extension type."""
    find, number = _find_operator(), next(_free[way])
    at = _FIRST + _EACH * number
    _TABLE[at : at + _EACH] = words  # type: ignore[assignment]
    make = ctypes.pythonapi.PyDescr_NewWrapper
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p)
    for each in names:
        base = ctypes.c_void_p.from_address(id(vars(like)[each]) + _BASE).value
        setattr(kind, each, make(kind, base, find(number)))


@cache
def _find_operator() -> Callable[[int], int]:
    """Return a native function that takes an operator's number and returns the address of that operator's code."""
    (address,) = link_native(_text(), {_TABLE_NAME: ctypes.addressof(_TABLE)}, (_NAME,))
    _TABLE[1 : _FIRST - 1] = [ctypes.c_int64(python_function(name)) for name in _FUNCTIONS.values()]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)  # type: ignore[return-value]


def _text() -> str:
    """Return the LLVM text of all operators, and of a function that returns their addresses."""
    body = read_llvm(
        __file__,
        "operators",
        TABLE=_TABLE_NAME,
        KIND=0,
        DELETE=_FIRST - 1,
        TYPE=TYPE,
        COUNT=TUPLE_LENGTH,
        ITEMS=TUPLE_ITEMS,
        ON_STACK=_ON_STACK,
        **{name: k for k, name in enumerate(_FUNCTIONS, 1)},
    )
    lines = [f"@{_TABLE_NAME} = external global [{len(_TABLE)} x ptr]", body]
    names: list[str] = []
    for name, kind, taken, room in _WAYS:
        operands = ", ".join(f"ptr %{each}" for each in taken)
        for k in range(len(names), len(names) + room):
            names.append(f"{name}{k}")
            address = f"ptr getelementptr inbounds (ptr, ptr @{_TABLE_NAME}, i64 {_FIRST + _EACH * k})"
            call = f"%found = tail call {kind} @{name}({operands}, {address})"
            lines.append(
                f"define internal {kind} @{name}{k}({operands}) nounwind {{\n  {call}\n  ret {kind} %found\n}}"
            )
    cases = "\n  ".join(f"i64 {k}, label %{name}" for k, name in enumerate(names))
    returns = "\n".join(f"{name}:\n  ret ptr @{name}" for name in names)
    lines.append(
        f"define ptr @{_NAME}(i64 %k) {{\n  switch i64 %k, label %none [\n  {cases} ]\n{returns}\nnone:\n  ret ptr null\n}}"
    )
    return "\n".join(lines)
