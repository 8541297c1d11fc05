"""Tests of ops without a NumPy equivalent, such as `clz`. They check known results and the generated PTX.

test_every_row.py compares the ops with their references.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import weft as wf

BITS = ("clz", "ffs", "brev")
FLOATS = ("rsqrt", "exp10", "sinpi", "cospi")


def test_known_bits() -> None:
    x = wf.asarray(np.array([0, 1, 12, -1], np.int32))
    assert list(wf.clz(x)) == [32, 31, 28, 0]
    assert list(wf.ffs(x)) == [0, 1, 3, 1]
    assert list(wf.brev(x)) == [0, -(2**31), 0x30000000, -1]


def test_half_turns_are_exact() -> None:
    x = np.array([0.0, 0.5, 1.0, 1.5, 2.0, -0.5, 1e6, 2.0**60, 1e6 + 0.5, 1.7e308])
    assert list(np.asarray(wf.sinpi(wf.asarray(x)))) == [0, 1, 0, -1, 0, -1, 0, 0, 1, 0]
    assert list(np.asarray(wf.cospi(wf.asarray(x)))) == [1, 0, -1, 0, 1, 0, 1, 1, 0, 1]
    assert math.isnan(wf.sinpi(wf.asarray(np.array([np.inf])))[0])
    assert list(np.signbit(wf.sinpi(wf.asarray(np.array([0.0, -0.0]))))) == [False, True]


@pytest.mark.parametrize("name", [*BITS, *FLOATS])
def test_they_reach_ptx(name: str) -> None:
    x = wf.asarray(np.ones(100, np.int32 if name in BITS else np.float32))
    (kernel,) = wf.compile(getattr(wf, name)(x), target="sm_75")
    assert ".extern" not in kernel.ptx
    if name in ("clz", "brev"):
        assert f"{name}.b32" in kernel.ptx
