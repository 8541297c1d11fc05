"""Replacement of composite ops and float16 arithmetic by simpler ops.

Afterwards only ops with a lowering for their operands' dtype kind remain, and minima and maxima for which the target
has instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, Value
from weft.codegen.ops.op_table import EXTREMES, find_op
from weft.codegen.passes.rewrite import Rewriter

# Ops that only move bits and need no wider arithmetic. Minima and maxima without an instruction are comparisons and
# moves, too. (LLVM may exchange zeros of different signs if operands of a selection are converted.)
_MOVES = frozenset({"where", "positive", "conjugate", "real"})
# Maximum depth of expansions that use composite ops.
_DEPTH = 8


def expand_ops(kernel: Kernel, extremes: frozenset[tuple[str, str]] = frozenset()) -> Kernel:
    """Expand composite ops until all remaining ops can be emitted as LLVM code.

    `extremes` contains the minima and maxima (op and dtype) for which the target has instructions.
    """
    for _ in range(_DEPTH):
        changed = False

        def rule(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
            nonlocal changed
            if extremes and operation.results and (operation.opcode, str(operation.results[0].type)) in extremes:
                return None
            made = _expand(b, operation, operands, _MOVES if extremes else _MOVES | EXTREMES)
            changed = changed or made is not None
            return made

        kernel = Rewriter(kernel, rule).run()
        if not changed:
            return kernel
    raise AssertionError("an expansion does not end")


def _next_half(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the float16 number next to `x` in the direction of `y`, as a float32."""

    def number(value: float) -> Value:
        return b.constant(value, np.float32)

    def step(value: Value, by: Value) -> Value:
        return b.op("where", outwards, b.op("add", value, by), b.op("subtract", value, by))

    size = b.op("absolute", x)
    outwards = b.op("equal", b.op("less", x, y), b.op("less", number(0), x))
    bits = b.op("_reinterpret", size, dtype=np.uint32)
    large = step(bits, b.constant(1 << 13, np.uint32))
    moved = b.op("_reinterpret", large, dtype=np.float32)
    small = b.op("less_equal", size, number(2.0**-14))
    moved = b.op("where", small, step(size, number(2.0**-24)), moved)
    moved = b.op("where", b.op("equal", size, number(np.inf)), number(65504), moved)
    moved = b.op("copysign", moved, x)
    moved = b.op("where", b.op("equal", x, number(0)), b.op("copysign", number(2.0**-24), y), moved)
    moved = b.op("where", b.op("equal", x, y), y, moved)
    numbers = b.op("bitwise_and", b.op("equal", x, x), b.op("equal", y, y))
    return b.op("where", numbers, moved, number(np.nan))


def _expand(b: KernelBuilder, operation: Operation, operands: list[Any], moves: frozenset[str]) -> list[Any] | None:
    if operation.opcode == "warp_reduce" and operation.results[0].type == np.float16:
        mask, value = operands
        kind = operation.attributes["kind"]
        (reduced,) = b.emit("warp_reduce", (mask, b.cast(value, np.float32)), (np.dtype(np.float32),), kind=kind)
        return [b.cast(reduced, np.float16)]
    if operation.opcode in STRUCTURAL:
        return None
    definition = find_op(operation.opcode)
    result = operation.results[0].dtype
    halves = [v.type.char == "e" for v in operands]
    if any(halves) and definition.name not in moves:
        wide = [b.cast(v, np.float32) if h else v for v, h in zip(operands, halves, strict=True)]
        if definition.name == "nextafter":
            return [b.cast(_next_half(b, *wide), result)]
        computed = b.op(definition.name, *wide, dtype=np.float32 if result.char == "e" else result)
        return [b.cast(computed, result)]
    if definition.expand is None:
        return None
    made = definition.expand(b, *operands)
    return None if made is None else [made]
