"""The GPU schedule of row reductions for rows of any length.

Each launch makes the decisions that `rows.py` makes at compile time for one length.

In: a logical kernel whose items are loops over one row, and an `AnyRows`. Out: the threaded kernel. A block processes
as many rows at a time as its threads allow. There are three code paths: for rows that are kept in registers, for rows
that each loop reads again from memory, and for short rows. Each launch selects one of them. Rows of whole vectors
(given by ``multiples``) have separate code. The code for other rows is smaller, since it reads the row again for each
loop.

Invariant: the tree of a reduction is that of `rows.py`, or of `reductions.py` below 64 elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.kernel_ir.operation import Kernel, Value
from weft.codegen.machines import GPU
from weft.codegen.passes.known_multiples import aligned_vectors
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.nest import Nest, prefers_columns
from weft.codegen.schedules.reductions import ROW_ELEMENTS, identities, reduce_warp
from weft.codegen.schedules.rows import (
    BLOCK_LENGTH,
    LEAST_LENGTH,
    MAX_ITEMS,
    MOST_LENGTH,
    REGISTER_AIMS,
    THREADS_ABOVE,
    TILE_LOADS,
    WARP_LENGTH,
    RowFacts,
    RowNest,
    RowWriter,
    find_row,
    has_registers,
    share_by_warps,
)
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target
from weft.runtime import RowLimits

# Maximum number of threads that share a short row.
SHORT_THREADS = LEAST_LENGTH // ROW_ELEMENTS
# Number of vectors that a thread keeps in registers if several loops read a row of more than `WARP_LENGTH` elements.
# Shorter rows stay in the L1 cache.
MANY = 4
# Number of vectors that a thread reads at once, in kernels with several loops over the row, if it does not keep them.
LOADS = 2


@dataclass(frozen=True, slots=True)
class AnyRows(Decision):
    """The parameters of the GPU schedule of row reductions for rows of any length.

    `keeps` is true if one variant of the code keeps rows in registers.
    """

    keeps: bool


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> AnyRows | None:
    """Return the parameters of this schedule for a row reduction, or None if the schedule does not apply.

    It does not apply to code for exact sizes (`exact`), to other kernels, or to very long or very many rows.
    """
    if exact:
        return None
    row = find_row(nest)
    if row is None or row.stop.name not in sizes or prefers_columns(nest, row.loops):
        return None
    if kernel.constants().get(row.start) != 0:
        return None
    if sizes[row.stop.name] > MOST_LENGTH or nest.points(sizes) > MAX_ITEMS:
        return None
    vectors, multiples = aligned_vectors(kernel, row.loop_bodies(), sizes, row.lanes(), row.stop, exact=False)
    keeps = len(row.loops) > 1 and has_registers(row, MANY)
    return AnyRows(keeps, vectors=vectors, multiples=multiples)


def write(kernel: Kernel, nest: Nest, decision: AnyRows, target: Target) -> Kernel:
    """Lower a row reduction to a threaded kernel, for rows of any length."""
    row = find_row(nest)
    assert row is not None
    w = ThreadWriter(kernel, nest, GPU.wide_block)
    w.builder.kernel.attributes["register_aims"] = REGISTER_AIMS[2:] if decision.keeps else REGISTER_AIMS[:2]
    aligned = w.are_multiples(decision.multiples, row.lanes())
    items = w.product(w.extents())
    length = w.map[row.stop]  # (the row starts at 0)
    shift = _threads_shift(w, length)
    threads = w.compute("left_shift", 1, shift)
    slot, part = w.split_at(w.thread, shift, threads)
    together = w.compute("right_shift", GPU.wide_block, shift)
    with w.builder.loop(w.parts(items, together), "serial", start=w.block, step_by=w.grid, rolled=True) as opened:
        item = w.compute("add", w.compute("multiply", opened.index, together), slot)
        team = RowTeam(threads, slot, w.test("less", item, items), length)
        w.bind(nest.levels, w.compute("minimum", item, w.compute("subtract", items, 1)))

        def write_row(slots: int, *, alone: bool = False, whole: bool = False) -> None:
            AnyRowWriter(
                w, row, team, part, RowFacts(slots, whole, decision.vectors if whole else ()), alone=alone
            ).write(nest)

        def kept_or_not(*, whole: bool) -> None:
            if not decision.keeps:
                write_row(0, whole=whole)
                return
            most = w.compute("multiply", threads, MANY * row.lanes())
            keeps = w.both(w.test("greater", length, WARP_LENGTH), w.test("less_equal", length, most))
            w.choose_version(keeps, lambda: write_row(MANY, whole=whole), lambda: write_row(0, whole=whole))

        def long() -> None:
            w.choose_version(aligned, lambda: kept_or_not(whole=aligned is not None), lambda: write_row(0))

        w.choose_version(w.test("less", length, LEAST_LENGTH), lambda: write_row(0, alone=True), long)
        w.barrier()
    limits = RowLimits(LEAST_LENGTH, ROW_ELEMENTS, many_length=WARP_LENGTH, block_length=BLOCK_LENGTH)
    return w.finish("rows", 1, row_limits=limits)


def _threads_shift(w: ThreadWriter, length: Value) -> Value:
    """Return the base-2 logarithm of the number of threads that share a row."""
    found: Value | int = 0
    steps = [(ROW_ELEMENTS, 1), (2 * ROW_ELEMENTS, 2), (4 * ROW_ELEMENTS, 3), (LEAST_LENGTH - 1, 5)]
    steps += [(above, threads.bit_length() - 1) for above, threads in THREADS_ABOVE]
    for above, shift in steps:
        found = w.choose(w.test("greater", length, above), shift, found)
    return w.value(found)


@dataclass(frozen=True, slots=True)
class RowTeam:
    """The threads that share a row.

    `size` is the number of threads, and `slot` is the index of their row in the block. `active` is false for threads
    beyond the last row. `length` is the length of a row.
    """

    size: Value
    slot: Value
    active: Value
    length: Value


class AnyRowWriter(RowWriter):
    """Writer of the code for a row that a variable number of threads share.

    The number is known only at run time.

    Threads beyond the last row process the last row with a length of 0.
    """

    all_reduce = False

    def __init__(
        self, w: ThreadWriter, row: RowNest, team: RowTeam, part: Value, known: RowFacts, *, alone: bool
    ) -> None:
        loads = TILE_LOADS if len(row.loops) == 1 else LOADS
        known = replace(known, loads=loads, rest_at_once=False)
        super().__init__(w, row, GPU.wide_block, part, known)
        self.team = team
        self.alone = alone
        if alone:
            self.lanes = self.writer.lanes = 1

    @property
    def stop(self) -> Value:
        """The index at which this thread's loop over a row stops. For a thread without a row, it is the start index, so that the loop is empty."""
        return self.w.choose(self.team.active, super().stop, self.start)

    def spans(self, count: int) -> Value | int:
        return self.w.compute("multiply", self.team.size, count * self.lanes)

    def _is_first(self) -> Value:
        return self.w.both(self.team.active, super()._is_first())

    def _synchronize(self) -> None:
        self.w.barrier()

    def _readable_length(self, length: Value) -> Value:
        # (for a missing row, the last row is read again if rows are kept)
        return self.team.length if self.known.kept else length

    def _combine_threads(self, combine: Sequence[str], values: list[Value]) -> list[Value]:
        w = self.w
        if not self.alone:
            values = reduce_warp(w, combine, values, GPU.warp // 2)
            several = w.test("greater", self.team.size, GPU.warp)
            return list(w.select(several, lambda: self._combine_warps(combine, values), lambda: values))
        return reduce_warp(w, combine, values, SHORT_THREADS // 2, lambda mask: w.test("greater", self.team.size, mask))

    def _combine_warps(self, combine: Sequence[str], values: list[Value]) -> list[Value]:
        """Emit code that combines the results of the warps that share a row, and return the total."""
        w = self.w
        most = GPU.wide_block // GPU.warp
        lane, shared = share_by_warps(w, values, most)
        warps = w.quotient(self.team.size, GPU.warp)
        _, which = w.split(lane, most)
        there = w.test("less", which, warps)
        at = w.compute("minimum", w.compute("add", w.compute("multiply", self.team.slot, warps), which), most - 1)
        found = [
            w.builder.op("where", there, w.builder.load(pointer, at), none)
            for pointer, none in zip(shared, identities(w, combine, values), strict=True)
        ]
        return reduce_warp(w, combine, found, most // 2)
