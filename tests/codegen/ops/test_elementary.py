"""Tests of the exact reference functions that the interpreter uses."""

from __future__ import annotations

import numpy as np

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
