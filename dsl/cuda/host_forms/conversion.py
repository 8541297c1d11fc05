"""Conversion between floats and integers, and decomposition of floats, in the kernel language.

In and out: the dtypes of libdevice, with unsigned results as signed integers of the same bits. Invariant:
out-of-range values saturate. NaN becomes 0 in conversions from float32 to 32 bits, and otherwise the integer with
only the top bit set, as the PTX manual specifies for `cvt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

HUGE, TINY_SAFE = 2.0**1023, 2.0**-969
EXPONENT = 0x7FF << 52
LEAST_INT, GREATEST_INT = np.int32(-(2**31)), np.int32(2**31 - 1)
FRACTION_START = 2.0**-1022
UP_54 = 2.0**54


def to_integer(rounding: Callable[..., Any], held: Any, least: Any, greatest: Any, at_nan: int) -> Callable[..., Any]:
    """Return a function that rounds a float and converts the result to an integer, with saturation.

    `rounding` is the function that rounds.

    The result is saturated to [`least`, `greatest`]. NaN becomes `at_nan`.
    """
    kind, low, high = type(least), float(least), float(greatest)
    not_a_number = held(at_nan)

    def apply(x: Any) -> Any:
        whole = rounding(x)
        result = not_a_number
        if whole <= low:
            result = held(least)
        elif whole >= high:
            result = held(greatest)
        elif whole == whole:
            result = held(kind(whole))
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


def low_word(x: np.float64) -> np.int32:
    """Return the lower 32 bits of a float64."""
    return np.int32(x.view(np.int64))


def from_words(high: int, low: int) -> np.float64:
    """Return the float64 with the given upper and lower 32 bits."""
    return ((np.int64(high) << 32) | np.int64(np.uint32(low))).view(np.float64)


def to_half(x: float) -> np.int16:
    """Convert a float to the nearest float16, and return its bits."""
    return np.float16(x).view(np.int16)


def from_half(bits: np.integer) -> np.float32:
    """Convert the bits of a float16 to a float32."""
    return np.float32(bits.view(np.float16))


def unsigned_float(unsigned: Any, kind: type) -> Callable[..., Any]:
    """Return a function that interprets an integer as unsigned and converts it to the nearest float of type `kind`."""

    def apply(x: Any) -> Any:
        return kind(unsigned(x))

    return apply


def rounded_from(parts: Callable[..., Any], unsigned: Any, choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that converts an integer to a float with directed rounding.

    `parts` returns the nearest float and its error.
    """

    def apply(x: Any) -> Any:
        r, e = parts(unsigned(x))
        return choose(r, e)

    return apply


# -- parts of a float -------------------------------------------------------------------------


def split_exponent(x: np.float64) -> tuple[np.float64, np.int32]:
    """Compute `frexp`: split a float64 into a fraction with magnitude in [0.5, 1) and an exponent of 2.

    For zero, infinity and NaN, the results are x itself and the exponent 0.
    """
    fraction, exponent = x, np.int32(0)
    if x != 0 and np.isfinite(x):
        if abs(x) < FRACTION_START:
            fraction, exponent = x * UP_54, np.int32(-54)
        bits = fraction.view(np.int64)
        exponent += np.int32((bits & EXPONENT) >> 52) - 1022
        fraction = ((bits & ~EXPONENT) | (1022 << 52)).view(np.float64)
    return fraction, exponent


def split_exponent_single(x: float) -> tuple[np.float32, np.int32]:
    """Compute `frexp` of a float32: split it into a fraction and an exponent of 2."""
    fraction, exponent = split_exponent(np.float64(x))
    return np.float32(fraction), exponent


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


def scale_single(x: float, n: int) -> np.float32:
    """Compute x * 2**n for a float32 x, rounded once."""
    return np.float32(scale(np.float64(x), n))


def exponent_of(x: float) -> np.int32:
    """Compute `ilogb`: the exponent of 2 of a float, as an int32.

    0 and NaN give the smallest int32, and infinity gives the largest.
    """
    result = GREATEST_INT
    if x == 0 or x != x:
        result = LEAST_INT
    elif np.isfinite(x):
        _, exponent = split_exponent(np.float64(x))
        result = exponent - 1
    return result


def float_exponent(x: float) -> float:
    """Compute `logb`: the exponent of 2 of a float, as a float.

    The result is -inf for zero, and inf for infinity.
    """
    result = abs(np.float64(x))
    if x == 0:
        result = np.float64(-np.inf)
    elif np.isfinite(x):
        _, exponent = split_exponent(np.float64(x))
        result = np.float64(exponent - 1)
    return result


def split_whole(x: float) -> tuple[float, float]:
    """Compute `modf`: the fractional and the integral part of x.

    Both parts have the sign of x.
    """
    whole = np.trunc(x)
    rest = x - whole
    if np.isinf(x):
        rest = 0.0
    return np.copysign(rest, x), whole


def remainder_quotient(x: float, y: float) -> tuple[float, np.int32]:
    """Compute `remquo`: the remainder of x / y and the low 3 bits of the quotient.

    The remainder is the exact value of x - n*y, where n is the integer nearest to x / y. The bits of n have its sign.

    The computation starts from the exact remainder of x / (8*y), so each bit of n takes one exact subtraction.
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


def remainder_quotient_single(x: float, y: float) -> tuple[np.float32, np.int32]:
    """Compute `remquo` of float32 numbers: the remainder of x / y and the low 3 bits of the quotient."""
    rest, quotient = remainder_quotient(np.float64(x), np.float64(y))
    return np.float32(rest), quotient


def nearest_remainder(x: float, y: float) -> float:
    """Compute `remainder`: the exact value of x - n*y, with the integer n nearest to x / y."""
    rest, _ = remainder_quotient(np.float64(x), np.float64(y))
    return rest


def positive_difference(x: float, y: float) -> float:
    """Compute `fdim`: x - y if the difference is positive, otherwise 0."""
    result = x - y
    if x <= y:
        result = 0.0
    return result


def saturate(x: float) -> float:
    """Clamp x to [0, 1]; NaN becomes 0."""
    return np.fmin(np.fmax(x, 0.0), 1.0)
