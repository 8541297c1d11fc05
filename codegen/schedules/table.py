"""The list of GPU schedules for logical kernels, in the order in which they are tried.

split_reductions   Long reductions: blocks reduce parts; the last block to finish combines the partial results.
rows_and_columns   Row-and-column reductions: a warp or a block iterates over rows, with its columns in registers.
lookback           Scans along long rows: a block per tile, which looks back at the totals of previous tiles.
temporal_blocking  Temporal blocking: a block per part of the work, whose threads compute the points of a tile.
scatter            Integers reduced into few elements: each block has its own accumulators.
columns            Column reductions: up to 32 adjacent vectors of columns per block, and threads that share each column.
any_rows           Row reductions, with one kernel for rows of any length.
rows               Row reductions: a warp or the block per row, in registers if the row fits.
tiles              Pointwise kernels with transposed operands, which pass through tiles in shared memory.
planes             Pointwise kernels of several loops: aligned vectors, several rows per thread, which share loaded data.
scans              Scans along rows: a block per row, tile by tile.
elements           Pointwise kernels of one loop. Each thread computes one or two whole vectors in straight-line code.
                   Without sizes, or for several loops with short rows: tiles of rows by columns, with one division per tile.
reductions         Other reductions, of short rows or nested: one thread, a warp or the block per item.
items              All other kernels: one thread per point, with serial loops.

`split_reductions`, `rows_and_columns`, `lookback` and `temporal_blocking` fit only kernels that were written for them. Each file has

    fits(kernel, nest, sizes, exact)          the decision for these sizes, or None if the schedule does not fit; with
                                              `exact`, for these sizes only
    write(kernel, nest, decision, target)     the threaded kernel
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules import (
    any_rows,
    columns,
    elements,
    items,
    lookback,
    planes,
    reductions,
    rows,
    rows_and_columns,
    scans,
    scatter,
    split_reductions,
    temporal_blocking,
    tiles,
)
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.nest import Nest, find_nest
from weft.codegen.target import Target

SCHEDULES = (
    split_reductions,
    rows_and_columns,
    lookback,
    temporal_blocking,
    scatter,
    columns,
    any_rows,
    rows,
    tiles,
    planes,
    scans,
    elements,
    reductions,
    items,
)
# Schedules that need no sizes.
ANY_SIZES = SCHEDULES[-3:]


def choose_schedule(kernel: Kernel, sizes: Mapping[str, int], exact: bool) -> Decision:
    """Return the parameters of the first GPU schedule that fits a logical kernel and the array sizes."""
    return _first(SCHEDULES, kernel, find_nest(kernel), sizes, exact)


def write_schedule(kernel: Kernel, target: Target) -> Kernel:
    """Lower a logical kernel to a kernel for GPU threads.

    If the kernel has no chosen schedule, a schedule that needs no sizes is used.
    """
    nest = find_nest(kernel)
    decision = kernel.attributes.get("schedule") or _first(ANY_SIZES, kernel, nest, {}, False)
    schedule = next(each for each in SCHEDULES if each.__name__ == type(decision).__module__)
    written: Kernel = schedule.write(kernel, nest, decision, target)
    return written


def _first(
    schedules: Sequence[ModuleType], kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool
) -> Decision:
    return next(found for each in schedules if (found := each.fits(kernel, nest, sizes, exact)) is not None)
