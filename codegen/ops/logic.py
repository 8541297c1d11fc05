"""Comparison, logical, bitwise and selection ops."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen.ops import pairs
from weft.codegen.ops.arithmetic import INTEGERS, SAME_INTEGERS, either, one, select, zero
from weft.codegen.ops.definition import OpDef

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value


def _kind(value: Value) -> str:
    return value.dtype.kind


def _truth(b: KernelBuilder, x: Value | pairs.Pair) -> Value:
    """Return whether `x` is not 0."""
    if isinstance(x, tuple):
        return pairs.nonzero(b, x)
    return x if _kind(x) == "b" else b.op("not_equal", x, zero(b, x))


def _logical(kind: str, identity: bool, doc: str) -> OpDef:
    """Return the logical op with the truth table of the bitwise op `kind`."""

    def expand(b: KernelBuilder, x: Value | pairs.Pair, y: Value | pairs.Pair) -> Value:
        return b.op(f"bitwise_{kind}", _truth(b, x), _truth(b, y))

    return OpDef(f"logical_{kind}", doc, expand=expand, on_pairs=expand, identity=identity)


def _logical_not(b: KernelBuilder, x: Value | pairs.Pair) -> Value:
    return b.op("bitwise_xor", _truth(b, x), b.constant(True, np.bool_))


def _extreme(strict: str, b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Expand `minimum` or `maximum` of floats or bools into simpler operations.

    NaN is propagated. Return None for integers, which have a lowering.
    """
    if _kind(x) == "b":
        return b.op("bitwise_and" if strict == "less" else "bitwise_or", x, y)
    if _kind(x) != "f":
        return None
    return select(b, either(b, b.op(strict, x, y), b.op("not_equal", x, x)), x, y)


def _number_extreme(strict: str, b: KernelBuilder, x: Value, y: Value) -> Value:
    """Expand `fmin` or `fmax` into simpler operations that ignore NaN."""
    if _kind(x) != "f":
        return b.op("minimum" if strict == "less" else "maximum", x, y)
    return select(b, either(b, b.op(strict, x, y), b.op("not_equal", y, y)), x, y)


def _extreme_op(name: str, strict: str, doc: str) -> OpDef:
    """Return an op that selects the smaller operand if the comparison `strict` is "less", or the larger operand if it is "greater"."""
    ignores_nan, word = name.startswith("f"), "min" if strict == "less" else "max"
    return OpDef(
        name,
        doc,
        expand=partial(_number_extreme if ignores_nan else _extreme, strict),
        lowering={} if ignores_nan else {"i": f"intrinsic llvm.s{word}", "u": f"intrinsic llvm.u{word}"},
        on_pairs=partial(pairs.extreme, f"{strict}_equal", ignores_nan=ignores_nan),
        identity="highest" if strict == "less" else "lowest",
    )


def _clip(b: KernelBuilder, x: Value, low: Value, high: Value) -> Value:
    return b.op("minimum", b.op("maximum", x, low), high)


def _clip_pairs(b: KernelBuilder, x: pairs.Pair, low: pairs.Pair, high: pairs.Pair) -> pairs.Pair:
    return pairs.extreme("less_equal", b, pairs.extreme("greater_equal", b, x, low), high)


def _shift(name: str, b: KernelBuilder, x: Value, count: Value) -> Value:
    """Expand a shift so that any count is allowed. If the count is at least the bit width, all bits are shifted out."""
    width = x.dtype.itemsize * 8
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    fits = b.op("less", b.cast(count, unsigned), b.constant(width, unsigned))
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
    return b.op("less", b.op("absolute", x), b.constant(np.inf, x.type))


def _isinf(b: KernelBuilder, x: Value) -> Value:
    if _kind(x) != "f":
        return b.constant(False, np.bool_)
    return b.op("equal", b.op("absolute", x), b.constant(np.inf, x.type))


def _isnan(b: KernelBuilder, x: Value) -> Value:
    return b.constant(False, np.bool_) if _kind(x) != "f" else b.op("not_equal", x, x)


def _signbit(b: KernelBuilder, x: Value) -> Value:
    return b.op("less", b.op("copysign", one(b, x), x), zero(b, x))


def _mixed(name: str, b: KernelBuilder, x: Value, y: Value) -> Value | None:
    """Expand a comparison between int64 and uint64 into operations with the exact result.

    Return None for other operands.
    """
    if x.type == y.type or {_kind(x), _kind(y)} != {"i", "u"}:
        return None
    signed, other = (x, y) if _kind(x) == "i" else (y, x)
    below = b.op("less", signed, zero(b, signed))
    as_unsigned = b.cast(select(b, below, zero(b, signed), signed), other.type)
    pair = (as_unsigned, other) if signed is x else (other, as_unsigned)
    plain = b.op(name, *pair)
    # a negative number is less than every unsigned number
    answer = (
        name in ("less", "less_equal", "not_equal")
        if signed is x
        else name in ("greater", "greater_equal", "not_equal")
    )
    return select(b, below, b.constant(answer, np.bool_), plain)


def _comparison(name: str, dunder: str, doc: str) -> OpDef:
    """Return a comparison op.

    `dunder`, such as "lt", is the name of Python's operator, and a part of LLVM's predicates.
    """
    signed, unsigned = (dunder, dunder) if dunder in ("eq", "ne") else (f"s{dunder}", f"u{dunder}")
    floats = "une" if dunder == "ne" else f"o{dunder}"  # comparisons with NaN are false, except `not_equal`
    return OpDef(
        name,
        doc,
        expand=partial(_mixed, name),
        lowering={"b": f"icmp {unsigned}", "i": f"icmp {signed}", "u": f"icmp {unsigned}", "f": f"fcmp {floats}"},
        on_pairs=partial(pairs.compare, name),
        dunder=dunder,
    )


def _bitwise(kind: str, identity: int, doc: str) -> OpDef:
    lowering = dict.fromkeys("biu", f"instruction {kind}")
    return OpDef(f"bitwise_{kind}", doc, lowering=lowering, identity=identity, dunder=kind)


def _guarded_shift(side: str, doc: str) -> OpDef:
    expand, alias = partial(_shift, f"_shift_{side}"), f"bitwise_{side}_shift"
    return OpDef(f"{side}_shift", doc, expand=expand, cost=4, dunder=f"{side[0]}shift", aliases=(alias,))


def _unguarded_shift(name: str, instruction: str, reference: Any, doc: str) -> OpDef:
    lowering = dict.fromkeys("iu", f"instruction {instruction}")
    return OpDef(name, doc, loops=SAME_INTEGERS, reference=reference, lowering=lowering)


def _as_if(kind: str, function: Any, *operands: Any) -> Any:
    """Apply `function` to operands cast to signed ("i") or unsigned ("u") integers, and cast the result back."""
    dtype = operands[0].dtype
    return function(*(x.astype(f"{kind}{dtype.itemsize}") for x in operands)).astype(dtype)


ROWS = (
    _comparison("equal", "eq", "Return whether the operands are equal."),
    _comparison("not_equal", "ne", "Return whether the operands are different."),
    _comparison("less", "lt", "Return whether the first operand is less than the second."),
    _comparison("less_equal", "le", "Return whether the first operand is less than or equal to the second."),
    _comparison("greater", "gt", "Return whether the first operand is greater than the second."),
    _comparison("greater_equal", "ge", "Return whether the first operand is greater than or equal to the second."),
    _logical("and", True, "Return whether both operands are nonzero."),
    _logical("or", False, "Return whether at least one operand is nonzero."),
    _logical("xor", False, "Return whether exactly one operand is nonzero."),
    OpDef("logical_not", "Return whether the operand is zero.", expand=_logical_not, on_pairs=_logical_not),
    _bitwise("and", -1, "Return the bitwise AND of the operands."),
    _bitwise("or", 0, "Return the bitwise OR of the operands."),
    _bitwise("xor", 0, "Return the bitwise exclusive OR of the operands."),
    OpDef(
        "invert",
        "Return the operand with all bits inverted.",
        lowering=dict.fromkeys("biu", "not"),
        dunder="invert",
        aliases=("bitwise_not", "bitwise_invert"),
    ),
    _guarded_shift("left", "Shift the bits to the left; return 0 if the shift count is at least the number of bits."),
    _guarded_shift(
        "right",
        "Shift the bits to the right; fill the vacated bits with the sign bit, or with 0 if the dtype is unsigned.",
    ),
    OpDef(
        "bitwise_count",
        "Return the number of 1 bits in the absolute value of the operand.",
        expand=lambda b, x: b.cast(b.op("_population", b.op("absolute", x)), np.uint8),
        cost=4,
    ),
    OpDef(
        "_population",
        "Return the number of 1 bits.",
        loops=tuple(f"{c}->{c}" for c in INTEGERS),
        reference=partial(_as_if, "u", np.bitwise_count),
        lowering=dict.fromkeys("iu", "intrinsic llvm.ctpop"),
    ),
    _unguarded_shift("_shift_left", "shl", np.left_shift, "Shift to the left by less than the width."),
    _unguarded_shift(
        "_shift_right",
        "ashr",
        partial(_as_if, "i", np.right_shift),
        "Shift to the right arithmetically, by less than the width.",
    ),
    _unguarded_shift(
        "_shift_right_logical",
        "lshr",
        partial(_as_if, "u", np.right_shift),
        "Shift to the right logically, by less than the width.",
    ),
    _extreme_op("minimum", "less", "Return the smaller operand, or NaN if either operand is NaN."),
    _extreme_op("maximum", "greater", "Return the larger operand, or NaN if either operand is NaN."),
    _extreme_op("fmin", "less", "Return the smaller operand; if one operand is NaN, return the other."),
    _extreme_op("fmax", "greater", "Return the larger operand; if one operand is NaN, return the other."),
    OpDef(
        "clip",
        "Limit the first operand to the interval from the second operand to the third.",
        loops=tuple(f"{c}{c}{c}->{c}" for c in "?bBhHiIlLqQefdFD"),
        reference=lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
        expand=_clip,
        on_pairs=_clip_pairs,
        cost=4,
    ),
    OpDef(
        "where",
        "Return the second operand if the first is true, otherwise the third.",
        loops=tuple(f"?{c}{c}->{c}" for c in "?bBhHiIlLqQefdFD"),
        reference=np.where,
        lowering={"b": "select"},
        on_pairs=pairs.where,
    ),
    OpDef(
        "isfinite",
        "Return whether the operand is neither infinite nor NaN.",
        expand=_isfinite,
        on_pairs=pairs.isfinite,
        cost=2,
    ),
    OpDef("isinf", "Return whether the operand is infinite.", expand=_isinf, on_pairs=pairs.isinf, cost=2),
    OpDef("isnan", "Return whether the operand is NaN.", expand=_isnan, on_pairs=pairs.isnan),
    OpDef("signbit", "Return whether the operand has a negative sign.", expand=_signbit, cost=2),
    OpDef(
        "copysign",
        "Return the first operand with the sign of the second.",
        lowering={"f": "intrinsic llvm.copysign"},
    ),
)
