"""Unification of pointers that point into the same array.

Neighboring stencil points can then share loads. In: a logical kernel, and for some pointer parameters another parameter
that points into the same memory, with their distance in elements. Out: the kernel, which accesses the other parameter
with constant offsets instead. The replaced parameters are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation
from weft.codegen.passes.rewrite import Rewriter


def merge_pointers(kernel: Kernel, same: Mapping[str, tuple[str, int]]) -> Kernel:
    """Replace loads through redundant pointers by loads through another pointer into the same array.

    `same` maps each redundant pointer to its replacement, and to the distance from the replacement in elements.
    """
    pointers = {p.value.name: p.value for p in kernel.parameters}

    def rule(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
        if operation.opcode != "load" or operands[0].name not in same:
            return None
        name, further = same[operands[0].name]
        index = b.op("add", operands[1], b.constant(further))
        return [b.load(pointers[name], index, **operation.attributes)]

    return Rewriter(kernel, rule).run() if same else kernel
