"""Tests of functions and classes of NumPy that compute with weft arrays on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.script.script_namespace import script_module

KINDS = ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"]


def steps(xp: Any, kind: str) -> list[Any]:
    series = getattr(xp.polynomial, kind)
    p = series([1.0, 2.0, 3.0])
    x = xp.asarray([[0.5, 1.0], [2.0, -1.0]])
    fitted = series.fit(xp.arange(5.0), xp.arange(5.0) ** 2, 2)
    values = [p(x), (p * p - p + 2)(x), p.deriv()(x), fitted(x)]
    return [*values, p.integ().coef, series.basis(2).coef, (p // series([1.0, 1.0])).coef, p.roots()]


@pytest.mark.parametrize("kind", KINDS)
def test_series(kind: str) -> None:
    for ours, theirs in zip(steps(wf, kind), steps(np, kind), strict=True):
        assert isinstance(ours, wf.Array)
        np.testing.assert_array_equal(np.asarray(ours), theirs)
    p = wf.polynomial.Polynomial([1, 2])
    assert isinstance(p, np.polynomial.Polynomial) and p == np.polynomial.Polynomial([1, 2]) and p.degree() == 1


@pytest.mark.parametrize("shape", [(200, 300), (300, 200)])
def test_memory_of_another_object_is_not_adopted(shape: tuple[int, int]) -> None:
    held = np.ma.masked_array(np.arange(60_000.0).reshape(shape).T)
    found = call_numpy(lambda: held.data[...], (), {})
    held.data[:] = 0
    assert found.flags.f_contiguous and float(found[1, 2]) == 2 * shape[1] + 1


def test_files_keep_their_memory_order(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(60_000.0).reshape(200, 300).T)
    found = script_module("numpy").load(tmp_path / "x.npy")
    assert type(found) is wf.Array and found.flags.f_contiguous and float(found[1, 2]) == 601


@pytest.mark.parametrize("size", [4, 100_000])
def test_ufunc_of_another_package_with_the_name_of_a_numpy_ufunc(size: int) -> None:
    class Ufunc:
        __name__ = "square"

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x * x + 1

    found = wf.arange(float(size)).__array_ufunc__(Ufunc(), "__call__", wf.arange(float(size)))
    assert np.array_equal(np.asarray(found), np.arange(float(size)) ** 2 + 1)
