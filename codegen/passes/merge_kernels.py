"""Merging of two kernels that together compute a reduction.

In: two logical kernels, of which the second reads the results of the first. Out: one kernel with the operations of
both and the ``merged`` attribute. The last GPU block to finish the first part runs the second part
(`split_reductions.py`). The ``counter`` parameter is the completion counter: a 32-bit zero that blocks increment, and
that the last block resets to zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Parameter, Pointer, Value
from weft.codegen.passes.rewrite import Copier

COUNTER = "counter"


def merge_kernels(first: Kernel, second: Kernel, same: Mapping[str, str]) -> Kernel:
    """Return a kernel that runs the first kernel and then the second kernel.

    `same` maps pointers of the second kernel to pointers of the first kernel.

    The parameters are those of the first kernel, those of the second that are not in `same`, and ``counter``.
    """
    names = {p.value.name: p for p in first.parameters}
    renamed: list[Parameter] = []
    values: dict[Value, Value] = {}
    for p in second.parameters:
        if p.value.name in same:
            values[p.value] = names[same[p.value.name]].value
        else:
            values[p.value] = Value(f"{p.value.name}b", p.value.type)
            renamed.append(replace(p, value=values[p.value]))
    counter = Parameter(Value(COUNTER, Pointer(np.dtype(np.uint32))), writable=True, noalias=True, align=4)
    builder = KernelBuilder("merged", first.index_dtype, **first.attributes, merged=True)
    builder.kernel.parameters = [*first.parameters, *renamed, counter]
    Copier(builder, values).copy([*first.body.operations, *second.body.operations])
    return builder.finish()
