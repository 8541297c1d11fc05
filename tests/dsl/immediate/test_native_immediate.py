"""Tests of small operations in native code.

Their results, aliases and errors are those of the Python implementation.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import CODES, same, values
from weft.dsl.arrays import indexing, operators
from weft.dsl.immediate import at_call as immediate
from weft.dsl.immediate import native_immediate
from weft.runtime import override

IMMEDIATE = 16384
ROOT = Path(__file__).resolve().parents[3]


def test_native_code_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    assert not hasattr(vars(wf.Array)["__add__"], "__code__")
    monkeypatch.setattr(native_immediate, "_install", None)
    native_immediate.install_native_code()  # (installed only once)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_short_powers_are_roots_and_products_in_native_code(dtype: type) -> None:
    native_immediate.install_native_code()
    own = np.array([-np.inf, -0.0, 4.0, 0.1], dtype)
    x = wf.asarray(own)
    with np.errstate(invalid="ignore"):
        for exponent in (2.7, 0.5, 2, 2.0, 3.0, 2.7, 0.5, 1, dtype(0.5)):
            for found in (wf.power(x, exponent), np.power(x, exponent), x**exponent):
                assert found.dtype == dtype and np.allclose(found, np.power(own, exponent), equal_nan=True, rtol=1e-6)
                assert np.signbit(np.asarray(found)[1]) == np.signbit(np.power(own, exponent)[1])
            if exponent == 2:
                assert same(wf.power(x, exponent), np.square(own))


def test_values_that_a_mask_takes_are_set_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    x = wf.asarray(np.arange(2500.0).reshape(50, 50))
    mask, own = x != 7, np.arange(2500.0).reshape(50, 50)
    found = x[mask] * 2
    monkeypatch.setattr(indexing, "put", None)
    x[mask] = found
    own[own != 7] *= 2
    assert same(x, own)


def test_numpy_arrays_take_small_results_at_the_call() -> None:
    weights, whole, step = np.arange(3.0), np.arange(3), wf.asarray(np.full(3, 0.5))
    before, same = wf.statistics(), weights
    weights -= step
    np.testing.assert_array_equal(weights, [-0.5, 0.5, 1.5])
    assert same is weights
    assert np.add(step, 1, out=weights) is weights
    np.testing.assert_array_equal(weights, [1.5, 1.5, 1.5])
    with pytest.raises(TypeError, match="Cannot cast ufunc"):
        whole += step
    assert wf.statistics() == before


def test_numpy_arrays_take_small_results_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test small results that native code writes to NumPy arrays: values, errors and references."""
    native_immediate.install_native_code()
    weights, step = np.arange(3.0), wf.asarray(np.full(3, 0.5))
    python: list[str] = []
    monkeypatch.setattr(operators, "attempt", lambda *_: python.append("attempt"))
    counts = sys.getrefcount(weights), sys.getrefcount(step)
    for _ in range(100):
        taken = np.subtract(weights, step, out=(weights,))
        assert taken is weights
        weights -= step
    del taken
    assert (sys.getrefcount(weights), sys.getrefcount(step)) == counts
    np.testing.assert_array_equal(weights, np.arange(3.0) - 100)
    wide = np.zeros((2, 3))
    assert np.add(step, weights, out=wide) is wide and (wide == weights + 0.5).all()
    weights.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        weights += step
    with pytest.raises(ValueError, match="broadcast"):
        np.add(step, step, out=np.zeros(4))
    with pytest.raises(TypeError, match="Cannot cast ufunc"):
        np.add(step, step, out=np.zeros(3, int))
    assert not python


VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(2, 8),
    "reshape by a tuple": lambda x: x.reshape((8, -1)),
    "ravel": lambda x: x.ravel(),
    "ravel of a column": lambda x: x[:, 1].ravel(),
    "a copy that is reshaped": lambda x: x.T.reshape(16),
    "T": lambda x: x.T,
    "T of one axis": lambda x: x[0].T,
    "transpose": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x[1:2].squeeze(),
    "squeeze of nothing": lambda x: x.squeeze(),
    "flip": lambda x: _same_function("flip", x),
    "flip of a part": lambda x: _same_function("flip", x[1:], 0),
    "expand_dims": lambda x: _same_function("expand_dims", x, 1),
}


GATHERED: dict[str, Callable[[Any, Any], Any]] = {
    "integers": lambda x, pick: x[pick([3, 0, 3, -1])],
    "two axes of integers": lambda x, pick: x[0][pick([[1, 0], [2, 3]])],
    "a mask": lambda x, pick: x[x > 5],
    "a mask of rows": lambda x, pick: x[pick([True, False, True, False])],
    "of columns": lambda x, pick: x.T[pick([1, 1])],
    "an array beside a mask": lambda x, pick: x[pick([2]), pick([True, False, True, True])],
    "a mask beside a column": lambda x, pick: x[pick([True, False, True, True]), pick([[2], [0], [1], [1]])],
    "a mask beside a number": lambda x, pick: x[pick([True, False, True, True]), 1],
    "masks of both axes": lambda x, pick: x[pick([True, False, True, False]), pick([False, True, False, True])],
}


def _same_function(name: str, x: Any, *arguments: Any) -> Any:
    return getattr(wf if isinstance(x, wf.Array) else np, name)(x, *arguments)


@pytest.mark.parametrize("name", VIEWS)
def test_views_by_functions_in_native_code(name: str) -> None:
    native_immediate.install_native_code()
    a = np.arange(16.0).reshape(4, 4)
    x = wf.asarray(a)
    for source, theirs in ((x, a), (x + 0, a + 0)):
        found, wanted = VIEWS[name](source), VIEWS[name](theirs)
        found += 10
        wanted += 10
        source[0] *= 2
        theirs[0] *= 2
        assert same(found, wanted)
        assert same(source, theirs)


@pytest.mark.parametrize("name", GATHERED)
def test_indexing_by_arrays_in_native_code(name: str) -> None:
    native_immediate.install_native_code()
    a = np.arange(16.0).reshape(4, 4)
    x = wf.asarray(a)
    before = wf.statistics()["plans"]
    found, wanted = GATHERED[name](x, wf.asarray), GATHERED[name](a, np.asarray)
    found[...] = -1
    assert same(x, a)
    assert found.shape == wanted.shape
    assert same(GATHERED[name](x, wf.asarray), wanted)
    assert wf.statistics()["plans"] == before
    with pytest.raises(IndexError):
        x[wf.asarray([4])]
    with pytest.raises(IndexError):
        x[wf.asarray([0.5])]
    with pytest.raises(IndexError):
        x[wf.asarray([0, 1]), wf.asarray([True, True, False, True])]
    y = wf.asarray(np.arange(24.0).reshape(2, 3, 4))
    mask = np.arange(12).reshape(3, 4) % 5 == 0
    assert same(y[wf.asarray([1]), wf.asarray(mask)], y.numpy()[[1], mask])


@pytest.mark.parametrize("code", ["b", "i", "q", "B", "f", "d", "D"])
def test_bools_are_subtracted_from_numbers_in_native_code(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    x, flags = wf.asarray(values(code)), wf.asarray(values(code)) > 0
    a, b = x.numpy(), flags.numpy()
    monkeypatch.setattr(operators, "attempt", None)
    for found, wanted in ((x - flags, a - b), (flags - x, b - a), (x[0] - flags, a[0] - b)):
        assert same(found, wanted)
    monkeypatch.undo()
    with pytest.raises(TypeError, match="numpy boolean subtract"):
        flags - flags


@pytest.mark.parametrize("code", CODES)
def test_squares_in_native_code(code: str) -> None:
    native_immediate.install_native_code()
    x = wf.asarray(values(code))
    with np.errstate(all="ignore"), override(immediate=0):
        wanted = np.asarray(x**2)
    with np.errstate(all="ignore"):
        assert all(same(found, wanted) for found in (x**2, x**2, x.__pow__(2)))
        assert code not in "ilfd" or (x[::3] ** 2)._device is not None
    with pytest.raises(ValueError, match="negative"):
        wf.asarray(values("l")) ** -2


@pytest.mark.parametrize("shape", [(70_000,), (300, 400)])
def test_few_elements_of_a_large_array_are_taken_in_native_code(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_immediate.install_native_code()
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x, mask, before = wf.asarray(a), wf.asarray(a > a.mean()), wf.statistics()["plans"]
    keys = [np.array([1, 0, -1]), np.zeros((3, 2), np.uint32), np.zeros(0, int)]
    assert same(x[wf.asarray([0])], a[[0]])
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "pick", None)
        assert all(same(x[wf.asarray(key)], a[key]) for key in keys)
        with pytest.raises(IndexError):
            x[wf.asarray([len(a)])]
    with pytest.raises(IndexError):
        x[wf.asarray([0.5])]
    assert wf.statistics()["plans"] == before
    assert same(x[mask], a[a > a.mean()])
    assert same(x[wf.asarray(np.zeros(IMMEDIATE, int))], a[np.zeros(IMMEDIATE, int)])


INDICES: dict[str, Callable[[Any], Any]] = {
    "an array": lambda take: take([3, 0, 299, -1]),
    "rows": lambda take: take([[1, 5], [2, 2]]),
    "two axes": lambda take: (take([1, 2, 3]), take([7, 0, -1])),
    "outer": lambda take: (take([[1], [2]]), take([0, 7, 9])),
    "a number beside": lambda take: (5, take([7, 0, -1])),
    "short integers": lambda take: (take(np.array([1, 2], np.int8)), take([1, 2])),
    "NumPy's": lambda take: (np.array([1, 2]), take([3, 4])),
    "a mask": lambda take: take([True] * 3 + [False] * 297),
    "a mask of columns": lambda take: (3, take([True, False] * 150)),
    "none": lambda take: (take([1])[:0],),
}


@pytest.mark.parametrize("name", INDICES)
def test_arrays_that_index_large_ones_in_native_code(name: str) -> None:
    native_immediate.install_native_code()
    a = np.arange(90_000.0).reshape(300, 300)
    x = wf.asarray(a)
    key, theirs = INDICES[name](wf.asarray), INDICES[name](np.asarray)
    before = wf.statistics()["plans"]
    found, wanted = x[key], a[theirs]
    assert same(found, wanted)
    found += 1
    assert same(x, a)
    a = a.copy()
    for value, numpys in ((-1, -1), (2.5, 2.5), (found, wanted + 1)):
        x[key], a[theirs] = value, numpys
        assert same(x, a)
    assert wf.statistics()["plans"] == before
    with override(immediate=0):
        pending = x + 1
    x[key] = 7
    assert same(pending, a + 1)
    with pytest.raises(IndexError):
        x[wf.asarray([300]), wf.asarray([0])]
    with pytest.raises(IndexError):
        x[wf.asarray([0]), wf.asarray([0]), wf.asarray([0])]


def test_numpys_matrices_times_small_arrays_in_native_code() -> None:
    native_immediate.install_native_code()
    a, b = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    product = a @ wf.asarray(b)
    assert type(product) is wf.Array and same(product, a @ b)
    assert same(a @ wf.asarray(a.T), a @ a.T) and same(b @ wf.asarray(b), b @ b)
    with pytest.raises(ValueError, match="core dimension"):
        a @ wf.asarray(a)
    assert [type(each) for each in wf.where(wf.asarray(b > 1))] == [wf.Array]
    assert same(wf.where(wf.asarray(b > 1), 2, -1), np.where(b > 1, 2, -1))


def test_an_operand_more_is_written_to() -> None:
    native_immediate.install_native_code()
    x, y = wf.asarray([1.0, 4.0]), wf.asarray([0.0, 0.0])
    with override(immediate=0):
        pending = y + 1
    view = y[:]
    assert wf.sqrt(x, y) is y
    assert same(view, np.array([1.0, 2.0]))
    assert same(pending, np.array([1.0, 1.0]))


def test_destinations_with_a_name_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    x, target = wf.asarray(values("d")), wf.asarray(np.zeros(24))
    python: list[Any] = []
    monkeypatch.setattr(immediate, "note_call", lambda: python.append(1))
    whole = target[:]
    assert wf.add(x, 1, out=target) is target and same(whole, values("d") + 1) and not python
    assert wf.negative(x, out=target) is target and same(whole, -values("d")) and not python
    for wrong in ({"out": target}, {"where": target}):
        with pytest.raises(TypeError, match="positional|takes"):
            wf.add(x, **wrong)
    with pytest.raises(TypeError):
        wf.add(x, x, target, out=target, dtype=int)
    assert same(wf.add(x, x, out=(target,)), values("d") * 2) and same(whole, values("d") * 2)
    assert same(wf.add(x, x, out=None), values("d") * 2)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
def test_folds_by_ufuncs_in_native_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    given = values("q").reshape(4, 6)
    x, ours, theirs = wf.asarray(given), getattr(wf, name), getattr(np, name)
    python: list[Any] = []
    monkeypatch.setattr(immediate, "note_call", lambda: python.append(1))
    for axis in (0, 1, -1):
        for found, wanted in (
            (ours.accumulate(x, axis), theirs.accumulate(given, axis)),
            (ours.reduce(x, axis=axis), theirs.reduce(given, axis=axis)),
        ):
            assert type(found) is type(x) and same(found, wanted) and not python
    assert same(ours.reduce(x, axis=None), theirs.reduce(given, axis=None))
    large = wf.asarray(np.resize(given, 2 * IMMEDIATE))
    assert same(ours.accumulate(large), theirs.accumulate(np.resize(given, 2 * IMMEDIATE)))
    pairs = np.array([complex(0.0, -0.0), complex(-0.0, -0.0), complex(np.inf, 1.0)])
    for method in ("accumulate", "reduce") if name in ("add", "multiply") else ():
        with np.errstate(invalid="ignore"):
            assert same(getattr(ours, method)(wf.asarray(pairs)), getattr(theirs, method)(pairs))
    assert same(ours.reduce(x, 0, where=given > 0, initial=1), theirs.reduce(given, 0, where=given > 0, initial=1))
    with pytest.raises(np.exceptions.AxisError):
        ours.accumulate(x, 2)


class Foreign:
    """A type that implements operators with arrays."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "their sum"

    def __add__(self, other: Any) -> str:
        return "their own sum"


def test_operators_that_python_calls_at_once() -> None:
    native_immediate.install_native_code()
    assert type(vars(wf.Array)["__getitem__"]) is type(vars(np.ndarray)["__getitem__"])
    assert type(vars(wf.Array)["__sub__"]) is type(vars(np.ndarray)["__sub__"])
    a = np.arange(6.0)
    x = wf.asarray(a)
    for each in (2, 2.5, np.float64(3), a, [1.0] * 6):
        for one, other, plain in ((x, each, a - each), (each, x, each - a)):
            assert same(one - other, plain)
    assert same(x.__rsub__(2.0), 2.0 - a)
    assert same(x.__sub__(2.0), a - 2.0)
    assert same(wf.Array.__sub__(x, x), a - a)
    assert x + Foreign() == "their sum"
    assert Foreign() + x == "their own sum"
    for wrong in (lambda: x - "text", lambda: None - x, lambda: x - {}, lambda: x.__setitem__(99, 1), lambda: x[99]):
        with pytest.raises((TypeError, IndexError, np.exceptions.DTypePromotionError)):
            wrong()
    whole = wf.asarray([1, 2])
    assert same(~whole, np.array([-2, -3]))
    assert same(3 >> whole, np.array([1, 0]))
    assert same(whole >> 1, np.array([0, 1]))
    before = x
    x -= 1
    x[1] = 7
    assert before is x
    a -= 1
    a[1] = 7
    assert same(x, a)
    with pytest.raises(ValueError, match="cannot delete array elements"):
        del x[0]
    total = x.sum() - x[0]
    assert same(total, a.sum() - a[0])
    with override(immediate=0):
        scalar = x.sum()
        assert same(scalar - x, a.sum() - a)
        assert same(x - scalar, a - a.sum())


def test_an_operator_that_replaces_a_native_one(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    x = wf.asarray([1.0, 2.0])
    monkeypatch.setattr(wf.Array, "__sub__", lambda self, other: "mine")
    assert x - 1 == "mine"
    assert same(1 - x, np.array([0.0, -1.0]))
    monkeypatch.undo()
    assert same(x - 1, np.array([0.0, 1.0]))


def test_native_code_leaves_nothing_behind() -> None:
    native_immediate.install_native_code()
    x, y = wf.asarray(np.arange(6.0)), wf.asarray(np.arange(6.0))
    picks, key, big = wf.asarray([1, 2]), slice(1, 3), 10**9 + 7

    def go() -> None:
        for _ in range(200):
            x + y, 2.5 - x, x[1:] - y[:-1], x.reshape(2, 3), wf.flip(x), x[picks], x[y > 2], x.T, -x, wf.sqrt(x), x[key]
            x[key] = y[key]
            x[0] = big
            z = x * 1.0
            z += y
            for wrong in (lambda: x - "text", lambda: x[99], lambda: x.__setitem__(99, 1), lambda: x.__delitem__(key)):
                with pytest.raises((TypeError, IndexError, ValueError)):
                    wrong()

    def referred() -> list[int]:
        gc.collect()
        things = (x, y, picks, key, big, x._values, y._values, x._storage, go.__code__)
        return list(map(sys.getrefcount, things))

    go()
    before, made = referred(), sys.getrefcount(wf.Array)
    go()
    assert referred() == before
    # (native code and memoization may add a few references to the class, but not in every iteration)
    assert sys.getrefcount(wf.Array) - made < 200


def test_what_is_called_where_work_is_not_small_is_exchanged() -> None:
    calls: list[str] = []

    def total(self: Any) -> None:
        calls.append("first")

    def other(self: Any) -> None:
        calls.append("second")

    made = native_immediate.make_immediate(
        native_immediate.Mode.CALL, native_immediate.numpy_implementation(np.ndarray.sum), total
    )
    small, large = wf.asarray(np.ones(3)), wf.asarray(np.ones(100_000))
    made.call(large)
    made.exchange(total, other)
    made.call(large)
    assert calls == ["first", "second"]
    assert made.call(small) == 3 and calls == ["first", "second"]


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda xp, x, y: xp.where(x > 1, x, y),
    "where of flags alone": lambda xp, x, y: xp.where(x > 1),
    "concatenate a list": lambda xp, x, y: xp.concatenate([x, y, x]),
    "concatenate a tuple by name": lambda xp, x, y: xp.concatenate((x, y), axis=0),
    "a list of arrays and numbers": lambda xp, x, y: xp.hstack([x, 3.0, y]),
    "stack": lambda xp, x, y: xp.stack((x, y), axis=1),
    "split": lambda xp, x, y: xp.split(x, 2),
    "clip": lambda xp, x, y: xp.clip(x, 1, y),
    "sort": lambda xp, x, y: xp.sort(x),
    "argsort": lambda xp, x, y: x.argsort(),
    "take": lambda xp, x, y: x.take([0, 2]),
    "diff": lambda xp, x, y: xp.diff(x, n=2),
    "round": lambda xp, x, y: x.round(1),
    "allclose": lambda xp, x, y: xp.allclose(x, y),
    "norm": lambda xp, x, y: xp.linalg.norm(x),
    "norm by axis": lambda xp, x, y: xp.linalg.norm(x.reshape(3, 2), axis=1),
    "solve": lambda xp, x, y: xp.linalg.solve(x[:4].reshape(2, 2), y[:2]),
    "svd": lambda xp, x, y: tuple(xp.linalg.svd(x[:4].reshape(2, 2))),
    "fft": lambda xp, x, y: xp.fft.fft(x, axis=0),
    "an array that NumPy returns itself": lambda xp, x, y: xp.atleast_1d(x),
    "outer": lambda xp, x, y: xp.outer(x, y),
    "kron": lambda xp, x, y: xp.kron(x, y[:2]),
    "meshgrid": lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"),
    "repeat": lambda xp, x, y: xp.repeat(x, 3),
    "repeat rows": lambda xp, x, y: x.reshape(2, 3).repeat(2, axis=0),
    "repeat nothing": lambda xp, x, y: x.repeat(0),
    "tile": lambda xp, x, y: xp.tile(x, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_any_operands_in_native_code(name: str) -> None:
    native_immediate.install_native_code()
    given = [np.array([2.55, 0.1, 3.0, -1.0, 5.5, 0.25]), np.array([1.0, 2.0, -0.0, 4.0, 3.0, 6.0])]
    x, y = map(wf.asarray, given)
    wf.evaluate(x, y)
    before = wf.statistics()
    found, wanted = CALLS[name](wf, x, y), CALLS[name](np, *given)
    assert wf.statistics() == before
    assert type(found) is type(wanted) or isinstance(found, wf.Array)
    parts = [(found, wanted)] if not isinstance(wanted, (list, tuple)) else zip(found, wanted, strict=True)
    assert all(same(ours, theirs) for ours, theirs in parts)


def test_results_of_native_code_that_are_parts_of_operands() -> None:
    native_immediate.install_native_code()
    x = wf.asarray(np.arange(6.0))
    wf.evaluate(x)
    first, second = wf.split(x, 2)
    second[0] = -1.0
    x[0] = 7.0
    assert wf.atleast_1d(x) is x and x[3] == -1.0 and first[0] == 7.0


def test_native_code_leaves_what_is_not_small_or_not_usual_to_python() -> None:
    native_immediate.install_native_code()
    column, row = wf.asarray(np.arange(9000.0)).reshape(-1, 1), wf.asarray(np.arange(9000.0))
    wf.evaluate(column, row)
    assert wf.where(column > row, column, row).shape == (9000, 9000)  # (pending, and never computed)
    x = wf.asarray(np.arange(6.0))
    assert same(wf.sort(x, descending=True), np.arange(6.0)[::-1])
    assert same(wf.concatenate([x, [1, 2]]), np.concatenate([np.arange(6.0), [1, 2]]))
    assert same(wf.block([[x], [x]]), np.block([[np.arange(6.0)], [np.arange(6.0)]]))
    with pytest.raises(ValueError, match="dimension"):
        wf.concatenate([x, x.reshape(2, 3)])
    with pytest.raises(ValueError, match="dimension"):
        wf.concatenate([x, object()])
    with pytest.raises(np.linalg.LinAlgError):
        wf.linalg.inv(wf.zeros((2, 2)))


def test_native_code_of_any_operands_leaves_nothing_behind() -> None:
    native_immediate.install_native_code()
    x, y = wf.asarray(np.arange(6.0)), wf.asarray(np.arange(6.0))
    pair, wrong = [x, y], [x, y.reshape(2, 3)]
    wf.evaluate(x, y)

    def go() -> None:
        for _ in range(200):
            wf.concatenate(pair)
            wf.split(x, 2)
            wf.linalg.norm(x)
            wf.where(x > 1, x, y)
            with pytest.raises(ValueError, match="dimension"):
                wf.concatenate(wrong)

    def referred() -> list[int]:
        gc.collect()
        return list(map(sys.getrefcount, (x, y, pair, wrong, x._values, y._values)))

    go()
    before = referred()
    go()
    assert referred() == before


def test_ufuncs_are_called_as_functions_in_c() -> None:
    native_immediate.install_native_code()
    x = wf.asarray(np.arange(4.0))
    wf.evaluate(x)
    target = x.copy()
    assert wf.exp(x, out=target) is target and same(target, wf.exp(x))
    assert wf.add(x, x, dtype=np.float32).dtype == np.float32 and same(wf.exp.__call__(x), wf.exp(x))
    before = sys.getrefcount(x), sys.getrefcount(wf.exp)
    for call in (lambda: wf.exp(), lambda: wf.exp(*[x] * 40), lambda: wf.exp(x, wrong=1), lambda: wf.linalg.norm()):
        with pytest.raises(TypeError):
            call()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(wf.exp)) == before
    with pytest.raises(TypeError, match="30"):
        wf.linalg.norm(*[x] * 30)

    class Mine(type(wf.exp)):  # type: ignore[misc]
        def __call__(self, *operands: Any) -> str:  # type: ignore[override]
            return "mine"

    assert object.__new__(Mine)(x) == "mine"


@pytest.mark.parametrize("name", ["all", "any", "argmax", "argmin", "max", "min"])
def test_large_arrays_are_reduced_whole_in_native_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that native code reduces large C-contiguous arrays over all axes.

    Python handles other axes and orders, and extremes that are float zeros.
    """
    native_immediate.install_native_code()
    python: list[str] = []
    real = immediate.call_small

    def call_small(function: Any, arguments: Any, options: Any, called: str = "") -> Any:
        python.append(called)
        return real(function, arguments, options, called)

    monkeypatch.setattr(immediate, "call_small", call_small)
    for code in "?bBfd":
        x = np.random.default_rng(3).integers(code in "fd", 2 if code == "?" else 90, 20_000).astype(code)
        array = wf.asarray(x)
        square, own = array.reshape(100, 200), x.reshape(100, 200)
        for theirs, ours, options, native in (
            (x, array, {}, True),
            (x, array, {"axis": 0}, True),
            (x, array, {"axis": -1, "keepdims": True}, True),
            (own, square, {}, True),
            (own, square, {"axis": 1}, False),
            (own.T, square.T, {}, False),
            (x[::-1], array[::-1], {}, False),
        ):
            assert same(getattr(ours, name)(**options), getattr(theirs, name)(**options))
            python.clear()  # (the first call locates the memory of the array)
            assert same(getattr(ours, name)(**options), getattr(theirs, name)(**options))
            assert native == (name not in python), (code, theirs.shape, options, python)
    with pytest.raises(ValueError, match="out of bounds"):
        getattr(wf.asarray(x.astype(bool)), name)(axis=1)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("code", "fd")
def test_extremes_of_large_arrays_have_the_bits_of_kernels(name: str, code: str) -> None:
    native_immediate.install_native_code()
    zeros = np.where(np.arange(20_000) % 3, 0.0, -0.0).astype(code)
    for given in (zeros, zeros[::-1].copy(), -zeros, np.where(np.arange(20_000) == 7, np.nan, zeros).astype(code)):
        x = wf.evaluate(wf.asarray(given))
        for _ in range(2):
            found = getattr(x, name)()
            with override(immediate=0):
                assert same(found, getattr(wf.asarray(given), name)())
