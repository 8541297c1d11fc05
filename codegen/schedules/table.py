"""The schedules of a GPU, in the order in which they are tried: what weft can do with a logical kernel.

elements   No loops in the body. One loop over whole vectors: each thread does one, in straight code; what is left over is
           done one by one. Without sizes, or for short rows: tiles of rows by columns; division once a tile.
planes     The same over several loops with long rows: vectors where they are aligned, a few rows a thread.
tiles      Operands that lie across go through squares in shared memory.
rows       Folds over side-by-side elements: a warp or the block has a row, in registers where it fits. Without sizes,
           or for short rows and nested folds: up to a warp, or the block, for each item.
joined     Long folds: chunks as rows, and the last block that is through folds what all found.
scans      Running folds along rows: a block has a row, tile by tile. Without sizes, or for short rows: items.
lookback   Running folds along long rows: a block has a tile, and looks back at what those before it found.
columns    Folds across side-by-side items: up to 32 vectors of columns a block, and rows below one another. Without sizes,
           or for nested folds: 32 columns a block.
crossed    Folds along rows and across the same rows: a warp or a block goes down some, its columns in registers.
scatter    Integers folded into few places: each block has places of its own.
sweep      Steps that follow each other, down the rows of a part: a block has a part, its threads the points of a tile.
items      Anything else: loops in order inside one thread for each point.

Joined, crossed, lookback and sweep fit kernels only that were written for them. The file of each has

    fits(kernel, nest, sizes, exact)          the decision for these sizes, for them alone with `exact`, a frozen dataclass; None
                                              where the schedule does not fit
    write(kernel, nest, decision, target)     the threaded kernel
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules import (
    any_rows,
    columns,
    crossed,
    elements,
    folds,
    items,
    joined,
    lookback,
    planes,
    rows,
    scans,
    scatter,
    sweep,
    tiles,
)
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.nest import Nest, find_nest
from weft.codegen.target import Target

SCHEDULES = (
    joined,
    crossed,
    lookback,
    sweep,
    scatter,
    columns,
    any_rows,
    rows,
    tiles,
    planes,
    scans,
    elements,
    folds,
    items,
)
# Those that need no sizes.
ANY_SIZES = SCHEDULES[-3:]


def choose_schedule(kernel: Kernel, sizes: Mapping[str, int], exact: bool) -> Decision:
    """The decision of the first schedule that fits a logical kernel at these sizes."""
    return _first(SCHEDULES, kernel, find_nest(kernel), sizes, exact)


def write_schedule(kernel: Kernel, target: Target) -> Kernel:
    """The threaded form of a logical kernel, by the schedule that was chosen, or one that needs no sizes."""
    nest = find_nest(kernel)
    decision = kernel.attributes.get("schedule") or _first(ANY_SIZES, kernel, nest, {}, False)
    schedule = next(each for each in SCHEDULES if each.__name__ == type(decision).__module__)
    written: Kernel = schedule.write(kernel, nest, decision, target)
    return written


def _first(
    schedules: Sequence[ModuleType], kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool
) -> Decision:
    return next(found for each in schedules if (found := each.fits(kernel, nest, sizes, exact)) is not None)
