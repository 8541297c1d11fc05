"""GPU schedules for logical kernels, in the order in which they are tried.

The table of schedules in `docs/architecture/codegen.md` describes each of them.

`split_reductions`, `rows_and_columns`, `lookback` and `temporal_blocking` fit only kernels that were written for them.
Each file has

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
from weft.codegen.schedules.nest import find_nest

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


def choose_schedule(
    kernel: Kernel, sizes: Mapping[str, int], exact: bool, schedules: Sequence[ModuleType] = SCHEDULES
) -> Decision:
    """Return the parameters of the first schedule that fits a kernel with the given sizes."""
    nest = find_nest(kernel)
    return next(found for each in schedules if (found := each.fits(kernel, nest, sizes, exact)) is not None)
