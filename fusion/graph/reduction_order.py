"""The order of reductions on the CPU, as data.

In: the shape of an array and the reduced axes. Out: a `Tree`, with which `reduce_arrays` computes the same bits as a
kernel would. Invariant: every sum has the order that it has in a kernel of its own (`grouping.changes_sums`). The tree
therefore depends only on the reduction and its operand's memory layout. `compiled_loops.find_tree` finds the order
for computed operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

# Reductions of rows of so few elements are written out, element by element.
SHORT = 8
# Elements that one chunk of a split reduction folds: so many stay in a core's L2 cache, and in the registers of a GPU's block.
CHUNK = 1 << 14
# Rows of a band of columns on a CPU: as many streams as it reads ahead.
BAND = 32
# Rows that are enough to keep a machine busy, longer columns than are worth a second pass, and rows too long for any cache.
MANY_ROWS = 64
SHORT_COLUMN = 512
LONG_ROW = 1 << 18


@dataclass(frozen=True, slots=True)
class Level:
    """The order of the reduction loops in one kernel.

    `lanes` is the loop that runs in vector lanes (-1: none). `masked` states whether the remainder of that loop also
    runs in vector lanes, with a mask.
    """

    lanes: int = -1
    masked: bool = True


@dataclass(frozen=True, slots=True)
class Tree:
    """The order of a reduction.

    Attributes
    ----------
    pieces : tuple of int
        Extents of the loops over the operand in C order: its axes of more than one element, some of them split.
    outer, inner : tuple of int
        Numbers of the loops that are kept, and of those that are reduced, outermost first.
    extents : tuple of int
        Extents of the reduced loops, after loops that are contiguous in memory are merged.
    chunk : int
        Iterations of the outermost reduced loop in a block, or 0 if the loop is not split.
    first, last : Level
        The order in the kernel that reduces elements, and in the kernel that combines the blocks' results.
    """

    pieces: tuple[int, ...]
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    extents: tuple[int, ...]
    chunk: int
    first: Level
    last: Level


@lru_cache(maxsize=4096)
def plain_tree(shape: tuple[int, ...], axes: tuple[int, ...], masks: bool) -> Tree | None:
    """Return the order of a reduction of a C-ordered array over all axes, its first axes or its last axes.

    Return None for other axes. `masks` is `Target.has_masks`.
    """
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
        case []:
            return Tree((), (), (), (), 0, Level(), Level())
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
            length = max(BAND, CHUNK // max(1, columns))
            cut = n > max(SHORT_COLUMN, 2 * length)
            return Tree(pieces, (1,), (0,), (n,), length if cut else 0, Level(), Level())
    return None
