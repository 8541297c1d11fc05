"""Base classes of passes that replace or copy operations.

In: a kernel, and a function that gets each operation without regions, with its operands already replaced. Out: a new
kernel. The old kernel is unchanged. Operations for which the function returns None are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Block, Function, Kernel, Operation, Parameter, Type, Value

# The replacement of a value: a value, or two parts for a complex value.
Replaced = Any
Rule = Callable[[KernelBuilder, Operation, list[Replaced]], list[Replaced] | None]
# Maps a type to the types of the values that replace a value of this type.
Retype = Callable[[Type], tuple[Type, ...]]


def _as_it_is(type: Type) -> tuple[Type, ...]:
    return (type,)


def _copied(builder: KernelBuilder, operation: Operation, operands: list[Replaced]) -> None:
    """Return None for every operation, so that each one is copied."""


def changes(kernel: Kernel, retype: Retype) -> bool:
    """Return whether `retype` changes the type of any value of a kernel."""
    values = [p.value for p in kernel.parameters] + [v for o in kernel.walk() for v in (*o.results, *o.operands)]
    values += [v for f in kernel.functions for v in f.parameters]
    return any(retype(v.type) != (v.type,) for v in values)


class Rewriter:
    """Base class of passes that rebuild a kernel with some operations replaced."""

    def __init__(self, kernel: Kernel, rule: Rule = _copied, retype: Retype = _as_it_is) -> None:
        self.old = kernel
        self.rule = rule
        self.retype = retype
        self.builder = KernelBuilder.after(kernel)
        self.map: dict[Value, Replaced] = {}

    def run(self) -> Kernel:
        """Rebuild the kernel and return it."""
        for parameter in self.old.parameters:
            self.parameter(parameter)
        self.body(self.old.body.operations)
        for function in self.old.functions:
            self.function(function)
        return self.builder.finish()

    def parameter(self, parameter: Parameter) -> None:
        """Add a parameter to the new kernel, with the type that `retype` returns."""
        value = parameter.value
        kind, *more = self.retype(value.type)
        assert not more, "complex numbers are passed as constants or through memory"
        if kind != value.type:
            parameter = replace(parameter, value=Value(value.name, kind))
        self.builder.kernel.parameters.append(parameter)
        self.map[value] = parameter.value

    def function(self, function: Function) -> None:
        """Rewrite a function of the kernel."""
        parameters = self.renew(function.parameters)
        results = tuple(part for type in function.results for part in self.retype(type))
        body = Block()
        self.builder.kernel.functions.append(Function(function.name, parameters, body, results))
        outer, self.builder.blocks = self.builder.blocks, [body]
        self.body(function.body.operations)
        self.builder.blocks = outer

    def body(self, operations: Iterable[Operation]) -> None:
        """Rewrite operations into the builder's current block."""
        for operation in operations:
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
                self.map.update(zip(operation.results, replaced, strict=True))

    def structured(self, operation: Operation, operands: list[Replaced]) -> None:
        """Rewrite an operation with regions, such as a loop. Subclasses override this method to replace operations."""
        self.copy(operation, operands)

    def copy(self, operation: Operation, operands: list[Replaced]) -> None:
        """Copy an operation, with new operands and rewritten regions. One result may become several values."""
        regions = []
        for region in operation.regions:
            with self.builder.region(self.renew(region.parameters)) as block:
                self.body(region.operations)
            regions.append(block)
        results = self.renew(operation.results)
        copied = Operation(operation.opcode, tuple(_flatten(operands)), results, operation.attributes, tuple(regions))
        self.builder.block.operations.append(copied)

    def renew(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the values that replace `values`, with the types that `retype` returns."""
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


class Copier:
    """Copier of operations. Each copy has new results.

    The copies are appended to the builder's current block. `map` maps values to their copies. All other values are used
    as they are.
    """

    def __init__(self, builder: KernelBuilder, map: dict[Value, Value]) -> None:
        self.builder = builder
        self.map = map

    def new(self, value: Value) -> Value:
        """Return the copy of a value, or the value itself if it has no copy."""
        return self.map.get(value, value)

    def copy(self, operations: Iterable[Operation]) -> tuple[Value, ...]:
        """Copy each of the `operations`. At a final `yield`, return the copies of the values that it yields."""
        for operation in operations:
            if operation.opcode == "yield":
                return tuple(map(self.new, operation.operands))
            self.operation(operation)
        return ()

    def operation(self, operation: Operation) -> None:
        """Copy an operation. Subclasses override this method to replace operations."""
        self.emit_copy(operation)

    def emit_copy(self, operation: Operation, operands: Iterable[Value] | None = None, **attributes: Any) -> None:
        """Copy an operation and its regions, optionally with other operands or attributes."""
        given = tuple(map(self.new, operation.operands) if operands is None else operands)
        regions = tuple(map(self.region, operation.regions))
        types = [v.type for v in operation.results]
        made = self.builder.emit(operation.opcode, given, types, regions, **{**operation.attributes, **attributes})
        self.map.update(zip(operation.results, made, strict=True))

    def region(self, region: Block) -> Block:
        """Copy a region with its parameters, and return the copy."""
        parameters = tuple(self.builder.fresh(v.type) for v in region.parameters)
        self.map.update(zip(region.parameters, parameters, strict=True))
        with self.builder.region(parameters) as block:
            ends = self.copy(region.operations)
            if not self.builder.ended:
                block.operations.append(Operation("yield", ends))
        return block


def copy_of(builder: KernelBuilder, value: Value, made: dict[Value, Operation], known: dict[Value, Value]) -> Value:
    """Emit a copy of a value's computation, with the values in `known` replaced, and return the copy."""
    if value in known or value not in made:
        return known.get(value, value)
    maker = made[value]
    operands = tuple(copy_of(builder, v, made, known) for v in maker.operands)
    (known[value],) = builder.emit(maker.opcode, operands, (value.type,), **maker.attributes)
    return known[value]
