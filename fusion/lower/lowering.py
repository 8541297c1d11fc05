"""Lowering of fused operations to kernel IR.

In: a `Group`. Out: its `Lowered` kernels, usually one. A reduction that is split has two: one reduces each block, and
the other combines the partial results in order. Scans whose rows several threads share also have two kernels, and
row-and-column reductions have up to three. The order of a reduction depends only on its axes, the memory layout of its
operand, and the class of machine.
"""

from __future__ import annotations

from math import prod

from weft.codegen import CPU, Machine
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.sizes import square_root
from weft.fusion.lower.block_writer import BlockWriter
from weft.fusion.lower.blocked_steps_writer import BlockedStepsWriter
from weft.fusion.lower.kernel_writer import KernelWriter, Lowered
from weft.fusion.lower.row_column_writer import lower_row_columns
from weft.fusion.lower.split_writer import Split, SplitWriter
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.body import Loop
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.nest import Nest, is_contiguous_across, make_nest
from weft.fusion.plan.reduction_splits import block_length
from weft.fusion.plan.row_column_reductions import RowsAndColumns

# Name of the kernel that combines the results of blocks.
FINISH = "finish"
# Block length of scans along rows. Rows of more than two blocks are shared by threads.
SCAN_BLOCK = 1 << 15
# Scans of columns: minimum number of adjacent columns; number of threads that fill a GPU; minimum number of rows per
# block.
SIDE_BY_SIDE = 64
SCANNING = 1 << 17
LEAST_ROWS = 16
# Ops that a GPU performs on integers in memory atomically.
ATOMIC = frozenset({"add", "subtract", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor"})


def lower_group(group: Group, *, parametric: bool = False, machine: Machine | None = None) -> list[Lowered]:
    """Return the kernels that compute a group of fused operations, in kernel IR.

    With `parametric`, the program's constants become parameters, so that one kernel serves all values. Without a
    machine, reductions are split as on a CPU, and no other machine-specific code is emitted.
    """
    if isinstance(group, BlockedSteps) and group.tile:
        return [BlockWriter(group, parametric).write()]
    if isinstance(group, BlockedSteps):
        return [BlockedStepsWriter(group, parametric).write()]
    if isinstance(group, RowsAndColumns):
        return lower_row_columns(group, parametric)
    on_cpu = machine is not None and not machine.is_gpu
    nest = make_nest(group)
    any_order = machine is not None and machine.is_gpu and any(scatters_in_any_order(p) for p in group.placed)
    if any_order:
        nest = Nest([*nest.outer, *(Loop(loop.extent, "parallel") for loop in nest.inner)], [], nest.position)
    length = block_length(group, nest, machine or CPU)
    if length:
        return _lower_split(group, nest, length, parametric, for_cpu=on_cpu)
    length = scan_length(group, nest, machine) if machine else 0
    if length:
        return _lower_shared(group, nest, length, parametric, for_cpu=on_cpu)
    writer = KernelWriter(group, nest, "fused", parametric, for_cpu=on_cpu)
    writer.any_order = any_order
    writer.build()
    return [writer.finish()]


def scatters_in_any_order(placed: Placed) -> bool:
    """Return whether the threads of a GPU may perform the writes of a scatter in any order."""
    node = placed.task.node
    if placed.task.kind != "scatter":
        return False
    return node.op == "same" or (node.op in ATOMIC and node.dtype.kind in "iu" and node.dtype.itemsize >= 4)


def shares_rows(group: Group, nest: Nest) -> bool:
    """Return whether a group scans rows that are long enough for several threads to share a row."""
    return _is_scan_group(group, nest) and nest.inner[0].extent > 2 * SCAN_BLOCK


def _is_scan_group(group: Group, nest: Nest) -> bool:
    """Return whether a group has one inner loop, with independent scans and elementwise operations."""
    scans = any(p.task.kind == "scan" for p in group.placed) and all(p.stage == 1 for p in group.placed)
    return scans and len(nest.inner) == 1 and not _is_chained(group)


def _is_chained(group: Group) -> bool:
    """Return whether a scan in a group depends on another scan in the group."""
    behind: set[Expr] = set()
    for p in group.placed:
        later = any(node in behind for node, _ in p.task.reads())
        if later and p.task.kind == "scan":
            return True
        if later or p.task.kind == "scan":
            behind.add(p.task.node)
    return False


def scan_length(group: Group, nest: Nest, machine: Machine) -> int:
    """Return the block length of scans that several threads share, or 0 if the scans are not split.

    On a GPU, adjacent threads scan adjacent columns. If the block length is the square root of the column's length, a
    thread processes about twice that number of elements: the elements of its block, and the totals of the previous
    blocks.
    """
    if not machine.is_gpu:
        return SCAN_BLOCK if shares_rows(group, nest) else 0
    if _is_scan_group(group, nest):
        extent = nest.inner[0].extent
        columns = prod(loop.extent for loop in nest.outer)
        wide = SIDE_BY_SIDE <= columns <= SCANNING // 2
        if not wide or extent < 2 * LEAST_ROWS or not is_contiguous_across(group, nest):
            return 0
        row_blocks = min(SCANNING // columns, square_root(extent))
        return max(LEAST_ROWS, -(-extent // row_blocks)) if row_blocks > 1 else 0
    return 0


def _split_loop(nest: Nest, length: int) -> tuple[Split, Nest]:
    """Split the loop `nest.inner[0]` into blocks of `length` iterations. Return a `Split`, and a nest with an outermost loop over the blocks."""
    extent = nest.inner[0].extent
    rows = tuple(loop.extent for loop in nest.outer)
    inside = prod(loop.extent for loop in nest.inner[1:])
    split = Split(-(-extent // length), length, extent, inside, rows)
    outer = [Loop(split.blocks, "parallel"), *nest.outer]
    return split, Nest(outer, nest.inner, {k: at + 1 for k, at in nest.position.items()})


def _lower_shared(group: Group, nest: Nest, length: int, parametric: bool, *, for_cpu: bool) -> list[Lowered]:
    scans = [p for p in group.placed if p.task.kind == "scan"]
    split, split_nest = _split_loop(nest, length)
    first = SplitWriter(group, split_nest, "partial", parametric, for_cpu=for_cpu)
    second = SplitWriter(group, split_nest, "shared", parametric, for_cpu=for_cpu)
    first.build_totals(scans, split)
    second.build_shared(scans, split)
    return [first.finish(), second.finish()]


def _lower_split(group: Group, nest: Nest, length: int, parametric: bool, *, for_cpu: bool) -> list[Lowered]:
    split, split_nest = _split_loop(nest, length)
    rows = split.rows
    first = SplitWriter(group, split_nest, "partial", parametric, for_cpu=for_cpu)
    first.build_partials(split)
    finishing = Nest(
        nest.outer, [Loop(split.blocks, "reduce")], {k: at for k, at in nest.position.items() if at < len(rows)}
    )
    second = SplitWriter(group, finishing, FINISH, parametric)
    second.build_finish(split)
    return [first.finish(), second.finish()]
