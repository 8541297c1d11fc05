"""Elementary and special functions as ops."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops import pair_functions, pairs
from weft.codegen.ops.arithmetic import one, select, zero
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value


def _math(name: str, doc: str, ulp: float = 4) -> OpDef:
    """Return an op for a C library function that NumPy also has. Where NumPy writes "arc", C and an alias write "a"."""
    c_name = f"a{name[3:]}" if name.startswith("arc") else name
    function = getattr(pair_functions, name, None)
    return OpDef(
        name,
        doc,
        lowering={"f": f"math {c_name}"},
        on_pairs=None if function is None else pair_functions.on_pairs(function),
        cost=20,
        ulp=ulp,
        aliases=(c_name,) if c_name != name else (),
    )


def _special(name: str, c_name: str, doc: str, reference: Any) -> OpDef:
    """Return an op for a C library function that NumPy lacks."""
    return OpDef(
        name,
        doc,
        loops=("e->e", "f->f", "d->d"),
        reference=np.vectorize(reference, otypes="d"),
        lowering={"f": f"math {c_name}"},
        cost=40,
        ulp=8,
    )


def _round(name: str, doc: str) -> OpDef:
    lowering = {**dict.fromkeys("biu", "same"), "f": f"intrinsic llvm.{name}"}
    return OpDef(name, doc, lowering=lowering, on_pairs=pairs.by_parts("rint") if name == "rint" else None)


def _scale(name: str, alias: str, factor: float, doc: str) -> OpDef:
    """Return an op that multiplies its operand by a constant."""

    def expand(b: KernelBuilder, x: Value) -> Value:
        return b.op("multiply", x, b.constant(factor, x.type))

    return OpDef(name, doc, expand=expand, ulp=1, aliases=(alias,))


def _part(name: str, position: int, doc: str, **own: Any) -> OpDef:
    """Return the op for the real part (position 0) or the imaginary part of the operand."""
    loops = (*(f"{c}->{c}" for c in "?bBhHiIlLqQefd"), "F->f", "D->d")
    return OpDef(name, doc, loops=loops, reference=getattr(np, name), on_pairs=lambda b, x: x[position], **own)


def _logaddexp(exp: str, log1p: Any, one_log: float, b: KernelBuilder, x: Value, y: Value) -> Value:
    difference = b.op("subtract", x, y)
    swap = b.op("greater", difference, zero(b, x))
    top = select(b, swap, x, y)
    grown = log1p(b, b.op(exp, b.op("negative", b.op("absolute", difference))))
    result = select(b, b.op("equal", difference, difference), b.op("add", top, grown), difference)
    return select(b, b.op("equal", x, y), b.op("add", x, b.constant(one_log, x.type)), result)


def _log2_1p(b: KernelBuilder, x: Value) -> Value:
    return b.op("multiply", b.op("log1p", x), b.constant(1 / math.log(2), x.type))


def _sinc(b: KernelBuilder, x: Value) -> Value:
    x = b.cast(x, np.float64) if x.dtype.kind in "biu" else x
    y = b.op("multiply", x, b.constant(math.pi, x.type))
    none = b.op("equal", y, zero(b, y))
    safe = select(b, none, one(b, y), y)
    return select(b, none, one(b, y), b.op("divide", b.op("sin", safe), safe))


def _gamma(x: float) -> float:
    """Return the gamma function of `x`, with C's results where `math.gamma` raises an exception."""
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)
    except ValueError:
        return math.nan if x else math.copysign(math.inf, x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError):
        return math.inf


def _ldexp(b: KernelBuilder, x: Value, exponent: Value) -> Value:
    """Return x * 2**exponent, computed by three multiplications."""
    n = b.cast(exponent, np.int64)
    limits = np.finfo(x.dtype)
    # unless the final result is 0, all multiplications before the last one are exact
    limit, further = limits.maxexp - 2, limits.nmant + 1 - (limits.maxexp - 2)
    result = x
    for _ in range(3):
        part = b.op("minimum", n, b.constant(limit, np.int64))
        low = b.op("less", part, b.constant(-limit, np.int64))
        part = select(b, low, b.constant(further, np.int64), part)
        result = b.op("multiply", result, b.op("exp2", b.cast(part, x.dtype)))
        n = b.op("subtract", n, part)
    return result


ROWS = (
    _round("rint", "Round to the nearest integer; round ties to the nearest even integer."),
    _round("floor", "Return the largest integer that is not greater than the operand."),
    _round("ceil", "Return the smallest integer that is not less than the operand."),
    _round("trunc", "Round to an integer toward zero."),
    OpDef(
        "sqrt",
        "Return the square root of the operand.",
        lowering={"f": "intrinsic llvm.sqrt"},
        on_pairs=pair_functions.on_pairs(pair_functions.sqrt),
        cost=8,
    ),
    _math("cbrt", "Return the cube root of the operand."),
    _math("exp", "Return e raised to the power of the operand."),
    _math("exp2", "Return 2 raised to the power of the operand."),
    _math("expm1", "Return exp(x) - 1, accurately even for x near 0."),
    _math("log", "Return the natural logarithm of the operand."),
    _math("log2", "Return the base-2 logarithm of the operand."),
    _math("log10", "Return the base-10 logarithm of the operand."),
    _math("log1p", "Return log(1 + x), accurately even for x near 0."),
    _math("sin", "Return the sine of an angle in radians."),
    _math("cos", "Return the cosine of an angle in radians."),
    _math("tan", "Return the tangent of an angle in radians."),
    _math("arcsin", "Return the angle in radians whose sine is the operand."),
    _math("arccos", "Return the angle in radians whose cosine is the operand."),
    _math("arctan", "Return the angle in radians whose tangent is the operand."),
    _math(
        "arctan2", "Return the angle whose tangent is the first operand divided by the second, in the correct quadrant."
    ),
    _math("sinh", "Return the hyperbolic sine of the operand."),
    _math("cosh", "Return the hyperbolic cosine of the operand."),
    _math("tanh", "Return the hyperbolic tangent of the operand."),
    _math("arcsinh", "Return the inverse hyperbolic sine of the operand."),
    _math("arccosh", "Return the inverse hyperbolic cosine of the operand."),
    _math("arctanh", "Return the inverse hyperbolic tangent of the operand."),
    _math("hypot", "Return the hypotenuse of a right triangle whose legs are the operands."),
    _math("nextafter", "Return the next float after the first operand, in the direction of the second.", ulp=0),
    _scale("deg2rad", "radians", math.pi / 180, "Convert an angle from degrees to radians."),
    _scale("rad2deg", "degrees", 180 / math.pi, "Convert an angle from radians to degrees."),
    OpDef(
        "logaddexp",
        "Return log(exp(x) + exp(y)).",
        expand=partial(_logaddexp, "exp", lambda b, v: b.op("log1p", v), math.log(2)),
        cost=50,
        ulp=8,
    ),
    OpDef("logaddexp2", "Return log2(2**x + 2**y).", expand=partial(_logaddexp, "exp2", _log2_1p, 1.0), cost=50, ulp=8),
    OpDef("ldexp", "Return the first operand times 2 raised to the power of the second.", expand=_ldexp, cost=60),
    OpDef(
        "sinc",
        "Return sin(pi x) / (pi x), or 1 if x is 0.",
        loops=("?->d", "b->d", "B->d", "h->d", "H->d", "e->e", "f->f", "d->d"),
        reference=np.sinc,
        expand=_sinc,
        cost=30,
        ulp=8,
    ),
    OpDef(
        "fma",
        "Return x * y + z, rounded once.",
        loops=("fff->f", "ddd->d"),
        reference=lambda x, y, z: _fma_reference(x, y, z),
        lowering={"f": "intrinsic llvm.fma"},
    ),
    _special("erf", "erf", "Return the error function of the operand.", math.erf),
    _special("erfc", "erfc", "Return 1 - erf(x), accurately even if erf(x) is near 1.", math.erfc),
    _special("gamma", "tgamma", "Return the gamma function of the operand.", _gamma),
    _special("lgamma", "lgamma", "Return the logarithm of the absolute value of the gamma function.", _lgamma),
    _part("real", 0, "Return the real part of the operand.", lowering=dict.fromkeys("biuf", "same")),
    _part("imag", 1, "Return the imaginary part of the operand.", expand=zero),
)


def _fma_reference(x: np.ndarray, y: np.ndarray, z: Any) -> Any:
    """Return the fused multiply-add of float32 or float64 numbers, correctly rounded."""
    if x.dtype.itemsize == 8:
        return np.vectorize(_fma_of_float64, otypes="d")(x, y, z)[()]
    with np.errstate(all="ignore"):
        product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
        total = np.asarray(product + addend)
        # the rounding error of the sum (Knuth's two-sum) is kept as its last bit, which decides the second rounding in
        # a tie
        part = total - product
        lost = (product - (total - part)) + (addend - part)
        inexact = np.isfinite(total) & (lost != 0)
        below = total.view(np.int64) - ((lost > 0) != (total > 0))
        return np.where(inexact, (below | 1).view(np.float64), total).astype(x.dtype)[()]


def _fma_of_float64(x: float, y: float, z: float) -> float:
    """Return x * y + z, computed exactly and rounded once."""
    x, y, z = float(x), float(y), float(z)
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z  # (the product may overflow)
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if not total:
        return x * y + z  # (the product is exact, and the sum has the sign of zero that IEEE 754 requires)
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
