"""Tests of native code: writes, unfused operations, views and casts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import CODES, same, values
from weft.dsl.immediate import native_immediate
from weft.runtime import override

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
    "divide": lambda x, y: x / 4,
    "floor": lambda x, y: np.floor(x),
    "sign": lambda x, y: np.sign(x),
    "a number on the right": lambda x, y: x * 2,
    "a number on the left": lambda x, y: 2.5 - x,
    "two arrays": lambda x, y: x - y,
    "an array and a row": lambda x, y: x + y[0],
    "compare": lambda x, y: x > y,
    "square": lambda x, y: x**2,
    "ufunc": lambda x, y: wf.subtract(x, y),
    "NumPy's ufunc": lambda x, y: np.add(x, y),
    "copy": lambda x, y: x.copy(),
    "concatenate": lambda x, y: own(x).concatenate([x, y[:5]]),
    "concatenate rows": lambda x, y: own(x).concatenate([x[:, :250], y[:, 250:]], axis=1),
    "vstack": lambda x, y: own(x).vstack((x, y)),
    "roll": lambda x, y: own(x).roll(x, 3),
    "tile": lambda x, y: own(x).tile(x, 2),
    "repeat": lambda x, y: own(x).repeat(x, 2),
}

COPIES = ("copy", "concatenate", "concatenate rows", "vstack", "roll", "tile", "repeat")


def own(x: Any) -> Any:
    return np if type(x) is np.ndarray else wf


@pytest.mark.parametrize("name, code", [*((name, "d") for name in SINGLE), *((name, "?") for name in COPIES)])
def test_operations_that_were_evaluated_alone_are_immediate_in_native_code(name: str, code: str) -> None:
    native_immediate.install_native_code()
    rows = 100 if code == "d" else 1000
    given = np.random.default_rng(1).normal(scale=50, size=(2, rows, 500)).astype(np.int8).astype(code)
    x, y = wf.evaluate(wf.asarray(given[0]), wf.asarray(given[1]))
    for _ in range(20):  # (Python 3.11 changes the offset of a call of a builtin when it specializes the call)
        SINGLE[name](x[:2], y[:2])
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


def test_native_code_copies_limited_numbers_of_elements() -> None:
    native_immediate.install_native_code()
    given = np.arange(100_000.0)
    x = wf.evaluate(wf.asarray(given))

    def joined(*arrays: Any) -> Any:
        return own(arrays[0]).concatenate(arrays)

    for arrays in ((x, x), (x,) * 4, (x, x.astype(np.float32)), (x, x[:10].astype(np.uint8))):
        hosts = [np.asarray(each) for each in arrays]
        for _ in range(3):
            found = wf.evaluate(joined(*arrays))
            assert same(found, joined(*hosts))
    for times in (2, 30):
        for _ in range(3):
            assert same(wf.evaluate(wf.tile(x, times)), np.tile(given, times))


def test_numbers_promote_medium_bools() -> None:
    native_immediate.install_native_code()
    given = np.arange(100_000) % 3 > 0
    x = wf.evaluate(wf.asarray(given))
    for _ in range(3):
        results = [x + 1, wf.maximum(x, 0), x * 2.5, 3 - x]
        wf.evaluate(*results)
        assert all(
            same(one, other)
            for one, other in zip(results, [given + 1, np.maximum(given, 0), given * 2.5, 3 - given], strict=True)
        )
    for _ in range(3):
        assert same(wf.evaluate(wf.clip(x, 0, False)), np.clip(given, 0, False))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(-1),
    "reshape to a tuple": lambda x: x.reshape((150, 2, -1)),
    "function reshape": lambda x: own(x).reshape(x, (3, -1)),
    "ravel": lambda x: x.ravel(),
    "transpose": lambda x: x.transpose(1, 0),
    "T": lambda x: x.T,
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: own(x).squeeze(x),
    "expand_dims": lambda x: own(x).expand_dims(x, 1),
    "flip": lambda x: own(x).flip(x, 0),
    "flipud": lambda x: own(x).flipud(x),
}


@pytest.mark.parametrize("code", "d?")
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_large_arrays_in_native_code(name: str, code: str) -> None:
    native_immediate.install_native_code()
    given = (np.arange(300_000).reshape(300, 1000) % 7).astype(code)
    x, host = wf.evaluate(wf.asarray(given)), given.copy()
    x.ravel()  # (from here on, the array has a NumPy array over its memory)
    view, own_view = VIEWS[name](x), VIEWS[name](host)
    assert view._values is not None  # (nothing is recorded)
    assert same(view, own_view)
    view[0], own_view[0] = 1, 1
    assert same(x, host)
    later, own_later = VIEWS[name](x + x), VIEWS[name](host + host)  # (of pending values)
    assert same(later, own_later)
    turned, own_turned = VIEWS[name](x[:, ::2]), VIEWS[name](host[:, ::2])  # (not in C order)
    assert same(turned, own_turned)
    if turned.ndim > 1:
        turned[0], own_turned[0] = 0, 0
        assert same(x, host)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("size", [30, 30_000])
def test_casts_in_native_code(code: str, size: int) -> None:
    native_immediate.install_native_code()
    ends = [np.iinfo(code).min, np.iinfo(code).max] if np.dtype(code).kind in "iu" else []
    given = np.resize(np.concatenate([values(code), np.array(ends, code)]), size)
    x = wf.evaluate(wf.asarray(given))
    x.ravel()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for kind in map(np.dtype, CODES):
            for named in (kind.type, kind, kind.name, kind.str):
                found = x.astype(named)
                with override(immediate=0):
                    assert same(found, wf.asarray(given).astype(kind))
                if kind == given.dtype:
                    found[0] = 1
                    assert same(x, given)  # (a copy)
        for own in (bool, int, float, complex):
            assert x.astype(own).dtype == np.dtype(own)
    assert x.astype(given.dtype, copy=False) is x
    for wrong in (3, "no dtype"):
        with pytest.raises(TypeError):
            x.astype(wrong)
