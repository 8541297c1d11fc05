"""Tests of scatters with repeated indices, and of the bounds of indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import resolve_target
from weft.fusion import kernels_of

RNG = np.random.default_rng(5)
DEVICES = ["cpu", "simt"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("size", "length"), [(31, 5), (2000, 30), (140_003, 300)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("op", ["add", "subtract"])
def test_sums_of_floats_are_as_exact_as_in_order(size: int, length: int, dtype: Any, op: str, device: str) -> None:
    where = RNG.integers(-length, length, size)
    values = (RNG.standard_normal(size) * 10.0 ** RNG.integers(-3, 3, size)).astype(dtype)
    start = RNG.standard_normal(length).astype(dtype)
    wanted = start.astype(np.longdouble)
    getattr(np, op).at(wanted, where, values.astype(np.longdouble))
    bound = np.abs(wanted).astype(np.float64)
    np.add.at(bound, where, np.abs(values).astype(np.float64))
    folded = np.bincount(where % length, minlength=length)
    with wf.device(device):
        found = wf.asarray(start)
        getattr(np, op).at(found, wf.asarray(where), wf.asarray(values))
        again = wf.asarray(start)
        getattr(np, op).at(again, wf.asarray(where), wf.asarray(values))
        assert np.asarray(found).tobytes() == np.asarray(again).tobytes()
        error = np.abs(np.asarray(found).astype(np.longdouble) - wanted)
    steps = 1 + (folded if device == "cpu" else 0)  # on a GPU, only the last step is rounded
    assert np.all(error <= np.finfo(dtype).eps * steps * bound)


def test_on_a_gpu_the_order_of_floats_does_not_show() -> None:
    values = (RNG.standard_normal(5000) * 2.0 ** RNG.integers(-40, 40, 5000)).astype(np.float64)
    where, order = RNG.integers(0, 7, 5000), RNG.permutation(5000)
    with wf.device("simt"):
        sums = []
        for turn in (np.arange(5000), order):
            found = wf.zeros(7)
            np.add.at(found, wf.asarray(where[turn]), wf.asarray(values[turn]))
            sums.append(np.asarray(found).tobytes())
    assert sums[0] == sums[1]


@pytest.mark.parametrize("device", DEVICES)
def test_special_numbers_meet(device: str) -> None:
    inf, nan = np.inf, np.nan
    values = np.tile(np.array([inf, 1, -inf, 2, nan, inf, -inf, 2.0**1000, 5e-324, -0.0, inf, inf]), 10)
    where = np.tile(np.array([0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 7]), 10)
    wanted, start = np.zeros(9), np.array([0.0] * 8 + [-0.0])
    with np.errstate(invalid="ignore"):
        np.add.at(wanted, where, values)
    with wf.device(device):
        found = wf.asarray(start)
        np.add.at(found, wf.asarray(where), wf.asarray(values))
        np.testing.assert_array_equal(np.asarray(found), wanted)
        assert np.signbit(np.asarray(found)[8])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", ["add", "minimum", "bitwise_xor"])
def test_integers_meet_in_windows(op: str, device: str) -> None:
    x = RNG.integers(-9, 9, (40, 6))
    where, values = RNG.integers(0, 40, 70_000), RNG.integers(-9, 9, (70_000, 2))
    wanted = x.copy()
    getattr(np, op).at(wanted, (where, slice(1, 5, 2)), values)
    with wf.device(device):
        found = wf.asarray(x)
        getattr(np, op).at(found, (wf.asarray(where), slice(1, 5, 2)), wf.asarray(values))
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [10, 3000])
def test_the_last_value_of_an_index_stays(size: int, device: str) -> None:
    x = RNG.standard_normal((50, 6)).astype(np.float32)
    where, values = RNG.integers(-50, 50, size), RNG.standard_normal((size, 2)).astype(np.float32)
    wanted = x.copy()
    wanted[where, 1:5:2] = values
    wanted[where[::2], 0] = 7
    with wf.device(device):
        found = wf.asarray(x)
        found[wf.asarray(where), 1:5:2] = wf.asarray(values)
        found[wf.asarray(where)[::2], 0] = 7
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_on_a_gpu_no_thread_writes_alone() -> None:
    where, values = wf.asarray(RNG.integers(0, 50, 3000)), wf.asarray(RNG.standard_normal(3000))
    with wf.device("simt"):
        where, values = (wf.asarray(np.asarray(each)) for each in (where, values))
        x, y, z = wf.zeros(50), wf.zeros(50), wf.zeros(50)
        x[where] = values
        y[where] = 1
        np.add.at(z, where, values)
        for result in (x, y, z):
            for kernel in kernels_of([result._storage], resolve_target("sm_90")):
                assert not any(o.opcode == "for" and o.attributes["role"] == "serial" for o in kernel.walk())


@pytest.mark.parametrize("device", DEVICES)
def test_bounds_of_indices_in_memory_are_found_where_they_are(device: str) -> None:
    x, where = RNG.standard_normal(70_000), RNG.integers(-70_000, 70_000, (200, 200))
    with wf.device(device):
        values = wf.asarray(x)
        np.testing.assert_array_equal(np.asarray(values[wf.asarray(where)]), x[where])
        np.testing.assert_array_equal(np.asarray(values[wf.asarray(where.astype(np.int8))]), x[where.astype(np.int8)])
        for wrong in (70_000, -70_001):
            where[7, 9] = wrong
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 70000"):
                values[wf.asarray(where)]


@pytest.mark.cpu
def test_bounds_of_indices_in_host_memory_take_no_kernel() -> None:
    where, values = RNG.integers(-500, 500, 120_000), RNG.standard_normal(500)
    indices, x = wf.asarray(where), wf.asarray(values)
    before = wf.statistics()["kernels"]
    taken = x[indices]
    assert wf.statistics()["kernels"] == before
    np.testing.assert_array_equal(taken, values[where])
    where[70_000] = 500
    with pytest.raises(IndexError, match="index 500 is out of bounds for axis 0 with size 500"):
        x[wf.asarray(where)]
