"""Expansion of warp reductions to shuffles.

Afterwards `warp_reduce` remains only for 32-bit integers on architectures with an instruction for it (sm_80 and later).
The order of float reductions is that of the operation: pairwise if all 32 lanes take part, and otherwise in lane order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.passes.rewrite import Rewriter
from weft.codegen.target import Target

_ALL = 0xFFFFFFFF


def expand_warp_reduce(kernel: Kernel, target: Target) -> Kernel:
    """Return the kernel after expanding the warp reductions for which the GPU has no instruction."""
    if not any(o.opcode == "warp_reduce" for o in kernel.walk()):
        return kernel
    native = int(target.name.removeprefix("sm_")) >= 80
    constants = kernel.constants()

    def rule(b: KernelBuilder, operation: Operation, operands: list[Any]) -> list[Any] | None:
        if operation.opcode != "warp_reduce":
            return None
        mask, value = operands
        dtype, kind = value.type, operation.attributes["kind"]
        if native and dtype.kind in "iu" and dtype.itemsize <= 4:
            if dtype.itemsize == 4:
                return None
            wide = np.dtype(f"{dtype.kind}4")
            return [b.cast(b.emit("warp_reduce", (mask, b.cast(value, wide)), (wide,), kind=kind)[0], dtype)]
        known = constants.get(operation.operands[0])
        if known == _ALL:
            return [_by_halves(b, mask, value, kind)]
        if known is not None:
            return [_upwards(b, mask, value, kind)]
        full = b.op("equal", mask, b.constant(_ALL, np.uint32))
        with b.if_(full, [dtype]) as branch:
            branch.yield_(_by_halves(b, mask, value, kind))
        with b.else_() as branch:
            branch.yield_(_upwards(b, mask, value, kind))
        return [branch.results[0]]

    return Rewriter(kernel, rule).run()


def _by_halves(b: KernelBuilder, mask: Value, value: Value, kind: str) -> Value:
    for distance in (16, 8, 4, 2, 1):
        (other,) = b.emit("shuffle", (mask, value, b.constant(distance, np.int32)), (value.type,), mode="xor")
        value = b.op(kind, value, other)
    return value


def _upwards(b: KernelBuilder, mask: Value, value: Value, kind: str) -> Value:
    """Emit a reduction over the lanes in `mask`, in lane order. All lanes receive the result."""
    nothing = b.constant(0, np.uint32)
    with b.loop(b.constant(32), "serial", initial=(value, b.constant(True, np.bool_))) as loop:
        reduced, first = loop.carried
        bit = b.op("bitwise_and", b.op("right_shift", mask, b.cast(loop.index, np.uint32)), b.constant(1, np.uint32))
        here = b.op("not_equal", bit, nothing)
        with b.if_(here, [value.type]) as branch:
            (other,) = b.emit("shuffle", (mask, value, b.cast(loop.index, np.int32)), (value.type,), mode="idx")
            branch.yield_(b.op("where", first, other, b.op(kind, reduced, other)))
        with b.else_() as branch:
            branch.yield_(reduced)
        still = b.op("bitwise_and", first, b.op("logical_not", here))
        loop.yield_(branch.results[0], still)
    return loop.results[0]
