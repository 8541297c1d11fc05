"""Tests of `weft.vectorize` with the options of `numpy.vectorize`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf


def _larger(a: Any, b: Any) -> Any:
    return a + b if a > b else a - b


def _looked_up(x: Any) -> Any:
    return {1: 2, 2: 5}.get(int(x), 0)


X, Y = np.array([1, 5, 3]), np.array([4, 2, 3])
NUMPYS = {
    "otypes": lambda xp: xp.vectorize(_larger, otypes=[float])(xp.asarray(X), xp.asarray(Y)),
    "codes": lambda xp: xp.vectorize(_larger, otypes="f")(xp.asarray(X), Y),
    "several": lambda xp: xp.vectorize(lambda a: (a, a * 2.5), otypes="df")(xp.asarray(X)),
    "excluded": lambda xp: xp.vectorize(lambda a, p: a * p[0] + p[1], excluded=["p"])(xp.asarray(X), p=[2, 3]),
    "excluded position": lambda xp: xp.vectorize(lambda p, a: a * p[0], excluded={0})([2, 3], xp.asarray(X)),
    "signature": lambda xp: xp.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(
        xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([1.0, 1.0])
    ),
    "named": lambda xp: xp.vectorize(lambda a, b=3: a * b)(xp.asarray(X), b=xp.asarray(Y)),
    "default": lambda xp: xp.vectorize(lambda a, b=3: a * b)(xp.asarray(X)),
    "decorator": lambda xp: xp.vectorize(otypes=[float])(lambda a: a + 1)(xp.asarray(X)),
    "starred": lambda xp: xp.vectorize(lambda *a: a[0] - a[1])(xp.asarray(X), xp.asarray(Y)),
    "builtin": lambda xp: xp.vectorize(math.gcd)(xp.asarray(X * 6), xp.asarray(Y * 9)),
    "empty": lambda xp: xp.vectorize(_larger, otypes="d")(xp.asarray([]), xp.asarray([])),
}


@pytest.mark.parametrize("name", NUMPYS)
def test_options_of_numpys(name: Any) -> None:
    found, expected = NUMPYS[name](wf), NUMPYS[name](np)
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        assert isinstance(ours, wf.Array) and ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_a_cached_function_is_called_once_for_each_value() -> None:
    calls = []
    function = wf.vectorize(lambda x: calls.append(1) or x * 2, cache=True)
    assert function(wf.asarray(X)).tolist() == [2, 10, 6]
    assert len(calls) == 3


@pytest.mark.parametrize(
    "function", [_looked_up, lambda x: int(str(int(x))), lambda x: [x][0] * len(f"{x}"), lambda x: (x, str(x))]
)
def test_numpy_calls_what_cannot_be_compiled(function: Any) -> None:
    made = wf.vectorize(function)
    with pytest.warns(wf.PerformanceWarning, match="NumPy calls .* for each element"):
        found = made(wf.asarray(X))
    expected = np.vectorize(function)(X)
    for ours, theirs in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # (it warns once)
        made(wf.asarray(Y))


def test_an_error_of_the_function_is_the_users() -> None:
    with pytest.raises(ZeroDivisionError), pytest.warns(wf.PerformanceWarning):
        wf.vectorize(lambda x: 1 / 0)(wf.asarray(X))


@pytest.mark.parametrize("otypes", [3, "zz"])
def test_wrong_dtypes_of_outputs(otypes: Any) -> None:
    with pytest.raises(ValueError, match="Invalid otype"):
        wf.vectorize(_larger, otypes=otypes)


def test_attributes_are_numpys() -> None:
    ours, theirs = wf.vectorize(_larger, otypes="d", doc="text"), np.vectorize(_larger, otypes="d", doc="text")
    for name in ("pyfunc", "otypes", "cache", "excluded", "signature", "__doc__", "__name__"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_one_output_for_each_result() -> None:
    @wf.vectorize
    def both(x: float) -> tuple[float, float]:
        return x + 1, x + 2

    outs = np.zeros(3), np.zeros(3)
    assert all(found is out for found, out in zip(both(np.arange(3.0), out=outs), outs, strict=True))
    assert outs[1].tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="both returns 2 results, but out= has 1"):
        both(np.arange(3.0), out=outs[0])
