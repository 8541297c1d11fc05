"""Native code that puts deleted buffers on free lists and takes them from there.

This module also defines the layout of the records that the functions read.

In: buffers without references, and a record of requests. Out: the same objects with their memory, as new buffers.
Invariant: a buffer on a free list is not a Python object until it is taken. A buffer in an unexpected state is
destroyed by `__del__`.
"""

from __future__ import annotations

from functools import cache

from weft.runtime.cpu.native import TYPE, Text
from weft.runtime.llvm_files import read_llvm

# Counters of a pool: bytes of free blocks, bytes of all blocks, peak of the bytes in use, maximum bytes of free blocks.
KEPT, MADE, PEAK, MOST, COUNTS = range(5)
# Words of a free list: the top buffer, its size in bytes, the store to which the list belongs.
TOP, SIZE, STORE = range(3)
# Words of a store: the address of the pool's counters; whether free lists are closed; the buffers' type; None; offsets
# of fields in buffers; numbers of expected values and of slots, which follow the functions; then the functions.
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
_CALLED = ("IS_FINALIZED", "UNTRACK", "CLEAR_WEAK", "FINALIZE", "FREE", "RELEASE")  # their names in `free_lists.ll`
# Words of an expected value: offset, object. Words of a request: index in the table, free list, size as an int object.
PAIR, REQUEST = 2, 3

KEEP, TAKE = "weft_keep_buffer", "weft_take_buffers"
TAKES = ("PyObject_Init", "PyObject_GC_Track", "PyList_SetItem", "Py_IncRef")


@cache
def keep_text(free_list: int) -> str:
    """Return the LLVM text of the deallocator ``void keep(buffer)``. It keeps an unreferenced buffer on a free list, or destroys the buffer.

    A buffer stores the address of its free list at offset `free_list`.
    """
    called = {name: HEAD + k for k, name in enumerate(_CALLED)}
    return read_llvm(__file__, "free_lists", globals(), FREE_LIST=free_list, TYPE=TYPE, **called)


def _field(t: Text, thing: str, store: str, which: int) -> str:
    """Emit code that computes the address of a buffer's field. The code loads the byte offset of the field from ``store[which]``."""
    return t.new(f"getelementptr i8, ptr {thing}, i64 {t.load(store, which)}")


@cache
def take_text() -> str:
    """Return the LLVM text of the builtin ``weft_take_buffers(record, table)``.

    For each request, the builtin takes a buffer from the request's free list and puts it into the table. It returns the
    number of requests whose free list was empty.
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
    free_list = t.load(row, 1, "ptr")
    top = t.load(free_list, TOP, "ptr")
    t.enter_if(f"icmp eq ptr {top}, null", "empty", "there")
    t.store(t.new(f"add i64 {t.load(missing, 0)}, 1"), missing, 0)
    t.jump("take.end", "there")
    store = t.load(free_list, STORE, "ptr")
    nothing, kind = t.load(store, NOTHING, "ptr"), t.load(store, KIND, "ptr")
    origin = _field(t, top, store, ORIGIN)
    t.do(f"store ptr {t.new(f'load ptr, ptr {origin}')}, ptr {free_list}")
    nbytes, given = _field(t, top, store, NBYTES), t.load(row, 2, "ptr")
    old = t.new(f"load ptr, ptr {nbytes}")
    for where, thing in ((origin, nothing), (_field(t, top, store, UNWRITTEN), nothing), (nbytes, given)):
        t.do(f"call void {known['Py_IncRef']}(ptr {thing})")
        t.do(f"store ptr {thing}, ptr {where}")
    _count_taken(t, t.load(store, COUNTED, "ptr"), t.load(free_list, SIZE))
    t.do(f"call ptr {known['PyObject_Init']}(ptr {top}, ptr {kind})")
    t.do(f"call void {known['PyObject_GC_Track']}(ptr {top})")
    t.do(f"call void {known['Py_DecRef']}(ptr {old})")
    wrong = t.new(f"call i32 {known['PyList_SetItem']}(ptr {table}, i64 {t.load(row, 0)}, ptr {top})")
    t.enter_if(f"icmp eq i32 {wrong}, 0", "taken", "raise")
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
