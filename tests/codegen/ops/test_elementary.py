"""Tests that `fma` and `ldexp` round their results once."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.codegen.ops.op_table import find_op


def fma(dtype: type, *operands: float) -> np.floating:
    reference = find_op("fma").reference
    assert reference is not None
    result: np.floating = reference(*(dtype(v) for v in operands))
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_is_rounded_once(dtype: type) -> None:
    """Test `fma` with operands for which rounding twice, first to a wider type and then to the result type, gives a wrong result."""
    unit = float(np.finfo(dtype).eps)
    x, y, z = 1 - unit, (1 + unit) / 2 * unit, 1 + unit  # x * y is half a unit minus the cube of a unit
    assert fma(dtype, x, y, z) == dtype(1 + unit)
    assert fma(dtype, -x, y, z) == dtype(1 + unit)
    assert fma(dtype, x, y, -z) == dtype(-1 - unit)
    assert fma(dtype, -x, y, -z) == dtype(-1 - unit)
    assert fma(dtype, 1, y, z) == dtype(1 + 2 * unit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_keeps_the_rounding_error_of_a_product(dtype: type) -> None:
    unit = float(np.finfo(dtype).eps)
    assert fma(dtype, 1 + unit, 1 + unit, -1 - 2 * unit) == unit**2
    most = np.finfo(dtype).max
    assert fma(dtype, most, 2, -most) == most
    assert fma(dtype, most, -2, 1) == -np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_of_what_is_no_number(dtype: type) -> None:
    most = np.finfo(dtype).max
    assert fma(dtype, np.inf, 1, 1) == np.inf
    assert fma(dtype, most, most, -np.inf) == -np.inf
    assert np.isnan(fma(dtype, np.inf, 1, -np.inf))
    assert np.isnan(fma(dtype, np.inf, 0, 1))
    assert np.signbit(fma(dtype, -0.0, 1, -0.0))
    assert not np.signbit(fma(dtype, 3, 1, -3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ldexp_is_rounded_once(dtype: type) -> None:
    """Compare tiny results of `ldexp` with NumPy's. Most of the powers of two are subnormal."""
    source, limits = np.random.default_rng(0), np.finfo(dtype)
    x = (source.uniform(-1, 1, 4000) * 2.0 ** source.integers(-3, 3, 4000)).astype(dtype)
    n = source.integers(limits.minexp - limits.nmant - 5, limits.minexp + 5, x.size).astype(np.int32)
    np.testing.assert_array_equal(wf.ldexp(wf.asarray(x), wf.asarray(n)), np.ldexp(x, n))
