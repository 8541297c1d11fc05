"""The GPU schedule of pointwise kernels with transposed operands.

In: a logical kernel whose last two loops are contiguous in different operands, and a `TransposedTiles`. Out: the
threaded kernel. The threads of a block load a square of each transposed operand along that operand's memory into shared
memory, synchronize, and then compute along the other operands' memory. Accesses to shared memory have no bank
conflicts: a row of the square is one element longer, and a warp covers eight vectors in each of four rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.machines import GPU
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lanes import LaneWriter, Slot
from weft.codegen.schedules.nest import Nest, has_regions, pressure
from weft.codegen.schedules.rows import REGISTER_AIMS
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Tile sides in elements, by the size of an element in bytes; and the side if vectors are not aligned.
SIDES = {1: 64, 2: 64, 4: 64, 8: 32}
SINGLE_SIDE = 32


@dataclass(frozen=True, slots=True)
class TransposedLoads:
    """The innermost two loops of a kernel, and the loads that are contiguous along the outer loop."""

    rows: Value
    columns: Value
    operations: list[Operation]
    loads: list[Operation]


def find_transposed_loads(kernel: Kernel, nest: Nest) -> TransposedLoads | None:
    """Return the transposed loads of a kernel, or None if this schedule does not support the kernel."""
    if len(nest.levels) < 2 or has_regions(nest.item) or any(has_control_flow(o) for o in nest.item):
        return None
    rows, columns = nest.levels[-2].index, nest.levels[-1].index
    operations = [*nest.levels[-1].before, *nest.item]
    down, along = index_steps(operations, rows), index_steps(operations, columns)
    steady = {p.value for p in kernel.parameters if p.noalias and not p.writable}
    loads = [
        o
        for o in operations
        if o.opcode == "load"
        and o.operands[0] in steady
        and down.get(o.operands[1], 0) == 1
        and along.get(o.operands[1], 0) not in (0, 1, -1)
        and o.results[0].dtype.itemsize in SIDES
    ]
    stores = [o for o in operations if o.opcode == "store"]
    if not loads or any(o.opcode == "atomic" for o in operations):
        return None
    if any(along.get(o.operands[1], 0) not in (1, -1) for o in stores):
        return None
    return TransposedLoads(rows, columns, operations, loads)


@dataclass(frozen=True, slots=True)
class TransposedTiles(Decision):
    """The parameters of tiles on a GPU: elements per side of a tile, and elements per vector."""

    side: int
    lanes: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> TransposedTiles | None:
    """Return the parameters of this schedule, or None if it does not fit.

    It does not fit kernels without transposed operands, short loops, or tiles that need too much shared memory.

    Tiles are accessed element by element if vectors are not aligned, or do not fit into the registers.
    """
    crossing = find_transposed_loads(kernel, nest)
    if crossing is None:
        return None
    height, width = (sizes[level.extent.name] for level in nest.levels[-2:])
    widest = max(o.results[0].dtype.itemsize for o in crossing.loads)
    side = SIDES[widest]
    if min(height, width) < SINGLE_SIDE // 2:
        return None
    lanes = 2 if widest == 8 else 4
    straight = [o for o in crossing.operations if o not in crossing.loads]
    across = [o for o in crossing.operations if o.opcode not in ("load", "store") or o in crossing.loads]
    loop_bodies = [(straight, crossing.columns), (across, crossing.rows)]
    bounds = [level.extent for level in nest.levels[-2:]]
    vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, lanes, *bounds, exact=exact)
    accessed = {o.operands[0].name for o in crossing.operations if o.opcode == "store" or o in crossing.loads}
    heavy = lanes * (side // 16) * len(crossing.loads) + lanes * pressure(crossing.operations) > 2 * GPU.registers
    if not (exact or multiples) or not accessed <= set(vectors) or heavy or len(crossing.loads) > 2:
        side, lanes, vectors, multiples = SINGLE_SIDE, 1, (), ()
    if len(crossing.loads) * side * (side + 1) * widest > 40_000:
        return None
    whole = exact and not (height % side or width % side)
    return TransposedTiles(side, lanes, vectors=vectors, multiples=multiples, whole=whole)


def write(kernel: Kernel, nest: Nest, decision: TransposedTiles, target: Target) -> Kernel:
    """Lower a kernel with transposed operands to a kernel for GPU threads."""
    crossing = find_transposed_loads(kernel, nest)
    assert crossing is not None
    w = ThreadWriter(kernel, nest, GPU.block)
    side, lanes, whole = decision.side, decision.lanes, decision.whole
    # without a limit, the assembler starts all loads before the barrier, with registers that other blocks need
    w.builder.kernel.attributes["register_aims"] = REGISTER_AIMS
    held = [w.shared_array(o.results[0].dtype, side * (side + 1)) for o in crossing.loads]
    w.choose_version(
        w.are_multiples(decision.multiples, lanes),
        lambda: _Tile(w, crossing, held, (side, lanes), decision.vectors, whole=whole).write_all(),
        lambda: _Tile(w, crossing, held, (SINGLE_SIDE, 1), ()).write_all(),
    )
    return w.finish("tiles", side * side, every=whole)


class _Tile:
    """Writer of the code that processes a tile, a square part of an array. The list `held` has one array in shared memory per transposed load."""

    def __init__(
        self,
        w: ThreadWriter,
        crossing: TransposedLoads,
        held: list[Value],
        shape: tuple[int, int],
        vectors: Sequence[str],
        *,
        whole: bool = False,
    ) -> None:
        self.w = w
        self.crossing = crossing
        self.held = held
        self.side, self.lanes = shape
        self.vectors = vectors
        self.whole = whole
        warp, lane = w.split(w.thread, GPU.warp)
        if self.lanes == 1:
            self.near, self.far, self.apart = lane, warp, GPU.block // self.side
            return
        # a warp has eight vectors in each of four rows, and two warps are side by side
        pair, left = w.split(warp, 2)
        row, vector = w.split(lane, 8)
        across = self.side // self.lanes
        assert across == 16
        self.near = w.compute("multiply", w.compute("add", w.compute("multiply", left, 8), vector), self.lanes)
        self.far = w.compute("add", w.compute("multiply", pair, 4), row)
        self.apart = GPU.block // across

    def write_all(self) -> None:
        """If the arrays consist of whole tiles, emit code for one tile per block. Otherwise, emit a loop over a block's tiles."""
        w, levels, side = self.w, self.w.nest.levels, self.side
        *outer, height, width = w.extents()
        across, down = w.parts(width, side), w.parts(height, side)

        def at(number: Value) -> None:
            rest, right = w.split(number, across)
            batch, below = w.split(rest, down) if outer else (rest, rest)
            w.bind(levels[:-2], batch)
            w.enter(levels[1:-1])
            self.write(w.compute("multiply", below, side), w.compute("multiply", right, side), height, width)

        if self.whole:
            at(w.block)
            return
        with w.tiles(w.product([*outer, down, across])) as number:
            at(number)
            w.barrier()

    def write(self, top: Value, left: Value, height: Value, width: Value) -> None:
        """Emit the code for the tile whose first element is (`top`, `left`)."""
        w = self.w
        writer = LaneWriter(w, self.lanes, self.vectors)
        made = [o for o in self.crossing.operations if o.opcode != "store"]
        for load, held in zip(self.crossing.loads, self.held, strict=True):
            slots = self._slots(writer, self.crossing.rows, self.crossing.columns, top, left, height, width)
            needed = _needed(made, load)
            writer.copy(needed, slots, self.crossing.rows)
            for k, slot in enumerate(slots):
                index = w.compute("multiply", w.compute("add", self.far, k * self.apart), self.side + 1)
                index = w.compute("add", index, self.near)
                for lane in range(self.lanes):
                    where = w.compute("add", index, lane) if lane else index
                    w.builder.store(held, where, writer.value(slot, lane, load.results[0]))
        w.barrier()
        slots = self._slots(writer, self.crossing.columns, self.crossing.rows, left, top, width, height)
        for load, held in zip(self.crossing.loads, self.held, strict=True):
            index = w.compute("add", w.compute("multiply", self.near, self.side + 1), self.far)
            for k, slot in enumerate(slots):
                for lane, values in enumerate(slot.values):
                    where = w.compute("add", index, lane * (self.side + 1) + k * self.apart)
                    values[load.results[0]] = w.builder.load(held, where)
        rest = [o for o in self.crossing.operations if o not in self.crossing.loads]
        writer.copy(rest, slots, self.crossing.columns)

    def _slots(
        self, writer: LaneWriter, along: Value, across: Value, first: Value, start: Value, length: Value, count: Value
    ) -> list[Slot]:
        """Return this thread's share of a tile, as a list of vectors (slots). Each vector extends along the axis of the loop index `along`.

        The tile starts at `first` along this axis, and at `start` along the other axis, whose loop index is `across`.
        """
        w = self.w
        begin, slots = w.compute("add", first, self.near), []
        for k in range(self.side // self.apart):
            position = w.compute("add", start, w.compute("add", self.far, k * self.apart))
            if self.whole:
                slot = writer.slot(begin)
            else:
                inside = w.test("less", position, count)
                position = w.compute("minimum", position, w.compute("subtract", count, 1))
                last = w.compute("subtract", length, self.lanes)
                valid = w.both(inside, w.test("less", begin, length))
                slot = writer.slot(w.compute("minimum", begin, last), [valid] * self.lanes)
            writer.begin([slot], along)
            for values in slot.values:
                values[across] = position
            slots.append(slot)
        return slots


def _needed(operations: list[Operation], load: Operation) -> list[Operation]:
    """Return a load and the operations that compute its index."""
    wanted = set(load.results)
    found = []
    for o in reversed(operations):
        if any(v in wanted for v in o.results):
            wanted.update(o.operands)
            found.append(o)
    return found[::-1]
