"""Native code for operators whose left operand is a NumPy scalar.

NumPy delegates these operators to ``__array_ufunc__``.

In: the Python function `array_ufunc`. Out: a builtin that, for a number and an array, calls the array's reflected
operator, which has native code. For other arguments, the builtin calls `array_ufunc`. Invariant: the builtin and
`array_ufunc` give the same results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.codegen import OPS
from weft.dsl.arrays.array import Array
from weft.dsl.immediate.at_call import NUMBERS
from weft.dsl.immediate.callers import CALLERS, is_library
from weft.dsl.immediate.native_immediate import builtin_docstring
from weft.dsl.immediate.native_operands_text import OperandText
from weft.runtime import Builtin, Text, python_function

NAME = "weft_reflect"
_FUNCTIONS = (
    "PyDict_GetItemWithError PyEval_GetGlobals PyObject_GetItem PyObject_Vectorcall PyObject_VectorcallMethod "
    "PyUnicode_Compare Py_IncRef"
).split()
_OBJECTS: dict[str, Any] = {
    **{each.__name__: each for each in (Array, np.ndarray, is_library)},
    "True": True,
    "NotImplemented": NotImplemented,
    "nothing": (),
    "call": "__call__",
    "numbers": dict.fromkeys(NUMBERS, True),
}
# Comparisons have no reflected operators.
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _operators() -> Iterator[tuple[np.ufunc, str]]:
    """Yield pairs of a NumPy ufunc and the name of the array method that computes ``ufunc(number, array)``."""
    for definition in OPS.values():
        # (Powers of Python ints have separate rules.)
        if definition.arity == 2 and definition.dunder and definition.ufunc and definition.dunder != "pow":
            name = f"__{_TURNED.get(definition.dunder, f'r{definition.dunder}')}__"
            if name in vars(Array):
                yield getattr(np, definition.ufunc), sys.intern(name)


def reflect_numbers(slow: Callable[..., Any]) -> Builtin:
    """Return machine code for ``__array_ufunc__``. It calls a reflected operator if possible, or else calls `slow`."""
    objects = (*_OBJECTS.values(), dict(_operators()), slow)
    words = [*map(python_function, _FUNCTIONS), *map(id, objects), CALLERS.buffer_info()[0]]
    return Builtin(NAME, _Reflect().text(), words, (*objects, CALLERS), slow.__name__, builtin_docstring(slow))


class _Reflect(OperandText):
    def __init__(self) -> None:
        self._t = Text()
        self._known = self._t.begin_builtin(NAME, (*_FUNCTIONS, *_OBJECTS, "table", "slow", "callers"))

    def text(self) -> str:
        """Return the LLVM IR of the builtin.

        Its fast path is ``__array_ufunc__(array, ufunc, "__call__", number, array)``.
        """
        t, known = self._t, self._known
        pair = t.new("alloca ptr, i64 2")
        t.enter_if("icmp eq ptr %names, null", "unnamed", "slow")
        t.enter_if("icmp eq i64 %count, 5", "two", "slow")
        ufunc, method, number, array = (t.load("%given", k, "ptr") for k in range(1, 5))
        t.enter_if(f"icmp eq ptr {self._type(array)}, {known['Array']}", "array", "slow")
        differs = t.new(f"call i32 {known['PyUnicode_Compare']}(ptr {method}, ptr {known['call']})")
        t.enter_if(f"icmp eq i32 {differs}, 0", "called", "slow")
        operator = self._check(self._item("table", ufunc), "known", "slow")
        self._branch_on_caller("caller", "slow", "own", "failed")
        t.label("own")
        # (Comparisons of NumPy scalars pass a 0-d array.)
        t.enter_if(f"icmp eq ptr {self._type(number)}, {known['ndarray']}", "many", "one")
        t.enter_if(f"icmp eq i64 {self._axes(number)}, 0", "alone", "slow")
        item = t.new(f"call ptr {known['PyObject_GetItem']}(ptr {number}, ptr {known['nothing']})")
        self._check(item, "some", "failed")
        t.jump("is.number", "one")
        same = self._increment_reference(number)
        t.begin_block("is.number")
        value = t.new(f"phi ptr [ {item}, %some ], [ {same}, %one ]")
        t.enter_if(f"icmp eq ptr {self._item('numbers', self._type(value))}, null", "other", "number")
        self._decrement_reference(value)
        t.jump("slow", "number")
        for k, operand in enumerate((array, value)):
            t.do(f"store ptr {operand}, ptr {t.at(pair, k)}")
        # (The method may be replaced by native code.)
        method_call = f"call ptr {known['PyObject_VectorcallMethod']}"
        found = t.new(f"{method_call}(ptr {operator}, ptr {pair}, i64 2, ptr null)")
        self._decrement_reference(value)
        t.enter_if(f"icmp eq ptr {found}, {known['NotImplemented']}", "refused", "done")
        self._decrement_reference(found)
        t.begin_block("slow")
        slow = f"ptr {known['slow']}, ptr %given, i64 %count, ptr %names"
        other = t.new(f"call ptr {known['PyObject_Vectorcall']}({slow})")
        t.begin_block("done")
        result = t.new(f"phi ptr [ {found}, %number ], [ {other}, %slow ]")
        t.do(f"ret ptr {result}")
        t.label("failed")
        t.do("ret ptr null")
        return t.end()

    def _item(self, table: str, key: str) -> str:
        known = self._known
        return self._t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {known[table]}, ptr {key})")
