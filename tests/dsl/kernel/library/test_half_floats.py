"""Tests of plain-Python functions for float16 and bfloat16. Each function must round its result only once.

Results for random values, and for values near midpoints, are compared with exact arithmetic.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.dsl.kernel.exact import directed, same
from weft.dsl.kernel.language.names import NAMES
from weft.dsl.kernel.library.half_floats import round_to_odd
from weft.dsl.kernel.library.library_functions import BF16, FP16

HALF = np.dtype(np.float16)
EVERY = np.arange(2**16, dtype=np.uint16)


def some_halves(seed: int, count: int) -> np.ndarray:
    found = np.random.default_rng(seed).integers(0, 2**16, count, dtype=np.uint16).view(HALF)
    return found[np.isfinite(found)]


def brain(value: float | Fraction) -> int:
    """Return the bits of the bfloat16 value nearest to a rational number, with ties to even."""
    exact = Fraction(value)
    low = int(np.float32(directed(exact, np.dtype(np.float32), "rz")).view(np.uint32)) >> 16
    if low & 0x7FFF == 0x7F80 or exact == 0:
        return low
    here, next_one = (widened(low), widened(low + 1))
    if np.isinf(next_one):
        step = Fraction(2) ** 120
        next_exact = Fraction(float(here)) + (step if here > 0 else -step)
    else:
        next_exact = Fraction(float(next_one))
    below, above = abs(exact - Fraction(float(here))), abs(next_exact - exact)
    return low + 1 if above < below or (above == below and low & 1) else low


def widened(bits: int) -> np.float32:
    return np.uint32(bits << 16).view(np.float32)


def test_tables_have_the_names_of_the_cuda_model() -> None:
    for space, table in (("fp16", FP16), ("bf16", BF16)):
        named = {name.split(".")[1] for name in NAMES if name.startswith(space + ".")}
        assert named <= set(table)


@pytest.mark.parametrize(("name", "exactly"), [("hadd", "add"), ("hsub", "sub"), ("hmul", "mul"), ("hdiv", "div")])
def test_half_arithmetic_is_the_nearest(name: str, exactly: str) -> None:
    x, y = some_halves(1, 800)[:700], some_halves(2, 800)[:700]
    for a, b in zip(x, y, strict=True):
        p, q = Fraction(float(a)), Fraction(float(b))
        if exactly == "div" and q == 0:
            continue
        exact = {"add": p + q, "sub": p - q, "mul": p * q, "div": p / q if q else p}[exactly]
        found = FP16[name](a, b)
        assert found == directed(exact, HALF, "rn") and found.dtype == HALF, (a, b)


def test_fused_half_is_the_nearest() -> None:
    x, y, z = (some_halves(seed, 3000)[:2500] for seed in (3, 4, 5))
    halfway = np.array([(1.5, 2.0**-12, 1024.0), (1 + 2**-10, 1 + 2**-10, 2.0**-24), (65504.0, 1.0, 16.0)], HALF)
    cases = [*zip(x, y, z, strict=True), *halfway]
    cases += [(a, b, HALF.type(-float(a) * float(b))) for a, b in zip(x[:500] % 4, y[:500] % 4, strict=True)]
    for a, b, c in cases:
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert FP16["hfma"](a, b, c) == directed(exact, HALF, "rn"), (a, b, c)


def test_half_comparisons_and_extremes() -> None:
    nan = HALF.type(np.nan)
    assert FP16["hmax"](nan, 1.0) == 1 and FP16["hmin"](2.0, 1.0) == 1
    assert not FP16["hne"](nan, 1.0) and FP16["hne"](1.0, 2.0) and not FP16["hne"](1.0, 1.0)
    assert FP16["hle"](1.0, 1.0) and not FP16["hge"](nan, nan) and FP16["hisnan"](nan) and not FP16["heq"](nan, nan)
    assert FP16["hrcp"](4.0) == 0.25 and FP16["hexp10"](2.0) == 100 and FP16["hrsqrt"](0.25) == 2


def test_brain_floats_widen_and_narrow() -> None:
    with np.errstate(invalid="ignore"):
        wide = (EVERY.astype(np.uint32) << 16).view(np.float32)
    for bits, value in zip(EVERY[::37], wide[::37], strict=True):
        assert same(BF16["bfloat162float"](bits), value)
        assert BF16["float2bfloat16"](value) == (0x7FFF if np.isnan(value) else bits)
        assert BF16["hisnan"](bits) == np.isnan(value)
    generator = np.random.default_rng(7)
    for value in np.ldexp(generator.uniform(1, 2, 500), generator.integers(-140, 128, 500)):
        for x in (value, -value):
            assert BF16["double2bfloat16"](x) == brain(x), x
            single = np.float32(x)
            assert BF16["float2bfloat16_rn"](single) == brain(float(single)), x
    # just above a midpoint: rounding through float32 would round down
    assert BF16["double2bfloat16"](1 + 2.0**-8 + 2.0**-40) == 0x3F81


def test_brain_arithmetic_is_the_nearest() -> None:
    generator = np.random.default_rng(8)
    bits = generator.integers(0x3000, 0x4F00, (600, 3), dtype=np.uint16) | generator.choice(
        [0, 0x8000], (600, 3)
    ).astype(np.uint16)
    for a, b, c in bits:
        p, q, r = (Fraction(float(widened(int(v)))) for v in (a, b, c))
        for name, exact in (("hadd", p + q), ("hsub", p - q), ("hmul", p * q), ("hdiv", p / q)):
            if exact:
                assert BF16[name](a, b) == brain(exact), (name, a, b)
        if p * q + r:
            check_fused(a, b, c, p * q + r)
        assert BF16["hlt"](a, b) == (p < q) and BF16["hne"](a, b) == (p != q)
    assert BF16["hmax"](0x7FFF, 0x3F80) == 0x3F80 and BF16["hneg"](0x3F80) == 0xBF80 and BF16["hsqrt"](0x4080) == 0x4000


def check_fused(x: int, y: int, z: int, exact: Fraction) -> None:
    nearest = brain(exact)
    assert BF16["hfma"](x, y, z) == nearest, (x, y, z)
    assert BF16["hfma_relu"](x, y, z) == (nearest if exact > 0 else 0), (x, y, z)
    assert BF16["hfma_sat"](x, y, z) == brain(min(max(exact, Fraction(0)), Fraction(1))), (x, y, z)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("tail", [0, -133, -60, -30])
@pytest.mark.parametrize("exponent", [0, -10, -100])
def test_fused_bfloat16_of_distant_numbers_is_the_nearest(exponent: int, tail: int, sign: int) -> None:
    """Test fused multiply-adds of bfloat16 numbers in which the product and the addend have very different magnitudes.

    Some products are halfway between two bfloat16 numbers, so that a small addend decides the rounding. Some addends
    are too small to change a float64 sum.
    """
    for p, q, r in ((3, 87, 1), (3, 87, -1), (5, 103, 1), (5, 103, -1)):
        numbers = [sign * p * Fraction(2) ** exponent, Fraction(q), sign * r * Fraction(2) ** (tail if tail else -133)]
        check_fused(*map(brain, numbers), numbers[0] * numbers[1] + numbers[2])


def test_rounding_to_odd() -> None:
    one = np.float64(1)
    assert round_to_odd(one) == 1
    above, below = round_to_odd(one + 2.0**-40), round_to_odd(one - 2.0**-40)
    assert above == np.nextafter(np.float32(1), np.float32(2)) and below == np.nextafter(np.float32(1), np.float32(0))
    with np.errstate(over="ignore"):
        assert round_to_odd(np.float64(1e300)) == np.finfo(np.float32).max and np.isnan(
            round_to_odd(np.float64(np.nan))
        )
