"""The GPU schedule of row reductions, such as softmax and norms.

A warp or a block reduces a row, in one or more passes.

In: a logical kernel whose items are loops over one row, and an `EachRow`. Out: the threaded kernel. A row's elements
are distributed over its threads in vectors: vector v belongs to thread ``v % threads``. A thread either keeps all its
vectors in registers, so that memory is read once, or processes the row in tiles, whole tiles first.

A reduction first combines each lane of a thread's vectors in the order of the row. It then combines pairwise the lanes
of a vector, the lanes of a warp, and the warps. For rounding reductions this tree depends only on the row's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.ops.op_table import combine_all
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.passes.reduction_identities import rounds
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.lanes import LaneWriter, Slot, lanes_of
from weft.codegen.schedules.nest import Nest, has_regions, has_stores, is_spread, reduction_chain
from weft.codegen.schedules.reductions import by_halves, identities, reduce_warp, split_item
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Row length below which the schedule for any reductions is faster; maximum row lengths for a warp and for 256 threads.
LEAST_LENGTH = 64
WARP_LENGTH = 1024
BLOCK_LENGTH = 4096
# Number of elements per vector if the reduction rounds. It is constant, so that other accesses in the kernel do not
# affect the bits.
PARTIAL_SUMS = 4
# Number of vectors of a row that a thread reads at once if it keeps nothing in registers.
TILE_LOADS = 4
# Registers per thread with which 8, 6, 5 or 4 blocks of 256 threads (or 2 of 512) fit a multiprocessor; and the
# registers that a thread needs besides its part of the row. Without a limit, the assembler uses 40 and more for rows
# that need 32.
REGISTER_AIMS = (32, 40, 48, 64)
OTHER_REGISTERS = 16
# Maximum number of warps whose results every thread reads and combines itself. The tree is the same as with shuffles,
# and few results take less time.
FEW_WARPS = 8


@dataclass(frozen=True, slots=True)
class RowNest:
    """Successive loops over one row, in the body of the parallel loops.

    `prologue` consists of the operations up to the last of these loops, which all threads execute. `epilogue` consists
    of the operations after it, which one thread executes.
    """

    prologue: list[Operation]
    epilogue: list[Operation]
    loops: list[Operation]

    @property
    def start(self) -> Value:
        """The index at which the row starts."""
        return self.loops[0].operands[0]

    @property
    def stop(self) -> Value:
        """The index at which the row ends."""
        return self.loops[0].operands[1]

    def lanes(self) -> int:
        """The number of elements per vector."""
        if any(rounds(o) for o in self.loops):
            return PARTIAL_SUMS
        return min(lanes_of(o.regions[0].operations, o.regions[0].parameters[0]) for o in self.loops)

    def loop_bodies(self) -> list[tuple[list[Operation], Value]]:
        """Return the body and the index of each loop along the row."""
        return [(list(program_order(o.regions[0].operations)), o.regions[0].parameters[0]) for o in self.loops]

    def loads(self) -> list[Operation]:
        """Return all loads along the row."""
        return [o for o in program_order(self.loops) if o.opcode == "load"]


def find_row(nest: Nest) -> RowNest | None:
    """Return a kernel's loops over a row, or None if the kernel has another structure."""
    parts = split_item(nest)
    if parts is None:
        return None
    loops = [o for o in parts[0] if is_spread(o)]
    zeros = {
        o.results[0] for o in (*nest.operations, *parts[0]) if o.opcode == "constant" and not o.attributes["value"]
    }
    same = {(0 if o.operands[0] in zeros else o.operands[0], o.operands[1]) for o in loops}
    if len(same) != 1:
        return None
    for loop in loops:
        inside = list(program_order(loop.regions[0].operations))
        if len(reduction_chain(loop)) > 1 or has_regions(inside) or any(has_control_flow(o) for o in inside):
            return None
        if any(o.opcode == "atomic" for o in inside) or any(o.opcode in ("store", "load") for o in _dependent(loop)):
            return None
    return RowNest(*parts, loops)


def _dependent(loop: Operation) -> list[Operation]:
    """Return the operations in a loop's body that depend on its carried values."""
    carried = set(loop.regions[0].parameters[1:])
    found = []
    for o in loop.regions[0].operations:
        if any(v in carried for v in o.operands):
            carried.update(o.results)
            found.append(o)
    return found


# -- decisions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EachRow(Decision):
    """The parameters of this schedule: threads per row, and vectors that a thread keeps in registers.

    With 0 vectors, each loop reads the row again from memory.
    """

    threads: int = 0
    kept: int = 0


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> EachRow | None:
    """Return the parameters of this schedule for a row reduction, or None if another schedule is better."""
    row = find_row(nest)
    if row is None or row.stop.name not in sizes:
        return None
    if not LEAST_LENGTH <= sizes[row.stop.name] <= MOST_LENGTH or nest.points(sizes) > MAX_ITEMS:
        return None
    return decide(EachRow, kernel, row, sizes, GPU.kept_registers)


def decide(kind: type[EachRow], kernel: Kernel, row: RowNest, sizes: Mapping[str, int], registers: int) -> EachRow:
    """Choose the parameters of this schedule, such as the number of threads per row. They depend on the row length, which is in `sizes`."""
    length = sizes[row.stop.name]
    threads, whole = threads_of(length), length % row.lanes() == 0
    vectors, _ = aligned_vectors(kernel, row.loop_bodies(), sizes, row.lanes(), row.stop, exact=True)
    return kind(threads, vectors_kept(row, length, threads, registers), vectors=vectors, whole=whole)


# Number of threads that share a row longer than each length. A warp shares a shorter row.
THREADS_ABOVE = ((WARP_LENGTH, GPU.block), (BLOCK_LENGTH, GPU.wide_block))


def threads_of(length: int) -> int:
    """Return the number of threads that share a row of length `length`."""
    return next((threads for above, threads in reversed(THREADS_ABOVE) if length > above), GPU.warp)


MAX_ITEMS = 2**31 - 1
MOST_LENGTH = 2**31 - 2**16  # a tile beyond the last tile still has a valid index


def _kept(row: RowNest) -> int:
    """Return how many 32-bit registers a thread uses per row element, if it keeps the row in registers."""
    kept = {o.operands[0]: max(1, o.results[0].dtype.itemsize // 4) for o in row.loads()}
    return max(1, sum(kept.values()))


def vectors_kept(row: RowNest, length: int, threads: int, registers: int = GPU.kept_registers) -> int:
    """Return how many of a row's vectors a thread keeps in registers: a power of two, or 0 if they do not fit."""
    slots = 1
    while has_registers(row, slots, registers):
        if length <= slots * threads * row.lanes():
            return slots
        slots *= 2
    return 0


def has_registers(row: RowNest, slots: int, registers: int = GPU.kept_registers) -> bool:
    """Return whether a thread has enough registers to keep `slots` vectors of a row."""
    return slots * row.lanes() * _kept(row) <= registers


# -- the schedule -------------------------------------------------------------------------------


def write(kernel: Kernel, nest: Nest, decision: EachRow, target: Target) -> Kernel:
    """Lower a row reduction to a threaded kernel for rows of a known length."""
    row = find_row(nest)
    assert row is not None
    threads, kept = decision.threads, decision.kept
    w = ThreadWriter(kernel, nest, max(threads, GPU.block))
    least = kept * row.lanes() * _kept(row) + OTHER_REGISTERS if kept else REGISTER_AIMS[-1]
    # at most two limits: each limit that causes spills costs a compilation
    w.builder.kernel.attributes["register_aims"] = tuple(n for n in REGISTER_AIMS if n >= least)[:2]
    known = RowFacts(kept, decision.whole, decision.vectors, w.exact.get(row.stop.name))
    return write_items(w, threads, "rows", lambda part: RowWriter(w, row, threads, part, known).write(nest))


def write_items(w: ThreadWriter, threads: int, scheme: str, write: Callable[[Value], None]) -> Kernel:
    """Return a kernel in which `threads` threads share each iteration of the parallel loops.

    `write` is called with the index of the current thread among the threads of its item.
    """
    if threads == w.threads:
        w.bind(w.nest.levels, w.block)
        write(w.thread)
        return w.finish(scheme, 1, every=True)
    warp, lane = w.split(w.thread, threads)
    together = w.threads // threads
    item = w.compute("add", w.compute("multiply", w.block, together), warp)
    with w.when(w.test("less", item, w.product(w.extents()))):
        w.bind(w.nest.levels, item)
        write(lane)
    return w.finish(scheme, together, every=True)


@dataclass(frozen=True, slots=True)
class RowFacts:
    """Facts about a row that are known at compile time.

    `kept`: number of vectors that a thread keeps in registers, or 0 if the thread processes the row in tiles. `whole`:
    whether the row consists of whole vectors, which are aligned for the pointers in `vectors`. `length`: the row's
    length, if known. `loads`: number of vectors of a tile that a thread reads at once. `rest_at_once`: whether a thread
    also reads the vectors of the remainder at once rather than one by one.
    """

    kept: int = 0
    whole: bool = False
    vectors: Sequence[str] = ()
    length: int | None = None
    loads: int = TILE_LOADS
    rest_at_once: bool = True


class RowWriter:
    """Writer of the code for one row, which `threads` threads share. `part` is the index of this thread among them."""

    all_reduce = True  # whether a loop with reductions ends after all threads of the row have read their elements

    def __init__(self, w: ThreadWriter, row: RowNest, threads: int, part: Value, known: RowFacts) -> None:
        self.w = w
        self.row = row
        self.threads = threads
        self.part = part
        self.lanes = row.lanes()
        self.known = known
        self.writer = LaneWriter(w, self.lanes, known.vectors)
        self.slots: list[Slot] = []

    @property
    def start(self) -> Value:
        """The index at which the row starts."""
        return self.w.map.get(self.row.start) or self.w.number(0)

    @property
    def stop(self) -> Value:
        """The index at which the row ends."""
        return self.w.map[self.row.stop]

    def write(self, nest: Nest) -> None:
        """Emit all operations of the row in order."""
        for operation in nest.inward:
            self.writer.point(operation)
        read = written = False
        for part in (*([o] for o in self.row.prologue), *([self.row.epilogue] if self.row.epilogue else [])):
            # whether the operations read memory that the kernel may write, and whether they write memory
            loads = any(o.opcode == "load" and o.operands[0] not in self.writer.steady for o in program_order(part))
            stores = has_stores(part)
            if (stores and (read or written)) or (loads and written):
                self._synchronize()
                read = written = False
            self._part(part)
            # before a thread writes a value that depends on a reduction, all threads have read
            reduces = self.all_reduce and is_spread(part[0]) and bool(part[0].results)
            read, written = (read or loads) and not reduces, written or stores

    def _part(self, part: Sequence[Operation]) -> None:
        w = self.w
        if len(part) == 1 and is_spread(part[0]):
            self._loop(part[0])
        elif part is self.row.epilogue or any(o.opcode == "store" for o in part):
            with w.when(self._is_first()):
                w.copy(part)
            self.writer.forget()
        else:
            for operation in part:
                self.writer.point(operation)

    def _is_first(self) -> Value:
        """Return whether this thread is the first thread of its row. Only the first thread executes the epilogue."""
        return self.w.test("equal", self.part, 0)

    def _synchronize(self) -> None:
        if self.threads == GPU.warp:
            self.w.builder.emit("warp_barrier", (self.w.number(0xFFFFFFFF, np.uint32),))
        else:
            self.w.barrier()

    # -- one loop over the row --------------------------------------------------------------------

    def _loop(self, loop: Operation) -> None:
        w = self.w
        combine = loop.attributes.get("combine", ())
        initial = identities(w, combine, loop.results)
        accumulators = [list(initial) for _ in range(self.lanes)] if combine else []
        if self.known.kept:
            self.slots = self.slots or self._kept_slots()
            accumulators = self._emit_iteration(loop, self.slots, accumulators)
        else:
            accumulators = self._tiles(loop, accumulators)
        if combine:
            self._finish(loop, combine, accumulators)

    def _finish(self, loop: Operation, combine: Sequence[str], accumulators: list[list[Value]]) -> None:
        """Emit code that combines the accumulators of all lanes and threads with the loop's initial values."""
        w = self.w
        total = self._combine_threads(combine, by_halves(accumulators, partial(combine_all, w.builder, combine)))
        before = [w.map[v] for v in loop.operands[2:]]
        w.map.update(zip(loop.results, combine_all(w.builder, combine, before, total), strict=True))

    def _emit_iteration(
        self, loop: Operation, slots: Sequence[Slot], accumulators: list[list[Value]]
    ) -> list[list[Value]]:
        """Emit the body of `loop` for the elements in `slots`, and return the new accumulators."""
        self.writer.begin(slots, loop.regions[0].parameters[0])
        return self._body(loop, slots, accumulators)

    def _body(self, loop: Operation, slots: Sequence[Slot], accumulators: list[list[Value]]) -> list[list[Value]]:
        region = loop.regions[0]
        dependent = _dependent(loop)
        self._copy([o for o in region.operations if o not in dependent and o.opcode != "yield"], slots, loop)
        for slot in slots if region.parameters[1:] else ():
            for lane in range(self.lanes):
                accumulators[lane] = self._accumulate(slot, lane, region, dependent, accumulators[lane])
        return accumulators

    def _copy(self, operations: list[Operation], slots: Sequence[Slot], loop: Operation) -> None:
        self.writer.copy(operations, slots, loop.regions[0].parameters[0])

    def _accumulate(
        self, slot: Slot, lane: int, region: Block, dependent: Sequence[Operation], before: Sequence[Value]
    ) -> list[Value]:
        values = slot.values[lane]
        values.update(zip(region.parameters[1:], before, strict=True))
        for o in dependent:
            if o.opcode == "yield":
                break
            operands = [self.writer.value(slot, lane, v) for v in o.operands]
            made = self.w.builder.emit(o.opcode, operands, [v.type for v in o.results], **o.attributes)
            values.update(zip(o.results, made, strict=True))
        after = [self.writer.value(slot, lane, v) for v in region.operations[-1].operands]
        valid = slot.valid[lane]
        if valid is None:
            return after
        return [self.w.builder.op("where", valid, new, old) for new, old in zip(after, before, strict=True)]

    # -- the elements of a row -----------------------------------------------------------------

    def _kept_slots(self) -> list[Slot]:
        w = self.w
        length = w.compute("subtract", self.stop, self.start)
        known = self.known.length
        return [
            self._slot(k, self.start, length, known)
            for k in range(self.known.kept)
            if known is None or k * self.threads * self.lanes < known
        ]

    def spans(self, count: int) -> Value | int:
        """Return the number of elements by which this thread advances if it processes `count` vectors."""
        return count * self.threads * self.lanes

    def _slot(self, k: int, base: Value, length: Value, known: int | None = None) -> Slot:
        """Return one of this thread's vectors in a part of the row, as a `Slot`. `k` is the vector's number.

        The part has `length` elements and starts at `base`.
        """
        w = self.w
        own = w.compute("multiply", self.part, self.lanes)
        offset = w.compute("add", own, self.spans(k)) if k else own
        if known is not None and (k + 1) * self.threads * self.lanes <= known:
            return self.writer.slot(w.compute("add", base, offset))
        return self.writer.slot_within(base, offset, length, self._readable_length(length), whole=self.known.whole)

    def _readable_length(self, length: Value) -> Value:
        """Return how many elements may be read, given that the first `length` are valid. Subclasses may return more."""
        return length

    def _tiles(self, loop: Operation, accumulators: list[list[Value]]) -> list[list[Value]]:
        """Emit a loop over the whole tiles of the row, and code for the remainder of the row.

        If vectors have one element, the loop includes the remainder.
        """
        w = self.w
        loads = len({(o.operands[0]) for o in program_order([loop]) if o.opcode == "load"})
        alone = self.lanes == 1
        unroll = 1 if alone else max(1, self.known.loads // max(1, loads))
        tile = w.value(self.spans(unroll))
        length = w.compute("subtract", self.stop, self.start)
        rest = w.compute("bitwise_and", length, w.compute("subtract", tile, 1))
        end = self.stop if alone else w.compute("subtract", self.stop, rest)
        first = w.compute("add", self.start, w.compute("multiply", self.part, self.lanes))
        # the loop starts at 0: LLVM sees that there is a first iteration
        known, whole_tile = self.known.length, unroll * self.threads * self.lanes
        exact = known if known is not None and known % whole_tile == 0 else None
        begin, end = (first, end) if exact is None else (w.number(0), w.number(exact))
        how: dict[str, Any] = {"step_by": tile, "rolled": True, "opaque": True}
        with (
            self.writer.scope(),
            w.builder.loop(end, "serial", start=begin, initial=flat(accumulators), **how) as opened,
        ):
            at = opened.index if exact is None else w.compute("add", first, opened.index)
            slots = [self.writer.slot(w.compute("add", at, self.spans(k)) if k else at) for k in range(unroll)]
            opened.yield_(*flat(self._emit_iteration(loop, slots, self._nested(opened.carried))))
        whole = list(opened.results)
        if alone or exact is not None:
            return self._nested(whole)

        if not self.known.rest_at_once:
            how["step_by"] = w.value(self.spans(1))
            with (
                self.writer.scope(),
                w.builder.loop(rest, "serial", start=w.number(0), initial=whole, **how) as opened,
            ):
                slots = [self._slot(0, w.compute("add", end, opened.index), w.compute("subtract", rest, opened.index))]
                opened.yield_(*flat(self._emit_iteration(loop, slots, self._nested(opened.carried))))
            return self._nested(opened.results)

        def left() -> list[Value]:
            with self.writer.scope():
                slots = [self._slot(k, end, rest) for k in range(unroll)]
                return flat(self._emit_iteration(loop, slots, self._nested(whole)))

        return self._nested(w.select(w.test("greater", rest, 0), left, lambda: whole))

    def _nested(self, values: Sequence[Value]) -> list[list[Value]]:
        """Split a flat list of accumulators into one list per vector lane. An empty list stays empty."""
        width = len(values) // self.lanes
        return [list(values[k * width : (k + 1) * width]) for k in range(self.lanes)] if width else []

    # -- combination across threads ----------------------------------------------------------------

    def _combine_threads(self, combine: Sequence[str], values: list[Value]) -> list[Value]:
        """Emit code that combines the results of the threads that share a row, and gives all of them the total."""
        w = self.w
        values = reduce_warp(w, combine, values, GPU.warp // 2)
        warps = self.threads // GPU.warp
        if warps == 1:
            return values
        _, shared = share_by_warps(w, values, warps)
        if warps > FEW_WARPS:
            _, which = w.split(w.thread, warps)
            return reduce_warp(w, combine, [w.builder.load(pointer, which) for pointer in shared], warps // 2)
        found = [[w.builder.load(pointer, w.number(k)) for pointer in shared] for k in range(warps)]
        whole: list[Value] = by_halves(found, partial(combine_all, w.builder, combine))
        return whole


def flat(accumulators: Iterable[Iterable[Value]]) -> list[Value]:
    """Return the accumulators of all lanes as one list."""
    return [v for lane in accumulators for v in lane]


def share_by_warps(w: ThreadWriter, values: list[Value], count: int) -> tuple[Value, list[Value]]:
    """Emit code in which the first lane of each warp stores its values in shared memory. A barrier follows.

    Return this thread's lane and the arrays in shared memory.
    """
    warp, lane = w.split(w.thread, GPU.warp)
    shared = [w.shared_array(v.dtype, count) for v in values]
    with w.when(w.test("equal", lane, 0)):
        for pointer, value in zip(shared, values, strict=True):
            w.builder.store(pointer, warp, value)
    w.barrier()
    return lane, shared
