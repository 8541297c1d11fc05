"""Inlining of user functions, which are single ops before this pass.

Straight-line ops are inlined before all other passes, so that they are vectorized and split like any arithmetic. Ops
with control flow are inlined after threads or vectors have been chosen. The loops that contain them run one element at
a time.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, Pointer, Value
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.rewrite import Copier, Rewriter


def has_control_flow(operation: Operation) -> bool:
    """Return whether an operation contains control flow, possibly in a user function.

    Such an operation must run element by element. A `for` loop alone does not count as control flow.
    """
    if operation.opcode in STRUCTURAL:
        return operation.opcode in ("if", "scope", "repeat")
    definition = find_op(operation.opcode)
    return definition.body is not None and not definition.straight


def inline_rows(kernel: Kernel, straight: bool) -> Kernel:
    """Inline the user functions that are entries (rows) of the op table, and return the kernel.

    With `straight`, only ops without control flow are inlined, otherwise only ops with control flow.
    """

    def wanted(operation: Operation) -> bool:
        if operation.opcode in STRUCTURAL:
            return False
        definition = find_op(operation.opcode)
        return definition.body is not None and definition.straight == straight

    if not any(wanted(operation) for operation in kernel.walk()):
        return kernel
    count = 0

    def rule(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
        nonlocal count
        if not wanted(operation):
            return None
        count += 1
        function = find_op(operation.opcode).body
        inliner = _Inliner(b, dict(zip(function.parameters, operands, strict=True)), f"_{count}")
        return list(inliner.copy(function.body.operations))

    return Rewriter(kernel, rule).run()


class _Inliner(Copier):
    """Copier of a function's body, which adds a suffix to labels to make them unique.

    Indices of memory accesses are cast to the index dtype of the kernel, which may differ from that of the function.
    """

    def __init__(self, builder: KernelBuilder, values: dict[Value, Value], suffix: str) -> None:
        super().__init__(builder, values)
        self.suffix = suffix
        self.constants: dict[Value, Any] = {}

    def operation(self, operation: Operation) -> None:
        """Copy an operation. If it has a label, append the inliner's suffix to the label of the copy."""
        label = operation.attributes.get("label")
        operands = [self.new(operand) for operand in operation.operands]
        if len(operands) > 1 and isinstance(operands[0].type, Pointer):
            operands[1] = self.index(operation.operands[1], operands[1])
        self.emit_copy(operation, operands, **({} if label is None else {"label": label + self.suffix}))
        if operation.opcode == "constant":
            self.constants[operation.results[0]] = operation.attributes["value"]

    def index(self, original: Value, index: Value) -> Value:
        """Cast the value `index` to the kernel's index dtype. `index` is a copy of `original`, a value in the inlined function."""
        dtype = self.builder.kernel.index_dtype
        if index.type != dtype and original in self.constants:
            return self.builder.constant(self.constants[original], dtype)
        return self.builder.cast(index, dtype)
