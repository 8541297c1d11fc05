"""Tests on a real GPU (``pytest -m gpu``): random programs, bit-identical results, repeated plans, memory, and profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from tests.fuzz import layouts, programs, rows
from weft.fusion.run import verification
from weft.runtime import OutOfMemoryError, VerificationError, default_device, override

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")]
N = 1 << 20
RANDOM = np.random.default_rng(3)


# -- random programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 60, 4))
def test_random_programs(seed: int) -> None:
    for k in range(seed, seed + 4):
        assert programs.check(k, device="cuda:0") == ""


@pytest.mark.parametrize("seed", range(500, 508, 2))
def test_random_programs_of_larger_arrays(seed: int) -> None:
    for k in range(seed, seed + 2):
        assert programs.check(k, device="cuda:0", large=True) == ""


@pytest.mark.parametrize("module", [rows, layouts])
@pytest.mark.parametrize("seed", range(0, 20, 4))
def test_random_rows_and_layouts(module: Any, seed: int) -> None:
    for k in range(seed, seed + 4):
        assert module.check(k, devices=("cuda:0",)) == ""


@pytest.mark.parametrize("seed", range(60, 72, 4))
def test_plans_agree_with_interpreted_programs(seed: int) -> None:
    before = verification.VerificationCounts.compared
    with override(verify=True):
        for k in range(seed, seed + 4):
            assert programs.check(k, device="cuda:0") == ""
    assert verification.VerificationCounts.compared > before
    x = wf.asarray(RANDOM.standard_normal(N))
    with (
        override(verify=True, strict=False),
        mock.patch.object(verification, "GPU_UNITS", 0),
        pytest.raises(VerificationError),
    ):
        wf.evaluate(wf.exp(x) * wf.sin(x))


def test_programs_are_interpreted_where_plans_fail() -> None:
    a, b = RANDOM.standard_normal((2, 1300, 40)).astype(np.float32)
    x, y = wf.asarray(a), wf.asarray(b)
    x[3] = 2
    a[3] = 2
    with override(strict=False, cache=False), mock.patch("weft.fusion.run.planning.make_plan", side_effect=IndexError):
        with pytest.warns(wf.OptimizerWarning):
            wf.evaluate(x, z := (x * y).sum(axis=1), w := x[::-1, 1:] - y[:, :-1])
    with override(interpret="always"):
        v = np.asarray(wf.sort(x * 2, axis=1)[5])
    np.testing.assert_allclose(z, (a * b).sum(axis=1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(w, a[::-1, 1:] - b[:, :-1])
    np.testing.assert_array_equal(v, np.sort(a * 2, axis=1)[5])
    np.testing.assert_array_equal(x + 1, a + 1)


IMMEDIATE = 16384


def test_kernels_take_small_arrays_by_value() -> None:
    a, b = np.arange(6.0), np.ones((6, 5000))
    small, large = wf.asarray(a), wf.evaluate(wf.asarray(b))
    before = wf.statistics()
    for k in range(40):
        small[k % 6] = a[k % 6] = k / 3
        large, b = wf.evaluate(large * 0.5 + small[::-1, None]), b * 0.5 + a[::-1, None]
    found = {name: count - before[name] for name, count in wf.statistics().items()}
    assert found["uploaded"] == 0 and found["by_value"] == 40
    np.testing.assert_array_equal(large, b)


# -- bits -----------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x.sum(axis=1),
    "columns": lambda x: x.sum(axis=0),
    "all": lambda x: x.sum(),
    "mean and squares": lambda x: (x.mean(axis=1), (x * x).sum(axis=1)),
    "running": lambda x: wf.cumsum(x, axis=1),
    "running, of all": lambda x: wf.cumsum(x.reshape(-1)),
    "centred": lambda x: x - x.mean(axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(7, 100), (300, 1000), (3, 70_001), (5000, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_folds_have_the_bits_of_the_same_schedule_on_the_cpu(name: str, shape: Any, dtype: Any) -> None:
    values = (RANDOM.random(shape) - 0.5).astype(dtype)
    found, name_of_target = [], default_device().target.name
    for device in ("cuda:0", f"simt:{name_of_target.removeprefix('simt:')}"):
        result = REDUCTIONS[name](wf.asarray(values, device=device))
        found.append([np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_numbers_stay() -> None:
    tiny = np.array([1e-40, -3e-42, 1.5e-45, 2e-38], np.float32)
    np.testing.assert_array_equal((wf.asarray(tiny) * np.float32(0.5)).numpy(), tiny * np.float32(0.5))
    np.testing.assert_array_equal((wf.asarray(tiny) / np.float32(3)).numpy(), tiny / np.float32(3))


# -- repeated plans -------------------------------------------------------------------------------------


def test_a_loop_in_place_and_as_a_graph() -> None:
    x, right = wf.asarray(np.arange(1000.0)), np.arange(1000.0)
    total, wanted = wf.zeros(1), 0.0
    for _ in range(12):
        rest = x.sum() * 1e-6
        x[1:-1] = (x[:-2] + x[2:]) * 0.5
        x += rest
        total += x[::7].max()
        wf.evaluate(x, total)
        rest_np = right.sum() * 1e-6
        right[1:-1] = (right[:-2] + right[2:]) * 0.5
        right += rest_np
        wanted += right[::7].max()
    np.testing.assert_allclose(x.numpy(), right, rtol=1e-12)
    np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-12)


def test_a_graph_with_other_arrays_each_time() -> None:
    kept = []
    for k in range(10):
        x, y = wf.asarray(np.full(3000, float(k))), wf.asarray(np.arange(3000.0).reshape(30, 100))
        results = x.sum(), (y + k).sum(axis=1), (y.T * k).max(), x[::2] + 1
        wf.evaluate(*results)
        kept.append(results)
    plain = np.arange(3000.0).reshape(30, 100)
    for k, (total, sums, most, odd) in enumerate(kept):
        assert float(total) == 3000.0 * k
        np.testing.assert_array_equal(sums.numpy(), (plain + k).sum(axis=1))
        assert float(most) == (plain * k).max()
        assert (odd.numpy() == k + 1).all()


def test_large_transfers_between_kernels() -> None:
    values = RANDOM.random(6 * N)
    for k in range(4):
        x = wf.asarray(values + k)
        y = np.asarray(x * 2)
        np.testing.assert_array_equal(y, (values + k) * 2)
        assert float((x - values - k).max()) < 1e-15 * 8 * (k + 1)


# -- memory ---------------------------------------------------------------------------------------------


def test_no_memory_loses_nothing() -> None:
    x = wf.asarray(np.arange(10.0))
    pending = x + 1
    before = wf.memory.limit(wf.memory.info().held + (64 << 20))
    try:
        with pytest.raises(OutOfMemoryError, match="limit"):
            wf.evaluate(wf.ones(32 * N) * 2)
    finally:
        wf.memory.limit(before)
    assert float(pending.sum()) == 55
    with pytest.raises(OutOfMemoryError, match="no memory for"):
        wf.evaluate(wf.ones(wf.memory.info().total // 4) * 2)
    assert float((wf.ones(8 * N) * 2).sum()) == 16 * N


def test_memory_is_given_back() -> None:
    for _ in range(3):
        x = wf.ones(16 * N) * 2
        assert float(x.sum()) == 32 * N
        del x
    wf.memory.empty()
    assert wf.memory.info().kept == 0


def test_more_elements_than_31_bits_count() -> None:
    count = 2**31 + 7
    if wf.memory.info().free < 5 * count:
        pytest.skip("too little memory")
    x = wf.ones(count, dtype=np.int8)
    x[-3:] = 5
    y = x + x[::-1]
    assert y[:4].numpy().tolist() == [6, 6, 6, 2]
    assert y[-4:].numpy().tolist() == [2, 6, 6, 6]
    assert int(x.sum()) == count + 12
    del x, y
    wf.memory.empty()


# -- profiles -------------------------------------------------------------------------------------------


def test_a_profile() -> None:
    x = wf.asarray(RANDOM.random((1000, 1000)))
    wf.evaluate(x + 1)
    with wf.profile() as p:
        wf.evaluate(wf.exp(x).sum(axis=1), (x.T + 1).max())
    assert p.kernels
    assert all(0 < one.seconds < 1 for one in p.launches)
    assert "exp" in str(p)
