"""Ops that NumPy lacks, such as bit operations for CUDA kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops.arithmetic import INTEGERS, one, select, zero
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value

_FLOATS = ("e->e", "f->f", "d->d")


def _on_bits(function: Callable[[int, int], int], x: np.ndarray) -> Any:
    """Apply ``function(bits, width)`` to the bits of each element of an integer array."""
    x = np.asarray(x)
    width = 8 * x.itemsize
    unsigned = np.dtype(f"u{x.itemsize}")
    numbers = [function(int(v) % 2**width, width) for v in x.ravel()]
    return np.array(numbers, np.uint64).astype(unsigned).view(x.dtype).reshape(x.shape)


def _ffs(b: KernelBuilder, x: Value) -> Value:
    """Return the position of the lowest set bit, counted from 1, or 0 if no bit is set."""
    lowest = b.op("bitwise_and", x, b.op("subtract", zero(b, x), x))
    return b.op("subtract", b.constant(8 * x.dtype.itemsize, x.dtype), b.op("clz", lowest))


def _of_pi(quarter: int, b: KernelBuilder, x: Value) -> Value:
    """Emit ``sin(pi * x)``, or ``cos(pi * x)`` if `quarter` is 1, with exact argument reduction."""
    operand, half, quad = x, b.constant(0.5, x.type), b.constant(4, x.type)
    whole = b.op("rint", b.op("multiply", x, half))  # number of whole turns
    x = b.op("subtract", x, b.op("add", whole, whole))
    halves = b.op("rint", b.op("add", x, x))
    angle = b.op("multiply", b.op("subtract", x, b.op("multiply", halves, half)), b.constant(math.pi, x.type))
    turned = b.op("add", halves, b.constant(quarter, x.type)) if quarter else halves
    quadrant = b.op("subtract", turned, b.op("multiply", quad, b.op("floor", b.op("divide", turned, quad))))
    odd = b.op("bitwise_or", b.op("equal", quadrant, one(b, x)), b.op("equal", quadrant, b.constant(3, x.type)))
    value = select(b, odd, b.op("cos", angle), b.op("sin", angle))
    low = b.op("less", quadrant, b.constant(2, x.type))
    found = select(b, low, value, b.op("negative", value))
    # the reduction loses the sign of zero, which a sine keeps
    return found if quarter else select(b, b.op("equal", operand, zero(b, operand)), operand, found)


def _of_pi_reference(quarter: int, x: np.ndarray) -> Any:
    """Return the expected result of `_of_pi`, computed with more precision than float64."""
    wide = np.asarray(x, np.longdouble)
    halves = np.rint(2 * wide)
    angle = (wide - halves / 2) * np.longdouble("3.14159265358979323846264338327950288")
    quadrant = np.mod(np.mod(halves, 4) + quarter, 4)
    value = np.where(quadrant % 2 == 1, np.cos(angle), np.sin(angle))
    value = np.where(quadrant < 2, value, -value)
    return np.where((wide == 0) & (quarter == 0), wide, value).astype(np.asarray(x).dtype)


def _op_of_pi(name: str, quarter: int, doc: str) -> OpDef:
    formula, reference = partial(_of_pi, quarter), partial(_of_pi_reference, quarter)
    return OpDef(name, doc, loops=_FLOATS, reference=reference, expand=formula, cost=40, ulp=4)


_BITS = tuple(f"{c}->{c}" for c in INTEGERS)


def _bfloat16_bits(b: KernelBuilder, x: Value) -> Value:
    """Return the bits of the bfloat16 nearest to a float32, with ties to even, by integer arithmetic."""
    bits, low = b.op("_reinterpret", x, dtype=np.uint32), b.constant(16, np.uint32)
    even = b.op("bitwise_and", b.op("_shift_right_logical", bits, low), b.constant(1, np.uint32))
    rounded = b.op("add", bits, b.op("add", even, b.constant(0x7FFF, np.uint32)))
    quiet = b.op("bitwise_or", bits, b.constant(0x7FC00000, np.uint32))
    chosen = select(b, b.op("isnan", x), quiet, rounded)
    return b.cast(b.op("_shift_right_logical", chosen, low), np.uint16)


def _bfloat16_value(b: KernelBuilder, bits: Value) -> Value:
    upper = b.op("_shift_left", b.cast(bits, np.uint32), b.constant(16, np.uint32))
    return b.op("_reinterpret", upper, dtype=np.float32)


def _bfloat16_bits_reference(x: np.ndarray) -> Any:
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> np.uint32(16) & np.uint32(1)))
    return (np.where(np.isnan(x), bits | 0x7FC00000, rounded) >> np.uint32(16)).astype(np.uint16)


ROWS = (
    OpDef(
        "_reinterpret",
        "Return the number of another dtype that has the same bits.",
        loops=("I->f", "f->I"),
        reference=lambda x: np.asarray(x).view(np.float32 if x.dtype == np.uint32 else np.uint32)[()],
        lowering=dict.fromkeys("uf", "bitcast"),
    ),
    OpDef(
        "_bfloat16_bits",
        "Return the bits of the nearest bfloat16, with ties to even; NaN stays NaN.",
        loops=("f->H",),
        reference=_bfloat16_bits_reference,
        expand=_bfloat16_bits,
        cost=6,
    ),
    OpDef(
        "_bfloat16_value",
        "Return the bfloat16 with these bits, as float32.",
        loops=("H->f",),
        reference=lambda bits: (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)[()],
        expand=_bfloat16_value,
    ),
    OpDef(
        "clz",
        "Return the number of 0 bits above the highest 1 bit.",
        loops=_BITS,
        reference=partial(_on_bits, lambda bits, width: width - bits.bit_length()),
        lowering=dict.fromkeys("iu", "intrinsic llvm.ctlz"),
    ),
    OpDef(
        "ffs",
        "Return the position of the lowest 1 bit, counted from 1, or 0 if no bit is set.",
        loops=_BITS,
        reference=partial(_on_bits, lambda bits, width: (bits & -bits).bit_length()),
        expand=_ffs,
        cost=4,
    ),
    OpDef(
        "brev",
        "Return the bits of the operand in reverse order.",
        loops=_BITS,
        reference=partial(_on_bits, lambda bits, width: int(f"{bits:0{width}b}"[::-1], 2)),
        lowering=dict.fromkeys("iu", "intrinsic llvm.bitreverse"),
    ),
    OpDef(
        "rsqrt",
        "Return 1 divided by the square root of the operand.",
        loops=_FLOATS,
        reference=lambda x: 1 / np.sqrt(x),
        expand=lambda b, x: b.op("divide", one(b, x), b.op("sqrt", x)),
        cost=16,
        ulp=1,
    ),
    OpDef(
        "exp10",
        "Return 10 raised to the power of the operand.",
        loops=_FLOATS,
        reference=lambda x: np.power(np.longdouble(10), x).astype(x.dtype),
        expand=lambda b, x: b.op("power", b.constant(10, x.type), x),
        cost=40,
        ulp=4,
    ),
    _op_of_pi("sinpi", 0, "Return sin(pi x), the sine of an angle of x half turns."),
    _op_of_pi("cospi", 1, "Return cos(pi x), the cosine of an angle of x half turns."),
)
