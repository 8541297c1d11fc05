"""Native code for `Array.__class__`, whose value depends on the caller.

In: the Python function with the same effect. Out: a builtin that looks up the calling module in a table (`callers`), and
calls the Python function for modules that are not in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.dsl.immediate.callers import CALLERS, SHIFT, SLOTS
from weft.runtime import TYPE, Builtin, Text, python_function

NAME = "weft_callers"
_FUNCTIONS = ("PyObject_Vectorcall", "PyEval_GetGlobals", "Py_IncRef")


def native_class(slow: Callable[..., Any]) -> Callable[..., Any]:
    """Return a getter for `Array.__class__`. The getter returns `numpy.ndarray` if its caller is a library.

    The getter calls `slow` for unknown callers. Raises CompileError if it cannot be compiled.
    """
    objects = (np.ndarray, slow)
    words = [*map(python_function, _FUNCTIONS), CALLERS.buffer_info()[0], *map(id, objects)]
    return Builtin(NAME, _text(), words, (*objects, CALLERS), "__class__", getattr(slow, "__doc__", None) or "").call


@cache
def _text() -> str:
    """Return the LLVM IR of the native getter for the property `Array.__class__`."""
    t = Text()
    known = t.begin_builtin(NAME, (*_FUNCTIONS, "callers", "ndarray", "slow"))
    callers = known["callers"]
    t.enter_if("icmp eq ptr %names, null", "unnamed", "slow")
    t.enter_if("icmp eq i64 %count, 1", "alone", "slow")
    kind = t.load(t.new(f"getelementptr i8, ptr {t.load('%given', 0, 'ptr')}, i64 {TYPE}"), 0, "ptr")
    t.leave_if(f"icmp eq i64 {t.load(callers, 0)}, 0", "slow", "redirected")
    current = t.new(f"call ptr {known['PyEval_GetGlobals']}()")
    names = t.new(f"ptrtoint ptr {current} to i64")
    slot = t.new(f"and i64 {t.new(f'lshr i64 {names}, {SHIFT}')}, {SLOTS - 1}")
    at = t.new(f"add i64 {t.new(f'shl i64 {slot}, 1')}, 1")
    t.enter_if(f"icmp eq i64 {t.load(callers, at)}, {names}", "known", "slow")
    library = t.new(f"icmp ne i64 {t.load(callers, t.new(f'add i64 {at}, 1'))}, 0")
    seen = t.new(f"select i1 {library}, ptr {known['ndarray']}, ptr {kind}")
    t.do(f"call void {known['Py_IncRef']}(ptr {seen})")
    t.do(f"ret ptr {seen}")
    t.label("slow")
    called = f"call ptr {known['PyObject_Vectorcall']}(ptr {known['slow']}, ptr %given, i64 %count, ptr %names)"
    t.do(f"ret ptr {t.new(called)}")
    return t.end()
