"""The GPU schedule of pointwise kernels over several loops.

Examples are broadcasts, slices and stencils. In: a logical kernel without loops in its items, and a `RowPlanes`. Out:
the threaded kernel. Adjacent threads process adjacent elements along the innermost loop, or adjacent vectors if these
are aligned. In kernels with two loops, a thread computes several rows, so that data shared by adjacent rows is read
once. A block computes the position of its tile by one division. In kernels with two loops, no other index is divided.

The last tiles are shifted back to end at the last row and column. All reads of a thread are therefore valid and at
constant distances. An element that two tiles contain is stored twice only if both compute the same value. For arbitrary
sizes there is code for vectors (given by ``multiples``, with enough rows for a tile) and for single elements, and each
launch selects one. The code for single elements does not shift tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from weft.codegen.kernel_ir.operation import Kernel, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.elements import along_row, pays
from weft.codegen.schedules.lanes import LaneWriter, Slot, lanes_of
from weft.codegen.schedules.nest import Nest, has_regions, pressure
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Minimum number of vectors per row if an operand is contiguous along columns. Shorter rows are better processed side by
# side.
LONG = 48
# Maximum number of rows of a thread.
ROWS = 4


@dataclass(frozen=True, slots=True)
class RowPlanes(Decision):
    """The parameters of this schedule: threads along a row, elements per vector, and rows per thread.

    If the number of threads is 0, the launch determines the number.
    """

    along: int
    lanes: int
    deep: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> RowPlanes | None:
    """Return the parameters of this schedule for a pointwise kernel, or None if another schedule is better."""
    if len(nest.levels) < 2 or has_regions(nest.item) or any(has_control_flow(o) for o in nest.operations):
        return None
    operations = nest.operations
    index = nest.levels[-1].index
    length = sizes[nest.levels[-1].extent.name]
    rows = prod(sizes[level.extent.name] for level in nest.levels[:-1])
    lanes = lanes_of(operations, index)
    if not exact and along_row(nest) != GPU.block:
        return None  # (short columns of other operands are better processed side by side)
    if exact and not rows * length:
        return None
    loop_bodies, extent = [(operations, index)], nest.levels[-1].extent
    vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, lanes, extent, exact=exact, strided=True)
    while lanes > 1 and not pays(operations, index, vectors):
        lanes = lanes // 2 if exact else 1
        vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, lanes, extent, exact=exact, strided=True)
    if not exact:
        return RowPlanes(0, lanes, _rows_a_thread(nest, lanes), vectors=vectors, multiples=multiples)
    count = length // lanes
    # possible numbers of threads that share a row
    counts = [1 << k for k in range(GPU.block.bit_length()) if 1 << k <= count]
    counts = [along for along in counts if along >= min(GPU.warp, counts[-1])]
    along = min(counts, key=lambda along: ((count + along - 1) // along * along, -along))
    deep = _rows_a_thread(nest, lanes)
    while deep > 1 and rows < GPU.block // along * deep:
        deep //= 2
    if rows < GPU.block // along or (along_row(nest) != GPU.block and count < LONG):
        return None
    return RowPlanes(along, lanes, deep, vectors=vectors)


def _rows_a_thread(nest: Nest, lanes: int) -> int:
    deep = ROWS if len(nest.levels) == 2 else 1
    while deep > 1 and deep * lanes * pressure(nest.operations) > 2 * GPU.registers:
        deep //= 2
    return deep


def write(kernel: Kernel, nest: Nest, decision: RowPlanes, target: Target) -> Kernel:
    """Lower a pointwise kernel over several loops to a threaded kernel."""
    along, lanes, deep = decision.along, decision.lanes, decision.deep
    vectors, multiples = decision.vectors, decision.multiples
    w = ThreadWriter(kernel, nest, GPU.block)
    *rows, length = (w.exact.get(level.extent.name, 0) for level in nest.levels)
    if along:
        plane = _Plane(w, lanes, deep, vectors, along, prod(rows), length)
        across = -(-length // (along * lanes))
        tiles = -(-prod(rows) // (GPU.block // along * deep)) * across
        # (there may be more blocks than tiles)
        with w.when(None if all(plane.fills) else w.test("less", w.block, tiles)):
            plane.tile(w.block, across)
        return w.finish("planes", prod(rows) * length // tiles, every=True)
    single = _Plane(w, 1, _rows_a_thread(nest, 1), (), moved=False)
    if vectors:
        plane = _Plane(w, lanes, deep, vectors)
        fits_in = w.test("less_equal", plane.tall, plane.rows)
        aligned = w.are_multiples(multiples, lanes) or fits_in
        w.choose_version(w.both(fits_in, aligned), plane.tiles, single.tiles)
    else:
        single.tiles()
    return w.finish("planes", GPU.block * lanes * deep)


class _Plane:
    """Writer of the two-dimensional tiles of a pointwise kernel.

    A thread computes vectors of `lanes` elements in `deep` rows. The pointers in `vectors` allow vector accesses.
    `along` threads lie along a row (0: as many as fit). `rows` and `length` are the number and the length of the rows,
    if known. With `moved`, the last tiles are shifted back to end with the array. Otherwise, threads beyond the end of
    the array compute the last element.
    """

    def __init__(
        self,
        w: ThreadWriter,
        lanes: int,
        deep: int,
        vectors: Sequence[str],
        along: int = 0,
        rows: int = 0,
        length: int = 0,
        *,
        moved: bool = True,
    ) -> None:
        self.w, self.lanes, self.deep, self.vectors, self.moved = w, lanes, deep, vectors, moved
        extents = w.extents()
        self.rows, self.length = w.product(extents[:-1]), extents[-1]
        steady = {p.value for p in w.builder.kernel.parameters if p.noalias and not p.writable}
        reads = [o for o in program_order(w.nest.operations) if o.opcode in ("load", "atomic")]
        # (so that repeated computations give the same results)
        self.repeats = all(o.operands[0] in steady for o in reads)
        if along:
            shift = w.number(along.bit_length() - 1)
            self.fills = not length % (along * lanes), not rows % (GPU.block // along * deep)
        else:
            most = w.compute("minimum", w.compute("right_shift", self.length, lanes.bit_length() - 1), GPU.block)
            bits = 8 * w.builder.kernel.index_dtype.itemsize - 1  # type: ignore[union-attr]
            shift = w.compute("subtract", bits, w.builder.op("clz", w.compute("maximum", most, 1)))
            self.fills = False, False
        self.shift = shift
        # logarithms of the numbers of elements per row and of rows in a tile
        self.wide = w.compute("add", shift, lanes.bit_length() - 1)
        self.high = w.compute("subtract", (GPU.block * deep).bit_length() - 1, shift)
        self.tall = w.compute("left_shift", 1, self.high)

    def tiles(self) -> None:
        w = self.w
        across = self._parts(self.length, self.wide)
        count = w.compute("multiply", across, self._parts(self.rows, self.high))
        with w.builder.loop(count, "serial", start=w.block, step_by=w.grid, rolled=True) as opened:
            self.tile(opened.index, across)

    def _parts(self, extent: Value, shift: Value) -> Value:
        """Return the number of parts of length 2**shift that cover `extent`."""
        w = self.w
        return w.compute("add", w.compute("right_shift", w.compute("subtract", extent, 1), shift), 1)

    def tile(self, number: Value, across: Value | int) -> None:
        """Emit the code for this thread's part of tile `number`. Each row of tiles has `across` tiles."""
        w, nest = self.w, self.w.nest
        vertical, horizontal = w.split(number, across)
        right = w.compute("bitwise_and", w.thread, w.compute("subtract", w.compute("left_shift", 1, self.shift), 1))
        ((start, inside),) = self._positions(
            w.compute("left_shift", horizontal, self.wide),
            w.compute("multiply", right, self.lanes),
            [w.number(0)],
            (w.compute("left_shift", 1, self.wide), self.length, self.lanes, self.fills[0]),
        )
        apart = w.compute("right_shift", GPU.block, self.shift)
        rows = self._positions(
            w.compute("left_shift", vertical, self.high),
            w.compute("right_shift", w.thread, self.shift),
            [w.compute("multiply", apart, k) for k in range(self.deep)],
            (self.tall, self.rows, 1, self.fills[1]),
        )
        writer = LaneWriter(w, self.lanes, self.vectors, strided=True)
        slots: list[Slot] = []
        for row, there in rows:
            tests = [each for each in (inside, there) if each is not None]
            valid = w.both(*tests) if len(tests) == 2 else tests[0] if tests else None
            slot = writer.slot(start, [valid] * self.lanes)
            writer.begin([slot], nest.levels[-1].index)
            w.bind(nest.levels[:-1], row)
            for values in slot.values:
                values.update((outer.index, w.map[outer.index]) for outer in nest.levels[:-1])
            slots.append(slot)
        writer.copy(nest.operations, slots, nest.levels[-1].index)

    def _positions(
        self, begin: Value, offset: Value, further: Sequence[Value], bounds: tuple[Value, Value, int, bool]
    ) -> list[tuple[Value, Value | None]]:
        """For each element that a thread computes, return its index along an axis, and a condition: whether this tile stores the element.

        The distances from the start of the tile are ``offset + k`` for each k in `further`. `begin` is the start.
        `bounds` are the size of a tile, the size of the array, the number of elements that a thread computes at once,
        and whether tiles divide the array evenly.
        """
        w = self.w
        size, extent, least, fills = bounds
        moved = w.compute("minimum", begin, w.compute("subtract", extent, size)) if self.moved and not fills else begin
        first = w.compute("add", moved, offset)
        positions = [w.compute("add", first, more) for more in further]
        if fills:
            return [(position, None) for position in positions]
        if self.moved:
            return [
                (position, None if self.repeats else w.test("less_equal", begin, position)) for position in positions
            ]
        last = w.compute("subtract", extent, least)
        return [(w.compute("minimum", position, last), w.test("less", position, extent)) for position in positions]
