"""Tests of single array elements, such as ``x[0]``, and of computations with such scalars.

The results have the same bits as those of kernels.
"""

from __future__ import annotations

import copy
import pickle
import statistics
from collections.abc import Callable, Iterable, Sized
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS
from weft.runtime import override

IMMEDIATE = 16384

FLOATS = [0.0, -0.0, 1.0, -2.5, 0.1, 3.0, 1e300, -1e-310, 2.0**53, np.inf, -np.inf, np.nan]
INTEGERS = [0, 1, -1, 2, -7, 63, 64, 2**53 + 1, 2**63 - 1, -(2**63)]
BOOLS = [False, True]
ROWS = [
    definition.name
    for definition in OPS.values()
    if definition.arity <= 2
    and not definition.name.startswith("_")
    and definition.name not in ("real", "imag", "conjugate", "power")
]


def bits(value: Any) -> tuple[str, bytes]:
    found = np.asarray(value)
    if found.dtype.kind == "f" and np.isnan(found):
        return found.dtype.str, b"NaN"
    return found.dtype.str, found.tobytes()


def lists(row: str) -> list[list[Any]]:
    """Return lists of operands of an op, one list for each combination of dtypes."""
    values = [np.array(FLOATS), np.array(INTEGERS), np.array(BOOLS)]
    if OPS[row].arity == 1:
        return [[v] for v in values]
    pairs = [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2)]
    return [[each.ravel() for each in np.meshgrid(values[a], values[b])] for a, b in pairs]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_the_bits_of_its_kernels(row: str) -> None:
    function = getattr(wf, row)
    for pairs in lists(row):
        arrays = [wf.asarray(each) for each in pairs]
        try:
            with override(immediate=0):
                wanted = np.asarray(function(*arrays))
        except TypeError:
            with pytest.raises(TypeError):
                np.asarray(function(*[each[0] for each in arrays]))
            continue
        for k in range(len(pairs[0])):
            assert bits(function(*[each[k] for each in arrays])) == bits(wanted[k]), [each[k] for each in pairs]


def test_they_are_known_at_once() -> None:
    x = wf.asarray(np.array([0.25, 4.0]))
    before = wf.statistics()["plans"]
    y = (x[0] + 1) * x[1] ** 3 - wf.sqrt(x[1]) / 2
    assert isinstance(y, np.floating) and y == 79.0
    assert isinstance(x[0], np.floating) and isinstance(wf.arange(3)[1], np.integer)
    assert wf.statistics()["plans"] == before


def test_loops_over_elements_plan_nothing() -> None:
    def euler(xp: Any, steps: int) -> Any:
        path = xp.zeros((steps + 1, 3))
        path[0] = (1.0, 0.5, 0.25)
        v = xp.zeros(steps + 1)
        v[0] = 2.0
        for k in range(steps):
            x, y, z = path[k]
            path[k + 1] = path[k] + xp.array([10 * (y - x), x * (28 - z) - y, x * y - z]) * 0.01
            v[k + 1] = v[k] + 0.01 * (xp.exp(-v[k]) - v[k] ** 2 * max(path[k + 1, 0], 0.5))
        return xp.concatenate([path.ravel(), v])

    np.testing.assert_allclose(np.asarray(euler(wf, 30)), euler(np, 30), rtol=1e-13)
    before = wf.statistics()["plans"]
    np.testing.assert_allclose(np.asarray(euler(wf, 60)), euler(np, 60), rtol=1e-13)
    assert wf.statistics()["plans"] == before


def test_known_numbers_among_arrays() -> None:
    source = np.arange(5.0)
    x = wf.asarray(source)
    k = x[3] * 2
    np.testing.assert_array_equal(np.asarray(x * k), source * 6)
    np.testing.assert_array_equal(np.asarray(k - x), 6 - source)
    np.testing.assert_array_equal(np.asarray(wf.array([k, 1, x[1]])), [6.0, 1.0, 1.0])
    y = x.copy()
    y[1] = k
    y[2:] = k
    x[0] = k + 1
    np.testing.assert_array_equal(np.asarray(y), [0, 6, 6, 6, 6])
    assert float(x[0]) == 7
    z = wf.zeros(3, np.int32)
    z[0] = k
    z[1] = x[2]
    np.testing.assert_array_equal(np.asarray(z), [6, 2, 0])


def test_a_value_is_kept_when_its_array_changes() -> None:
    x = wf.asarray(np.arange(3.0))
    old, total = x[1], x.sum()
    x[1] = 5.0
    x += 1
    assert (float(old), float(old + 0), float(total), float(total * 2)) == (1.0, 1.0, 3.0, 6.0)
    made = wf.zeros(())
    made[...] = made + 3
    assert float(made + 1) == 4
    made[()] = 5
    assert (float(made + 1), float(made)) == (6, 5)


@pytest.mark.parametrize("limit", [0, 16384])
@pytest.mark.parametrize("turned", ["T", "squeeze", "transpose", "flip", "reshape", "ellipsis"])
def test_views_of_a_number_without_axes_are_numbers(turned: str, limit: int) -> None:
    views: dict[str, Callable[[Any], Any]] = {
        "T": lambda s: s.T,
        "squeeze": lambda s: s.squeeze(),
        "transpose": wf.transpose,
        "flip": wf.flip,
        "reshape": lambda s: s.reshape(()),
        "ellipsis": lambda s: s[()],
    }
    with override(immediate=limit):
        number = views[turned]((wf.asarray(np.ones((300, 400))) * 2).sum())
        number /= wf.asarray(np.arange(1.0, 4.0))  # (a 0-d array would raise an error)
        assert number.tolist() == [240_000, 120_000, 80_000]


def test_they_are_numbers() -> None:
    k = wf.asarray(np.arange(4))[2] + 1
    assert (k.shape, k.dtype, k.ndim, k.size, len({k, 3}), [10, 20, 30, 40][k]) == ((), np.int64, 0, 1, 1, 40)
    assert f"{k:03d}" == "003"
    assert repr(k * 1.5) == "np.float64(4.5)"
    for other in (copy.copy(k), copy.deepcopy(k), pickle.loads(pickle.dumps(k))):
        assert other == 3
        assert other.dtype == np.int64
    assert np.asarray(k).shape == ()
    with pytest.raises(OverflowError):
        k + 2**70


def test_they_have_no_items() -> None:
    with override(immediate=0):
        total = wf.asarray(np.ones((300, 400))).sum()
    assert isinstance(total, wf.Array) and not isinstance(total, (Sized, Iterable))
    assert total == pytest.approx(total) and pytest.approx(120_000) == total
    assert statistics.mean([total, total, 1]) == 240_001 / 3
    for function in (len, iter):
        with pytest.raises(TypeError):
            function(total)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "item": lambda s: s.__setitem__(..., 1),
    "part": lambda s: setattr(s, "real", 1),
    "shape": lambda s: setattr(s, "shape", (1,)),
    "flat": lambda s: setattr(s, "flat", 1),
    "fill": lambda s: s.fill(1),
    "out": lambda s: np.add(1, 1, out=s),
    "copyto": lambda s: np.copyto(s, 1),
    "resize": lambda s: s.resize(2),
}


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_they_are_immutable(change: str, pending: bool) -> None:
    total = (wf.asarray(np.ones((300, 400))) * 2).sum()
    assert isinstance(total, wf.Array)
    if not pending:
        wf.evaluate(total)
    with pytest.raises((AttributeError, TypeError, ValueError)):
        CHANGES[change](total)
    for view in (total.reshape(1), wf.atleast_1d(total), total[None]):
        view[0] = 1
    assert wf.nan_to_num(total, copy=False) == total == 240_000
    assert hash(total.copy()) == hash(copy.copy(total)) == hash(total.astype(float))


def test_on_a_gpu_they_stay_where_they_are() -> None:
    with wf.device("simt"):
        x = wf.asarray(np.arange(40_000.0))  # (small arrays would stay on the host)
        found = x[1] + x[2]
        assert isinstance(found, wf.Array)
        assert float(found) == 3


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_scalars_are_read_as_python_numbers(dtype: str, pending: bool) -> None:
    for value in (0, 1, 2.5, np.nan, np.inf) if dtype[0] == "f" else (0, 1):
        x = np.full(40_000, value, dtype)
        y = wf.asarray(x)
        y = y[::-1] if pending else y
        for read in (float, int, bool):
            found = []
            for total in (x.max(), wf.maximum(y, y).max() if pending else y.max()):
                try:
                    found.append(read(total))
                except (ValueError, OverflowError) as error:
                    found.append(str(error))
            assert type(found[0]) is type(found[1])
            np.testing.assert_equal(found[1], found[0])
