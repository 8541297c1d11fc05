"""Give the loops of a logical kernel to the threads of a GPU.

In: a logical kernel, with what `describe_shapes` knows of its sizes as attributes. Out: a threaded kernel with the same effect, and
its launch data as attributes:

scheme     "elements", "planes", "tiles", "rows", "joined", "scans", "lookback", "columns", "crossed",
           "scatter", "sweep" or "items"
block      threads of a block
per_block, most_blocks
           min(ceil(points of the launch domain / per_block), most_blocks) blocks are worth starting; any other number
           is as right, since every block goes on by the size of the grid. With 0 for most_blocks each block does its own
           items and no more: all of them have to run
shared     bytes of shared memory of "columns" and of folds of any rows, all of it in `shared` operations (static)

The threaded kernel uses one axis (0) of blocks and threads. Barriers stand in flow that is the same for
the whole block, shuffles in flow that is the same for the whole warp, by conditions that follow from shapes
alone. The tree of a fold depends on the shape only.

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
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.map_axes_any_rows import map_any_rows
from weft.codegen.passes.map_axes_columns import map_columns
from weft.codegen.passes.map_axes_crossed import map_crossed
from weft.codegen.passes.map_axes_elements import map_items, map_line, map_plane, vector_lanes
from weft.codegen.passes.map_axes_folds import map_folds
from weft.codegen.passes.map_axes_joined import map_joined
from weft.codegen.passes.map_axes_lookback import map_lookback
from weft.codegen.passes.map_axes_nest import find_nest, has_loops
from weft.codegen.passes.map_axes_planes import map_plane_of_rows
from weft.codegen.passes.map_axes_rows import map_rows
from weft.codegen.passes.map_axes_scans import map_scan
from weft.codegen.passes.map_axes_scatter import map_scatter
from weft.codegen.passes.map_axes_sweep import map_sweep
from weft.codegen.passes.map_axes_tiles import map_tiles
from weft.codegen.target import Target


def launch_data(threaded: Kernel) -> dict[str, Any]:
    """What the runtime has to know to launch a kernel that `map_axes` made."""
    wanted = ("scheme", "block", "per_block", "most_blocks")
    limits = {name: threaded.attributes.get(name) for name in ("row_limits", "column_lanes")}
    return {name: threaded.attributes[name] for name in wanted} | {
        name: found for name, found in limits.items() if found
    }


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    """The threaded form of a logical kernel for a GPU target.

    Raises ValueError for a target that has no threads to give, or a kernel that is threaded already.
    """
    if target.kind != "cuda" or kernel.level != "logical":
        raise ValueError(f"map_axes maps logical kernels for GPUs, not {kernel.level} ones for {target.name}")
    if "joined" in kernel.attributes:
        return map_joined(kernel)
    nest = find_nest(kernel)
    if "sweep" in kernel.attributes:
        return map_sweep(kernel, nest)
    if "crossed" in kernel.attributes:
        return map_crossed(kernel, nest)
    if "private" in kernel.attributes:
        return map_scatter(kernel, nest)
    if "tile" in kernel.attributes:
        return map_tiles(kernel, nest)
    if "lookback" in kernel.attributes:
        return map_lookback(kernel, nest)
    if "scan" in kernel.attributes:
        return map_scan(kernel, nest)
    if "plane" in kernel.attributes:
        return map_plane_of_rows(kernel, nest)
    if not has_loops(nest.item) and nest.levels:
        lanes, aligned = vector_lanes(kernel, nest)
        return map_line(kernel, nest, lanes, aligned, target) if lanes > 1 else map_plane(kernel, nest)
    if "columns" in kernel.attributes:
        return map_columns(kernel, nest)
    if "rows" in kernel.attributes:
        return map_any_rows(kernel, nest)
    if "row" in kernel.attributes:
        return map_rows(kernel, nest)
    folded = map_folds(kernel, nest)
    return folded if folded is not None else map_items(kernel, nest)
