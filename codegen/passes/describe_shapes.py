"""Say of a logical kernel what the sizes of a launch allow its schedule: whole vectors, rows in registers.

In: a logical kernel and the values of its index parameters. Out: the kernel with attributes that `map_axes` goes by.
They are of a few classes, so that many sizes share a kernel:

row      (threads, slots): threads that share a row, and how many vectors of it each keeps in registers; with 0
         slots the row is read again for each loop over it.
rows     how many vectors of a row, whatever its length, a thread keeps in registers, for each form of the code.
multiples  parameters that are multiples of a vector where accesses through ``vectors`` are aligned.
columns  (threads, columns): threads side by side (0: as many as the launch says), and how many columns each folds.
crossed  (threads, slots): as row, for rows that are gone down, whose columns are kept.
private  room for so many places that a block folds into by itself.
whole    the innermost extent is a multiple of a vector.
vectors  pointer parameters through which accesses along the innermost index are aligned to whole vectors.
kept     names and values in turn, on a CPU: for rows of these lengths, memory for so many points is kept (`keep_rows`).
short    names and values in turn: see `unroll_folds`.
sweep    threads of a block, which its loops over points are (`schedules/sweep.py`): who wrote it says so.
exact    names and values in turn: these parameters have these values. For the first sizes that a kernel is met with.

Invariant: the tree of a fold follows from the length of the row and the dtypes alone, not from what is aligned or exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import describe_rows
from weft.codegen.passes.unroll_folds import describe_folds, unroll_folds
from weft.codegen.schedules.table import choose_schedule
from weft.codegen.target import Target


def describe_shapes(
    kernel: Kernel, sizes: Mapping[str, int], target: Target, *, exact: bool = False, parts: bool = False
) -> Kernel:
    """The kernel with what `sizes`, the values of index parameters by name, allow on this target.

    With `exact` the kernel is for these sizes alone where that makes it faster; with `parts` it folds what chunks have.
    """
    if kernel.level != "logical":
        return kernel
    on_gpu = target.machine.is_gpu
    if "joined" not in kernel.attributes and not parts:
        kernel = describe_folds(kernel, sizes, on_gpu)  # (few parts are folded as many are)
    if not on_gpu:
        return describe_rows(kernel, sizes)
    inlined = unroll_folds(inline_rows(kernel, straight=True))
    found = choose_schedule(inlined, sizes, exact)
    return replace(kernel, attributes={**kernel.attributes, **{k: v for k, v in found.items() if v}})
