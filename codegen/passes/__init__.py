"""The passes of each target, in order.

Host: `choose_lanes` marks the loop that runs in vectors; `expand_complex` replaces complex values by pairs;
`expand_ops` replaces composite rows by rows with a lowering.
GPU: `map_axes` gives loops to threads; `expand_complex` and `expand_ops` as on the host.
A kernel that a person wrote has its threads already: the two expansions are all it needs; on a GPU `expand_warp_reduce`
before the last.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.expand_ops import expand_ops
from weft.codegen.passes.expand_warp_reduce import expand_warp_reduce
from weft.codegen.passes.map_axes import map_axes
from weft.codegen.target import Target


def run_passes(kernel: Kernel, target: Target) -> Kernel:
    """A kernel made ready for the emitter of `target`."""
    if kernel.level == "logical":
        kernel = choose_lanes(kernel, target) if target.kind == "cpu" else map_axes(kernel, target)
    kernel = expand_complex(kernel)
    # float16 becomes float32 before a warp folds it
    return expand_ops(expand_warp_reduce(expand_ops(kernel), target) if target.kind == "cuda" else kernel)


__all__ = ["choose_lanes", "expand_complex", "expand_ops", "expand_warp_reduce", "map_axes", "run_passes"]
