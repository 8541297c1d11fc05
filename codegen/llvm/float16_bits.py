"""Conversions between float16 and float32 without conversion instructions.

Old x86 processors lack such instructions. For them, LLVM would call functions of the compiler's runtime library, which
a Python process does not contain.
"""

from __future__ import annotations

from weft.codegen.llvm.emit_text import Writer, wide
from weft.codegen.llvm.function_formulas import FLOAT32, FloatText
from weft.codegen.target import Target


def has_float16(target: Target) -> bool:
    """Return whether the target has instructions that convert float16. Only old x86 processors have none."""
    return not target.triple.startswith(("x86_64", "i386", "i686")) or "+f16c" in target.features.split(",")


def to_float32(writer: Writer, text: str, lanes: int) -> str:
    """Convert a float16 to float32."""
    t = FloatText(writer, FLOAT32, lanes)
    half, short = wide("half", lanes), wide("i16", lanes)
    bits = t.line(f"zext {short} {t.line(f'bitcast {half} {text} to {short}')} to {t.whole}")
    moved = t.bits_op("shl", t.bits_op("and", bits, 0x7FFF), 13)
    # the product is exact, also for subnormal numbers; infinities and NaN get the largest exponent
    scaled = t.as_bits(t.op("fmul", t.as_float(moved), t.number(2.0**112)))
    finite = t.bits_op("icmp ult", moved, 0x7C00 << 13)
    found = t.select(finite, scaled, t.bits_op("or", moved, 0x7F800000), t.whole)
    return t.as_float(t.bits_op("or", found, t.bits_op("shl", t.bits_op("and", bits, 0x8000), 16)))


def to_float16(writer: Writer, text: str, lanes: int) -> str:
    """Round a float32 to the nearest float16, with ties to even."""
    t = FloatText(writer, FLOAT32, lanes)
    half, short = wide("half", lanes), wide("i16", lanes)
    bits = t.as_bits(text)
    size = t.bits_op("and", bits, 0x7FFFFFFF)
    # half a unit, or slightly less if the last bit is 0; the difference of the exponents' biases is 112
    odd = t.bits_op("and", t.bits_op("lshr", size, 13), 1)
    normal = t.bits_op("lshr", t.bits_op("add", t.bits_op("add", size, 0xFFF - (112 << 23)), odd), 13)
    normal = t.select(t.bits_op("icmp ult", normal, 0x7C00), normal, t.integer(0x7C00), t.whole)
    # a unit of 0.5 in float32 is a unit of the subnormal numbers in float16
    subnormal = t.bits_op("sub", t.as_bits(t.op("fadd", t.as_float(size), t.number(0.5))), 0x3F000000)
    nan = t.bits_op("or", t.bits_op("and", t.bits_op("lshr", size, 13), 0x3FF), 0x7E00)
    found = t.select(t.bits_op("icmp ult", size, 113 << 23), subnormal, normal, t.whole)
    found = t.select(t.bits_op("icmp ule", size, 0x7F800000), found, nan, t.whole)
    signed = t.bits_op("or", found, t.bits_op("and", t.bits_op("lshr", bits, 16), 0x8000))
    return t.line(f"bitcast {short} {t.line(f'trunc {t.whole} {signed} to {short}')} to {half}")
