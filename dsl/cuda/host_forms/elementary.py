"""Powers, roots, vector lengths and functions of pi*x, in the kernel language.

In and out: float32 or float64. Invariant: the error of a function is at most the number of ulp (units in the last
place) in the function's docstring, provided that the underlying ops are within one ulp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.kernel.library.library_functions import fma

PI_HIGH, PI_LOW = 3.141592653589793, 1.2246467991473532e-16  # pi as the sum of two float64
WHOLE = 2.0**52


def reciprocal_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes ``1 / function(...)``."""

    def apply(*operands: Any) -> Any:
        return 1 / function(*operands)

    return apply


def part_of(function: Callable[..., Any], k: int) -> Callable[..., Any]:
    """Return a function that computes result number `k` of a function with several results."""

    def apply(*operands: Any) -> Any:
        return function(*operands)[k]

    return apply


def integer_power(x: float, n: int) -> float:
    """Compute x**n for an integer n, within 2 ulp."""
    return np.power(x, np.float64(n))


def reciprocal_cbrt(x: float) -> float:
    """Compute 1 / cbrt(x), within 2 ulp."""
    start = 1 / np.cbrt(x)
    if start == 0 or not np.isfinite(start):
        return start
    # one Newton step: the cbrt of some C libraries has an error of up to 4 ulp
    return start + start * fma(-(x * start * start), start, np.float32(1)) / 3


def length_3(x: float, y: float, z: float) -> float:
    """Compute sqrt(x*x + y*y + z*z), within 2 ulp and without overflow."""
    return np.hypot(np.hypot(x, y), z)


def length_4(x: float, y: float, z: float, w: float) -> float:
    """Compute sqrt(x*x + y*y + z*z + w*w), within 3 ulp and without overflow."""
    return np.hypot(np.hypot(x, y), np.hypot(z, w))


def sin_cos(x: float) -> tuple[float, float]:
    """Compute the sine and cosine of x."""
    return np.sin(x), np.cos(x)


def sin_cos_pi(x: float) -> tuple[float, float]:
    """Compute sin(pi*x) and cos(pi*x), within 2 ulp.

    x is reduced exactly to [-1/4, 1/4]. The product with pi is computed in twice the working precision.
    """
    turns = x
    if abs(x) >= WHOLE:
        turns = np.fmod(x, 2.0)
    quarters = np.rint(2 * turns)
    rest = turns - 0.5 * quarters
    angle = rest * PI_HIGH
    beyond = fma(rest, PI_HIGH, -angle) + rest * PI_LOW
    s, c = np.sin(angle), np.cos(angle)
    s, c = s + beyond * c, c - beyond * s
    quadrant = np.int64(0)
    if np.isfinite(quarters):
        quadrant = np.int64(quarters) & 3
    if quadrant & 1 == 1:
        s, c = c, -s
    if quadrant & 2 == 2:
        s, c = -s, -c
    # At integers, the sine is 0 with the sign of x. At half-integers, the cosine is +0.
    if s == 0:
        s = np.copysign(s, x)
    return s, abs(c) if c == 0 else c
