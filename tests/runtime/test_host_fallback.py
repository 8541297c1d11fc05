"""Tests of warnings about GPU operations that NumPy computes on the host.

An operation on a source line causes one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import host_fallback, override

CALLS: dict[str, Any] = {
    "numpy.polydiv": lambda x: np.polydiv(x[0], x[0, :3])[1],
    "numpy.linalg.eigvals": lambda x: wf.linalg.eigvals(x),
    "numpy.apply_along_axis": lambda x: np.apply_along_axis(sum, 0, x),
    "add.reduceat": lambda x: wf.add.reduceat(x, [3, 0]),
    "logical_or.at": lambda x: wf.logical_or.at(x, [0, 3], 1.0),
    "negative.at": lambda x: wf.negative.at(x, [0, 3]),
    "einsum": lambda x: wf.einsum("ij,jk->ik", x[:, :1], x),
}


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    wf.set_default_device("simt")
    host_fallback._reported.clear()
    yield
    wf.set_default_device(None)


def make() -> wf.Array:
    return wf.ones((20, 20)) * 2


@pytest.mark.parametrize("name", CALLS)
def test_a_fallback_warns_once_a_line(name: str) -> None:
    x = make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            found = CALLS[name](x)
            if isinstance(found, wf.Array):
                wf.evaluate(found)
    mine = [each for each in caught if issubclass(each.category, wf.HostFallbackWarning)]
    assert len(mine) == 1
    assert name in str(mine[0].message) and "simt" in str(mine[0].message)
    assert mine[0].filename == __file__ and mine[0].lineno == CALLS[name].__code__.co_firstlineno


@pytest.mark.parametrize("name", CALLS)
def test_settings(name: str) -> None:
    x = make()
    with override(host_fallback="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = CALLS[name](x)
        wf.evaluate(*([found] if isinstance(found, wf.Array) else []))
    with override(host_fallback="raise"), pytest.raises(wf.HostFallbackWarning, match="bytes are copied"):
        found = CALLS[name](make())
        wf.evaluate(found)
    np.testing.assert_array_equal(make(), np.full((20, 20), 2.0))


def test_what_runs_on_the_device_is_not_reported() -> None:
    with override(host_fallback="raise"):
        x = make()
        wf.evaluate(wf.sort(x), wf.cumsum(x), x @ x, x[x > 1], wf.argmax(x, 0), wf.median(x))
        assert wf.result_type(x, 1) == np.float64


def test_small_arrays_in_host_memory_are_not_reported() -> None:
    with override(host_fallback="raise", immediate=16384):
        x = wf.asarray([[2.0, 0], [0, 3]])
        if wf.default_device().small_on_host:
            assert sorted(wf.linalg.eigvals(x).real.tolist()) == [2, 3]


def test_the_cpu_has_no_fallbacks() -> None:
    wf.set_default_device("cpu")
    with override(host_fallback="raise"):
        wf.evaluate(np.roots(make()[0]))


def test_a_profile_shows_the_bytes() -> None:
    x = make()
    with override(host_fallback="ignore"), wf.profile() as p:
        wf.evaluate(np.roots(x[0] + 1) * 2)
    notes = [each.note for each in p.launches if "numpy.roots on the host" in each.note.name]
    assert [note.nbytes for note in notes] == [x[0].nbytes]
    (line,) = [line for line in str(p).splitlines() if "numpy.roots on the host" in line]
    assert "160 B" in line
    shown = str(wf.explain(CALLS["einsum"](x)))
    assert "call einsum" in shown and "3.4 kB read" in shown
