"""Replacement of bfloat16 by 16-bit integers and by float32.

In memory, integers hold the bits of the numbers. Ops are computed in float32 and rounded once, as for float16. Ops
whose result is exact in bfloat16 anyway, such as extrema and casts from 8-bit integers, need no rounding. Afterwards no
pointer, parameter or value of the kernel is bfloat16, except around ops of a user function that are not inlined yet.
These take and return bfloat16, and the pass runs again after they have been inlined.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.dtypes import is_bfloat16
from weft.codegen.kernel_ir.operation import STRUCTURAL, Kernel, Operation, Parameter, Pointer, Type, Value
from weft.codegen.ops.op_table import find_op
from weft.codegen.passes.rewrite import Rewriter, changes

_BITS, _VALUE = np.dtype(np.uint16), np.dtype(np.float32)
# Ops whose float32 result is a bfloat16 value if their operands are.
_EXACT = frozenset(
    "where positive negative conjugate real absolute fabs copysign sign minimum maximum fmin fmax "
    "floor ceil trunc rint".split()
)
_REDUCTIONS = frozenset({"minimum", "maximum", "fmin", "fmax", "argmin", "argmax"})
# 8-bit integers are exact in bfloat16.
_NARROW = frozenset("?bB")


def _is_brain(type: Type) -> bool:
    return isinstance(type, np.dtype) and is_bfloat16(type)


def _retype(type: Type) -> tuple[Type, ...]:
    if isinstance(type, Pointer):
        return (Pointer(_BITS, type.space) if is_bfloat16(type.dtype) else type,)
    return (_VALUE if is_bfloat16(type) else type,)


def expand_bfloat16(kernel: Kernel) -> Kernel:
    """Return the kernel with bfloat16 replaced, or the kernel itself if it has no bfloat16."""
    if not changes(kernel, _retype):
        return kernel
    for operation in kernel.walk():
        combined = operation.attributes.get("combine", ())
        assert set(combined) <= _REDUCTIONS or not any(_is_brain(v.type) for v in operation.results), (
            "sums run in float32"
        )
    return _Expander(kernel, _expand, _retype).run()


class _Expander(Rewriter):
    def parameter(self, parameter: Parameter) -> None:
        """Add a parameter to the new kernel. A bfloat16 number is passed as its bits."""
        if not _is_brain(parameter.value.type):
            super().parameter(parameter)
            return
        bits = Value(parameter.value.name, _BITS)
        self.builder.kernel.parameters.append(replace(parameter, value=bits))
        self.map[parameter.value] = self.builder.op("_bfloat16_value", bits, dtype=_VALUE)


def _round(b: KernelBuilder, value: Value) -> Value:
    """Round a float32 to the nearest bfloat16, returned as a float32."""
    return b.op("_bfloat16_value", b.op("_bfloat16_bits", value, dtype=_BITS), dtype=_VALUE)


def _next(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the bfloat16 number next to `x` in the direction of `y`. All numbers are float32 values."""

    def whole(value: int) -> Value:
        return b.constant(value, np.uint32)

    bits, sign = (b.op("_reinterpret", v, dtype=np.uint32) for v in (x, y))
    zero = b.constant(0, _VALUE)
    outwards = b.op("equal", b.op("less", x, y), b.op("less", zero, x))
    moved = b.op("add", bits, b.op("where", outwards, whole(1 << 16), whole(0xFFFF0000)))
    least = b.op("bitwise_or", b.op("bitwise_and", sign, whole(1 << 31)), whole(1 << 16))
    moved = b.op("where", b.op("equal", x, zero), least, moved)
    found = b.op("where", b.op("equal", x, y), y, b.op("_reinterpret", moved, dtype=_VALUE))
    numbers = b.op("bitwise_and", b.op("equal", x, x), b.op("equal", y, y))
    return b.op("where", numbers, found, b.constant(np.nan, _VALUE))


def _expand(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
    attributes, results = operation.attributes, operation.results
    kinds = [v.type for v in (*operation.operands, *results)]
    if all(_retype(kind) == (kind,) for kind in kinds):
        return None
    match operation.opcode:
        case "constant":
            return [b.constant(attributes["value"], _VALUE)]
        case "table":
            kind = _retype(results[0].type)
            return list(b.emit("table", (), kind, values=attributes["values"].view(_BITS)))
        case "cast":
            return [_cast(b, operands[0], *kinds)]
        case "load" if _is_brain(results[0].type):
            return [b.op("_bfloat16_value", b.load(operands[0], operands[1], **attributes), dtype=_VALUE)]
        case "store" if _is_brain(operation.operands[2].type):
            word = b.op("_reinterpret", operands[2], dtype=np.uint32)
            upper = b.op("_shift_right_logical", word, b.constant(16, np.uint32))
            b.store(operands[0], operands[1], b.cast(upper, _BITS), **attributes)
            return []
        case "warp_reduce":
            reduced = b.emit("warp_reduce", operands, (_VALUE,), **attributes)[0]
            return [_round(b, reduced) if attributes["kind"] == "add" else reduced]
        case name if name in STRUCTURAL or not any(_is_brain(kind) for kind in kinds):
            return None
        case name:
            return [_row(b, name, operands, kinds)]


def _row(b: KernelBuilder, name: str, operands: list[Value], kinds: list[Any]) -> Value:
    definition, result = find_op(name), kinds[-1]
    if definition.name == "nextafter":
        return _next(b, *operands)
    if definition.body is not None:
        given = [b.cast(v, kind) for v, kind in zip(operands, kinds, strict=False)]
        computed = b.op(name, *given, dtype=result)
        return b.cast(computed, _VALUE) if _is_brain(result) else computed
    computed = b.op(name, *operands, dtype=_VALUE if _is_brain(result) else result)
    return _round(b, computed) if _is_brain(result) and definition.name not in _EXACT else computed


def _cast(b: KernelBuilder, value: Value, source: Any, target: Any) -> Value:
    if not _is_brain(target):
        return b.cast(value, target)
    if _is_brain(source):
        return value
    wide = b.cast(value, _VALUE)
    return wide if source.char in _NARROW else _round(b, wide)
