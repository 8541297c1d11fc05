"""Tests that results have NumPy's memory layout, however they are computed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import call_sites
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.immediate.host_values import values_of
from weft.runtime import override

source = np.random.default_rng(5)
A, ROW = source.random((40, 30, 20)), source.random(20)
ORDERS = list(permutations(range(3)))


def update(xp: Any, x: Any, a: Any) -> Any:
    """Create an array from `x`. Then write to the whole array, to a row, to a column, and to its transposed view."""
    y = x * 1.5
    y += 1
    y[0] = 3
    y[:, 1] *= y[:, 0]
    z = y.T
    z -= 2
    y[...] = y + x
    return y


OPERATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "negative": lambda xp, x, a: -x,
    "array in C order": lambda xp, x, a: x + a,
    "row": lambda xp, x, a: x + xp.asarray(ROW),
    "both": lambda xp, x, a: x * 2 - x,
    "parts": lambda xp, x, a: x[1:, ::2, ::-1] * 2,
    "new axis": lambda xp, x, a: xp.sqrt(x)[:, None] * xp.asarray(ROW),
    "where": lambda xp, x, a: xp.where(x > 0.5, x, 0),
    "clip": lambda xp, x, a: xp.clip(x, 0.2, 0.5),
    "cast": lambda xp, x, a: x.astype(np.float32),
    "cast in C order": lambda xp, x, a: x.astype(np.float32, order="C"),
    "list": lambda xp, x, a: x * list(range(20)),
    "cast to the same dtype": lambda xp, x, a: x.astype(np.float64),
    "copy.copy": lambda xp, x, a: copy.copy(x),
    "unpickled": lambda xp, x, a: pickle.loads(pickle.dumps(x)),
    "round": lambda xp, x, a: xp.round(x),
    "cumsum": lambda xp, x, a: xp.cumsum(x, 1),
    "accumulate": lambda xp, x, a: xp.maximum.accumulate(x, 0),
    "sort": lambda xp, x, a: xp.sort(x, 0),
    "mask": lambda xp, x, a: xp.multiply(x, xp.asarray(ROW), where=x != 0.5, out=None),
    "order": lambda xp, x, a: xp.add(x, x, order="C"),
    "Fortran order": lambda xp, x, a: xp.exp(xp.round(x, 0) * 0, order="F"),
    "any order": lambda xp, x, a: xp.subtract(x, xp.asarray(ROW), order="A"),
    "isnan": lambda xp, x, a: xp.isnan(x),
    "isnan of integers": lambda xp, x, a: xp.isnan(x.astype(np.int32)),
    "joined": lambda xp, x, a: xp.concatenate([x, 2 * x], 1),
    "rolled": lambda xp, x, a: xp.roll(x, 1, 0),
    "difference": lambda xp, x, a: xp.diff(x),
    "gradient": lambda xp, x, a: xp.gradient(x, axis=0, edge_order=2),
    "gradients": lambda xp, x, a: xp.gradient(x, axis=(1, 2))[1],
    "updated": update,
}


@pytest.mark.parametrize("immediate", [0, 1 << 16])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_results_lie_in_memory_as_numpys(name: str, order: tuple[int, ...], immediate: int) -> None:
    back = np.argsort(order)
    base = A.transpose(order).copy()
    wanted = OPERATIONS[name](np, base.transpose(back), A)
    with override(immediate=immediate):
        for _ in range(2):  # (recorded, then cached at the call site)
            found = OPERATIONS[name](wf, wf.asarray(base).transpose(back), wf.asarray(A))
            assert found.strides == wanted.strides
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("immediate", [0, 1 << 16])
def test_padding_keeps_the_order(immediate: int) -> None:
    base = A[0].copy()
    with override(immediate=immediate):
        found = wf.pad(wf.asarray(base).T, ((1, 2), (0, 3)), constant_values=4)
    wanted = np.pad(base.T, ((1, 2), (0, 3)), constant_values=4)
    assert found.strides == wanted.strides
    np.testing.assert_array_equal(found, wanted)


def test_operations_on_turned_arrays_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real: Callable[..., Any] = call_sites.map_

    def counted(op: str, *arguments: Any, **options: Any) -> Any:
        made.append(op)
        return real(op, *arguments, **options)

    monkeypatch.setattr(call_sites, "map_", counted)

    def step(x: Any, number: float) -> Any:
        return (x[1:] - x[:-1]) * number + 2 / (np.sqrt(x[1:]) + 1)

    turns = []
    for turn in range(12):
        given = A * (turn + 1)
        x = wf.asarray(given)
        wf.evaluate(x)
        made.clear()
        for number in (turn, -0.0, 0.0):
            for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):  # (equal expressions except for the memory order)
                found, wanted = step(x.transpose(order), number), step(given.transpose(order), number)
                assert found.strides == wanted.strides and found.shape == wanted.shape
                assert np.asarray(found).tobytes() == wanted.tobytes()
        turns.append(len(made))
    assert turns[-1] < turns[0] // 2


def test_a_whole_array_is_written_anew_through_any_order_of_axes() -> None:
    """Test that a write to a whole array through its transpose does not read the old elements."""
    x = wf.zeros((30, 40))
    x.T[...] = wf.asarray(A[:, :, 0])
    assert len(wf.explain(x).kernels) == 1 and "update" not in str(wf.explain(x))
    np.testing.assert_array_equal(x, A[:, :, 0].T)


@pytest.mark.parametrize("values", [A, A > 0.5, (A * 200).astype(np.uint8), A.astype(np.complex64)])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_positions_in_order(values: np.ndarray, axis: int | None) -> None:
    x = wf.asarray(values)
    for kind in (None, "stable"):
        found = wf.argsort(x, axis, kind=kind)
        np.testing.assert_array_equal(found, np.argsort(values, axis, kind=kind))
        found += 1  # (the result does not share its memory)
        np.testing.assert_array_equal(found, np.argsort(values, axis, kind=kind) + 1)


def test_results_of_numpys_functions_that_somebody_has_are_copied() -> None:
    """Test that a NumPy function's result is copied if it shares the memory of an argument that the caller still has.

    A write to the result must not change the argument.
    """
    given = np.arange(100_000.0)
    for function in (np.atleast_1d, np.squeeze, np.ascontiguousarray):
        found = call_numpy(function, (given,), {})
        found += 1
        assert given[0] == 0
    x = wf.asarray(np.arange(100_000.0))
    y = np.partition(x, 3)
    y[0] = -5
    assert float(x[0]) == 0 and float(y[0]) == -5


@pytest.mark.parametrize("immediate", [0, 1 << 20])
def test_memory_that_a_view_has_alone_is_taken_over(immediate: int) -> None:
    with override(immediate=immediate):
        x = wf.asarray(np.arange(24.0).reshape(4, 6))
        rolled = wf.roll(x, 1)
        part = rolled[1:]
        part += 100
        wanted = np.roll(np.arange(24.0).reshape(4, 6), 1)
        np.testing.assert_array_equal(x, np.arange(24.0).reshape(4, 6))
        wanted[1:] += 100
        np.testing.assert_array_equal(rolled, wanted)
        first, second = wf.nonzero(x > 3)
        first[0] = 7
        assert int(second[0]) == 4


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8])
@pytest.mark.parametrize("shape", [(255, 300), (3, 20_000), (40_000,)])
@pytest.mark.parametrize("kind", [None, "quicksort", "stable"])
def test_bytes_in_order(dtype: Any, shape: tuple[int, ...], kind: str | None) -> None:
    values = source.integers(-100, 100, shape).astype(dtype)
    for axis in range(values.ndim):
        np.testing.assert_array_equal(wf.sort(wf.asarray(values), axis, kind), np.sort(values, axis, kind))


SMALL: dict[str, Callable[[Any], Any]] = {
    "C order": lambda xp: xp.arange(24.0).reshape(2, 3, 4),
    "transposed": lambda xp: xp.arange(24.0).reshape(2, 3, 4).T,
    "permuted": lambda xp: xp.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "with gaps": lambda xp: xp.arange(24.0).reshape(4, 6).T[::2],
    "column": lambda xp: xp.arange(24.0).reshape(4, 6)[:, 1],
    "reversed": lambda xp: xp.arange(24.0)[::-1],
}
ORDERED: dict[str, Callable[[Any, Any, str], Any]] = {
    "copy": lambda xp, x, order: x.copy(order),
    "copy.copy": lambda xp, x, order: copy.copy(x),
    "flatten": lambda xp, x, order: x.flatten(order),
    "ravel": lambda xp, x, order: x.ravel(order=order),
    "reshape": lambda xp, x, order: xp.reshape(x, (2, -1), order=order.replace("K", "A")),
    "array": lambda xp, x, order: xp.array(x, order=order),
    "asarray": lambda xp, x, order: xp.asarray(x, order=order),
    "astype": lambda xp, x, order: x.astype(np.float32, order=order),
    "astype of the same dtype": lambda xp, x, order: x.astype(float, order=order, copy=False),
}


@pytest.mark.parametrize("immediate", [0, 16_384])
@pytest.mark.parametrize("order", "CFAK")
@pytest.mark.parametrize("function", ORDERED)
@pytest.mark.parametrize("form", SMALL)
def test_requested_orders(form: str, function: str, order: str, immediate: int) -> None:
    with override(immediate=immediate):
        x, a = SMALL[form](wf), SMALL[form](np)
        found, wanted = ORDERED[function](wf, x, order), ORDERED[function](np, a, order)
        np.testing.assert_array_equal(found, wanted, strict=True)
        assert found.strides == wanted.strides
        assert np.shares_memory(found, x) == np.shares_memory(wanted, a)


@pytest.mark.parametrize("function", ["copy", "copy.copy", "flatten", "ravel", "reshape", "array"])
@pytest.mark.parametrize("form", SMALL)
def test_small_copies_in_any_order_are_immediate(form: str, function: str) -> None:
    with override(immediate=16_384):
        for order in "CFAK":
            assert values_of(ORDERED[function](wf, SMALL[form](wf), order)) is not None
