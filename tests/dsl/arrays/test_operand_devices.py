"""Tests of operands on two devices.

NumPy arrays and scalars are moved to the device of the other operand. Weft arrays on different devices raise an
error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

X = np.random.default_rng(3).random((100, 500))
ROWS = np.arange(0, 100, 2)
MASK = X > 0.5
NUMBER = np.float64(3)


def _set(key: Any, value: Any) -> Callable[[Any, Any], Any]:
    def assign(_: Any, a: Any) -> Any:
        a[key] = value
        return a

    return assign


def _written(write: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def written(m: Any, a: Any) -> Any:
        write(m, a)
        return a

    return written


def _with_imaginary_part(m: Any, a: Any) -> Any:
    z = a + 0j
    z.imag = X
    return z


CASES: dict[str, Callable[[Any, Any], Any]] = {
    "a + x": lambda m, a: a + X,
    "x - a": lambda m, a: X - a,
    "a * float64": lambda m, a: a * NUMBER,
    "float64 / a": lambda m, a: NUMBER / a,
    "a += x": lambda m, a: a.__iadd__(X),
    "a *= float64": lambda m, a: a.__imul__(NUMBER),
    "a ** x": lambda m, a: a**X,
    "a @ x.T": lambda m, a: a @ X.T,
    "x.T @ a": lambda m, a: X.T @ a,
    "a @= x": lambda m, a: a.__imatmul__(np.eye(500)),
    "divmod": lambda m, a: divmod(a, X)[1],
    "a[rows]": lambda m, a: a[ROWS],
    "a[rows, columns]": lambda m, a: a[ROWS[:, None], np.arange(400)],
    "a[list]": lambda m, a: a[[1, 2, 3]],
    "a[mask]": lambda m, a: a[MASK],
    "a[slice] = x": _set(slice(2, 60), np.ones((58, 500))),
    "a[rows] = x": _set(ROWS, np.ones((50, 500))),
    "a[rows] = float64": _set(ROWS, NUMBER),
    "a[mask] = float64": _set(MASK, NUMBER),
    "a[mask] = x": _set(MASK, np.arange(MASK.sum()) * 1.0),
    "a[0] = list": _set(0, list(X[0])),
    "a.flat[slice] = x": _written(lambda m, a: a.flat.__setitem__(slice(0, 100), X[0, :100])),
    "a.real = x": _written(lambda m, a: setattr(a, "real", X)),
    "a.imag": lambda m, a: _with_imaginary_part(m, a),
    "a.fill": _written(lambda m, a: a.fill(NUMBER)),
    "a.clip": lambda m, a: a.clip(X - 1, X),
    "a.take": lambda m, a: a.take(ROWS, 0),
    "a.sum": lambda m, a: a.sum(where=MASK),
    "where": lambda m, a: m.where(MASK, a, X),
    "select": lambda m, a: m.select([MASK], [a], 0.0),
    "choose": lambda m, a: m.choose(MASK.astype(int), [a, X]),
    "piecewise": lambda m, a: m.piecewise(a, [MASK], [1.0, 2.0]),
    "take_along_axis": lambda m, a: m.take_along_axis(a, np.argsort(X, 1), 1),
    "concatenate": lambda m, a: m.concatenate([X, a]),
    "stack": lambda m, a: m.stack([X, a]),
    "block": lambda m, a: m.block([[a, X]]),
    "r_": lambda m, a: m.r_[a[0], X[0]],
    "append": lambda m, a: m.append(a, X, 0),
    "insert": lambda m, a: m.insert(a, 3, X[0], 0),
    "delete": lambda m, a: m.delete(a, ROWS, 0),
    "repeat": lambda m, a: m.repeat(a, np.full(100, 2), axis=0),
    "roll": lambda m, a: m.roll(a, np.array([1, 2]), (0, 1)),
    "put": _written(lambda m, a: m.put(a, ROWS, 1.5)),
    "putmask": _written(lambda m, a: m.putmask(a, MASK, X)),
    "copyto": _written(lambda m, a: m.copyto(a, X, where=MASK)),
    "add.at": _written(lambda m, a: m.add.at(a, ROWS, X[:50])),
    "add.reduce": lambda m, a: m.add.reduce(a, axis=0, where=MASK),
    "multiply.outer": lambda m, a: m.multiply.outer(a[0], X[0]),
    "out=a": lambda m, a: m.add(a, X, out=a),
    "average": lambda m, a: m.average(a, weights=X),
    "std": lambda m, a: m.std(a, axis=1, where=MASK),
    "einsum": lambda m, a: m.einsum("ij,ij->i", a, X),
    "tensordot": lambda m, a: m.tensordot(a, X, ((0, 1), (0, 1))),
    "kron": lambda m, a: m.kron(a[:5, :5], X[:5, :50]),
    "convolve": lambda m, a: m.convolve(a.ravel(), np.ones(5)),
    "polyval": lambda m, a: m.polyval(np.arange(3.0), a),
    "interp": lambda m, a: m.interp(a, np.linspace(0, 1, 9), np.arange(9.0)),
    "searchsorted": lambda m, a: m.searchsorted(np.linspace(0, 1, 9), a),
    "histogram": lambda m, a: m.histogram(a, np.linspace(0, 1, 20))[0],
    "bincount": lambda m, a: m.bincount((a * 10).astype(int).ravel(), weights=X.ravel()),
    "isin": lambda m, a: m.isin(a, X[0]),
    "gradient": lambda m, a: m.gradient(a, np.arange(100.0), axis=0),
    "solve": lambda m, a: m.linalg.solve(a[:50, :50], X[:50, 0]),
    "lexsort": lambda m, a: m.lexsort((X[0], a[0])),
    "allclose": lambda m, a: m.allclose(a, X),
    "vectorize": lambda m, a: m.vectorize(lambda x, y: x + y)(a, X),
    "vectorize x": lambda m, a: m.vectorize(lambda x, y: x - y)(X, a),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("pending", [False, True])
def test_numpy_operands_come_to_the_arrays_device(name: str, pending: bool) -> None:
    before = wf.asarray(X) + 1  # (recorded on the default device)
    a = wf.asarray(X.copy(), device="simt")
    a = a + 0.0 if pending else a
    found, wanted = CASES[name](wf, a), CASES[name](np, X.copy())
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-12)
    if isinstance(found, wf.ndarray):
        assert found.device.name == "simt"
    np.testing.assert_array_equal(np.asarray(before), X + 1)


@pytest.mark.parametrize(
    "name", ["average", "einsum", "piecewise", "a @ x.T", "a[rows]", "a + x", "out=a", "a[rows] = x"]
)
def test_arrays_on_two_devices_are_refused(name: str) -> None:
    here, there = wf.asarray(X), wf.asarray(X.copy(), device="simt")
    two = {
        "average": lambda: wf.average(there, weights=here),
        "einsum": lambda: wf.einsum("ij,ij->i", there, here),
        "piecewise": lambda: wf.piecewise(there, [here > 0.5], [1.0, 2.0]),
        "a @ x.T": lambda: there @ here.T,
        "a[rows]": lambda: there[wf.arange(40_000) % 100],
        "a + x": lambda: there + here,
        "out=a": lambda: wf.add(there, here, out=there),
        "a[rows] = x": lambda: there.__setitem__(ROWS, here[:50]),
    }
    with pytest.raises(wf.DeviceMismatchError, match=r"move one|move it"):
        two[name]()


# Operations on x, an array, and y, i, m: other values, indices and a mask, which are on another device.
ON_TWO: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "x + y": lambda x, y, i, m: x + y,
    "x += y": lambda x, y, i, m: x.__iadd__(y),
    "x @ y": lambda x, y, i, m: x @ y,
    "maximum": lambda x, y, i, m: wf.maximum(x, y),
    "out": lambda x, y, i, m: wf.add(x, x, out=y),
    "sum(out)": lambda x, y, i, m: wf.sum(wf.stack([x, x]), axis=0, out=y),
    "cumsum(out)": lambda x, y, i, m: wf.cumsum(x, out=y),
    "where": lambda x, y, i, m: wf.where(m, x, 0.0),
    "concatenate": lambda x, y, i, m: wf.concatenate([x, y]),
    "x[i]": lambda x, y, i, m: x[i],
    "x[m]": lambda x, y, i, m: x[m],
    "x[ix_]": lambda x, y, i, m: wf.stack([x, x])[wf.ix_([0, 1], i)],
    "x[i] = 1": lambda x, y, i, m: x.__setitem__(i, 1.0),
    "x[m] = 1": lambda x, y, i, m: x.__setitem__(m, 1.0),
    "x[:] = y": lambda x, y, i, m: x.__setitem__(slice(None), y),
    "x[0] = y[:1]": lambda x, y, i, m: x.__setitem__(0, y[:1]),
    "zeros[i] = 1": lambda x, y, i, m: wf.zeros_like(x).__setitem__(i, 1.0),
    "add.at": lambda x, y, i, m: wf.add.at(x, i, 1.0),
    "reduceat": lambda x, y, i, m: wf.add.reduceat(x, i),
    "x.put": lambda x, y, i, m: x.put(i, 1.0),
    "put": lambda x, y, i, m: wf.put(x, i, 1.0),
    "place": lambda x, y, i, m: wf.place(x, m, [1.0]),
    "delete": lambda x, y, i, m: wf.delete(x, i),
    "repeat": lambda x, y, i, m: wf.repeat(x, i),
    "cross": lambda x, y, i, m: wf.cross(x[:3], y[:3]),
    "convolve": lambda x, y, i, m: wf.convolve(x, y[:3]),
    "interp": lambda x, y, i, m: wf.interp(x, y, y),
    "bincount": lambda x, y, i, m: wf.bincount(i, weights=x),
    "histogram": lambda x, y, i, m: wf.histogram(x, weights=y),
    "isin": lambda x, y, i, m: wf.isin(x, y),
    "searchsorted": lambda x, y, i, m: wf.searchsorted(x, y),
    "polyval": lambda x, y, i, m: wf.polyval(y[:3], x),
    "percentile": lambda x, y, i, m: wf.percentile(x, y[:2]),
    "vectorize": lambda x, y, i, m: wf.vectorize(lambda a, b: a + b)(x, y),
    "numpy.isin": lambda x, y, i, m: np.isin(x, y),
}


def _operand(values: np.ndarray, device: str, size: int, *, pending: bool) -> Any:
    """Return an array of `size` elements on a device. If `pending`, it is a slice of an unevaluated result."""
    large = wf.asarray(np.resize(values, X.size), device=device)
    if pending:
        large = large == True if values.dtype == bool else large * 1  # noqa: E712
        return large[:size]
    return wf.asarray(np.resize(values, size), device=device)


@pytest.mark.parametrize("name", ON_TWO)
def test_arrays_on_two_devices_are_refused_at_every_size_and_state(name: str) -> None:
    for here, there in (("cpu", "simt"), ("simt", "cpu")):
        for size, mine, theirs in ((4, False, False), (4, False, True), (4, True, False), (X.size, False, False)):
            x = _operand(np.arange(5.0), here, size, pending=mine)
            others = [
                _operand(values, there, size, pending=theirs)
                for values in (np.arange(5.0), np.arange(4) % 3, np.arange(4) % 2 == 0)
            ]
            with pytest.raises(wf.DeviceMismatchError, match=r"move one|move it"):
                ON_TWO[name](x, *others)


WITH_SCALARS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x * s": lambda m, x, y: x * y.sum(),
    "s - x": lambda m, x, y: y.sum() - x,
    "x *= s": lambda m, x, y: (x + 0).__imul__(y.sum()),
    "x[0] = s": lambda m, x, y: _set(0, y.max())(m, x + 0),
    "x[s]": lambda m, x, y: x[y.argmin()],
    "maximum": lambda m, x, y: m.maximum(x, y[2]),
    "where": lambda m, x, y: m.where(x > y.mean(), x, y.min()),
    "clip": lambda m, x, y: m.clip(x, y.min(), y.mean()),
    "array": lambda m, x, y: m.array([x.sum(), y.sum()]),
    "s + s": lambda m, x, y: x.sum() + y.sum(),
}


@pytest.mark.parametrize("name", WITH_SCALARS)
@pytest.mark.parametrize("size", [4, X.size])
def test_scalars_come_from_any_device(name: str, size: int) -> None:
    """Test that scalars, pending or not, combine with arrays on another device."""
    values = np.arange(float(size))
    for here, there in (("cpu", "simt"), ("simt", "cpu")):
        for pending in (False, True):
            x = _operand(values, here, size, pending=pending)
            y = _operand(values, there, size, pending=pending)
            found = WITH_SCALARS[name](wf, x, y)
            np.testing.assert_allclose(np.asarray(found), WITH_SCALARS[name](np, values, values), rtol=1e-12)
