"""Computation of sums of bools in 32 bits instead of 64.

A CPU vector then holds twice as many elements. In: a logical kernel. Out: the kernel, in which reduction loops add
bools as int32 numbers. Invariant: a loop whose index is an int32 adds fewer than 2**31 ones, so that no sum overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.ops.op_table import accumulators
from weft.codegen.passes.rewrite import Rewriter

_NARROW, _WIDE = np.dtype(np.int32), (np.dtype(np.int64), np.dtype(np.uint64))


def narrow_counts(kernel: Kernel) -> Kernel:
    """If a kernel has int32 indices, compute its sums of bools in int32. Return other kernels unchanged."""
    if kernel.index_dtype != _NARROW or not any(_find_counts(operation) for operation in kernel.walk()):
        return kernel
    return _Narrower(kernel).run()


def _find_counts(loop: Operation) -> dict[int, tuple[Operation, Value]]:
    """Find the sums of bools that a reduction loop computes. Such a sum counts how often a condition is true.

    Return a map from the position of each sum among the carried values to its addition and its condition.
    """
    names = loop.attributes.get("combine", ())
    if loop.opcode != "for" or loop.attributes["role"] != "reduce" or any(accumulators(name) != 1 for name in names):
        return {}
    body = loop.regions[0]
    makers = {value: operation for operation in body.operations for value in operation.results}
    found = {}
    for position, (name, carried) in enumerate(zip(names, body.parameters[1:], strict=True)):
        total = makers.get(body.operations[-1].operands[position])
        if name != "add" or carried.type not in _WIDE or total is None or total.opcode != "add":
            continue
        others = [value for value in total.operands if value is not carried]
        if len(others) != 1:
            continue
        condition = others[0]
        while (cast := makers.get(condition)) is not None and cast.opcode == "cast":
            (condition,) = cast.operands
        used = sum(
            value in (carried, total.results[0]) for each in program_order(body.operations) for value in each.operands
        )
        if used == 2 and condition.type == np.bool_ and condition is not others[0]:
            found[position] = total, condition
    return found


class _Narrower(Rewriter):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel, self._add)
        self._conditions: dict[Operation, tuple[Value, Value]] = {}
        self._narrow: dict[Value, Value] = {}

    def renew(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        self.map.update((value, self._narrow.get(value, value)) for value in values)
        return tuple([self.map[value] for value in values])

    def structured(self, operation: Operation, operands: list[Any]) -> None:
        counts = _find_counts(operation)
        initial = operands[2:]
        for position, (total, condition) in counts.items():
            carried, result = operation.regions[0].parameters[1 + position], operation.results[position]
            self._conditions[total] = carried, condition
            self._narrow |= {carried: self.builder.fresh(_NARROW), result: self.builder.fresh(_NARROW)}
            operands[2 + position] = self.builder.constant(0, _NARROW)
        super().structured(operation, operands)
        for position in counts:
            result = operation.results[position]
            wide = self.builder.cast(self.map[result], result.type)
            self.map[result] = self.builder.op("add", initial[position], wide, dtype=result.type)

    def _add(self, b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Value] | None:
        if operation not in self._conditions:
            return None
        carried, condition = (self.map[value] for value in self._conditions[operation])
        return [b.op("add", carried, b.cast(condition, _NARROW), dtype=_NARROW)]
