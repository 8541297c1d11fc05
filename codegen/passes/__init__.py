"""The passes of each target, in order.

`unroll_folds` writes out folds over few elements.
Host: `choose_lanes` marks the loop that runs in vectors; `keep_rows` keeps what several loops over a row compute alike, and
`fetch_rows` asks for the next row meanwhile; `tile_transposes` cuts loops over the rows of one operand and the columns of
another into tiles; `expand_complex` replaces complex values by pairs;
`expand_ops` replaces composite rows by rows with a lowering.
GPU: `map_axes` gives loops to threads; `expand_complex` and `expand_ops` as on the host. (Which of the two divides a
kernel's work the target's schedule says; what follows depends on where the code runs.)
`expand_bfloat16` comes first, so that nothing else meets one.
`inline_rows` puts rows made of a user's function in place: straight ones first, the others behind `choose_lanes` or `map_axes`.
`watch_schedule` comes last, where the target says that a fused kernel's threads are to be watched.
A kernel that a user wrote has its threads already: the expansions are all it needs. On a GPU `expand_warp_reduce`
follows them, and `expand_division`, but for fast mathematics, which has approximations of its own.
"""

from __future__ import annotations

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.cut_scatters import cut_scatters, settle_scatters
from weft.codegen.passes.expand_bfloat16 import expand_bfloat16
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.expand_division import expand_division
from weft.codegen.passes.expand_ops import expand_ops
from weft.codegen.passes.expand_warp_reduce import expand_warp_reduce
from weft.codegen.passes.fetch_rows import fetch_rows
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import keep_rows
from weft.codegen.passes.map_axes import launch_data, map_axes
from weft.codegen.passes.split_borders import split_borders
from weft.codegen.passes.tile_transposes import tile_transposes
from weft.codegen.passes.unroll_folds import unroll_folds
from weft.codegen.passes.watch_schedule import watch_schedule
from weft.codegen.target import Target


def run_passes(kernel: Kernel, target: Target) -> Kernel:
    """A kernel made ready for the emitter of `target`."""
    if kernel.level == "logical":
        kernel = expand_bfloat16(inline_rows(kernel, straight=True))
        divided = target.scheduled_for
        kernel = unroll_folds(kernel)
        kernel = _for_host(kernel, divided) if divided.kind == "cpu" else map_axes(kernel, divided)
        kernel = inline_rows(kernel, straight=False)
    kernel = expand_ops(expand_complex(expand_bfloat16(kernel)), target.has_extremes)
    if target.kind == "cpu":
        return watch_schedule(kernel) if target.watched and "scheme" in kernel.attributes else kernel
    # behind the first expansion, which lets float16 be folded in float32; a fold by shuffles is of rows again
    folded = expand_warp_reduce(kernel, target)
    kernel = kernel if folded is kernel else expand_ops(folded, target.has_extremes)
    return kernel if kernel.attributes.get("fast") else expand_division(kernel)


def _for_host(kernel: Kernel, target: Target) -> Kernel:
    kernel = settle_scatters(choose_lanes(cut_scatters(kernel), target))
    return split_borders(tile_transposes(fetch_rows(keep_rows(kernel))))


__all__ = [
    "choose_lanes",
    "expand_bfloat16",
    "expand_complex",
    "expand_division",
    "expand_ops",
    "expand_warp_reduce",
    "fetch_rows",
    "keep_rows",
    "launch_data",
    "map_axes",
    "run_passes",
    "split_borders",
    "tile_transposes",
    "unroll_folds",
    "watch_schedule",
]
