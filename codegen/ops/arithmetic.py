"""Arithmetic ops, with NumPy's semantics for integers and floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops import pair_functions, pairs
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value


def _is_float(value: Value) -> bool:
    return value.dtype.kind == "f"


def _join_parts(real: Any, imag: Any) -> Any:
    """Return the complex numbers with the given real and imaginary parts.

    For infinite parts, ``real + 1j * imag`` would contain NaN.
    """
    real, imag = np.broadcast_arrays(real, imag)
    joined = np.empty(real.shape, np.result_type(real, np.complex64))
    joined.real, joined.imag = real, imag
    return joined[()]


def _parts_alone(b: KernelBuilder, real: Value, imag: Value) -> Value:
    raise AssertionError("complex numbers are pairs before ops are expanded")


def zero(b: KernelBuilder, like: Value) -> Value:
    """Return 0 in a value's dtype."""
    return b.constant(0, like.type)


def one(b: KernelBuilder, like: Value) -> Value:
    """Return 1 in a value's dtype."""
    return b.constant(1, like.type)


def select(b: KernelBuilder, condition: Value, yes: Value, no: Value) -> Value:
    """Return `yes` if `condition` holds, otherwise `no`."""
    return b.op("where", condition, yes, no)


def both(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the logical AND of two bools."""
    return b.op("bitwise_and", x, y)


def either(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the logical OR of two bools."""
    return b.op("bitwise_or", x, y)


def _safe_divisor(b: KernelBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return a divisor that cannot trap (`y` or 1), and whether a division by `y` would trap.

    The division traps if `y` is 0, or if the quotient overflows.
    """
    bad = b.op("equal", y, zero(b, y))
    if y.dtype.kind == "i":
        least = b.op("equal", x, b.constant(np.iinfo(y.dtype).min, y.dtype))
        bad = either(b, bad, both(b, least, b.op("equal", y, b.constant(-1, y.type))))
    return select(b, bad, one(b, y), y), bad


def _has_wrong_sign(b: KernelBuilder, rest: Value, divisor: Value) -> Value:
    """Return whether a truncated remainder is not 0 and does not have the sign of the divisor."""
    nought = zero(b, rest)
    nonzero = b.op("not_equal", rest, nought)
    return both(b, nonzero, b.op("not_equal", b.op("less", rest, nought), b.op("less", divisor, nought)))


def floor_divide(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return NumPy's floor division.

    For integers, ``x // 0`` is 0, and the least integer divided by -1 is itself. Floats are computed as by npy_divmod.
    """
    if _is_float(x):
        return _float_divmod(b, x, y)[0]
    divisor, bad = _safe_divisor(b, x, y)
    quotient = b.op("_truncate_divide", x, divisor)
    if x.dtype.kind == "i":
        rest = b.op("subtract", x, b.op("multiply", quotient, divisor))
        quotient = select(b, _has_wrong_sign(b, rest, divisor), b.op("subtract", quotient, one(b, x)), quotient)
    is_zero = b.op("equal", y, zero(b, y))
    return select(b, is_zero, zero(b, x), select(b, bad, x, quotient))


def remainder(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return NumPy's ``x % y``. The result has the sign of the divisor. For integers, ``x % 0`` is 0."""
    if _is_float(x):
        return _float_divmod(b, x, y)[1]
    divisor, bad = _safe_divisor(b, x, y)
    rest = b.op("_truncate_remainder", x, divisor)
    if x.dtype.kind == "i":
        rest = select(b, _has_wrong_sign(b, rest, divisor), b.op("add", rest, divisor), rest)
    return select(b, bad, zero(b, x), rest)


def fmod(b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Return the remainder of integers with the sign of the dividend.

    The remainder is 0 if `y` is 0. Return None for floats, which have a lowering.
    """
    if _is_float(x):
        return None
    divisor, bad = _safe_divisor(b, x, y)
    return select(b, bad, zero(b, x), b.op("_truncate_remainder", x, divisor))


def _float_divmod(b: KernelBuilder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return the floor quotient and the remainder of floats by NumPy's method: an exact fmod with corrected signs."""
    nought, unit = zero(b, x), one(b, x)
    by_zero = b.op("equal", y, nought)
    mod = b.op("fmod", x, y)
    quotient = b.op("divide", b.op("subtract", x, mod), y)
    nonzero = b.op("not_equal", mod, nought)
    flip = both(b, nonzero, b.op("not_equal", b.op("less", y, nought), b.op("less", mod, nought)))
    rest = select(b, flip, b.op("add", mod, y), mod)
    quotient = select(b, flip, b.op("subtract", quotient, unit), quotient)
    rest = select(b, nonzero, rest, b.op("copysign", nought, y))
    floor = b.op("floor", quotient)
    far = b.op("greater", b.op("subtract", quotient, floor), b.constant(0.5, x.type))
    whole = select(b, far, b.op("add", floor, unit), floor)
    # if only the sign of x / y matters or y is 0, use products: a division takes many instructions on a GPU
    signed_zero = b.op("multiply", b.op("copysign", nought, x), b.op("copysign", unit, y))
    whole = select(b, b.op("not_equal", quotient, nought), whole, signed_zero)
    infinite = b.op("multiply", x, b.op("copysign", b.constant(np.inf, x.type), y))
    # a zero divisor: the quotient is x / y, and the remainder is the NaN that fmod returned
    return select(b, by_zero, infinite, whole), select(b, by_zero, mod, rest)


def power(b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Expand an integer power into repeated squaring with wraparound. Return None for floats, whose powers are calls of `pow`."""
    if _is_float(x):
        return None
    bits = b.constant(x.dtype.itemsize * 8)
    with b.loop(bits, "serial", initial=[one(b, x), x, y]) as loop:
        result, base, rest = loop.carried
        odd = b.op("not_equal", b.op("bitwise_and", rest, one(b, y)), zero(b, y))
        result = select(b, odd, b.op("multiply", result, base), result)
        base = b.op("multiply", base, base)
        loop.yield_(result, base, b.op("_shift_right_logical", rest, one(b, y)))
    return loop.results[0]


def sign(b: KernelBuilder, x: Value) -> Value:
    """Return -1, 0 or 1 according to the sign of `x`, or NaN for NaN."""
    nought, unit = zero(b, x), one(b, x)
    positive = select(b, b.op("greater", x, nought), unit, nought)
    if x.dtype.kind == "u":
        return positive
    result = select(b, b.op("less", x, nought), b.constant(-1, x.type), positive)
    if _is_float(x):
        result = select(b, b.op("not_equal", x, x), x, result)
    return result


def reciprocal(b: KernelBuilder, x: Value) -> Value:
    """Return 1 / x. For integers, the result is rounded towards zero, and 1 / 0 is 0."""
    if _is_float(x):
        return b.op("divide", one(b, x), x)
    divisor, _ = _safe_divisor(b, one(b, x), x)
    return select(b, b.op("equal", x, zero(b, x)), zero(b, x), b.op("_truncate_divide", one(b, x), divisor))


def heaviside(b: KernelBuilder, x: Value, at_zero: Value) -> Value:
    """Return 0 for negative x, 1 for positive x, `at_zero` for x = 0, and NaN for NaN."""
    nought, unit = zero(b, x), one(b, x)
    result = select(b, b.op("less", x, nought), nought, unit)
    result = select(b, b.op("equal", x, nought), at_zero, result)
    return select(b, b.op("not_equal", x, x), x, result)


def _gcd(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the greatest common divisor by Euclid's algorithm."""
    a, c = (b.op("absolute", v) if v.dtype.kind == "i" else v for v in (x, y))
    # (one step more than Euclid's algorithm takes at most, for example 92 divisions for 64-bit numbers)
    steps = b.constant({1: 13, 2: 24, 4: 47, 8: 93}[x.dtype.itemsize])
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    with b.loop(steps, "serial", initial=[b.cast(a, unsigned), b.cast(c, unsigned)]) as loop:
        big, small = loop.carried
        done = b.op("equal", small, zero(b, small))
        rest = b.op("_truncate_remainder", big, select(b, done, one(b, small), small))
        loop.yield_(select(b, done, big, small), select(b, done, small, rest))
    return b.cast(loop.results[0], x.dtype)


def _lcm(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Return the least common multiple of two integers, with wraparound."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    a, c = (b.cast(b.op("absolute", v) if x.dtype.kind == "i" else v, unsigned) for v in (x, y))
    divisor = b.op("gcd", a, c)
    none = b.op("equal", divisor, zero(b, a))
    part = b.op("_truncate_divide", a, select(b, none, one(b, a), divisor))
    return b.cast(b.op("multiply", part, c), x.dtype)


def _truncated(x: np.ndarray, y: np.ndarray) -> Any:
    quotient = np.floor_divide(x, y)
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(quotient.dtype)


INTEGERS = "bBhHiIlLqQ"
SAME_INTEGERS = tuple(f"{c}{c}->{c}" for c in INTEGERS)
_NUMBER = {"b": "instruction or", "i": "instruction add", "u": "instruction add", "f": "instruction fadd"}


def _truncating(name: str, instruction: str, reference: Any, doc: str) -> OpDef:
    lowering = {kind: f"instruction {letter}{instruction}" for kind, letter in (("i", "s"), ("u", "u"))}
    return OpDef(f"_truncate_{name}", doc, loops=SAME_INTEGERS, reference=reference, lowering=lowering, cost=20)


ROWS = (
    OpDef(
        "_complex",
        "Return the complex number with these real and imaginary parts.",
        loops=("ff->F", "dd->D"),
        reference=_join_parts,
        on_pairs=lambda b, real, imag: (real, imag),
        expand=_parts_alone,
    ),
    OpDef(
        "add",
        "Return the sum of the operands.",
        lowering=_NUMBER,
        on_pairs=pairs.by_parts("add"),
        identity=0,
        dunder="add",
    ),
    OpDef(
        "subtract",
        "Return the first operand minus the second.",
        lowering={"i": "instruction sub", "u": "instruction sub", "f": "instruction fsub"},
        on_pairs=pairs.by_parts("subtract"),
        dunder="sub",
    ),
    OpDef(
        "multiply",
        "Return the product of the operands.",
        lowering={"b": "instruction and", "i": "instruction mul", "u": "instruction mul", "f": "instruction fmul"},
        on_pairs=pairs.multiply,
        identity=1,
        dunder="mul",
    ),
    OpDef(
        "divide",
        "Return the first operand divided by the second (true division).",
        lowering={"f": "instruction fdiv"},
        on_pairs=pairs.divide,
        cost=8,
        dunder="truediv",
        aliases=("true_divide",),
    ),
    OpDef(
        "floor_divide",
        "Return the largest integer that does not exceed the quotient of the operands.",
        expand=floor_divide,
        cost=20,
        dunder="floordiv",
    ),
    OpDef(
        "remainder",
        "Return the remainder of the division, with the sign of the divisor.",
        expand=remainder,
        cost=20,
        dunder="mod",
        aliases=("mod",),
    ),
    OpDef(
        "fmod",
        "Return the remainder of the division, with the sign of the dividend.",
        expand=fmod,
        lowering={"f": "math fmod"},
        cost=20,
    ),
    OpDef(
        "power",
        "Return the first operand raised to the power of the second.",
        expand=power,
        lowering={"f": "math pow"},
        on_pairs=pair_functions.on_pairs(pair_functions.power),
        cost=40,
        ulp=4,
        dunder="pow",
        aliases=("pow",),
    ),
    OpDef(
        "float_power",
        "Return the first operand raised to the power of the second, in float64 or complex128.",
        expand=lambda b, x, y: b.op("power", x, y),
        on_pairs=pair_functions.on_pairs(pair_functions.power),
        cost=40,
        ulp=4,
    ),
    OpDef(
        "negative",
        "Return the negative of the operand.",
        lowering={"i": "negate", "u": "negate", "f": "instruction fneg"},
        on_pairs=pairs.by_parts("negative"),
        dunder="neg",
    ),
    OpDef(
        "positive",
        "Return the operand unchanged.",
        lowering=dict.fromkeys("biuf", "same"),
        on_pairs=lambda b, x: x,
        dunder="pos",
    ),
    OpDef(
        "absolute",
        "Return the absolute value of the operand.",
        lowering={"b": "same", "i": "intrinsic llvm.abs", "u": "same", "f": "intrinsic llvm.fabs"},
        on_pairs=pairs.absolute,
        dunder="abs",
        aliases=("abs",),
    ),
    OpDef("fabs", "Return the absolute value of the operand as a float.", lowering={"f": "intrinsic llvm.fabs"}),
    OpDef(
        "sign",
        "Return the sign of the operand: -1, 0 or 1, or x / abs(x) for complex numbers.",
        expand=sign,
        on_pairs=pairs.sign,
        cost=4,
    ),
    OpDef(
        "square",
        "Return the square of the operand.",
        expand=lambda b, x: b.op("multiply", x, x),
        on_pairs=pairs.square,
    ),
    OpDef("reciprocal", "Return 1 divided by the operand.", expand=reciprocal, on_pairs=pairs.reciprocal, cost=8),
    OpDef(
        "heaviside",
        "Return the Heaviside step function, whose value at 0 is the second operand.",
        expand=heaviside,
        cost=4,
    ),
    OpDef("gcd", "Return the greatest common divisor of the operands.", expand=_gcd, cost=100),
    OpDef("lcm", "Return the least common multiple of the operands.", expand=_lcm, cost=110),
    OpDef(
        "conjugate",
        "Return the complex conjugate of the operand.",
        lowering=dict.fromkeys("biuf", "same"),
        on_pairs=pairs.conjugate,
        aliases=("conj",),
    ),
    _truncating("divide", "div", _truncated, "Divide integers and round towards zero; the division must not trap."),
    _truncating("remainder", "rem", np.fmod, "Return the remainder of `_truncate_divide`; the division must not trap."),
)
