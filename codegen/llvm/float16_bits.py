"""Conversions between float16 and float32 by integer arithmetic, for x86 processors without instructions for them.

LLVM would call functions of the compiler's runtime library, which a Python process does not contain.
"""

from __future__ import annotations

from weft.codegen.llvm.emit_text import Writer, wide
from weft.codegen.target import Target


def has_float16(target: Target) -> bool:
    """Return whether the target converts float16 by an instruction. All targets except old x86 processors do."""
    return not target.triple.startswith(("x86_64", "i386", "i686")) or "+f16c" in target.features.split(",")


class _Text:
    """Builder of LLVM text for scalars, or for vectors of `lanes` values."""

    def __init__(self, writer: Writer, lanes: int) -> None:
        self.line = writer.line
        self.lanes = lanes
        self.half, self.single, self.short, self.word = (wide(kind, lanes) for kind in ("half", "float", "i16", "i32"))

    def integer(self, number: int) -> str:
        return f"splat (i32 {number})" if self.lanes else str(number)

    def op(self, name: str, x: str, y: str | int) -> str:
        return self.line(f"{name} {self.word} {x}, {self.integer(y) if isinstance(y, int) else y}")

    def select(self, condition: str, x: str, y: str | int) -> str:
        other = self.integer(y) if isinstance(y, int) else y
        return self.line(f"select {wide('i1', self.lanes)} {condition}, {self.word} {x}, {self.word} {other}")

    def float_op(self, name: str, bits: str, number: str) -> str:
        """Apply a float32 instruction to the float with these bits and a constant, and return the bits of the result."""
        x = self.line(f"bitcast {self.word} {bits} to {self.single}")
        y = f"splat (float {number})" if self.lanes else number
        return self.line(f"bitcast {self.single} {self.line(f'{name} {self.single} {x}, {y}')} to {self.word}")


def to_float32(writer: Writer, text: str, lanes: int) -> str:
    """Convert a float16 to float32."""
    t = _Text(writer, lanes)
    bits = t.line(f"zext {t.short} {t.line(f'bitcast {t.half} {text} to {t.short}')} to {t.word}")
    moved = t.op("shl", t.op("and", bits, 0x7FFF), 13)
    # the product is exact, also for subnormal numbers; infinities and NaN get the largest exponent
    scaled = t.float_op("fmul", moved, "0x46F0000000000000")  # 2**112
    found = t.select(t.op("icmp ult", moved, 0x7C00 << 13), scaled, t.op("or", moved, 0x7F800000))
    signed = t.op("or", found, t.op("shl", t.op("and", bits, 0x8000), 16))
    return t.line(f"bitcast {t.word} {signed} to {t.single}")


def to_float16(writer: Writer, text: str, lanes: int) -> str:
    """Round a float32 to the nearest float16, and ties to even."""
    t = _Text(writer, lanes)
    bits = t.line(f"bitcast {t.single} {text} to {t.word}")
    size = t.op("and", bits, 0x7FFFFFFF)
    # half a unit, or slightly less if the last bit is 0; the difference of the exponents' biases is 112
    odd = t.op("and", t.op("lshr", size, 13), 1)
    normal = t.op("lshr", t.op("add", t.op("add", size, 0xFFF - (112 << 23)), odd), 13)
    normal = t.select(t.op("icmp ult", normal, 0x7C00), normal, 0x7C00)
    # a unit of 0.5 in float32 is a unit of the subnormal numbers in float16
    subnormal = t.op("sub", t.float_op("fadd", size, "0.5"), 0x3F000000)
    nan = t.op("or", t.op("and", t.op("lshr", size, 13), 0x3FF), 0x7E00)
    found = t.select(t.op("icmp ult", size, 113 << 23), subnormal, normal)
    found = t.select(t.op("icmp ule", size, 0x7F800000), found, nan)
    signed = t.op("or", found, t.op("and", t.op("lshr", bits, 16), 0x8000))
    return t.line(f"bitcast {t.short} {t.line(f'trunc {t.word} {signed} to {t.short}')} to {t.half}")
