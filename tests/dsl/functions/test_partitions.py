"""Tests that medians, quantiles and percentiles of long rows in host memory equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions.partitions import LONG, SAMPLE, _Selecting, with_fast_partitions

N = 2 * LONG + 1
DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "u1", "i1", "?")
CALLS: dict[str, Any] = {
    "median": lambda f, a: f.median(a),
    "median of rows": lambda f, a: f.median(a, axis=-1),
    "median, keepdims": lambda f, a: f.median(a, axis=0, keepdims=True),
    "nanmedian": lambda f, a: f.nanmedian(a),
    "percentile": lambda f, a: f.percentile(a, 30),
    "percentiles of rows": lambda f, a: f.percentile(a, [5, 50, 95, 100], axis=1),
    "quantiles": lambda f, a: f.quantile(a, [0.0, 0.25, 0.250001, 1.0]),
    "quantile, nearest": lambda f, a: f.quantile(a, 0.3, method="nearest"),
    "nanpercentile": lambda f, a: f.nanpercentile(a, 30),
    "nanquantiles of rows": lambda f, a: f.nanquantile(a, [0.1, 0.9], axis=1),
}


def _values(dtype: str, missing: bool = False) -> np.ndarray:
    source = np.random.default_rng(5)
    values = (source.normal(size=(3, N)) * 40).astype("i8" if dtype == "u1" else dtype).astype(dtype)
    if missing:
        values[1, 7] = values[2, 11] = np.nan
    return values


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_and_types_are_numpys(name: str, dtype: str) -> None:
    if dtype == "?" and "quantile" in name.replace("percentile", "quantile"):
        pytest.skip("NumPy does not subtract bools")
    values = _values(dtype)
    wanted, found = CALLS[name](np, values), CALLS[name](wf, wf.asarray(values))
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    assert isinstance(found, wf.Array) if np.ndim(wanted) else type(found) is type(wanted)
    np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("name", CALLS)
def test_missing_values_are_found(name: str) -> None:
    values = _values("f8", missing=True)
    np.testing.assert_array_equal(np.asarray(CALLS[name](wf, wf.asarray(values))), CALLS[name](np, values))


def test_arrays_are_not_changed_and_destinations_are_written_to() -> None:
    values = _values("f8")
    before, out = values.copy(), np.empty(3)
    assert with_fast_partitions(np.median)(values, 1, out) is out
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(out, np.median(values, 1))


@pytest.mark.parametrize("order", ["sorted", "reversed", "constant", "steps"])
def test_rows_in_special_orders(order: str) -> None:
    rows = {
        "sorted": np.arange(N),
        "reversed": np.arange(N)[::-1],
        "constant": np.full(N, 3),
        "steps": np.arange(N) // 1000 % 3,
    }
    for dtype in ("f8", "i4", "u1"):
        values = rows[order].astype(dtype)
        wanted = np.percentile(values, [0, 1, 50, 99.9, 100])
        np.testing.assert_array_equal(with_fast_partitions(np.percentile)(values, [0, 1, 50, 99.9, 100]), wanted)


@pytest.mark.parametrize("ranks", [[0], [N - 1], [0, 1, N - 1], [0, 99, 100, N - 2, N - 1], [-1]])
@pytest.mark.parametrize("missing", [0, 1, N - 1, N])
def test_elements_at_ranks_are_sorted(ranks: list[int], missing: int) -> None:
    values = np.random.default_rng(7).normal(size=N)
    values[:missing] = np.nan
    found = np.random.default_rng(8).permutation(values)
    found.view(_Selecting).partition(ranks)
    np.testing.assert_array_equal(found[ranks], np.sort(values)[ranks])


@pytest.mark.parametrize("shift", [0, 1, -1])
def test_unrepresentative_samples(shift: int) -> None:
    """Test rows whose sample is misleading: the wanted elements are outside the bounds that are estimated from the
    sample.
    """
    values = np.random.default_rng(9).normal(size=8 * SAMPLE + 1)
    values[:: len(values) // SAMPLE] = 100 * shift
    wanted = np.percentile(values, [10, 50, 90])
    np.testing.assert_array_equal(with_fast_partitions(np.percentile)(values, [10, 50, 90]), wanted)


def test_input_is_not_overwritten() -> None:
    values = np.random.default_rng(9).normal(size=N)
    x = wf.asarray(values)
    assert wf.median(x, overwrite_input=True) == np.median(values)
    np.testing.assert_array_equal(np.asarray(x), values)
