"""Bessel functions of integer order, in the kernel language.

In and out: float64, and int32 for the order. Invariant: the error of J0, J1, Y0 and Y1 is at most 1e-15 of the
amplitude, or of the value if that is larger. The amplitude is sqrt(2 / (pi*x)), and at most 1 for J. Near a zero, the
relative error may be larger. Jn and Yn use recurrences.

The coefficients are Chebyshev series, truncated below 1e-17 and converted to powers of a variable in [-1, 1]. For x
below 4 the variable is based on x*x, and the series are those of (1 - J0(x)) / x**2, J1(x) / x, and the
non-logarithmic parts of Y0 and Y1. From 4 to 8 it is based on x. From 8 on it is based on (8/x)**2, for the modulus
and phase functions P and Q (Abramowitz and Stegun, 9.2.5 to 9.2.10). The coefficients were computed for this file
with 60 digits from the functions' series.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.cuda.host_forms.bessel_series import (
    J0_MIDDLE,
    J0_NEAR,
    J1_MIDDLE,
    J1_NEAR,
    P0,
    P1,
    Q0,
    Q1,
    Y0_MIDDLE,
    Y0_NEAR,
    Y1_MIDDLE,
    Y1_NEAR,
)

TWO_OVER_PI, ROOT_HALF = 0.6366197723675814, 0.7071067811865476


def _sum(series: tuple[float, ...], u: float) -> Any:
    """Evaluate a polynomial by Horner's rule, with the coefficient of the highest power first."""
    total = 0.0
    for c in series:
        total = total * u + c
    return total


def _phase(x: float, p: tuple[float, ...], q: tuple[float, ...]) -> Any:
    """Return the factors P and Q in a Bessel function's asymptotic expansion for x >= 8.

    Both are multiplied by sqrt(2 / (pi*x)).

    `p` and `q` are the coefficients of the polynomials that approximate P and Q.
    """
    w = 8 / x
    u = 2 * (w * w) - 1
    size = np.sqrt(TWO_OVER_PI / x)
    return size * _sum(p, u), size * w * _sum(q, u)


def _shifted_sin_cos(x: float) -> Any:
    """Return the cosine and sine of x - pi/4."""
    s, c = np.sin(x), np.cos(x)
    return (c + s) * ROOT_HALF, (s - c) * ROOT_HALF


def j0(x: float) -> Any:
    """Compute the Bessel function of the first kind of order 0."""
    size = abs(x)
    if size < 4:
        square = size * size
        result = 1 - square * _sum(J0_NEAR, square * 0.125 - 1)
    elif size < 8:
        result = _sum(J0_MIDDLE, size * 0.5 - 3)
    elif size < np.inf:
        p, q = _phase(size, P0, Q0)
        c, s = _shifted_sin_cos(size)
        result = p * c - q * s
    else:
        result = 1 / size
    return result


def j1(x: float) -> Any:
    """Compute the Bessel function of the first kind of order 1."""
    size = abs(x)
    if size < 4:
        result = size * _sum(J1_NEAR, size * size * 0.125 - 1)
    elif size < 8:
        result = _sum(J1_MIDDLE, size * 0.5 - 3)
    elif size < np.inf:
        p, q = _phase(size, P1, Q1)
        c, s = _shifted_sin_cos(size)
        result = p * s + q * c
    else:
        result = 1 / size
    if np.signbit(x):
        result = -result
    return result


def y0(x: float) -> Any:
    """Compute the Bessel function of the second kind of order 0.

    The result is NaN for x < 0, and -inf for x = 0.
    """
    if x < 0 or x != x:
        result = x * np.nan
    elif x == 0:
        result = np.float64(-np.inf)
    elif x < 4:
        result = TWO_OVER_PI * np.log(x) * j0(x) + _sum(Y0_NEAR, x * x * 0.125 - 1)
    elif x < 8:
        result = _sum(Y0_MIDDLE, x * 0.5 - 3)
    elif x < np.inf:
        p, q = _phase(x, P0, Q0)
        c, s = _shifted_sin_cos(x)
        result = p * s + q * c
    else:
        result = 1 / x
    return result


def y1(x: float) -> Any:
    """Compute the Bessel function of the second kind of order 1.

    The result is NaN for x < 0, and -inf for x = 0.
    """
    if x < 0 or x != x:
        result = x * np.nan
    elif x == 0:
        result = np.float64(-np.inf)
    elif x < 4:
        result = TWO_OVER_PI * (np.log(x) * j1(x) - 1 / x) + x * _sum(Y1_NEAR, x * x * 0.125 - 1)
    elif x < 8:
        result = _sum(Y1_MIDDLE, x * 0.5 - 3)
    elif x < np.inf:
        p, q = _phase(x, P1, Q1)
        c, s = _shifted_sin_cos(x)
        result = q * s - p * c
    else:
        result = 1 / x
    return result


def jn(n: int, x: float) -> Any:
    """Compute the Bessel function of the first kind of order n.

    The result is NaN for n < 0.

    The method is upward recurrence if the order is below x, otherwise downward recurrence from an order where the
    function is negligible, scaled to match J0 or J1 (Miller's method; Abramowitz and Stegun, 9.12).
    """
    size = abs(x)
    first, second = j0(size), j1(size)
    if n < 0 or x != x:
        result = x * np.nan
    elif n == 0:
        result = first
    elif n == 1:
        result = second
    elif size < 1e-7:
        result = _first_term(n, size)
    elif n < size:
        result = _recurrence(n, size, first, second)
    else:
        result = _downwards(n, size, first, second)
    if np.signbit(x) and n & 1 == 1:
        result = -result
    return result


def yn(n: int, x: float) -> Any:
    """Compute the Bessel function of the second kind of order n.

    The result is NaN for n < 0 or x < 0, and -inf for x = 0.
    """
    first, second = y0(x), y1(x)
    if n < 0 or x < 0 or x != x:
        result = x * np.nan
    elif n == 0:
        result = first
    elif n == 1:
        result = second
    else:
        result = _recurrence(n, x, first, second)
    return result


def order_in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a float32 version of a float64 function that takes an integer order and a float.

    Each result is rounded once from float64.
    """

    def apply(n: int, x: float) -> Any:
        return np.float32(function(n, np.float64(x)))

    return apply


def _first_term(n: int, x: float) -> Any:
    """Return (x/2)**n / n!, the first term of the power series of the Bessel function Jn(x).

    For tiny x*x, the other terms are negligible.
    """
    result = np.float64(1.0)
    k = np.int32(1)
    while k <= n and result > 0:
        result *= 0.5 * x / np.float64(k)
        k += 1
    return result


def _recurrence(n: int, x: float, first: float, second: float) -> Any:
    """Compute the Bessel function of order n by upward recurrence from orders 0 and 1.

    Overflow gives infinity.
    """
    before, now = first, second
    k = np.int32(1)
    while k < n and np.isfinite(now):
        before, now = now, np.float64(2 * k) / x * now - before
        k += 1
    return now


def _downwards(n: int, x: float, first: float, second: float) -> Any:
    """Compute Jn(x) for n >= x > 0 by downward recurrence.

    The values are normalized by the known J0(x) or J1(x).
    """
    k = n + 30 + np.int32(12 * np.cbrt(np.float64(n)))
    after, now, wanted = np.float64(0.0), np.float64(1e-300), np.float64(0.0)
    while k > 0:
        if k == n:
            wanted = now
        after, now = now, np.float64(2 * k) / x * now - after
        if abs(now) > 1e250:
            # Only the ratios matter.
            after, now, wanted = after * 1e-250, now * 1e-250, wanted * 1e-250
        k -= 1
    # `now` is J0 and `after` is J1, up to a common factor, which the larger of them determines.
    scale = first / now
    if abs(after) > abs(now):
        scale = second / after
    return wanted * scale
