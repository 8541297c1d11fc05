"""Pointwise kernels over several loops with long rows: broadcasts, slices and stencils.

In: a logical kernel without loops in its items, and a `RowPlanes`. Out: the threaded kernel: threads lie
side by side along the innermost loop, with whole vectors where those are aligned, and each does a few rows, so that what
neighbouring rows have in common is still in the cache. A block finds its place by one division, a thread by none. For any sizes
there is code for vectors (where ``multiples`` are) and for single elements, of which a launch takes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_pointers, needed_multiples
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.elements import along_row
from weft.codegen.schedules.lanes import LaneWriter, Slot, lanes_of
from weft.codegen.schedules.nest import Nest, has_loops, pressure
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Threads along a row: the whole block, or these where rows are short; below LEAST of them the schedule for any rows does better.
SHORT_ALONG = 64
LEAST = 48
# Of rows shorter than that, where one kernel serves any: so many, or twice as many.
FEWEST = 8
# Rows that a thread does.
ROWS = 4


@dataclass(frozen=True, slots=True)
class RowPlanes(Decision):
    """The number of threads along a row (0: set by the launch), elements per vector, and rows per thread."""

    along: int
    lanes: int
    deep: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> RowPlanes | None:
    """Return the decision for these sizes, or None."""
    if len(nest.levels) < 2 or has_loops(nest.item) or any(has_control_flow(o) for o in nest.operations):
        return None
    operations = _operations(nest)
    index = nest.levels[-1].index
    length = sizes[nest.levels[-1].extent.name]
    rows = prod(sizes[level.extent.name] for level in nest.levels[:-1])
    lanes = lanes_of(operations, index)
    if not exact:
        if along_row(nest) != GPU.block:
            return None  # (short columns of others are better side by side)
        walks = [(operations, index)]
        vectors, multiples = needed_multiples(kernel, walks, sizes, lanes, nest.levels[-1].extent)
        if not _pays(operations, index, vectors):
            lanes, vectors, multiples = 1, (), ()
        return RowPlanes(0, lanes, _rows_a_thread(nest, lanes), vectors=vectors, multiples=multiples)
    vectors = aligned_pointers(kernel, [(operations, index)], sizes, lanes)
    if length % lanes or not _pays(operations, index, vectors):
        lanes, vectors = 1, ()
    if rows < ROWS or length < LEAST * lanes:
        return None
    along = GPU.block if length > 2 * SHORT_ALONG * lanes else SHORT_ALONG
    deep = _rows_a_thread(nest, lanes)
    whole = not length % (along * lanes) and not rows % (GPU.block // along * deep)
    return RowPlanes(along, lanes, deep, vectors=vectors, whole=whole)


def _rows_a_thread(nest: Nest, lanes: int) -> int:
    deep = ROWS if len(nest.levels) == 2 else 1
    while deep > 1 and deep * lanes * pressure(_operations(nest)) > 2 * GPU.registers:
        deep //= 2
    return deep


def _operations(nest: Nest) -> list[Operation]:
    return [o for o in nest.operations if o.opcode != "yield"]


def _pays(operations: list[Operation], index: Value, vectors: tuple[str, ...]) -> bool:
    """Return whether most accesses along the rows are whole vectors."""
    steps = index_steps(operations, index)
    balance = 0
    for o in operations:
        if o.opcode in ("load", "store") and steps.get(o.operands[1], 0) != 0:
            assert isinstance(o.operands[0].type, Pointer)
            size = o.operands[0].type.dtype.itemsize
            balance += size if o.operands[0].name in vectors else -size
    return balance > 0


def write(kernel: Kernel, nest: Nest, decision: RowPlanes, target: Target) -> Kernel:
    """Return the threaded form of pointwise kernels with long rows."""
    known, lanes, deep, whole = decision.along, decision.lanes, decision.deep, decision.whole
    w = ThreadWriter(kernel, nest, GPU.block)
    w.choose_aligned(
        decision.multiples,
        lanes,
        lambda: _plane(w, known, _Piece(lanes, deep, decision.vectors, whole)),
        lambda: _plane(w, known, _Piece(1, _rows_a_thread(nest, 1), (), whole)),
    )
    return w.finish("planes", GPU.block * lanes * deep, every=whole)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A thread's share: elements per vector, vector pointers and rows. `whole` means that no vector passes the end."""

    lanes: int
    deep: int
    vectors: Sequence[str]
    whole: bool


def _plane(w: ThreadWriter, known: int, piece: _Piece) -> None:
    """Emit all rows, with `known` threads along each (0: by their length)."""
    lanes, deep = piece.lanes, piece.deep
    extents = w.extents()
    rows, length = w.product(extents[:-1]), extents[-1]
    if known:
        along, height = w.number(known), w.number(GPU.block // known)
        down, right = w.split(w.thread, known)
    else:
        shift = _along_shift(w, length, lanes)
        along, height = w.compute("left_shift", 1, shift), w.compute("right_shift", GPU.block, shift)
        down = w.compute("right_shift", w.thread, shift)
        right = w.compute("bitwise_and", w.thread, w.compute("subtract", along, 1))
    width, tall = w.compute("multiply", along, lanes), w.compute("multiply", height, deep)
    across = w.parts(length, width)
    column = w.compute("multiply", right, lanes)

    def at(tile: Value) -> None:
        vertical, horizontal = w.split(tile, across)
        first = w.compute("add", w.compute("multiply", vertical, tall), down)
        start = w.compute("add", w.compute("multiply", horizontal, width), column)
        numbers = [w.compute("add", first, w.compute("multiply", height, k)) if k else first for k in range(deep)]
        _rows(w, piece, numbers, start, rows)

    if piece.whole:
        at(w.block)
    else:
        count = w.compute("multiply", across, w.parts(rows, tall))
        with w.builder.loop(count, "serial", start=w.block, step_by=w.grid, rolled=True) as opened:
            at(opened.index)


def _along_shift(w: ThreadWriter, length: Value, lanes: int) -> Value:
    """Return the logarithm of the number of threads along a row."""
    found: Value | int = FEWEST.bit_length() - 1
    for above, along in ((FEWEST, 2 * FEWEST), (LEAST - 1, SHORT_ALONG), (2 * SHORT_ALONG, GPU.block)):
        found = w.choose(w.test("greater", length, above * lanes), along.bit_length() - 1, found)
    return w.value(found)


def _rows(w: ThreadWriter, piece: _Piece, numbers: list[Value], start: Value, rows: Value) -> None:
    """Emit this thread's vectors at `start`, in the rows with these numbers."""
    nest, lanes, whole = w.nest, piece.lanes, piece.whole
    writer = LaneWriter(w, lanes, piece.vectors)
    operations, level = _operations(nest), nest.levels[-1]
    length = w.map[level.extent]
    inside = None if whole else w.test("less", start, length)
    at = start if whole else w.compute("minimum", start, w.compute("subtract", length, lanes))
    slots: list[Slot] = []
    for number in numbers:
        valid = None
        if inside is not None:
            valid = w.builder.op("bitwise_and", inside, w.test("less", number, rows))
            number = w.compute("minimum", number, w.compute("subtract", rows, 1))
        slot = writer.slot(at, [valid] * lanes)
        writer.begin([slot], level.index)
        w.bind(nest.levels[:-1], number)
        for values in slot.values:
            values.update((outer.index, w.map[outer.index]) for outer in nest.levels[:-1])
        slots.append(slot)
    writer.copy(operations, slots, level.index)
