"""Call sites at which NumPy executes medium-sized operations, because an evaluation takes longer."""

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
