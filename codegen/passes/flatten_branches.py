"""Replacement of branches by selections in functions without loops.

In: a function with branches (`if`, `scope`, `leave`) and variables in local memory. Out: a function without either,
or None if that is impossible (loops, memory, printing). Invariant: every operation of the result is an op, a cast or
a constant, so that the function can be vectorized. No operation can trap, so both sides of a branch may be computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Block, Function, Operation, Value

BOOL = np.dtype(bool)
# The lanes that take a path: all lanes, no lane, or those in which a value is true.
Mask = bool | Value


class _Unsuitable(Exception):
    """Raised if a function contains operations that straight-line code cannot express."""


@dataclass
class _Flattener:
    builder: KernelBuilder
    map: dict[Value, Value] = field(default_factory=dict)
    slots: dict[Value, Value | None] = field(default_factory=dict)  # variable -> its current value
    left: dict[str, Mask] = field(default_factory=dict)  # scope -> where it was left early
    result: tuple[Value, ...] = ()

    def block(self, block: Block, active: Mask) -> tuple[Mask, tuple[Value, ...]]:
        """Flatten a block. Return the mask of the lanes that reach its end, and the yielded values."""
        for operation in block.operations:
            if active is False:
                return False, ()
            if operation.opcode == "yield":
                return active, tuple(self.map[v] for v in operation.operands)
            active = self.operation(operation, active)
        return active, ()

    def operation(self, operation: Operation, active: Mask) -> Mask:
        """Flatten an operation, and return the mask of the lanes that reach the next operation."""
        match operation.opcode:
            case "local":
                if operation.attributes["count"] != 1:
                    raise _Unsuitable
                self.slots[operation.results[0]] = None
            case "load":
                self.map[operation.results[0]] = self.held(operation)
            case "store":
                self.assign(operation, active)
            case "if":
                return self.branch(operation, active)
            case "scope":
                return self.scope(operation, active)
            case "leave":
                label = operation.attributes["label"]
                self.left[label] = self.either(self.left[label], active)
                return False
            case "constant":
                value = operation.attributes["value"]
                self.map[operation.results[0]] = self.builder.constant(value, value.dtype)
            case name if name != "cast" and name in STRUCTURAL:
                raise _Unsuitable
            case name:
                operands = [self.map[v] for v in operation.operands]
                kinds = [v.type for v in operation.results]
                (made,) = self.builder.emit(name, operands, kinds)
                self.map[operation.results[0]] = made
        return active

    def slot(self, operation: Operation) -> Value:
        """Return the variable that a load or store accesses."""
        pointer = operation.operands[0]
        if pointer not in self.slots:
            raise _Unsuitable
        return pointer

    def held(self, operation: Operation) -> Value:
        """Return the current value of a variable, which is 0 before the first assignment."""
        pointer = self.slot(operation)
        found = self.slots[pointer]
        if found is None:
            found = self.builder.constant(0, pointer.element)
        return found

    def assign(self, operation: Operation, active: Mask) -> None:
        """Set a variable in the lanes of the mask `active`, or in all lanes if the variable has no value yet."""
        pointer = self.slot(operation)
        value, old = self.map[operation.operands[2]], self.slots[pointer]
        if isinstance(active, Value) and old is not None:
            value = self.builder.op("where", active, value, old)
        self.slots[pointer] = value

    def branch(self, operation: Operation, active: Mask) -> Mask:
        condition = self.map[operation.operands[0]]
        first, yes = self.block(operation.regions[0], self.both(active, condition))
        second, no = self.block(operation.regions[1], self.both(active, self.negate(condition)))
        for value, one, other in zip(operation.results, yes, no, strict=True):
            self.map[value] = self.builder.op("where", condition, one, other)
        if first is False and second is False:
            return False
        if not _leaves(operation):
            return active
        return self.either(first, second)

    def scope(self, operation: Operation, active: Mask) -> Mask:
        """Flatten a scope, and return the mask of the lanes that execute the code after it."""
        label = operation.attributes["label"]
        self.left[label] = False
        end, _ = self.block(operation.regions[0], active)
        left = self.left.pop(label)
        return active if not _leaves(operation) else self.either(end, left)

    def both(self, first: Mask, second: Mask) -> Mask:
        if isinstance(first, bool):
            return second if first else False
        return first if second is True else False if second is False else self.builder.op("bitwise_and", first, second)

    def either(self, first: Mask, second: Mask) -> Mask:
        if isinstance(first, bool):
            return True if first else second
        return True if second is True else first if second is False else self.builder.op("bitwise_or", first, second)

    def negate(self, value: Value) -> Value:
        return self.builder.op("bitwise_xor", value, self.builder.constant(True, BOOL))


def _leaves(operation: Operation) -> bool:
    """Return whether an operation contains a `leave` that exits an outer scope."""
    stack = [(region, frozenset[str]()) for region in operation.regions]
    own = operation.attributes.get("label") if operation.opcode == "scope" else None
    while stack:
        block, inner = stack.pop()
        for inside in block.operations:
            if inside.opcode == "leave" and inside.attributes["label"] not in inner | {own}:
                return True
            names = inner | {inside.attributes["label"]} if inside.opcode == "scope" else inner
            stack.extend((region, names) for region in inside.regions)
    return False


def flatten_branches(function: Function, index_dtype: np.dtype) -> Function | None:
    """Return a function as straight-line code, or None if the function cannot be flattened."""
    builder = KernelBuilder(function.name, index_dtype)
    flattener = _Flattener(builder)
    try:
        with builder.function(function.name, [v.type for v in function.parameters], function.results) as parameters:
            flattener.map.update(zip(function.parameters, parameters, strict=True))
            _, results = flattener.block(function.body, True)
            builder.yield_(*results)
    except _Unsuitable:
        return None
    return builder.kernel.functions[0]
