"""Comparison, logical, bitwise and selection ops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops import pairs
from weft.codegen.ops.arithmetic import INTEGERS, both, either, one, select, test, zero
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value


def _kind(value: Value) -> str:
    assert isinstance(value.type, np.dtype)
    return value.type.kind


def truth(b: KernelBuilder, x: Value) -> Value:
    """Return whether `x` is not 0."""
    return x if _kind(x) == "b" else test(b, "not_equal", x, zero(b, x))


def _logical(name: str, b: KernelBuilder, x: Value, y: Value) -> Value:
    return b.op(name, truth(b, x), truth(b, y))


def _logical_not(b: KernelBuilder, x: Value) -> Value:
    return b.op("bitwise_xor", truth(b, x), b.constant(True, np.bool_))


def _extreme(strict: str, b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Expand `minimum` or `maximum` into simpler operations that propagate NaN."""
    if _kind(x) == "b":
        return b.op("bitwise_and" if strict == "less" else "bitwise_or", x, y)
    if _kind(x) != "f":
        return None
    return select(b, either(b, test(b, strict, x, y), test(b, "not_equal", x, x)), x, y)


def _number_extreme(strict: str, b: KernelBuilder, x: Value, y: Value) -> Value:
    """Expand `fmin` or `fmax` into simpler operations that ignore NaN."""
    if _kind(x) != "f":
        return b.op("minimum" if strict == "less" else "maximum", x, y)
    return select(b, either(b, test(b, strict, x, y), test(b, "not_equal", y, y)), x, y)


def _clip(b: KernelBuilder, x: Value, low: Value, high: Value) -> Value:
    return b.op("minimum", b.op("maximum", x, low), high)


def _shift(name: str, b: KernelBuilder, x: Value, count: Value) -> Value:
    """Expand a shift into operations that allow any count.

    Counts of at least the bit width shift out all bits.
    """
    assert isinstance(x.type, np.dtype)
    width = x.type.itemsize * 8
    unsigned = np.dtype(f"u{x.type.itemsize}")
    fits = test(b, "less", b.cast(count, unsigned), b.constant(width, unsigned))
    if name == "_shift_right" and _kind(x) == "i":
        return b.op(name, x, select(b, fits, count, b.constant(width - 1, count.type)))
    # select the operand, not the result: LLVM would turn a select of results into PTX's clamping shift, which reads
    # only 32 bits of the count
    primitive = "_shift_right_logical" if name == "_shift_right" else name
    kept = b.op("bitwise_and", count, b.constant(width - 1, count.type))
    return b.op(primitive, select(b, fits, x, zero(b, x)), kept)


def _isfinite(b: KernelBuilder, x: Value) -> Value:
    if _kind(x) != "f":
        return b.constant(True, np.bool_)
    return test(b, "less", b.op("absolute", x), b.constant(np.inf, x.type))


def _isinf(b: KernelBuilder, x: Value) -> Value:
    if _kind(x) != "f":
        return b.constant(False, np.bool_)
    return test(b, "equal", b.op("absolute", x), b.constant(np.inf, x.type))


def _isnan(b: KernelBuilder, x: Value) -> Value:
    return b.constant(False, np.bool_) if _kind(x) != "f" else test(b, "not_equal", x, x)


def _signbit(b: KernelBuilder, x: Value) -> Value:
    return test(b, "less", b.op("copysign", one(b, x), x), zero(b, x))


def _compare(signed: str, floats: str) -> dict[str, str]:
    unsigned = signed if signed in ("eq", "ne") else "u" + signed[1:]
    return {"b": f"icmp {unsigned}", "i": f"icmp {signed}", "u": f"icmp {unsigned}", "f": f"fcmp {floats}"}


def _mixed(name: str, b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Expand a comparison between int64 and uint64 into operations that give the exact result.

    NumPy's comparison is exact too.
    """
    if x.type == y.type or {_kind(x), _kind(y)} != {"i", "u"}:
        return None
    signed, other = (x, y) if _kind(x) == "i" else (y, x)
    below = test(b, "less", signed, zero(b, signed))
    as_unsigned = b.cast(select(b, below, zero(b, signed), signed), other.type)
    pair = (as_unsigned, other) if signed is x else (other, as_unsigned)
    plain = test(b, name, *pair)
    # a negative number is less than every unsigned number
    answer = (
        name in ("less", "less_equal", "not_equal")
        if signed is x
        else name in ("greater", "greater_equal", "not_equal")
    )
    return select(b, below, b.constant(answer, np.bool_), plain)


def _bits(name: str) -> dict[str, str]:
    return dict.fromkeys("biu", f"instruction {name}")


def _as_if(kind: str, function: Any, *operands: Any) -> Any:
    """Apply `function` to operands converted to signed ("i") or unsigned ("u") integers."""
    dtype = operands[0].dtype
    return function(*(x.astype(f"{kind}{dtype.itemsize}") for x in operands)).astype(dtype)


ROWS = (
    OpDef(
        "equal",
        2,
        "Return whether the operands are equal.",
        expand=partial(_mixed, "equal"),
        lowering=_compare("eq", "oeq"),
        on_pairs=pairs.equal,
        dunder="eq",
    ),
    OpDef(
        "not_equal",
        2,
        "Return whether the operands are different.",
        expand=partial(_mixed, "not_equal"),
        lowering=_compare("ne", "une"),
        on_pairs=pairs.not_equal,
        dunder="ne",
    ),
    OpDef(
        "less",
        2,
        "Return whether the first operand is less than the second.",
        expand=partial(_mixed, "less"),
        lowering=_compare("slt", "olt"),
        on_pairs=pairs.less,
        dunder="lt",
    ),
    OpDef(
        "less_equal",
        2,
        "Return whether the first operand is less than or equal to the second.",
        expand=partial(_mixed, "less_equal"),
        lowering=_compare("sle", "ole"),
        on_pairs=pairs.less_equal,
        dunder="le",
    ),
    OpDef(
        "greater",
        2,
        "Return whether the first operand is greater than the second.",
        expand=partial(_mixed, "greater"),
        lowering=_compare("sgt", "ogt"),
        on_pairs=pairs.greater,
        dunder="gt",
    ),
    OpDef(
        "greater_equal",
        2,
        "Return whether the first operand is greater than or equal to the second.",
        expand=partial(_mixed, "greater_equal"),
        lowering=_compare("sge", "oge"),
        on_pairs=pairs.greater_equal,
        dunder="ge",
    ),
    OpDef(
        "logical_and",
        2,
        "Return whether both operands are nonzero.",
        expand=partial(_logical, "bitwise_and"),
        on_pairs=pairs.logical_and,
        identity=True,
    ),
    OpDef(
        "logical_or",
        2,
        "Return whether at least one operand is nonzero.",
        expand=partial(_logical, "bitwise_or"),
        on_pairs=pairs.logical_or,
        identity=False,
    ),
    OpDef(
        "logical_xor",
        2,
        "Return whether exactly one operand is nonzero.",
        expand=partial(_logical, "bitwise_xor"),
        on_pairs=pairs.logical_xor,
        identity=False,
    ),
    OpDef("logical_not", 1, "Return whether the operand is zero.", expand=_logical_not, on_pairs=pairs.logical_not),
    OpDef(
        "bitwise_and", 2, "Return the bitwise AND of the operands.", lowering=_bits("and"), identity=-1, dunder="and"
    ),
    OpDef("bitwise_or", 2, "Return the bitwise OR of the operands.", lowering=_bits("or"), identity=0, dunder="or"),
    OpDef(
        "bitwise_xor",
        2,
        "Return the bitwise exclusive OR of the operands.",
        lowering=_bits("xor"),
        identity=0,
        dunder="xor",
    ),
    OpDef(
        "invert",
        1,
        "Return the operand with all bits inverted.",
        lowering=dict.fromkeys("biu", "not"),
        dunder="invert",
        aliases=("bitwise_not", "bitwise_invert"),
    ),
    OpDef(
        "left_shift",
        2,
        "Shift the bits to the left; return 0 if the shift count is at least the number of bits.",
        expand=partial(_shift, "_shift_left"),
        cost=4,
        dunder="lshift",
        aliases=("bitwise_left_shift",),
    ),
    OpDef(
        "right_shift",
        2,
        "Shift the bits to the right; fill the vacated bits with the sign bit, or with 0 if the dtype is unsigned.",
        expand=partial(_shift, "_shift_right"),
        cost=4,
        dunder="rshift",
        aliases=("bitwise_right_shift",),
    ),
    OpDef(
        "bitwise_count",
        1,
        "Return the number of 1 bits in the absolute value of the operand.",
        expand=lambda b, x: b.cast(b.op("_population", b.op("absolute", x)), np.uint8),
        cost=4,
    ),
    OpDef(
        "_population",
        1,
        "Return the number of 1 bits.",
        loops=tuple(f"{c}->{c}" for c in INTEGERS),
        reference=partial(_as_if, "u", np.bitwise_count),
        lowering=dict.fromkeys("iu", "intrinsic llvm.ctpop"),
    ),
    OpDef(
        "_shift_left",
        2,
        "Shift to the left by less than the width.",
        loops=tuple(f"{c}{c}->{c}" for c in INTEGERS),
        reference=np.left_shift,
        lowering=dict.fromkeys("iu", "instruction shl"),
    ),
    OpDef(
        "_shift_right",
        2,
        "Shift to the right arithmetically, by less than the width.",
        loops=tuple(f"{c}{c}->{c}" for c in INTEGERS),
        reference=partial(_as_if, "i", np.right_shift),
        lowering=dict.fromkeys("iu", "instruction ashr"),
    ),
    OpDef(
        "_shift_right_logical",
        2,
        "Shift to the right logically, by less than the width.",
        loops=tuple(f"{c}{c}->{c}" for c in INTEGERS),
        reference=partial(_as_if, "u", np.right_shift),
        lowering=dict.fromkeys("iu", "instruction lshr"),
    ),
    OpDef(
        "minimum",
        2,
        "Return the smaller operand, or NaN if either operand is NaN.",
        expand=partial(_extreme, "less"),
        lowering={"i": "intrinsic llvm.smin", "u": "intrinsic llvm.umin"},
        on_pairs=pairs.minimum,
        identity="highest",
    ),
    OpDef(
        "maximum",
        2,
        "Return the larger operand, or NaN if either operand is NaN.",
        expand=partial(_extreme, "greater"),
        lowering={"i": "intrinsic llvm.smax", "u": "intrinsic llvm.umax"},
        on_pairs=pairs.maximum,
        identity="lowest",
    ),
    OpDef(
        "fmin",
        2,
        "Return the smaller operand; if one operand is NaN, return the other.",
        expand=partial(_number_extreme, "less"),
        on_pairs=pairs.fmin,
        identity="highest",
    ),
    OpDef(
        "fmax",
        2,
        "Return the larger operand; if one operand is NaN, return the other.",
        expand=partial(_number_extreme, "greater"),
        on_pairs=pairs.fmax,
        identity="lowest",
    ),
    OpDef(
        "clip",
        3,
        "Limit the first operand to the interval from the second operand to the third.",
        loops=tuple(f"{c}{c}{c}->{c}" for c in "?bBhHiIlLqQefdFD"),
        reference=lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
        expand=_clip,
        on_pairs=lambda b, x, lo, hi: pairs.minimum(b, pairs.maximum(b, x, lo), hi),
        cost=4,
    ),
    OpDef(
        "where",
        3,
        "Return the second operand if the first is true, otherwise the third.",
        loops=tuple(f"?{c}{c}->{c}" for c in "?bBhHiIlLqQefdFD"),
        reference=np.where,
        lowering={"b": "select"},
        on_pairs=pairs.where,
    ),
    OpDef(
        "isfinite",
        1,
        "Return whether the operand is neither infinite nor NaN.",
        expand=_isfinite,
        on_pairs=pairs.isfinite,
        cost=2,
    ),
    OpDef("isinf", 1, "Return whether the operand is infinite.", expand=_isinf, on_pairs=pairs.isinf, cost=2),
    OpDef("isnan", 1, "Return whether the operand is NaN.", expand=_isnan, on_pairs=pairs.isnan),
    OpDef("signbit", 1, "Return whether the operand has a negative sign.", expand=_signbit, cost=2),
    OpDef(
        "copysign",
        2,
        "Return the first operand with the sign of the second.",
        lowering={"f": "intrinsic llvm.copysign"},
    ),
)

__all__ = ["ROWS", "both", "truth"]
