"""LLVM IR that converts the result of a NumPy function to a weft array and returns it.

In: an ndarray or another object. Out: code that returns a weft array or, to some callers (see `_branch_on_caller`), the
ndarray itself.
"""

from __future__ import annotations

import numpy as np

from weft.dsl.immediate.native_index_text import IndexText
from weft.dsl.immediate.native_objects_text import BASE, C_ORDER, DTYPE, F_ORDER, FLAGS, NUMBER


class ResultText(IndexText):
    """Emitter of LLVM IR for a builtin's result."""

    def _return_result(self, result: str) -> None:
        """Emit code that returns a result as a weft array or, to some callers, as a NumPy array.

        `_branch_on_caller` determines the callers. The code wraps a new array in C or Fortran order. For all other
        arrays, the code calls Python's `from_numpy_result`.
        """
        t, known = self._t, self._known
        t.enter_if(f"icmp eq ptr {self._word(result, BASE)}, null", "owner", "unusual")
        self._branch_on_caller("caller", "library", "program", "caller.failed", result)
        t.label("library")
        self._return(result)
        t.label("caller.failed")
        self._decrement_reference(result)
        t.jump("leave", "program")
        flags = t.new(f"and i32 {self._word(result, FLAGS, 'i32')}, {C_ORDER | F_ORDER}")
        in_order = t.new(f"icmp ne i32 {flags}, 0")
        number = self._word(self._word(result, DTYPE), NUMBER, "i32")
        common = t.new(f"icmp ule i32 {number}, {np.dtype('D').num}")
        t.leave_if(f"and i1 {in_order}, {common}", "new", "unusual")
        self._return_from("from_numpy_result", result, t.load(self._device, 0, "ptr"), result)
        t.label("new")
        array = t.new(f"call ptr {known['PyType_GenericAlloc']}(ptr {known['Array']}, i64 0)")
        self._check(array, "new.set", "leave")
        self._fill(array, result)
        self._return(array)

    def _return_from(self, function: str, first: str, second: str, released: str) -> None:
        """Emit code that calls a Python function, drops a reference to the object `released`, and returns the result."""
        for k, value in enumerate((first, second)):
            self._t.do(f"store ptr {value}, ptr {self._t.at(self._pair, k)}")
        made = self._vectorcall(self._known[function], self._pair, 2)
        self._decrement_reference(released)
        self._return(made)
