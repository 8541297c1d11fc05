"""Give the loops of a logical kernel to the threads of a GPU.

In: a logical kernel. Out: a threaded kernel with the same effect for any number of blocks, and its launch
data as attributes:

scheme     "elements", "rows", "columns" or "items"
block      threads of a block
per_block, most_blocks
           min(ceil(points of the launch domain / per_block), most_blocks) blocks are worth starting; any other number
           is as right, since every block goes on by the size of the grid
shared     bytes of shared memory, all of it in `shared` operations (static)
aligned    pointer parameters whose accesses inside a loop with ``lanes=V`` start at a multiple of 16 bytes, or of
           V elements where those are smaller

The threaded kernel uses one axis (0) of blocks and threads. A loop ``for {role=serial, lanes=V,
whole=True}`` runs exactly V times: an emitter does its body for V consecutive indices at once. Barriers stand in flow that is the same for
the whole block, shuffles in flow that is the same for the whole warp, by conditions that follow from shapes
alone. The tree of a fold depends on the shape only.

elements   No loops in the body. One loop over whole vectors: each thread does V consecutive elements, the last ones
           one by one. Otherwise: tiles of rows by columns; division once a tile.
rows       Folds over side-by-side elements: up to a warp, or the block, for each item.
columns    Folds across side-by-side items: 32 columns a block.
items      Anything else: loops in order inside one thread for each point.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.map_axes_elements import map_items, map_line, map_plane, vector_lanes
from weft.codegen.passes.map_axes_folds import map_folds
from weft.codegen.passes.map_axes_joined import map_joined
from weft.codegen.passes.map_axes_nest import find_nest, has_loops
from weft.codegen.passes.map_axes_planes import map_plane_of_rows
from weft.codegen.passes.map_axes_rows import map_rows
from weft.codegen.passes.map_axes_tiles import map_tiles
from weft.codegen.target import Target


def launch_data(threaded: Kernel) -> dict[str, Any]:
    """What the runtime has to know to launch a kernel that `map_axes` made."""
    return {name: threaded.attributes[name] for name in ("scheme", "block", "per_block", "most_blocks")}


def map_axes(kernel: Kernel, target: Target) -> Kernel:
    """The threaded form of a logical kernel for a GPU target.

    Raises ValueError for a target that has no threads to give, or a kernel that is threaded already.
    """
    if target.kind != "cuda" or kernel.level != "logical":
        raise ValueError(f"map_axes maps logical kernels for GPUs, not {kernel.level} ones for {target.name}")
    if "joined" in kernel.attributes:
        return map_joined(kernel)
    nest = find_nest(kernel)
    if "tile" in kernel.attributes:
        return map_tiles(kernel, nest)
    if "plane" in kernel.attributes:
        return map_plane_of_rows(kernel, nest)
    if not has_loops(nest.item) and nest.levels:
        lanes, aligned = vector_lanes(kernel, nest)
        return map_line(kernel, nest, lanes, aligned, target) if lanes > 1 else map_plane(kernel, nest)
    if "row" in kernel.attributes:
        return map_rows(kernel, nest)
    folded = map_folds(kernel, nest)
    return folded if folded is not None else map_items(kernel, nest)
