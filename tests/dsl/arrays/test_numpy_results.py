"""Tests of the memory layout of results that NumPy computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.numpy_results import adopt_result
from weft.dsl.immediate.native_immediate import install_native_code
from weft.runtime import get_device

IMMEDIATE = 1 << 14
CUBE = np.arange(24.0).reshape(2, 3, 4)
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "copy": lambda xp, a: xp.copy(a),
    "sort": lambda xp, a: xp.sort(a, 1),
    "cumsum": lambda xp, a: xp.cumsum(a, 0),
    "sum": lambda xp, a: a.sum(1),
    "roll": lambda xp, a: xp.roll(a, 1),
    "add": lambda xp, a: a + 1,
    "where": lambda xp, a: xp.where(a > 1, a, 0),
    "written": lambda xp, a: xp.copy(a).__iadd__(a)[1:],
}


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", CALLS)
def test_strides(name: str, device: str) -> None:
    install_native_code()  # (native code calls NumPy for functions that Python would record)
    theirs = CALLS[name](np, CUBE[:, ::2].swapaxes(0, 1))
    with wf.device(device):
        ours = CALLS[name](wf, wf.array(CUBE)[:, ::2].swapaxes(0, 1))
        assert ours.strides == theirs.strides
        np.testing.assert_array_equal(np.asarray(ours), theirs)
        np.testing.assert_array_equal(np.asarray(ours * 2 + wf.ones(ours.shape)), theirs * 2 + 1)


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_memory_that_something_else_refers_to(device: str) -> None:
    base = CUBE.copy()
    others = [base]
    result = adopt_result(base.transpose(2, 0, 1), get_device(device))
    assert result.strides == base.transpose(2, 0, 1).strides
    others[0][:] = 0
    np.testing.assert_array_equal(np.asarray(result), CUBE.transpose(2, 0, 1))


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_gaps_are_left_out(device: str) -> None:
    base = CUBE.copy()
    result = adopt_result(base[:, ::2].T, get_device(device))
    assert result.strides == (32, 16, 8)
    np.testing.assert_array_equal(np.asarray(result), CUBE[:, ::2].T)
