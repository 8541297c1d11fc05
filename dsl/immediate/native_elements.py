"""Native reads and writes of single elements, without NumPy.

In: the builtin that reads or writes parts of an array. Out: a builtin that runs before the given builtin. If an array
in host memory contains integers, float32 or float64, and the indices are integers, the new builtin returns an element
as a NumPy scalar, or assigns a scalar. An assigned scalar has the array's dtype, or is an int, float, int64 or float64
that is in the range of the array's integers, or an int, float or int64 for a float64 array. All other calls are passed
to the given builtin.
"""

from __future__ import annotations

import ctypes
from array import array
from functools import cache
from typing import Any

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array
from weft.dsl.immediate.native_objects_text import LENGTHS, STRIDES, slot_offsets
from weft.dsl.immediate.native_operands_text import OperandText
from weft.fusion import Storage
from weft.runtime import (
    DATA,
    HEADER,
    IMMEDIATE,
    TUPLE_ITEMS,
    TUPLE_LENGTH,
    Buffer,
    Builtin,
    CompileError,
    Text,
    python_function,
)

NAME = "weft_element"
_ALLOCATE = 304  # offset of a type's allocation function
_FUNCTIONS = ("PyLong_AsLongLongAndOverflow", "Py_IncRef")
_OBJECTS: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Array, int, tuple, float)},
    "None": None,
    "double": np.float64,
    "long": np.int64,
}
_OWN = ("allocate", "dtypes", "next", "bound", "looks", "limit")
# Data of a dtype, by type number: the dtype, its scalar type, its item size, and its range of integers.
_ENTRY = 5
_KNOWN = [np.dtype(code) for code in "bBhHiIlLqQfd"]
_MOST = np.dtype("d").num
# The least int64, and the least float above all int64 numbers.
_LEAST, _END = "-9223372036854775808.0", "9223372036854775808.0"


@cache
def _dtypes() -> array[int]:
    words = array("q", [0] * (_ENTRY * (_MOST + 1)))
    for dtype in _KNOWN:
        least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (0, -1)
        begin = _ENTRY * dtype.num
        words[begin : begin + _ENTRY] = array(
            "q", [id(dtype), id(dtype.type), dtype.itemsize, least, min(most, 2**63 - 1)]
        )
    return words


def put_elements_first(following: Builtin) -> Builtin:
    """Return native code that reads or writes a single element, and calls `following` in all other cases.

    Raises
    ------
    CompileError
        If native code cannot be compiled, or if NumPy's scalars have an unknown layout.
    """
    for dtype in _KNOWN:
        probe = dtype.type(1)
        if ctypes.string_at(id(probe) + HEADER, dtype.itemsize) != probe.tobytes():
            raise CompileError("native code does not know this NumPy's scalars")
    allocate = {ctypes.c_int64.from_address(id(dtype.type) + _ALLOCATE).value for dtype in _KNOWN}
    if len(allocate) != 1:
        raise CompileError("native code does not know this NumPy's types")
    objects = (*_OBJECTS.values(), *_KNOWN, _dtypes(), following, following.table, VALUE_READS, IMMEDIATE)
    words = [*map(python_function, _FUNCTIONS), *map(id, _OBJECTS.values()), *allocate, _dtypes().buffer_info()[0]]
    words += [following.address, id(following.table), VALUE_READS.buffer_info()[0], IMMEDIATE.buffer_info()[0]]
    return Builtin(NAME, element_text(), words, objects)


@cache
def element_text() -> str:
    """Return the LLVM IR of the builtin that reads or writes an element.

    It is called as ``call(array, key)`` or ``call(array, key, value)``.
    """
    return _Element().text()


class _Element(OperandText):
    def __init__(self) -> None:
        self._at = slot_offsets(Array, Storage, Buffer)
        self._t = t = Text()
        self._known = t.begin_builtin(NAME, (*_FUNCTIONS, *_OBJECTS, *_OWN))
        self._device, self._overflow, self._offset = (t.new(f"alloca {kind}") for kind in ("ptr", "i32", "i64"))
        t.do(f"store ptr null, ptr {self._device}")
        t.store("0", self._offset, 0)

    def text(self) -> str:
        t, known = self._t, self._known
        sets = t.new("icmp eq i64 %count, 3")
        t.enter_if(f"or i1 {sets}, {t.new('icmp eq i64 %count, 2')}", "some", "give.up")
        first = t.load("%given", 0, "ptr")
        t.enter_if(f"icmp eq ptr {self._type(first)}, {known['Array']}", "array", "give.up")
        values = self._values("element", first)
        number = self._number("native", values)
        t.enter_if(f"icmp ule i64 {number}, {_MOST}", "usual", "give.up")
        entry = t.at(known["dtypes"], t.new(f"mul i64 {number}, {_ENTRY}"))
        self._check(t.load(entry, 0, "ptr"), "known", "give.up")
        self._kind, self._bytes = t.load(entry, 1, "ptr"), t.load(entry, 2)
        self._least, self._greatest = t.load(entry, 3), t.load(entry, 4)
        address = self._address_of(values)
        t.branch(f"icmp eq i1 {sets}, 1", "set", "get")
        self._get(address)
        self._set_to(first, values, address)
        t.label("give.up")
        result = t.new(f"tail call ptr {known['next']}(ptr {known['bound']}, ptr %given, i64 %count, ptr %names)")
        t.do(f"ret ptr {result}")
        return t.end()

    def _address_of(self, values: str) -> str:
        """Emit code that computes the address of an array element from its index. The index is an integer or a tuple of integers."""
        t, known = self._t, self._known
        key = t.load("%given", 1, "ptr")
        kind = self._type(key)
        t.enter_if(f"icmp eq ptr {kind}, {known['tuple']}", "several", "single")
        count, items = self._word(key, TUPLE_LENGTH, "i64"), t.new(f"getelementptr i8, ptr {key}, i64 {TUPLE_ITEMS}")
        t.jump("items", "single")
        alone = t.at("%given", 1)
        t.begin_block("items")
        count = t.new(f"phi i64 [ {count}, %several ], [ 1, %single ]")
        items = t.new(f"phi ptr [ {items}, %several ], [ {alone}, %single ]")
        t.enter_if(f"icmp eq i64 {count}, {self._axes(values)}", "all", "give.up")
        lengths, strides = self._word(values, LENGTHS), self._word(values, STRIDES)
        k = t.begin_loop("axis", count)
        index = self._integer("axis", t.load(items, k, "ptr"))
        length = t.load(lengths, k)
        back = t.new(f"select i1 {t.new(f'icmp slt i64 {index}, 0')}, i64 {length}, i64 0")
        behind = t.new(f"add i64 {index}, {back}")
        t.enter_if(f"icmp ult i64 {behind}, {length}", "axis.in", "give.up")
        step = t.new(f"mul i64 {behind}, {t.load(strides, k)}")
        t.store(t.new(f"add i64 {t.load(self._offset, 0)}, {step}"), self._offset, 0)
        t.end_loop("axis")
        return t.new(f"getelementptr i8, ptr {self._word(values, DATA)}, i64 {t.load(self._offset, 0)}")

    def _integer(self, name: str, thing: str) -> str:
        """Emit code that loads a Python int or a NumPy int64.

        For other types, and for ints that need more than 64 bits, the code branches to ``give.up``.
        """
        t, known = self._t, self._known
        kind = self._type(thing)
        t.leave_if(f"icmp eq ptr {kind}, {known['int']}", f"{name}.int", f"{name}.other")
        t.enter_if(f"icmp eq ptr {kind}, {known['long']}", f"{name}.long", "give.up")
        long = self._word(thing, HEADER, "i64")
        t.jump(f"{name}.value", f"{name}.int")
        read = f"call i64 {known['PyLong_AsLongLongAndOverflow']}(ptr {thing}, ptr {self._overflow})"
        value, wrong = t.new(read), t.new(f"load i32, ptr {self._overflow}")
        t.enter_if(f"icmp eq i32 {wrong}, 0", f"{name}.value", "give.up")
        return t.new(f"phi i64 [ {value}, %{name}.int ], [ {long}, %{name}.long ]")

    def _get(self, address: str) -> None:
        t, known = self._t, self._known
        t.label("get")
        made = t.new(f"call ptr {known['allocate']}(ptr {self._kind}, i64 0)")
        t.leave_if(f"icmp eq ptr {made}, null", "made", "made.set")
        t.store(t.new(f"add i64 {t.load(known['looks'], 0)}, 1"), known["looks"], 0)
        self._copy("read", address, t.new(f"getelementptr i8, ptr {made}, i64 {HEADER}"))
        t.label("made")
        t.do(f"ret ptr {made}")

    def _copy(self, name: str, address: str, target: str) -> None:
        """Emit code that copies the bytes of an element.

        The code then jumps to ``made`` after a read, or to ``written`` after a write.
        """
        t, sizes = self._t, (1, 2, 4, 8)
        listed = " ".join(f"i64 {size}, label %{name}.{size}" for size in sizes)
        t.do(f"switch i64 {self._bytes}, label %give.up [ {listed} ]")
        for size in sizes:
            t.label(f"{name}.{size}")
            t.do(f"store i{8 * size} {t.new(f'load i{8 * size}, ptr {address}, align 1')}, ptr {target}, align 1")
            t.do(f"br label %{'made' if name == 'read' else 'written'}")

    def _set_to(self, first: str, values: str, address: str) -> None:
        t, known = self._t, self._known
        t.label("set")
        t.enter_if(f"icmp sgt i64 {t.load(known['limit'], 0)}, 0", "set.on", "give.up")
        self._is_free("set", first, values)
        thing = t.load("%given", 2, "ptr")
        kind = self._type(thing)
        same, is_float = (t.new(f"icmp eq ptr {kind}, {each}") for each in (self._kind, known["float"]))
        double = t.new(f"icmp eq ptr {self._kind}, {known['double']}")
        t.enter_if(f"or i1 {same}, {t.new(f'and i1 {double}, {is_float}')}", "set.same", "set.other")
        alike = t.new(f"getelementptr i8, ptr {thing}, i64 {HEADER}")
        t.jump("write", "set.other")
        is_double = t.new(f"icmp eq ptr {kind}, {known['double']}")
        has_fraction = t.new(f"or i1 {is_float}, {is_double}")
        integers = t.new(f"icmp sle i64 {self._least}, {self._greatest}")
        t.enter_if(f"and i1 {has_fraction}, {integers}", "set.fraction", "set.integer")
        number = self._word(thing, HEADER, "double")
        above, below = (
            t.new(f"fcmp {test} double {number}, {bound}") for test, bound in (("oge", _LEAST), ("olt", _END))
        )
        t.enter_if(f"and i1 {above}, {below}", "set.truncated", "give.up")
        truncated = t.new(f"fptosi double {number} to i64")
        t.jump("set.whole", "set.integer")
        value = self._integer("value", thing)
        t.enter_if(f"icmp eq i1 {double}, 1", "set.rounded", "set.whole")
        t.do(f"store double {t.new(f'sitofp i64 {value} to double')}, ptr {self._offset}")
        t.jump("write", "set.whole")
        value = t.new(f"phi i64 [ {value}, %value.value ], [ {truncated}, %set.truncated ]")
        inside = [t.new(f"icmp sge i64 {value}, {self._least}"), t.new(f"icmp sle i64 {value}, {self._greatest}")]
        t.store(value, self._offset, 0)  # (its lowest bytes come first)
        t.enter_if(f"and i1 {inside[0]}, {inside[1]}", "write", "give.up")
        source = t.new(
            f"phi ptr [ {alike}, %set.same ], [ {self._offset}, %set.rounded ], [ {self._offset}, %set.whole ]"
        )
        self._copy("write", source, address)
        t.label("written")
        t.do(f"call void {known['Py_IncRef']}(ptr {known['None']})")
        t.do(f"ret ptr {known['None']}")
