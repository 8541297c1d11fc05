"""Tests of functions whose results are exact or rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.codegen.ops import find_op


def fma(*operands: float) -> np.float32:
    reference = find_op("fma").reference
    assert reference is not None
    result: np.float32 = reference(*(np.float32(v) for v in operands))
    return result


def test_fma_of_float32_is_rounded_once() -> None:
    """Test exact results near the midpoint of two floats, which float64 would round to the midpoint."""
    unit = 2.0**-23
    x, y, z = 1 - unit, (1 + unit) / 2 * unit, 1 + unit  # x * y is half a unit minus 2^-70
    assert fma(x, y, z) == np.float32(1 + unit)
    assert fma(-x, y, z) == np.float32(1 + unit)
    assert fma(x, y, -z) == np.float32(-1 - unit)
    assert fma(-x, y, -z) == np.float32(-1 - unit)
    assert fma(1, y, z) == np.float32(1 + 2 * unit)


def test_fma_of_what_is_no_number() -> None:
    assert fma(np.inf, 1, 1) == np.inf
    assert np.isnan(fma(np.inf, 1, -np.inf))
    assert np.isnan(fma(np.inf, 0, 1))
    assert np.signbit(fma(-0.0, 1, -0.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ldexp_is_rounded_once(dtype: type) -> None:
    """Test subnormal results. Most powers of two by which the test multiplies are themselves subnormal."""
    source, limits = np.random.default_rng(0), np.finfo(dtype)
    x = (source.uniform(-1, 1, 4000) * 2.0 ** source.integers(-3, 3, 4000)).astype(dtype)
    n = source.integers(limits.minexp - limits.nmant - 5, limits.minexp + 5, x.size).astype(np.int32)
    np.testing.assert_array_equal(wf.ldexp(wf.asarray(x), wf.asarray(n)), np.ldexp(x, n))
