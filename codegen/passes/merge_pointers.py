"""Read slices of one array through one pointer, so that neighbouring points share what they read.

In: a logical kernel, and for pointer parameters another one to the same memory, with the elements between them. Out: the kernel with
constants in its indices instead. The parameters stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation
from weft.codegen.passes.rewrite import Rewriter


def merge_pointers(kernel: Kernel, same: Mapping[str, tuple[str, int]]) -> Kernel:
    """Return the kernel with loads through the pointers in `same` replaced by loads through others, so many elements further."""
    pointers = {p.value.name: p.value for p in kernel.parameters}

    def rule(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
        if operation.opcode != "load" or operands[0].name not in same:
            return None
        name, further = same[operands[0].name]
        index = b.op("add", operands[1], b.constant(further))
        return [b.load(pointers[name], index, **operation.attributes)]

    return Rewriter(kernel, rule).run() if same else kernel
