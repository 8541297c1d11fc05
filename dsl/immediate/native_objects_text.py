"""LLVM IR that reads and writes fields of Python and NumPy objects.

In: LLVM IR under construction, with its named words and the offsets of slots. Out: code that reads and writes fields,
and branches.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from weft.runtime import DATA, TUPLE_ITEMS, TUPLE_LENGTH, TYPE, Text, slots_of

# Offsets in NumPy's array objects and dtypes, fixed by its ABI.
AXES, LENGTHS, STRIDES, BASE, DTYPE, FLAGS = (DATA + 8 * k for k in range(1, 7))
ORDER, NUMBER, ITEMSIZE = 26, 28, 40
C_ORDER, F_ORDER, WRITABLE = 1, 2, 0x400  # bits of an array's flags
OTHER_ORDER = ">" if sys.byteorder == "little" else "<"  # NumPy's character for the non-native byte order


def slot_offsets(*kinds: type) -> dict[str, int]:
    """Return the offsets of the slots of several classes, by names such as "Array._values"."""
    return {f"{kind.__name__}.{name}": offset for kind in kinds for name, offset in slots_of(kind).items()}


class ObjectText:
    """Emitter of LLVM IR that accesses fields of Python and NumPy objects."""

    _at: Mapping[str, int]
    _known: Mapping[str, str]
    _t: Text
    _product: str  # address of a stack slot
    _result: str  # ... for the object that the code returns

    def _word(self, thing: str, offset: int, kind: str = "ptr") -> str:
        return self._t.new(f"load {kind}, ptr {self._t.new(f'getelementptr i8, ptr {thing}, i64 {offset}')}")

    def _field(self, thing: str, name: str) -> str:
        return self._word(thing, self._at[name])

    def _set(self, thing: str, name: str, value: str) -> None:
        self._t.do(f"store ptr {value}, ptr {self._t.new(f'getelementptr i8, ptr {thing}, i64 {self._at[name]}')}")

    def _type(self, thing: str) -> str:
        return self._word(thing, TYPE)

    def _check(self, value: str, name: str, otherwise: str) -> str:
        """Emit a null check of a pointer: a branch to the label `otherwise` if it is null, and to the label `name` if it is not."""
        self._t.leave_if(f"icmp eq ptr {value}, null", otherwise, name)
        return value

    def _set_none(self, thing: str, *names: str) -> None:
        """Emit code that sets attributes of a new object to None. (Reads of unset attributes call `__getattr__`.)"""
        for name in names:
            self._set(thing, name, self._increment_reference(self._known["None"]))

    def _is_some(self, value: str, name: str, otherwise: str) -> None:
        """Emit a branch to the label `name` if an attribute is set and is not None, otherwise to the label `otherwise`."""
        t = self._t
        unset, none = t.new(f"icmp eq ptr {value}, null"), t.new(f"icmp eq ptr {value}, {self._known['None']}")
        t.leave_if(f"or i1 {unset}, {none}", otherwise, name)

    def _branch_on_type(self, here: str, kind: str, labels: Mapping[str, str]) -> None:
        """Emit branches on the type of an object to the labels in `labels`, and to ``slow`` for other types."""
        for k, (name, label) in enumerate(labels.items()):
            behind = f"{here}.{k}" if k + 1 < len(labels) else "slow"
            self._t.branch(f"icmp eq ptr {kind}, {self._known[name]}", label, behind)
            if behind != "slow":
                self._t.label(behind)

    def _increment_reference(self, value: str) -> str:
        self._t.do(f"call void {self._known['Py_IncRef']}(ptr {value})")
        return value

    def _vectorcall(self, function: str, values: str, count: str | int, names: str = "null") -> str:
        operands = f"ptr {function}, ptr {values}, i64 {count}, ptr {names}"
        return self._t.new(f"call ptr {self._known['PyObject_Vectorcall']}({operands})")

    def _decrement_reference(self, value: str) -> None:
        self._t.do(f"call void {self._known['Py_DecRef']}(ptr {value})")

    def _return(self, value: str) -> None:
        self._t.do(f"store ptr {value}, ptr {self._result}")
        self._t.do("br label %leave")

    def _number(self, name: str, values: str) -> str:
        """Emit code that loads the type number of an array's dtype.

        For a non-native byte order, the code branches to ``give.up``.
        """
        t = self._t
        dtype = self._word(values, DTYPE)
        # (A dtype may have a second object, for example after unpickling.)
        t.leave_if(f"icmp eq i8 {self._word(dtype, ORDER, 'i8')}, {ord(OTHER_ORDER)}", "give.up", name)
        return t.new(f"sext i32 {self._word(dtype, NUMBER, 'i32')} to i64")

    def _axes(self, values: str) -> str:
        return self._t.new(f"sext i32 {self._word(values, AXES, 'i32')} to i64")

    def _size(self, name: str, values: str) -> str:
        t = self._t
        lengths = self._word(values, LENGTHS)
        t.store("1", self._product, 0)
        k = t.begin_loop(name, self._axes(values))
        t.store(t.new(f"mul i64 {t.load(self._product, 0)}, {t.load(lengths, k)}"), self._product, 0)
        t.end_loop(name)
        return t.load(self._product, 0)

    def _all_in(self, name: str, things: str, table: str, otherwise: str = "give.up") -> None:
        """Emit a branch to the label `otherwise` unless the type of each item of a tuple is int, slice or a key of `table`."""
        t = self._t
        k = t.begin_loop(f"{name}.all", self._word(things, TUPLE_LENGTH, "i64"))
        items = t.new(f"getelementptr i8, ptr {things}, i64 {TUPLE_ITEMS}")
        self._is_in(f"{name}.each", self._type(t.load(items, k, "ptr")), table, f"{name}.all.end", otherwise)
        t.end_loop(f"{name}.all", reached=True)

    def _is_in(self, name: str, kind: str, table: str, on: str, otherwise: str = "give.up") -> None:
        """Emit a branch that is taken if a type is int, slice or a key of the dict `table`. Its labels are `on` (taken) and `otherwise`."""
        t, known = self._t, self._known
        whole, part = (t.new(f"icmp eq ptr {kind}, {known[each]}") for each in ("int", "slice"))
        t.leave_if(f"or i1 {whole}, {part}", on, name)
        there = t.new(f"call ptr {known['PyDict_GetItemWithError']}(ptr {table}, ptr {kind})")
        t.branch(f"icmp eq ptr {there}, null", otherwise, on)
