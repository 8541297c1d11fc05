"""Kernels of row-and-column reductions.

One kernel iterates over the rows. The others combine its partial results.

In: a group of `RowsAndColumns`. Out: its kernels. Invariant: a row is reduced in the same order as in a separate
kernel. A column is reduced in the order of the rows, from the start of its block of rows. On a GPU, the rows of a block
are distributed cyclically over `apart` parts. Column accumulators are in scratch memory, with one row of accumulators
per block or part. On a CPU, up to four rows are processed per iteration, so that the accumulators are read and written
once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from weft.codegen import RowColumnReduction, Value, accumulators, combine_all, halve_columns
from weft.fusion.lower.kernel_writer import Lowered
from weft.fusion.lower.split_writer import Split, SplitWriter
from weft.fusion.plan.body import Loop
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.nest import Nest
from weft.fusion.plan.row_column_reductions import RowsAndColumns
from weft.fusion.plan.traffic import bytes_written

# Rows per iteration, with limits for the bytes that the reduction of a row carries, and for the instructions per
# element.
TOGETHER = ((4, 4, 20), (2, 8, 40))


def lower_row_columns(group: RowsAndColumns, parametric: bool) -> list[Lowered]:
    """Return the kernels of a row-and-column reduction."""
    batch = tuple(loop.extent for loop in group.batch)
    count = sum(accumulators(p.task.node.op) for p in _reductions(group.columns))
    across = _split(group.down, group.row_block, (*batch, group.along.extent), 0)
    along = _split(group.along, group.length, (*batch, group.down.extent), count)
    parts = replace(across, blocks=across.blocks * group.apart)
    found = [RowColumnWriter(group, along, parts, parametric).write()]
    if group.apart > 1:
        found[0].kernel.attributes["schedule"] = RowColumnReduction()
    if group.length:
        found.append(_finish(group, group.rows, group.down, along, parametric))
    return [*found, _finish(group, group.columns, group.along, across, parametric)]


def _reductions(group: Group) -> list[Placed]:
    return [p for p in group.placed if p.task.kind == "reduce"]


def _split(loop: Loop, length: int, kept: tuple[int, ...], base: int) -> Split:
    """Split a loop into blocks of `length` iterations, or into a single block if `length` is 0."""
    return Split(-(-loop.extent // length) if length else 1, length or loop.extent, loop.extent, 1, kept, base)


def _finish(group: RowsAndColumns, part: Group, kept: Loop, split: Split, parametric: bool) -> Lowered:
    """Return the kernel that combines partial results, and computes the tasks that depend on the totals."""
    behind = Group(group.number, part.loops, private=group.private, over=group.over)
    for p in part.placed:
        if p.task.kind == "reduce" or p.stage > 1:
            behind.place(p)
    depth = len(group.batch)
    where = depth + (kept is group.along)
    position = {k: min(at, depth) for k, at in group.position.items() if at < depth or at == where}
    nest = Nest([*group.batch, Loop(kept.extent, "parallel")], [Loop(split.blocks, "reduce")], position)
    writer = FinishWriter(behind, nest, "finish", parametric)
    writer.apart = group.apart if part is group.columns else 1
    writer.build_finish(split)
    return writer.finish()


class FinishWriter(SplitWriter):
    """Writer of the kernel that combines the partial results of a row-and-column reduction."""

    apart = 1  # number of parts that share a block of rows: each has its own partial result

    def partial_reductions(
        self, reductions: list[Placed], split: Split, at: int, like: Sequence[Value], where: Value
    ) -> list[Value]:
        """Emit code that loads and combines one block's partial results, for each reduction in `reductions`."""
        if self.apart == 1:
            return super().partial_reductions(reductions, split, at, like, where)
        b = self.builder
        # where: the block index times the number of columns, plus the column
        columns = self.integer(split.rows[-1], "columns")
        first = b.op("multiply", b.op("multiply", self.indices[-1], b.constant(self.apart)), columns)
        first = b.op("add", first, self.indices[0])
        indices = [b.op("add", first, b.op("multiply", columns, b.constant(k))) for k in range(self.apart)]
        names = [name for p in reductions for name in self.combining_ops(p)]

        loaded = [super(FinishWriter, self).partial_reductions(reductions, split, at, like, p) for p in indices]
        found: list[Value] = halve_columns(loaded, partial(combine_all, b, names))
        return found

    def scratch(self, split: Split, k: int, dtype: np.dtype, *, writable: bool = False) -> Value:
        return super().scratch(replace(split, blocks=split.blocks * self.apart), k, dtype, writable=writable)


class RowColumnWriter(SplitWriter):
    """Writer of the kernel that computes row and column reductions."""

    def __init__(self, group: RowsAndColumns, along: Split, across: Split, parametric: bool) -> None:
        cuts = [Loop(split.blocks, "parallel") for split in (across, along) if split.blocks != 1]
        position = {k: at + len(cuts) for k, at in group.position.items()}
        nest = Nest([*cuts, *group.batch], [group.down, group.along], position)
        super().__init__(group, nest, "partial", parametric)
        self.both = group
        self.along, self.across = along, across
        self.cut = len(cuts)
        self.row = len(nest.outer)  # index of the loop over the rows
        self.work = prod(loop.extent for loop in (*group.batch, *nest.inner))
        self.by_rows, self.by_columns = _reductions(group.rows), _reductions(group.columns)
        carried = sum(kind.itemsize for p in self.by_rows for kind in self.accumulators(p))
        size = group.instructions
        few = (n for n, least, most in TOGETHER if carried <= least and size <= most)
        self.together = next(few, 1) if group.apart == 1 else 1

    def write(self) -> Lowered:
        """Emit the kernel, and return it with the values of its parameters."""
        self._parallel(self._emit_block)
        return self.finish()

    def _emit_block(self) -> None:
        """Emit the loops over the rows and columns of one block of the array. A CPU thread or a GPU thread block executes these loops."""
        b = self.builder
        first, end = self._range(self.across, 0, self.both.apart)
        self.columns = self._range(self.along, self.cut - 1)
        self.so_far = self._scratch_offset(self.across, self.cut - 1 if self.along.blocks == 1 else 0)
        initial = [v for p in self.by_columns for v in self.initial(p)]
        with b.loop(self.columns[1], "reduce", start=self.columns[0]) as loop:
            self.store_partials(self.across, b.op("add", self.so_far, loop.index), initial)
        if self.together > 1:
            together = b.constant(self.together)
            whole = b.op("floor_divide", b.op("subtract", end, first), together)
            middle = b.op("add", first, b.op("multiply", whole, together))
            self._row_loop(first, middle, self.together)
            first = middle
        self._row_loop(first, end, 1)

    def _range(self, split: Split, cut: int, apart: int = 1) -> tuple[Value, Value]:
        """Return the first index and the end index of the current block along a loop.

        If `apart` is greater than 1, return those of the current part of the block.
        """
        b = self.builder
        extent = self.integer(split.extent, ("whole", split.base))
        if split.blocks == 1:
            return b.constant(0), extent
        size = self.integer(split.length, ("length", split.base))
        if apart == 1:
            start = first = b.op("multiply", self.indices[cut], size)
        else:
            row_block = b.op("floor_divide", self.indices[cut], b.constant(apart))
            number = b.op("subtract", self.indices[cut], b.op("multiply", row_block, b.constant(apart)))
            start = b.op("multiply", row_block, size)
            first = b.op("add", start, number)
        return first, b.op("minimum", b.op("add", start, size), extent)

    def _scratch_offset(self, split: Split, cut: int, last: Value | None = None) -> Value:
        """Return the offset of a block's results in scratch memory."""
        b = self.builder
        indices = [*self.indices[self.cut : self.row], last]
        total = self.indices[cut] if split.blocks != 1 else None
        for k, (index, extent) in enumerate(zip(indices, split.rows, strict=True)):
            if total is not None:
                total = b.op("multiply", total, self.integer(extent, ("kept", split.base, k)))
            if index is not None:
                total = index if total is None else b.op("add", total, index)
        return b.constant(0) if total is None else total

    # -- rows ---------------------------------------------------------------------------------------

    def _row_loop(self, first: Value, end: Value, together: int) -> None:
        b = self.builder
        names = tuple(name for p in self.by_rows for name in self.combining_ops(p))
        with self.open_loop(end, "serial", start=first, step=together * self.both.apart) as rows:
            numbers = [b.op("add", rows.index, b.constant(k)) if k else rows.index for k in range(together)]
            initial = [v for p in self.by_rows for v in self.initial(p)] * together
            start, stop = self.columns
            with self.open_loop(stop, "reduce", start=start, initial=initial, combine=names * together) as loop:
                loop.yield_(*self._combine_rows(numbers, loop.carried))
            width = len(loop.results) // together
            for k, number in enumerate(numbers):
                self._set_row(number)
                self._finish_row(loop.results[k * width : (k + 1) * width])
        self.leave_loops(self.row)

    def _set_row(self, row: Value) -> None:
        """Set the current row, and forget cached values that depend on the old row."""
        self.leave_loops(self.row)
        self.indices[self.row] = row

    def _combine_rows(self, rows: list[Value], carried: tuple[Value, ...]) -> list[Value]:
        """Emit code that updates the row and column accumulators with the elements of one column. Return the new row accumulators."""
        b = self.builder
        where = b.op("add", self.so_far, self.indices[-1])
        like = [v for p in self.by_columns for v in self.initial(p)]
        scratch = [self.scratch(self.across, k, np.dtype(v.type), writable=True) for k, v in enumerate(like)]
        columns = [b.load(pointer, where) for pointer in scratch]
        following: list[Value] = []
        for number, row in enumerate(rows):
            self._set_row(row)
            for p in self.stage(1):
                if p.task.kind == "map":
                    self.point(p)
            width = len(carried) // len(rows)
            for p, own in self.with_accumulators(self.by_rows, carried[number * width :]):
                following += self.combined(p, own)
            columns = [v for p, own in self.with_accumulators(self.by_columns, columns) for v in self.combined(p, own)]
        self.store_partials(self.across, where, columns)
        self.flush_stores()
        return following

    def _finish_row(self, values: tuple[Value, ...]) -> None:
        """Store a row's result, and compute the values that depend on it.

        If rows are split, only store a partial result.
        """
        if self.along.blocks != 1:
            where = self._scratch_offset(self.along, self.cut - 1, self.indices[self.row])
            self.store_partials(self.along, where, values)
            return
        self.finish_reductions(self.by_rows, values)
        for p in self.both.rows.placed:
            if p.stage > 1:
                self.point(p)
        self.flush_stores()

    def traffic(self) -> tuple[int, int]:
        """Return the bytes read and the bytes written, including partial and elementwise results."""
        read, scratch = super().traffic()
        whole = self.along.blocks == 1
        done = [p for p in self.group.placed if p.stage == 1 and p.task.kind == "map"]
        done += [p for p in self.both.rows.placed if whole and p not in done]
        return read, scratch + sum(bytes_written(p.task) for p in done if p.task.node not in self.group.private)
