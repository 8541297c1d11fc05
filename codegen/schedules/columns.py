"""The GPU schedule of column reductions.

An example is a sum over the first axis. Adjacent threads reduce adjacent columns.

In: a logical kernel whose items (the columns) are adjacent in memory and are reductions over rows, and a
`ColumnReduction`. Out: the threaded kernel. A block has 256 threads. Up to 32 adjacent threads process adjacent columns
of one row. The other threads process other rows of these columns.

A reduction combines the rows of a thread in order, then the threads of a column pairwise. The number of threads
per column depends only on the shape of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.ops.op_table import combine_all
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.passes.reduction_identities import rounds
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lanes import Slot, lanes_of
from weft.codegen.schedules.nest import Nest, is_spread, prefers_columns
from weft.codegen.schedules.reductions import by_halves, shuffled
from weft.codegen.schedules.rows import REGISTER_AIMS, RowFacts, RowNest, RowWriter, find_row, flat
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Columns per thread in a reduction that rounds. The number is constant, so that other accesses of the kernel change no
# bit.
REDUCED_COLUMNS = 4
# Vectors, one per row, that a thread reads at once.
ROWS = 4
SHARED_BYTES = 40_000
# Minimum number of adjacent threads that read whole cache lines; number of blocks below which much of a GPU is idle.
SHORT_SIDE = 8
FEW_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class ColumnReduction(Decision):
    """The parameters of this schedule: `side` adjacent threads share a row, and each thread processes `lanes` adjacent columns.

    If `side` is 0, the launch determines the number of threads.
    """

    side: int
    lanes: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> ColumnReduction | None:
    """Return the parameters of this schedule for a column reduction, or None for other kernels."""
    row = find_columns(nest)
    if row is None:
        return None
    operations = program_order((*row.prologue, *row.epilogue))
    rounded = any(rounds(o) for o in row.loops)
    widest = REDUCED_COLUMNS if rounded else lanes_of(operations, nest.levels[-1].index)
    values = sum(v.dtype.itemsize for o in row.loops for v in o.results)
    loop_bodies, extent = [(list(program_order(nest.operations)), nest.levels[-1].index)], nest.levels[-1].extent
    side, lanes, whole = 0, widest, False
    any_side = not exact and values * GPU.warps * GPU.warp * widest <= SHARED_BYTES
    if not any_side:
        count = sizes[extent.name]
        lanes = _power_of_two(count, widest)
        side, whole = _side(count, nest.points(sizes), lanes), count % lanes == 0
        if values * GPU.warps * side * lanes > SHARED_BYTES:
            return None
    vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, lanes, extent, exact=not any_side)
    return ColumnReduction(side, lanes, vectors=vectors, multiples=multiples, whole=whole)


def _side(count: int, items: int, lanes: int) -> int:
    """Return the number of threads that process `count` adjacent columns side by side.

    The number is smaller if the total number of columns, `items`, is small.
    """
    side = _power_of_two(-(-count // lanes), GPU.warp)
    while side > SHORT_SIDE and items < FEW_BLOCKS * side * lanes:
        side //= 2
    return side


def threads_below(count: int, items: int) -> int:
    """Return how many threads of a block share the reduction of one column.

    The order of the reduction depends on this number, which is also the stride, in rows, of each of these threads.
    """
    return GPU.block // _side(count, items, _power_of_two(count, REDUCED_COLUMNS))


def halve_columns(parts: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine the partial results of a column in pairs: first within each warp, then across warps."""
    inside = max(1, len(parts) // GPU.warps)
    warps = [parts[k : k + inside] for k in range(0, len(parts), inside)]
    return by_halves([by_halves(warp, combine) for warp in warps], combine)


def find_columns(nest: Nest) -> RowNest | None:
    """Return the reduction loops of a kernel that reduces columns of arrays, or None for other kernels.

    (The loops are described by a `RowNest`, in spite of its name.)
    """
    if not nest.levels:
        return None
    row = find_row(nest)
    if row is None or not any(o.results for o in row.loops) or not prefers_columns(nest, row.loops):
        return None
    steps = index_steps(nest.operations, nest.levels[-1].index)
    straight = all(is_spread(o) or not o.regions for o in (*row.prologue, *row.epilogue))
    simple = not any(o.opcode == "atomic" for o in program_order((*row.prologue, *row.epilogue)))
    apart = any(v in steps for v in (row.start, row.stop))
    return row if straight and simple and not apart else None


def _power_of_two(number: int, most: int) -> int:
    """Return the smallest power of two that is not below `number`. If it exceeds the limit `most`, which is a power of two, return the limit."""
    found = 1
    while found < most and found < number:
        found *= 2
    return found


def write(kernel: Kernel, nest: Nest, decision: ColumnReduction, target: Target) -> Kernel:
    """Lower a column reduction to a threaded kernel."""
    row = find_columns(nest)
    assert row is not None
    known, lanes = decision.side, decision.lanes
    w = ThreadWriter(kernel, nest, GPU.block)
    *outer, columns = w.extents()
    if known:
        side: Value | int = known
        down, right = w.split(w.thread, known)
    else:
        shift = _side_shift(w, columns, w.product([*outer, columns]), lanes)
        side = w.compute("left_shift", 1, shift)
        down, right = w.split_at(w.thread, shift, side)
    width = w.compute("multiply", side, lanes)
    across = w.parts(columns, width)
    count = w.compute("multiply", w.product(outer), across) if outer else across
    aligned = w.are_multiples(decision.multiples, lanes)
    if aligned is not None and len(row.loops) > 1:
        w.builder.kernel.attributes["register_aims"] = REGISTER_AIMS[-1:]
    with w.builder.loop(count, "serial", start=w.block, step_by=w.grid, rolled=True) as opened:
        batch, number = w.split(opened.index, across) if outer else (opened.index, opened.index)
        w.bind(nest.levels[:-1], batch)
        first = w.compute("add", w.compute("multiply", number, width), w.compute("multiply", right, lanes))

        def write(*, whole: bool) -> None:
            writer = ColumnWriter(w, row, down, side, lanes, RowFacts(0, whole, decision.vectors if whole else ()))
            writer.set_columns(first, columns)
            writer.write(nest)

        whole = decision.whole or aligned is not None
        w.choose_version(aligned, lambda: write(whole=whole), lambda: write(whole=False))
        w.barrier()
    return w.finish("columns", known * lanes or 1, column_lanes=0 if known else lanes)


def _side_shift(w: ThreadWriter, count: Value, items: Value, lanes: int) -> Value:
    """Emit code that chooses how many threads process adjacent columns. The result is the base-2 logarithm of this number."""
    vectors = w.parts(count, lanes)
    wanted: Value | int = 0
    for k in range(GPU.warp.bit_length() - 1):
        wanted = w.choose(w.test("greater", vectors, 1 << k), k + 1, wanted)
    most: Value | int = SHORT_SIDE.bit_length() - 1
    for k in range(SHORT_SIDE.bit_length(), GPU.warp.bit_length()):
        most = w.choose(w.test("less", items, FEW_BLOCKS * lanes << k), most, k)
    return w.compute("minimum", wanted, most)


class ColumnWriter(RowWriter):
    """Writer of the code for the columns of one thread.

    `part` is the index of the thread among the threads that share the columns.
    """

    def __init__(
        self, w: ThreadWriter, row: RowNest, part: Value, side: Value | int, lanes: int, known: RowFacts
    ) -> None:
        super().__init__(w, row, GPU.block, part, known)
        self.side = side
        self.lanes = self.writer.lanes = lanes
        self.index = w.nest.levels[-1].index
        self.steps = index_steps(w.nest.operations, self.index)
        self.columns = Slot([], [])

    def set_columns(self, first: Value, count: Value) -> None:
        """Assign `lanes` columns to this thread, beginning at `first`. Columns from `count` on are invalid."""
        self.columns = self.writer.slot_within(None, first, count, whole=self.known.whole)
        self.writer.begin([self.columns], self.index)

    def _part(self, part: Sequence[Operation]) -> None:
        if len(part) == 1 and is_spread(part[0]):
            self._loop(part[0])
        elif part is self.row.epilogue or any(o.opcode == "store" for o in part):
            with self.writer.scope(), self.w.when(self.w.test("equal", self.part, 0)):
                self._points(part)
            self.writer.forget()
        else:
            self._points(part)

    def _points(self, operations: Sequence[Operation]) -> None:
        """Emit each operation for every column of the thread, or once if the result is the same for all columns."""
        for o in operations:
            if o.opcode == "store" or any(v in self.columns.values[0] for v in o.operands):
                self.writer.copy([o], [self.columns], self.index, self.steps)
            else:
                self.writer.point(o)

    # -- loops over rows ----------------------------------------------------------------------------

    def _finish(self, loop: Operation, combine: Sequence[str], accumulators: list[list[Value]]) -> None:
        for lane, total in enumerate(self._combine_column_threads(combine, accumulators)):
            before = [self.writer.value(self.columns, lane, v) for v in loop.operands[2:]]
            found = combine_all(self.w.builder, combine, before, total)
            self.columns.values[lane].update(zip(loop.results, found, strict=True))

    def _tiles(self, loop: Operation, accumulators: list[list[Value]]) -> list[list[Value]]:
        """Emit a loop over the rows with several rows per iteration, followed by the remaining rows."""
        w = self.w
        loads = len({o.operands[0] for o in program_order([loop]) if o.opcode == "load"})
        unroll = max(1, ROWS // max(1, loads))
        apart = w.quotient(w.number(GPU.block), self.side)

        def iterate(rows: Sequence[Value], inside: Sequence[Value | None], carried: Sequence[Value]) -> list[Value]:
            slots = [self._row(loop, *row) for row in zip(rows, inside, strict=True)]
            return flat(self._body(loop, slots, self._nested(carried)))

        def at(first: Value) -> list[Value]:
            return [w.compute("add", first, w.compute("multiply", apart, k)) if k else first for k in range(unroll)]

        last = w.compute("subtract", self.stop, 1)
        # from each row before this one, all rows of an iteration exist
        whole = w.compute("subtract", self.stop, w.compute("multiply", apart, unroll - 1))
        first = w.compute("add", self.start, self.part)
        stride = w.compute("multiply", apart, unroll)
        how: dict[str, Any] = {"step_by": stride, "rolled": True, "opaque": True}
        start = [first, *flat(accumulators)]
        with self.writer.scope(), w.builder.loop(whole, "serial", start=first, initial=start, **how) as opened:
            after = iterate(at(opened.index), [None] * unroll, opened.carried[1:])
            opened.yield_(w.compute("add", opened.index, stride), *after)
        if unroll == 1:
            return self._nested(opened.results[1:])
        rest = at(opened.results[0])[:-1]

        def left() -> list[Value]:
            with self.writer.scope():
                inside = [w.test("less", row, self.stop) for row in rest]
                return iterate([w.compute("minimum", row, last) for row in rest], inside, opened.results[1:])

        more = w.test("less", rest[0], self.stop)
        return self._nested(w.select(more, left, lambda: opened.results[1:]))

    def _row(self, loop: Operation, row: Value, inside: Value | None) -> Slot:
        """Return the elements of a row in this thread's columns, as a `Slot`."""
        valid: list[Value | None] = list(self.columns.valid)
        if inside is not None:
            valid = [inside if v is None else self.w.both(v, inside) for v in valid]
        index = loop.regions[0].parameters[0]
        values = [{**known, index: row} for known in self.columns.values]
        return Slot(self.columns.indices, valid, values)

    def _copy(self, operations: list[Operation], slots: Sequence[Slot], loop: Operation) -> None:
        self.writer.copy(operations, slots, self.index, self.steps)

    # -- combination across threads -------------------------------------------------------------------

    def _combine_column_threads(self, combine: Sequence[str], values: list[list[Value]]) -> list[list[Value]]:
        """Emit code that combines the results of the threads that share columns, and return the totals."""
        w = self.w
        mask = GPU.warp // 2
        while mask >= (self.side if isinstance(self.side, int) else 1):
            values = [self._combined(combine, lane, mask) for lane in values]
            mask //= 2
        warp, lane = w.split(w.thread, GPU.warp)
        width = (self.side if isinstance(self.side, int) else GPU.warp) * self.lanes
        shared = [w.shared_array(v.dtype, GPU.warps * width) for v in values[0]]
        own = w.compute("multiply", w.compute("bitwise_and", lane, w.compute("subtract", self.side, 1)), self.lanes)
        numbers = [w.number(column) for column in range(self.lanes)]
        notes = [{"align": min(16, self.lanes * v.dtype.itemsize)} for v in values[0]]
        with w.when(w.test("less", lane, self.side)):
            index = w.compute("add", w.compute("multiply", warp, width), own)
            for k, pointer in enumerate(shared):
                address = w.builder.offset(pointer, index)
                for column, number in enumerate(numbers):
                    w.builder.store(address, number, values[column][k], **({} if column else notes[k]))
        w.barrier()

        def read(warp: int, k: int) -> list[Value]:
            address = w.builder.offset(shared[k], w.compute("add", own, warp * width) if warp else own)
            return [w.builder.load(address, number, **({} if c else notes[k])) for c, number in enumerate(numbers)]

        found = [list(zip(*(read(warp, k) for k in range(len(shared))), strict=True)) for warp in range(GPU.warps)]

        def together(upper: Any, lower: Any) -> list[tuple[Value, ...]]:
            return [tuple(combine_all(w.builder, combine, *pair)) for pair in zip(upper, lower, strict=True)]

        return [list(column) for column in by_halves(found, together)]

    def _combined(self, combine: Sequence[str], values: list[Value], mask: int) -> list[Value]:
        """Emit code that combines values with those of the lane at XOR distance `mask`.

        A lane keeps its values if the two lanes do not share the columns.
        """
        same = None if isinstance(self.side, int) else lambda mask: self.w.test("less_equal", self.side, mask)
        return shuffled(self.w, combine, values, mask, same)
