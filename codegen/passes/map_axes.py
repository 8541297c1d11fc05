"""Map the loops of a logical kernel to the threads of a GPU.

In: a logical kernel, with what `describe_shapes` knows of its sizes as attributes. Out: a threaded kernel with the same effect, and
its launch data as attributes:

scheme     "elements", "planes", "tiles", "rows", "split", "scans", "lookback", "columns", "rows_and_columns",
           "scatter", "temporal_blocking" or "items"
block      threads of a block
per_block, most_blocks
           min(ceil(points of the launch domain / per_block), most_blocks) blocks are worth starting; any other number
           is as right, since every block goes on by the size of the grid. With 0 for most_blocks each block does its own
           items and no more: all of them have to run
shared     bytes of shared memory of "columns" and of reductions of any rows, all of it in `shared` operations (static)

The threaded kernel uses one axis (0) of blocks and threads. Barriers stand in flow that is the same for
the whole block, shuffles in flow that is the same for the whole warp, by conditions that follow from shapes
alone. The tree of a reduction depends on the shape only.

The schedules are listed in `codegen/schedules/table.py`.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.schedules.table import write_schedule
from weft.codegen.target import Target


def launch_data(threaded: Kernel) -> dict[str, Any]:
    """Return the launch parameters of a kernel that `map_axes` made."""
    wanted = ("scheme", "block", "per_block", "most_blocks")
    limits = {name: threaded.attributes.get(name) for name in ("row_limits", "column_lanes")}
    return {name: threaded.attributes[name] for name in wanted} | {
        name: found for name, found in limits.items() if found
    }


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    """Return the threaded form of a logical kernel for a GPU target.

    Raises ValueError for a target that has no threads to give, or a kernel that is threaded already.
    """
    if target.kind != "cuda" or kernel.level != "logical":
        raise ValueError(f"map_axes maps logical kernels for GPUs, not {kernel.level} ones for {target.name}")
    return write_schedule(kernel, target)
