"""Tests of shifted moments, such as variances.

Shifted moments are sums over differences from a mean or a maximum. The values are accurate, and the bits are
reproducible.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import kernels_of, reset_statistics, statistics

RNG = np.random.default_rng(11)
DEVICES = ("cpu", "simt")
LONG = 100_003  # several blocks of 16,384, and a partial block

SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "variance": lambda xp, x: x.var(),
    "deviation": lambda xp, x: x.std(ddof=1),
    "written by hand": lambda xp, x: ((x - x.mean()) ** 2).mean(),
    "the other way round": lambda xp, x: xp.square(x.mean() - x).sum(),
    "a product": lambda xp, x: (
        (x - x.mean()).dot(x - x.mean()) if xp is np else ((x - x.mean()) * (x - x.mean())).sum()
    ),
    "of a map": lambda xp, x: (2 * x + 1).var(),
    "exponentials": lambda xp, x: xp.exp(x - x.max()).sum(),
    "powers of two": lambda xp, x: xp.exp2(x - x.max()).sum(),
    "logarithm": lambda xp, x: xp.log(xp.exp(x - x.max()).sum()) + x.max(),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SUMS)
def test_one_kernel_reads_once(device: str, name: str) -> None:
    values = (RNG.standard_normal(LONG) + 3).astype(np.float32)
    with wf.device(device):
        x = wf.asarray(values)
        reset_statistics()
        found = float(SUMS[name](wf, x))
        counted = statistics()
    assert counted["bytes"] <= values.nbytes * 1.01  # including the partial results
    assert len(wf.explain(SUMS[name](wf, wf.asarray(values))).kernels) == 1
    assert found == pytest.approx(SUMS[name](np, values.astype(np.float64)), rel=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 40_001), 1), ((40_001, 3), 0), ((2, 200, 300), (1, 2)), ((200, 300, 2), (0, 1)), ((3, 50_000), None)],
)
def test_rows_and_columns(device: str, shape: tuple[int, ...], axis: Any) -> None:
    values = RNG.standard_normal(shape).astype(np.float32) + np.arange(shape[-1], dtype=np.float32) % 7
    wide = values.astype(np.float64)
    with wf.device(device):
        x = wf.asarray(values)
        np.testing.assert_allclose(x.var(axis=axis), wide.var(axis=axis), rtol=2e-6)
        e = wf.exp(x - x.max(axis=axis, keepdims=True))
        want = np.exp(wide - wide.max(axis=axis, keepdims=True))
        np.testing.assert_allclose(e.sum(axis=axis), want.sum(axis=axis), rtol=2e-6)
        np.testing.assert_allclose(
            e / e.sum(axis=axis, keepdims=True), want / want.sum(axis=axis, keepdims=True), rtol=5e-6
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(1500, 70), (600, 1000), (5000, 3), (20_001, 64)])
def test_columns_are_gone_down_in_bands(device: str, shape: tuple[int, ...]) -> None:
    values = RNG.standard_normal(shape).astype(np.float32) + 3
    wide = values.astype(np.float64)
    with wf.device(device):
        x = wf.asarray(values)
        assert len(wf.explain(x.var(axis=0)).kernels) == 1
        alone, total = np.asarray(x.var(axis=0)), np.asarray(x.sum(axis=0))
        np.testing.assert_allclose(alone, wide.var(axis=0), rtol=3e-6)
        np.testing.assert_allclose(total, wide.sum(axis=0), rtol=2e-6)
        x = wf.asarray(values)
        together = x.sum(axis=0), x.var(axis=0), x.max(axis=0), (x * x).sum(axis=0)
        wf.evaluate(*together)
        np.testing.assert_array_equal(together[0], total)
        np.testing.assert_array_equal(together[1], alone)
        np.testing.assert_array_equal(together[2], values.max(axis=0))
        z = (x - x.mean(axis=0)) / x.std(axis=0)
        np.testing.assert_allclose(z, (wide - wide.mean(axis=0)) / wide.std(axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_far_from_zero_it_is_as_good_as_numpys(device: str) -> None:
    whole = np.rint(RNG.standard_normal(1 << 17) * 100).astype(np.int64)
    values = (8_000_000 + whole).astype(np.float32)
    total, squares, count = int(whole.sum()), int((whole * whole).sum()), whole.size
    exact = float(Fraction(squares * count - total * total, count * count))
    with wf.device(device):
        error = abs(float(wf.asarray(values).var()) - exact)
    assert error < 5e-6 * exact  # NumPy's error is up to five times larger, since it rounds the mean to float32


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_in_any_company(device: str) -> None:
    values = RNG.standard_normal(LONG).astype(np.float32) + 2
    with wf.device(device):
        alone = float(wf.asarray(values).var())
        x = wf.asarray(values)
        mean, top, spread = x.mean(), x.max(), x.var()
        wf.evaluate(mean, top, spread)
        assert float(spread) == alone
        assert float(mean) == float(wf.asarray(values).mean())
        assert float(top) == values.max()
        y = wf.asarray(values)
        known = y.mean()
        large = y * 2  # keeps the recording open
        later = y.var()
        assert float(known) == float(mean)
        assert float(later) == alone
        np.testing.assert_array_equal(large, values * 2)
        padded = wf.asarray(np.concatenate([values[:1], values]))[1:]  # not aligned
        assert float(padded.var()) == alone


def test_a_mean_that_is_known_is_found_again_part_by_part() -> None:
    values = RNG.standard_normal(LONG).astype(np.float32) + 2
    x = wf.asarray(values)
    mean = x.mean()
    later = [(x * k).var() for k in range(33)]  # more than are computed together with a requested value
    last = x.var()
    assert float(mean) == pytest.approx(values.mean(), rel=1e-5)
    assert float(last) == float(wf.asarray(values).var())
    assert float(later[0]) == pytest.approx(0)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_finite(device: str) -> None:
    def total(values: np.ndarray) -> float:
        x = wf.asarray(values)
        return float(wf.exp(x - x.max()).sum())

    values = RNG.standard_normal(LONG).astype(np.float32)
    values[:40_000] = -np.inf  # all elements of some blocks
    with wf.device(device), np.errstate(all="ignore"):
        assert total(values) == pytest.approx(np.exp(values.astype(float) - values.max()).sum(), rel=1e-6)
        assert np.isnan(total(np.full(LONG, -np.inf, np.float32)))
        for number in (np.inf, np.nan):
            values[77_777] = number
            assert np.isnan(total(values))
            assert np.isnan(float(wf.asarray(values).var()))


def test_what_only_looks_like_it() -> None:
    """Test sums that resemble shifted moments, but have other divisors, elements or axes."""
    values = RNG.standard_normal((300, 300)).astype(np.float32)
    x, wide = wf.asarray(values), values.astype(np.float64)
    halves = x.reshape(2, 45_000)
    wide_halves = wide.reshape(2, 45_000)
    for found, want in [
        (((x - x.sum() / 89_999) ** 2).sum(), ((wide - wide.sum() / 89_999) ** 2).sum()),
        (((x - x.T.mean()) ** 2).sum(), ((wide - wide.mean()) ** 2).sum()),
        (((x - (x + 1).mean()) ** 2).sum(), ((wide - (wide + 1).mean()) ** 2).sum()),
        (wf.exp(x - x.min()).sum(), np.exp(wide - wide.min()).sum()),
        (wf.exp(x.max() - x).sum(), np.exp(wide.max() - wide).sum()),
        (((x - x.mean(axis=1)) ** 2).sum(), ((wide - wide.mean(axis=1)) ** 2).sum()),
        (
            ((halves - halves[::-1].mean(axis=1)[:, None]) ** 2).sum(1),
            ((wide_halves - wide_halves[::-1].mean(axis=1)[:, None]) ** 2).sum(1),
        ),
    ]:
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)


def test_a_gpu_block_keeps_its_elements() -> None:
    from weft.codegen import resolve_target

    x = wf.asarray(np.zeros(1 << 20, np.float32))
    (kernel,) = kernels_of([x.var()._storage], resolve_target("sm_90"))
    assert kernel.attributes["schedule"].kept == 8
    (kernel,) = kernels_of([x.sum()._storage], resolve_target("sm_90"))
    assert not kernel.attributes["schedule"].kept


def test_soft_maximum_of_a_long_row_reads_twice() -> None:
    def soft_maximum(x: wf.Array) -> wf.Array:
        e = wf.exp(x - x.max())
        return e / e.sum()

    x = wf.asarray(np.zeros(1 << 18, np.float32))
    found = wf.explain(soft_maximum(x))
    assert len(found.kernels) == 2
    assert sum(k.bytes_read for k in found.kernels) <= 2 * x.nbytes + 64
    np.testing.assert_array_equal(soft_maximum(x), np.full(1 << 18, 0.5**18, np.float32))


def test_elements_that_are_all_alike_have_no_variance() -> None:
    for number in (0.1, -3e-20, 16_777_217.0):
        x = wf.asarray(np.full(LONG, number, np.float32))
        assert 0 <= float(x.std()) <= abs(number) * 1e-7
