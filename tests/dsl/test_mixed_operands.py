"""Tests of operations on NumPy and weft arrays.

Later changes of a NumPy array do not affect the result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import call_sites
from weft.runtime import override

PROGRAMS: dict[str, Any] = {
    "large + row": lambda large, row: large + row,
    "row - large": lambda large, row: row - large,
    "np.multiply": lambda large, row: np.multiply(large, row),
    "wf.maximum": lambda large, row: np.maximum(row, large),
    "in place": lambda large, row: large.__iadd__(row),
}


@pytest.fixture(params=[0, 1000], autouse=True)
def _tiers(request: pytest.FixtureRequest) -> Any:
    with override(immediate=request.param):
        yield


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_found_by_the_call_site(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    anew: list[str] = []
    real = call_sites.record_and_memoize
    monkeypatch.setattr(call_sites, "record_and_memoize", lambda op, *rest: anew.append(op) or real(op, *rest))
    monkeypatch.setattr("weft.dsl.arrays.operators.record_and_memoize", call_sites.record_and_memoize)
    host, row = np.arange(6000.0).reshape(2000, 3), np.arange(3.0)
    large = wf.asarray(host)
    for _ in range(6):
        row += 1
        found, wanted = PROGRAMS[name](large, row), PROGRAMS[name](host, row)
        wf.evaluate(found)
        np.testing.assert_array_equal(found, wanted)
    assert len(anew) <= 2


def test_what_is_recorded_keeps_the_elements() -> None:
    large, row = wf.ones((2000, 3)), np.arange(3.0)
    held, other = large * row, large.copy()
    other += row
    row[:] = -1
    assert held[1].tolist() == [0, 1, 2] and other[1].tolist() == [1, 2, 3]


def test_other_dtypes_and_orders() -> None:
    large, row = wf.ones((2000, 3)), np.arange(3.0)
    assert (large + row.astype(">f8"))[0].tolist() == [1, 2, 3]
    assert (large + row.astype(np.float16))[0].tolist() == [1, 2, 3]
    assert (large + np.arange(6000.0).reshape(3, 2000).T)[1].tolist() == [2, 2002, 4002]
    assert (large[:2] + np.array([1, 2, 3], object)).tolist() == [[2, 3, 4]] * 2
    assert (large + np.empty((0, 1, 3))).shape == (0, 2000, 3)
    with pytest.raises(ValueError, match="broadcast"):
        large + np.ones(4)


def test_repeated_elements_are_kept_once() -> None:
    values, rng = np.arange(3.0), np.random.default_rng(3)
    x = rng.standard_normal((70, 90, 3))
    guests = [np.broadcast_to(v, x.shape) for v in (values, values[0], rng.random((90, 1)), rng.random((70, 1, 3)))]
    a = wf.asarray(x)
    for guest in guests:
        assert (
            call_sites.copy_operand(guest).shape == x.shape
            and prod(call_sites.copy_operand(guest)._storage.shape) <= 210
        )
        sums = a + guest, guest - a
        assert np.array_equal(sums[0], x + guest) and np.array_equal(sums[1], guest - x)
    late = a * guests[0]
    values[:] = 7  # (the recorded operation keeps the old values)
    assert np.array_equal(late, x * np.arange(3.0))


OTHERS: dict[str, Callable[[int], Any]] = {
    "text": lambda n: "s",
    "bytes": lambda n: b"s",
    "None": lambda n: None,
    "dict": lambda n: {},
    "object": lambda n: object(),
    "date": lambda n: np.datetime64("2020-01-01"),
    "array of text": lambda n: np.array(["s"] * n),
    "0-d array of text": lambda n: np.array("s"),
    "short array of text": lambda n: np.array(["s", "t"]),
    "array of dates": lambda n: np.zeros(n, "M8[D]"),
    "array of records": lambda n: np.zeros(n, "i4, i4"),
    "array of objects": lambda n: np.array([None] * n),
    "list of text": lambda n: ["s"] * n,
    "list of None": lambda n: [None] * n,
}
OPERATORS = ("eq", "ne", "lt", "add", "mul", "floordiv")


def outcome(function: Callable[[Any, Any], Any], first: Any, second: Any) -> tuple[Any, ...]:
    """Return the dtype and the elements of a result, or the class and the text of the error."""
    try:
        found = function(first, second)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return getattr(found, "dtype", type(found)), getattr(found, "tolist", lambda: found)()


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("name", OTHERS)
def test_operators_with_values_that_weft_has_no_arrays_of(name: str, shape: tuple[int, ...]) -> None:
    other, x = OTHERS[name](3), np.full(shape, 2)[()]
    ours = wf.full(shape, 1) + 1
    for function in (getattr(operator, op) for op in OPERATORS):
        assert outcome(function, ours, other) == outcome(function, x, other)
        if not isinstance(other, np.ndarray):
            assert outcome(function, other, ours) == outcome(function, other, x)


_WITH_OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("pow", "iadd", "ipow", "matmul")},
    "dot": lambda a, other: a.dot(other),
    **{name: lambda a, other, name=name: getattr(a, name)(dtype=other.dtype) for name in ("sum", "mean", "cumsum")},
}


@pytest.mark.parametrize("name", _WITH_OTHERS)
@pytest.mark.parametrize("kind", ["longdouble", "clongdouble", "object", "m8[s]", "U1"])
@pytest.mark.filterwarnings("ignore")
def test_numpy_computes_with_other_dtypes(name: str, kind: str) -> None:
    function, values, other = _WITH_OTHERS[name], np.arange(1.0, 3001), np.ones(3000, "i1").astype(kind)
    found, wanted = outcome(function, wf.asarray(values), other), outcome(function, values, other)
    assert found == wanted or (isinstance(wanted[0], type) and found[0] is wanted[0])
