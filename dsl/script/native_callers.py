"""Native code for functions whose result depends on the caller, such as imports.

In: the Python functions with the same effect. Out: builtins that look up the calling module in a table (`callers`), and
call the Python functions for modules that are not in the table. Invariant: tracebacks do not show the builtins, because
a builtin has no frame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.dsl.immediate.callers import CALLERS, SHIFT, SLOTS
from weft.runtime import TYPE, Builtin, Text, python_function

NAME = "weft_callers"
_FUNCTIONS = ("PyObject_Vectorcall", "PyEval_GetGlobals", "PyUnicode_AsUTF8AndSize", "PyErr_Clear", "Py_IncRef")
_WORDS = ("callers", "kind", "str", "first", "slow")
_IMPORT, _CLASS = 0, 1
_MODULE = "numpy"


def native_import(imported: Callable[..., Any], slow: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builtin that replaces ``__import__``.

    The builtin calls `imported` if the imported module is not NumPy's or the caller is a library, and otherwise `slow`.
    Raises CompileError if it cannot be compiled.
    """
    return _make(_IMPORT, imported, slow, "__import__")


def native_class(slow: Callable[..., Any]) -> Callable[..., Any]:
    """Return a getter for `Array.__class__` that returns `numpy.ndarray` to libraries, and otherwise the real type.

    The getter calls `slow` for unknown callers. Raises CompileError if it cannot be compiled.
    """
    return _make(_CLASS, np.ndarray, slow, "__class__")


def _make(kind: int, first: Any, slow: Callable[..., Any], name: str) -> Callable[..., Any]:
    objects = (str, first, slow)
    words = [*map(python_function, _FUNCTIONS), CALLERS.buffer_info()[0], kind, *map(id, objects)]
    return Builtin(NAME, _text(), words, (*objects, CALLERS), name, getattr(slow, "__doc__", None) or "").call


@cache
def _text() -> str:
    """Return the LLVM IR of ``call(self, ...)``, the native code for imports and `Array.__class__`."""
    t = Text()
    known = t.begin_builtin(NAME, (*_FUNCTIONS, *_WORDS))
    first, slow, callers = known["first"], known["slow"], known["callers"]
    length = t.new("alloca i64")
    t.enter_if("icmp eq ptr %names, null", "unnamed", "slow")
    t.enter_if("icmp sge i64 %count, 1", "some", "slow")
    given = t.load("%given", 0, "ptr")
    type_at = t.new(f"getelementptr i8, ptr {given}, i64 {TYPE}")
    kind = t.load(type_at, 0, "ptr")
    t.enter_if(f"icmp eq ptr {known['kind']}, inttoptr (i64 {_CLASS} to ptr)", "alone", "name")
    t.branch("icmp eq i64 %count, 1", "caller", "slow")
    t.label("name")
    t.enter_if(f"icmp eq ptr {kind}, {known['str']}", "text", "import")
    text = t.new(f"call ptr {known['PyUnicode_AsUTF8AndSize']}(ptr {given}, ptr {length})")
    t.branch(f"icmp eq ptr {text}, null", "text.wrong", "text.some")
    t.label("text.wrong")  # (the original function raises the error for a lone surrogate)
    t.do(f"call void {known['PyErr_Clear']}()")
    t.jump("import", "text.some")
    for k, letter in enumerate(_MODULE):  # (the text ends with a zero)
        found = t.new(f"load i8, ptr {t.new(f'getelementptr i8, ptr {text}, i64 {k}')}")
        t.enter_if(f"icmp eq i8 {found}, {ord(letter)}", f"letter.{k}", "import")
    t.begin_block("caller")
    t.leave_if(f"icmp eq i64 {t.load(callers, 0)}, 0", "slow", "redirected")
    current = t.new(f"call ptr {known['PyEval_GetGlobals']}()")
    names = t.new(f"ptrtoint ptr {current} to i64")
    slot = t.new(f"and i64 {t.new(f'lshr i64 {names}, {SHIFT}')}, {SLOTS - 1}")
    at = t.new(f"add i64 {t.new(f'shl i64 {slot}, 1')}, 1")
    t.enter_if(f"icmp eq i64 {t.load(callers, at)}, {names}", "known", "slow")
    library = t.new(f"icmp ne i64 {t.load(callers, t.new(f'add i64 {at}, 1'))}, 0")
    t.leave_if(f"icmp eq ptr {known['kind']}, inttoptr (i64 {_CLASS} to ptr)", "class", "known.import")
    t.branch(f"icmp eq i1 {library}, 1", "import", "slow")
    t.label("class")
    seen = t.new(f"select i1 {library}, ptr {first}, ptr {kind}")
    t.do(f"call void {known['Py_IncRef']}(ptr {seen})")
    t.do(f"ret ptr {seen}")
    for label, function in (("import", first), ("slow", slow)):
        t.label(label)
        called = f"call ptr {known['PyObject_Vectorcall']}(ptr {function}, ptr %given, i64 %count, ptr %names)"
        t.do(f"ret ptr {t.new(called)}")
    return t.end()
