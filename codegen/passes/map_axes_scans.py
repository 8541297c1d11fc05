"""Running folds along rows: a block goes over a row tile by tile, and hands on what it has so far.

In: a logical kernel whose items are one scan, and its ``scan`` attribute (`describe_scan`). Out: the threaded kernel. Within
a tile a thread folds its own neighbours, lanes of a warp fold what those before them have, by shuffles over 1, 2, 4, 8 and 16 lanes,
and warps what the warps before them have. Always true: the tree follows from the length of the row and the dtypes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.ops import accumulators
from weft.codegen.passes.fold_identities import fold_identities
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_pointers
from weft.codegen.passes.map_axes_lanes import LaneWriter, Slot
from weft.codegen.passes.map_axes_nest import Nest, has_loops
from weft.codegen.passes.map_axes_writer import ThreadWriter

THREADS = 256
WARP = 32
WARPS = THREADS // WARP
LANES = 4
# Elements of a row below which one thread has it, in order.
LEAST_LENGTH = 128
FOLDS = frozenset(
    {"add", "multiply", "minimum", "maximum", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor"}
)
ALL_LANES = 0xFFFFFFFF
# A tile behind the last one still has an index; and a grid has so many blocks.
MOST_LENGTH = 2**31 - 2**16
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan of an item: its loop, the fold in it, and what is folded in."""

    head: list[Operation]
    loop: Operation
    fold: Operation
    value: Value

    @property
    def index(self) -> Value:
        """The loop's index."""
        return self.loop.regions[0].parameters[0]


def find_scan(nest: Nest) -> Scan | None:
    """The item as one scan; None where it is anything else."""
    *head, loop = [o for o in nest.item if o.opcode != "yield"] or [Operation("yield")]
    if loop.opcode != "for" or loop.attributes["role"] != "scan" or len(loop.results) != 1:
        return None
    body = loop.regions[0].operations
    carried = loop.regions[0].parameters[1]
    users = [o for o in body if carried in o.operands]
    if has_loops(head) or has_loops(body) or any(has_control_flow(o) for o in body) or len(users) != 1:
        return None
    (fold,) = users
    if fold.opcode not in FOLDS or fold.operands.count(carried) != 1 or body[-1].operands != fold.results:
        return None
    if any(o.opcode in ("store", "atomic") for o in head) or any(o.opcode == "atomic" for o in body):
        return None
    (value,) = (v for v in fold.operands if v is not carried)
    # what is folded in is known before the fold
    known = {v for o in body[: body.index(fold)] for v in o.results}
    inside = {v for o in body for v in o.results}
    return Scan(head, loop, fold, value) if value in known or value not in inside else None


def describe_scan(kernel: Kernel, nest: Nest, sizes: Mapping[str, int]) -> dict[str, Any]:
    """``scan``, ``whole`` and ``vectors`` for these sizes; none where another schedule does better."""
    scan = find_scan(nest)
    if scan is None or scan.loop.operands[1].name not in sizes:
        return {}
    length = sizes[scan.loop.operands[1].name]
    rows = prod(sizes[level.extent.name] for level in nest.levels)
    if not LEAST_LENGTH <= length <= MOST_LENGTH or rows > MOST_BLOCKS or accumulators(scan.fold.opcode) != 1:
        return {}
    if length % LANES:
        return {"scan": True}
    walks = [(list(scan.loop.regions[0].operations), scan.index)]
    return {"scan": True, "whole": True, "vectors": aligned_pointers(kernel, walks, sizes, LANES)}


def map_scan(kernel: Kernel, nest: Nest) -> Kernel:
    """The threaded form of a kernel with a ``scan`` attribute."""
    scan = find_scan(nest)
    assert scan is not None
    w = ThreadWriter(kernel, nest, THREADS)
    w.bind(nest.levels, w.block)
    writer = LaneWriter(w, LANES, kernel.attributes.get("vectors", ()))
    for o in (*(o for level in nest.levels[1:] for o in level.before), *scan.head):
        writer.point(o)
    held = w.shared_array(scan.loop.results[0].type, WARPS)  # type: ignore[arg-type]
    start, stop, before = (w.map[v] for v in scan.loop.operands)
    warp, lane = w.split(w.thread, WARP)
    with (
        writer.inside(),
        w.builder.loop(
            stop, "serial", start=start, initial=[before], step_by=w.number(THREADS * LANES), rolled=True
        ) as opened,
    ):
        slot = _slot(w, writer, opened.index, stop)
        writer.begin([slot], scan.index)
        body = [o for o in scan.loop.regions[0].operations if o is not scan.fold and o.opcode != "yield"]
        first = scan.loop.regions[0].operations.index(scan.fold)
        writer.copy([o for o in body[:first] if o.opcode != "store"], [slot], scan.index)
        after = _Tile(w, scan, held, warp, lane).write(writer, slot, opened.carried[0])
        writer.copy(body, [slot], scan.index)
        w.barrier()
        opened.yield_(after)
    return w.finish("scans", 1, every=True)


def _slot(w: ThreadWriter, writer: LaneWriter, base: Value, stop: Value) -> Slot:
    """This thread's neighbours in the tile that begins at `base`."""
    left = w.compute("subtract", stop, base)
    own = w.compute("multiply", w.thread, LANES)
    if w.builder.kernel.attributes.get("whole"):
        at = w.compute("minimum", own, w.compute("subtract", left, LANES))
        return writer.slot(w.compute("add", base, at), [w.test("less", own, left)] * LANES)
    offsets = [w.compute("add", own, k) if k else own for k in range(LANES)]
    last = w.compute("subtract", left, 1)
    indices = [w.compute("add", base, w.compute("minimum", offset, last)) for offset in offsets]
    return Slot(indices, [w.test("less", offset, left) for offset in offsets])


class _Tile:
    """Writes the folds of one tile."""

    def __init__(self, w: ThreadWriter, scan: Scan, held: Value, warp: Value, lane: Value) -> None:
        self.w = w
        self.scan = scan
        self.held = held
        self.warp = warp
        self.lane = lane
        self.type = scan.loop.results[0].type
        (identity,) = fold_identities((scan.fold.opcode,), (self.type,))
        self.identity = w.number(identity, self.type)

    def fold(self, x: Value, y: Value) -> Value:
        """Two neighbours as one."""
        return self.w.builder.op(self.scan.fold.opcode, x, y, dtype=self.type)

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        """One of two values."""
        return self.w.builder.op("where", condition, yes, no)

    def above(self, value: Value, distance: int) -> Value:
        """The value of a lane so far before."""
        w = self.w
        operands = (w.number(ALL_LANES, np.uint32), value, w.number(distance, np.int32))
        return w.builder.emit("shuffle", operands, (value.type,), mode="up")[0]

    def write(self, writer: LaneWriter, slot: Slot, before: Value) -> Value:
        """Give each lane its running fold, `before` being that of everything before the tile; that behind the tile."""
        w = self.w
        prefixes: list[Value] = []
        for lane, valid in enumerate(slot.valid):
            value = writer.value(slot, lane, self.scan.value)
            assert valid is not None
            value = self.choose(valid, value, self.identity)
            prefixes.append(self.fold(prefixes[-1], value) if prefixes else value)
        mine = prefixes[-1]
        distance = 1
        while distance < WARP:
            inside = w.test("greater_equal", self.lane, distance)
            mine = self.choose(inside, self.fold(self.above(mine, distance), mine), mine)
            distance *= 2
        with w.when(w.test("equal", self.lane, WARP - 1)):
            w.builder.store(self.held, self.warp, mine)
        w.barrier()
        start = before
        for k in range(WARPS):
            whole = w.builder.load(self.held, w.number(k))
            before = self.fold(before, whole)
            start = self.choose(w.test("greater", self.warp, k), before, start)
        inner = self.fold(start, self.above(mine, 1))
        start = self.choose(w.test("equal", self.lane, 0), start, inner)
        for values, prefix in zip(slot.values, prefixes, strict=True):
            values[self.scan.fold.results[0]] = self.fold(start, prefix)
        return before
