"""Kernels of reductions and scans that are split into blocks.

The partial results of blocks are combined in order.

In: a group with reductions or scans, its nest, and the split of the outermost inner loop. Out: a kernel that writes
the partial results of the blocks to scratch memory, and a second kernel. For reductions, the second kernel combines
the partial results in order. For scans, it scans each block from the total of the previous blocks. Invariant: the
order of a reduction depends only on its axes, the memory layout of its operand, and the class of machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from weft.codegen import Value, combine_all
from weft.fusion.graph.expr import Expr
from weft.fusion.lower.kernel_writer import KernelWriter, across
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.nest import Nest
from weft.fusion.plan.shifted_moments import shift_sums, total_of_squares
from weft.fusion.plan.task import ShiftedMoment
from weft.fusion.plan.traffic import bytes_written


@dataclass(frozen=True, slots=True)
class Split:
    """A loop of `extent` iterations that is split into `blocks` blocks of up to `length` iterations."""

    blocks: int
    length: int
    extent: int
    inside: int  # elements per iteration of the split loop
    rows: tuple[int, ...]  # extents of the loops that are kept
    base: int = 0  # number of the first scratch buffer


class SplitWriter(KernelWriter):
    """Writer of one of the two kernels of a split reduction or scan.

    The first kernel computes a partial result for each block. The second kernel combines the partial results or, for a
    scan, scans each block from the total of the previous blocks.
    """

    def __init__(self, group: Group, nest: Nest, name: str, parametric: bool, *, for_cpu: bool = False) -> None:
        super().__init__(group, nest, name, parametric, for_cpu=for_cpu)
        self.centres: dict[Expr, Value] = {}  # shifted moment -> its shift in the current block

    def build_partials(self, split: Split) -> None:
        """Emit a kernel that reduces each block and stores the partial results in scratch memory."""
        self._count_work(split)
        before, inner = self.stage(0), self.stage(1)

        def at_point() -> None:
            for placed in before:
                self.compute(placed)
            bounds = self._bounds(split)
            first = [p for p in inner if p.task.kind == "reduce"]
            depth = len(self.nest.outer)
            initial = [v for p in first for v in self.initial(p)]
            final = self._inner_loop(first, inner, depth, initial, bounds)
            measured = self.stage(3)
            if measured:
                self.leave_loops(depth)
                self.finish_reductions(first, final, stored=False)
                count = self._elements(bounds, split.inside)
                for p in measured:
                    found, _ = self.results[_moment_of(p).centre.node]
                    self.centres[p.task.node] = self._block_shift(p, found, self.builder.cast(count, found.type))
                initial = [v for p in measured for v in self.initial(p)]
                final += self._inner_loop(measured, measured, depth, initial, bounds)
            self.store_partials(split, self._scratch_index(split, range(depth)), final)

        self._parallel(at_point)

    def _elements(self, bounds: tuple[Value, Value], inside: int) -> Value:
        """Return the number of elements in a block with the given bounds."""
        count = self.builder.op("subtract", bounds[1], bounds[0])
        return count if inside == 1 else self.builder.op("multiply", count, self.integer(inside, "inside"))

    # -- moments that are shifted by the maximum or mean of the block ---------------------------

    def _block_shift(self, placed: Placed, found: Value, count: Value) -> Value:
        """Return the shift that is subtracted from a block's elements: the block's maximum or mean."""
        return found if _moment_of(placed).divisor is None else self.builder.op("divide", found, count)

    def body(self, placed: Placed) -> list[tuple[Value, int]]:
        """Emit a task's code. If its sum depends on a mean or maximum, use the mean or maximum of the current block."""
        if placed.task.node not in self.centres:
            return super().body(placed)
        centre = self.centres[placed.task.node], len(self.nest.outer)
        made: list[tuple[Value, int]] = []
        for at in _moment_of(placed).at:
            made = [*self._write(placed.task.body[len(made) : at], made, placed), centre]
        return self._write(placed.task.body[len(made) :], made, placed)

    def sums(self, placed: Placed) -> int:
        """Return a reduction's number of accumulators: 2 for squared differences from a block's mean, otherwise 1."""
        return len(_moment_of(placed).terms) if placed.stage == 3 else 1

    def combined(self, placed: Placed, carried: tuple[Value, ...]) -> tuple[Value, ...]:
        if placed.stage != 3:
            return super().combined(placed, carried)
        made = self.body(placed)
        terms = [made[k][0] for k in _moment_of(placed).terms]
        return tuple(self.builder.op("add", total, term) for total, term in zip(carried, terms, strict=True))

    def _count_work(self, split: Split) -> None:
        self.work = prod(split.rows) * split.extent * split.inside

    def _bounds(self, split: Split) -> tuple[Value, Value]:
        """Return the first index and the end index of the current block."""
        with self.builder.at(1):
            size = self.integer(split.length, "length")
            start = self.builder.op("multiply", self.indices[0], size)
            extent = self.integer(split.extent, "extent")
            return start, self.builder.op("minimum", self.builder.op("add", start, size), extent)

    def store_partials(self, split: Split, where: Value, values: Iterable[Value]) -> None:
        """Emit stores of a block's partial results. Store result number k in scratch buffer k, at the index `where`."""
        for k, value in enumerate(values):
            self.builder.store(self.scratch(split, k, np.dtype(value.type), writable=True), where, value)

    def build_totals(self, scans: list[Placed], split: Split) -> None:
        """Emit a kernel that reduces each block to its total, for a second kernel that scans the blocks."""
        self._count_work(split)
        needed: set[Expr] = set()
        stack = list(scans)
        while stack:
            more = {node for node, _ in stack.pop().task.reads() if node in self.made} - needed
            needed |= more
            stack += [self.group.made[node] for node in more]

        def at_point() -> None:
            start, stop = self._bounds(split)
            initial = [v for p in scans for v in self.initial(p)]
            names = tuple(p.task.node.op for p in scans)
            how = self.reduction_attributes(scans)
            with self.open_loop(stop, "reduce", start=start, initial=initial, combine=names, **how) as loop:
                following: list[Value] = []
                for p in self.stage(1):
                    if p in scans:
                        at = len(following)
                        following += self.combined(p, loop.carried[at : at + 1])
                    elif p.task.node in needed:
                        self.compute(p)
                loop.yield_(*following)
            where = self._scratch_index(split, range(len(self.nest.outer)))
            self.store_partials(split, where, loop.results)

        self._parallel(at_point)

    def build_shared(self, scans: list[Placed], split: Split) -> None:
        """Emit a kernel that scans each block, starting from the total of all previous blocks.

        On a GPU, one thread scans a block of one column.
        """
        self._count_work(split)

        def at_point() -> None:
            depth = len(self.nest.outer)
            bounds = self._bounds(split)
            initial = [v for p in scans for v in self.initial(p)]
            names = tuple(p.task.node.op for p in scans)
            how: dict[str, Any] = {"role": "reduce", "combine": names, **across(depth > 1)} if self.for_cpu else {}
            with self.open_loop(self.indices[0], initial=initial, **how) as loop:
                where = self._scratch_index(split, [depth, *range(1, depth)])
                loaded = self.partial_reductions(scans, split, 0, loop.carried, where)
                loop.yield_(*combine_all(self.builder, names, loop.carried, loaded))
            self.leave_loops(depth)
            self._inner_loop(scans, self.stage(1), depth, list(loop.results), bounds)

        self._parallel(at_point)

    def build_finish(self, split: Split) -> None:
        """Emit a kernel that combines partial results in order, and computes the tasks that depend on them."""

        def at_point() -> None:
            for placed in self.stage(0):
                self.point(placed)
            first = [p for p in self.stage(1) if p.task.kind == "reduce"]
            self._combine_partials(first, split, 0)
            for placed in self.stage(2):
                self.point(placed)
            measured = self.stage(3)
            if measured:
                self._combine_partials(measured, split, sum(len(self.accumulators(p)) for p in first), first)
            for placed in self.stage(4):
                self.point(placed)
            self.flush_stores()

        self._parallel(at_point)

    def _combine_partials(
        self, reductions: list[Placed], split: Split, at: int, first: list[Placed] | None = None
    ) -> None:
        """Emit a loop that combines the partial results of all blocks in order.

        The results are in consecutive scratch buffers, of which the first is number `at`.

        With `first`, moments are converted to a common shift.
        """
        depth = len(self.nest.outer)
        initial = [v for p in reductions for v in self.initial(p)]
        names = tuple(name for p in reductions for name in self.combining_ops(p))
        blocks = self.integer(split.blocks, "blocks")
        common = [self._common_shift(p) for p in reductions] if first else []
        with self.open_loop(blocks, "reduce", initial=initial, combine=names, **across(depth > 0)) as loop:
            where = self._scratch_index(split, [depth, *range(depth)])
            loaded = self.partial_reductions(reductions, split, at, loop.carried, where)
            if first:
                loaded = self._shifted(reductions, loaded, common, first, split, where)
            loop.yield_(*combine_all(self.builder, names, loop.carried, loaded))
        self.finish_reductions(reductions, self._totals(reductions, loop.results) if first else loop.results)

    def partial_reductions(
        self, reductions: list[Placed], split: Split, at: int, like: Sequence[Value], where: Value
    ) -> list[Value]:
        """Emit loads of one block's partial results for all `reductions`.

        The results are in consecutive scratch buffers, of which the first is number `at`.
        """
        return [self.partial(split, at + k, v, where) for k, v in enumerate(like)]

    def partial(self, split: Split, number: int, like: Value, where: Value) -> Value:
        """Emit a load of one partial result of a block. `number` selects the scratch buffer, and `where` is the index in this buffer."""
        return self.builder.load(self.scratch(split, number, np.dtype(like.type)), where)

    def _common_shift(self, placed: Placed) -> Value:
        """Return the mean or maximum of all elements. A sum such as ``sum((x - mean)**2)`` subtracts this number, the shift, from each element."""
        found, _ = self.results[_moment_of(placed).centre.node]
        divisor = _moment_of(placed).divisor
        return found if divisor is None else self.builder.op("divide", found, self._constant(divisor)[0])

    def _shifted(
        self,
        reductions: list[Placed],
        sums: list[Value],
        common: list[Value],
        first: list[Placed],
        split: Split,
        where: Value,
    ) -> list[Value]:
        """Convert a block's sums such as ``sum((x - m)**2)``: replace the block's own mean or maximum ``m`` by that of all elements."""
        b = self.builder
        length, extent = self.integer(split.length, "length"), self.integer(split.extent, "extent")
        start = b.op("multiply", self.indices[-1], length)
        elements = self._elements((start, b.op("minimum", b.op("add", start, length), extent)), split.inside)
        numbers: dict[Expr, int] = {}
        for p in first:
            numbers[p.task.node] = sum(len(self.accumulators(other)) for other in first[: len(numbers)])
        shifted: list[Value] = []
        for (p, own), centre in zip(self.with_accumulators(reductions, sums), common, strict=True):
            found = self.partial(split, numbers[_moment_of(p).centre.node], own[0], where)
            count = b.cast(elements, own[0].type)
            shifted += shift_sums(b, _moment_of(p), own, self._block_shift(p, found, count), centre, count)
        return shifted

    def _totals(self, reductions: list[Placed], sums: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the final accumulators, with corrected sums of squared deviations."""
        found: list[Value] = []
        for p, own in self.with_accumulators(reductions, sums):
            divisor = _moment_of(p).divisor
            if divisor is not None:
                own = (*own[:-1], total_of_squares(self.builder, own, self._constant(divisor)[0]))
            found += own
        return tuple(found)

    def _scratch_index(self, split: Split, order: Iterable[int]) -> Value:
        """Return the current result's index in a scratch buffer. `order` lists the loops, largest stride first."""
        first, *rest = order
        total = self.indices[first]
        for k, loop in enumerate(rest, 1):
            total = self.builder.op("multiply", total, self.integer(split.rows[k - 1], ("rows", k)))
            total = self.builder.op("add", total, self.indices[loop])
        return total

    def scratch(self, split: Split, k: int, dtype: np.dtype, *, writable: bool = False) -> Value:
        """Return the parameter that points to the partial results of accumulator `k`."""
        found = self.pointers.get(("partial", split.base + k))
        if found is None:
            found = self.pointers["partial", split.base + k] = self.builder.pointer(
                f"p{len(self.pointers)}", dtype, writable=writable, noalias=True, align=dtype.itemsize
            )
            self.bindings.append(("partial", split.base + k, 0))
            self.partials.append((split.base + k, split.blocks * prod(split.rows) * dtype.itemsize))
        return found

    def traffic(self) -> tuple[int, int]:
        """Return the number of bytes that the kernel reads, and the number that it writes.

        Split scans read their input twice.

        The kernel of the partial reductions also writes the materialized values that the reductions read.
        """
        read, written = super().traffic()
        scratch = sum(nbytes for _, nbytes in self.partials)
        within = [p.task for p in self.stage(1) if p.task.kind != "reduce" and p.task.node not in self.group.private]
        beside = 0 if any(p.task.kind == "scan" for p in self.group.placed) else sum(map(bytes_written, within))
        match self.builder.kernel.name:
            case "partial":
                return read, scratch + beside
            case "finish":
                return scratch, written - beside
        return read + scratch, written


def _moment_of(placed: Placed) -> ShiftedMoment:
    assert placed.task.shifted is not None
    return placed.task.shifted
