"""The common part of the emission of threaded kernels for the host CPU.

In: a threaded kernel after the passes. Out: ``void entry(i64* slots, i64 begin, i64 end)``, which runs the blocks
[begin, end) of the grid. The block index x varies fastest, or y if the innermost loop over threads runs along y.
Successive blocks thus access neighboring memory. The slots after those of the parameters hold the grid's
dimensions (x, y, z), a block's dimensions, the bytes of dynamic shared memory, and the address of the fault record.
Invariant: between two synchronization points the threads of a block may run in any order, so the accesses of the loop
over x are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from weft.codegen.kernel_ir.operation import Operation, Pointer, Value, program_order
from weft.codegen.llvm.emit import Emitter, Item, memory_type, scalar_type
from weft.codegen.llvm.emit_text import NoPolls
from weft.codegen.llvm.host_atomics import emit_atomic, emit_compare_and_swap
from weft.codegen.llvm.host_dialect import HostDialect
from weft.codegen.llvm.host_effects import emit_effect
from weft.codegen.llvm.host_math import HostMath
from weft.codegen.llvm.host_polls import InterruptPolls
from weft.codegen.llvm.host_trace import emit_trace
from weft.codegen.target import Target

GROUP = "!1"  # accesses of different threads, which do not depend on each other
AXES = (0, 1, 2)
NUMBERS = tuple((name, axis) for name in ("thread_index", "block_index", "block_size", "grid_size") for axis in AXES)
# Operations that a function can compute only from its caller's context.
_ASKS = frozenset(
    {"thread_index", "block_index", "block_size", "grid_size", "lane_index", "shared", "dynamic_shared", "trace"}
)
# (op, operands) -> result, of which the index dtype represents every value
_POSITIONS = {
    ("multiply", frozenset({"block_index", "block_size"})): "block_start",
    ("multiply", frozenset({"grid_size", "block_size"})): "extent",
    ("add", frozenset({"block_start", "thread_index"})): "position",
}


class GridDialect(HostDialect):
    """The dialect of threaded kernels on the host CPU."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.numbers: dict[tuple[str, int], str] = {}  # (opcode, axis) -> text in the index dtype
        self.linear = ""  # index of the thread in its block, x fastest
        self.shared: list[Operation] = []
        self.dynamic = ""  # start of dynamic shared memory
        self.positions: dict[Value, tuple[str, int]] = {}  # index, size or position in the grid -> what it is, axis
        self.own: set[Value] = set()  # pointers to the thread's own memory
        self.functions = HostMath(target, self.symbols)

    # -- the entry ----------------------------------------------------------------------------

    def begin(self, emitter: Emitter) -> None:
        """Emit the head of the entry function, and loads of its parameters and of the launch dimensions."""
        self.open_entry(emitter)
        emitter.reserve_allocas()
        self.bind_parameters(emitter)
        self.read_sizes(emitter)
        emitter.notes = self.notes

    def read_sizes(self, emitter: Emitter) -> None:
        """Emit loads of the grid and block dimensions, and of the size of dynamic shared memory."""
        first = len(emitter.kernel.parameters)
        for k, name in enumerate(("grid_size", "block_size")):
            for axis in AXES:
                self.numbers[name, axis] = emitter.narrowed(self.read_slot(emitter, first + 3 * k + axis))
        self.shared_bytes = self.read_slot(emitter, first + 6)

    def poll_interrupts(self, emitter: Emitter) -> None:
        """Enable interrupt polls in the loops of a user-written kernel.

        Only code emitted after this call has polls. Functions that the kernel calls contain no polls.
        """
        if emitter.kernel.attributes.get("explicit"):
            emitter.polls = InterruptPolls(emitter, self.read_slot(emitter, len(emitter.kernel.parameters) + 7))

    @staticmethod
    def read_slot(emitter: Emitter, number: int) -> str:
        """Emit a load of the 64-bit number in argument slot `number`."""
        slot = emitter.line(f"getelementptr inbounds i64, ptr %slots, i64 {number}")
        return emitter.line(f"load i64, ptr {slot}, align 8")

    def set_block_indices(self, emitter: Emitter, block: str, innermost: int = 0) -> None:
        """Emit code that computes a block's indices. The index along the axis `innermost` (0 or 1) varies fastest."""
        rest = block
        for axis in (innermost, 1 - innermost):
            extent = emitter.widened(self.numbers["grid_size", axis], "zext")
            self.numbers["block_index", axis] = emitter.narrowed(emitter.line(f"urem i64 {rest}, {extent}"))
            rest = emitter.line(f"udiv i64 {rest}, {extent}")
        self.numbers["block_index", 2] = emitter.narrowed(rest)

    # -- memory -------------------------------------------------------------------------------

    def reserve_shared(self, emitter: Emitter) -> None:
        """Emit code that allocates shared memory once, for all blocks. The memory is not cleared between blocks."""
        for operation in emitter.kernel.walk():
            if operation.opcode == "shared":
                self.shared.append(operation)
                kind, count = memory_type(operation.results[0].element), operation.attributes["count"]
                emitter.set(operation, Item(emitter.alloca(f"[{count} x {kind}]", 64)))
            elif operation.opcode == "dynamic_shared" and not self.dynamic:
                self.dynamic = emitter.line(f"alloca i8, i64 {self.shared_bytes}, align 64")

    def notes(self, operation: Operation) -> str:
        """Return metadata stating that a memory access is independent of the accesses of other threads.

        Accesses to memory that all threads reuse in turn have no such metadata.
        """
        return "" if operation.operands[0] in self.own else f", !llvm.access.group {GROUP}"

    # -- functions ----------------------------------------------------------------------------

    def declare_context(self, emitter: Emitter) -> None:
        """Pass thread indices and shared memory to all functions of the kernel, if any function uses them."""
        if not any(
            o.opcode in _ASKS for function in emitter.kernel.functions for o in program_order(function.body.operations)
        ):
            return
        kind = scalar_type(emitter.kernel.index_dtype)
        emitter.context = [(kind, self.numbers[key]) for key in NUMBERS]
        emitter.context += [(kind, self.linear), ("ptr", self.dynamic or "null")]
        emitter.context += [("ptr", emitter.environment[o.results[0]].text) for o in self.shared]

    def bind_context(self, emitter: Emitter) -> None:
        """In a device function, bind thread indices and shared memory to the parameters that `declare_context` adds."""
        if not emitter.context:
            return
        emitter.context = [(kind, f"%context.{k}") for k, (kind, _) in enumerate(emitter.context)]
        texts = [text for _, text in emitter.context]
        self.numbers = dict(zip(NUMBERS, texts, strict=False))
        self.linear, self.dynamic = texts[len(NUMBERS) : len(NUMBERS) + 2]
        for operation, text in zip(self.shared, texts[len(NUMBERS) + 2 :], strict=True):
            emitter.set(operation, Item(text))

    # -- operations ---------------------------------------------------------------------------

    def operation(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit an operation of a threaded kernel, such as a thread index or an atomic.

        Return False for other operations.
        """
        name = operation.opcode
        if wraps(operation):
            (emitter.cast if name == "cast" else emitter.table_op)(operation)
            hide_wrapping(emitter, operation.results[0])
            return True
        match name:
            case "thread_index" | "block_index" | "block_size" | "grid_size":
                emitter.set(operation, Item(self.numbers[name, operation.attributes.get("axis", 0)]))
                self.positions[operation.results[0]] = name, operation.attributes.get("axis", 0)
            case "lane_index":
                kind = scalar_type(emitter.kernel.index_dtype)
                emitter.set(operation, Item(emitter.line(f"and {kind} {self.linear}, 31")))
            case "shared":
                pass  # bound before
            case "dynamic_shared":
                emitter.set(operation, Item(self.dynamic))
            case "offset" | "reinterpret":
                if operation.operands[0] in self.own:
                    self.own.add(operation.results[0])
                return False
            case "add" | "multiply" | "cast":
                return self.position(emitter, operation)
            case "trace":
                emit_trace(emitter, operation, self.numbers, self.linear, self.symbols)
            case "atomic":
                emit_atomic(emitter, operation)
            case "atomic_cas":
                emit_compare_and_swap(emitter, operation)
            case _:
                return emit_effect(emitter, operation, self.symbols)
        return True

    def position(self, emitter: Emitter, operation: Operation) -> bool:
        """Emit the computation of a position or an extent along an axis of the grid, with no-wrap flags.

        The flags tell LLVM that addresses grow with x.

        Return False for other operations, which may overflow.
        """
        kind = operation.results[0].type
        if isinstance(kind, Pointer) or kind.kind != "i" or any(v not in self.positions for v in operation.operands):
            return False
        if kind.itemsize < emitter.kernel.index_dtype.itemsize:
            return False
        names, axes = zip(*(self.positions[v] for v in operation.operands), strict=True)
        if operation.opcode == "cast":
            self.positions[operation.results[0]] = names[0], axes[0]
            return False
        made = _POSITIONS.get((operation.opcode, frozenset(names)))
        if made is None or axes[0] != axes[1]:
            return False
        self.positions[operation.results[0]] = made, axes[0]
        x, y = (emitter.scalar_of(v) for v in operation.operands)
        word = "add" if operation.opcode == "add" else "mul"
        emitter.set(operation, Item(emitter.line(f"{word} nuw nsw {scalar_type(kind)} {x}, {y}")))
        return True

    def math(self, emitter: Emitter, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str:
        """Emit a call to a C library function, or an inline formula, for one thread.

        LLVM vectorizes the loops over threads.
        """
        return self.functions.call(emitter, name, dtype, operands)


def wraps(operation: Operation) -> bool:
    """Return whether LLVM might treat the result of an operation as a narrower integer that wraps around."""
    kind = operation.results[0].type if len(operation.results) == 1 else None
    if not isinstance(kind, np.dtype) or kind.kind not in "iu":
        return False
    if operation.opcode == "cast":
        source = operation.operands[0].dtype
        return source.kind in "iu" and kind.itemsize < min(source.itemsize, 4)
    return operation.opcode in ("bitwise_and", "right_shift", "_truncate_remainder")


def hide_wrapping(emitter: Emitter, value: Value) -> None:
    """Hide the range of an integer from LLVM, by a bitwise AND with an opaque mask of ones.

    LLVM 22 analyzes ``t % 8`` as an index of three bits. A vectorized loop starts with a check that no index wraps
    around. LLVM omits this check if the loop checks an index with more bits, which may wrap around later
    (`SCEVWrapPredicate::implies`), and the loop then reads wrong elements.
    """
    if not any(line.startswith("  %ones = ") for line in emitter.allocas):
        emitter.allocas += [
            "  %ones.slot = alloca i64, align 8",
            "  store volatile i64 -1, ptr %ones.slot, align 8",
            "  %ones = load volatile i64, ptr %ones.slot, align 8",
        ]
    kind = scalar_type(value.type)  # type: ignore[arg-type]
    ones = "%ones" if kind == "i64" else emitter.line(f"trunc i64 %ones to {kind}")
    emitter.environment[value] = Item(emitter.line(f"and {kind} {emitter.scalar_of(value)}, {ones}"))


@contextmanager
def range_loop(
    emitter: Emitter, kind: str, start: str, stop: str, note: str = "", step: Callable[[], str] = lambda: "1"
) -> Iterator[str]:
    """Context manager that emits a loop over ``range(start, stop)`` and yields the loop index.

    `step` returns the increment. `step` is called after the body of the loop.
    """
    number = emitter.fresh_number()
    head, after = f"head{number}", f"after{number}"
    before = emitter.label
    emitter.jump(head)
    index, slot = emitter.reserve_phi()
    inside = emitter.line(f"icmp slt {kind} {index}, {stop}")
    emitter.fork(inside, f"body{number}", after)
    yield index
    following = emitter.line(f"add nuw nsw {kind} {index}, {step()}")
    emitter.lines[slot] = f"  {index} = phi {kind} [ {start}, %{before} ], [ {following}, %{emitter.label} ]"
    emitter.jump(head, after, note)


Range = Callable[[int], tuple[str, str, str]]  # axis -> the first thread index, a limit of the indices, and the step


@contextmanager
def thread_loops(
    emitter: Emitter, dialect: GridDialect, axis: int, independent: bool, limits: Range | None = None
) -> Iterator[str]:
    """Emit loops over the threads of a block, with axis 0 (x) or axis 1 (y) innermost.

    The ``with`` yields the position of a thread in loop order. `independent` tells LLVM that iterations do not depend
    on each other. `limits` emits the range of a loop, by default all threads along its axis. When `limits` is
    called, the thread index along the axis is 0, and the indices of the outer loops are known. The outer loops are not
    unrolled: with many loops, LLVM would take longer than linear time.
    """
    kind = scalar_type(emitter.kernel.index_dtype)
    sizes = [dialect.numbers["block_size", axis] for axis in AXES]
    loop = f"!{10 + len(emitter.metadata)}"
    emitter.metadata.append(f"{loop} = distinct !{{{loop}, !3{', !2' if independent else ''}}}")
    outer_loop = f"!{10 + len(emitter.metadata)}"
    emitter.metadata.append(f"{outer_loop} = distinct !{{{outer_loop}, !4}}")
    note_outer = f", !llvm.loop {outer_loop}"

    def row(z: str, outer: str, over: int) -> str:
        """Emit code that computes the linear index of a row's first thread.

        The row has coordinate `z` on axis 2, and coordinate `outer` on the axis whose number is `over`.
        """
        plane = emitter.line(f"mul nuw nsw {kind} {z}, {sizes[over]}")
        rows = emitter.line(f"add nuw nsw {kind} {plane}, {outer}")
        return emitter.line(f"mul nuw nsw {kind} {rows}, {sizes[1 - over]}")

    @contextmanager
    def along(each: int, note: str = "") -> Iterator[str]:
        start, stop, step = limits(each) if limits is not None else ("0", sizes[each], "1")
        with range_loop(emitter, kind, start, stop, note, lambda: step) as index:
            dialect.numbers["thread_index", each] = index
            yield index

    dialect.numbers.update({("thread_index", each): "0" for each in AXES})
    with along(2, note_outer) as z, along(1 - axis, note_outer) as outer:
        before = row(z, outer, 1 - axis)
        with along(axis, f", !llvm.loop {loop}") as inner:
            position = emitter.line(f"add nuw nsw {kind} {before}, {inner}")
            x, y = (inner, outer) if axis == 0 else (outer, inner)
            dialect.linear = position if axis == 0 else emitter.line(f"add nuw nsw {kind} {row(z, y, 1)}, {x}")
            yield position


def finish(emitter: Emitter, dialect: GridDialect) -> None:
    """Emit the kernel's functions, and the wrapper functions for C library calls."""
    emitter.notes = lambda operation: ""
    emitter.polls = NoPolls()
    dialect.bind_context(emitter)
    emitter.functions()
    dialect.functions.define(emitter)
