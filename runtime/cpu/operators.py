"""Native functions as the operators of a class. Python calls them through slots of the type, without a lookup.

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

from weft.runtime.cpu.loader import link_symbols
from weft.runtime.cpu.native import HEADER, TYPE, Builtin, lasting, native_object, python_function, words_with_code

_NAME, _TABLE_NAME = "weft_operator", "weft_operators"
_ITEMS = tuple.__basicsize__  # offset of a tuple's items
_ON_STACK = 10  # number of call arguments that fit on the stack
# Words shared by all operators: the class; Python's functions to test for a subtype, to call, to release, to allocate
# and to free; the function that deletes an item. Each operator has four more words: its function and the object to
# which it is bound, and the same for its reflected form.
_FUNCTIONS = (
    "PyType_IsSubtype",
    "PyObject_Vectorcall",
    "Py_DecRef",
    "PyObject_VectorcallDict",
    "PyMem_Malloc",
    "PyMem_Free",
    "PyErr_NoMemory",
)
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
words_with_code.append(np.frombuffer(memoryview(_TABLE), np.int64))


def put_operators(kind: type, methods: Mapping[str, Builtin], delete: Callable[..., Any]) -> None:
    """Replace the operator methods of a class by native functions.

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
    _TABLE[0], _TABLE[_FIRST - 1] = id(kind), id(lasting(delete))
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
    """Make instances of a class callable by a native function, as their method ``__call__``.

    Raises CompileError if native code cannot be compiled.
    """
    _put(kind, _CALL, ("__call__",), np.ufunc, [builtin.address, id(builtin.table), id(builtin.call), 0])


def _put(kind: type, way: int, names: tuple[str, ...], like: type, words: list[int]) -> None:
    """Set special methods of a class to native code, in the way of a C extension."""
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
    """Return a native function that maps the number of an operator to the address of its code."""
    code = native_object(_NAME, _text(), (_TABLE_NAME,))
    memory, (address,) = link_symbols(code.code, {_TABLE_NAME: ctypes.addressof(_TABLE)}, (_NAME,))
    lasting(memory)
    _TABLE[1 : _FIRST - 1] = [ctypes.c_int64(python_function(name)) for name in _FUNCTIONS]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)  # type: ignore[return-value]


def _text() -> str:
    """Return the LLVM text of all operators, and of the function that returns their addresses."""
    words = "\n  ".join(
        f"%w{k} = load ptr, ptr getelementptr inbounds (ptr, ptr @{_TABLE_NAME}, i64 {k})" for k in range(_FIRST)
    )
    own = "\n  ".join(
        f"%own{k}.at = getelementptr ptr, ptr %own, i64 {k}\n  %own{k} = load ptr, ptr %own{k}.at" for k in range(_EACH)
    )
    given = "\n  ".join(f"%at{k} = getelementptr ptr, ptr %given, i64 {k}" for k in range(3))
    body = _BODY.replace("{begin}", "\n  ".join((words, own, "%given = alloca [3 x ptr]", given)))
    lines = [f"@{_TABLE_NAME} = external global [{len(_TABLE)} x ptr]", body]
    names: list[str] = []
    for name, kind, taken, room in _WAYS:
        operands = ", ".join(f"ptr %{each}" for each in taken)
        for k in range(len(names), len(names) + room):
            names.append(f"{name}{k}")
            place = f"ptr getelementptr inbounds (ptr, ptr @{_TABLE_NAME}, i64 {_FIRST + _EACH * k})"
            call = f"%found = tail call {kind} @{name}({operands}, {place})"
            lines.append(
                f"define internal {kind} @{name}{k}({operands}) nounwind {{\n  {call}\n  ret {kind} %found\n}}"
            )
    places = "\n  ".join(f"i64 {k}, label %{name}" for k, name in enumerate(names))
    returns = "\n".join(f"{name}:\n  ret ptr @{name}" for name in names)
    lines.append(
        f"define ptr @{_NAME}(i64 %k) {{\n  switch i64 %k, label %none [\n  {places} ]\n{returns}\nnone:\n  ret ptr null\n}}"
    )
    return "\n".join(lines)


_BODY = f"""
define internal ptr @either(ptr %a, ptr %b, ptr %own) noinline nounwind {{
  {{begin}}
  %type.at = getelementptr i8, ptr %a, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %same = icmp eq ptr %type, %w0
  br i1 %same, label %forward, label %maybe
maybe:
  %below = call i32 %w1(ptr %type, ptr %w0)
  %is.below = icmp ne i32 %below, 0
  br i1 %is.below, label %forward, label %reflected
reflected:
  store ptr %b, ptr %at0
  store ptr %a, ptr %at1
  %turned = call ptr %own2(ptr %own3, ptr %given, i64 2, ptr null)
  ret ptr %turned
forward:
  store ptr %a, ptr %at0
  store ptr %b, ptr %at1
  %found = call ptr %own0(ptr %own1, ptr %given, i64 2, ptr null)
  ret ptr %found
}}
define internal ptr @first(ptr %a, ptr %b, ptr %own) noinline nounwind {{
  {{begin}}
  store ptr %a, ptr %at0
  store ptr %b, ptr %at1
  %found = call ptr %own0(ptr %own1, ptr %given, i64 2, ptr null)
  ret ptr %found
}}
define internal i32 @set(ptr %a, ptr %b, ptr %c, ptr %own) noinline nounwind {{
  {{begin}}
  store ptr %a, ptr %at0
  store ptr %b, ptr %at1
  store ptr %c, ptr %at2
  %deletes = icmp eq ptr %c, null
  br i1 %deletes, label %delete, label %set
delete:
  %gone = call ptr %w2(ptr %w8, ptr %given, i64 2, ptr null)
  br label %done
set:
  %put = call ptr %own0(ptr %own1, ptr %given, i64 3, ptr null)
  br label %done
done:
  %result = phi ptr [ %gone, %delete ], [ %put, %set ]
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %wrong, label %well
well:
  call void %w3(ptr %result)
  ret i32 0
wrong:
  ret i32 -1
}}
define internal ptr @call(ptr %a, ptr %b, ptr %c, ptr %own) noinline nounwind {{
  {{begin}}
  %count.at = getelementptr i8, ptr %b, i64 {_ITEMS - 8}
  %count = load i64, ptr %count.at
  %items = getelementptr i8, ptr %b, i64 {_ITEMS}
  %all = add i64 %count, 1
  %few = icmp slt i64 %all, {_ON_STACK}
  br i1 %few, label %stack, label %memory
stack:
  %here = alloca [{_ON_STACK} x ptr]
  br label %take
memory:
  %bytes = mul i64 %all, 8
  %there = call ptr %w5(i64 %bytes)
  %none = icmp eq ptr %there, null
  br i1 %none, label %short, label %take
short:
  %nothing = call ptr %w7()
  ret ptr null
take:
  %room = phi ptr [ %here, %stack ], [ %there, %memory ]
  store ptr %a, ptr %room
  br label %copy
copy:
  %k = phi i64 [ 0, %take ], [ %next, %item ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %item, label %go
item:
  %from = getelementptr ptr, ptr %items, i64 %k
  %value = load ptr, ptr %from
  %next = add i64 %k, 1
  %to = getelementptr ptr, ptr %room, i64 %next
  store ptr %value, ptr %to
  br label %copy
go:
  %plain = icmp eq ptr %c, null
  br i1 %plain, label %unnamed, label %named
unnamed:
  %one = call ptr %own0(ptr %own1, ptr %room, i64 %all, ptr null)
  br label %end
named:
  %other = call ptr %w4(ptr %own2, ptr %room, i64 %all, ptr %c)
  br label %end
end:
  %found = phi ptr [ %one, %unnamed ], [ %other, %named ]
  br i1 %few, label %done, label %free
free:
  call void %w6(ptr %room)
  br label %done
done:
  ret ptr %found
}}
"""
