"""Tests that histograms, counts and insertion indices have NumPy's values on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(6)
DEVICES = ["cpu", "simt"]
BINS: list[Any] = [10, 257, [-20.0, -3, 0, 0.5, 7, 60], [-5, 0, 5]]


def same(found: Any, wanted: Any, **bounds: float) -> None:
    """Assert that two arrays, or two tuples of arrays, are equal. With tolerances in `bounds`, the arrays only have to be close."""
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for mine, theirs in pairs:
        assert isinstance(mine, wf.Array)
        if bounds:
            np.testing.assert_allclose(np.asarray(mine), theirs, **bounds)
        else:
            np.testing.assert_array_equal(np.asarray(mine), theirs, strict=True)


def sample(dtype: Any, size: int = 9001) -> np.ndarray:
    values = (RNG.standard_normal(size) * 30).astype(dtype)
    values[::50] = np.round(values[::50])
    return values


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
def test_values_are_counted_by_bins(dtype: Any, device: str) -> None:
    x, weights = sample(dtype), RNG.integers(-9, 9, 9001)
    with wf.device(device):
        a, w = wf.asarray(x), wf.asarray(weights)
        for bins in BINS:
            same(np.histogram(a, bins), np.histogram(x, bins))
            same(np.histogram(a, bins, weights=w), np.histogram(x, bins, weights=weights))
            same(np.histogram(a, bins, density=True), np.histogram(x, bins, density=True), rtol=1e-12)
        same(np.histogram(a, 33, (-10, 10)), np.histogram(x, 33, (-10, 10)))


@pytest.mark.parametrize("device", DEVICES)
def test_bins_and_bounds_may_be_pending(device: str) -> None:
    x = sample(np.float64)
    edges = np.array([-20.0, 0, 7])
    with wf.device(device):
        a = wf.asarray(x)
        same(wf.histogram(a, 10, (a.min(), a.max())), np.histogram(x, 10, (x.min(), x.max())))
        same(wf.histogram(a, wf.asarray(edges) + 1), np.histogram(x, edges + 1))
        same(wf.histogram2d(a, a, [wf.asarray(edges), 3]), np.histogram2d(x, x, [edges, 3]))
        same(
            wf.histogram2d(a, a, 4, [[a.min(), 1], [-1, a.max()]]),
            np.histogram2d(x, x, 4, [[x.min(), 1], [-1, x.max()]]),
        )
        same(wf.round(a, wf.arange(3)[2]), np.round(x, 2))


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_number_is_in_no_bin(device: str) -> None:
    x = sample(np.float64)
    x[::7] = np.nan
    x[1] = np.inf
    with wf.device(device):
        same(np.histogram(wf.asarray(x), 9, (-1, 1)), np.histogram(x, 9, (-1, 1)))
        same(np.histogram(wf.asarray(x), [-1.0, 0.5, 3]), np.histogram(x, [-1.0, 0.5, 3]))
        for wrong in (lambda a: np.histogram(a, 9), lambda a: np.histogram(a, -1), lambda a: np.histogram(a, [3, 1])):
            with pytest.raises(ValueError, match="finite|positive|monotonically"):
                wrong(wf.asarray(x))


@pytest.mark.parametrize("device", DEVICES)
def test_points_are_counted_by_cells(device: str) -> None:
    x, y, w = sample(np.float32), sample(np.float32) / 3, RNG.standard_normal(9001).astype(np.float32)
    with wf.device(device):
        a, b = wf.asarray(x), wf.asarray(y)
        for bins in (20, [20, [-3.0, 0, 5]]):
            same(np.histogram2d(a, b, bins), np.histogram2d(x, y, bins))
        options: dict[str, Any] = {"range": [[-9, 9], [-3, 3]], "density": True}
        same(np.histogram2d(a, b, 5, **options), np.histogram2d(x, y, 5, **options), rtol=1e-12)
        weighed = np.histogram2d(a, b, 8, weights=wf.asarray(w)), np.histogram2d(x, y, 8, weights=w)
        same(*weighed, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [9001, 140_003])
def test_numbers_are_counted(size: int, device: str) -> None:
    x, w = RNG.integers(0, 99, size), RNG.standard_normal(size).astype(np.float32)
    with wf.device(device):
        a = wf.asarray(x)
        same(np.bincount(a), np.bincount(x))
        same(np.bincount(a, minlength=200), np.bincount(x, minlength=200))
        same(np.bincount(a, wf.asarray(x)), np.bincount(x, x))
        same(np.bincount(a, wf.asarray(w), 300), np.bincount(x, w, 300), rtol=1e-9, atol=1e-9)
        with pytest.raises(ValueError, match="negative"):
            np.bincount(a - 5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_positions_among_sorted_values(dtype: Any, device: str) -> None:
    x = sample(dtype)
    marks = np.sort(sample(dtype, 301))
    if np.dtype(dtype).kind == "f":
        x[::7], marks[-3:] = np.nan, np.nan
    with wf.device(device):
        for side in ("left", "right"):
            same(np.searchsorted(wf.asarray(marks), wf.asarray(x), side), np.searchsorted(marks, x, side))  # type: ignore[call-overload]
            same(np.searchsorted([1, 2, 2, 5], wf.asarray(x), side), np.searchsorted([1, 2, 2, 5], x, side))  # type: ignore[call-overload]
        for bins in ([-3, 0, 2.5, 8], [8, 2.5, 0, -3]):
            for right in (False, True):
                same(np.digitize(wf.asarray(x), bins, right), np.digitize(x, bins, right))
        with pytest.raises(ValueError, match="monotonically"):
            np.digitize(wf.asarray(x), [1, 3, 2])


@pytest.mark.parametrize("device", DEVICES)
def test_numbers_with_known_bounds_are_not_looked_at(device: str) -> None:
    x = sample(np.float32)
    x[:3] = np.nan, np.inf, -np.inf
    with wf.device(device):
        index = np.clip(wf.asarray(x) * 2, 0.0, 63.0).astype(np.int32)
        found = np.bincount(index, minlength=64)
        assert found._storage.buffer is None  # type: ignore[attr-defined]
        assert index._storage.buffer is None
        same(found, np.bincount(np.asarray(index), minlength=64))
