"""A pass that derives attributes of a kernel from array sizes.

In: a logical kernel and the values of its index parameters. Out: the kernel with the following attributes.
The attributes have few distinct values, so that many sizes share a kernel.

schedule  The mapping of the work to a GPU's threads: a `Decision` of one of the files in `schedules/`.
kept      On a CPU, alternating parameter names and numbers: for rows whose length is the parameter, `keep_rows` stores
          values in memory with room for that many elements.
short     Alternating names and values: see `unroll_loops`.
unrolled  Points of the launch domain per iteration of the innermost loop, if `unroll_loops` unrolls a parallel loop.
exact     Alternating names and values of the size parameters for which the kernel is specialized. Set at most for the
          first sizes of a kernel.

Invariant: the tree of a reduction depends only on the row length and the dtypes, not on alignment or exact sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import describe_rows
from weft.codegen.passes.unroll_loops import describe_short_loops, unroll_loops
from weft.codegen.schedules.nest import find_nest
from weft.codegen.schedules.table import choose_schedule
from weft.codegen.target import Target


def describe_shapes(
    kernel: Kernel, sizes: Mapping[str, int], target: Target, *, exact: bool = False, parts: bool = False
) -> Kernel:
    """Return the kernel with the attributes that depend on the array sizes of a launch.

    For GPUs, a schedule is among them. A threaded kernel is returned unchanged.

    With `exact`, the kernel is specialized for these sizes if that makes it faster. With `parts`, the kernel combines
    the partial results of a split reduction.
    """
    if kernel.level != "logical":
        return kernel
    on_gpu = target.machine.is_gpu
    if "merged" not in kernel.attributes and not parts:
        kernel = describe_short_loops(kernel, sizes, on_gpu)  # (few partial results are reduced like many)
    if not on_gpu:
        return describe_rows(kernel, sizes)
    inlined = inline_rows(kernel, straight=True)
    unrolled = unroll_loops(inlined, on_gpu)
    decision = choose_schedule(unrolled, sizes, exact)
    found: dict[str, Any] = {"schedule": decision}
    if exact and decision.specialized:
        found["exact"] = tuple(x for name in sorted(sizes) for x in (name, int(sizes[name])))
    written_out = find_nest(inlined).levels[len(find_nest(unrolled).levels) :]
    if written_out:
        found["unrolled"] = prod(sizes[level.extent.name] for level in written_out)
    return replace(kernel, attributes={**kernel.attributes, **found})
