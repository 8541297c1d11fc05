"""Inlining of user functions, each of which earlier passes treat as a single operation.

Straight-line ops are inlined before all other passes, so that they are vectorized and split like any arithmetic. Ops
with loops are inlined after threads or vectors have been chosen. The loops that contain them run one element at a time.
"""

from __future__ import annotations

from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Kernel, Operation, Value
from weft.codegen.ops import find_op
from weft.codegen.passes.rewrite import Rewriter


def has_control_flow(operation: Operation) -> bool:
    """Return whether an operation contains control flow, possibly in a user function.

    Such an operation must run element by element. `for` loops are not included.
    """
    if operation.opcode in STRUCTURAL:
        return operation.opcode in ("if", "scope", "repeat")
    definition = find_op(operation.opcode)
    return definition.body is not None and not definition.straight


def inline_rows(kernel: Kernel, straight: bool) -> Kernel:
    """Return the kernel after inlining the ops that are user functions.

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
        copier = _Copier(b, dict(zip(function.parameters, operands, strict=True)), f"_{count}")
        return list(copier.block(function.body))

    return Rewriter(kernel, rule).run()


class _Copier:
    def __init__(self, builder: KernelBuilder, values: dict[Value, Value], suffix: str) -> None:
        self.builder = builder
        self.map = values
        self.suffix = suffix  # makes the labels of the copy unique

    def block(self, block: Block) -> tuple[Value, ...]:
        """Copy a block's operations into the builder's current block, and return the values that the block yields."""
        for operation in block.operations:
            if operation.opcode == "yield":
                return tuple(self.map[v] for v in operation.operands)
            self.operation(operation)
        return ()

    def operation(self, operation: Operation) -> None:
        attributes = dict(operation.attributes)
        if "label" in attributes:
            attributes["label"] += self.suffix
        regions = []
        for region in operation.regions:
            parameters = tuple(self.builder.fresh(v.type) for v in region.parameters)
            self.map.update(zip(region.parameters, parameters, strict=True))
            copied = Block(parameters)
            self.builder.blocks.append(copied)
            yielded = self.block(region)
            if not self.builder.ended:
                copied.operations.append(Operation("yield", yielded))
            self.builder.blocks.pop()
            regions.append(copied)
        operands = [self.map[v] for v in operation.operands]
        results = self.builder.emit(
            operation.opcode, operands, [v.type for v in operation.results], tuple(regions), **attributes
        )
        self.map.update(zip(operation.results, results, strict=True))
