"""Mapping of the loops of a logical kernel to the threads of a GPU.

In: a logical kernel with the attributes of `describe_shapes`. Out: a threaded kernel with the same effect, and its
launch data as attributes:

scheme     "elements", "planes", "tiles", "rows", "split", "scans", "lookback", "columns", "rows_and_columns",
           "scatter", "temporal_blocking" or "items"
block      Threads per block.
per_block, most_blocks
           The useful number of blocks is min(ceil(points of the launch domain / per_block), most_blocks). Any other
           number gives the same result, since blocks continue at the stride of the grid. If most_blocks is 0, each
           block processes only its own items, so all blocks must run.
row_limits A `RowLimits` if each launch chooses how many threads share a row, otherwise empty.
column_lanes
           0, or the number of columns per thread if each launch chooses how many threads process adjacent columns.

The threaded kernel uses one axis (0) of blocks and threads. Control flow around barriers is uniform in the block, and
control flow around shuffles is uniform in the warp. The conditions of this control flow depend only on shapes and
thread indices, except that the last block of a "split" kernel runs more code. The tree of a reduction depends only on
the shape.

The schedules are listed in `codegen/schedules/table.py`.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules.nest import find_nest
from weft.codegen.schedules.table import ANY_SIZES, SCHEDULES, choose_schedule
from weft.codegen.target import Target


def launch_data(threaded: Kernel) -> dict[str, Any]:
    """Return the launch parameters of a kernel that `map_axes` returned."""
    wanted = ("scheme", "block", "per_block", "most_blocks")
    limits = {name: threaded.attributes.get(name) for name in ("row_limits", "column_lanes")}
    return {name: threaded.attributes[name] for name in wanted} | {
        name: found for name, found in limits.items() if found
    }


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    """Lower a logical kernel to a threaded kernel, which contains the code of one GPU thread.

    If the kernel has no chosen schedule, a schedule that needs no sizes is used.

    Raises ValueError if the target is not a GPU, or if the kernel is already threaded.
    """
    if target.kind != "cuda" or kernel.level != "logical":
        raise ValueError(f"map_axes maps logical kernels for GPUs, not {kernel.level} ones for {target.name}")
    decision = kernel.attributes.get("schedule") or choose_schedule(kernel, {}, False, ANY_SIZES)
    schedule = next(each for each in SCHEDULES if each.__name__ == type(decision).__module__)
    threaded: Kernel = schedule.write(kernel, find_nest(kernel), decision, target)
    return threaded
