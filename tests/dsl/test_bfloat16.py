"""Tests of bfloat16 arrays on the CPU and with GPU schedules.

Results have the dtypes and values of NumPy with ml_dtypes. Sums are computed in float32.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft as wf

ml_dtypes = pytest.importorskip("ml_dtypes")
BRAIN = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(65536, dtype=np.uint16).view(BRAIN)
OTHERS = "?bBhHiIqQefdFD"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXACT = "sqrt reciprocal floor rint absolute negative isnan signbit logical_not"
ROUNDED = "exp log1p sin tanh arctan cbrt"
PAIRS = "add subtract multiply divide maximum minimum fmax fmin copysign fmod floor_divide remainder less equal"
PAIRS += " greater_equal nextafter"


def same(found: Any, wanted: np.ndarray) -> None:
    """Assert that two arrays have the same dtype, shape and bits. All NaNs are treated as equal."""
    found = np.asarray(found)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    x, y = (np.atleast_1d(v if v.dtype.kind == "c" else v.astype(np.float64)) for v in (found, wanted))
    numbers = ~(np.isnan(x) & np.isnan(y))
    np.testing.assert_array_equal(x[numbers].view(np.uint64), y[numbers].view(np.uint64))


def some(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(EVERY)[:n]


def tame(shape: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(BRAIN)


@pytest.mark.parametrize("name", EXACT.split())
def test_exact_functions(name: str) -> None:
    same(getattr(wf, name)(wf.asarray(EVERY)), getattr(np, name)(EVERY))


@pytest.mark.parametrize("name", ROUNDED.split())
def test_functions_are_float32s_rounded(name: str) -> None:
    found = getattr(wf, name)(wf.asarray(EVERY))
    assert found.dtype == getattr(np, name)(EVERY[:1]).dtype == BRAIN
    same(found, np.asarray(getattr(wf, name)(wf.asarray(EVERY.astype(np.float32)))).astype(BRAIN))


@pytest.mark.parametrize("name", PAIRS.split())
def test_pairs(name: str) -> None:
    x, y = some(20_000, 1), some(20_000, 2)
    y[::9] = x[::9]
    same(getattr(wf, name)(wf.asarray(x), wf.asarray(y)), getattr(np, name)(x, y))


@pytest.mark.parametrize("code", OTHERS)
def test_casts(code: str) -> None:
    other = tame(500).astype(code) if code not in "?" else np.arange(500) % 3 == 0
    same(wf.asarray(other).astype(BRAIN), other.astype(BRAIN))
    numbers = np.abs(tame(500, 1))
    same(wf.asarray(numbers).astype(code), numbers.astype(code))


def test_casts_of_what_lies_between() -> None:
    wide = np.random.default_rng(3).normal(0, 1, 5000) * (1 + 2.0**-30)
    same(wf.asarray(wide).astype(BRAIN), wide.astype(BRAIN))
    whole = np.random.default_rng(4).integers(-(2**62), 2**62, 5000)
    same(wf.asarray(whole).astype(BRAIN), whole.astype(BRAIN))


def test_what_no_integer_holds_saturates() -> None:
    x = wf.asarray(np.array([np.nan, np.inf, -np.inf, 300, -300], BRAIN))
    assert x.astype(np.int8).tolist() == [0, 127, -128, 127, -128]
    assert x.astype(np.uint16).tolist() == [0, 65535, 0, 300, 0]


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize(
    "join",
    [lambda m, x, y: x + y, lambda m, x, y: y * x, lambda m, x, y: m.where(x > 1, x, y), lambda m, x, y: x != y],
    ids=["add", "multiply", "where", "unequal"],
)
def test_with_other_dtypes(code: str, join: Any) -> None:
    x, y = tame(64), np.arange(64).astype(code)
    try:
        wanted = join(np, x, y)
    except TypeError:
        with pytest.raises(TypeError):
            join(wf, wf.asarray(x), wf.asarray(y))
        return
    same(join(wf, wf.asarray(x), wf.asarray(y)), wanted)


@pytest.mark.parametrize("number", [2, 1.5, True, 3 - 1j, np.float32(0.1), np.int8(3), ml_dtypes.bfloat16(0.1)])
def test_with_numbers(number: Any) -> None:
    x = tame(40)
    for found, wanted in ((wf.asarray(x) * number, x * number), (number - wf.asarray(x), number - x)):
        same(found, wanted)


def test_numbers_that_change() -> None:
    x = wf.asarray(tame(40))
    for k in range(2, 9):
        same(x * k, np.asarray(x) * k)
        y = wf.zeros(4, BRAIN)
        y[1:] = k / 3
        same(y, np.array([0, k / 3, k / 3, k / 3]).astype(BRAIN))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_folds(axis: Any) -> None:
    x = tame((37, 65), 5)
    a, wide = wf.asarray(x), x.astype(np.float32)
    for name in ("max", "min", "argmax", "argmin", "all", "any"):
        same(getattr(wf, name)(a, axis=axis), np.asarray(getattr(np, name)(x, axis=axis)))
    for name in ("sum", "mean", "var", "std"):
        found = getattr(wf, name)(a, axis=axis)
        assert found.dtype == BRAIN
        near = np.asarray(getattr(np, name)(wide.astype(np.float64), axis=axis))
        np.testing.assert_allclose(np.asarray(found).astype(float), near, rtol=2.0**-8, atol=1e-5)
    with_nan = x.copy()
    with_nan[3, 4] = np.nan
    same(wf.argmax(wf.asarray(with_nan), axis=axis), np.asarray(with_nan.argmax(axis=axis)))


def test_sums_are_float32s() -> None:
    assert float(wf.full(5000, 0.1, BRAIN).sum()) == 500
    assert float(wf.full(5000, 0.1, BRAIN).mean()) == float(np.array(0.1, BRAIN))


def test_running_sums() -> None:
    x = tame((5, 9))
    same(wf.cumsum(wf.asarray(x), axis=1), np.cumsum(x, axis=1))


@pytest.mark.parametrize("form", ["matmul", "dot", "tensordot", "inner", "vdot"])
@pytest.mark.parametrize("n", [3, 40])
def test_products(form: str, n: int) -> None:
    x, y = tame((n, n), 1), tame((n, n), 2)
    axes = (1,) if form == "tensordot" else ()
    found = getattr(wf, form)(wf.asarray(x), wf.asarray(y), *axes)
    wanted = getattr(np, form)(x, y, *axes)
    assert (found.dtype, found.shape) == (wanted.dtype, np.shape(wanted))
    near = getattr(np, form)(x.astype(float), y.astype(float), *axes)
    np.testing.assert_allclose(np.asarray(found).astype(float), near, rtol=2.0**-8, atol=2.0**-8)


def test_einsum_though_numpy_has_none() -> None:
    x = tame((6, 7))
    found = wf.einsum("ij,kj->ik", wf.asarray(x), wf.asarray(x))
    assert found.dtype == BRAIN
    near = x.astype(float) @ x.astype(float).T
    np.testing.assert_allclose(np.asarray(found).astype(float), near, rtol=2.0**-8)


def test_making_and_changing() -> None:
    def program(m: Any) -> list[Any]:
        y = m.zeros((4, 6), BRAIN)
        y[1:3] = 2.5
        y[0] = m.arange(6)
        y[y > 2] = 7
        y += 1
        y[2, 2] = 0.1
        y[3, ::2] = y[0, 3:]
        y[:, [1, 3]] *= 3
        x = m.ones((4, 6), BRAIN)
        joined = m.concatenate([y.T[::-1], m.full((2, 4), 1.5, BRAIN)])
        return [y, m.where(y > 3, y, x), joined, y.reshape(-1)[::5], y.clip(1, 5), m.eye(3, dtype=BRAIN), y**2, y**0.5]

    for found, wanted in zip(program(wf), program(np), strict=True):
        same(found, wanted)


def test_elements() -> None:
    x = wf.asarray([1.5, 2.5], BRAIN)
    assert x[1] == 2.5
    assert x.tolist() == [1.5, 2.5]
    assert isinstance(x[0].item(), float)
    assert repr(x) == repr(np.asarray(x))
    x[0] = 7
    assert x.tolist() == [7, 2.5]
    same(x[0] + x[1], np.array(9.5, BRAIN))


@pytest.mark.parametrize("device", ["simt", "simt::backward"])
def test_schedules_of_a_gpu(device: str) -> None:
    x = tame((33, 70), 7)

    def program(m: Any, a: Any) -> list[Any]:
        return [a * a + a, a.T - 1, a.max(0), m.where(a > 0, a, -a)[::2, 3:], (a[1:] - a[:-1]).min(1)]

    with wf.device(device):
        for found, wanted in zip(program(wf, wf.asarray(x)), program(np, x), strict=True):
            same(found, wanted)
        total = wf.asarray(x).sum(1)
        np.testing.assert_allclose(np.asarray(total).astype(float), x.astype(float).sum(1), rtol=2.0**-8, atol=1e-4)


def test_small_arrays_share_their_memory() -> None:
    with wf.runtime.override(immediate=16384):
        x = wf.asarray(np.array([0, 1, 2, 3], BRAIN))
        wf.add.at(x, np.array([[0], [2]]), 1.0)
        values = np.asarray(x)
        values[0] = 9
        assert [float(each) for each in x] == [9, 1, 3, 3]


def test_one_kernel() -> None:
    x = wf.asarray(tame((64, 256)))
    e = wf.exp(x - x.max(1, keepdims=True))
    assert len(wf.explain(e / e.sum(1, keepdims=True)).kernels) == 1


def test_refused() -> None:
    with pytest.raises(TypeError, match="left_shift"):
        wf.asarray(tame(3)) << 1


@pytest.mark.parametrize("kind", ["u1", "i4", "i8", "f4", BRAIN])
@pytest.mark.parametrize("low", [3.5, 3, np.float32(3)])
def test_bounds_of_clip(kind: Any, low: Any) -> None:
    x, high = np.arange(6).astype(kind), np.array(4, BRAIN)
    same(wf.clip(wf.asarray(x), low, wf.asarray(high)), np.clip(x, low, high))


def test_weft_does_not_load_ml_dtypes() -> None:
    code = "import sys, weft as wf; float((wf.arange(5) * 2.5).sum()); assert 'ml_dtypes' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_computes_with_other_small_floats() -> None:
    x, other = tame(3), np.arange(3, dtype=np.float16).view(ml_dtypes.float8_e5m2)[:3]
    found, expected = wf.asarray(x) + other, x + other
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
