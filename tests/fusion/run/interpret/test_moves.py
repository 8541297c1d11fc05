"""Tests that interpreted gathers and scatters have the results of NumPy and of compiled plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

RNG = np.random.default_rng(0)
X = RNG.random((40, 30, 20))
A, B = RNG.integers(0, 30, (7, 5)), RNG.integers(0, 20, (7, 1))
V = RNG.random((7, 5))


def _written(x: Any, key: Any, value: Any) -> Any:
    x = x * 1
    x[key] = value
    return x


def _added(xp: Any, x: Any, key: Any, value: Any) -> Any:
    x = x * 1
    xp.add.at(x, key, value)
    return x


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "two arrays": lambda xp, x: x[3][A, B],
    "axes apart": lambda xp, x: x[A, :, B],
    "whole axes": lambda xp, x: x[:, A % 30, B],
    "grid": lambda xp, x: x[np.ix_([1, 5, 9], [2, 2], [3, 0, 1, 19])],
    "transposed": lambda xp, x: x.T[B, A],
    "reversed": lambda xp, x: x[::-1, ::2][A, :, B],
    "negative": lambda xp, x: x[0][-1 - A, -1 - B],
    "set": lambda xp, x: _written(x, (slice(None), A, B), V[::-1]),
    "set one value": lambda xp, x: _written(x, (A, B), 7),
    "set to another dtype": lambda xp, x: _written(x, (A, B), np.arange(20)),
    "add": lambda xp, x: _added(xp, x, (5, A, B), V),
    "add one value": lambda xp, x: _added(xp, x, (A, slice(None), B), 2),
    "maximum": lambda xp, x: xp.maximum.reduce(x[A, B], axis=0),
    "bincount": lambda xp, x: xp.bincount(xp.ravel(x * 20).astype(int), weights=xp.ravel(x)),
    "histogram": lambda xp, x: xp.histogram(x, bins=7, range=(0, 1), weights=x)[0],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["always", "never"])
def test_moves(name: str, mode: str) -> None:
    expected = CASES[name](np, X)
    with override(interpret=mode, immediate=0):
        found = np.asarray(CASES[name](wf, wf.asarray(X)))
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint64", "int32"])
@pytest.mark.parametrize("count", [100_000, 262_144])
def test_weights_are_added_in_order(count: int, dtype: str) -> None:
    x, weights = (
        RNG.integers(0, 16, count),
        (RNG.random(count) * 2.0**30 + 2.0**62 * (dtype[-2:] == "64")).astype(dtype),
    )
    expected = np.bincount(x, weights=weights)
    for limit in (16384, 0):
        for mode in ("always", "never"):
            for given in (weights, wf.asarray(weights)):
                with override(interpret=mode, immediate=limit):
                    found = np.asarray(wf.bincount(wf.asarray(x), weights=given))
                np.testing.assert_array_equal(found, expected)


def test_scatters_of_bfloat16_need_a_kernel() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for mode in ("always", "auto", "never"):
        with override(interpret=mode, immediate=0):
            total = wf.asarray(np.zeros(100, bfloat16)) * 1
            wf.add.at(total, wf.asarray(np.arange(100)), wf.asarray(np.ones(100, bfloat16)))
            assert (np.asarray(total) == 1).all()


def test_masks_of_numbers() -> None:
    x = np.array(1.5, np.float16)
    with wf.device("simt"), override(verify=True, immediate=100):
        y = wf.asarray(x)
        for mask in (y > 1, y > 2):
            np.testing.assert_array_equal(np.asarray(y[mask]), x[np.asarray(mask)], strict=True)
