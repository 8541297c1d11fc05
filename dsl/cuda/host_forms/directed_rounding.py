"""Arithmetic rounded down, up or towards zero, in the kernel language.

In: float32 or float64 numbers. Out: the correctly rounded result. Invariant: every operation computes the result
rounded to nearest (or, after two roundings, to an adjacent float32), and a number with the sign of the error (exact
result minus rounded result). At most one step of nextafter then gives the result in the requested direction. The errors
are computed by error-free transformations (Dekker 1971; Knuth, TAOCP 2, 4.2.2; Boldo and Muller, "Exact and
approximated error of the FMA", 2011), on operands scaled to avoid overflow and underflow. The transformations require
arithmetic without contraction or reassociation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.kernel.library.library_functions import fma

SMALL, LARGE = 2.0**-900, 2.0**900
UP_100, UP_200, UP_300, UP_550, DOWN_300 = 2.0**100, 2.0**200, 2.0**300, 2.0**550, 2.0**-300
NEGLIGIBLE, IN_ITS_SHADOW = 2.0**-120, 2.0**-150


# -- from the nearest number and the sign of its error to a direction ------------------------


def down(r: float, e: float) -> float:
    """Round the exact result of an operation down. `r` is the nearest float, and `e` is negative if the exact result is less than `r`."""
    if e < 0:
        r = np.nextafter(r, -np.inf)
    return r


def up(r: float, e: float) -> float:
    """Round the exact result of an operation up. `r` is the nearest float, and `e` is positive if the exact result is greater than `r`."""
    if e > 0:
        r = np.nextafter(r, np.inf)
    return r


def towards_zero(r: float, e: float) -> float:
    """Round the exact result of an operation towards zero. `r` is the nearest float, and `e` has the sign of the exact result minus `r`."""
    if (r > 0 and e < 0) or (r < 0 and e > 0):
        r = np.nextafter(r, 0.0)
    return r


# -- float64 (and sums of float32): the result rounded to nearest, and its error ---------------


def two_sum(x: float, y: float) -> tuple[float, float]:
    """Return the rounded sum x + y and the exact rounding error."""
    s = x + y
    part = s - x
    return s, (x - (s - part)) + (y - part)


def add_error(x: float, y: float) -> tuple[float, float]:
    """Return x + y rounded to nearest, and a number with the sign of the rounding error."""
    s, e = two_sum(x, y)
    if np.isinf(s):
        e = -s
        if np.isinf(x) or np.isinf(y):
            e = s - s
    return s, e


def _scaled_error(x: float, y: float, z: float, r: float) -> float:
    """Return a number with the sign of x*y + z - r, if no intermediate result overflows or underflows."""
    p = x * y
    low = fma(x, y, -p)
    close = fma(x, y, z)
    a, a_low = two_sum(z, low)
    b, b_low = two_sum(p, a)
    e = ((b - close) + b_low) + a_low
    # r may have been rounded as a subnormal number. It is then not the nearest of the scaled numbers.
    if close != r:
        e = close - r
    return e


def fma_sign(x: float, y: float, z: float, r: float) -> float:
    """Return a number with the sign of x*y + z - r, where r is x*y + z rounded to nearest."""
    p = abs(x * y)
    q = abs(z)
    e = 0.0
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)) or x == 0 or y == 0:
        e = 0.0
    elif np.isinf(r):
        e = -r
    elif p < q * IN_ITS_SHADOW:
        e = np.copysign(1.0, x) * np.copysign(1.0, y)
    elif p < SMALL and q < 2.0**-700:
        e = _scaled_error(x * UP_550, y * UP_550, z * UP_550 * UP_550, r * UP_550 * UP_550)
    elif p < np.inf and q < p * NEGLIGIBLE:
        whole = x * y
        e = (whole - r) + fma(x, y, -whole)
        if e == 0:
            e = z
    elif p > LARGE or q > LARGE:
        if abs(x) > abs(y):
            e = _scaled_error(x * DOWN_300, y, z * DOWN_300, r * DOWN_300)
        else:
            e = _scaled_error(x, y * DOWN_300, z * DOWN_300, r * DOWN_300)
    else:
        e = _scaled_error(x, y, z, r)
    return e


def multiply_error(x: float, y: float) -> tuple[float, float]:
    """Return x * y rounded to nearest, and a number with the sign of the rounding error."""
    p = x * y
    return p, fma_sign(x, y, 0.0, p)


def fma_error(x: float, y: float, z: float) -> tuple[float, float]:
    """Return x * y + z rounded to nearest, and a number with the sign of the rounding error."""
    r = fma(x, y, z)
    return r, fma_sign(x, y, z, r)


def divide_error(x: float, y: float) -> tuple[float, float]:
    """Return x / y rounded to nearest, and a number with the sign of the rounding error."""
    q = x / y
    e = 0.0
    if np.isfinite(x) and np.isfinite(y) and x != 0 and y != 0:
        if np.isinf(q):
            e = -q
        else:
            if abs(x) >= SMALL:
                e = fma(-q, y, x)
            elif abs(y) < 1:
                e = fma(-q, y * UP_300, x * UP_300)
            else:
                e = fma(-q * UP_300, y, x * UP_300)
            if y < 0:
                e = -e
    return q, e


def reciprocal_error(x: float) -> tuple[float, float]:
    """Return 1 / x rounded to nearest, and a number with the sign of the rounding error."""
    return divide_error(np.float64(1), x)


def sqrt_error(x: float) -> tuple[float, float]:
    """Return the square root rounded to nearest, and a number with the sign of the rounding error."""
    r = np.sqrt(x)
    e = 0.0
    if x > 0 and x < np.inf:
        if x < SMALL:
            e = fma(-r * UP_100, r * UP_100, x * UP_200)
        else:
            e = fma(-r, r, x)
    return r, e


# -- float32: float64 holds products exactly and the signs of all errors ----------------------


def narrow_error(s: float, low: float) -> tuple[np.float32, float]:
    """Round the float64 number `s` to float32, giving r.

    Return r and the error (s + low) - r, where `low` is the low part of the unrounded number.

    `low` is the rounding error of `s` itself: |low| is at most half a unit in the last place of s.
    """
    r = np.float32(s)
    return r, (s - np.float64(r)) + low


def narrow_one(x: float) -> tuple[np.float32, float]:
    """Round a float64 or a 32-bit integer to float32, and return the result and the rounding error."""
    return narrow_error(np.float64(x), 0.0)


def multiply_error_single(x: float, y: float) -> tuple[np.float32, float]:
    """Return the float32 product x * y rounded to nearest, and the rounding error."""
    return narrow_error(np.float64(x) * np.float64(y), 0.0)


def fma_error_single(x: float, y: float, z: float) -> tuple[np.float32, float]:
    """Return x * y + z, rounded to float64 and then to float32, and the total error.

    Two roundings may not give the nearest float32.
    """
    p = np.float64(x) * np.float64(y)
    s, low = two_sum(p, np.float64(z))
    return narrow_error(s, low)


def divide_error_single(x: Any, y: float) -> tuple[float, float]:
    """Return the float32 quotient x / y rounded to nearest, and a number with the sign of the rounding error."""
    q = x / y
    e = np.float64(x) - np.float64(q) * np.float64(y)
    if y < 0:
        e = -e
    return q, e


def reciprocal_error_single(x: float) -> tuple[float, float]:
    """Return the float32 reciprocal 1 / x rounded to nearest, and a number with the sign of the rounding error."""
    return divide_error_single(np.float32(1), x)


def sqrt_error_single(x: float) -> tuple[float, float]:
    """Return the float32 square root rounded to nearest, and a number with the sign of the rounding error."""
    r = np.sqrt(x)
    return r, np.float64(x) - np.float64(r) * np.float64(r)


# -- integers ---------------------------------------------------------------------------------


def wide_integer(x: int) -> tuple[float, float]:
    """Return the float64 that is nearest to a 64-bit integer, and the rounding error."""
    return two_sum(np.float64(x >> 32) * 4294967296.0, np.float64(x & 0xFFFFFFFF))


def wide_integer_single(x: int) -> tuple[np.float32, float]:
    """Round a 64-bit integer to float64, and the result to float32. Return the float32 number, and the integer minus this number."""
    s, low = wide_integer(x)
    return narrow_error(s, low)


# -- rounded functions ------------------------------------------------------------------------


def rounded(error: Callable[..., Any], choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that rounds its result in a given direction, such as down, instead of to nearest.

    `error` returns the result rounded to nearest, and a number with the sign of the rounding error. From these,
    `choose` computes the result rounded in another direction.
    """

    def apply(*operands: float) -> float:
        r, e = error(*operands)
        return choose(r, e)

    return apply


def sum_of(error: Callable[..., Any], choose: Callable[..., Any], sign: int = 1) -> Callable[..., Any]:
    """Return a function that computes x + y (x - y if `sign` is -1) with directed rounding. `choose` sets the direction: it is `down`, `up` or `towards_zero`.

    A zero sum rounded down is -0 if the sign bit of a term is set.
    """
    below = choose is down

    def apply(x: float, y: float) -> float:
        other = y if sign > 0 else -y
        r, e = error(x, other)
        r = choose(r, e)
        if below and r == 0 and (np.signbit(x) or np.signbit(other)):
            r = -abs(r)
        return r

    return apply


def fused_of(error: Callable[..., Any], choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes x * y + z with directed rounding. `choose` sets the direction: it is `down`, `up` or `towards_zero`.

    An exact zero has the sign that `sum_of` gives to the sum of x * y and z.
    """
    below = choose is down

    def apply(x: float, y: float, z: float) -> float:
        r, e = error(x, y, z)
        r = choose(r, e)
        if below and r == 0 and e == 0 and (np.signbit(z) or np.signbit(x) != np.signbit(y)):
            r = -abs(r)
        return r

    return apply
