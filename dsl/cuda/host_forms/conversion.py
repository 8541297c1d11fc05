"""Conversion between floats and integers, and decomposition of floats, in the kernel language.

In and out: the dtypes of libdevice, with unsigned results as signed integers of the same bits. Invariant:
out-of-range values saturate. NaN becomes 0 in conversions from float32 to 32 bits, and otherwise the integer with
only the top bit set, as the PTX manual specifies for `cvt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

HUGE, TINY_SAFE = 2.0**1023, 2.0**-969


def to_integer(rounding: Callable[..., Any], kind: Any, nan_is_zero: bool = False) -> Callable[..., Any]:
    """Return a function that converts a float to the integer dtype `kind`, with saturation.

    The function `rounding` rounds the float. NaN becomes 0 if `nan_is_zero`, otherwise the integer with only the top
    bit set.
    """
    limits = np.iinfo(kind)
    least, greatest = kind(limits.min), kind(limits.max)
    low, high = float(least), float(greatest)
    top_bit = least if limits.min else kind(1 << (limits.bits - 1))
    at_nan = kind(0) if nan_is_zero else top_bit

    def apply(x: Any) -> Any:
        whole = rounding(x)
        result = at_nan
        if whole <= low:
            result = least
        elif whole >= high:
            result = greatest
        elif whole == whole:
            result = kind(whole)
        return result

    return apply


def round_half_away(x: float) -> float:
    """Round to the nearest integer, with ties away from zero."""
    whole = np.trunc(x)
    if abs(x - whole) >= 0.5:
        whole += np.copysign(1.0, x)
    return np.copysign(whole, x)


def view_as(kind: type) -> Callable[..., Any]:
    """Return a function that reinterprets a scalar's bits in another dtype of the same size."""

    def apply(x: Any) -> Any:
        return x.view(kind)

    return apply


def high_word(x: np.float64) -> np.int32:
    """Return the upper 32 bits of a float64."""
    return np.int32(x.view(np.int64) >> 32)


def from_words(high: int, low: int) -> np.float64:
    """Return the float64 with the given upper and lower 32 bits."""
    return ((np.int64(high) << 32) | np.int64(np.uint32(low))).view(np.float64)


def to_half(x: float) -> np.int16:
    """Convert a float to the nearest float16, and return its bits."""
    return np.float16(x).view(np.int16)


# -- parts of a float -------------------------------------------------------------------------


def scale(x: float, n: int) -> float:
    """Compute x * 2**n, rounded once even if the result is subnormal."""
    k = np.int64(n)
    if k > 1023:
        x, k = x * HUGE, k - 1023
        if k > 1023:
            x, k = x * HUGE, k - 1023
    elif k < -1022:
        x, k = x * TINY_SAFE, k + 969
        if k < -1022:
            x, k = x * TINY_SAFE, k + 969
    k = np.minimum(np.maximum(k, -1022), 1023)
    return x * ((k + 1023) << 52).view(np.float64)


def exponent_of(x: float) -> np.int32:
    """Compute `ilogb`: the binary exponent of a float, as an int32.

    0 and NaN give the smallest int32, and infinity gives the largest.
    """
    _, exponent = math.frexp(x)
    result = np.int32(exponent - 1)
    if x == 0 or x != x:
        result = np.int32(-(2**31))
    elif np.isinf(x):
        result = np.int32(2**31 - 1)
    return result


def float_exponent(x: float) -> float:
    """Compute `logb`: the binary exponent of a float, as a float. The result is -inf for zero, and inf for infinity."""
    _, exponent = math.frexp(x)
    result = np.float64(exponent - 1)
    if x == 0:
        result = np.float64(-np.inf)
    elif not np.isfinite(x):
        result = abs(np.float64(x))
    return result


def remainder_quotient(x: float, y: float) -> tuple[float, np.int32]:
    """Compute `remquo`: the remainder of x / y and the low 3 bits of the quotient.

    The remainder is the exact value of x - n*y, where n is the integer nearest to x / y. The second result has the sign
    of n.

    The computation starts from the exact remainder of x / (8*y). Each of the low bits of n then takes one exact
    subtraction.
    """
    if not np.isfinite(x) or y == 0 or y != y:
        return x * np.nan, np.int32(0)
    rest, size = abs(x), abs(y)
    if rest >= 8 * size:
        rest = np.fmod(rest, 8 * size)
    quotient = np.int32(0)
    for bit in (4, 2, 1):
        if rest >= bit * size:
            rest -= bit * size
            quotient += bit
    if rest + rest > size or (rest + rest == size and quotient & 1 == 1):
        rest -= size
        quotient += 1
    quotient &= 7
    if (x < 0) != (y < 0):
        quotient = -quotient
    if x < 0:
        rest = -rest
    if rest == 0:
        rest = np.copysign(rest, x)
    return rest, quotient


def positive_difference(x: float, y: float) -> float:
    """Compute `fdim`: 0 if x <= y, otherwise x - y."""
    result = x - y
    if x <= y:
        result = 0.0
    return result


def saturate(x: float) -> float:
    """Clamp x to [0, 1]; NaN becomes 0."""
    return np.fmin(np.fmax(x, 0.0), 1.0)
