"""Functions on float16 and bfloat16 numbers, in the kernel language.

In: float16 numbers, or bfloat16 numbers as 16 bits (uint16). Out: the same type. Invariant: a result is rounded once.
By default, it is rounded from a float32 result with the op table's accuracy; docstrings state exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def round_to_odd(x: Any) -> Any:
    """Convert a float64 to float32, with inexact values rounded to the neighbor with an odd last bit.

    Rounding the result to 16 bits gives the same number as rounding `x` directly to 16 bits (Boldo and Melquiond,
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


def fused_half(x: Any, y: Any, z: Any) -> Any:
    """Compute x * y + z in float16, rounded once."""
    return np.float16(round_to_odd(np.float64(x) * np.float64(y) + np.float64(z)))


def half_exp10(x: Any) -> Any:
    """Compute 10 ** x in float16."""
    return np.float16(np.power(np.float32(10), np.float32(x)))


def half_rsqrt(x: Any) -> Any:
    """Compute 1 / sqrt(x) in float16."""
    return np.float16(np.float32(1) / np.sqrt(np.float32(x)))


def half_ordered_not_equal(x: Any, y: Any) -> Any:
    """Return whether two numbers differ and neither is NaN."""
    return (x < y) | (x > y)


def brain_to_float(x: Any) -> Any:
    """Convert bfloat16 bits to float32."""
    return (np.uint32(x) << 16).view(np.float32)


def float_to_brain(x: Any) -> Any:
    """Convert a float32 to the bits of the nearest bfloat16: ties go to even, and NaN becomes 0x7FFF."""
    bits = x.view(np.uint32)
    rounded = np.uint16((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16)
    if x != x:
        rounded = np.uint16(0x7FFF)
    return rounded


def double_to_brain(x: Any) -> Any:
    """Convert a float64 to the nearest bfloat16, with ties to even."""
    return float_to_brain(round_to_odd(x))


def _fused_brain(x: Any, y: Any, z: Any) -> Any:
    product = np.float64(brain_to_float(x)) * np.float64(brain_to_float(y))
    return double_to_brain(product + np.float64(brain_to_float(z)))


def _exp10(x: Any) -> Any:
    return np.power(np.float32(10), x)


def _rsqrt(x: Any) -> Any:
    return np.float32(1) / np.sqrt(x)


def _rcp(x: Any) -> Any:
    return np.float32(1) / x


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_bits(x: Any) -> Any:
        return float_to_brain(function(brain_to_float(x)))

    return on_bits


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_bits(x: Any, y: Any) -> Any:
        return float_to_brain(function(brain_to_float(x), brain_to_float(y)))

    return on_bits


def _test(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_bits(x: Any, y: Any) -> Any:
        return function(brain_to_float(x), brain_to_float(y))

    return on_bits


def _is_nan(x: Any) -> Any:
    return x & 0x7FFF > 0x7F80


def _is_infinite(x: Any) -> Any:
    found = np.int32(0)
    if x & 0x7FFF == 0x7F80:
        found = np.int32(1 - 2 * (np.int32(x) >> 15))
    return found


def _unordered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a float32 comparison to bfloat16 bits, with the result True if either number is NaN."""

    def on_bits(x: Any, y: Any) -> Any:
        first, second = brain_to_float(x), brain_to_float(y)
        return function(first, second) | (first != first) | (second != second)

    return on_bits


def _saturated(bits: Any) -> Any:
    """Clamp a bfloat16 to [0, 1], with 0 for NaN."""
    return float_to_brain(np.fmin(np.fmax(brain_to_float(bits), np.float32(0)), np.float32(1)))


def _saturating(function: Callable[..., Any]) -> Callable[..., Any]:
    def on_bits(x: Any, y: Any) -> Any:
        return _saturated(float_to_brain(function(brain_to_float(x), brain_to_float(y))))

    return on_bits


def _fused_saturated(x: Any, y: Any, z: Any) -> Any:
    return _saturated(_fused_brain(x, y, z))


def _fused_positive(x: Any, y: Any, z: Any) -> Any:
    """Compute max(x * y + z, 0), rounded once."""
    return float_to_brain(np.maximum(brain_to_float(_fused_brain(x, y, z)), np.float32(0)))


_UNARY: dict[str, Callable[..., Any]] = {
    "hneg": np.negative, "habs": np.absolute, "hsin": np.sin, "hcos": np.cos, "htanh": np.tanh,
    "htanh_approx": np.tanh, "hlog": np.log, "hlog2": np.log2, "hlog10": np.log10, "hexp": np.exp, "hexp2": np.exp2,
    "hexp10": _exp10, "hfloor": np.floor, "hceil": np.ceil, "hrint": np.rint, "htrunc": np.trunc, "hsqrt": np.sqrt,
    "hrsqrt": _rsqrt, "hrcp": _rcp,
}  # fmt: skip
_BINARY: dict[str, Callable[..., Any]] = {
    "hadd": np.add, "hsub": np.subtract, "hmul": np.multiply, "hdiv": np.divide, "hmax": np.fmax, "hmin": np.fmin,
    "hmax_nan": np.maximum, "hmin_nan": np.minimum, "hadd_rn": np.add, "hsub_rn": np.subtract, "hmul_rn": np.multiply,
}  # fmt: skip
_TESTS: dict[str, Callable[..., Any]] = {
    "heq": np.equal, "hne": half_ordered_not_equal, "hgt": np.greater, "hge": np.greater_equal, "hlt": np.less,
    "hle": np.less_equal,
}  # fmt: skip

# bfloat16 functions: name -> function of bits, and signature, in which "e" stands for the 16-bit float.
BRAIN: dict[str, Callable[..., Any]] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    **{name: _test(function) for name, function in _TESTS.items()},
    **{f"{name}u": _unordered(_TESTS[name]) for name in ("heq", "hgt", "hge", "hlt", "hle")},
    "hneu": _unordered(np.not_equal),
    **{f"{name}_sat": _saturating(_BINARY[name]) for name in ("hadd", "hsub", "hmul")},
    "hfma": _fused_brain,
    "hfma_sat": _fused_saturated,
    "hfma_relu": _fused_positive,
    "hisnan": _is_nan,
    "hisinf": _is_infinite,
}
SIGNATURES: dict[str, str] = {
    **dict.fromkeys(_UNARY, "e->e"),
    **dict.fromkeys(_BINARY, "ee->e"),
    **dict.fromkeys(_TESTS, "ee->?"),
    **dict.fromkeys(("hequ", "hneu", "hgtu", "hgeu", "hltu", "hleu"), "ee->?"),
    **dict.fromkeys(("hadd_sat", "hsub_sat", "hmul_sat"), "ee->e"),
    **dict.fromkeys(("hfma", "hfma_sat", "hfma_relu"), "eee->e"),
    "hisnan": "e->?",
    "hisinf": "e->i",
}
