"""Exact rational arithmetic with rounding in any direction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np


def round_fraction(exact: Fraction, dtype: np.dtype) -> Any:
    """Round a rational number to the nearest float of a dtype, with ties to even."""
    info = np.finfo(dtype)
    sign, size = (-1, -exact) if exact < 0 else (1, exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, int(info.minexp)) - int(info.nmant))
    rounded = round(size / step) * step  # Python rounds ties to even
    if rounded > Fraction(float(info.max)):
        return dtype.type(sign * math.inf)
    return dtype.type(sign * float(rounded)) if rounded else dtype.type(math.copysign(0.0, sign))


def directed(exact: Fraction, dtype: np.dtype, direction: str) -> float:
    """Round a rational number to a float of a dtype, in the given direction.

    `direction` is rn, rd, ru or rz. A zero result has the sign of `exact`.
    """
    nearest = round_fraction(exact, dtype)
    if direction == "rn" or exact == 0:
        return float(nearest)
    if direction == "rz":
        direction = "rd" if exact > 0 else "ru"
    with np.errstate(over="ignore"):
        return _stepped(nearest, exact, dtype, direction)


def _stepped(nearest: np.floating, exact: Fraction, dtype: np.dtype, direction: str) -> float:
    if direction == "rd" and ((math.isinf(nearest) and nearest > 0) or _fraction(nearest, exact) > exact):
        return float(np.nextafter(nearest, dtype.type(-math.inf)))
    if direction == "ru" and ((math.isinf(nearest) and nearest < 0) or _fraction(nearest, exact) < exact):
        return float(np.nextafter(nearest, dtype.type(math.inf)))
    return float(nearest)


def _fraction(value: np.floating, exact: Fraction) -> Fraction:
    return exact if math.isinf(value) else Fraction(float(value))


def root(exact: Fraction, dtype: np.dtype, direction: str) -> float:
    """Return the square root of a positive rational number, rounded to a float of the given dtype in the given direction.

    `direction` is rn, rd, ru or rz. The root is computed with integers that have more digits than any float.
    """
    scale = 1 << 1400
    digits = math.isqrt(exact.numerator * scale * scale // exact.denominator)
    below = Fraction(digits, scale)
    if below * below != exact:
        below += Fraction(1, 2 * scale)  # between the two nearest rationals, so it rounds like the root
    return directed(below, dtype, direction)


def same(found: object, wanted: object) -> bool:
    """Return whether two numbers are equal. NaN equals NaN, and the signs of zeros must agree."""
    a, b = float(found), float(wanted)  # type: ignore[arg-type]
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
