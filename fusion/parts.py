"""Parts: which folds are cut into chunks of a fixed length, and how long these are.

In: a group and its nest. Out: the length of a chunk. Always true: it follows from the shape, so that the tree of a fold does.
Columns are cut into bands of rows: a machine that goes down a few rows at a time reads side by side what lies side by side.
"""

from __future__ import annotations

from math import prod

from weft.fusion.group import LONG_ROW, MANY_ROWS, SHORT_COLUMN, Group, row_size
from weft.fusion.nest import Nest, goes_across

# Elements that one chunk of a split reduction folds: so many stay in a core's second cache, and in the registers of a GPU's block.
CHUNK = 1 << 14
# Rows of a band of columns on a CPU: as many streams as it reads ahead.
BAND = 32
# A GPU finds no part too small that is columns: blocks that fill it, with how many columns each, how many rows they go down at
# least, and elements of which one launch is through before a second one would have begun.
FULL = 512
COLUMNS = 128
LEAST_ROWS = 128
FEW_ELEMENTS = 1 << 17


def chunk_length(group: Group, nest: Nest, *, for_gpu: bool = False) -> int:
    """Into chunks of how many turns the outermost reduce loop is cut; 0 where it is not.

    Never where the kernel goes over its rows again, but for what can be measured from the centre of a chunk.
    """
    again = any(p.stage > 1 and p.inner and p.task.centred is None for p in group.placed)
    rows = prod(loop.extent for loop in nest.outer)
    if again or not rows or not any(p.task.kind == "reduce" for p in group.placed):
        return 0
    inside = prod(loop.extent for loop in nest.inner[1:])
    if inside == 1 and goes_across(group, nest):
        length = _band_on_gpu(nest.inner[0].extent, rows) if for_gpu else _band(nest.inner[0].extent, rows)
        if length or for_gpu:
            return length
    size = row_size(group)
    if size <= 2 * CHUNK or (for_gpu and rows >= FULL // 2):
        return 0  # (many rows: the last block would have something to do for each)
    return max(1, CHUNK // inside) if rows < MANY_ROWS or size > LONG_ROW else 0


def _band(extent: int, columns: int) -> int:
    """How many rows of columns as long as that one thread of a CPU goes down; shorter columns are gone over again."""
    length = max(BAND, CHUNK // columns)
    return length if extent > max(SHORT_COLUMN, 2 * length) else 0


def _band_on_gpu(extent: int, columns: int) -> int:
    blocks = -(-columns // COLUMNS)
    length = max(LEAST_ROWS, extent * blocks // (2 * FULL))
    few = columns * extent <= FEW_ELEMENTS
    return 0 if few or blocks >= FULL or extent < 2 * length else length
