"""LLVM IR that builds memo keys. A memo key identifies a recorded operation, so that a repeated call finds its expression in a table.

In: the arguments of a call. Out: code that appends the parts of the call's memo key, and binds its operands to the
current epoch. Invariant: a key equals the one that `call_sites`, `memoized` or `windows` forms for the same call.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.call_sites import SHOW, bind_memory
from weft.dsl.arrays.indexing import element
from weft.dsl.arrays.numbers import SLOTTED
from weft.dsl.arrays.windows import VIEWS
from weft.dsl.immediate.native_objects_text import ObjectText, slot_offsets
from weft.fusion import ALONE, INTERNED, Epoch, Expr, Storage, limits, recording
from weft.runtime import TUPLE_ITEMS, Buffer, Text, get_device

NAME = "weft_record_again"
SLICE = 16  # offset of the start, stop and step in a slice object
MOST = 48  # maximum number of parts of a key
FUNCTIONS = (
    "PyEval_GetFrame PyFrame_GetCode PyFrame_GetLasti PyObject_Vectorcall PyFloat_AsDouble PyList_Size "
    "PyList_Append PyList_AsTuple PyTuple_New PyTuple_SetItem PyTuple_Pack PyTuple_Size PyLong_FromVoidPtr PyDict_GetItemWithError "
    "PyDict_SetItem PyNumber_Add PyDict_Size PyType_GenericAlloc Py_IncRef PyErr_Clear"
).split()
# NumPy scalar types whose values become kernel arguments. (Python handles the less frequent ones in `SLOT_TYPES`.)
_SLOTTED = (np.float64, np.float32, np.int64, np.int32)
_PYTHON = (float, int, bool, str, type, NoneType, EllipsisType, slice, tuple, list)
_TYPES = (Array, Scalar, Storage, *_SLOTTED, *_PYTHON)
# Objects that all native recorders share. `OWN` lists those of each recorder: the op (None for a ufunc's own op), the
# form of its operands, the action on a memoized expression, and the Python function.
SHARED: dict[str, Any] = {
    "recording": recording,
    "attribute": "epoch",
    "interned": INTERNED,
    "slotted": SLOTTED,
    "windows": VIEWS,
    "bind": bind_memory,
    "element": element,
    "limits": limits,
    "sites alone": ALONE,
    "name": "name",
    "own name": "__name__",
    "_storage": "_storage",
    "_view": "_view",
    "None": None,
    "False": False,
    "cpu": get_device("cpu"),
    **{kind.__name__: kind for kind in _TYPES},
}
OWN = ("op", "way", "does", "function")
# Words that are not objects: the address of the limit of immediate execution, and the number of bytes, per element of
# this limit, up to which Python may execute a function immediately (see `small_work.immediate_bytes`).
WORDS = ("immediate", "most")
# Objects to which a call holds references until it ends.
_HELD = "code at number epoch alone row operand key slotted node kind value storage listed".split()
_BINDING = "address slot name leaf first total".split()  # ... while an operand is bound
# Types whose values become parts of a key.
_PLAIN = dict.fromkeys(("NoneType", "bool", "str", "type", "ellipsis"), "plain")
# Length of the memo key of an operator with a number as its second operand.
WITH_NUMBER = 9


class KeyText(ObjectText):
    """Emitter of code that builds memo keys of recorded operations.

    The code branches to ``slow`` if only Python can build the key.
    """

    _first: str  # the first argument
    _own: str  # ... its type

    def __init__(self) -> None:
        self._at = slot_offsets(Array, Storage, Epoch, Expr, Buffer)
        self._leaf: dict[str, str] = {}
        self._t = t = Text()
        self._known = t.begin_builtin(NAME, (*FUNCTIONS, *SHARED, *OWN, *WORDS))
        self._held = {name: t.new("alloca ptr") for name in (*_HELD, *_BINDING)}
        self._result, self._cursor, self._outer, self._pending, self._scalar = (t.new("alloca ptr") for _ in range(5))
        self._given = t.new("alloca ptr, i64 4")
        self._parts = t.new(f"alloca ptr, i64 {MOST}")
        self._count, self._left, self._left_outside, self._large = (t.new("alloca i64") for _ in range(4))
        for where in (*self._held.values(), self._result, self._scalar):
            t.do(f"store ptr null, ptr {where}")
        t.store("0", self._count, 0)
        t.store("-1", self._left_outside, 0)
        t.store("0", self._large, 0)
        self._does = t.new(f"call i64 {self._known['PyLong_AsLongLong']}(ptr {self._known['does']})")

    def _begin_showing(self) -> None:
        """Emit code for the first part of the memo key of ``array[key]``: the array's view and its storage's shape."""
        t = self._t
        self._branch_on_type("shown", self._own, {"Array": "shown.array"})
        t.label("shown.array")
        t.enter_if("icmp eq i64 %count, 2", "shown.one", "slow")
        storage = self._field(self._first, "Array._storage")
        self._push(self._field(self._first, "Array._view"))
        self._push(self._field(storage, "Storage.shape"))
        self._go_through(t.at("%given", 1), "1")
        t.do("br label %next")

    def _begin_recording(self) -> None:
        """Emit code that begins the memo key of a recorded operation."""
        t, known = self._t, self._known
        pending = self._load_context()
        t.do(f"store ptr {pending}, ptr {self._pending}")
        t.leave_if(f"icmp eq i64 {t.load(self._large, 0)}, 0", "begun", "ask.alone")
        # (Python may copy larger arrays immediately at call sites whose copies were not fused.)
        parts = (t.load(self._held[name], 0, "ptr") for name in ("number", "at"))
        site = self._keep("alone", "alone.packed", self._pack(*parts))
        left = self._call("ptr", "PyDict_GetItemWithError", f"ptr {known['sites alone']}, ptr {site}")
        t.enter_if(f"icmp eq ptr {left}, null", "begun", "slow")
        t.enter_if(f"icmp eq ptr {known['op']}, {known['None']}", "ask", "named")
        asked = f"ptr {self._first}, ptr {known['own name']}"
        self._push(self._keep("row", "ask.name", self._call("ptr", "PyObject_GetAttr", asked)))
        self._go_through(t.at("%given", 1), t.new("sub i64 %count, 1"))
        t.jump("whose", "named")
        self._push(known["op"])
        self._go_through("%given", "%count")
        t.begin_block("whose")
        for part in (known["way"], *(t.load(self._held[name], 0, "ptr") for name in ("number", "at"))):
            self._push(part)
        t.leave_if("icmp eq ptr %names, null", "next", "keywords")
        self._push("%names")
        more = self._call("i64", "PyTuple_Size", "ptr %names")
        t.store(t.new(f"add i64 {t.load(self._left, 0)}, {more}"), self._left, 0)
        t.do("br label %next")

    def _go_through(self, cursor: str, count: str) -> None:
        self._t.do(f"store ptr {cursor}, ptr {self._cursor}")
        self._t.store(count, self._left, 0)

    def _describe_all(self) -> None:
        """Emit code that appends all arguments to the memo key, as `memoized.describe` does.

        The code ends with a branch to ``described``.
        """
        t = self._t
        t.label("next")
        left = t.load(self._left, 0)
        t.enter_if(f"icmp eq i64 {left}, 0", "through", "another")
        outside = t.load(self._left_outside, 0)
        t.leave_if(f"icmp slt i64 {outside}, 0", "described", "outside")
        self._go_through(t.load(self._outer, 0, "ptr"), outside)
        t.store("-1", self._left_outside, 0)
        t.jump("next", "another")
        t.leave_if(f"icmp sgt i64 {t.load(self._count, 0)}, {MOST - 4}", "slow", "room")
        cursor = t.load(self._cursor, 0, "ptr")
        thing = t.load(cursor, 0, "ptr")
        self._go_through(t.at(cursor, 1), t.new(f"sub i64 {left}, 1"))
        kind = self._type(thing)
        self._push(kind)
        own = {"Array": "array", "Scalar": "array", "float": "float", "int": "number"}
        own |= dict.fromkeys([each.__name__ for each in _SLOTTED], "numpy")
        self._branch_on_type("kind", kind, {**own, "slice": "slice", "tuple": "tuple", "list": "list", **_PLAIN})
        self._describe_number(thing)
        t.label("slice")
        for k in range(3):
            part = self._word(thing, SLICE + 8 * k)
            own = {"NoneType": f"part.{k}", "int": f"part.{k}"}
            self._branch_on_type(f"slice.{k}", self._type(part), own)
            t.label(f"part.{k}")
            self._push(part)
        t.jump("next", "list")
        length = self._call("i64", "PyList_Size", f"ptr {thing}")
        t.enter_if(f"icmp sle i64 {length}, {MOST}", "short.list", "slow")
        self._decrement_reference(t.load(self._held["listed"], 0, "ptr"))
        # (a copy, because the original may change while its items are described)
        listed = self._keep("listed", "listed", self._call("ptr", "PyList_AsTuple", f"ptr {thing}"))
        t.do("br label %items")
        t.label("tuple")
        t.do("br label %items")
        t.label("items")
        items = t.new(f"phi ptr [ {listed}, %listed ], [ {thing}, %tuple ]")
        t.enter_if(f"icmp slt i64 {t.load(self._left_outside, 0)}, 0", "inside", "slow")
        t.do(f"store ptr {t.load(self._cursor, 0, 'ptr')}, ptr {self._outer}")
        t.store(t.load(self._left, 0), self._left_outside, 0)
        count = self._call("i64", "PyTuple_Size", f"ptr {items}")
        self._go_through(t.new(f"getelementptr i8, ptr {items}, i64 {TUPLE_ITEMS}"), count)
        size = self._check(self._call("ptr", "PyLong_FromLongLong", f"i64 {count}"), "sized", "leave")
        self._push(size, shared=False)
        t.jump("next", "array")
        t.leave_if(f"icmp eq i64 {self._does}, {SHOW}", "slow", "operand")  # (an index that `windows` does not contain)
        self._complete("operand", thing)
        view = self._field(thing, "Array._view")
        self._push(self._operand("operand", thing), shared=False)
        t.do(f"store ptr null, ptr {self._held['operand']}")
        self._push(view)
        t.do("br label %next")

    def _complete(self, name: str, array: str) -> None:
        """Emit code that creates an array's storage and view if they do not exist yet."""
        t = self._t
        unset = [t.new(f"icmp eq ptr {self._field(array, f'Array.{each}')}, null") for each in ("_storage", "_view")]
        t.enter_if(f"or i1 {', '.join(unset)}", f"{name}.unset", f"{name}.complete")
        for each in ("_storage", "_view"):
            made = self._call("ptr", "PyObject_GetAttr", f"ptr {array}, ptr {self._known[each]}")
            self._check(made, f"{name}.{each}", "leave")
            self._decrement_reference(made)
        t.begin_block(f"{name}.complete")

    def _describe_number(self, thing: str) -> None:
        """Emit code that appends a number, or a value of a type in `_PLAIN`, to the memo key.

        For a NumPy float64, None is appended.
        """
        t = self._t
        t.label("numpy")
        t.do(f"store ptr {thing}, ptr {self._scalar}")
        self._push(self._known["None"])  # (the number goes to a slot, and is not in the key)
        t.jump("next", "float")
        value = t.new(f"bitcast double {self._call('double', 'PyFloat_AsDouble', f'ptr {thing}')} to i64")
        t.leave_if(f"icmp eq i64 {value}, {-(1 << 63)}", "slow", "number")  # (0.0 and -0.0 are equal)
        t.do(f"store ptr {thing}, ptr {self._scalar}")
        t.begin_block("plain")
        self._push(thing)
        t.do("br label %next")

    def _push(self, part: str, shared: bool = True) -> None:
        """Emit code that appends a part to the memo key and holds a reference to the part."""
        t = self._t
        if shared:
            self._increment_reference(part)
        count = t.load(self._count, 0)
        t.do(f"store ptr {part}, ptr {t.at(self._parts, count)}")
        t.store(t.new(f"add i64 {count}, 1"), self._count, 0)

    def _call(self, kind: str, name: str, arguments: str) -> str:
        return self._t.new(f"call {kind} {self._known[name]}({arguments})")

    def _hold(self, name: str, value: str) -> str:
        self._t.do(f"store ptr {value}, ptr {self._held[name]}")
        return value

    def _keep(self, name: str, label: str, value: str) -> str:
        """Emit code that holds a new object until the call ends, or branches to ``leave`` if it is null."""
        return self._check(self._hold(name, value), label, "leave")

    def _call_object(self, function: str, *arguments: str) -> str:
        """Emit a call of a Python object with positional arguments."""
        for k, value in enumerate(arguments):
            self._t.do(f"store ptr {value}, ptr {self._t.at(self._given, k)}")
        return self._vectorcall(function, self._given, len(arguments))

    def _pack(self, *items: str) -> str:
        given = ", ".join(f"ptr {item}" for item in items)
        return self._t.new(f"call ptr (i64, ...) {self._known['PyTuple_Pack']}(i64 {len(items)}, {given})")

    def _load_context(self) -> str:
        """Emit code that loads the caller's code position and the current recording. Return the LLVM name of the recording's list of pending work."""
        t, known = self._t, self._known
        frame = self._check(self._call("ptr", "PyEval_GetFrame", ""), "framed", "slow")
        code = self._hold("code", self._call("ptr", "PyFrame_GetCode", f"ptr {frame}"))
        offset = t.new(f"sext i32 {self._call('i32', 'PyFrame_GetLasti', f'ptr {frame}')} to i64")
        self._keep("at", "placed", self._call("ptr", "PyLong_FromLongLong", f"i64 {offset}"))
        self._keep("number", "numbered", self._call("ptr", "PyLong_FromVoidPtr", f"ptr {code}"))
        asked = f"ptr {known['recording']}, ptr {known['attribute']}"
        epoch = self._keep("epoch", "asked", self._call("ptr", "PyObject_GetAttr", asked))
        t.leave_if(f"icmp eq ptr {epoch}, {known['None']}", "slow", "recording")
        pending = self._field(epoch, "Epoch.pending")
        count = self._call("i64", "PyList_Size", f"ptr {pending}")
        limit = self._call("i64", "PyLong_AsLongLong", f"ptr {self._field(epoch, 'Epoch.limit')}")
        t.leave_if(f"icmp sge i64 {count}, {limit}", "slow", "short")
        return pending

    def _operand(self, name: str, thing: str) -> str:
        """Emit code that loads an operand's expression, and return the expression's LLVM name."""
        t, known = self._t, self._known
        epoch = t.load(self._held["epoch"], 0, "ptr")
        storage = self._check(self._field(thing, "Array._storage"), f"{name}.kept", "slow")
        t.enter_if(f"icmp eq ptr {self._field(storage, 'Storage.epoch')}, {epoch}", f"{name}.known", f"{name}.bind")
        found = self._increment_reference(self._field(storage, "Storage.expr"))
        t.jump(f"{name}.found", f"{name}.bind")
        # (Small GPU arrays in host memory: small operations on them run immediately, otherwise kernels take them by
        # value.)
        self._leave_if_on_host(storage, f"{name}.memory")
        self._bind(name, storage, epoch)
        t.label(f"{name}.call")
        self._release()
        location = [t.load(self._held[which], 0, "ptr") for which in ("code", "at")]
        bound = self._check(self._call_object(known["bind"], storage, epoch, *location), f"{name}.bound", "leave")
        t.begin_block(f"{name}.found")
        leaf = self._leaf[name]
        node = t.new(f"phi ptr [ {found}, %{name}.known ], [ {leaf}, %{name}.done ], [ {bound}, %{name}.bound ]")
        self._hold(name, node)
        t.leave_if(f"icmp eq ptr {node}, {known['None']}", "slow", f"{name}.there")
        return node

    def _bind(self, name: str, storage: str, epoch: str) -> None:
        """Emit code that adds a storage's buffer to the buffer table of the current recording.

        The code jumps to ``found``, or to ``call`` if only Python can bind the storage (both labels begin with `name`).
        """
        t, known = self._t, self._known
        call, leave = f"{name}.call", "leave"
        buffer, device = self._field(storage, "Storage.buffer"), self._field(epoch, "Epoch.device")
        t.leave_if(f"icmp eq ptr {buffer}, {known['None']}", call, f"{name}.real")
        t.enter_if(f"icmp eq ptr {self._field(storage, 'Storage.device')}, {device}", f"{name}.device", call)
        first = self._field(epoch, "Epoch.first")
        t.enter_if(f"icmp eq ptr {first}, {known['None']}", f"{name}.begin", f"{name}.begun")
        odd = self._call("i64", "PyDict_Size", f"ptr {known['limits']}")
        t.enter_if(f"icmp eq i64 {odd}, 0", f"{name}.even", call)
        where = self._pack(*(t.load(self._held[which], 0, "ptr") for which in ("code", "at")))
        self._exchange(epoch, {"Epoch.first": self._keep("first", f"{name}.first", where)})
        t.begin_block(f"{name}.begun")
        address = self._keep("address", f"{name}.address", self._call("ptr", "PyLong_FromVoidPtr", f"ptr {buffer}"))
        slot_of, slots = self._field(epoch, "Epoch.slot_of"), self._field(epoch, "Epoch.slots")
        there = self._call("ptr", "PyDict_GetItemWithError", f"ptr {slot_of}, ptr {address}")
        t.enter_if(f"icmp eq ptr {there}, null", f"{name}.new", call)
        count = self._call("i64", "PyList_Size", f"ptr {slots}")
        slot = self._keep("slot", f"{name}.slot", self._call("ptr", "PyLong_FromLongLong", f"i64 {count}"))
        device_name = self._call("ptr", "PyObject_GetAttr", f"ptr {device}, ptr {known['name']}")
        self._keep("name", f"{name}.name", device_name)
        parts = (slot, device_name, self._field(storage, "Storage.shape"), self._field(storage, "Storage.dtype"))
        key = self._keep("leaf", f"{name}.key", self._pack(*parts))
        leaf = self._leaf[name] = self._call("ptr", "PyDict_GetItemWithError", f"ptr {known['interned']}, ptr {key}")
        self._check(leaf, f"{name}.leaf", call)
        # The garbage collector and finalizers may have run. If they wrote or bound anything here, Python handles the
        # call.
        count_now = self._call("i64", "PyList_Size", f"ptr {slots}")
        same_count = t.new(f"icmp eq i64 {count_now}, {count}")
        same_buffer = t.new(f"icmp eq ptr {self._field(storage, 'Storage.buffer')}, {buffer}")
        t.enter_if(f"and i1 {same_count}, {same_buffer}", f"{name}.same", call)
        old, size = self._field(epoch, "Epoch.bytes_held"), self._field(buffer, "Buffer.nbytes")
        total = self._keep("total", f"{name}.total", self._call("ptr", "PyNumber_Add", f"ptr {old}, ptr {size}"))
        # From here on, the storage is considered bound.
        wrong = self._call("i32", "PyList_Append", f"ptr {slots}, ptr {buffer}")
        t.enter_if(f"icmp eq i32 {wrong}, 0", f"{name}.listed", leave)
        wrong = self._call("i32", "PyDict_SetItem", f"ptr {slot_of}, ptr {address}, ptr {slot}")
        t.enter_if(f"icmp eq i32 {wrong}, 0", f"{name}.done", leave)
        self._exchange(epoch, {"Epoch.bytes_held": total})
        self._exchange(buffer, {"Buffer.unwritten": known["None"]})
        self._exchange(storage, {"Storage.expr": self._increment_reference(leaf), "Storage.epoch": epoch})
        self._release()
        t.do(f"br label %{name}.found")

    def _leave_if_on_host(self, storage: str, there: str) -> None:
        """Emit a branch: to the slow path if `Storage.host` is set, otherwise to the label that `there` names.

        `Storage.host` is set for small GPU arrays in host memory, and for arrays that share memory with other code.
        """
        t, host = self._t, self._field(storage, "Storage.host")
        tests = [t.new(f"icmp eq ptr {host}, {nothing}") for nothing in ("null", self._known["None"])]
        t.enter_if(f"or i1 {', '.join(tests)}", there, "slow")

    def _release(self) -> None:
        """Emit code that releases the references held by the code of `_bind`."""
        for name in _BINDING:
            self._decrement_reference(self._t.load(self._held[name], 0, "ptr"))
            self._t.do(f"store ptr null, ptr {self._held[name]}")

    def _exchange(self, thing: str, values: Mapping[str, str]) -> None:
        """Emit code that replaces attributes of an object, and then releases the old values.

        No other thread can run between two replacements, because old values are released last.
        """
        old = [self._field(thing, name) for name in values]
        for name, value in values.items():
            self._set(thing, name, self._increment_reference(value))
        for value in old:
            self._decrement_reference(value)
