"""The native function that launches the kernels of a launch record. Such a record describes launches by 64-bit words.

In: a record's address, a table of buffers, and a stream. Out: launches, and the driver's error code. Invariant: all
operations that can raise an exception come before the first launch. The GIL is released during driver calls, which may
wait for the GPU.
"""

from __future__ import annotations

from functools import cache

from weft.runtime.cpu.free_lists import kind_words
from weft.runtime.cpu.native import KIND, Builtin, Text
from weft.runtime.cuda import records
from weft.runtime.cuda.device_memory import PoolBlock
from weft.runtime.cuda.driver import Driver
from weft.runtime.errors import CompileError

# Entry points of the driver that the function finds in its table. The context follows.
_DRIVER = ("cuCtxPushCurrent", "cuCtxPopCurrent", "cuLaunchKernelEx", "cuGraphExecKernelNodeSetParams", "cuGraphLaunch")
ENTRY = "weft_run_record"


def native_launcher(driver: Driver) -> Builtin | None:
    """Return the native function that launches the kernels of a launch record, or None if the driver lacks a required function.

    ``call(record address, table, stream)`` returns the driver's error code, and stores in the record which call failed.
    The table is a list. The items to which a record refers have an ``address`` attribute, or are integers.

    Raises
    ------
    CompileError
        If the function cannot be compiled.
    """
    try:
        addresses = [driver.entry_point(name) for name in _DRIVER]
    except CompileError:
        return None
    return Builtin(ENTRY, launcher_text(), [*addresses, driver.context, *kind_words(PoolBlock)])


# -- its code -----------------------------------------------------------------------------------------


@cache
def launcher_text() -> str:
    """Return the LLVM text of a native function that launches a sequence of kernels. A launch record in memory describes the launches.

    The code references no external symbols, and contains no constants in memory.
    """
    t = Text()
    known = t.begin_builtin(ENTRY, (*_DRIVER, "context", *KIND))
    number = known["PyLong_AsLongLong"]
    first, table, last = (t.load("%given", k, "ptr") for k in range(3))
    where = t.new(f"call i64 {number}(ptr {first})")
    stream = t.new(f"call i64 {number}(ptr {last})")
    record = t.new(f"inttoptr i64 {where} to ptr")
    buffers, numbers = t.load(record, records.BUFFERS), t.load(record, records.NUMBERS)
    indices, values = t.load(record, records.INDICES, "ptr"), t.load(record, records.VALUES, "ptr")
    k = t.begin_loop("buffers", buffers)  # values[k] = table[indices[k]].address
    t.store(t.address(known, table, t.load(indices, k), "buffers.read"), values, k)
    t.end_loop("buffers")
    k = t.begin_loop("numbers", numbers)  # values[buffers + k] = table[indices[buffers + k]]
    at = t.new(f"add i64 {k}, {buffers}")
    item = t.item(known, table, t.load(indices, at), "numbers.take")
    t.store(t.new(f"call i64 {number}(ptr {item})"), values, at)
    t.end_loop("numbers")
    wrong = t.new(f"call ptr {known['PyErr_Occurred']}()")
    t.enter_if(f"icmp eq ptr {wrong}, null", "change", "raise")
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
    return t.end()


def _change_arguments(t: Text, record: str, values: str) -> None:
    """Emit code that updates the arguments of launches, and marks the changed launches."""
    first = t.load(record, records.CHANGES, "ptr")
    k = t.begin_loop("change.patches", t.load(record, records.PATCHES))
    patch = t.at(first, t.new(f"mul i64 {k}, {records.PATCH}"))
    argument = t.new(f"getelementptr i8, ptr {values}, i64 {t.load(patch, 0)}")
    value = t.new(f"add i64 {t.new(f'load i64, ptr {argument}')}, {t.load(patch, 1)}")
    slot, mark = t.load(patch, 2, "ptr"), t.load(patch, 3, "ptr")
    t.leave_if(f"icmp eq i64 {t.load(slot, 0)}, {value}", "change.patches.same", "change.patches.new")
    t.store(value, slot, 0)
    t.store("1", mark, 0)
    t.begin_block("change.patches.same")
    t.end_loop("change.patches")


def _start(t: Text, known: dict[str, str], record: str, stream: str) -> None:
    """Emit code that launches the kernels of a launch record, as a CUDA graph or one by one.

    `%outcome` is the driver's error code, and `%failed` identifies the call that failed.
    """
    launches, first, graph = (
        t.load(record, records.LAUNCHES),
        t.load(record, records.FIRST, "ptr"),
        t.load(record, records.GRAPH),
    )
    t.store(str(records.ENTERING), record, records.FAILED)
    t.do(f"%entered = call i32 {known['cuCtxPushCurrent']}(ptr {known['context']})")
    t.enter_if("icmp eq i32 %entered, 0", "inside", "leave")
    popped = t.new("alloca i64")
    t.enter_if(f"icmp eq i64 {graph}, 0", "plain", "renew")

    k = t.begin_loop("launch", launches)
    one = t.at(first, t.new(f"mul i64 {k}, {records.LAUNCH}"))
    t.store(stream, one, records.STREAM)
    function, arguments = t.load(one, records.FUNCTION), t.load(one, records.ARGUMENTS)
    t.do(f"%launched = call i32 {known['cuLaunchKernelEx']}(ptr {one}, i64 {function}, i64 {arguments}, i64 0)")
    t.enter_if("icmp eq i32 %launched, 0", "launch.good", "leaving")
    t.end_loop("launch")
    t.do("br label %leaving")

    t.label("renew")
    j = t.begin_loop("node", launches)
    one = t.at(first, t.new(f"mul i64 {j}, {records.LAUNCH}"))
    t.leave_if(f"icmp eq i64 {t.load(one, records.CHANGED)}, 0", "node.same", "node.new")
    node, parameters = t.load(one, records.NODE), t.at(one, records.PARAMETERS)
    t.do(f"%set = call i32 {known['cuGraphExecKernelNodeSetParams']}(i64 {graph}, i64 {node}, ptr {parameters})")
    t.enter_if("icmp eq i32 %set, 0", "node.good", "leaving")
    t.store("0", one, records.CHANGED)
    t.begin_block("node.same")
    t.end_loop("node")
    t.do(f"%replayed = call i32 {known['cuGraphLaunch']}(i64 {graph}, i64 {stream})")

    t.begin_block("leaving")
    t.do(
        "%outcome = phi i32 [ 0, %launch.done ], [ %launched, %launch.body ], [ %set, %node.new ], [ %replayed, %node.done ]"
    )
    t.do(
        f"%failed = phi i64 [ 0, %launch.done ], [ {k}, %launch.body ], [ {j}, %node.new ], [ {records.REPLAYING}, %node.done ]"
    )
    t.store("%failed", record, records.FAILED)
    t.do(f"call i32 {known['cuCtxPopCurrent']}(ptr {popped})")
    t.begin_block("left")
    t.do("br label %leave")
