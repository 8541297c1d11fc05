"""Tests of medians, quantiles and percentiles with GPU schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.functions.quantiles import _METHODS

RNG = np.random.default_rng(3)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def sample(dtype: str) -> np.ndarray:
    """Return four random rows. For float dtypes, three of them have infinities or NaNs."""
    x = (RNG.standard_normal((4, 33)) * 50).astype(dtype)
    if dtype[0] == "f":
        x[1, ::3], x[2], x[0, 3] = np.nan, np.nan, np.inf
    return x


def check(name: str, x: np.ndarray, *options: Any, **named: Any) -> None:
    wanted = np.asarray(getattr(np, name)(x, *options, **named))
    found = np.asarray(getattr(wf, name)(wf.asarray(x), *options, **named))
    np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.fixture(autouse=True)
def _stays_on_the_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    def refuse(function: Any, arguments: Any, options: Any) -> Any:
        raise AssertionError(f"{function.__name__} went by the host")

    monkeypatch.setattr("weft.dsl.arrays.on_host.to_host", refuse)
    with wf.device("simt"):
        yield


@pytest.mark.parametrize("method", sorted(_METHODS))
def test_every_method(method: str) -> None:
    x = sample("f4")
    for name in ("quantile", "nanquantile"):
        check(name, x, np.array([[0, 0.5], [0.25, 1]]), axis=1, method=method)


@pytest.mark.parametrize("dtype", ["f2", "i4"])
def test_dtypes_follow_from_the_shares(dtype: str) -> None:
    x = sample(dtype)
    for q in (0.3, 1, np.array([0.2, 0.3], "f4")):
        for name in ("quantile", "nanquantile"):
            check(name, x, q, axis=1)


def test_shares_may_be_arrays_of_weft_or_bools() -> None:
    x = sample("i4")
    for name, q in (
        ("percentile", np.array([5, 50], "f4")),
        ("nanpercentile", np.array(30)),
        ("quantile", np.array(0.3)),
    ):
        check(name, x, q, axis=0, method="hazen")
        wanted = np.asarray(getattr(np, name)(x, q, axis=0))
        np.testing.assert_array_equal(getattr(wf, name)(wf.asarray(x), wf.asarray(q), axis=0), wanted, strict=True)
    check("nanquantile", x, True, method="weibull")


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_axes_are_kept_and_shares_come_first(axis: Any) -> None:
    x = sample("f4")
    for name in ("percentile", "nanpercentile"):
        check(name, x, 30, axis=axis)
        check(name, x, [5, 50.0], axis=axis, keepdims=True)
    for name in ("median", "nanmedian"):
        check(name, x, axis=axis, keepdims=True)


def test_out_and_what_is_no_share() -> None:
    x = sample("f4")
    out = wf.zeros(33, "f4")
    assert wf.percentile(wf.asarray(x), 40, axis=0, out=out) is out
    np.testing.assert_array_equal(out, np.percentile(x, 40, axis=0).astype("f4"))
    for wrong in (lambda a: wf.quantile(a, 2.0), lambda a: wf.percentile(a, [3, -1])):
        with pytest.raises(ValueError, match="range"):
            wrong(wf.asarray(x))


def test_bools_and_complex_numbers_have_medians() -> None:
    x = sample("f4")[3]
    check("median", x > 0)
    check("median", x + 1j * x[::-1])
