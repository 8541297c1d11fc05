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

Asked for are those whose kernels say so by an attribute from the start: who wrote them wrote them for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules import (
    any_rows,
    columns,
    crossed,
    elements,
    folds,
    joined,
    lookback,
    planes,
    rows,
    scans,
    scatter,
    sweep,
    tiles,
)
from weft.codegen.schedules.nest import Nest, find_nest
from weft.codegen.target import Target


def _fits_any(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> dict[str, Any]:
    """Nothing is said of sizes."""
    return {}


@dataclass(frozen=True, slots=True)
class Schedule:
    """One way to divide a kernel's work among threads.

    Attributes
    ----------
    attribute : str
        By which a kernel says that it has the schedule; "" where it has it without.
    fits : callable
        ``fits(kernel, nest, sizes, exact)``: attributes of the kernel for these sizes, for them alone with `exact`; none where the
        schedule does not fit.
    write : callable
        ``write(kernel, nest, target)``: the threaded kernel; None where the kernel cannot have the schedule.
    asked : bool
        Whether only kernels have it that were written for it.
    specialised : bool
        Whether a kernel for exact sizes is another one than for all.
    """

    attribute: str
    fits: Callable[[Kernel, Nest, Mapping[str, int], bool], dict[str, Any]]
    write: Callable[[Kernel, Nest, Target], Kernel | None]
    asked: bool = False
    specialised: bool = True


SCHEDULES = (
    Schedule("joined", joined.fits, joined.write, asked=True),
    Schedule("crossed", crossed.fits, crossed.write, asked=True),
    Schedule("lookback", lookback.fits, lookback.write, asked=True),
    Schedule("sweep", sweep.fits, sweep.write, asked=True),
    Schedule("private", scatter.fits, scatter.write),
    Schedule("columns", columns.fits, columns.write),
    Schedule("rows", any_rows.fits, any_rows.write),
    Schedule("row", rows.fits, rows.write),
    Schedule("tile", tiles.fits, tiles.write),
    Schedule("plane", planes.fits, planes.write),
    Schedule("scan", scans.fits, scans.write),
    Schedule("", elements.fits, elements.write, specialised=False),
    Schedule("", _fits_any, folds.write),
    Schedule("", _fits_any, elements.write_items),
)


def choose_schedule(kernel: Kernel, sizes: Mapping[str, int], exact: bool) -> dict[str, Any]:
    """The attributes of the first schedule that fits a logical kernel at these sizes."""
    nest = find_nest(kernel)
    asked = [each for each in SCHEDULES if each.asked and each.attribute in kernel.attributes]
    for schedule in asked or SCHEDULES:
        found = {} if schedule.asked and not asked else schedule.fits(kernel, nest, sizes, exact)
        if found:
            if exact and schedule.specialised:
                found["exact"] = tuple(x for name in sorted(sizes) for x in (name, int(sizes[name])))
            return found
    return {}


def write_schedule(kernel: Kernel, target: Target) -> Kernel:
    """The threaded form of a logical kernel, by the schedule that its attributes name."""
    nest = find_nest(kernel)
    for schedule in SCHEDULES:
        if not schedule.attribute or schedule.attribute in kernel.attributes:
            written = schedule.write(kernel, nest, target)
            if written is not None:
                return written
    raise AssertionError("every kernel can be written item by item")
