"""Say of a logical kernel what the sizes of a launch allow its schedule: whole vectors, rows in registers.

In: a logical kernel and the values of its index parameters. Out: the kernel with attributes that `map_axes` goes by.
They are of a few classes, so that many sizes share a kernel:

row      (threads, slots): threads that share a row, and how many vectors of it each keeps in registers; with 0
         slots the row is read again whenever it is gone over.
rows     how many vectors of a row, whatever its length, a thread keeps in registers, for each form of the code.
multiples  parameters that are multiples of a vector where accesses through ``vectors`` are aligned.
columns  (threads, columns): threads side by side (0: as many as the launch says), and how many columns each folds.
crossed  (threads, slots): as row, for rows that are gone down, whose columns are kept.
private  room for so many places that a block folds into by itself.
whole    the innermost extent is a multiple of a vector.
vectors  pointer parameters through which accesses along the innermost index are aligned to whole vectors.
kept     names and values in turn, on a CPU: for rows of these lengths, memory for so many points is kept (`keep_rows`).
short    names and values in turn: see `unroll_folds`.
sweep    threads of a block, which its loops over points are (`map_axes_sweep`): who wrote it says so.
exact    names and values in turn: these parameters have these values. For the first sizes that a kernel is met with.

Always true: the tree of a fold follows from the length of the row and the dtypes alone, not from what is aligned or exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.codegen.kernel_ir.operation import Kernel
from weft.codegen.passes.inline_rows import inline_rows
from weft.codegen.passes.keep_rows import describe_rows
from weft.codegen.passes.map_axes_any_rows import describe_any_row
from weft.codegen.passes.map_axes_columns import describe_columns
from weft.codegen.passes.map_axes_crossed import describe_crossed
from weft.codegen.passes.map_axes_elements import describe_line
from weft.codegen.passes.map_axes_joined import describe_joined
from weft.codegen.passes.map_axes_lookback import describe_lookback
from weft.codegen.passes.map_axes_nest import find_nest
from weft.codegen.passes.map_axes_planes import describe_plane
from weft.codegen.passes.map_axes_rows import describe_row
from weft.codegen.passes.map_axes_scans import describe_scan
from weft.codegen.passes.map_axes_scatter import describe_scatter
from weft.codegen.passes.map_axes_tiles import describe_tile
from weft.codegen.passes.unroll_folds import describe_folds, unroll_folds
from weft.codegen.target import Target


def describe_shapes(
    kernel: Kernel, sizes: Mapping[str, int], target: Target, *, exact: bool = False, parts: bool = False
) -> Kernel:
    """The kernel with what `sizes`, the values of index parameters by name, allow on this target.

    With `exact` the kernel is for these sizes alone where that makes it faster; with `parts` it folds what chunks have.
    """
    if kernel.level != "logical":
        return kernel
    on_gpu = target.scheduled_for.kind == "cuda"
    if "joined" not in kernel.attributes and not parts:
        kernel = describe_folds(kernel, sizes, on_gpu)  # (few parts are folded as many are)
    if not on_gpu:
        return describe_rows(kernel, sizes)
    inlined = unroll_folds(inline_rows(kernel, straight=True))
    nest = find_nest(inlined)
    if "joined" in kernel.attributes:
        found = describe_joined(inlined, sizes, exact=exact)
    elif "crossed" in kernel.attributes:
        found = describe_crossed(inlined, nest, sizes)
    elif "lookback" in kernel.attributes:
        found = describe_lookback(inlined, nest, sizes, exact=exact)
    elif "sweep" in kernel.attributes:
        found = {"sweep": kernel.attributes["sweep"]}
    else:
        found = (
            describe_scatter(inlined, nest, sizes)
            or describe_columns(inlined, nest, sizes, exact=exact)
            or (not exact and describe_any_row(inlined, nest, sizes))
            or describe_row(inlined, nest, sizes)
            or describe_tile(inlined, nest, sizes, exact=exact)
            or describe_plane(inlined, nest, sizes, exact=exact)
            or describe_scan(inlined, nest, sizes, exact=exact)
        )
    if not found:
        found = describe_line(inlined, nest, sizes, exact=exact)
    elif exact:
        found["exact"] = tuple(x for name in sorted(sizes) for x in (name, int(sizes[name])))
    return replace(kernel, attributes={**kernel.attributes, **{k: v for k, v in found.items() if v}})
