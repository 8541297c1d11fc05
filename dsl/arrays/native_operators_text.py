"""Generator of the LLVM IR of a native function that records array operations which were recorded before.

Operations that occur for the first time are recorded by Python functions.

In: the layouts of arrays, storages, epochs and expressions. Out: the text of a builtin that looks up its key in the
memo, and then records an operation, records a write, or returns a view. Invariant: if the key is not in the memo or the
operation is unsupported, the builtin calls the Python function.
"""

from __future__ import annotations

from functools import cache

from weft.dsl.arrays.call_sites import ASSIGN, LEFT, RECORD_FUNCTION, RECORD_PENDING, SET, SHOW
from weft.dsl.arrays.native_keys_text import WITH_NUMBER, KeyText
from weft.dsl.immediate.native_objects_text import ITEMSIZE
from weft.runtime import FIXED, TUPLE_ITEMS


@cache
def operator_text() -> str:
    """Return the LLVM IR of the builtin that records memoized operations.

    The code references no external symbols, and contains no constants in memory.
    """
    return _Operator().text()


class _Operator(KeyText):
    def text(self) -> str:
        """Emit the whole function and return its LLVM IR."""
        t, known = self._t, self._known
        t.enter_if("icmp sge i64 %count, 1", "some", "slow")
        self._first = t.load("%given", 0, "ptr")
        self._own = self._type(self._first)
        t.enter_if(f"icmp eq ptr {self._own}, {self._known['Array']}", "first.array", "first.whole")
        self._complete("first", self._first)
        t.begin_block("first.whole")
        t.do(
            f"switch i64 {self._does}, label %record [ i64 {SHOW}, label %show i64 {SET}, label %set "
            f"i64 {RECORD_PENDING}, label %alone i64 {RECORD_FUNCTION}, label %alone.first ]"
        )
        t.label("alone")
        self._leave_memory()
        t.label("show")
        self._begin_showing()
        t.label("set")
        self._leave_elements()
        t.label("record")
        self._begin_recording()
        self._describe_all()
        t.label("described")
        self._find()
        self._go_on()
        t.label("slow")
        done = self._vectorcall(known["function"], "%given", "%count", "%names")
        t.do(f"store ptr {done}, ptr {self._result}")
        t.begin_block("leave")
        k = t.begin_loop("forget", t.load(self._count, 0))
        self._decrement_reference(t.load(self._parts, k, "ptr"))
        t.end_loop("forget")
        for where in self._held.values():
            self._decrement_reference(t.load(where, 0, "ptr"))
        t.do(f"ret ptr {t.load(self._result, 0, 'ptr')}")
        return t.end()

    def _leave_memory(self) -> None:
        """Emit a branch to Python code that may execute the operation immediately.

        The branch is taken if the first operand is a small array in CPU memory.

        An operation of two arrays is recorded if the second one is pending.
        """
        t, known = self._t, self._known
        t.enter_if("icmp eq i64 %count, 1", "alone.one", "record")
        t.enter_if("icmp eq ptr %names, null", "alone.first", "record")
        t.enter_if(f"icmp eq ptr {self._own}, {known['Array']}", "alone.array", "record")
        storage = self._field(self._first, "Array._storage")
        t.leave_if(f"icmp eq ptr {self._field(storage, 'Storage.buffer')}, {known['None']}", "record", "alone.memory")
        t.enter_if(f"icmp eq ptr {self._field(storage, 'Storage.device')}, {known['cpu']}", "alone.size", "record")
        size = self._field(self._field(storage, "Storage.buffer"), "Buffer.nbytes")
        most = t.new(f"ptrtoint ptr {known['most']} to i64")
        itemsize = self._word(self._field(storage, "Storage.dtype"), ITEMSIZE, "i64")
        elements = t.new(f"mul i64 {itemsize}, {t.load(known['immediate'], 0)}")
        most = t.new(f"mul i64 {most}, {t.load(known['immediate'], FIXED)}")
        most = t.new(f"select i1 {t.new(f'icmp ugt i64 {most}, {elements}')}, i64 {most}, i64 {elements}")
        nbytes = self._call("i64", "PyLong_AsLongLong", f"ptr {size}")
        t.leave_if(f"icmp sgt i64 {nbytes}, {most}", "alone.large", "alone.small")
        # (Python records an operation of two arrays if the second one is pending.)
        t.enter_if("icmp eq i64 %count, 2", "alone.two", "slow")
        second = t.load("%given", 1, "ptr")
        t.enter_if(f"icmp eq ptr {self._type(second)}, {known['Array']}", "alone.other", "slow")
        other = self._field(second, "Array._storage")
        t.enter_if(f"icmp eq ptr {other}, null", "alone.unset", "alone.stored")
        t.jump("slow", "alone.stored")
        t.branch(f"icmp eq ptr {self._field(other, 'Storage.buffer')}, {known['None']}", "record", "slow")
        t.label("alone.large")
        t.store("1", self._large, 0)
        t.do("br label %record")

    def _leave_elements(self) -> None:
        """Emit a branch to ``slow`` for writes to single elements in memory, and for writes with index arrays.

        Python may execute such writes immediately.
        """
        t, known = self._t, self._known
        self._branch_on_type("set.own", self._own, {"Array": "set.array"})
        t.label("set.array")
        t.enter_if("icmp eq i64 %count, 3", "set.value", "slow")
        # (Only writes of these types to views are memoized. An array bound here could not be written immediately.)
        value = self._type(t.load("%given", 2, "ptr"))
        self._branch_on_type("set.value", value, dict.fromkeys(("Array", "Scalar", "int", "float"), "set.where"))
        t.label("set.where")
        index = t.load("%given", 1, "ptr")
        kind = self._type(index)
        self._branch_on_type(
            "set.kind", kind, {"int": "set.one", "slice": "record", "ellipsis": "record", "tuple": "set.tuple"}
        )
        t.label("set.tuple")
        items = t.new(f"getelementptr i8, ptr {index}, i64 {TUPLE_ITEMS}")
        size = self._call("i64", "PyTuple_Size", f"ptr {index}")
        k = t.begin_loop("set.arrays", size)
        t.branch(f"icmp eq ptr {self._type(t.load(items, k, 'ptr'))}, {known['Array']}", "slow", "set.arrays.end")
        t.end_loop("set.arrays", reached=True)
        k = t.begin_loop("set.items", size)
        t.branch(f"icmp eq ptr {self._type(t.load(items, k, 'ptr'))}, {known['int']}", "set.items.end", "record")
        t.end_loop("set.items", reached=True)
        t.begin_block("set.one")
        count = t.new(f"phi i64 [ 1, %set.where ], [ {size}, %set.items.done ]")
        storage = self._field(self._first, "Array._storage")
        t.leave_if(f"icmp eq ptr {self._field(storage, 'Storage.buffer')}, {known['None']}", "record", "set.axes")
        view = self._field(self._first, "Array._view")
        own = self._field(storage, "Storage.shape")
        t.leave_if(f"icmp eq ptr {view}, {known['None']}", "set.compare", "set.view")
        seen = self._word(view, TUPLE_ITEMS)
        t.begin_block("set.compare")
        shape = t.new(f"phi ptr [ {own}, %set.axes ], [ {seen}, %set.view ]")
        t.branch(f"icmp eq i64 {self._call('i64', 'PyTuple_Size', f'ptr {shape}')}, {count}", "slow", "record")

    def _find(self) -> None:
        """Emit code that looks up the key in the memo and holds a reference to the result."""
        t, known = self._t, self._known
        count = t.load(self._count, 0)
        key = self._keep("key", "packed", self._call("ptr", "PyTuple_New", f"i64 {count}"))
        k = t.begin_loop("pack", count)
        self._call("i32", "PyTuple_SetItem", f"ptr {key}, i64 {k}, ptr {t.load(self._parts, k, 'ptr')}")
        t.end_loop("pack")
        t.store("0", self._count, 0)
        shows = t.new(f"icmp eq i64 {self._does}, {SHOW}")
        table = t.new(f"select i1 {shows}, ptr {known['windows']}, ptr {known['interned']}")
        node = self._check(self._call("ptr", "PyDict_GetItemWithError", f"ptr {table}, ptr {key}"), "made", "missed")
        self._hold("node", self._increment_reference(node))
        t.jump("go.on", "missed")
        wrong = self._call("ptr", "PyErr_Occurred", "")
        t.enter_if(f"icmp eq ptr {wrong}, null", "unknown", "leave")
        t.leave_if(f"icmp eq i64 {self._does}, {SHOW}", "slow", "recorded")
        self._find_slotted(key)

    def _find_slotted(self, key: str) -> None:
        """Emit the code of `look_up_slotted`.

        It finds the memoized result of an array operation whose Python scalar is passed in a slot (kernel argument).
        """
        t, known = self._t, self._known
        number, epoch = t.load(self._scalar, 0, "ptr"), t.load(self._held["epoch"], 0, "ptr")
        self._check(number, "with.number", "slow")
        size = self._call("i64", "PyTuple_Size", f"ptr {key}")
        t.enter_if(f"icmp eq i64 {size}, {WITH_NUMBER}", "with.operands", "slow")
        slots = self._field(epoch, "Epoch.slots")
        count = self._call("i64", "PyList_Size", f"ptr {slots}")
        slotted = self._keep("slotted", "slotted", self._call("ptr", "PyTuple_New", f"i64 {WITH_NUMBER}"))
        slot = self._check(self._call("ptr", "PyLong_FromLongLong", f"i64 {count}"), "numbered.slot", "leave")
        items = t.new(f"getelementptr i8, ptr {key}, i64 {TUPLE_ITEMS}")
        self._call("i32", "PyTuple_SetItem", f"ptr {slotted}, i64 {WITH_NUMBER - 1}, ptr {slot}")
        k = t.begin_loop("slot", str(WITH_NUMBER - 1))
        part = self._increment_reference(t.load(items, k, "ptr"))
        self._call("i32", "PyTuple_SetItem", f"ptr {slotted}, i64 {k}, ptr {part}")
        t.end_loop("slot")
        found = self._call("ptr", "PyDict_GetItemWithError", f"ptr {known['slotted']}, ptr {slotted}")
        self._check(found, "bound.number", "unbound.number")
        pair = t.new(f"getelementptr i8, ptr {found}, i64 {TUPLE_ITEMS}")
        self._hold("node", self._increment_reference(t.load(pair, 0, "ptr")))
        kind = self._hold("kind", self._increment_reference(t.load(pair, 1, "ptr")))
        value = self._check(self._hold("value", self._call_object(kind, number)), "converted", "too.large")
        # (The user's handler of an overflow, or the garbage collector, may have run. If they evaluated or bound anything
        # here, Python handles the call.)
        t.enter_if(f"icmp eq ptr {self._field(epoch, 'Epoch.ended')}, {known['False']}", "still.recording", "slow")
        now = self._call("i64", "PyList_Size", f"ptr {slots}")
        t.branch(f"icmp eq i64 {now}, {count}", "put.slot", "slow")
        t.label("unbound.number")
        wrong = self._call("ptr", "PyErr_Occurred", "")
        t.branch(f"icmp eq ptr {wrong}, null", "slow", "leave")
        t.label("too.large")
        t.do(f"call void {known['PyErr_Clear']}()")
        t.jump("slow", "put.slot")
        wrong = self._call("i32", "PyList_Append", f"ptr {slots}, ptr {value}")
        t.branch(f"icmp eq i32 {wrong}, 0", "go.on", "leave")

    def _go_on(self) -> None:
        t = self._t
        t.label("go.on")
        self._node = t.load(self._held["node"], 0, "ptr")
        t.do(
            f"switch i64 {self._does}, label %found.record [ i64 {ASSIGN}, label %found.assign "
            f"i64 {SET}, label %found.assign i64 {SHOW}, label %found.show ]"
        )
        t.label("found.record")
        self._record()
        t.label("found.assign")
        self._assign()
        t.label("found.show")
        self._show()

    def _assign(self) -> None:
        """Emit code that records a write to the first operand, like `fusion.assign`. The written value is the expression found in the memo."""
        t, known = self._t, self._known
        self._branch_on_type("written", self._own, {"Array": "written.array"})
        t.label("written.array")
        epoch = t.load(self._held["epoch"], 0, "ptr")
        storage = self._hold("storage", self._increment_reference(self._field(self._first, "Array._storage")))
        t.enter_if(f"icmp eq ptr {self._field(storage, 'Storage.epoch')}, {epoch}", "written.here", "slow")
        # (Finalizers or other threads may have written to the storage since the key was computed.)
        previous = t.load(self._parts, LEFT, "ptr")
        t.enter_if(f"icmp eq ptr {self._field(storage, 'Storage.expr')}, {previous}", "written.same", "slow")
        t.leave_if(f"icmp eq ptr {previous}, {self._node}", "done", "written.new")
        real = t.new(f"icmp ne ptr {self._field(storage, 'Storage.buffer')}, {known['None']}")
        entry = t.new(f"select i1 {real}, ptr {storage}, ptr {self._node}")
        wrong = self._call("i32", "PyList_Append", f"ptr {t.load(self._pending, 0, 'ptr')}, ptr {entry}")
        t.enter_if(f"icmp eq i32 {wrong}, 0", "written", "leave")
        self._exchange(storage, {"Storage.expr": self._node, "Storage.buffer": known["None"]})
        t.begin_block("done")
        returned = t.new(f"icmp eq i64 {self._does}, {ASSIGN}")
        result = t.new(f"select i1 {returned}, ptr {self._first}, ptr {known['None']}")
        self._return(self._increment_reference(result))

    def _show(self) -> None:
        """Emit code that returns an indexing result: a view of the storage, or a single element."""
        t, known = self._t, self._known
        t.enter_if(f"icmp eq ptr {self._type(self._node)}, {known['int']}", "found.element", "found.view")
        self._leave_if_on_host(self._field(self._first, "Array._storage"), "element.recorded")
        read = self._call_object(known["element"], self._first, self._node)
        t.do(f"store ptr {read}, ptr {self._result}")
        t.jump("leave", "found.view")
        array = self._check(self._call("ptr", "PyType_GenericAlloc", f"ptr {known['Array']}, i64 0"), "seen", "leave")
        self._set(array, "Array._storage", self._increment_reference(self._field(self._first, "Array._storage")))
        self._set(array, "Array._view", self._increment_reference(self._node))
        self._set_none(array, "Array._device", "Array._values")
        self._return(array)

    def _record(self) -> None:
        """Emit code that creates a pending array for a memoized expression."""
        t, known = self._t, self._known
        t.enter_if(f"icmp eq ptr {self._type(self._node)}, {known['tuple']}", "found.permuted", "found.node")
        pair = t.new(f"getelementptr i8, ptr {self._node}, i64 {TUPLE_ITEMS}")
        base, permuted = t.load(pair, 0, "ptr"), t.load(pair, 1, "ptr")
        t.begin_block("found.node")
        node = t.new(f"phi ptr [ {self._node}, %found.record ], [ {base}, %found.permuted ]")
        view = t.new(f"phi ptr [ {known['None']}, %found.record ], [ {permuted}, %found.permuted ]")
        epoch = t.load(self._held["epoch"], 0, "ptr")
        made = self._call("ptr", "PyType_GenericAlloc", f"ptr {known['Storage']}, i64 0")
        storage = self._keep("storage", "stored", made)
        shape = self._field(node, "Expr.shape")
        device = self._field(epoch, "Epoch.device")
        fields = {"shape": shape, "dtype": self._field(node, "Expr.dtype"), "device": device}
        for name, value in {**fields, "buffer": known["None"], "expr": node, "epoch": epoch}.items():
            self._set(storage, f"Storage.{name}", self._increment_reference(value))
        left_out = self._call("i32", "PyList_Append", f"ptr {t.load(self._pending, 0, 'ptr')}, ptr {storage}")
        t.enter_if(f"icmp eq i32 {left_out}, 0", "pending", "leave")
        axes = self._call("i64", "PyTuple_Size", f"ptr {shape}")
        none = t.new(f"icmp eq i64 {axes}, 0")
        kind = t.new(f"select i1 {none}, ptr {known['Scalar']}, ptr {known['Array']}")
        array = self._check(self._call("ptr", "PyType_GenericAlloc", f"ptr {kind}, i64 0"), "whole", "leave")
        self._set(array, "Array._storage", self._increment_reference(storage))
        self._set(array, "Array._view", self._increment_reference(view))
        self._set_none(array, "Array._device", "Array._values")
        self._return(array)
