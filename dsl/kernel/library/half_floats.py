"""Functions on float16 and bfloat16 numbers, in the kernel language.

In: numbers. A bfloat16 number is passed as its 16 bits (uint16). Out: numbers, or results of tests. Unless a docstring
says otherwise, a 16-bit result is rounded from a float32 result that has the op table's accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def round_to_odd(x: Any) -> Any:
    """Convert a float64 to float32, with inexact values rounded to the neighbor with an odd last bit.

    Rounding the result to float16 or bfloat16 gives the same number as rounding `x` directly (Boldo and Melquiond,
    "Emulation of FMA and correctly rounded sums", 2008).
    """
    near = np.float32(x)
    back = np.float64(near)
    bits = near.view(np.int32)
    if back != x and x == x and bits & 1 == 0:
        if abs(back) > abs(x):
            bits -= 1
        else:
            bits += 1
    return bits.view(np.float32)


def odd_sum(x: Any, y: Any) -> Any:
    """Add two float64 numbers, with inexact sums rounded to the neighbor with an odd last bit."""
    total = x + y
    part = total - x
    lost = (x - (total - part)) + (y - part)  # (exact: Knuth's two-sum)
    bits = total.view(np.int64)
    if (lost < 0) | (lost > 0):
        bits = (bits - ((lost > 0) != (total > 0))) | 1
    return bits.view(np.float64)


def fused_half(x: Any, y: Any, z: Any) -> Any:
    """Compute x * y + z in float16, rounded once."""
    return np.float16(round_to_odd(np.float64(x) * np.float64(y) + np.float64(z)))


def exp10(x: Any) -> Any:
    """Compute 10 ** x in float32."""
    return np.power(np.float32(10), np.float32(x))


def rsqrt(x: Any) -> Any:
    """Compute 1 / sqrt(x) in float32."""
    return np.float32(1) / np.sqrt(np.float32(x))


def ordered_not_equal(x: Any, y: Any) -> Any:
    """Return whether two numbers differ and neither is NaN."""
    return (x < y) | (x > y)


def bfloat16_to_float(x: Any) -> Any:
    """Convert bfloat16 bits to float32."""
    return (np.uint32(x) << 16).view(np.float32)


def float_to_bfloat16(x: Any) -> Any:
    """Convert a float32 to the bits of the nearest bfloat16: ties go to even, and NaN becomes 0x7FFF."""
    bits = x.view(np.uint32)
    rounded = np.uint16((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16)
    if x != x:
        rounded = np.uint16(0x7FFF)
    return rounded


def double_to_bfloat16(x: Any) -> Any:
    """Convert a float64 to the bits of the nearest bfloat16, with ties to even."""
    return float_to_bfloat16(round_to_odd(x))


def _fused(x: Any, y: Any, z: Any) -> Any:
    """Compute x * y + z on bfloat16 bits, rounded once."""
    product = np.float64(bfloat16_to_float(x)) * np.float64(bfloat16_to_float(y))
    return double_to_bfloat16(odd_sum(product, np.float64(bfloat16_to_float(z))))


def _on_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that converts bfloat16 bits to float32 and calls `function`."""

    def on_bits(*bits: Any) -> Any:
        return function(*[bfloat16_to_float(x) for x in bits])

    return on_bits


def _rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a float32 function to bfloat16. The arguments and the result of the returned function are the bits of bfloat16 numbers."""
    on_floats = _on_floats(function)
    return lambda *bits: float_to_bfloat16(on_floats(*bits))


def _is_nan(x: Any) -> Any:
    return x & 0x7FFF > 0x7F80


def _is_infinite(x: Any) -> Any:
    found = np.int32(0)
    if x & 0x7FFF == 0x7F80:
        found = np.int32(1 - 2 * (np.int32(x) >> 15))
    return found


def _unordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a comparison of bfloat16 bits, based on a float32 comparison. It is also true if an operand is NaN."""

    def on_bits(x: Any, y: Any) -> Any:
        first, second = bfloat16_to_float(x), bfloat16_to_float(y)
        return function(first, second) | (first != first) | (second != second)

    return on_bits


def _saturated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a function on bfloat16 bits that clamps results to [0, 1], and NaN to 0."""

    def on_bits(*bits: Any) -> Any:
        result = bfloat16_to_float(function(*bits))
        return float_to_bfloat16(np.fmin(np.fmax(result, np.float32(0)), np.float32(1)))

    return on_bits


def _fused_positive(x: Any, y: Any, z: Any) -> Any:
    """Compute max(x * y + z, 0) on bfloat16 bits, rounded once."""
    return float_to_bfloat16(np.maximum(bfloat16_to_float(_fused(x, y, z)), np.float32(0)))


Row = tuple[str, str | Callable[..., Any]]  # a signature, and an op or a function

# names of functions of both types without the first letter, which is "h" -> ops
_ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply"}
_COMPARISONS = {"eq": "equal", "gt": "greater", "ge": "greater_equal", "lt": "less", "le": "less_equal"}

# Functions of both types, in which "e" stands for the type.
_COMMON: dict[str, Row] = {
    **{f"h{name}": ("ee->e", op) for name, op in _ARITHMETIC.items()},
    "hdiv": ("ee->e", "divide"),
    "hneg": ("e->e", "negative"),
    "habs": ("e->e", "absolute"),
    **{f"h{op}": ("e->e", op) for op in "sin cos tanh log log2 log10 exp exp2 floor ceil rint trunc sqrt".split()},
    "htanh_approx": ("e->e", "tanh"),
    "hexp10": ("e->e", exp10),
    "hrsqrt": ("e->e", rsqrt),
    "hrcp": ("e->e", "reciprocal"),
    **{f"h{name}": ("ee->?", op) for name, op in _COMPARISONS.items()},
    "hne": ("ee->?", ordered_not_equal),
    "hmax": ("ee->e", "fmax"),
    "hmin": ("ee->e", "fmin"),
}
FLOAT16: Mapping[str, Row] = _COMMON | {"hfma": ("eee->e", fused_half), "hisnan": ("e->?", "isnan")}
BFLOAT16: Mapping[str, Row] = {
    name: (
        signature,
        (_on_floats if signature == "ee->?" else _rounded)(getattr(np, host) if isinstance(host, str) else host),
    )
    for name, (signature, host) in _COMMON.items()
} | {
    "hmax_nan": ("ee->e", _rounded(np.maximum)),
    "hmin_nan": ("ee->e", _rounded(np.minimum)),
    **{f"h{name}_rn": ("ee->e", _rounded(getattr(np, op))) for name, op in _ARITHMETIC.items()},
    **{f"h{name}_sat": ("ee->e", _saturated(_rounded(getattr(np, op)))) for name, op in _ARITHMETIC.items()},
    **{f"h{name}u": ("ee->?", _unordered(getattr(np, op))) for name, op in _COMPARISONS.items()},
    "hneu": ("ee->?", _unordered(np.not_equal)),
    "hfma": ("eee->e", _fused),
    "hfma_sat": ("eee->e", _saturated(_fused)),
    "hfma_relu": ("eee->e", _fused_positive),
    "hisnan": ("e->?", _is_nan),
    "hisinf": ("e->i", _is_infinite),
}
