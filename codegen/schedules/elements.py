"""The GPU schedule of pointwise kernels without inner loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.schedules.decision import AnySizesDecision
from weft.codegen.schedules.lanes import LaneWriter, lanes_of
from weft.codegen.schedules.nest import Nest, has_regions, pressure
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Compute capability from which on one vector per thread keeps too few bytes in flight: 64 KiB per multiprocessor are
# needed.
WIDE_MEMORY = 100
# Minimum number of elements that a thread computes if it has the registers: two vectors, one block apart, for wide
# dtypes.
LEAST_ELEMENTS = 4
# Threads along a row per byte of an element, if an operand is contiguous along columns: 256 threads / 32 bytes of a
# sector.
SECTOR = 8
# Columns that a thread of a two-dimensional tile computes. Between them are those of the other threads along the row.
COLUMNS = 4


@dataclass(frozen=True, slots=True)
class Elements(AnySizesDecision):
    """The parameters of the GPU schedule of pointwise kernels.

    If `full` is set, all threads have the same number of vectors.
    """

    full: bool = False


def write(kernel: Kernel, nest: Nest, decision: Elements, target: Target) -> Kernel:
    """Lower a pointwise kernel to a threaded kernel."""
    lanes, aligned = vector_lanes(kernel, nest)
    return _write_loop(kernel, nest, lanes, aligned, decision, target) if lanes > 1 else _write_planes(kernel, nest)


def _write_loop(
    kernel: Kernel, nest: Nest, lanes: int, vectors: Sequence[str], decision: Elements, target: Target
) -> Kernel:
    """Lower a pointwise kernel that consists of a single loop.

    Threads compute whole vectors of `lanes` elements. The first threads also compute the remainder.

    A thread computes one vector, or two vectors one block apart if a single vector would keep too few bytes in flight.
    """
    w = ThreadWriter(kernel, nest, GPU.block)
    (level,) = nest.levels
    extent = w.map[level.extent]
    slots = _vectors_a_thread(nest, lanes, target)
    count = w.compute("right_shift", extent, lanes.bit_length() - 1)
    own = w.compute("add", w.compute("multiply", w.block, w.threads * slots), w.thread)
    with w.when(None if decision.full else w.test("less", own, count)):
        writer = LaneWriter(w, lanes, vectors, strided=True)
        made = [writer.slot(w.compute("multiply", own, lanes))]
        for k in range(1, slots):
            vector = w.compute("add", own, k * w.threads)
            valid = None if decision.full else w.test("less", vector, count)
            made.append(writer.slot(w.compute("multiply", vector, lanes), [valid] * lanes))
            made[-1].beyond = True
        writer.begin(made, level.index)
        writer.copy(nest.item, made, level.index)
    if not decision.whole:
        rest = w.compute("bitwise_and", extent, lanes - 1)
        with w.when(w.test("less", own, rest)):
            w.map[level.index] = w.compute("add", w.compute("subtract", extent, rest), own)
            w.copy(nest.item)
    return w.finish("elements", w.threads * lanes * slots, every=True)


def _vectors_a_thread(nest: Nest, lanes: int, target: Target) -> int:
    """Return the number of vectors that each thread processes, one or two.

    There are two if one vector is too little work, two fit into registers, and no load has a stride above 1.
    """
    steps = index_steps(nest.item, nest.levels[0].index)
    if any((steps.get(o.operands[1]) or 1) > 1 for o in nest.item if o.opcode == "load"):
        return 1  # (the second vectors would be read in parts, each under its own condition)
    loads = {o.operands[0]: o.operands[0].type for o in nest.item if o.opcode == "load"}
    read = sum(lanes * kind.dtype.itemsize for kind in loads.values())  # type: ignore[union-attr, misc]
    few = lanes < LEAST_ELEMENTS or (target.compute_capability >= WIDE_MEMORY and 0 < read <= GPU.vector_bytes)
    return 2 if few and 2 * lanes * pressure(nest.item) <= GPU.registers else 1


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> Elements | None:
    """Return the parameters of this schedule for a pointwise kernel, or None for other kernels."""
    if has_regions(nest.item) or not nest.levels:
        return None
    lanes, vectors = vector_lanes(kernel, nest)
    if lanes == 1:
        return Elements()
    length = sizes[nest.levels[0].extent.name] if exact else 1
    return Elements(vectors=vectors, whole=length % lanes == 0, full=length % (2 * GPU.block * lanes) == 0)


def _write_planes(kernel: Kernel, nest: Nest) -> Kernel:
    """Write a pointwise kernel as a threaded kernel over two-dimensional tiles, without vector accesses.

    Columns are along the innermost loop.

    The number of threads along a row depends on the length of the row. A thread computes the indices of its row once
    per tile, by division, and its columns by addition.
    """
    w = ThreadWriter(kernel, nest, GPU.block)
    columns = COLUMNS if COLUMNS * pressure(nest.operations) <= GPU.registers and not has_regions(nest.item) else 1
    *outer, last = nest.levels
    extents = w.extents()
    rows, length = w.product(extents[:-1]), extents[-1]
    along = w.power_of_two(length, along_row(nest))
    width = w.compute("multiply", along, columns)
    height = w.quotient(w.number(w.threads), along)
    across = w.parts(length, width)
    down, right = w.split(w.thread, along)
    tiles = w.compute("multiply", across, w.parts(rows, height))
    with w.tiles(tiles) as tile:
        vertical, horizontal = w.split(tile, across)
        row = w.compute("add", w.compute("multiply", vertical, height), down)
        column = w.compute("add", w.compute("multiply", horizontal, width), right)
        with w.when(w.test("less", row, rows)):
            w.bind(outer, row)
            w.enter(nest.levels[1:])
            _columns(w, last.index, column, along, length, columns)
    return w.finish("elements", w.threads * columns)


def along_row(nest: Nest) -> int:
    """Return the maximum number of threads along a row.

    The number is the size of a block, or less if an operand is contiguous along columns. The height of a tile then
    covers whole 32-byte sectors of that operand's columns.
    """
    if len(nest.levels) < 2:
        return GPU.block
    inner, outer = (index_steps(nest.operations, level.index) for level in nest.levels[:-3:-1])
    sizes = [
        operation.operands[0].element.itemsize
        for operation in nest.operations
        if operation.opcode in ("load", "store")
        and outer.get(operation.operands[1], 0) in (1, -1)
        and inner.get(operation.operands[1], 0) not in (0, 1, -1)
    ]
    return max(8, min(32, SECTOR * min(sizes))) if sizes else GPU.block


def _columns(w: ThreadWriter, index: Value, column: Value, along: Value, length: Value, columns: int) -> None:
    """Emit code for at most `columns` columns of a thread. The first has the index `column`, and the distance between them is `along`."""

    def point(position: Value) -> None:
        w.map[index] = position
        w.copy(w.nest.item)

    if columns == 1:
        with w.when(w.test("less", column, length)):
            point(column)
        return

    def whole() -> None:
        with w.loop(columns) as iteration:
            point(w.compute("add", column, w.compute("multiply", iteration, along)))

    def rest() -> None:
        left = w.parts(w.compute("subtract", length, column), along)
        with w.loop(w.compute("minimum", left, columns)) as iteration:
            point(w.compute("add", column, w.compute("multiply", iteration, along)))

    last = w.compute("add", column, w.compute("multiply", along, columns - 1))
    w.choose_version(w.test("less", last, length), whole, rest)


def vector_lanes(kernel: Kernel, nest: Nest) -> tuple[int, tuple[str, ...]]:
    """Return the number of elements per vector, and the pointers accessed by aligned vectors.

    The number is 1, with no pointers, if vector accesses are not worthwhile (see `pays`): adjacent threads then access
    adjacent elements. It is also 1 for nested loops, for branches, and if the vectors need too many registers.
    """
    if len(nest.levels) != 1 or has_regions(nest.item) or any(has_control_flow(o) for o in program_order(nest.item)):
        return 1, ()
    index = nest.levels[0].index
    lanes = max(2, lanes_of(nest.item, index))
    vectors, _ = aligned_vectors(kernel, [(nest.item, index)], {}, lanes, exact=True, strided=True)
    if not pays(nest.item, index, vectors) or lanes * pressure(nest.item) > 2 * GPU.registers:
        return 1, ()
    return lanes, vectors


def pays(operations: Iterable[Operation], index: Value, vectors: Sequence[str]) -> bool:
    """Return whether vector accesses are worthwhile.

    They must move at least half of the bytes. Each store whose stride is a nonzero constant must be a vector store.
    """
    steps = index_steps(operations, index)
    balance = 0
    for o in operations:
        step = steps.get(o.operands[1], 0) if o.opcode in ("load", "store") else 0
        if step != 0:
            size, wide = o.operands[0].element.itemsize, o.operands[0].name in vectors
            balance += size if wide else -size
            if o.opcode == "store" and step is not None and not wide:
                return False
    return balance >= 0 and bool(vectors)
