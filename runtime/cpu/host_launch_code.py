"""The native function that runs the kernels of a plan on the CPU.

This module also defines the layout of the function's launch records.

In: the words of a record, a table of buffers, and the thread pool. Out: the completed kernels, which run one after the
other. Invariant: all operations that can raise an exception come before the first kernel. Records are only read, so
several threads can use the same record. While the kernels run, the GIL is released if the record requests it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from weft.runtime.cpu.free_lists import kind_words
from weft.runtime.cpu.host_memory import HostBuffer
from weft.runtime.cpu.native import KIND, Builtin, Text

# Words of a record: number of kernels; total number of argument words; whether the GIL is released.
KERNELS, SLOTS, LETS_GO, HEAD = range(4)
# Words of a kernel: its entry; extent of its outermost loop; chunk size; number of threads; nanoseconds that one thread
# runs alone while the others sleep; number of arguments; number of arguments that are addresses, and that are scalars,
# from the table; number of words. The arguments, the addresses and the scalars follow.
ENTRY, EXTENT, CHUNK, PARTS, ALONE, SIZE, ADDRESSES, NUMBERS, LENGTH, KERNEL = range(10)
# Words of an address: index of the argument, index in the table, offset. Words of a scalar: index of the argument,
# index in the table.
ADDRESS, NUMBER = 3, 2

NAME = "weft_run_kernels"


def kernel_words(
    entry: int,
    extent: int,
    chunk: int,
    parts: int,
    alone: int,
    slots: Sequence[int],
    patches: Sequence[tuple[int, int, int]],
    numbers: Sequence[tuple[int, int]],
) -> list[int]:
    """Return the 64-bit words that describe one kernel in a launch record."""
    behind = [*slots, *chain(*patches, *numbers)]
    length = KERNEL + len(behind)
    return [entry, extent, chunk, parts, alone, len(slots), len(patches), len(numbers), length, *behind]


def native_runner(split: int) -> Builtin:
    """Return the builtin that runs the kernels of a launch record.

    It is called as ``call(record address, table, pool)``. Kernels for several threads run on the pool at the address
    `pool`, or in this thread if `pool` is 0. `split` is the address of the pool's function that runs a job. Raises
    CompileError if the function cannot be compiled.
    """
    return Builtin(NAME, runner_text(), [split, *kind_words(HostBuffer)])


@cache
def runner_text() -> str:
    """Return the LLVM IR of the native function that Python calls to run several kernels. A launch record (an array of words) lists the kernels.

    The code references no external symbols, and contains no constants in memory.
    """
    t = Text()
    known = t.begin_builtin(NAME, ("split", *KIND))
    number = known["PyLong_AsLongLong"]
    given, table, last = (t.load("%given", k, "ptr") for k in range(3))
    record = t.new(f"inttoptr i64 {t.new(f'call i64 {number}(ptr {given})')} to ptr")
    pool = t.new(f"call i64 {number}(ptr {last})")
    count, first = t.load(record, KERNELS), t.at(record, HEAD)
    arguments = t.new(f"alloca i64, i64 {t.load(record, SLOTS)}, align 16")
    cursor, out, state = (t.new("alloca ptr") for _ in range(3))
    _rewind(t, cursor, first, out, arguments)
    t.begin_loop("read", count)
    _read_arguments(t, known, table, cursor, out)
    t.end_loop("read")
    wrong = t.new(f"call ptr {known['PyErr_Occurred']}()")
    t.enter_if(f"icmp eq ptr {wrong}, null", "ready", "raise")
    _rewind(t, cursor, first, out, arguments)
    lets_go = t.new(f"icmp ne i64 {t.load(record, LETS_GO)}, 0")
    t.do(f"br i1 {lets_go}, label %let.go, label %start")
    t.label("let.go")
    saved = t.new(f"call ptr {known['PyEval_SaveThread']}()")
    t.do(f"store ptr {saved}, ptr {state}")
    t.begin_block("start")
    t.begin_loop("run", count)
    _run_kernel(t, known, pool, cursor, out)
    t.end_loop("run")
    t.do(f"br i1 {lets_go}, label %take.back, label %leave")
    t.label("take.back")
    t.do(f"call void {known['PyEval_RestoreThread']}(ptr {t.load(state, 0, 'ptr')})")
    t.begin_block("leave")
    done = t.new(f"call ptr {known['PyLong_FromLongLong']}(i64 0)")
    t.do(f"ret ptr {done}")
    t.label("raise")
    t.do("ret ptr null")
    return t.end()


def _rewind(t: Text, cursor: str, first: str, out: str, arguments: str) -> None:
    t.do(f"store ptr {first}, ptr {cursor}")
    t.do(f"store ptr {arguments}, ptr {out}")


def _advance(t: Text, kernel: str, own: str, cursor: str, out: str) -> None:
    """Emit code that advances to the next kernel and to its arguments."""
    t.do(f"store ptr {t.at(kernel, t.load(kernel, LENGTH))}, ptr {cursor}")
    t.do(f"store ptr {t.at(own, t.load(kernel, SIZE))}, ptr {out}")


def _read_arguments(t: Text, known: dict[str, str], table: str, cursor: str, out: str) -> None:
    """Emit code that reads the arguments of one kernel. The emitted code then moves the pointers `cursor` and `out` to the next kernel.

    The arguments come from the launch record at `cursor` and from the list `table`, and are stored at `out`.
    """
    kernel, own = t.load(cursor, 0, "ptr"), t.load(out, 0, "ptr")
    size, slots = t.load(kernel, SIZE), t.at(kernel, KERNEL)
    k = t.begin_loop("copy", size)
    t.store(t.load(slots, k), own, k)
    t.end_loop("copy")
    addresses, rows = t.load(kernel, ADDRESSES), t.at(slots, size)
    k = t.begin_loop("address", addresses)
    row = t.at(rows, t.new(f"mul i64 {k}, {ADDRESS}"))
    start = t.address(known, table, t.load(row, 1), "address.read")
    t.store(t.new(f"add i64 {start}, {t.load(row, 2)}"), own, t.load(row, 0))
    t.end_loop("address")
    numbers, others = t.load(kernel, NUMBERS), t.at(rows, t.new(f"mul i64 {addresses}, {ADDRESS}"))
    k = t.begin_loop("number", numbers)
    row = t.at(others, t.new(f"mul i64 {k}, {NUMBER}"))
    item = t.item(known, table, t.load(row, 1), "number.read")
    t.store(t.new(f"call i64 {known['PyLong_AsLongLong']}(ptr {item})"), own, t.load(row, 0))
    t.end_loop("number")
    _advance(t, kernel, own, cursor, out)


def _run_kernel(t: Text, known: dict[str, str], pool: str, cursor: str, out: str) -> None:
    """Emit code that runs a kernel in this thread or in the thread pool, and advances to the next kernel."""
    kernel, own = t.load(cursor, 0, "ptr"), t.load(out, 0, "ptr")
    entry = t.load(kernel, ENTRY, "ptr")
    extent, chunk, parts, alone = (t.load(kernel, word) for word in (EXTENT, CHUNK, PARTS, ALONE))
    several = t.new(f"icmp sgt i64 {parts}, 1")
    there = t.new(f"icmp ne i64 {pool}, 0")
    t.enter_if(f"and i1 {several}, {there}", "split", "alone")
    where = t.new(f"inttoptr i64 {pool} to ptr")
    division = ", ".join(f"i64 {number}" for number in (extent, chunk, parts, alone))
    t.do(f"call void {known['split']}(ptr {where}, ptr {entry}, ptr {own}, {division})")
    t.jump("ran", "alone")
    t.do(f"call void {entry}(ptr {own}, i64 0, i64 {extent})")
    t.begin_block("ran")
    _advance(t, kernel, own, cursor, out)
