"""Tests of recorded functions that weft composes from other functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(5)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def sample(dtype: str) -> np.ndarray:
    x = (RNG.standard_normal((5, 7)) * 9).astype(dtype)
    if np.dtype(dtype).kind in "fc":
        x[1, 2], x[2, 3], x[3, 1], x[4] = np.nan, np.inf, -np.inf, np.nan
    return x


def as_weft(value: Any) -> Any:
    if isinstance(value, list):
        return [as_weft(v) for v in value]
    return wf.asarray(value) if isinstance(value, np.ndarray) else value


def check(name: str, *given: Any, rounded: float = 0.0, **options: Any) -> None:
    """Assert that weft has NumPy's result, or raises NumPy's exception.

    `rounded` is the relative and absolute tolerance. Without it, elements must be equal.
    """
    try:
        wanted = getattr(np, name)(*given, **options)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(wf, name)(*as_weft(list(given)), **options)
        return
    found = getattr(wf, name)(*as_weft(list(given)), **options)
    pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
    for theirs, mine in pairs:
        theirs, mine = np.asarray(theirs), np.asarray(mine)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape), (name, options)
        if rounded:
            np.testing.assert_allclose(mine, theirs, rtol=rounded, atol=rounded)
        else:
            np.testing.assert_array_equal(mine, theirs)


@pytest.fixture(autouse=True)
def _stays_on_the_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: Any, arguments: Any, options: Any) -> Any:
        raise AssertionError(f"{function.__name__} went by the host")

    if request.node.name != "test_what_is_rare_is_numpys":
        monkeypatch.setattr("weft.dsl.arrays.on_host.to_host", refuse)


DTYPES = pytest.mark.parametrize("dtype", ["f4", "i4"])


@DTYPES
def test_comparing(dtype: str) -> None:
    x = sample(dtype)
    for equal in (False, True):
        check("isclose", x, x[::-1], equal_nan=equal)
        check("allclose", x, x, equal_nan=equal)
        check("array_equal", x, x, equal_nan=equal)
    check("isclose", x, 1.5, rtol=0.1)
    check("isclose", 1.5, x)
    check("array_equal", x, x[:2])


@DTYPES
def test_choosing(dtype: str) -> None:
    x = sample(dtype)
    check("nan_to_num", x)
    check("nan_to_num", x, nan=2, posinf=5.0)
    tests = [x > 1, x < -1]
    check("select", tests, [x, x * 2])
    check("select", tests, [x, 2.5], default=-7)
    check("select", tests, [x, x.astype("f8")])
    check("flatnonzero", x)
    check("argwhere", x)
    check("extract", x > 0, x)
    check("compress", np.array([True, False, True]), x, axis=0)
    check("compress", [1, 0, 1], x)
    a = wf.asarray(x)
    assert wf.nan_to_num(a, copy=False) is a
    np.testing.assert_array_equal(a, np.nan_to_num(x))


@DTYPES
def test_adding_and_leaving_out(dtype: str) -> None:
    x = sample(dtype)
    check("append", x, [1, 2])
    check("append", x, x[:1], axis=0)
    check("append", x, x[:, :3], axis=0)
    for which in (2, -1, [0, 3], slice(1, 4), np.array([True, False, True, False, True]), 9):
        check("delete", x, which, axis=0)
    check("delete", x, 3)


@DTYPES
@pytest.mark.parametrize("axis", [None, 1, (0, 1)])
def test_numbers_among_nans(dtype: str, axis: Any) -> None:
    x = sample(dtype)
    for name in ("nanmean", "nanvar", "nanstd"):
        check(name, x, axis=axis, rounded=1e-5)
        check(name, x, axis=axis, keepdims=True, rounded=1e-5)
    check("nanvar", x, axis=0, ddof=5, rounded=1e-4)
    if axis != (0, 1):
        check("nancumsum", x, axis=axis, rounded=1e-5)
        check("nancumprod", x, axis=axis, rounded=1e-4)


@DTYPES
def test_weighted_means(dtype: str) -> None:
    x, shares = sample(dtype), RNG.random((5, 7))
    for axis in (None, 0):
        check("average", x, axis=axis, weights=shares, rounded=1e-5)
        check("average", x, axis=axis, weights=shares.astype("f4"), returned=True, rounded=1e-5)
        check("average", x, axis=axis, weights=(shares * 5).astype("i4"), rounded=1e-5)
    check("average", x, axis=1, weights=shares[0], rounded=1e-5)
    check("average", x, axis=1, weights=shares * 0)


@DTYPES
def test_differences_and_integrals(dtype: str) -> None:
    x = sample(dtype)
    for order in (1, 2):
        check("gradient", x, edge_order=order)
        check("gradient", x, 0.5, 3, edge_order=order)
        check("gradient", x, np.float64(0.3), axis=0, edge_order=order)
    check("trapezoid", x, rounded=1e-5)
    check("trapezoid", x, np.arange(7.0), rounded=1e-5)
    check("trapezoid", x, dx=0.25, axis=0, rounded=1e-5)
    check("ediff1d", x)
    check("cross", x[:, :3], x[::-1, :3])
    check("cross", x[:3], x[:3], axis=0)
    check("cross", x[:, :3], x[:, 3:6], axisc=0)
    check("angle", x, deg=True, rounded=1e-6)


def test_what_is_rare_is_numpys() -> None:
    x = sample("f4")
    check("gradient", x, np.arange(5.0), axis=0)
    check("gradient", x, 1, 2, 3)
    check("cross", x[:, :4], x[:, :4])
    check("select", [x], [x])
    check("ediff1d", x, to_end=3)
    check("average", x, weights=x[0])


def test_lines_through_points() -> None:
    marks, heights = np.sort(RNG.standard_normal(40)), RNG.standard_normal(40)
    x = np.concatenate([RNG.standard_normal(9000), marks, [np.nan, np.inf, -np.inf]])
    heights[7], heights[20] = np.inf, np.nan
    check("interp", x, marks, heights)
    check("interp", x.astype("f4"), marks, heights.astype("f4"), left=-9, right=7.5)


def test_polynomials_on_a_gpu() -> None:
    with wf.device("simt"):
        for dtype in ("f4", "i4"):
            check("polyval", [0.5, 2.0, 3.0], sample(dtype))
            check("isclose", sample(dtype), sample(dtype))
