"""Tests of call sites at which NumPy executes operations, because an evaluation takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import statistics
from weft.fusion.record import cheap_sites

IMMEDIATE = 1 << 14  # for these tests
N = 20_000


def _runs() -> int:
    counted = statistics()
    return counted["interpreted"] + counted["kernels"]


def _run_often(function: Callable[[Any], Any], x: Any, turns: int) -> tuple[list[bool], np.ndarray]:
    """Return whether each of several calls of a function was evaluated by weft, and the last result."""
    found, result = [], np.empty(0)
    for _ in range(turns):
        before = _runs()
        result = np.array(function(x))
        found.append(_runs() > before)
    return found, result


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,
        lambda x: 2 - x,
        lambda x: -x,
        lambda x: x > 0.5,
        lambda x: np.floor(x),
        lambda x: wf.maximum(x, 0.5),
        lambda x: x * x + 1,
        lambda x: (x < 0.5).sum(),
        lambda x: x**2,
        lambda x: x.astype(np.int32),
        lambda x: np.clip(x, 0.2, 0.6),
        lambda x: np.where(x > 0.5, x, 0),
        lambda x: np.diff(x),
    ],
)
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_cheap_operation_that_is_evaluated_alone_is_executed_immediately(
    function: Callable[[Any], Any], kind: str
) -> None:
    values = np.random.default_rng(1).random(N).astype(kind)
    evaluated, result = _run_often(function, wf.asarray(values), 4)
    assert evaluated == [True, False, False, False]
    wanted = function(values)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)


def test_fusion_is_tried_again_after_some_calls() -> None:
    def double(x: Any) -> Any:
        return x * 2

    evaluated, _ = _run_often(double, wf.ones(N), 2 * cheap_sites.CALLS + 3)
    again = cheap_sites.CALLS + 1
    assert [k for k, each in enumerate(evaluated) if each] == [0, again, 2 * again]


@pytest.mark.parametrize(
    ("function", "size"),
    [
        (lambda x: np.sin(x), N),  # NumPy takes longer than an evaluation
        (lambda x: ((x + 1) * x - 3) / (x + 2), N),  # many operations
        (lambda x: x * 2, 1 << 20),
        (lambda x: np.cumsum(x), N),
    ],
)
def test_other_operations_are_recorded(function: Callable[[Any], Any], size: int) -> None:
    assert _run_often(function, wf.ones(size), 4)[0] == [True] * 4


def test_an_operation_that_fuses_is_recorded_again() -> None:
    def double(x: Any) -> Any:
        return x * 2

    x = wf.ones(N)
    for _ in range(cheap_sites.CALLS + 1):
        np.asarray(double(x))
    for _ in range(8):  # (the first evaluation finds that the operations take NumPy longer)
        result = wf.exp(wf.sin(double(x)) + wf.cos(x))
        np.asarray(result)
    assert double(x)._storage.epoch is not None


def test_draws_that_nothing_uses_are_drawn_immediately() -> None:
    ours, theirs = wf.random.default_rng(3), np.random.default_rng(3)
    for k in range(4):
        drawn = ours.random(N)
        assert (drawn._storage.epoch is None) == (k > 0)
        assert np.array_equal(np.asarray(drawn), theirs.random(N))


def test_numbers_and_named_arguments_need_no_array() -> None:
    for function in (wf.sum, wf.mean, wf.max):
        assert float(function(a=[2, 2, 2])) in (2.0, 6.0) and float(function(2.5)) == 2.5
    x = wf.ones(3)
    assert wf.array_equal(a1=x, a2=x)
    with pytest.raises(TypeError):
        wf.array_equal()


def test_no_warning_appears_when_a_line_runs_immediately() -> None:
    def invert(x: Any) -> Any:
        return 1 / x

    with np.errstate(all="raise"):
        evaluated, _ = _run_often(invert, wf.zeros(N) * 1, 3)
    assert evaluated == [True, False, False]


def test_counts_and_searches_of_medium_sized_arrays_are_immediate() -> None:
    k = np.random.default_rng(2).integers(0, 100, N)
    table = np.linspace(0, 100, 80)
    for function in (np.bincount, lambda x: np.searchsorted(table, x)):
        evaluated, result = _run_often(function, wf.asarray(k), 2)
        assert not any(evaluated) and np.array_equal(result, function(k))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize(("shape", "axis"), [((200, 100), 0), ((100, 200), 1), ((20, 10, 100), -1), ((20, 10, 100), 1)])
def test_rows_are_reduced_immediately_in_the_order_of_a_kernel(name: str, shape: tuple[int, ...], axis: int) -> None:
    for kind in ("f4", "f8"):
        x = wf.asarray((np.random.default_rng(4).normal(size=shape)).astype(kind))
        cheap_sites.CHEAP.clear()
        results = []
        for k in range(3):
            before = _runs()
            results.append(np.array(getattr(x, name)(axis=axis)))
            assert (_runs() > before) == (k == 0)
        assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
