"""Tests of sorts on a GPU, where concurrent blocks wait for one another."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(12)
SMALL = {"u1": (4097,), "f4": (2100,), "i8": (600,)}  # sizes on the stand-in


def few(request: pytest.FixtureRequest, large: int, small: int) -> int:
    """Return `small` if the tests run on the stand-in driver, a slow interpreter of PTX. Otherwise return `large`."""
    return small if request.config.getoption("--stand-in") else large


@pytest.mark.parametrize("dtype", ["u1", "f4", "i8"])
def test_long_rows(dtype: str, request: pytest.FixtureRequest) -> None:
    for n in (4097, 10_000_003) if not request.config.getoption("--stand-in") else SMALL[dtype]:
        x = RNG.integers(0, 100, n).astype(dtype)
        if dtype == "f4":
            x[::7], x[::5] = np.nan, -0.0
        wanted = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(np.asarray(wf.argsort(wf.asarray(x))), wanted)
        assert np.asarray(wf.sort(wf.asarray(x))).tobytes() == x[wanted].tobytes()


def test_many_rows(request: pytest.FixtureRequest) -> None:
    for shape in ((few(request, 100_000, 50), 9), (few(request, 500, 2), few(request, 3000, 300))):
        x = RNG.standard_normal(shape).astype("f4")
        np.testing.assert_array_equal(np.asarray(wf.sort(wf.asarray(x))), np.sort(x))
        np.testing.assert_array_equal(np.asarray(wf.argsort(wf.asarray(x), 0)), np.argsort(x, 0, "stable"))


def test_the_same_indices_many_times(request: pytest.FixtureRequest) -> None:
    x = wf.asarray(RNG.integers(0, 9, few(request, 5_000_000, 4200)).astype("u1"))
    wanted = np.argsort(np.asarray(x), kind="stable")
    for _ in range(few(request, 50, 2)):
        np.testing.assert_array_equal(np.asarray(wf.argsort(x)), wanted)


def test_different_values(request: pytest.FixtureRequest) -> None:
    x = RNG.integers(0, 1000, few(request, 3_000_000, 600)).astype("i4")
    options = {"return_index": True, "return_inverse": True, "return_counts": True}
    for mine, theirs in zip(wf.unique(wf.asarray(x), **options), np.unique(x, **options), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), theirs)
