"""Lowering: a group to logical kernels in kernel IR, with what to bind to their parameters.

In: a `Group`. Out: one `Lowered` kernel, or two where a long reduction with few results is split
(partial folds in chunks of a fixed length, then a fold of the partials in order: the same tree for a
shape, whatever runs it).
"""

from __future__ import annotations

from math import prod

from weft.fusion.body import Loop
from weft.fusion.group import Group, Placed, row_size
from weft.fusion.kernel_writer import KernelWriter, Lowered
from weft.fusion.nest import Nest, make_nest
from weft.fusion.split_writer import Split, SplitWriter

# Elements that one chunk of a split reduction folds, and from where on splitting pays.
CHUNK = 1 << 15
SPLIT_ROWS = 64


def lower_group(group: Group, partial_base: int = 0, *, parametric: bool = False) -> list[Lowered]:
    """The kernels of `group`. With `parametric`, the program's constants are parameters too, so that
    one kernel serves all their values."""
    nest = make_nest(group)
    folds = [p for p in group.placed if p.task.kind == "reduce"]
    if is_split(group):
        return _lower_split(group, nest, folds, partial_base, parametric)
    writer = KernelWriter(group, nest, "fused", parametric)
    writer.build(folds)
    return [writer.finish()]


def is_split(group: Group) -> bool:
    """Whether its folds are long and too few to share the work by: two launches, of which the second has little to do."""
    folds = any(p.task.kind == "reduce" for p in group.placed)
    rows = prod(loop.extent for loop in group.loops if loop.role == "parallel")
    return folds and rows < SPLIT_ROWS and row_size(group) > 2 * CHUNK


def _lower_split(group: Group, nest: Nest, folds: list[Placed], base: int, parametric: bool) -> list[Lowered]:
    extent = nest.inner[0].extent
    length = max(1, CHUNK // prod(loop.extent for loop in nest.inner[1:]))
    rows = tuple(loop.extent for loop in nest.outer)
    split = Split(-(-extent // length), length, extent, rows, base)
    chunked = Nest(
        [Loop(split.chunks, "parallel"), *nest.outer], nest.inner, {k: at + 1 for k, at in nest.position.items()}
    )
    first = SplitWriter(group, chunked, "partial", parametric)
    first.build_partials(folds, split)
    finishing = Nest(
        nest.outer, [Loop(split.chunks, "reduce")], {k: at for k, at in nest.position.items() if at < len(rows)}
    )
    second = SplitWriter(group, finishing, "finish", parametric)
    second.build_finish(folds, split)
    return [first.finish(), second.finish()]
