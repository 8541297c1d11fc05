"""Splitting of reductions into blocks, and limits on passes over a row.

In: a group and its nest. Out: the length of a block. Invariant: the length depends only on shapes, strides and the
class of machine, and so does the order of a reduction. Column reductions are split into blocks of rows, so that memory
is read contiguously.
"""

from __future__ import annotations

from math import prod

from weft.codegen import Machine
from weft.fusion.graph.reduction_order import LONG_ROW, MANY_ROWS, REDUCTION_BLOCK, ROW_BLOCK, SHORT_COLUMN
from weft.fusion.plan.group import Group, Placed, row_bytes, row_size, start_group
from weft.fusion.plan.nest import Nest, is_contiguous_across, make_nest, reduces_across
from weft.fusion.plan.task import ReductionOrder, Task

# Reading a row again is worthwhile while the row is cached, and while there are enough rows to keep the machine busy.
# Columns, whose elements are not adjacent in memory, are cached only if they are short.
ROW_BYTES = 1 << 20
# Column reductions on a GPU: number of columns per block; minimum number of rows per block; number of elements that one
# launch reduces before a second launch could begin.
COLUMNS = 128
LEAST_ROWS = 128
FEW_ELEMENTS = 1 << 17


def block_length(group: Group, nest: Nest, machine: Machine) -> int:
    """Return the number of iterations per block of a reduction loop, or 0 if the loop is not split.

    A kernel that reads its rows more than once is not split, unless the later passes only compute shifted moments.
    Shifted moments can use the shift of each block.
    """
    again = any(p.stage > 1 and p.inner and p.task.shifted is None for p in group.placed)
    rows = prod(loop.extent for loop in nest.outer)
    if again or not rows or not any(p.task.kind == "reduce" for p in group.placed):
        return 0
    inside = prod(loop.extent for loop in nest.inner[1:])
    if inside == 1 and is_contiguous_across(group, nest):
        length = _rows_per_block(nest.inner[0].extent, rows, machine)
        if length or machine.is_gpu:
            return length
    size = row_size(group)
    if size <= 2 * REDUCTION_BLOCK or (machine.is_gpu and rows >= machine.blocks // 2):
        return 0  # (with many rows, the last block would have to combine the blocks of each of them)
    return max(1, REDUCTION_BLOCK // inside) if rows < MANY_ROWS or size > LONG_ROW else 0


def order_alone(task: Task, machine: Machine) -> ReductionOrder:
    """Return the order in which `task` reduces elements if it is the only task of a kernel.

    Kernels that compute several tasks use the same order.
    """
    if task.order is None:
        alone = Group(0)
        start_group(alone, task)
        nest = make_nest(alone)
        length = block_length(alone, nest, machine)
        across = is_contiguous_across(alone, nest) if machine.is_gpu else reduces_across(alone, nest)
        task.order = ReductionOrder(reduction_loops(alone.placed[0], nest), length, across)
    return task.order


def reduction_loops(placed: Placed, nest: Nest) -> tuple[object, ...]:
    """Return two tuples: the extents of a kernel's inner loops, and the positions of the inner loops over which a given
    task reduces or scans.

    The position of a loop that was merged into another loop is None.
    """
    kept = [nest.position.get(placed.loops[k]) for k, loop in enumerate(placed.task.loops) if loop.role != "parallel"]
    first = len(nest.outer)
    return tuple(loop.extent for loop in nest.inner), tuple(at if at is None else at - first for at in kept)


def _rows_per_block(extent: int, columns: int, machine: Machine) -> int:
    """Return the number of rows per block of a column reduction, or 0 if the reduction is not split."""
    if not machine.is_gpu:
        length = max(ROW_BLOCK, REDUCTION_BLOCK // columns)
        return length if extent > max(SHORT_COLUMN, 2 * length) else 0
    blocks = -(-columns // COLUMNS)
    length = max(LEAST_ROWS, extent * blocks // (2 * machine.blocks))
    few = columns * extent <= FEW_ELEMENTS
    return 0 if few or blocks >= machine.blocks or extent < 2 * length else length


def reread_rejection(group: Group, task: Task, machine: Machine) -> str:
    """Return why a kernel must not read its rows again for a task, or "" if it may.

    On a GPU, a row that is not split may be read again even if it is no longer in the cache. A separate kernel would
    also read it from memory, and would have to be compiled.
    """
    length = row_size(group)
    rows = prod(loop.extent for loop in group.loops if loop.role == "parallel")
    if rows < MANY_ROWS and length > machine.row_length and task.kind != "reduce":
        return "it needs the complete reduction, and the rows are too few for all threads"
    along, across = row_bytes(group)
    whole = task.kind == "reduce" and rows * length * (along + across) <= ROW_BYTES
    if across > along and not whole:
        if _rows_per_block(length, rows, machine) if machine.is_gpu else length > SHORT_COLUMN:
            return "it needs the complete reduction before it reads the columns again"
    if length > LONG_ROW or (not machine.is_gpu and length * (along + across) > ROW_BYTES):
        return "it needs the complete reduction, and the row does not fit in the cache"
    return ""
