"""Rows that NumPy has no function for, on the CPU against their references, and in PTX."""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft as wf
from weft.codegen import find_op

BITS = ("clz", "ffs", "brev")
FLOATS = ("rsqrt", "exp10", "sinpi", "cospi")


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", BITS)
def test_bits(name: str, dtype: str) -> None:
    limits = np.iinfo(dtype)
    values = np.array([0, 1, 2, 3, 5, 64, 100, limits.max, limits.min, limits.max - 1], dtype)
    found = np.asarray(getattr(wf, name)(wf.asarray(values)))
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, find_op(name).reference(values))  # type: ignore[misc]


def test_known_bits() -> None:
    x = wf.asarray(np.array([0, 1, 12, -1], np.int32))
    assert list(wf.clz(x)) == [32, 31, 28, 0]
    assert list(wf.ffs(x)) == [0, 1, 3, 1]
    assert list(wf.brev(x)) == [0, -(2**31), 0x30000000, -1]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, dtype: str) -> None:
    row = find_op(name)
    values = np.linspace(0.01, 3.7, 301).astype(dtype)
    if name != "rsqrt":
        values = np.concatenate([values, -values])
    found = np.asarray(getattr(wf, name)(wf.asarray(values)))
    wanted = row.reference(values)  # type: ignore[misc]
    assert found.dtype == wanted.dtype == values.dtype
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=row.ulp * eps, atol=0)


def test_half_turns_are_exact() -> None:
    x = np.array([0.0, 0.5, 1.0, 1.5, 2.0, -0.5, 1e6, 2.0**60, 1e6 + 0.5])
    assert list(np.asarray(wf.sinpi(wf.asarray(x)))) == [0, 1, 0, -1, 0, -1, 0, 0, 1]
    assert list(np.asarray(wf.cospi(wf.asarray(x)))) == [1, 0, -1, 0, 1, 0, 1, 1, 0]
    assert math.isnan(wf.sinpi(wf.asarray(np.array([np.inf])))[0])


@pytest.mark.parametrize("name", [*BITS, *FLOATS])
def test_they_reach_ptx(name: str) -> None:
    x = wf.asarray(np.ones(100, np.int32 if name in BITS else np.float32))
    (kernel,) = wf.compile(getattr(wf, name)(x), target="sm_75")
    assert ".extern" not in kernel.ptx
    if name in ("clz", "brev"):
        assert f"{name}.b32" in kernel.ptx
