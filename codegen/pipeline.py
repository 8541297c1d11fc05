"""The passes of each target, in the order in which they run.

In: a kernel, either fused (logical) or written by a user (threaded). Out: a kernel that the target's emitter accepts.
Invariant: `run_passes` runs only passes in `PIPELINES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.cut_scatters import cut_scatters, serialize_inner_loops
from weft.codegen.passes.expand_bfloat16 import expand_bfloat16
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.expand_division import expand_division
from weft.codegen.passes.expand_ops import expand_ops
from weft.codegen.passes.expand_warp_reduce import expand_warp_reduce
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import keep_rows
from weft.codegen.passes.map_axes import map_axes
from weft.codegen.passes.move_complex import move_complex
from weft.codegen.passes.narrow_counts import narrow_counts
from weft.codegen.passes.split_borders import split_borders
from weft.codegen.passes.tile_transposes import tile_transposes
from weft.codegen.passes.trace_schedule import trace_schedule
from weft.codegen.passes.unroll_loops import unroll_loops
from weft.codegen.target import Target


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass of a pipeline: its function, and a sentence that describes it.

    `arguments` returns the function's arguments after the kernel. A pass that is `fused` is skipped for kernels that a
    user wrote, which are threaded already.
    """

    function: Callable[..., Kernel]
    sentence: str
    arguments: Callable[[Target], tuple[Any, ...]] = lambda target: ()
    fused: bool = True

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.function.__name__.lstrip("_")

    def run(self, kernel: Kernel, target: Target) -> Kernel:
        """Apply the pass to a kernel, and return the resulting kernel."""
        return self.function(kernel, *self.arguments(target))


def _expand_warp_reduce(kernel: Kernel, target: Target) -> Kernel:
    expanded = expand_warp_reduce(kernel, target)
    return kernel if expanded is kernel else expand_ops(expanded, target.extremes)


def _expand_division(kernel: Kernel) -> Kernel:
    return kernel if kernel.attributes.get("fast") else expand_division(kernel)


def _trace_schedule(kernel: Kernel, target: Target) -> Kernel:
    return trace_schedule(kernel) if target.sanitized and "scheme" in kernel.attributes else kernel


PREPARE = (
    Pass(inline_rows, "Inline user functions without control flow.", lambda target: (True,)),
    Pass(expand_bfloat16, "Compute bfloat16 in float32, so that later passes need not support it."),
    Pass(
        unroll_loops,
        "Unroll reductions over a few elements, and on a GPU also parallel loops over a few elements.",
        lambda target: (target.scheduled_for.kind == "cuda",),
    ),
)
LOOPS = (
    Pass(move_complex, "Move complex64 values as integers if the kernel computes nothing with them."),
    Pass(
        cut_scatters,
        "Split a scatter loop into blocks, whose values are computed in vectors and then written in order.",
    ),
    Pass(narrow_counts, "Sum conditions in 32 bits if no sum can overflow."),
    Pass(choose_lanes, "Mark the loops that run in vectors.", lambda target: (target,)),
    Pass(serialize_inner_loops, "Make the blocks of scatter loops serial, after vector lanes have been chosen."),
    Pass(keep_rows, "Store values that several loops over the same row compute."),
    Pass(tile_transposes, "Tile loops that read one operand along rows and another operand along columns."),
    Pass(split_borders, "Split loops where a condition changes, so that the middle range has no branch."),
)
THREADS = (
    Pass(
        map_axes,
        "Map loops to the threads of a GPU by the first schedule that fits.",
        lambda target: (target.scheduled_for,),
    ),
)
EXPAND = (
    Pass(inline_rows, "Inline the remaining user functions.", lambda target: (False,)),
    Pass(expand_bfloat16, "Compute bfloat16 in float32 in inlined functions and user-written kernels.", fused=False),
    Pass(expand_complex, "Replace complex values with pairs of floats.", fused=False),
    Pass(
        expand_ops,
        "Replace composite ops with ops that have a lowering.",
        lambda target: (target.extremes,),
        fused=False,
    ),
)
INSTRUCTIONS = (
    # after `expand_ops`, by which float16 is reduced in float32
    Pass(
        _expand_warp_reduce,
        "Replace warp reductions with shuffles, and expand the ops that combine their values.",
        lambda target: (target,),
        fused=False,
    ),
    Pass(
        _expand_division,
        "Expand divisions and square roots of float32 with correct rounding, unless fast math is enabled.",
        fused=False,
    ),
)
SANITIZE = (
    Pass(
        _trace_schedule,
        "Report each access and barrier of a fused kernel to the sanitizer.",
        lambda target: (target,),
        fused=False,
    ),
)

PIPELINES: dict[str, tuple[Pass, ...]] = {
    "host": (*PREPARE, *LOOPS, *EXPAND),
    "cuda": (*PREPARE, *THREADS, *EXPAND, *INSTRUCTIONS),
    "simt": (*PREPARE, *THREADS, *EXPAND, *SANITIZE),  # a GPU's schedule, run on the host
}


def find_passes(kernel: Kernel, target: Target) -> list[Pass]:
    """Return the passes that run on a kernel for a target, in order of execution."""
    kind = target.kind if target.kind == "cuda" else "simt" if target.scheduled_for.kind == "cuda" else "host"
    return [each for each in PIPELINES[kind] if kernel.level == "logical" or not each.fused]


def run_passes(kernel: Kernel, target: Target) -> Kernel:
    """Lower a kernel to the form that the emitter for `target` accepts."""
    for each in find_passes(kernel, target):
        kernel = each.run(kernel, target)
    return kernel
