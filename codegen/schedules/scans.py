"""The GPU schedule of scans along rows.

A block scans a row tile by tile, and carries the running value from tile to tile.

In: a logical kernel whose items are scans along one loop, and a `RowScan`. Out: the threaded kernel. Within a tile a
thread scans its own adjacent elements. The lanes of a warp add the totals of previous lanes by shuffles over 1, 2, 4, 8
and 16 lanes. The warps then add the totals of previous warps. Invariant: the tree depends only on the length of the row
and the dtypes. Several blocks share a row that is longer than a tile of `lookback.py`, unless there are too many rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.ops.op_table import accumulators
from weft.codegen.passes.choose_lanes import chooses
from weft.codegen.passes.index_steps import index_steps
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.passes.reduction_identities import reduction_identities
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lanes import LaneWriter, Slot
from weft.codegen.schedules.nest import Nest, has_regions, prefers_columns
from weft.codegen.schedules.reductions import reduce_warp
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target
from weft.runtime import RowLimits

LANES = 4
# Row length below which one thread scans the row, in order.
LEAST_LENGTH = 128
REDUCTIONS = frozenset(
    {"add", "multiply", "minimum", "maximum", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor"}
)
ALL_LANES = 0xFFFFFFFF
# Maximum row length, so that a tile beyond the last one has a valid index; and maximum number of blocks of a grid.
MOST_LENGTH = 2**31 - 2**16
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ScanOp:
    """A scan: its operation, and the value to scan."""

    operation: Operation
    value: Value

    @property
    def type(self) -> np.dtype:
        """The dtype of the scan's running value."""
        return self.operation.results[0].dtype


@dataclass(frozen=True, slots=True)
class Scan:
    """One or more scans, such as cumulative sums, that are computed in the same loop.

    `prologue` consists of the operations before the loop. `before` and `after` are the other operations in the loop:
    those that do not depend on the scans, except stores, and the rest.
    """

    prologue: list[Operation]
    loop: Operation
    ops: list[ScanOp]
    before: list[Operation]
    after: list[Operation]

    @property
    def index(self) -> Value:
        """The index of the loop."""
        return self.loop.regions[0].parameters[0]


def find_scan(nest: Nest) -> Scan | None:
    """Return the scans of a kernel that share one loop, or None if the kernel has another structure."""
    *prologue, loop = nest.item or (Operation("yield"),)
    if loop.opcode != "for" or loop.attributes["role"] != "scan" or not loop.results:
        return None
    *body, end = loop.regions[0].operations
    if has_regions(prologue) or any((o.regions or has_control_flow(o)) and not chooses(o) for o in body):
        return None
    if any(o.opcode in ("store", "atomic") for o in prologue) or any(o.opcode == "atomic" for o in body):
        return None
    stores = [k for k, o in enumerate(body) if o.opcode == "store"]
    if stores and any(o.opcode == "load" for o in body[stores[0] :]):
        return None
    ops = []
    for carried, following in zip(loop.regions[0].parameters[1:], end.operands, strict=True):
        users = [o for o in body if carried in operands_of(o)]
        if len(users) != 1 or users[0].opcode not in REDUCTIONS or users[0].results != (following,):
            return None
        others = [v for v in users[0].operands if v is not carried]
        if len(others) != 1 or accumulators(users[0].opcode) != 1:
            return None
        ops.append(ScanOp(users[0], others[0]))
    own = [f.operation for f in ops]
    known: set[Value] = set()  # values that depend on a scan
    before: list[Operation] = []
    after: list[Operation] = []
    for o in body:
        if o in own or any(v in known for v in operands_of(o)):
            known.update(o.results)
        if o not in own:
            (after if o.opcode == "store" or any(v in known for v in o.results) else before).append(o)
    return None if any(f.value in known for f in ops) else Scan(prologue, loop, ops, before, after)


def operands_of(operation: Operation) -> list[Value]:
    """Return the operands of an operation, including those of the operations in its regions."""
    return [v for o in program_order([operation]) for v in o.operands]


def fills_with_columns(nest: Nest, scan: Scan, rows: int) -> bool:
    """Return whether there are enough scans along adjacent columns to occupy a GPU."""
    return rows >= GPU.threads and prefers_columns(nest, [scan.loop])


@dataclass(frozen=True, slots=True)
class RowScan(Decision):
    """The parameters of the GPU schedule for row scans. A block scans each row of at least `least` elements. One thread scans a shorter row."""

    least: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> RowScan | None:
    """Return the parameters of this schedule for scans, or None if another schedule is better."""
    scan = find_scan(nest)
    if scan is None or scan.loop.operands[1].name not in sizes:
        return None
    length = sizes[scan.loop.operands[1].name]
    rows = nest.points(sizes)
    if length > MOST_LENGTH or rows > MOST_BLOCKS or fills_with_columns(nest, scan, rows):
        return None
    if exact and length < LEAST_LENGTH:
        return None
    loop_bodies = [(list(scan.loop.regions[0].operations), scan.index)]
    vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, LANES, scan.loop.operands[1], exact=exact)
    whole = exact and length % LANES == 0
    return RowScan(1 if exact else LEAST_LENGTH, vectors=vectors, multiples=multiples, whole=whole)


def write(kernel: Kernel, nest: Nest, decision: RowScan, target: Target) -> Kernel:
    """Lower scans along rows to a kernel for GPU threads."""
    scan = find_scan(nest)
    assert scan is not None
    w = ThreadWriter(kernel, nest, GPU.block)
    least, vectors = decision.least, decision.vectors
    whole = decision.whole or bool(decision.multiples)

    def shared() -> None:
        w.choose_version(
            w.are_multiples(decision.multiples, LANES),
            lambda: _write_row(w, scan, vectors if whole else (), whole=whole),
            lambda: _write_row(w, scan, (), whole=False),
        )

    if least == 1:
        shared()
        return w.finish("scans", 1, every=True)
    start, stop = scan.loop.operands[:2]
    length = w.compute("subtract", w.map[stop], w.map.get(start) or w.number(0))
    w.choose_version(w.test("less", length, least), lambda: _write_rows(w), shared)
    # (a block scans one row, or each of its threads scans one row)
    return w.finish("scans", 1, every=True, row_limits=RowLimits(least, least))


def _write_rows(w: ThreadWriter) -> None:
    """Emit the scans of rows, with one thread per row."""
    item = w.compute("add", w.compute("multiply", w.block, GPU.block), w.thread)
    with w.when(w.test("less", item, w.product(w.extents()))):
        w.bind(w.nest.levels, item)
        w.enter(w.nest.levels[1:])
        w.copy(w.nest.item)


def _write_row(w: ThreadWriter, scan: Scan, vectors: Sequence[str], *, whole: bool) -> None:
    """Emit a scan of a row: a block processes one tile after another. If `whole` is true, the code assumes that no vector extends past the row."""
    nest = w.nest
    w.bind(nest.levels, w.block)
    writer = LaneWriter(w, LANES, vectors)
    for o in (*nest.inward, *scan.prologue):
        writer.point(o)
    start, stop, *before = (w.map[v] for v in scan.loop.operands)
    warp, lane = w.split(w.thread, GPU.warp)
    scanners = [TileScanner(w, op, warp, lane) for op in scan.ops]
    # operations after the scan may write memory that operations before it read
    steps = index_steps([*scan.before, *scan.after], scan.index)
    with (
        writer.scope(),
        w.builder.loop(
            stop, "serial", start=start, initial=before, step_by=w.number(GPU.block * LANES), rolled=True
        ) as opened,
    ):
        own, left = w.compute("multiply", w.thread, LANES), w.compute("subtract", stop, opened.index)
        slot = writer.slot_within(opened.index, own, left, whole=whole)
        writer.begin([slot], scan.index)
        writer.copy(scan.before, [slot], scan.index)
        for scanner in scanners:
            scanner.scan_warps([scanner.values(writer, slot)])
        w.barrier()
        after = []
        for scanner, carried in zip(scanners, opened.carried, strict=True):
            first, total = scanner.warp_totals()
            scanner.finish([slot], scanner.combine(carried, first))
            after.append(scanner.combine(carried, total))
        writer.copy(scan.after, [slot], scan.index, steps)
        w.barrier()
        opened.yield_(*after)


class TileScanner:
    """Writer of a scan over a tile: first within each warp and, after a barrier, across warps.

    `warp` and `lane` are those of this thread.
    """

    def __init__(self, w: ThreadWriter, op: ScanOp, warp: Value, lane: Value) -> None:
        self.w = w
        self.of = op
        self.warp = warp
        self.lane = lane
        self.held = w.shared_array(op.type, GPU.warps)
        (identity,) = reduction_identities((op.operation.opcode,), (op.type,))
        self.identity = w.number(identity, op.type)
        # pairs: the prefix of the warp before the slot, and the prefixes within the slot
        self.slots: list[tuple[Value, list[Value]]] = []

    def combine(self, x: Value, y: Value) -> Value:
        """Emit the scan's operation on two adjacent values."""
        return self.w.builder.op(self.of.operation.opcode, x, y, dtype=self.of.type)

    def from_lane(self, value: Value, lane: int, mode: str = "idx") -> Value:
        """Emit a shuffle, and return the value of another lane.

        Mode "idx" reads lane number `lane`. Mode "up" reads the lane that is `lane` below this thread's lane.
        """
        w = self.w
        operands = (w.number(ALL_LANES, np.uint32), value, w.number(lane, np.int32))
        return w.builder.emit("shuffle", operands, (value.type,), mode=mode)[0]

    def values(self, writer: LaneWriter, slot: Slot) -> list[Value]:
        """Return the input of the scan for each element of a vector. Elements beyond the row get the operation's identity."""
        found = []
        for lane, valid in enumerate(slot.valid):
            value = writer.value(slot, lane, self.of.value)
            found.append(value if valid is None else self.w.choose(valid, value, self.identity))
        return found

    def scan_warps(self, slots: Sequence[Sequence[Value]]) -> None:
        """Emit the scan within each warp, and a store of the warp's total in shared memory."""
        w = self.w
        self.slots.clear()
        carried: Value | None = None
        for values in slots:
            prefixes = [values[0]]
            for value in values[1:]:
                prefixes.append(self.combine(prefixes[-1], value))
            mine = prefixes[-1]
            distance = 1
            while distance < GPU.warp:
                inside = w.test("greater_equal", self.lane, distance)
                mine = self.w.choose(inside, self.combine(self.from_lane(mine, distance, "up"), mine), mine)
                distance *= 2
            first = w.test("equal", self.lane, 0)
            start = self.w.choose(first, self.identity, self.from_lane(mine, 1, "up"))
            self.slots.append((start if carried is None else self.combine(carried, start), prefixes))
            if len(self.slots) < len(slots):
                mine = self.from_lane(mine, GPU.warp - 1)
            carried = mine if carried is None else self.combine(carried, mine)
        assert carried is not None
        with w.when(w.test("equal", self.lane, GPU.warp - 1)):
            w.builder.store(self.held, self.warp, carried)

    def warp_totals(self) -> tuple[Value, Value]:
        """Return the total of all previous warps, and the total of all warps.

        The code is valid only after a barrier that follows `scan_warps`.
        """
        w = self.w
        start, whole = self.identity, w.builder.load(self.held, w.number(0))
        for k in range(1, GPU.warps):
            start = self.w.choose(w.test("greater_equal", self.warp, k), whole, start)
            whole = self.combine(whole, w.builder.load(self.held, w.number(k)))
        return start, whole

    def reduce_lanes(self, value: Value) -> Value:
        """Emit a reduction over the lanes of a warp by butterfly shuffles, which gives all lanes the result."""
        return reduce_warp(self.w, (self.of.operation.opcode,), (value,), GPU.warp // 2)[0]

    def finish(self, slots: Sequence[Slot], before: Value) -> None:
        """Emit code that computes the result of each element. `before` is the total of all elements that precede the warp's elements."""
        for slot, (start, prefixes) in zip(slots, self.slots, strict=True):
            start = self.combine(before, start)
            for values, prefix in zip(slot.values, prefixes, strict=True):
                values[self.of.operation.results[0]] = self.combine(start, prefix)
