"""Set a logical kernel's attributes for GPU schedules from the sizes of a launch.

In: a logical kernel and the values of its index parameters. Out: the kernel with attributes that `map_axes` goes by.
They are of a few classes, so that many sizes share a kernel:

schedule  how the work is divided among a GPU's threads: a `Decision` of one of the files in `schedules/`.
kept      names and values in turn, on a CPU: for rows of these lengths, memory for so many points is kept (`keep_rows`).
short     names and values in turn: see `unroll_folds`.
unrolled  points of the launch domain in one iteration of the innermost loop, where `unroll_folds` writes out a parallel loop.
exact     names and values in turn: these parameters have these values. For the first sizes that a kernel is met with.

Invariant: the tree of a fold follows from the length of the row and the dtypes alone, not from what is aligned or exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import describe_rows
from weft.codegen.passes.unroll_folds import describe_folds, unroll_folds
from weft.codegen.schedules.nest import find_nest
from weft.codegen.schedules.table import choose_schedule
from weft.codegen.target import Target


def describe_shapes(
    kernel: Kernel, sizes: Mapping[str, int], target: Target, *, exact: bool = False, parts: bool = False
) -> Kernel:
    """Return the kernel with the attributes that `sizes`, the values of index parameters by name, allow on a target.

    With `exact` the kernel is for these sizes alone where that makes it faster; with `parts` it folds what chunks have.
    """
    if kernel.level != "logical":
        return kernel
    on_gpu = target.machine.is_gpu
    if "merged" not in kernel.attributes and not parts:
        kernel = describe_folds(kernel, sizes, on_gpu)  # (few parts are folded as many are)
    if not on_gpu:
        return describe_rows(kernel, sizes)
    inlined = inline_rows(kernel, straight=True)
    unrolled = unroll_folds(inlined, on_gpu)
    decision = choose_schedule(unrolled, sizes, exact)
    found: dict[str, Any] = {"schedule": decision}
    if exact and decision.specialised:
        found["exact"] = tuple(x for name in sorted(sizes) for x in (name, int(sizes[name])))
    written_out = find_nest(inlined).levels[len(find_nest(unrolled).levels) :]
    if written_out:
        found["unrolled"] = prod(sizes[level.extent.name] for level in written_out)
    return replace(kernel, attributes={**kernel.attributes, **found})
