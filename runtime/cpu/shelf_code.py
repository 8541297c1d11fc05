"""The native functions that put dead buffers on free lists and reuse them, and the layout of their records.

In: buffers without references, and a record of requests. Out: the same objects with their memory, as new buffers.
Invariant: a buffer on a free list is not a Python object until it is taken. A buffer in an unexpected state is
destroyed by `__del__`.
"""

from __future__ import annotations

from functools import cache

from weft.runtime.cpu.native import TYPE, Text

# Words that a pool counts in: bytes of free blocks, of all blocks, the most that was held, the most that is kept.
KEPT, MADE, PEAK, MOST, COUNTS = range(5)
# Words of a shelf: the dead buffer on top, its bytes, the store that it belongs to.
TOP, SIZE, STORE, SHELF = range(4)
# Words of a store: where the pool counts; whether nothing is put on shelves; the buffers' type; None; where its buffers have
# what is named; how many expected and how many slots follow behind the functions; then the functions.
COUNTED, CLOSED, KIND, NOTHING, WEAK, UNWRITTEN, ORIGIN, NBYTES, OWNER, EXPECTED, SLOTS, HEAD = range(12)
FUNCTIONS = (
    "PyObject_GC_IsFinalized",
    "PyObject_GC_UnTrack",
    "PyObject_ClearWeakRefs",
    "PyObject_CallFinalizerFromDealloc",
    "PyObject_GC_Del",
    "Py_DecRef",
)
LISTS = HEAD + len(FUNCTIONS)
# Words of what is expected: where, and which object. Of a request: which place, the shelf, the bytes as an int.
PAIR, REQUEST = 2, 3

KEEP, TAKE = "weft_keep_buffer", "weft_take_buffers"
TAKES = ("PyObject_Init", "PyObject_GC_Track", "PyList_SetItem", "Py_IncRef")


def _field(t: Text, thing: str, store: str, which: int) -> str:
    """Return the address of a buffer's field, at an offset stored with the free lists."""
    return t.new(f"getelementptr i8, ptr {thing}, i64 {t.load(store, which)}")


@cache
def keep_text(hidden: int) -> str:
    """Return the text of ``void keep(buffer)``, the deallocator of a buffer, which holds its free list at offset
    `hidden`.
    """
    t = Text()
    t.lines.append(f'define void @{KEEP}(ptr %self) nounwind "no-builtins" {{')
    t.label("entry")
    shelf = t.new(f"load ptr, ptr {t.new(f'getelementptr i8, ptr %self, i64 {hidden}')}")
    # (an interrupt came before it had one: it has no memory either)
    t.branch(f"icmp eq ptr {shelf}, null", "leave", "look")
    t.label("look")
    store = t.load(shelf, STORE, "ptr")
    counts = t.load(store, COUNTED, "ptr")
    call = {name: t.load(store, HEAD + k, "ptr") for k, name in enumerate(FUNCTIONS)}
    lists = t.at(store, LISTS)
    expected = t.load(store, EXPECTED)
    slots, offsets = t.load(store, SLOTS), t.at(lists, t.new(f"mul i64 {expected}, {PAIR}"))
    weak = _field(t, "%self", store, WEAK)
    kind = t.new(f"load ptr, ptr {t.new(f'getelementptr i8, ptr %self, i64 {TYPE}')}")
    _say_whether_kept(t, shelf, store, counts, lists, expected, call)
    _put_on_shelf(t, shelf, store, counts, weak, kind, call)
    t.label("let.go")
    _let_go(t, weak, kind, offsets, slots, call)
    t.label("leave")
    t.do("ret void")
    return t.end()


def _say_whether_kept(
    t: Text, shelf: str, store: str, counts: str, lists: str, expected: str, call: dict[str, str]
) -> None:
    """Branch to ``keep``, or to ``let.go`` if the buffer was used unexpectedly or its free list is full."""
    owner = t.new(f"load i64, ptr {_field(t, '%self', store, OWNER)}")
    # (an interrupt came before it was finished: it has no memory to give back)
    t.branch(f"icmp eq i64 {owner}, 0", "dead", "whole")
    t.label("whole")
    t.branch(f"icmp eq i64 {t.load(store, CLOSED)}, 0", "open", "let.go")
    t.label("open")
    kept = t.new(f"add i64 {t.load(counts, KEPT)}, {t.load(shelf, SIZE)}")
    t.branch(f"icmp sgt i64 {kept}, {t.load(counts, MOST)}", "let.go", "room")
    t.label("room")
    k = t.begin_loop("expected", expected)
    pair = t.at(lists, t.new(f"mul i64 {k}, {PAIR}"))
    there = t.new(f"load i64, ptr {t.new(f'getelementptr i8, ptr %self, i64 {t.load(pair, 0)}')}")
    t.branch(f"icmp eq i64 {there}, {t.load(pair, 1)}", "expected.same", "let.go")
    t.label("expected.same")
    t.end_loop("expected")
    over = t.new(f"call i32 {call['PyObject_GC_IsFinalized']}(ptr %self)")
    t.branch(f"icmp eq i32 {over}, 0", "keep", "let.go")


def _put_on_shelf(t: Text, shelf: str, store: str, counts: str, weak: str, kind: str, call: dict[str, str]) -> None:
    t.label("keep")
    _leave_lists(t, weak, call, "keep")
    for which in (UNWRITTEN, ORIGIN):
        where = _field(t, "%self", store, which)
        old = t.new(f"load ptr, ptr {where}")
        t.do(f"store ptr null, ptr {where}")
        t.do(f"call void {call['Py_DecRef']}(ptr {old})")
    # what is below it on the shelf is where it had its origin
    t.do(f"store ptr {t.load(shelf, TOP, 'ptr')}, ptr {_field(t, '%self', store, ORIGIN)}")
    t.do(f"store ptr %self, ptr {shelf}")
    t.store(t.new(f"add i64 {t.load(counts, KEPT)}, {t.load(shelf, SIZE)}"), counts, KEPT)
    t.do(f"call void {call['Py_DecRef']}(ptr {kind})")
    t.do("ret void")


def _let_go(t: Text, weak: str, kind: str, offsets: str, slots: str, call: dict[str, str]) -> None:
    """Emit ``__del__`` and Python's deallocation of an object of a class with slots."""
    back = t.new(f"call i32 {call['PyObject_CallFinalizerFromDealloc']}(ptr %self)")
    t.branch(f"icmp slt i32 {back}, 0", "leave", "dead")
    t.label("dead")
    _leave_lists(t, weak, call, "dead")
    # (the last slot is what keeps the store)
    k = t.begin_loop("slot", slots)
    where = t.new(f"getelementptr i8, ptr %self, i64 {t.load(offsets, k)}")
    old = t.new(f"load ptr, ptr {where}")
    t.do(f"store ptr null, ptr {where}")
    t.do(f"call void {call['Py_DecRef']}(ptr {old})")
    t.end_loop("slot")
    t.do(f"call void {call['PyObject_GC_Del']}(ptr %self)")
    t.do(f"call void {call['Py_DecRef']}(ptr {kind})")
    t.do("br label %leave")


def _leave_lists(t: Text, weak: str, call: dict[str, str], name: str) -> None:
    """Untrack the buffer from the garbage collector and clear its weak references."""
    t.do(f"call void {call['PyObject_GC_UnTrack']}(ptr %self)")
    t.branch(f"icmp eq ptr {t.new(f'load ptr, ptr {weak}')}, null", f"{name}.unseen", f"{name}.seen")
    t.label(f"{name}.seen")
    t.do(f"call void {call['PyObject_ClearWeakRefs']}(ptr %self)")
    t.do(f"br label %{name}.unseen")
    t.label(f"{name}.unseen")


@cache
def take_text() -> str:
    """Return the text of ``call(record address, table)``. It puts a buffer into the table for each request of the
    record, and returns the number of empty free lists.
    """
    t = Text()
    known = t.begin_builtin(TAKE, TAKES)
    first, table = (t.load("%given", k, "ptr") for k in range(2))
    number = t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {first})")
    record = t.new(f"inttoptr i64 {number} to ptr")
    missing = t.new("alloca i64")
    t.do(f"store i64 0, ptr {missing}")
    rows = t.at(record, 1)
    k = t.begin_loop("take", t.load(record, 0))
    row = t.at(rows, t.new(f"mul i64 {k}, {REQUEST}"))
    shelf = t.load(row, 1, "ptr")
    top = t.load(shelf, TOP, "ptr")
    t.branch(f"icmp eq ptr {top}, null", "empty", "there")
    t.label("empty")
    t.store(t.new(f"add i64 {t.load(missing, 0)}, 1"), missing, 0)
    t.do("br label %take.end")
    t.label("there")
    store = t.load(shelf, STORE, "ptr")
    nothing, kind = t.load(store, NOTHING, "ptr"), t.load(store, KIND, "ptr")
    origin = _field(t, top, store, ORIGIN)
    t.do(f"store ptr {t.new(f'load ptr, ptr {origin}')}, ptr {shelf}")
    nbytes, given = _field(t, top, store, NBYTES), t.load(row, 2, "ptr")
    old = t.new(f"load ptr, ptr {nbytes}")
    for where, thing in ((origin, nothing), (_field(t, top, store, UNWRITTEN), nothing), (nbytes, given)):
        t.do(f"call void {known['Py_IncRef']}(ptr {thing})")
        t.do(f"store ptr {thing}, ptr {where}")
    _count_taken(t, t.load(store, COUNTED, "ptr"), t.load(shelf, SIZE))
    t.do(f"call ptr {known['PyObject_Init']}(ptr {top}, ptr {kind})")
    t.do(f"call void {known['PyObject_GC_Track']}(ptr {top})")
    t.do(f"call void {known['Py_DecRef']}(ptr {old})")
    wrong = t.new(f"call i32 {known['PyList_SetItem']}(ptr {table}, i64 {t.load(row, 0)}, ptr {top})")
    t.branch(f"icmp eq i32 {wrong}, 0", "taken", "raise")
    t.label("taken")
    t.end_loop("take")
    t.do(f"%found = call ptr {known['PyLong_FromLongLong']}(i64 {t.load(missing, 0)})")
    t.do("ret ptr %found")
    t.label("raise")
    t.do("ret ptr null")
    return t.end()


def _count_taken(t: Text, counts: str, size: str) -> None:
    kept = t.new(f"sub i64 {t.load(counts, KEPT)}, {size}")
    t.store(kept, counts, KEPT)
    held = t.new(f"sub i64 {t.load(counts, MADE)}, {kept}")
    peak = t.load(counts, PEAK)
    most = t.new(f"select i1 {t.new(f'icmp sgt i64 {held}, {peak}')}, i64 {held}, i64 {peak}")
    t.store(most, counts, PEAK)
