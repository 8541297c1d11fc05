"""One driver for passes that replace operations: rebuilds a kernel block by block.

In: a kernel and a function that is shown each operation with its operands already replaced. Out: a new
kernel; the old one is not changed. An operation that the function answers with None is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value

# What a value became: itself, or for a complex one its two parts.
Replaced = Any
Rule = Callable[[KernelBuilder, Operation, list[Replaced]], list[Replaced] | None]


class Rewriter:
    """Rebuilds one kernel."""

    def __init__(self, kernel: Kernel, rule: Rule, split: Callable[[Value], bool] = lambda value: False) -> None:
        self.old = kernel
        self.rule = rule
        self.split = split  # which values become a pair of values of half the size
        self.builder = KernelBuilder(kernel.name, kernel.index_dtype)
        self.builder._count = max((int(v.name) + 1 for v in _results(kernel) if v.name.isdigit()), default=0)
        self.builder.kernel.level = kernel.level
        self.builder.kernel.attributes = dict(kernel.attributes)
        self.map: dict[Value, Replaced] = {}

    def run(self) -> Kernel:
        """The new kernel. Parameters are taken over unless the rule replaced them before."""
        for parameter in self.old.parameters:
            if parameter.value not in self.map:
                self.builder.kernel.parameters.append(parameter)
                self.map[parameter.value] = parameter.value
        self.body(self.old.body)
        return self.builder.finish()

    def body(self, block: Block) -> None:
        """Rewrite the operations of a block into the open one."""
        for operation in block.operations:
            operands = [self.map[v] for v in operation.operands]
            if operation.regions:
                self.structured(operation, operands)
                continue
            replaced = self.rule(self.builder, operation, operands)
            if replaced is None:
                self.copy(operation, operands)
            else:
                for value, new in zip(operation.results, replaced, strict=True):
                    self.map[value] = new

    def copy(self, operation: Operation, operands: list[Replaced]) -> None:
        """The same operation on the new operands."""
        flat = _flatten(operands)
        self.builder.block.operations.append(
            Operation(operation.opcode, tuple(flat), operation.results, operation.attributes)
        )
        for value in operation.results:
            self.map[value] = value

    def structured(self, operation: Operation, operands: list[Replaced]) -> None:
        """An operation with regions: its regions rewritten, its results split where they are to be."""
        regions = []
        for region in operation.regions:
            parameters: list[Value] = []
            for value in region.parameters:
                self.map[value] = self._fresh(value)
                parameters.extend(_flatten([self.map[value]]))
            block = Block(tuple(parameters))
            self.builder.blocks.append(block)
            self.body(region)
            self.builder.blocks.pop()
            regions.append(block)
        results = []
        for value in operation.results:
            self.map[value] = self._fresh(value)
            results.extend(_flatten([self.map[value]]))
        self.builder.block.operations.append(
            Operation(operation.opcode, tuple(_flatten(operands)), tuple(results), operation.attributes, tuple(regions))
        )

    def _fresh(self, value: Value) -> Replaced:
        if not self.split(value):
            return value
        assert isinstance(value.type, np.dtype)
        part = np.dtype(f"f{value.type.itemsize // 2}")
        return (self.builder.fresh(part), self.builder.fresh(part))


def _flatten(values: list[Replaced]) -> list[Value]:
    flat: list[Value] = []
    for value in values:
        flat.extend(value) if isinstance(value, tuple) else flat.append(value)
    return flat


def _results(kernel: Kernel) -> list[Value]:
    found: list[Value] = []
    for operation in kernel.walk():
        found.extend(operation.results)
        for region in operation.regions:
            found.extend(region.parameters)
    return found
