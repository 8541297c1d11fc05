"""The native function that runs a record: its code, and how Python calls it.

In: a record's address, a table of buffers, a stream. Out: launches, and the driver's error code. Always true: what can raise
comes before the first launch; Python's lock is let go while the driver works, which may wait for the GPU.
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

from weft.runtime.cpu.native import obtain_native
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.records import (
    ARGUMENTS,
    CHANGED,
    CHANGES,
    ENTERING,
    FAILED,
    FIRST,
    FUNCTION,
    GRAPH,
    INDICES,
    LAUNCH,
    LAUNCHES,
    NODE,
    NUMBERS,
    PARAMETERS,
    PATCH,
    PATCHES,
    PLACES,
    REPLAYING,
    STREAM,
    VALUES,
)

# Words of the table that the function finds behind itself: entry points of Python and of the driver.
_PYTHON = (
    "PyLong_AsLongLong",
    "PyErr_Occurred",
    "PyObject_GetAttr",
    "Py_DecRef",
    "PyList_GetItem",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_FromLongLong",
)
_DRIVER = (
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
    "cuLaunchKernelEx",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphLaunch",
)
ENTRY = "weft_run_record"
FASTCALL = 0x80


class _MethodDefinition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeLauncher:
    """The native function for one device.

    Attributes
    ----------
    run : builtin function
        ``run(address of a record, table, stream)`` returns the driver's error code; what failed is in the record. The
        table is a list: what lies at a record's places has an attribute ``address``, or is an integer.

    Raises
    ------
    CompileError
        Where the function cannot be made.
    """

    def __init__(self, driver: Driver) -> None:
        self._function = obtain_native(ENTRY, launcher_text())
        python = [_address_of(getattr(ctypes.pythonapi, name)) for name in _PYTHON]
        self._name = sys.intern("address")
        entries = [driver.entry_point(name) for name in _DRIVER]
        # the function reads its table from the bytes that it is bound to
        table = array("q", [*python, id(self._name), *entries, driver.context]).tobytes()
        self._method = _MethodDefinition(b"run", self._function.address, FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        self.run: Callable[[int, list[Any], int], int] = make(ctypes.addressof(self._method), table, None)


def _address_of(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# -- its code -----------------------------------------------------------------------------------------


class _Text:
    """LLVM text of one function, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def do(self, line: str) -> None:
        """A line without a result."""
        self.lines.append(f"  {line}")

    def new(self, line: str) -> str:
        """A line with a result; its name."""
        self._count += 1
        self.lines.append(f"  %t{self._count} = {line}")
        return f"%t{self._count}"

    def label(self, name: str) -> None:
        """A block begins."""
        self.lines.append(f"{name}:")

    def at(self, base: str, word: int | str) -> str:
        """The address of a word."""
        return self.new(f"getelementptr i64, ptr {base}, i64 {word}")

    def load(self, base: str, word: int | str, kind: str = "i64") -> str:
        """A word."""
        return self.new(f"load {kind}, ptr {self.at(base, word)}")

    def store(self, value: str, base: str, word: int | str) -> None:
        """Write a word."""
        self.do(f"store i64 {value}, ptr {self.at(base, word)}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Go one way or the other."""
        self.do(f"br i1 {self.new(condition)}, label %{yes}, label %{no}")

    def begin_loop(self, name: str, count: str) -> str:
        """For 0 to `count`; its number."""
        self.do(f"br label %{name}.enter")
        self.label(f"{name}.enter")
        self.do(f"br label %{name}")
        self.label(name)
        self.do(f"%{name}.k = phi i64 [ 0, %{name}.enter ], [ %{name}.next, %{name}.end ]")
        self.branch(f"icmp slt i64 %{name}.k, {count}", f"{name}.body", f"{name}.done")
        self.label(f"{name}.body")
        return f"%{name}.k"

    def end_loop(self, name: str) -> None:
        """The next turn, or on."""
        self.do(f"br label %{name}.end")
        self.label(f"{name}.end")
        self.do(f"%{name}.next = add i64 %{name}.k, 1")
        self.do(f"br label %{name}")
        self.label(f"{name}.done")


@cache
def launcher_text() -> str:
    """LLVM text of the function: no outside symbol, no constant in memory."""
    t = _Text()
    names = (*_PYTHON, "address", *_DRIVER, "context")
    t.lines.append(f"define ptr @{ENTRY}(ptr %self, ptr %given, i64 %count) nounwind {{")
    t.label("entry")
    inside = t.new(f"getelementptr i8, ptr %self, i64 {bytes.__basicsize__ - 1}")
    known = {name: t.load(inside, k, "ptr") for k, name in enumerate(names)}
    number = known["PyLong_AsLongLong"]
    first, table, last = (t.load("%given", k, "ptr") for k in range(3))
    where = t.new(f"call i64 {number}(ptr {first})")
    stream = t.new(f"call i64 {number}(ptr {last})")
    record = t.new(f"inttoptr i64 {where} to ptr")
    places, numbers = t.load(record, PLACES), t.load(record, NUMBERS)
    indices, values = t.load(record, INDICES, "ptr"), t.load(record, VALUES, "ptr")
    _read_places(t, known, places, table, indices, values)
    _read_numbers(t, known, numbers, places, table, indices, values)
    wrong = t.new(f"call ptr {known['PyErr_Occurred']}()")
    t.branch(f"icmp eq ptr {wrong}, null", "change", "raise")
    t.label("change")
    _change_arguments(t, record, values)
    state = t.new(f"call ptr {known['PyEval_SaveThread']}()")
    _start(t, known, record, stream)
    t.label("leave")
    t.do("%code = phi i32 [ %entered, %change.patches.done ], [ %outcome, %left ]")
    t.do(f"call void {known['PyEval_RestoreThread']}(ptr {state})")
    t.do(f"%shown = call ptr {known['PyLong_FromLongLong']}(i64 {t.new('zext i32 %code to i64')})")
    t.do("ret ptr %shown")
    t.label("raise")
    t.do("ret ptr null")
    t.lines.append("}")
    return "\n".join(t.lines)


def _read_places(t: _Text, known: dict[str, str], count: str, table: str, indices: str, values: str) -> None:
    """values[k] = table[indices[k]].address"""
    k = t.begin_loop("places", count)
    item = t.new(f"call ptr {known['PyList_GetItem']}(ptr {table}, i64 {t.load(indices, k)})")
    t.branch(f"icmp eq ptr {item}, null", "raise", "places.ask")
    t.label("places.ask")
    found = t.new(f"call ptr {known['PyObject_GetAttr']}(ptr {item}, ptr {known['address']})")
    t.branch(f"icmp eq ptr {found}, null", "raise", "places.take")
    t.label("places.take")
    t.store(t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {found})"), values, k)
    t.do(f"call void {known['Py_DecRef']}(ptr {found})")
    t.end_loop("places")


def _read_numbers(
    t: _Text, known: dict[str, str], count: str, places: str, table: str, indices: str, values: str
) -> None:
    """values[places + k] = table[indices[places + k]]"""
    k = t.begin_loop("numbers", count)
    at = t.new(f"add i64 {k}, {places}")
    item = t.new(f"call ptr {known['PyList_GetItem']}(ptr {table}, i64 {t.load(indices, at)})")
    t.branch(f"icmp eq ptr {item}, null", "raise", "numbers.take")
    t.label("numbers.take")
    t.store(t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {item})"), values, at)
    t.end_loop("numbers")


def _change_arguments(t: _Text, record: str, values: str) -> None:
    """Write the values where launches take them, and mark the launches for which one is new."""
    first = t.load(record, CHANGES, "ptr")
    k = t.begin_loop("change.patches", t.load(record, PATCHES))
    patch = t.at(first, t.new(f"mul i64 {k}, {PATCH}"))
    place = t.new(f"getelementptr i8, ptr {values}, i64 {t.load(patch, 0)}")
    value = t.new(f"add i64 {t.new(f'load i64, ptr {place}')}, {t.load(patch, 1)}")
    slot, mark = t.load(patch, 2, "ptr"), t.load(patch, 3, "ptr")
    t.branch(f"icmp eq i64 {t.load(slot, 0)}, {value}", "change.patches.same", "change.patches.new")
    t.label("change.patches.new")
    t.store(value, slot, 0)
    t.store("1", mark, 0)
    t.do("br label %change.patches.same")
    t.label("change.patches.same")
    t.end_loop("change.patches")


def _start(t: _Text, known: dict[str, str], record: str, stream: str) -> None:
    """Within the context: replay the graph, or launch one by one. `%failed` and `%outcome` say how it went."""
    launches, first, graph = t.load(record, LAUNCHES), t.load(record, FIRST, "ptr"), t.load(record, GRAPH)
    t.store(str(ENTERING), record, FAILED)
    t.do(f"%entered = call i32 {known['cuCtxPushCurrent']}(ptr {known['context']})")
    t.branch("icmp eq i32 %entered, 0", "inside", "leave")
    t.label("inside")
    popped = t.new("alloca i64")
    t.branch(f"icmp eq i64 {graph}, 0", "plain", "renew")

    t.label("plain")
    k = t.begin_loop("launch", launches)
    one = t.at(first, t.new(f"mul i64 {k}, {LAUNCH}"))
    t.store(stream, one, STREAM)
    function, arguments = t.load(one, FUNCTION), t.load(one, ARGUMENTS)
    t.do(f"%launched = call i32 {known['cuLaunchKernelEx']}(ptr {one}, i64 {function}, i64 {arguments}, i64 0)")
    t.branch("icmp eq i32 %launched, 0", "launch.good", "leaving")
    t.label("launch.good")
    t.end_loop("launch")
    t.do("br label %leaving")

    t.label("renew")
    j = t.begin_loop("node", launches)
    one = t.at(first, t.new(f"mul i64 {j}, {LAUNCH}"))
    t.branch(f"icmp eq i64 {t.load(one, CHANGED)}, 0", "node.same", "node.new")
    t.label("node.new")
    node, parameters = t.load(one, NODE), t.at(one, PARAMETERS)
    t.do(f"%set = call i32 {known['cuGraphExecKernelNodeSetParams']}(i64 {graph}, i64 {node}, ptr {parameters})")
    t.branch("icmp eq i32 %set, 0", "node.good", "leaving")
    t.label("node.good")
    t.store("0", one, CHANGED)
    t.do("br label %node.same")
    t.label("node.same")
    t.end_loop("node")
    t.do(f"%replayed = call i32 {known['cuGraphLaunch']}(i64 {graph}, i64 {stream})")
    t.do("br label %leaving")

    t.label("leaving")
    t.do(
        "%outcome = phi i32 [ 0, %launch.done ], [ %launched, %launch.body ], [ %set, %node.new ], [ %replayed, %node.done ]"
    )
    t.do(
        f"%failed = phi i64 [ 0, %launch.done ], [ {k}, %launch.body ], [ {j}, %node.new ], [ {REPLAYING}, %node.done ]"
    )
    t.store("%failed", record, FAILED)
    t.do(f"call i32 {known['cuCtxPopCurrent']}(ptr {popped})")
    t.do("br label %left")
    t.label("left")
    t.do("br label %leave")
