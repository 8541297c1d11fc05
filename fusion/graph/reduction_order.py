"""The order of reductions on the CPU.

In: the shape of an array and the reduced axes. Out: a `Tree`, with which the results of `reduce_arrays` are
bit-identical to those of a kernel. Invariant: fusion does not change the order of a sum (`grouping.changes_sums`). The
tree therefore depends only on the reduction and its operand's memory layout. `compiled_loops.find_tree` finds the order
for computed operands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

# Maximum length of rows whose reductions are unrolled.
SHORT = 8
# Number of elements that one block of a split reduction reduces: they fit in the L2 cache of a core, and in the
# registers of a GPU thread block.
REDUCTION_BLOCK = 1 << 14
# Minimum rows per block of a column reduction on a CPU: the number of streams that a CPU prefetches.
ROW_BLOCK = 32
# Minimum number of rows that keeps a machine busy; maximum length of a column for which a second pass is not
# worthwhile; length of a row that exceeds every cache.
MANY_ROWS = 64
SHORT_COLUMN = 512
LONG_ROW = 1 << 18


class LaneLoop(NamedTuple):
    """The vectorized loop of a reduction kernel, which determines the order of the reduction.

    `lanes` is the index of this loop among the reduced loops (-1: none). `masked` states whether the remainder of this
    loop also runs in vector lanes, with a mask.
    """

    lanes: int = -1
    masked: bool = True


class Tree(NamedTuple):
    """The order in which a CPU kernel combines the elements of a reduction."""

    # extents of the loops over the operand in C order: the axes with more than one element, some of which are split
    pieces: tuple[int, ...]
    outer: tuple[int, ...]  # indices of the loops that are not reduced
    inner: tuple[int, ...]  # indices of the loops that are reduced, outermost first
    extents: tuple[int, ...]  # of the reduced loops, after loops that are contiguous in memory are merged
    block_length: int  # iterations of the outermost reduced loop per block, or 0 if the loop is not split
    # the order in the kernel that reduces elements, and in the kernel that combines the blocks' results
    first: LaneLoop
    last: LaneLoop


def is_in_blocks(rows: int, length: int) -> bool:
    """Return whether each of several contiguous rows is reduced in blocks."""
    return length > 2 * REDUCTION_BLOCK and (rows < MANY_ROWS or length > LONG_ROW)


@lru_cache(maxsize=4096)
def plain_tree(shape: tuple[int, ...], axes: tuple[int, ...], masks: bool) -> Tree | None:
    """Return the order in which a C-ordered array is reduced over leading or trailing axes.

    These may be all axes. Return None for other axes. `masks` is `Target.has_masks`.
    """
    sizes = [(n, k in axes) for k, n in enumerate(shape) if n != 1]
    merged: list[tuple[int, bool]] = []
    for n, reduced in sizes:
        if merged and merged[-1][1] == reduced:
            merged[-1] = merged[-1][0] * n, reduced
        else:
            merged.append((n, reduced))
    pieces = tuple(n for n, _ in merged)
    lanes = LaneLoop(0, masks)
    match [reduced for _, reduced in merged]:
        case []:
            return Tree((), (), (), (), 0, LaneLoop(), LaneLoop())
        case [True]:
            n = pieces[0]
            block_length = REDUCTION_BLOCK if n > 2 * REDUCTION_BLOCK else 0
            return Tree(pieces, (), (0,), pieces, block_length, lanes, lanes)
        case [False, True]:
            n = pieces[1]
            first = lanes if n > SHORT else LaneLoop()
            return Tree(pieces, (0,), (1,), (n,), REDUCTION_BLOCK if is_in_blocks(*pieces) else 0, first, LaneLoop())
        case [True, False]:
            n, columns = pieces
            length = max(ROW_BLOCK, REDUCTION_BLOCK // max(1, columns))
            cut = n > max(SHORT_COLUMN, 2 * length)
            return Tree(pieces, (1,), (0,), (n,), length if cut else 0, LaneLoop(), LaneLoop())
    return None
