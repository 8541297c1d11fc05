"""Tests of native code for functions that grow arrays, for functions that write, and for single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.dsl.immediate import native_immediate

IMMEDIATE = 16384


def test_native_code_leaves_results_with_many_elements_to_python() -> None:
    native_immediate.install_native_code()
    x = wf.evaluate(wf.asarray(np.arange(600.0)))
    many = [wf.outer(x, x), wf.repeat(x, 600), wf.tile(x, 600), wf.kron(x, x), *wf.meshgrid(x, x)]
    assert all(each.size == 360_000 and each._values is None for each in many)  # (pending, and never computed)
    for wrong in (-1, 2**70):
        with pytest.raises((OverflowError, ValueError)):
            wf.repeat(x, wrong)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda xp, x: x.sort(),
    "sort by kind": lambda xp, x: x.sort(kind="stable"),
    "sort rows": lambda xp, x: x.reshape(2, 3).sort(axis=-1),
    "partition": lambda xp, x: x.partition(2),
    "put": lambda xp, x: x.put([1, 3], 7),
    "fill": lambda xp, x: x.fill(3),
    "copyto": lambda xp, x: xp.copyto(x, x[::-1]),
    "copyto a number": lambda xp, x: xp.copyto(x, 2),
    "copyto of another dtype": lambda xp, x: xp.copyto(x, np.arange(6, dtype=np.uint8)),
    "place": lambda xp, x: xp.place(x, x > 1, [7, 8]),
    "putmask": lambda xp, x: xp.putmask(x, x > 1, 5),
    "fill_diagonal": lambda xp, x: xp.fill_diagonal(x.reshape(2, 3), 9),
    "put_along_axis": lambda xp, x: xp.put_along_axis(x, np.array([1, 3]), 8, 0),
}


@pytest.mark.parametrize("code", "dfqB")
@pytest.mark.parametrize("name", WRITES)
def test_writing_functions_in_native_code(name: str, code: str) -> None:
    native_immediate.install_native_code()
    given = np.array([255, 0, 3, 1, 5, 2]).astype(code)
    x, host = wf.evaluate(wf.asarray(given)), given.copy()
    part, reader = x[1:], x + wf.zeros(100_000).reshape(-1, 1)[:, :1]
    assert WRITES[name](wf, x) is WRITES[name](np, host) is None
    assert same(x, host) and same(part, host[1:])
    assert np.array_equal(reader[-1], given)  # (recorded before the write)


def test_writes_that_native_code_leaves_to_python() -> None:
    native_immediate.install_native_code()
    whole, real = wf.evaluate(wf.asarray(np.arange(6))), wf.evaluate(wf.asarray(np.arange(6.0)))
    wf.putmask(whole, whole < 3, 2.7)
    wf.place(whole, whole == 5, [-1.5])
    assert same(whole, np.array([2, 2, 2, 3, 4, -1]))
    with pytest.raises(TypeError, match="same_kind"):
        wf.copyto(whole, 2.5)
    with pytest.raises(TypeError, match="same_kind"):
        wf.copyto(whole, real)
    for shown in (real, wf.asarray(np.arange(6.0))):
        shown.flags.writeable = False
        for write in (
            lambda x: x.sort(),
            lambda x: x.fill(1.0),
            lambda x: wf.copyto(x, 1.0),
            lambda x: x.put([1], 2.0),
        ):
            with pytest.raises(ValueError, match="read-only"):
                write(shown)
        assert same(shown, np.arange(6.0))
    with pytest.raises(np.exceptions.AxisError):
        whole.sort(axis=3)


SINGLE: dict[str, Callable[[Any, Any], Any]] = {
    "negative": lambda x, y: -x,
    "a number on the right": lambda x, y: x * 2,
    "a number on the left": lambda x, y: 2.5 - x,
    "two arrays": lambda x, y: x - y,
    "an array and a row": lambda x, y: x + y[0],
    "compare": lambda x, y: x > y,
    "square": lambda x, y: x**2,
    "ufunc": lambda x, y: wf.subtract(x, y),
    "NumPy's ufunc": lambda x, y: np.add(x, y),
}


@pytest.mark.parametrize("name", SINGLE)
def test_operations_that_were_evaluated_alone_are_immediate_in_native_code(name: str) -> None:
    native_immediate.install_native_code()
    given = np.random.default_rng(1).normal(size=(2, 200, 500))
    x, y = wf.evaluate(wf.asarray(given[0]), wf.asarray(given[1]))
    tried = []
    for _ in range(120):
        found = SINGLE[name](x, y)
        tried.append(found._values is None)
        wf.evaluate(found)
    # (at the first call in native code, Python may be asked as well)
    assert np.flatnonzero(tried).tolist() in ([0, 33, 98], [0, 32, 97])
    assert same(found, SINGLE[name](*given))


def test_native_code_records_single_operations_on_larger_arrays() -> None:
    native_immediate.install_native_code()
    x = wf.evaluate(wf.asarray(np.arange(1_000_000.0)))
    for _ in range(3):
        found = -x
        assert found._values is None
        wf.evaluate(found)
