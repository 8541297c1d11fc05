"""Inverse error functions, scaled error functions, and the normal distribution, in the kernel language.

In and out: float64. Invariant: each function uses the ops `erf` and `erfc`, which are within one unit in the last
place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.dsl.kernel.library.library_functions import fma

ROOT_PI, TWO_OVER_ROOT_PI, HALF_ROOT_PI = math.sqrt(math.pi), 2 / math.sqrt(math.pi), math.sqrt(math.pi) / 2
ROOT_2, LOG_2 = math.sqrt(2), math.log(2)
ROOT_HALF_HIGH, ROOT_HALF_LOW = 0.7071067811865476, -4.833646656726457e-17  # 1/sqrt(2) as the sum of two float64


def _exp_of_square(x: float, sign: int) -> Any:
    """Compute exp(sign * x*x), where x*x is computed in twice the working precision."""
    square = x * x
    low = fma(x, x, -square)
    return np.exp(sign * square) * (1 + sign * low)


def inverse_erf(y: float) -> Any:
    """Compute the inverse error function within 4 ulp: the x with erf(x) = y.

    The function takes two steps of Halley's method on erf, starting from the first terms of the inverse series. For
    |y| >= 1/2, it solves erfc(x) = 1 - |y| instead, because this difference is exact.
    """
    size = abs(y)
    x = y * np.nan
    if size < 0.5:
        s = y * HALF_ROOT_PI
        t = s * s
        x = s * (1 + t * (1 / 3 + t * (7 / 30 + t * (127 / 630))))
        if abs(x) > 1e-9:
            for _ in (0, 1):
                f = (math.erf(x) - y) / (TWO_OVER_ROOT_PI * np.exp(-x * x))
                x -= f / (1 + x * f)
        else:
            x = s
    elif size < 1:
        x = np.copysign(_inverse_tail(1 - size), y)
    elif size == 1:
        x = y * np.inf
    return x


def _inverse_tail(p: float) -> Any:
    """Compute the inverse of erfc for 0 < p <= 1/2: the x with erfc(x) = p.

    Halley's method starts from the estimate of Hastings (1955).
    """
    t = np.sqrt(-2 * (np.log(p) - LOG_2))
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    x = (t - above / below) / ROOT_2
    for _ in (0, 1, 2):
        scaled = scaled_erfc(x)
        if p > 1e-290:
            change = p / math.erfc(x) - 1
        else:  # erfc has lost precision here: use its logarithm
            change = np.log(p) + x * x - np.log(scaled)
        f = change * scaled * HALF_ROOT_PI
        x -= f / (1 + x * f)
    return x


def inverse_erfc(p: float) -> Any:
    """Compute the inverse complementary error function within 4 ulp: the x with erfc(x) = p."""
    x = p * np.nan
    if p == 0:
        x = 1 / abs(p)
    elif p > 0 and p <= 0.5:
        x = _inverse_tail(p)
    elif p > 0.5 and p < 1.5:
        x = inverse_erf(1 - p)
    elif p >= 1.5 and p < 2:
        x = -_inverse_tail(2 - p)
    elif p == 2:
        x = -p * np.inf
    return x


def scaled_erfc(x: float) -> Any:
    """Compute exp(x*x) * erfc(x), within 5 ulp.

    For x >= 10, the function evaluates Abramowitz and Stegun's asymptotic series 7.1.23.
    """
    result = x
    if x < 10:
        result = _exp_of_square(x, 1) * math.erfc(x)
        if x < -27:
            result = x * -np.inf
    elif x >= 10:
        w = 0.5 / x / x
        series = 1.0
        for k in (27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1):
            series = 1 - k * w * series
        result = series / x / ROOT_PI
    return result


def normal_cdf(x: float) -> Any:
    """Compute the cumulative distribution function of the standard normal distribution, within 5 ulp.

    The rounding error of -x / sqrt(2), which the tail magnifies, is corrected to first order.
    """
    z = -x * ROOT_HALF_HIGH
    low = fma(-x, ROOT_HALF_HIGH, -z) - x * ROOT_HALF_LOW
    result = 0.5 * math.erfc(z)
    if abs(z) < 27:
        result -= 0.5 * TWO_OVER_ROOT_PI * _exp_of_square(z, -1) * low
    return result


def inverse_normal_cdf(p: float) -> Any:
    """Compute the quantile of the standard normal distribution for the probability p, within 5 ulp."""
    return -ROOT_2 * inverse_erfc(2 * p)
