"""Binary operators in native code, where they record what was recorded before at the same place of the program.

In: `Array`'s operators as Python functions. Out: builtins that do as these do in the usual case (`again.recall`, then
`array.record`), and call them in any other. Always true: which of the two ran cannot be told from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from weft.dsl.again import bind_memory
from weft.dsl.array import Array, Scalar
from weft.fusion import INTERNED, Epoch, Expr, Storage, recording, uneven
from weft.runtime import Buffer, Builtin, CompileError, Text, python_function, slots_of

NAME = "weft_record_again"
TYPE = 8  # where an object has its type
_FUNCTIONS = (
    "PyEval_GetFrame",
    "PyFrame_GetCode",
    "PyFrame_GetLasti",
    "PyObject_Vectorcall",
    "PyObject_IsTrue",
    "PyList_Size",
    "PyList_Append",
    "PyTuple_Pack",
    "PyTuple_Size",
    "PyLong_FromVoidPtr",
    "PyDict_GetItemWithError",
    "PyDict_SetItem",
    "PyNumber_Add",
    "PySet_Size",
    "PyType_GenericAlloc",
    "Py_IncRef",
)
# Objects that every operator knows; behind them its own: the row, the way it takes its operands, the Python function.
_SHARED: dict[str, Any] = {
    "recording": recording,
    "attribute": "epoch",
    "interned": INTERNED,
    "bind": bind_memory,
    "uneven": uneven,
    "name": "name",
    "None": None,
    "Array": Array,
    "Scalar": Scalar,
    "Storage": Storage,
    "float": float,
    "int": int,
}
_OWN = ("op", "way", "function")
# What a call holds references to until it ends.
_HELD = ("code", "at", "number", "epoch", "left", "right", "key", "node", "storage")
_BINDING = ("address", "slot", "name", "leaf", "first", "total")  # ... while an operand is bound


def quicken_all() -> None:
    """Put native code in the place of `Array`'s binary operators; where it cannot be made, they stay."""
    try:
        for kind in (Array, Scalar):
            for name, function in list(vars(kind).items()):
                recorded = getattr(function, "records", None)
                if recorded is not None:
                    op, way = recorded
                    setattr(kind, name, quicken(op, way, function))
    except CompileError:
        return


def quicken(op: str, way: int, function: Callable[..., Any]) -> Any:
    """A method that records row `op` in native code where it can, and calls `function` where not.

    Raises CompileError where it cannot be made.
    """
    objects = (*_SHARED.values(), op, way, function)
    words = [*map(python_function, _FUNCTIONS), *map(id, objects)]
    return Builtin(NAME, operator_text(), words, objects).method()


@cache
def operator_text() -> str:
    """LLVM text of ``call(self, other)``: no outside symbol, no constant in memory."""
    at = {
        f"{kind.__name__}.{name}": k
        for kind in (Array, Storage, Epoch, Expr, Buffer)
        for name, k in slots_of(kind).items()
    }
    return _Operator(at).text()


class _Operator:
    def __init__(self, at: Mapping[str, int]) -> None:
        self._at = at
        self._leaf: dict[str, str] = {}
        self._t = t = Text()
        self._known = t.begin_builtin(NAME, (*_FUNCTIONS, *_SHARED, *_OWN))
        self._held = {name: t.new("alloca ptr") for name in (*_HELD, *_BINDING)}
        self._result = t.new("alloca ptr")
        self._given = t.new("alloca ptr, i64 4")
        for where in (*self._held.values(), self._result):
            t.do(f"store ptr null, ptr {where}")

    def text(self) -> str:
        """All of it."""
        t, known = self._t, self._known
        first, other = (t.load("%given", k, "ptr") for k in range(2))
        t.branch("icmp eq i64 %count, 2", "two", "slow")
        t.label("two")
        self._go_where("own", self._type(first), {"Array": "begin", "Scalar": "begin"})
        t.label("begin")
        pending = self._look_around()
        left = self._operand("left", first)
        view = self._field(first, "Array._view")
        kind = self._type(other)
        self._go_where("kind", kind, {"Array": "array", "Scalar": "array", "float": "number", "int": "number"})
        t.label("array")
        right = self._operand("right", other)
        place = [t.load(self._held[name], 0, "ptr") for name in ("number", "at")]
        views = (view, right, self._field(other, "Array._view"))
        by_array = self._pack(known["op"], known["way"], left, *views, *place)
        t.do("br label %find")
        t.label("number")
        # (equal keys must mean equal bits, and 0.0 == -0.0)
        truth = self._call("i32", "PyObject_IsTrue", f"ptr {other}")
        t.branch(f"icmp sgt i32 {truth}, 0", "number.good", "slow")
        t.label("number.good")
        place = [t.load(self._held[name], 0, "ptr") for name in ("number", "at")]
        by_number = self._pack(known["op"], known["way"], left, view, kind, other, *place)
        t.do("br label %find")
        t.label("find")
        key = t.new(f"phi ptr [ {by_array}, %right.there ], [ {by_number}, %number.good ]")
        self._record(self._find(key), pending)
        t.label("slow")
        done = self._call("ptr", "PyObject_Vectorcall", f"ptr {known['function']}, ptr %given, i64 %count, ptr null")
        t.do(f"store ptr {done}, ptr {self._result}")
        t.do("br label %leave")
        t.label("leave")
        for where in self._held.values():
            self._drop(t.load(where, 0, "ptr"))
        t.do(f"ret ptr {t.load(self._result, 0, 'ptr')}")
        return t.end()

    def _call(self, kind: str, name: str, arguments: str) -> str:
        return self._t.new(f"call {kind} {self._known[name]}({arguments})")

    def _hold(self, name: str, value: str) -> str:
        self._t.do(f"store ptr {value}, ptr {self._held[name]}")
        return value

    def _share(self, value: str) -> str:
        """One more reference."""
        self._t.do(f"call void {self._known['Py_IncRef']}(ptr {value})")
        return value

    def _place(self, thing: str, name: str) -> str:
        return self._t.new(f"getelementptr i8, ptr {thing}, i64 {self._at[name]}")

    def _field(self, thing: str, name: str) -> str:
        return self._t.new(f"load ptr, ptr {self._place(thing, name)}")

    def _set(self, thing: str, name: str, value: str) -> None:
        self._t.do(f"store ptr {value}, ptr {self._place(thing, name)}")

    def _pack(self, *items: str) -> str:
        given = ", ".join(f"ptr {item}" for item in items)
        return self._t.new(f"call ptr (i64, ...) {self._known['PyTuple_Pack']}(i64 {len(items)}, {given})")

    def _type(self, thing: str) -> str:
        return self._t.new(f"load ptr, ptr {self._t.new(f'getelementptr i8, ptr {thing}, i64 {TYPE}')}")

    def _go_where(self, here: str, kind: str, places: Mapping[str, str]) -> None:
        """On by what type something has; what has none of these is none of this function's."""
        for k, (name, label) in enumerate(places.items()):
            behind = f"{here}.{k}" if k + 1 < len(places) else "slow"
            self._t.branch(f"icmp eq ptr {kind}, {self._known[name]}", label, behind)
            if behind != "slow":
                self._t.label(behind)

    def _check(self, value: str, name: str, otherwise: str) -> None:
        """On where a pointer is not null."""
        self._t.branch(f"icmp eq ptr {value}, null", otherwise, name)
        self._t.label(name)

    def _look_around(self) -> str:
        """The user's place in the program and the epoch; what is pending there."""
        t, known = self._t, self._known
        frame = self._call("ptr", "PyEval_GetFrame", "")
        self._check(frame, "framed", "slow")
        code = self._hold("code", self._call("ptr", "PyFrame_GetCode", f"ptr {frame}"))
        offset = t.new(f"sext i32 {self._call('i32', 'PyFrame_GetLasti', f'ptr {frame}')} to i64")
        where = self._hold("at", self._call("ptr", "PyLong_FromLongLong", f"i64 {offset}"))
        self._check(where, "placed", "leave")
        number = self._hold("number", self._call("ptr", "PyLong_FromVoidPtr", f"ptr {code}"))
        self._check(number, "numbered", "leave")
        asked = f"ptr {known['recording']}, ptr {known['attribute']}"
        epoch = self._hold("epoch", self._call("ptr", "PyObject_GetAttr", asked))
        self._check(epoch, "asked", "leave")
        t.branch(f"icmp eq ptr {epoch}, {known['None']}", "slow", "recording")
        t.label("recording")
        pending = self._field(epoch, "Epoch.pending")
        count = self._call("i64", "PyList_Size", f"ptr {pending}")
        limit = self._call("i64", "PyLong_AsLongLong", f"ptr {self._field(epoch, 'Epoch.limit')}")
        t.branch(f"icmp sge i64 {count}, {limit}", "slow", "short")
        t.label("short")
        return pending

    def _operand(self, name: str, thing: str) -> str:
        """What an array shows, as an expression of the epoch."""
        t, known = self._t, self._known
        epoch = t.load(self._held["epoch"], 0, "ptr")
        storage = self._field(thing, "Array._storage")
        self._check(storage, f"{name}.kept", "slow")  # (a number that is known has none yet)
        t.branch(f"icmp eq ptr {self._field(storage, 'Storage.epoch')}, {epoch}", f"{name}.known", f"{name}.bind")
        t.label(f"{name}.known")
        found = self._share(self._field(storage, "Storage.expr"))
        t.do(f"br label %{name}.found")
        t.label(f"{name}.bind")
        self._bind(name, storage, epoch)
        t.label(f"{name}.call")
        self._release()
        place = [t.load(self._held[which], 0, "ptr") for which in ("code", "at")]
        for k, value in enumerate((storage, epoch, *place)):
            t.do(f"store ptr {value}, ptr {t.at(self._given, k)}")
        bound = self._call("ptr", "PyObject_Vectorcall", f"ptr {known['bind']}, ptr {self._given}, i64 4, ptr null")
        self._check(bound, f"{name}.bound", "leave")
        t.do(f"br label %{name}.found")
        t.label(f"{name}.found")
        leaf = self._leaf[name]
        node = t.new(f"phi ptr [ {found}, %{name}.known ], [ {leaf}, %{name}.done ], [ {bound}, %{name}.bound ]")
        self._hold(name, node)
        t.branch(f"icmp eq ptr {node}, {known['None']}", "slow", f"{name}.there")
        t.label(f"{name}.there")
        return node

    def _bind(self, name: str, storage: str, epoch: str) -> None:
        """As `bind_memory` does it: on to ``found``, or to ``call``, which begins again, where it meets something unusual."""
        t, known = self._t, self._known
        call, leave = f"{name}.call", "leave"
        buffer, device = self._field(storage, "Storage.buffer"), self._field(epoch, "Epoch.device")
        t.branch(f"icmp eq ptr {buffer}, {known['None']}", call, f"{name}.real")
        t.label(f"{name}.real")
        t.branch(f"icmp eq ptr {self._field(storage, 'Storage.device')}, {device}", f"{name}.home", call)
        t.label(f"{name}.home")
        first = self._field(epoch, "Epoch.first")
        t.branch(f"icmp eq ptr {first}, {known['None']}", f"{name}.begin", f"{name}.begun")
        t.label(f"{name}.begin")
        odd = self._call("i64", "PySet_Size", f"ptr {known['uneven']}")
        t.branch(f"icmp eq i64 {odd}, 0", f"{name}.even", call)
        t.label(f"{name}.even")
        where = self._pack(*(t.load(self._held[which], 0, "ptr") for which in ("code", "at")))
        self._check(self._hold("first", where), f"{name}.first", leave)
        self._exchange(epoch, {"Epoch.first": where})
        t.do(f"br label %{name}.begun")
        t.label(f"{name}.begun")
        address = self._hold("address", self._call("ptr", "PyLong_FromVoidPtr", f"ptr {buffer}"))
        self._check(address, f"{name}.address", leave)
        slot_of, slots = self._field(epoch, "Epoch.slot_of"), self._field(epoch, "Epoch.slots")
        there = self._call("ptr", "PyDict_GetItemWithError", f"ptr {slot_of}, ptr {address}")
        t.branch(f"icmp eq ptr {there}, null", f"{name}.new", call)
        t.label(f"{name}.new")
        count = self._call("i64", "PyList_Size", f"ptr {slots}")
        slot = self._hold("slot", self._call("ptr", "PyLong_FromLongLong", f"i64 {count}"))
        self._check(slot, f"{name}.slot", leave)
        device_name = self._call("ptr", "PyObject_GetAttr", f"ptr {device}, ptr {known['name']}")
        self._check(self._hold("name", device_name), f"{name}.name", leave)
        parts = (slot, device_name, self._field(storage, "Storage.shape"), self._field(storage, "Storage.dtype"))
        key = self._hold("leaf", self._pack(*parts))
        self._check(key, f"{name}.key", leave)
        leaf = self._leaf[name] = self._call("ptr", "PyDict_GetItemWithError", f"ptr {known['interned']}, ptr {key}")
        self._check(leaf, f"{name}.leaf", call)
        # the collector may have run, and finalisers: what they wrote, or bound here, is seen to as anything unusual is
        count_now = self._call("i64", "PyList_Size", f"ptr {slots}")
        same_count = t.new(f"icmp eq i64 {count_now}, {count}")
        same_buffer = t.new(f"icmp eq ptr {self._field(storage, 'Storage.buffer')}, {buffer}")
        t.branch(f"and i1 {same_count}, {same_buffer}", f"{name}.same", call)
        t.label(f"{name}.same")
        old, size = self._field(epoch, "Epoch.bytes_held"), self._field(buffer, "Buffer.nbytes")
        total = self._hold("total", self._call("ptr", "PyNumber_Add", f"ptr {old}, ptr {size}"))
        self._check(total, f"{name}.total", leave)
        # from here on it is bound
        wrong = self._call("i32", "PyList_Append", f"ptr {slots}, ptr {buffer}")
        t.branch(f"icmp eq i32 {wrong}, 0", f"{name}.listed", leave)
        t.label(f"{name}.listed")
        wrong = self._call("i32", "PyDict_SetItem", f"ptr {slot_of}, ptr {address}, ptr {slot}")
        t.branch(f"icmp eq i32 {wrong}, 0", f"{name}.done", leave)
        t.label(f"{name}.done")
        self._exchange(epoch, {"Epoch.bytes_held": total})
        self._exchange(buffer, {"Buffer.unwritten": known["None"]})
        self._exchange(storage, {"Storage.expr": self._share(leaf), "Storage.epoch": epoch})
        self._release()
        t.do(f"br label %{name}.found")

    def _release(self) -> None:
        """What binding held."""
        for name in _BINDING:
            self._drop(self._t.load(self._held[name], 0, "ptr"))
            self._t.do(f"store ptr null, ptr {self._held[name]}")

    def _exchange(self, thing: str, values: Mapping[str, str]) -> None:
        """Other values of attributes, all of them before anybody else comes to them."""
        old = [self._field(thing, name) for name in values]
        for name, value in values.items():
            self._set(thing, name, self._share(value))
        for value in old:
            self._drop(value)

    def _find(self, key: str) -> str:
        """What was made before; with a reference."""
        self._hold("key", key)
        self._check(key, "packed", "leave")
        node = self._call("ptr", "PyDict_GetItemWithError", f"ptr {self._known['interned']}, ptr {key}")
        self._check(node, "made", "missed")
        return self._hold("node", self._share(node))

    def _record(self, node: str, pending: str) -> None:
        """A new array over a new storage; and where no node was found."""
        t, known = self._t, self._known
        epoch = t.load(self._held["epoch"], 0, "ptr")
        storage = self._hold("storage", self._call("ptr", "PyType_GenericAlloc", f"ptr {known['Storage']}, i64 0"))
        self._check(storage, "stored", "leave")
        shape = self._field(node, "Expr.shape")
        device = self._field(epoch, "Epoch.device")
        fields = {"shape": shape, "dtype": self._field(node, "Expr.dtype"), "device": device}
        for name, value in {**fields, "buffer": known["None"], "expr": node, "epoch": epoch}.items():
            self._set(storage, f"Storage.{name}", self._share(value))
        left_out = self._call("i32", "PyList_Append", f"ptr {pending}, ptr {storage}")
        t.branch(f"icmp eq i32 {left_out}, 0", "pending", "leave")
        t.label("pending")
        axes = self._call("i64", "PyTuple_Size", f"ptr {shape}")
        none = t.new(f"icmp eq i64 {axes}, 0")
        kind = t.new(f"select i1 {none}, ptr {known['Scalar']}, ptr {known['Array']}")
        array = self._call("ptr", "PyType_GenericAlloc", f"ptr {kind}, i64 0")
        self._check(array, "whole", "leave")
        self._set(array, "Array._storage", self._share(storage))
        self._set(array, "Array._view", self._share(known["None"]))
        t.do(f"store ptr {array}, ptr {self._result}")
        t.do("br label %leave")
        t.label("missed")
        wrong = self._call("ptr", "PyErr_Occurred", "")
        t.branch(f"icmp eq ptr {wrong}, null", "slow", "leave")

    def _drop(self, value: str) -> None:
        """One reference fewer; none of null."""
        self._t.do(f"call void {self._known['Py_DecRef']}(ptr {value})")
