"""Formulas of elementary functions in place of calls to the C library.

In: operands as LLVM text, scalars or vectors. Out: the result's text. A formula consists of operations that IEEE 754
defines exactly, including explicit fused multiply-adds. A value therefore does not depend on its lane, the machine,
or the version of the C library, and no call forces a loop to spill its vectors. The polynomials are minimax
approximations. Invariant: infinities, NaN, signed zeros and subnormal numbers follow C99's Annex F. The error is below
3 units in the last place, as `tests/codegen/llvm/test_function_formulas.py` measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.codegen.llvm.emit_text import Writer, literal, scalar_type, suffix, wide
from weft.codegen.llvm.vector_math import c_name
from weft.codegen.target import Target
from weft.runtime import read_llvm


@dataclass(frozen=True)
class _Format:
    """Constants of the formulas for a float format, float32 or float64."""

    dtype: np.dtype
    integer: str
    fraction: int  # number of bits of the fraction
    bias: int  # bias of the exponent
    ln2_high: float  # high part of ln(2), with few bits: its product with an exponent is exact
    ln2_low: float
    exp_low: float  # for smaller x, e**x is 0
    exp_high: float  # for larger x, e**x is infinite
    exp2_low: float
    exp2_high: float
    near_overflow: float  # for larger x, 2**n may be infinite although e**x is finite
    expm1_low: float  # for smaller x, e**x - 1 is -1
    tanh_high: float  # for larger x, tanh(x/2) is 1
    lift: int  # exponent that makes a subnormal number normal
    # (e**r - 1 - r) / r**2 for |r| up to ln(2)/2
    exp: tuple[float, ...]
    # (log(1 + f) - f + f**2 / 2) / f**3 for 1 + f between sqrt(1/2) and sqrt(2)
    log: tuple[float, ...]

    @property
    def magnitude_mask(self) -> int:
        """Return the mask of all bits except the sign."""
        return (1 << (8 * self.dtype.itemsize - 1)) - 1


# fmt: off
FLOAT32 = _Format(
    np.dtype(np.float32), "i32", 23, 127, 0.693145751953125, 1.428606765330187e-06,
    -104.0, 89.0, -151.0, 129.0, 88.0, -20.0, 20.0, 24,
    (0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.008369210176169872, 0.0013838501181453466),
    (0.3333331048488617, -0.25000298023223877, 0.20002496242523193, -0.16652390360832214, 0.14198629558086395,
     -0.1266338974237442, 0.1229984387755394, -0.10325616598129272, 0.042094483971595764),
)
_FLOAT64 = _Format(
    np.dtype(np.float64), "i64", 52, 1023, 6.93147180369123816490e-01, 1.90821492927058770002e-10,
    -746.0, 710.0, -1077.0, 1025.0, 709.0, -40.0, 40.0, 54,
    (0.5, 0.16666666666666682, 0.041666666666666095, 0.008333333333317034, 0.0013888888889115596,
     0.00019841269896383513, 2.4801586926681097e-05, 2.7557234862106516e-06, 2.755758181630802e-07,
     2.51120368031556e-08, 2.082663498095241e-09),
    (0.33333333333333454, -0.2499999999999892, 0.1999999999994614, -0.1666666666691436, 0.1428571429384085,
     -0.12499999982022078, 0.11111110516077871, -0.1000000038312436, 0.09090933504646258, -0.08333345764262814,
     0.07691714496522066, -0.07142000004122658, 0.06675147928559295, -0.06269801738905245, 0.05817782983911774,
     -0.05326776231098483, 0.05415957811737295, -0.06275042098787188, 0.056968852520922424, -0.024276307345661163),
)
# fmt: on
_FORMATS = {4: FLOAT32, 8: _FLOAT64}


class FloatText:
    """Builder of LLVM text for arithmetic on vectors, or on scalars if `lanes` is 0.

    Instruction names begin with ``%m``, so that the user's fast-math flags are not applied to these instructions.
    """

    def __init__(self, writer: Writer, format: _Format, lanes: int) -> None:
        self.writer = writer
        self.format = format
        self.lanes = lanes
        self.kind = wide(scalar_type(format.dtype), lanes)
        self.whole = wide(format.integer, lanes)

    def line(self, text: str) -> str:
        """Append an instruction, and return the name of its result."""
        name = f"%m{self.writer.fresh_number()}"
        self.writer.lines.append(f"  {name} = {text}")
        return name

    def _splat(self, scalar: str, text: str) -> str:
        return f"splat ({scalar} {text})" if self.lanes else text

    def number(self, value: float) -> str:
        """Return the text of a float constant."""
        return self._splat(scalar_type(self.format.dtype), literal(self.format.dtype.type(value), self.format.dtype))

    def integer(self, value: int) -> str:
        """Return the text of an integer constant that has as many bits as the format's floats."""
        return self._splat(self.format.integer, str(value))

    def op(self, word: str, x: str, y: str) -> str:
        """Append an instruction with two float operands."""
        return self.line(f"{word} {self.kind} {x}, {y}")

    def bits_op(self, word: str, x: str, y: int | str) -> str:
        """Append an instruction with two integer operands."""
        return self.line(f"{word} {self.whole} {x}, {self.integer(y) if isinstance(y, int) else y}")

    def fma(self, x: str, y: str, z: str) -> str:
        """Emit x * y + z, rounded once, and return the result's text."""
        name = f"llvm.fma.{suffix(scalar_type(self.format.dtype), self.lanes)}"
        self.writer.declare(name, self.kind, [self.kind] * 3)
        return self.line(f"call {self.kind} @{name}({', '.join(f'{self.kind} {v}' for v in (x, y, z))})")

    def test(self, word: str, x: str, value: float) -> str:
        """Compare `x` with a constant. The parameter `word` is an LLVM predicate, such as "olt" (false for NaN)."""
        return self.line(f"fcmp {word} {self.kind} {x}, {self.number(value)}")

    def select(self, condition: str, x: str, y: str, kind: str = "") -> str:
        """Emit a select: `x` where `condition` holds, and `y` elsewhere."""
        kind = kind or self.kind
        return self.line(f"select {wide('i1', self.lanes)} {condition}, {kind} {x}, {kind} {y}")

    def as_bits(self, x: str) -> str:
        """Reinterpret the bits of a float as an integer."""
        return self.line(f"bitcast {self.kind} {x} to {self.whole}")

    def as_float(self, bits: str) -> str:
        """Reinterpret the bits of an integer as a float."""
        return self.line(f"bitcast {self.whole} {bits} to {self.kind}")

    def polynomial(self, x: str, square: str, coefficients: tuple[float, ...]) -> str:
        """Evaluate a polynomial, whose coefficients start with the constant term.

        Even and odd powers are separate chains, which halves the latency.
        """
        halves = []
        for part in (coefficients[::2], coefficients[1::2]):
            text = self.number(part[-1])
            for c in reversed(part[:-1]):
                text = self.fma(text, square, self.number(c))
            halves.append(text)
        return self.fma(halves[1], x, halves[0])

    def clamp(self, x: str, low: float | None, high: float | None) -> str:
        """Clamp a value to a range. NaN is unchanged."""
        if high is not None:
            x = self.select(self.test("ogt", x, high), self.number(high), x)
        if low is not None:
            x = self.select(self.test("olt", x, low), self.number(low), x)
        return x

    def magnitude(self, x: str) -> str:
        """Return the absolute value."""
        return self.as_float(self.bits_op("and", self.as_bits(x), self.format.magnitude_mask))

    def with_sign(self, x: str, other: str) -> str:
        """Return a magnitude combined with the sign of another value."""
        sign = self.bits_op("and", self.as_bits(other), ~self.format.magnitude_mask)
        return self.as_float(self.bits_op("or", self.as_bits(x), sign))

    def unchanged_if_tiny(self, x: str, result: str) -> str:
        """Return `x` where |x| is so small that f(x) rounds to x, and `result` elsewhere.

        This keeps the sign of zero and the bits of subnormal numbers.
        """
        small = self.test("olt", self.magnitude(x), 2.0 ** -(self.format.fraction + 2))
        return self.select(small, x, result)

    # -- powers ----------------------------------------------------------------------------------

    @property
    def anchor(self) -> float:
        """Return a constant c for which the addition x + c rounds x to an integer n.

        The lowest bits of the sum contain n plus the exponent bias.
        """
        return 1.5 * 2.0**self.format.fraction + self.format.bias

    def split(self, x: str) -> tuple[str, str]:
        """Split x into n ln(2) + r for an integer n. Return two floats: one that encodes n in its lowest bits (see `anchor`), and r."""
        anchored = self.fma(x, self.number(1 / math.log(2)), self.number(self.anchor))
        n = self.op("fsub", anchored, self.number(self.anchor))
        r = self.fma(n, self.number(-self.format.ln2_high), x)
        return anchored, self.fma(n, self.number(-self.format.ln2_low), r)

    def expm1_reduced(self, r: str) -> str:
        """Return ``exp(r) - 1`` for a reduced argument `r` between about -0.35 and 0.35."""
        square = self.op("fmul", r, r)
        return self.fma(self.polynomial(r, square, self.format.exp), square, r)

    def power_of_two(self, anchored: str, more: str | int = 0) -> str:
        """Return the normal number ``2**(n + more)`` for integers n and `more`. The lowest bits of the float `anchored` contain n (see `anchor`)."""
        bits = self.as_bits(anchored)
        bits = bits if more == 0 else self.bits_op("add", bits, more)
        return self.as_float(self.bits_op("shl", bits, self.format.fraction))

    def scaled(self, value: str, anchored: str, x: str) -> str:
        """Return ``value * 2**n``, rounded once. The float `anchored` encodes the integer n in its lowest bits (see `anchor`).

        The result is computed by two multiplications, of which the first has a normal result.
        """
        low = self.test("olt", x, 0.0)
        more = self.select(low, self.integer(self.format.lift), self.integer(-1), self.whole)
        first = self.op("fmul", value, self.power_of_two(anchored, more))
        return self.op("fmul", first, self.select(low, self.number(2.0**-self.format.lift), self.number(2.0)))

    # -- logarithms ------------------------------------------------------------------------------

    def parts(self, x: str) -> tuple[str, str]:
        """Split x > 0 into 2**e (1 + f), and return e and f as floats. 1 + f is between sqrt(1/2) and sqrt(2)."""
        form = self.format
        small = self.test("olt", x, 2.0 ** (1 - form.bias))
        normal = self.select(small, self.op("fmul", x, self.number(2.0**form.lift)), x)
        root = int(np.array(math.sqrt(0.5), form.dtype).view(f"i{form.dtype.itemsize}"))
        moved = self.bits_op("sub", self.as_bits(normal), root - (form.bias << form.fraction))
        # the exponent as the lowest bits of a float whose last place is 1
        whole = self.bits_op("lshr", moved, form.fraction)
        whole = self.bits_op("or", whole, (form.fraction + form.bias) << form.fraction)
        offset = 2.0**form.fraction + form.bias
        away = self.select(small, self.number(offset + form.lift), self.number(offset))
        e = self.op("fsub", self.as_float(whole), away)
        m = self.bits_op("add", self.bits_op("and", moved, (1 << form.fraction) - 1), root)
        return e, self.op("fsub", self.as_float(m), self.number(1.0))

    def log_of(self, e: str, f: str) -> str:
        """Return the logarithm of x = 2**e (1 + f), given e and f."""
        y = self.log1p_residual(f)
        y = self.op("fadd", self.fma(e, self.number(self.format.ln2_low), y), f)
        return self.fma(e, self.number(self.format.ln2_high), y)

    def log1p_residual(self, f: str) -> str:
        """Return log(1 + f) - f."""
        square = self.op("fmul", f, f)
        bend = self.fma(self.polynomial(f, square, self.format.log), f, self.number(-0.5))
        return self.op("fmul", square, bend)

    def log_bounds(self, x: str, result: str) -> str:
        """Return `result`, the computed logarithm, if x is positive and finite, and otherwise the logarithm's special value for x."""
        result = self.select(self.test("olt", x, math.inf), result, x)
        outside = self.select(self.test("oeq", x, 0.0), self.number(-math.inf), self.number(math.nan))
        return self.select(self.test("ogt", x, 0.0), result, outside)


def _exp(t: FloatText, x: str) -> str:
    y = t.clamp(x, t.format.exp_low, t.format.exp_high)
    anchored, r = t.split(y)
    return t.scaled(t.op("fadd", t.expm1_reduced(r), t.number(1.0)), anchored, y)


def _exp2(t: FloatText, x: str) -> str:
    y = t.clamp(x, t.format.exp2_low, t.format.exp2_high)
    anchored = t.op("fadd", y, t.number(t.anchor))
    rest = t.op("fsub", y, t.op("fsub", anchored, t.number(t.anchor)))
    r = t.op("fmul", rest, t.number(math.log(2)))
    return t.scaled(t.op("fadd", t.expm1_reduced(r), t.number(1.0)), anchored, y)


def _expm1(t: FloatText, x: str) -> str:
    y = t.clamp(x, t.format.expm1_low, t.format.exp_high)
    anchored, r = t.split(y)
    big = t.test("ogt", y, t.format.near_overflow)
    scale = t.power_of_two(anchored, t.select(big, t.integer(-1), t.integer(0), t.whole))
    away = t.op("fsub", scale, t.select(big, t.number(0.5), t.number(1.0)))
    result = t.op("fmul", t.fma(t.expm1_reduced(r), scale, away), t.select(big, t.number(2.0), t.number(1.0)))
    return t.unchanged_if_tiny(x, result)


def _tanh(t: FloatText, x: str) -> str:
    size = t.magnitude(x)
    anchored, r = t.split(t.clamp(t.op("fadd", size, size), None, t.format.tanh_high))
    scale = t.power_of_two(anchored)
    grown = t.fma(t.expm1_reduced(r), scale, t.op("fsub", scale, t.number(1.0)))
    result = t.op("fdiv", grown, t.op("fadd", grown, t.number(2.0)))
    return t.unchanged_if_tiny(x, t.with_sign(result, x))


def _log(t: FloatText, x: str) -> str:
    return t.log_bounds(x, t.log_of(*t.parts(x)))


def _log2(t: FloatText, x: str) -> str:
    e, f = t.parts(x)
    return t.log_bounds(x, t.fma(t.op("fadd", t.log1p_residual(f), f), t.number(1 / math.log(2)), e))


def _log1p(t: FloatText, x: str) -> str:
    u = t.op("fadd", x, t.number(1.0))
    lost = t.op("fsub", x, t.op("fsub", u, t.number(1.0)))
    result = t.op("fadd", t.log_of(*t.parts(u)), t.op("fdiv", lost, u))
    return t.unchanged_if_tiny(x, t.log_bounds(u, result))


# C name -> formula.
FORMULAS: dict[str, Callable[[FloatText, str], str]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": _log2,
    "log1p": _log1p,
    "tanh": _tanh,
}


def _fmod(t: FloatText, x: str, y: str) -> str:
    lanes, kind = t.lanes or 1, scalar_type(t.format.dtype)
    symbol = c_name("fmod", 8 * t.format.dtype.itemsize)
    vector, suffixed = wide(kind, lanes), suffix(kind, lanes)
    name = f"weft_{symbol}_{lanes}"
    exact = literal(2.0**t.format.fraction, t.format.dtype)
    types: dict[str, int | str] = {"KIND": kind, "VECTOR": vector, "LANES": lanes, "SUFFIX": suffixed}
    text = read_llvm(__file__, "host_fmod", NAME=name, SYMBOL=symbol, EXACT=exact, **types)
    t.writer.declarations.setdefault(name, text)
    for intrinsic, arity in (("fabs", 1), ("trunc", 1), ("copysign", 2), ("fma", 3)):
        t.writer.declare(f"llvm.{intrinsic}.{suffixed}", vector, [vector] * arity)
    t.writer.dialect.symbols.add(symbol)
    t.writer.declare(symbol, kind, [kind] * 2)
    if not t.lanes:
        x, y = (t.line(f"insertelement {vector} poison, {kind} {each}, i32 0") for each in (x, y))
    rest = t.line(f"call {vector} @{name}({vector} {x}, {vector} {y})")
    return rest if t.lanes else t.line(f"extractelement {vector} {rest}, i32 0")


def formula(writer: Writer, target: Target, name: str, dtype: np.dtype, operands: list[str], lanes: int) -> str | None:
    """Emit an inline formula in place of a call to a C library function.

    The operands are vectors, or scalars if `lanes` is 0.

    Return None if there is no formula, or if the machine has no fused multiply-add.
    """
    written: Callable[..., str] | None = _fmod if name == "fmod" else FORMULAS.get(name)
    if written is None or not has_fma(target):
        return None
    return written(FloatText(writer, _FORMATS[dtype.itemsize], lanes), *operands)


def has_fma(target: Target) -> bool:
    """Return whether the target has a fused multiply-add instruction. Every 64-bit ARM target has one."""
    return "+fma" in target.features.split(",") or target.triple.startswith(("aarch64", "arm64"))
