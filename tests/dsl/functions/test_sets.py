"""Tests of set functions, such as `unique` and `isin`. Their results must equal NumPy's on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(21)
DEVICES = ["cpu", "simt"]
FIRST, SECOND = RNG.integers(0, 60, 300).astype("i4"), RNG.integers(30, 90, (20, 10)).astype("i4")


def same(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for mine, theirs in pairs:
        np.testing.assert_array_equal(np.asarray(mine), theirs, strict=True)


@pytest.fixture
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield the name of the default device. On "simt", a call of NumPy on the host raises an error."""
    name = request.param
    if name == "simt":

        def refuse(function: Any, arguments: Any, options: Any) -> Any:
            raise AssertionError(f"{function.__name__} went by the host")

        monkeypatch.setattr("weft.dsl.arrays.on_host.to_host", refuse)
    with wf.device(name):
        yield name


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_sets(device: str) -> None:
    a, b = wf.asarray(FIRST), wf.asarray(SECOND)
    for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d"):
        same(getattr(wf, name)(a, b), getattr(np, name)(FIRST, SECOND))
    different, theirs = np.unique(FIRST), np.unique(SECOND)
    for name in ("intersect1d", "setdiff1d"):
        found = getattr(wf, name)(wf.asarray(different), wf.asarray(theirs), assume_unique=True)
        same(found, getattr(np, name)(different, theirs, assume_unique=True))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_who_is_among_others(device: str) -> None:
    x = np.array([1.5, np.nan, -0.0, 2.0, np.inf], "f4")
    for values, others, invert in ((SECOND, FIRST, True), (x, x[:3], False), (FIRST, [3, 7], False)):
        same(wf.isin(wf.asarray(values), others, invert=invert), np.isin(values, others, invert=invert))
    same(wf.isin(wf.asarray(SECOND), wf.asarray(FIRST)), np.isin(SECOND, FIRST))
    same(wf.isin(wf.asarray(FIRST), []), np.isin(FIRST, []))


@pytest.mark.parametrize("code", "?bBhHiIlLqQfd")
def test_different_values_on_the_host_are_numpys(code: str) -> None:
    for size in (0, 3, 255, 2_000):
        x = RNG.integers(-500, 500, (size,)).astype(code)
        for shape in ((size,), (1, size), (size, 1)):
            same(wf.unique(wf.asarray(x.reshape(shape))), np.unique(x))
        same(wf.unique(wf.asarray(x)[::-2]), np.unique(x[::-2]))
        same(np.sort(np.asarray(wf.unique(wf.asarray(x), sorted=False))), np.unique(x))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_different_rows(device: str) -> None:
    x = RNG.integers(0, 3, (40, 2, 2)).astype("i4")
    every = {"return_index": True, "return_inverse": True, "return_counts": True}
    same(wf.unique(wf.asarray(x), axis=0, **every), np.unique(x, axis=0, **every))
    same(wf.unique(wf.asarray(x[:, 0].T), axis=1), np.unique(x[:, 0].T, axis=1))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_different_values_by_the_standards_names(device: str) -> None:
    for name in ("unique_all", "unique_counts"):
        found, wanted = getattr(wf, name)(wf.asarray(SECOND)), getattr(np, name)(SECOND)
        assert type(found) is type(wanted)
        same(tuple(found), tuple(wanted))
    same(wf.sort(wf.unique_values(wf.asarray(FIRST))), np.unique(FIRST))
    z = np.array([1 + 2j, np.nan, 1 - 2j, 1 + 2j, 1j * np.nan], "c8")
    same(wf.unique(wf.asarray(z), return_counts=True), np.unique(z, return_counts=True))


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_positions_among_values_in_order(device: str) -> None:
    marks, values = np.sort(RNG.standard_normal(70)), RNG.standard_normal((5, 9))
    order = RNG.permutation(70)
    mixed = np.empty(70)
    mixed[order] = marks
    a = wf.asarray(marks)
    for v in (0.3, [0.1, -2.0], values, values.astype("f2")):
        for side in ("left", "right"):
            same(np.asarray(wf.searchsorted(a, v, side)), np.asarray(np.searchsorted(marks, v, side)))
    same(
        wf.searchsorted(wf.asarray(mixed), wf.asarray(values), sorter=wf.asarray(order)), np.searchsorted(marks, values)
    )
    u = np.arange(5, dtype="u8") * 2**62
    same(wf.searchsorted(wf.asarray(u), wf.asarray(u)), np.searchsorted(u, u))
    same(wf.digitize(wf.asarray(values.astype("f2")), [0, 1]), np.digitize(values.astype("f2"), [0, 1]))
