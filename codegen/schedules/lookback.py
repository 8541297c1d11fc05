"""The GPU schedule of scans along long rows, with decoupled look-back.

Each block scans a tile and reads the totals of previous blocks.

In: a logical kernel of scans (`find_scan`) from `share_rows`, with the ``descriptors`` parameter (the look-back
descriptors). Out: the threaded kernel, one launch that reads and writes each element once.

The descriptors are 64-bit words. The first word is a counter. A starting block takes the next number, which is the
number of its tile. The blocks that it waits for are therefore running or done, regardless of the number of resident
blocks. The other words hold a tag (the high half) and 32 bits of a value, written and read by a single access. No word
depends on another word, and none needs a fence. The tag identifies the launch. The tag comes from the high half of the
counter, where the last block counts launches. The descriptors therefore need no reset.

Invariant: the prefix of a tile is combined in one order, independent of timing: the totals of complete groups of 32 x
32 tiles, then of the preceding groups of 32 tiles, then of the preceding tiles of the same group. The longest chain of
waiting blocks thus has one link per 1024 tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Parameter, Pointer, Value
from weft.codegen.machines import GPU
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lanes import LaneWriter, Slot
from weft.codegen.schedules.nest import Nest, find_nest
from weft.codegen.schedules.scans import (
    LANES,
    MOST_BLOCKS,
    MOST_LENGTH,
    Scan,
    ScanOp,
    TileScanner,
    fills_with_columns,
    find_scan,
    operands_of,
)
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

DESCRIPTORS = "descriptors"
SLOTS = 4
TILE = GPU.block * SLOTS * LANES
# Index of the first word after the counter, which does not share its 128 bytes with other words.
FIRST_NOTE = 16
_WORD = np.dtype(np.uint64)
_HALF = np.dtype(np.uint32)


@dataclass(frozen=True, slots=True)
class Shared:
    """A scan kernel in which several blocks share a row, with the sizes for its launch.

    `blocks` is the number of blocks of the launch, and `nbytes` is the size of the look-back descriptors in bytes.
    """

    kernel: Kernel
    blocks: int
    nbytes: int


def share_rows(kernel: Kernel, sizes: Mapping[str, int]) -> Shared | None:
    """Return a scan kernel in which several blocks share each row and exchange partial results (decoupled look-back).

    Return None if there are no scans along rows longer than a tile, or if another schedule is better. `sizes` maps the
    names of the kernel's index parameters to their values.
    """
    nest = find_nest(inline_rows(kernel, straight=True))
    scan = find_scan(nest)
    if scan is None or sizes.get(scan.loop.operands[1].name, 0) <= TILE:
        return None
    length = sizes[scan.loop.operands[1].name]
    rows = nest.points(sizes)
    tiles = -(-length // TILE)
    if length > MOST_LENGTH or not 0 < rows * tiles <= MOST_BLOCKS or fills_with_columns(nest, scan, rows):
        return None
    notes = sum(map(_words_of_value, scan.ops)) * rows * _descriptors_of_row(tiles)
    parameter = Parameter(Value(DESCRIPTORS, Pointer(_WORD)), writable=True, noalias=True, align=_WORD.itemsize)
    attributes = {**kernel.attributes, "schedule": LookbackScan()}
    shared = replace(kernel, parameters=[*kernel.parameters, parameter], attributes=attributes)
    return Shared(shared, rows * tiles, (FIRST_NOTE + notes) * _WORD.itemsize)


def _words_of_value(op: ScanOp) -> int:
    """Return the number of 64-bit words in which look-back descriptors store a scan's value."""
    return -(-op.type.itemsize // _HALF.itemsize)


def _descriptors_of_row(tiles: int) -> int:
    """Return the number of look-back values for a row: one for each tile, one for each 32 tiles, and one for each 32 x 32 tiles."""
    groups = -(-tiles // GPU.warp)
    return tiles + groups + -(-groups // GPU.warp)


@dataclass(frozen=True, slots=True)
class LookbackScan(Decision):
    """The parameters of the GPU schedule in which several blocks scan a row together.

    Only the inherited parameters `vectors` and `multiples` are used.
    """

    keeps_alignment: ClassVar[bool] = True


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> LookbackScan | None:
    """Return the parameters of this schedule for a scan with look-back descriptors, or None for other kernels."""
    if not isinstance(kernel.attributes.get("schedule"), LookbackScan):
        return None
    scan = find_scan(nest)
    assert scan is not None
    loop_bodies = [(list(scan.loop.regions[0].operations), scan.index)]
    vectors, multiples = aligned_vectors(kernel, loop_bodies, sizes, LANES, exact=exact)
    return LookbackScan(vectors=vectors, multiples=multiples)


def write(kernel: Kernel, nest: Nest, decision: LookbackScan, target: Target) -> Kernel:
    """Lower a scan with look-back descriptors to a threaded kernel."""
    scan = find_scan(nest)
    assert scan is not None
    w = ThreadWriter(kernel, nest, GPU.block)
    descriptors = next(p.value for p in kernel.parameters if p.value.name == DESCRIPTORS)
    number, tag = _take_block_number(w, descriptors)
    start, stop, *initial = scan.loop.operands
    tiles = w.parts(w.compute("subtract", w.map[stop], w.map[start]), TILE)
    row, tile = w.split(number, tiles) if nest.levels else (w.number(0), number)
    w.bind(nest.levels, row)
    writer = LaneWriter(w, LANES, decision.vectors)
    for o in (*nest.inward, *scan.prologue):
        writer.point(o)
    warp, lane = w.split(w.thread, GPU.warp)
    elements = _TileWriter(writer, scan, tile, (warp, lane), decision.multiples)
    scanners = [TileScanner(w, op, warp, lane) for op in scan.ops]
    for scanner, values in zip(scanners, elements.read(scanners), strict=True):
        scanner.scan_warps(values)
    w.barrier()
    found = [scanner.warp_totals() for scanner in scanners]
    held = [w.shared_array(op.type, 1) for op in scan.ops]
    notes = [_Descriptors(w, descriptors, tag, scan, op) for op in scan.ops]
    with w.when(w.test("less", w.thread, GPU.warp)):
        position = _TilePosition(w, row, tile, tiles, lane)
        for k, scanner in enumerate(scanners):
            before = _look_back(notes[k], scanner, position, found[k][1], w.map[initial[k]])
            with w.when(position.first):
                w.builder.store(held[k], w.number(0), before)
    w.barrier()
    for k, scanner in enumerate(scanners):
        before = scanner.combine(w.builder.load(held[k], w.number(0)), found[k][0])
        scanner.finish([Slot([], [], lanes) for lanes in elements.values], before)
    elements.write()
    return w.finish("lookback", 1, every=True)


def _take_block_number(w: ThreadWriter, descriptors: Value) -> tuple[Value, Value]:
    """Return this block's number in the order in which blocks start, and the tag of the launch."""
    b = w.builder
    held = w.shared_array(_WORD, 1)
    low = w.number(2**32 - 1, _WORD)
    with w.when(w.test("equal", w.thread, 0)):
        (old,) = b.emit("atomic", (descriptors, w.number(0), w.number(1, _WORD)), (_WORD,), kind="add")
        blocks = b.cast(w.grid, _WORD)
        after = b.op("add", b.op("bitwise_and", old, low), w.number(1, _WORD))
        with w.when(b.op("equal", after, blocks)):
            # all numbers are taken: the next launch has a new tag, and its numbers begin at 0
            rest = b.op("subtract", w.number(2**32, _WORD), blocks)
            b.emit("atomic", (descriptors, w.number(0), rest), (_WORD,), kind="add")
        b.store(held, w.number(0), old)
    w.barrier()
    old = b.load(held, w.number(0))
    number = b.cast(b.op("bitwise_and", old, low), b.kernel.index_dtype)
    return number, b.op("add", b.op("bitwise_or", old, low), w.number(1, _WORD))


class _TileWriter:
    """Writer of code that loads and stores a tile (a section of a row). The code accesses whole vectors if possible, otherwise single elements."""

    def __init__(
        self, writer: LaneWriter, scan: Scan, tile: Value, thread: tuple[Value, Value], multiples: Sequence[str]
    ) -> None:
        self.w = w = writer.w
        self.writer = writer
        self.scan = scan
        start, self.stop = (w.map[v] for v in scan.loop.operands[:2])
        warp, lane = thread
        begin = w.compute("add", start, w.compute("multiply", tile, TILE))
        self.whole = w.test("less_equal", begin, w.compute("subtract", self.stop, TILE))
        if (aligned := w.are_multiples(multiples, LANES)) is not None:
            self.whole = w.both(self.whole, aligned)
        own = w.compute("multiply", warp, SLOTS * LANES * GPU.warp)
        self.first = w.compute("add", w.compute("add", begin, own), w.compute("multiply", lane, LANES))
        loaded: set[Value] = set()
        for o in scan.before:
            if o.opcode == "load" or o.regions or any(v in loaded for v in o.operands):
                loaded.update(o.results)
        used = {v for o in scan.after for v in operands_of(o)}
        # loaded values are kept; indices are recomputed
        self.kept = [v for o in scan.before for v in o.results if v in loaded and v in used]
        self.again = [o for o in scan.before if not any(v in loaded for v in o.results)]
        self.values: list[list[dict[Value, Value]]] = [[{} for _ in range(LANES)] for _ in range(SLOTS)]

    @contextmanager
    def accesses(self, whole: bool) -> Iterator[None]:
        """Context manager in which memory is accessed in whole vectors if `whole` is true, otherwise by element."""
        vectors = self.writer.vectors
        self.writer.vectors = vectors if whole else frozenset()
        with self.writer.scope():
            yield
        self.writer.vectors = vectors

    def slots(self, whole: bool) -> list[Slot]:
        """Return this thread's elements of the tile, grouped into vectors."""
        w = self.w
        firsts = [w.compute("add", self.first, k * LANES * GPU.warp) if k else self.first for k in range(SLOTS)]
        if whole:
            return [self.writer.slot(first) for first in firsts]
        return [self.writer.slot_within(None, first, self.stop) for first in firsts]

    def read(self, scanners: Sequence[TileScanner]) -> list[list[list[Value]]]:
        """Emit code that loads a thread's elements and computes the values to scan. For each scan, return one list of values per vector."""

        def branch(whole: bool) -> list[Value]:
            with self.accesses(whole):
                slots = self.slots(whole)
                self.writer.begin(slots, self.scan.index)
                self.writer.copy(self.scan.before, slots, self.scan.index)
                found = [v for scanner in scanners for slot in slots for v in scanner.values(self.writer, slot)]
                for kept in self.kept:
                    found += [values[kept] for slot in slots for values in slot.values]
            return found

        given = iter(self.w.select(self.whole, lambda: branch(True), lambda: branch(False)))
        reduced = [[[next(given) for _ in range(LANES)] for _ in range(SLOTS)] for _ in scanners]
        for kept in self.kept:
            for lanes in self.values:
                for values in lanes:
                    values[kept] = next(given)
        return reduced

    def write(self) -> None:
        """Emit the operations after the scans."""

        def branch(whole: bool) -> list[Value]:
            with self.accesses(whole):
                slots = self.slots(whole)
                for slot, lanes in zip(slots, self.values, strict=True):
                    slot.values = [
                        {self.scan.index: at, **known} for at, known in zip(slot.indices, lanes, strict=True)
                    ]
                self.writer.copy([*self.again, *self.scan.after], slots, self.scan.index)
            return []

        self.w.select(self.whole, lambda: branch(True), lambda: branch(False))


class _Descriptors:
    """The look-back descriptors of a scan: 64-bit words that consist of a tag and 32 bits of a value."""

    def __init__(self, w: ThreadWriter, descriptors: Value, tag: Value, scan: Scan, op: ScanOp) -> None:
        self.w = w
        self.descriptors = descriptors
        self.tag = tag
        parts = [_words_of_value(f) for f in scan.ops]
        at = scan.ops.index(op)
        # the values of all scans are adjacent
        self.parts, self.first, self.all = parts[at], FIRST_NOTE + sum(parts[:at]), sum(parts)
        with w.builder.at(0):
            # the value is stored to local memory to reinterpret its bits; LLVM keeps it in registers
            self.bits = w.builder.local(_HALF, self.parts)
            self.value = w.builder.reinterpret(self.bits, op.type)
        self.small = op.type.itemsize < _HALF.itemsize

    def word_indices(self, index: Value) -> list[Value]:
        """Return the indices of the 64-bit words that contain value number `index`."""
        w = self.w
        first = w.compute("multiply", index, self.all) if self.all > 1 else index
        return [w.compute("add", first, self.first + k) for k in range(self.parts)]

    def publish(self, index: Value, value: Value) -> None:
        """Emit code that publishes a value in the descriptors, for other blocks to read."""
        w, b = self.w, self.w.builder
        if self.small:
            b.store(self.bits, w.number(0), w.number(0, _HALF))
        b.store(self.value, w.number(0), value)
        for k, word_index in enumerate(self.word_indices(index)):
            word = b.op("bitwise_or", self.tag, b.cast(b.load(self.bits, w.number(k)), _WORD))
            b.store(self.descriptors, word_index, word, volatile=True)

    def read(self, condition: Value, index: Value, otherwise: Value) -> Value:
        """Emit code that waits until value number `index` is published, and return this value.

        If `condition` does not hold, the code does not wait, and the value is `otherwise`.
        """
        w, b = self.w, self.w.builder
        b.store(self.value, w.number(0), otherwise)
        with w.when(condition):
            for k, word_index in enumerate(self.word_indices(index)):
                self.wait(word_index, k)
        return b.load(self.value, w.number(0))

    def wait(self, word_index: Value, part: int) -> None:
        """Emit code that waits until another block has written a 64-bit word, and then saves the lower half. The upper half identifies the launch."""
        w, b = self.w, self.w.builder
        label = f"wait{word_index.name}"
        with b.scope(label), b.repeat():
            word = b.load(self.descriptors, word_index, volatile=True)
            half = w.number(32, _WORD)
            same = b.op("equal", b.op("right_shift", word, half), b.op("right_shift", self.tag, half))
            with b.if_(same):
                b.store(self.bits, w.number(part), b.cast(word, _HALF))
                b.leave(label)


class _TilePosition:
    """The position of a tile in a hierarchy of two levels: 32 tiles form a group, and 32 groups form a larger group."""

    def __init__(self, w: ThreadWriter, row: Value, tile: Value, tiles: Value, lane: Value) -> None:
        self.w = w
        self.tile = tile
        self.lane = lane
        self.first = w.test("equal", lane, 0)
        self.group, self.in_group = w.split(tile, GPU.warp)
        self.whole, self.in_whole = w.split(self.group, GPU.warp)
        groups = w.parts(tiles, GPU.warp)
        self.wholes = w.parts(groups, GPU.warp)
        rows = w.product(w.extents())
        # indices of the row's first values: for tiles, for groups, for groups of groups
        after_tiles = w.compute("multiply", rows, tiles)
        after_groups = w.compute("add", after_tiles, w.compute("multiply", rows, groups))
        self.of_tiles = w.compute("multiply", row, tiles)
        self.of_groups = w.compute("add", after_tiles, w.compute("multiply", row, groups))
        self.of_wholes = w.compute("add", after_groups, w.compute("multiply", row, self.wholes))


def _look_back(notes: _Descriptors, scanner: TileScanner, position: _TilePosition, own: Value, initial: Value) -> Value:
    """Emit code that publishes a tile's total, and return the total of all elements before the tile.

    The last tile of a group publishes the total of the group. The last tile of a group of groups publishes the prefix
    of the next group of groups. `own` is the total of the tile, and `initial` is the initial value of the row's scan.
    """
    w = notes.w
    last = w.number(GPU.warp - 1)
    with w.when(position.first):
        notes.publish(w.compute("add", position.of_tiles, position.tile), own)
    number = w.compute("add", w.compute("multiply", position.group, GPU.warp), position.lane)
    value = notes.read(
        w.test("less", position.lane, position.in_group), w.compute("add", position.of_tiles, number), scanner.identity
    )
    tiles = scanner.reduce_lanes(value)
    ends_group = w.both(position.first, w.test("equal", position.in_group, last))
    group = scanner.combine(tiles, own)
    with w.when(ends_group):
        notes.publish(w.compute("add", position.of_groups, position.group), group)
    # the last lane has no group to read: it reads the value before the groups
    is_last = w.test("equal", position.lane, last)
    inside = w.test("greater", position.whole, 0)
    number = w.compute("add", w.compute("multiply", position.whole, GPU.warp), position.lane)
    number = w.choose(
        is_last, w.compute("add", position.of_wholes, position.whole), w.compute("add", position.of_groups, number)
    )
    wanted = w.builder.op("bitwise_or", w.test("less", position.lane, position.in_whole), w.both(is_last, inside))
    value = notes.read(wanted, number, scanner.identity)
    start = w.choose(inside, scanner.from_lane(value, GPU.warp - 1), initial)
    groups = scanner.combine(start, scanner.reduce_lanes(w.choose(is_last, scanner.identity, value)))
    following = w.compute("add", position.whole, 1)
    ends_whole = w.both(w.test("equal", position.in_whole, last), w.test("less", following, position.wholes))
    with w.when(w.both(ends_group, ends_whole)):
        notes.publish(w.compute("add", position.of_wholes, following), scanner.combine(groups, group))
    return scanner.combine(groups, tiles)
