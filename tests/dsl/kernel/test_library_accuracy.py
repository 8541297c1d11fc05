"""Tests of the accuracy of library functions in plain Python.

The reference is mpmath with 40 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.dsl.cuda.libdevice import FUNCTIONS

mp = pytest.importorskip("mpmath")


def powers(low: float, high: float, count: int, seed: int = 1) -> list[float]:
    """Return random numbers whose logarithms to base 10 are uniformly distributed."""
    return [float(v) for v in 10 ** np.random.default_rng(seed).uniform(low, high, count)]


def evenly(low: float, high: float, count: int, seed: int = 2) -> list[float]:
    return [float(v) for v in np.random.default_rng(seed).uniform(low, high, count)]


def inverse_erfc(p: Any) -> Any:
    p = mp.mpf(p)
    if p > 0.01:
        return mp.erfinv(1 - p)
    start = mp.sqrt(-mp.log(p))
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(p), (0.9 * start, start))


# name -> error bound in units in the last place, reference function, arguments
UNITS: dict[str, tuple[float, Callable[[Any], Any], list[float]]] = {
    "erfinv": (4, mp.erfinv, evenly(-1, 1, 80) + powers(-30, 0, 40) + [1 - v for v in powers(-15, -1, 40)]),
    "erfcinv": (4, inverse_erfc, evenly(0.02, 2, 80) + powers(-307, -2, 20) + [1e-320]),
    "erfcx": (5, lambda x: mp.exp(x * x) * mp.erfc(x), evenly(-26, 12, 80) + powers(-5, 6, 40)),
    "normcdf": (5, lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, evenly(-37, 8, 80)),
    "normcdfinv": (5, lambda p: -mp.sqrt(2) * inverse_erfc(2 * p), evenly(0.01, 1, 80) + powers(-300, -2, 20)),
    "sinpi": (2, mp.sinpi, evenly(-3, 3, 80) + powers(-10, 8, 40)),
    "cospi": (2, mp.cospi, evenly(-3, 3, 80) + powers(-10, 8, 40)),
    "exp10": (2, lambda x: mp.mpf(10) ** x, evenly(-300, 300, 80)),
    "rsqrt": (2, lambda x: 1 / mp.sqrt(x), powers(-300, 300, 80)),
    "rcbrt": (2, lambda x: 1 / mp.cbrt(x), powers(-300, 300, 80)),
}


@pytest.mark.parametrize("name", list(UNITS))
@pytest.mark.parametrize("single", [False, True])
def test_units_in_the_last_place(name: str, single: bool) -> None:
    bound, true, inputs = UNITS[name]
    function = FUNCTIONS[name + "f" * single]
    kind = np.float32 if single else np.float64
    with mp.workdps(40), np.errstate(over="ignore"):
        for x in (kind(v) for v in inputs):
            if x == 0 or not np.isfinite(x):
                continue
            wanted = true(mp.mpf(float(x)))
            near = kind(float(wanted))
            if not np.isfinite(near) or abs(near) < np.finfo(kind).tiny:
                continue
            error = abs(mp.mpf(float(function(x))) - wanted) / float(np.spacing(abs(near)))
            assert error <= bound, (float(x), float(error))


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
@pytest.mark.parametrize(("low", "high"), [(1e-3, 1), (1, 4), (4, 8), (8, 30), (30, 1e4)])
def test_bessel_functions_against_their_amplitude(name: str, low: float, high: float) -> None:
    true = mp.besselj if name[0] == "j" else mp.bessely
    with mp.workdps(40):
        for x in evenly(low, high, 40):
            wanted = true(int(name[1]), x)
            amplitude = mp.sqrt(2 / (mp.pi * x)) if x > 1 else max(1, abs(wanted))
            assert abs(float(FUNCTIONS[name](x)) - wanted) <= 1e-15 * amplitude, x
            single = np.float32(x)
            found, wanted = float(FUNCTIONS[name + "f"](single)), true(int(name[1]), float(single))
            assert abs(found - wanted) <= 1e-7 * max(amplitude, abs(wanted)), x


@pytest.mark.parametrize("name", ["jn", "yn"])
def test_bessel_functions_of_higher_order(name: str) -> None:
    true = mp.besselj if name == "jn" else mp.bessely
    generator = np.random.default_rng(6)
    with mp.workdps(40):
        for n, x in zip(generator.integers(0, 60, 80).tolist(), powers(-3, 2.5, 80), strict=True):
            wanted = true(n, x)
            if 1e-290 < abs(wanted) < 1e290:
                size = mp.sqrt(2 / (mp.pi * x)) if x > n else abs(wanted)
                assert abs(float(FUNCTIONS[name](n, x)) - wanted) <= 1e-14 * max(size, abs(wanted)), (n, x)
        assert abs(float(FUNCTIONS["jn"](5, 1e-9)) / float(mp.besselj(5, 1e-9)) - 1) < 1e-15
        assert abs(float(FUNCTIONS["jn"](1000, 1001.0)) - mp.besselj(1000, 1001)) < 1e-14
