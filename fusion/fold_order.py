"""The order in which the CPU reduces: what a kernel of one reduction alone does, as numbers.

In: a reduction and the values that are in memory. Out: a `Tree`, by which `fold_values` gives the same bits without the
kernel. Invariant: planning gives every sum the order that it has alone (`grouping.changes_sums`), so the tree is a property
of the reduction and of how its operand lies in memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from weft.codegen import Target, find_fold_lanes
from weft.fusion.expr import Expr
from weft.fusion.group import Group, start_group
from weft.fusion.kernels import lower_for
from weft.fusion.nest import all_forms, make_nest, order_loops
from weft.fusion.parts import BAND, CHUNK, LONG_ROW, MANY_ROWS, SHORT_COLUMN, chunk_length
from weft.fusion.task import Task, make_task

# Reductions of rows of so few elements are written out, element by element.
SHORT = 4


@dataclass(frozen=True, slots=True)
class Level:
    """How one kernel runs through its reduction loops: which of them is in lanes (-1: none), and whether the elements that fill
    no vector are too."""

    lanes: int = -1
    masked: bool = True


@dataclass(frozen=True, slots=True)
class Tree:
    """The order of a reduction.

    Attributes
    ----------
    pieces : tuple of int
        Loops that run over the operand in C order: its axes of more than one element, some of them cut.
    outer, inner : tuple of int
        The loops that stay and those that are reduced, outermost first.
    extents : tuple of int
        How far the reduced loops run, once those that are one loop in memory are merged.
    chunk : int
        Iterations of the outermost reduced loop in a chunk; 0: it is not cut.
    first, last : Level
        The kernel that reduces elements, and the one that reduces what chunks have.
    """

    pieces: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    extents: tuple[int, ...]
    chunk: int
    first: Level
    last: Level


def find_tree(node: Expr, stored: Collection[Expr], short: Collection[Expr], target: Target) -> Tree:
    """Return the order of a reduction whose operand is computed from `stored` values; `short` reductions are written out."""
    return tree_of(make_task(node, set(stored), [], short), target)


def tree_of(task: Task, target: Target) -> Tree:
    """Return the order of a reduction by its task."""
    group = Group(0)
    start_group(group, task)
    nest = make_nest(group)
    forms = all_forms(group)
    own = {theirs: k for k, theirs in group.placed[0].loops.items()}
    inner = [k for k, loop in enumerate(group.loops) if loop.role == "reduce"]
    order = tuple(own[k] for k in order_loops(group, inner, forms))
    outer = tuple(k for k, loop in enumerate(task.loops) if loop.role == "parallel")
    levels = []
    lowered = lower_for(target, group, special=False)
    for kernel in lowered:
        found = find_fold_lanes(kernel.kernel, target)
        levels.append(Level() if found is None else Level(*found))
    extents = tuple(loop.extent for loop in nest.inner)
    chunk = chunk_length(group, nest)
    pieces = tuple(loop.extent for loop in task.loops)
    return Tree(pieces, outer, order, extents, chunk, levels[0], levels[-1])


@lru_cache(maxsize=4096)
def plain_tree(shape: tuple[int, ...], axes: tuple[int, ...], masks: bool) -> Tree | None:
    """Return the order of a reduction of a C-ordered array of this shape, where it is known without making a kernel: over all
    axes, the last ones, or the first ones; None for others. `masks`: as `Target.has_masks` says."""
    sizes = [(n, k in axes) for k, n in enumerate(shape) if n != 1]
    merged: list[tuple[int, bool]] = []
    for n, folded in sizes:
        if merged and merged[-1][1] == folded:
            merged[-1] = merged[-1][0] * n, folded
        else:
            merged.append((n, folded))
    pieces = tuple(n for n, _ in merged)
    lanes = Level(0, masks)
    match [folded for _, folded in merged]:
        case [True]:
            n = pieces[0]
            chunk = CHUNK if n > 2 * CHUNK else 0
            return Tree(pieces, (), (0,), pieces, chunk, lanes, lanes)
        case [False, True]:
            rows, n = pieces
            cut = n > 2 * CHUNK and (rows < MANY_ROWS or n > LONG_ROW)
            first = lanes if n > SHORT else Level()
            return Tree(pieces, (0,), (1,), (n,), CHUNK if cut else 0, first, Level())
        case [True, False]:
            n, columns = pieces
            length = max(BAND, CHUNK // columns)
            cut = n > max(SHORT_COLUMN, 2 * length)
            return Tree(pieces, (1,), (0,), (n,), length if cut else 0, Level(), Level())
    return None
