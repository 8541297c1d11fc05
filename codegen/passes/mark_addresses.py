"""Marking of index arithmetic that cannot overflow.

In: a threaded kernel. Out: sums, differences, products and casts from int64 whose results are only used as indices of
accesses have the ``nowrap`` attribute. Every valid index of a kernel's array fits the kernel's index dtype, and any
other index is outside the array. LLVM then sees that loops over threads access memory contiguously.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.passes.rewrite import Rewriter

_ACCESSES = frozenset({"load", "store", "offset", "atomic", "atomic_cas"})
_ARITHMETIC = frozenset({"add", "subtract", "multiply"})


def mark_addresses(kernel: Kernel) -> Kernel:
    """Add the ``nowrap`` attribute to arithmetic whose results are used only as indices."""
    operations = list(kernel.walk())
    others: set[Value] = set()  # values that are not only used as indices
    used: set[Value] = set()
    marked: set[Operation] = set()
    for o in reversed(operations):
        serves = bool(o.results) and o.results[0] in used and o.results[0] not in others
        narrows = o.opcode == "cast" and o.operands[0].type == "int64"
        if serves and o.results[0].type == kernel.index_dtype and (o.opcode in _ARITHMETIC or narrows):
            marked.add(o)
            (used if o.opcode in _ARITHMETIC else others).update(o.operands)
            continue
        for k, value in enumerate(o.operands):
            (used if k == 1 and o.opcode in _ACCESSES else others).add(value)
    if not marked:
        return kernel

    def rule(b: KernelBuilder, o: Operation, operands: list[Any]) -> list[Any] | None:
        if o not in marked:
            return None
        return list(b.emit(o.opcode, operands, [v.type for v in o.results], **{**o.attributes, "nowrap": True}))

    return Rewriter(kernel, rule).run()
