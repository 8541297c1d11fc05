"""Base class of passes that replace operations, which rebuilds a kernel block by block.

In: a kernel, and a function that gets each operation with its operands already replaced. Out: a new kernel. The old
kernel is unchanged. Operations for which the function returns None are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Function, Kernel, Operation, Type, Value

# The replacement of a value: a value, or two parts for a complex value.
Replaced = Any
Rule = Callable[[KernelBuilder, Operation, list[Replaced]], list[Replaced] | None]


def _as_it_is(type: Type) -> tuple[Type, ...]:
    return (type,)


class Rewriter:
    """The state of a rewriting pass over one kernel."""

    def __init__(self, kernel: Kernel, rule: Rule, retype: Callable[[Type], tuple[Type, ...]] = _as_it_is) -> None:
        self.old = kernel
        self.rule = rule
        self.retype = retype  # maps a type to the types of the values that replace a value of this type
        self.builder = KernelBuilder(kernel.name, kernel.index_dtype)
        self.builder.after(kernel)
        self.builder.kernel.level = kernel.level
        self.builder.kernel.attributes = dict(kernel.attributes)
        self.map: dict[Value, Replaced] = {}

    def run(self) -> Kernel:
        """Rebuild the kernel and return it.

        Parameters stay, unless a rule has replaced them.
        """
        for parameter in self.old.parameters:
            if parameter.value not in self.map:
                self.builder.kernel.parameters.append(parameter)
                self.map[parameter.value] = parameter.value
        self.body(self.old.body)
        for function in self.old.functions:
            self.function(function)
        return self.builder.finish()

    def function(self, function: Function) -> None:
        """Rewrite a function of the kernel."""
        parameters = self.renew(function.parameters)
        results = tuple(part for type in function.results for part in self.retype(type))
        body = Block()
        self.builder.kernel.functions.append(Function(function.name, parameters, body, results))
        outer, self.builder.blocks = self.builder.blocks, [body]
        self.body(function.body)
        self.builder.blocks = outer

    def body(self, block: Block) -> None:
        """Rewrite the operations of a block into the builder's current block."""
        for operation in block.operations:
            operands = [self.map[v] for v in operation.operands]
            if operation.regions:
                self.structured(operation, operands)
                continue
            self.builder.line = operation.attributes.get("line")
            replaced = self.rule(self.builder, operation, operands)
            if replaced is None:
                self.copy(operation, operands)
            elif isinstance(replaced, Value):
                raise TypeError(f"the rule must return a list of the new results of {operation.opcode!r}, or None")
            else:
                for value, new in zip(operation.results, replaced, strict=True):
                    self.map[value] = new

    def copy(self, operation: Operation, operands: list[Replaced]) -> None:
        """Copy an operation, with new operands."""
        results = self.renew(operation.results)
        self.builder.block.operations.append(
            Operation(operation.opcode, tuple(_flatten(operands)), results, operation.attributes)
        )

    def structured(self, operation: Operation, operands: list[Replaced]) -> None:
        """Rewrite an operation that contains blocks of other operations, such as a loop.

        One result may become several values.
        """
        regions = []
        for region in operation.regions:
            block = Block(self.renew(region.parameters))
            self.builder.blocks.append(block)
            self.body(region)
            self.builder.blocks.pop()
            regions.append(block)
        self.builder.block.operations.append(
            Operation(
                operation.opcode,
                tuple(_flatten(operands)),
                self.renew(operation.results),
                operation.attributes,
                tuple(regions),
            )
        )

    def renew(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return new values that replace `values`, with the types that `retype` returns."""
        if self.retype is _as_it_is:
            self.map.update(zip(values, values, strict=True))
            return values
        for value in values:
            types = self.retype(value.type)
            parts = tuple(value if type == value.type else self.builder.fresh(type) for type in types)
            self.map[value] = parts[0] if len(parts) == 1 else parts
        return tuple(_flatten([self.map[value] for value in values]))


def _flatten(values: list[Replaced]) -> list[Value]:
    flat: list[Value] = []
    for value in values:
        flat.extend(value) if isinstance(value, tuple) else flat.append(value)
    return flat


def copy_of(builder: KernelBuilder, value: Value, made: dict[Value, Operation], known: dict[Value, Value]) -> Value:
    """Emit a copy of a value's computation, with the values in `known` replaced, and return the copy."""
    if value in known or value not in made:
        return known.get(value, value)
    maker = made[value]
    operands = tuple(copy_of(builder, v, made, known) for v in maker.operands)
    (known[value],) = builder.emit(maker.opcode, operands, (value.type,), **maker.attributes)
    return known[value]
