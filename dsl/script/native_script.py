"""Native version of `script_function.choose`. It adds little overhead to a call of NumPy's function.

In: NumPy's function, and the Python function that chooses. Out: a builtin that calls NumPy's function if every
argument is a small array, a number, another plain value, or a short tuple or list of these. Otherwise it calls the
Python function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate.host_values import DATA
from weft.dsl.script import native_callers as native_callers
from weft.dsl.script.kinds import ALIKE, PLAIN, MemoryEffect, is_computed, take
from weft.runtime import IMMEDIATE, Builtin, Replacement, Text, python_function

NAME = "weft_script"
_FUNCTIONS = (
    "PyObject_Vectorcall",
    "PyDict_GetItemWithError",
    "PyTuple_Size",
    "PyList_Size",
    "PyTuple_GetItem",
    "PyType_GetFlags",
    "PyLong_AsLongLongAndOverflow",
)
_OBJECTS: dict[str, Any] = {
    "Array": Array,
    "ndarray": np.ndarray,
    "float": float,
    "int": int,
    "plain": dict.fromkeys(PLAIN, True),
    # NumPy integers may be lengths, too. The Python function handles them.
    "plain.lengths": dict.fromkeys(PLAIN - {np.dtype(code).type for code in "bBhHiIlLqQ"} - {float, np.float64}, True),
    "take": take,
}
# ... without names (of devices), for functions for which NumPy also creates larger arrays. Floats are values there,
# except for the ends of ranges.
_UNNAMED = {kind: True for kind in _OBJECTS["plain.lengths"] if kind is not str}
_VALUED = {**_UNNAMED, float: True, np.float64: True}
_RANGE = 2
_WORDS = ("function", "own", "method", "slow", "limit", "kind", "alike", "computes")
# Functions that are equivalent to a method of the same name, with the same arguments. Calling the method is the fastest
# way for small weft arrays.
_METHODS = {
    **{
        name: name
        for name in (
            "sum prod min max mean var std any all argmin argmax cumsum cumprod ptp dot argsort take squeeze ravel "
            "swapaxes nonzero"
        ).split()
    },
    "amin": "min",
    "amax": "max",
}


def check() -> None:
    """Raise CompileError if native code cannot be compiled."""
    make_native(len, len, len, MemoryEffect.COMPUTE)
    native_callers.native_class(len)


def make_native(
    wrapped: Callable[..., Any], own: Callable[..., Any], slow: Callable[..., Any], kind: MemoryEffect
) -> Any:
    """Return the builtin that replaces a script function. Raises CompileError if it cannot be compiled."""
    name = getattr(wrapped, "__name__", "")
    has_method = name in _METHODS and getattr(np, name, None) is wrapped
    if isinstance(own, UFunc):  # Python calls its method faster than the object itself
        own = own.__call__
    method = vars(Array)[_METHODS[name]] if has_method else own
    alike = (_RANGE if name == "arange" else 1) if kind is MemoryEffect.CREATE and name in ALIKE else 0
    computes = int(is_computed(name, kind))
    given = {**_OBJECTS, "plain.lengths": [_OBJECTS["plain.lengths"], _VALUED, _UNNAMED][alike]}
    objects: Sequence[Any] = (*given.values(), wrapped, own, method, slow)
    words = [
        *map(python_function, _FUNCTIONS),
        *map(id, objects),
        IMMEDIATE.buffer_info()[0],
        int(kind),
        alike,
        computes,
    ]
    return Builtin(NAME, native_text(), words, (*objects, IMMEDIATE), getattr(wrapped, "__name__", "call")).call


@cache
def native_text() -> str:
    """Return the LLVM IR of ``call(self, ...)``."""
    t = Text()
    names = (*_FUNCTIONS, *_OBJECTS, *_WORDS)
    known = t.begin_builtin(NAME, names)
    numbers = {name: k for k, name in enumerate(known)}
    body = re.sub(r"{([\w.]+)}", lambda found: known[found[1]], _BODY)
    # ``%x = word NAME`` loads a word of the builtin's table
    loads = r"\1.at = getelementptr i64, ptr %words, i64 {}\n  \1 = load ptr, ptr \1.at"
    helpers = re.sub(
        r"(%[\w.]+) = word ([\w.]+)", lambda found: found.expand(loads.format(numbers[found[2]])), _HELPERS
    )
    return helpers + "\n".join((*t.lines, body))


replacement = Replacement("weft.dsl.script.script_function.quicken", native_text, 4_000)


_AXES, _LENGTHS, _TYPE = DATA + 8, DATA + 16, 8
_LIST, _TUPLE = 1 << 25, 1 << 26  # flags of types, which subclasses have, too
_MOST = 1 << 31  # maximum length whose square fits in a word


# few: whether the square of an array's number of elements is within the limit. judge: whether an argument is small.
# Lengths are multiplied, and a range has at most as many elements as its ends imply.
_HELPERS = f"""
define internal i64 @size(ptr %array) alwaysinline {{
enter:
  %axes.at = getelementptr i8, ptr %array, i64 {_AXES}
  %axes = load i32, ptr %axes.at
  %lengths.at = getelementptr i8, ptr %array, i64 {_LENGTHS}
  %lengths = load ptr, ptr %lengths.at
  br label %loop
loop:
  %k = phi i32 [ 0, %enter ], [ %k.next, %body ]
  %size = phi i64 [ 1, %enter ], [ %size.next, %body ]
  %more = icmp slt i32 %k, %axes
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %lengths, i32 %k
  %length = load i64, ptr %at
  %size.next = mul i64 %size, %length
  %k.next = add i32 %k, 1
  br label %loop
done:
  ret i64 %size
}}

define internal i1 @few(i64 %size, i64 %limit) alwaysinline {{
  %sane = icmp ult i64 %size, {_MOST}
  %square = mul i64 %size, %size
  %small = icmp sle i64 %square, %limit
  %both = and i1 %sane, %small
  ret i1 %both
}}

define internal i1 @judge(ptr %x, ptr %words, i1 %creates, ptr %product, ptr %leaves) noinline {{
enter:
  %overflow = alloca i32
  %limit.at = word limit
  %limit = load i64, ptr %limit.at
  %type.at = getelementptr i8, ptr %x, i64 {_TYPE}
  %type = load ptr, ptr %type.at
  %float = word float
  %is.float = icmp eq ptr %type, %float
  %is.plain = icmp ugt i1 %is.float, %creates
  br i1 %is.plain, label %yes, label %not.float
not.float:
  %ndarray = word ndarray
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %array, label %not.array
array:
  %size = call i64 @size(ptr %x)
  %computes = word computes
  %wide = icmp ne ptr %computes, null
  %within = icmp sle i64 %size, %limit
  %left.to.numpy = and i1 %wide, %within
  %small = call i1 @few(i64 %size, i64 %limit)
  %fine.size = or i1 %left.to.numpy, %small
  ret i1 %fine.size
not.array:
  %int = word int
  %is.int = icmp eq ptr %type, %int
  br i1 %is.int, label %whole, label %other
whole:
  br i1 %creates, label %length, label %yes
length:
  store i32 0, ptr %overflow
  %as.long = word PyLong_AsLongLongAndOverflow
  %value = call i64 %as.long(ptr %x, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  %sane = icmp ult i64 %value, {_MOST}
  %good = and i1 %fits, %sane
  br i1 %good, label %multiply, label %no
multiply:
  %zero = icmp eq i64 %value, 0
  %at.least = select i1 %zero, i64 1, i64 %value
  %before = load i64, ptr %product
  %area = mul i64 %before, %at.least
  %further = icmp ugt i64 %before, %at.least
  %furthest = select i1 %further, i64 %before, i64 %at.least
  %alike = word alike
  %is.range = icmp eq ptr %alike, inttoptr (i64 {_RANGE} to ptr)
  %after = select i1 %is.range, i64 %furthest, i64 %area
  store i64 %after, ptr %product
  %few = call i1 @few(i64 %after, i64 %limit)
  %can.grow = icmp ne ptr %alike, null
  %little = icmp sle i64 %after, %limit
  %grows = and i1 %can.grow, %little
  %in.bound = or i1 %few, %grows
  ret i1 %in.bound
other:
  %flags.of = word PyType_GetFlags
  %flags = call i64 %flags.of(ptr %type)
  %tuple.flag = and i64 %flags, {_TUPLE}
  %list.flag = and i64 %flags, {_LIST}
  %is.tuple = icmp ne i64 %tuple.flag, 0
  %is.list = icmp ne i64 %list.flag, 0
  %is.sequence = or i1 %is.tuple, %is.list
  br i1 %is.sequence, label %sequence, label %look
look:
  %plain = word plain
  %lengths = word plain.lengths
  %table = select i1 %creates, ptr %lengths, ptr %plain
  %get = word PyDict_GetItemWithError
  %found = call ptr %get(ptr %table, ptr %type)
  %there = icmp ne ptr %found, null
  ret i1 %there
sequence:
  %tuple.size = word PyTuple_Size
  %list.size = word PyList_Size
  %size.of = select i1 %is.tuple, ptr %tuple.size, ptr %list.size
  %tuple.item = word PyTuple_GetItem
  %list.item = word PyList_GetItem
  %item.of = select i1 %is.tuple, ptr %tuple.item, ptr %list.item
  %count = call i64 %size.of(ptr %x)
  %leaves.before = load i64, ptr %leaves
  %leaves.after = add i64 %leaves.before, %count
  store i64 %leaves.after, ptr %leaves
  %short = call i1 @few(i64 %leaves.after, i64 %limit)
  br i1 %short, label %loop, label %no
loop:
  %k = phi i64 [ 0, %sequence ], [ %k.next, %item.good ]
  %left = icmp slt i64 %k, %count
  br i1 %left, label %item, label %yes
item:
  %y = call ptr %item.of(ptr %x, i64 %k)
  %fine = call i1 @judge(ptr %y, ptr %words, i1 %creates, ptr %product, ptr %leaves)
  br i1 %fine, label %item.good, label %no
item.good:
  %k.next = add i64 %k, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}}
"""

_BODY = f"""
  %product = alloca i64
  %leaves = alloca i64
  %held = alloca ptr
  store i64 1, ptr %product
  store i64 0, ptr %leaves
  %words = getelementptr i8, ptr %self, i64 {bytes.__basicsize__ - 1}
  %kind = ptrtoint ptr {{kind}} to i64
  %limit = load i64, ptr {{limit}}
  %creates = icmp eq i64 %kind, {int(MemoryEffect.CREATE)}
  %writes = icmp eq i64 %kind, {int(MemoryEffect.WRITE)}
  %on = icmp sgt i64 %limit, 0
  br i1 %on, label %named, label %slow
named:
  %has.names = icmp ne ptr %names, null
  br i1 %has.names, label %count.names, label %begin
count.names:
  %more = call i64 {{PyTuple_Size}}(ptr %names)
  br label %begin
begin:
  %options = phi i64 [ 0, %named ], [ %more, %count.names ]
  %total = add i64 %count, %options
  br label %argument
argument:
  %k = phi i64 [ 0, %begin ], [ %k.next, %next ]
  %left = icmp slt i64 %k, %total
  br i1 %left, label %look, label %call
look:
  %at = getelementptr ptr, ptr %given, i64 %k
  %x = load ptr, ptr %at
  %type.at = getelementptr i8, ptr %x, i64 {_TYPE}
  %type = load ptr, ptr %type.at
  %is.own = icmp eq ptr %type, {{Array}}
  br i1 %is.own, label %own.array, label %not.own
own.array:
  br i1 %writes, label %slow, label %own
not.own:
  %good = call i1 @judge(ptr %x, ptr %words, i1 %creates, ptr %product, ptr %leaves)
  br i1 %good, label %next, label %slow
next:
  %k.next = add i64 %k, 1
  br label %argument
call:
  %result = call ptr {{PyObject_Vectorcall}}(ptr {{function}}, ptr %given, i64 %count, ptr %names)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %return, label %made
made:
  %result.type.at = getelementptr i8, ptr %result, i64 {_TYPE}
  %result.type = load ptr, ptr %result.type.at
  %is.array = icmp eq ptr %result.type, {{ndarray}}
  br i1 %is.array, label %array, label %return
array:
  switch i64 %kind, label %new [ i64 {int(MemoryEffect.VIEW)}, label %return i64 {int(MemoryEffect.WRITE)}, label %return ]
new:
  %size = call i64 @size(ptr %result)
  %computes = icmp eq i64 %kind, {int(MemoryEffect.COMPUTE)}
  %within = icmp sle i64 %size, %limit
  %few = call i1 @few(i64 %size, i64 %limit)
  %stays = select i1 %computes, i1 %within, i1 %few
  br i1 %stays, label %return, label %take
take:
  store ptr %result, ptr %held
  %taken = call ptr {{PyObject_Vectorcall}}(ptr {{take}}, ptr %held, i64 1, ptr null)
  call void {{Py_DecRef}}(ptr %result)
  ret ptr %taken
return:
  ret ptr %result
own:
  %is.first = icmp eq i64 %k, 0
  %by.place = icmp sgt i64 %count, 0
  %first = and i1 %is.first, %by.place
  %owner = select i1 %first, ptr {{method}}, ptr {{own}}
  %owns = call ptr {{PyObject_Vectorcall}}(ptr %owner, ptr %given, i64 %count, ptr %names)
  ret ptr %owns
slow:
  %slows = call ptr {{PyObject_Vectorcall}}(ptr {{slow}}, ptr %given, i64 %count, ptr %names)
  ret ptr %slows
}}
"""
