"""Split reductions and running folds: what is long as two kernels over chunks of a fixed length.

In: a group whose tasks fold, its nest, and how the outermost inner loop is cut. Out: a kernel that folds the chunks into scratch
memory; then one that folds those in order, or, for running folds, one that runs along each chunk from what those before it
have. Always true: the tree depends on the shape alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from weft.codegen import Value, fold
from weft.fusion.expr import Expr
from weft.fusion.group import Placed
from weft.fusion.kernel_writer import KernelWriter


@dataclass(frozen=True, slots=True)
class Split:
    """How a reduction is cut: `chunks` chunks of `length` of the outermost reduce loop's `extent`."""

    chunks: int
    length: int
    extent: int
    rows: tuple[int, ...]
    base: int  # number of its first scratch buffer


class SplitWriter(KernelWriter):
    """Writes one of the two kernels."""

    def build_partials(self, folds: list[Placed], split: Split) -> None:
        """Each chunk of the outermost reduce loop folded by itself into scratch memory."""
        before, inner = self.stage(0), self.stage(1)

        def at_point() -> None:
            for placed in before:
                self.compute(placed)
            bounds = self._bounds(split)
            carriers = [p for p in inner if p.task.kind == "reduce"]
            initial = [v for p in carriers for v in self.initial(p)]
            final = self._inner_loop(carriers, inner, len(self.nest.outer), initial, bounds)
            self._store_partials(split, final)

        self._parallel(0, at_point)

    def _bounds(self, split: Split) -> tuple[Value, Value]:
        """Where the open chunk begins and ends."""
        with self.builder.at(1):
            size = self.integer(split.length, "length")
            start = self.builder.op("multiply", self.indices[0], size)
            extent = self.integer(split.extent, "extent")
            return start, self.builder.op("minimum", self.builder.op("add", start, size), extent)

    def _store_partials(self, split: Split, values: Iterable[Value]) -> None:
        where = self._scratch_index(split, range(len(self.nest.outer)))
        for k, value in enumerate(values):
            self.builder.store(self.scratch(split, k, np.dtype(value.type), writable=True), where, value)

    def build_totals(self, scans: list[Placed], split: Split) -> None:
        """What running folds have at the end of each chunk, from its beginning."""
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
            with self.builder.loop(stop, "reduce", start=start, initial=initial, combine=names) as loop:
                self.indices.append(loop.index)
                following: list[Value] = []
                for p in self.stage(1):
                    if p in scans:
                        at = len(following)
                        following += self.folded(p, loop.carried[at : at + 1])
                    elif p.task.node in needed:
                        self.compute(p)
                loop.yield_(*following)
            self.indices.pop()
            self._store_partials(split, loop.results)

        self._parallel(0, at_point)

    def build_shared(self, scans: list[Placed], split: Split) -> None:
        """Running folds along each chunk, from what the chunks before it have in all."""

        def at_point() -> None:
            depth = len(self.nest.outer)
            bounds = self._bounds(split)
            initial = [v for p in scans for v in self.initial(p)]
            names = tuple(p.task.node.op for p in scans)
            with self.builder.loop(self.indices[0], "reduce", initial=initial, combine=names) as loop:
                self.indices.append(loop.index)
                where = self._scratch_index(split, [depth, *range(1, depth)])
                following: list[Value] = []
                for k, (p, carried) in enumerate(zip(scans, loop.carried, strict=True)):
                    partial = self.builder.load(self.scratch(split, k, np.dtype(carried.type)), where)
                    following += fold(self.builder, p.task.node.op, (carried,), (partial,))
                loop.yield_(*following)
            self.indices.pop()
            self.leave_loops(depth)
            self._inner_loop(scans, self.stage(1), depth, list(loop.results), bounds)

        self._parallel(0, at_point)

    def build_finish(self, folds: list[Placed], split: Split) -> None:
        """The partial folds folded in order, and what follows at each row."""
        before, after = self.stage(0), self.stage(2)

        def at_point() -> None:
            for placed in before:
                self.point(placed)
            depth = len(self.nest.outer)
            initial = [v for p in folds for v in self.initial(p)]
            names = tuple(p.task.node.op for p in folds)
            chunks = self.integer(split.chunks, "chunks")
            with self.builder.loop(chunks, "reduce", initial=initial, combine=names) as loop:
                self.indices.append(loop.index)
                where = self._scratch_index(split, [depth, *range(depth)])
                loaded = [
                    self.builder.load(self.scratch(split, k, np.dtype(v.type)), where)
                    for k, v in enumerate(loop.carried)
                ]
                following: list[Value] = []
                for p in folds:
                    width = slice(len(following), len(following) + len(self.accumulators(p)))
                    following += fold(self.builder, p.task.node.op, loop.carried[width], tuple(loaded[width]))
                loop.yield_(*following)
            self.indices.pop()
            self._finish_folds(folds, loop.results)
            for placed in after:
                self.point(placed)
            self.flush_stores()

        self._parallel(0, at_point)

    def _scratch_index(self, split: Split, order: Iterable[int]) -> Value:
        """Where the open chunk and row have their partial: chunk first, then the rows in loop order."""
        total: Value | None = None
        for k, loop in enumerate(order):
            if total is not None:
                total = self.builder.op("multiply", total, self.integer(split.rows[k - 1], ("rows", k)))
                total = self.builder.op("add", total, self.indices[loop])
            else:
                total = self.indices[loop]
        assert total is not None
        return total

    def scratch(self, split: Split, k: int, dtype: np.dtype, *, writable: bool = False) -> Value:
        """The parameter that points to the partials of accumulator `k`."""
        found = self.pointers.get(("partial", k))
        if found is None:
            found = self.pointers["partial", k] = self.builder.pointer(
                f"p{len(self.pointers)}", dtype, writable=writable, noalias=True, align=64
            )
            self.bindings.append(("partial", split.base + k, 0))
            self.partials.append((split.base + k, split.chunks * prod(split.rows) * dtype.itemsize))
        return found

    def traffic(self) -> tuple[int, int]:
        """The first kernel reads what the group reads and writes the partials, which the second one folds; along chunks it
        reads everything again."""
        read, written = super().traffic()
        scratch = sum(nbytes for _, nbytes in self.partials)
        match self.builder.kernel.name:
            case "partial":
                return read, scratch
            case "finish":
                return scratch, written
        return read + scratch, written
