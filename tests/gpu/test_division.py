"""Tests that quotients and square roots on a real GPU have NumPy's bits (``pytest -m gpu``).

Tests without a GPU (`tests/codegen/passes/test_expand_division.py`) show that the algorithms are right for all
approximations within the documented error bounds. These tests use the GPU's approximations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.codegen.passes.test_expand_division import SIGNIFICANDS, any_floats, bits, hard_pairs
from weft import cuda

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")]
COUNT = 1 << 24


def same_bits(found: Any, wanted: np.ndarray) -> None:
    result = np.array(found)
    differ = (result.view(np.int32) != wanted.view(np.int32)) & ~(np.isnan(result) & np.isnan(wanted))
    assert not differ.any(), f"{differ.sum()} differ, the first at {differ.argmax()}"


@np.errstate(all="ignore")
def check(x: np.ndarray, y: np.ndarray) -> None:
    same_bits(wf.asarray(x) / wf.asarray(y), x / y)


@pytest.mark.parametrize("part", range(4))
def test_quotients_of_any_bits(part: int) -> None:
    """Test quotients of floats with random bits, 2^26 in total."""
    check(any_floats(COUNT, 2 * part), any_floats(COUNT, 2 * part + 1))


def test_reciprocals_of_all_significands() -> None:
    """Test reciprocals of all significands, for several exponents."""
    for exponent in (0, 1, 2, 127, 252, 253, 254):
        y = np.arange(exponent << 23, (exponent + 1) << 23, dtype=np.uint32).view(np.float32)
        check(np.ones_like(y), y)


def test_quotients_next_to_the_middle_of_two_floats() -> None:
    x, y = hard_pairs(np.arange((1 << 24) - (1 << 18) + 1, 1 << 24, 2))
    for scale_x, scale_y in ((0, 0), (-120, 30), (100, -20), (-149, 0)):
        check(np.ldexp(x, scale_x).astype(np.float32), np.ldexp(y, scale_y).astype(np.float32))


@np.errstate(all="ignore")
def test_rows_by_one_divisor() -> None:
    """Test rows divided by their maximum, and by the negative maximum.

    The rows contain numbers of all magnitudes, zeros, infinities and NaNs. Each thread keeps sixteen elements of a row.
    """
    source = np.random.default_rng(6)
    x = (source.normal(size=(1024, 4096)) * 2.0 ** source.uniform(-60, 0, (1024, 4096))).astype(np.float32)
    x = np.ldexp(x, source.integers(-140, 125, (1024, 1))).astype(np.float32)
    x[::3, ::5] = 0
    x[::7, ::11] = -0.0
    x[5::64, 17], x[9::64, 18], x[13::64] = np.inf, -np.inf, -np.abs(x[13::64])
    x[21::64, 0] = np.nan
    for flip in (1, -1):
        with_sign = np.float32(flip)
        a = wf.asarray(x)
        same_bits(a / (a.max(axis=1, keepdims=True) * with_sign), x / (x.max(axis=1, keepdims=True) * with_sign))


@np.errstate(all="ignore")
def test_constant_divisors() -> None:
    x = any_floats(1 << 20, 9)
    for divisor in (3.0, -7.0, 1e-3, 1e30, 1e-38, 1e-45, 2.0, 0.0, np.inf):
        c = np.float32(divisor)
        same_bits(wf.asarray(x) / c, x / c)


@np.errstate(all="ignore")
def test_roots() -> None:
    """Test square roots of all significands for several exponents, and of random floats."""
    for exponent in (0, 1, 26, 27, 28, 127, 128, 254, 255):
        x = np.arange(exponent << 23, (exponent + 1) << 23, dtype=np.uint32).view(np.float32)
        same_bits(wf.sqrt(wf.asarray(x)), np.sqrt(x))
    x = any_floats(COUNT, 11)
    same_bits(wf.sqrt(wf.asarray(x)), np.sqrt(x))


@np.errstate(all="ignore")
def test_special_values_in_explicit_kernels() -> None:
    exponents = np.array([0, 1, 26, 27, 127, 228, 253, 254, 255])
    positive = (exponents[:, None] << 23 | SIGNIFICANDS).ravel()
    values = bits(np.concatenate([positive, positive | 1 << 31]))
    x, y = np.repeat(values, values.size), np.tile(values, values.size)

    @wf.kernel
    def both(x: Any, y: Any, quotients: Any, roots: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            quotients[i] = x[i] / y[i]
            roots[i] = np.sqrt(y[i])

    quotients, roots = np.zeros_like(x), np.zeros_like(x)
    both[-(-x.size // 128), 128](x, y, quotients, roots)
    same_bits(quotients, x / y)
    same_bits(roots, np.sqrt(y))
