"""Tests of call sites that leave calls to NumPy, since the results of earlier calls were not fused with anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import statistics
from weft.runtime import override

IMMEDIATE = 1 << 14  # for these tests
N = 20_000


def _runs() -> int:
    counted = statistics()
    return counted["interpreted"] + counted["kernels"]


def _run_often(function: Callable[[Any], Any], x: Any, turns: int) -> tuple[list[bool], np.ndarray]:
    """Call a function `turns` times. Return whether weft, not NumPy, computed each call, and the last result."""
    found, result = [], np.empty(0)
    for _ in range(turns):
        before = _runs()
        result = np.array(function(x))
        found.append(_runs() > before)
    return found, result


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x < 0.5).sum(),
        lambda x: x * 2 + 1,
        lambda x: np.clip(x, 0.2, 0.6),
        lambda x: np.where(x > 0.5, x, 0),
        lambda x: np.diff(x),
    ],
)
def test_operations_on_medium_sized_arrays_are_recorded(function: Callable[[Any], Any]) -> None:
    values = np.random.default_rng(1).random(N)
    evaluated, result = _run_often(function, wf.asarray(values), 4)
    assert all(evaluated)
    wanted = function(values)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)


@pytest.mark.parametrize("function", [lambda x: x * 2, lambda x: -x, lambda x: x**2, lambda x: x.astype(np.int32)])
def test_cheap_operations_that_were_evaluated_alone_are_immediate(function: Callable[[Any], Any]) -> None:
    values = np.random.default_rng(1).random(4 * N)
    evaluated, result = _run_often(function, wf.asarray(values), 4)
    assert evaluated == [True, False, False, False]
    wanted = function(values)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)


@pytest.mark.parametrize(
    ("interpret", "threads", "often", "size"),
    [("never", 2, True, 700_000), ("never", 1, False, 700_000), ("always", 2, False, 700_001)],
)
def test_kernels_compute_large_operations_again_once_they_are_compiled(
    interpret: str, threads: int, often: bool, size: int
) -> None:
    values = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    with override(interpret=interpret, threads=threads):
        evaluated, result = _run_often(lambda x: -x, wf.asarray(values), 4)
    assert evaluated == [True, often, often, often] and np.array_equal(result, -values)


def test_numbers_and_named_arguments_need_no_array() -> None:
    for function in (wf.sum, wf.mean, wf.max):
        assert float(function(a=[2, 2, 2])) in (2.0, 6.0) and float(function(2.5)) == 2.5
    x = wf.ones(3)
    assert wf.array_equal(a1=x, a2=x)
    with pytest.raises(TypeError):
        wf.array_equal()


def test_counts_and_searches_of_medium_sized_arrays_are_immediate() -> None:
    k = np.random.default_rng(2).integers(0, 100, N)
    table = np.linspace(0, 100, 80)
    for function in (np.bincount, lambda x: np.searchsorted(table, x)):
        evaluated, result = _run_often(function, wf.asarray(k), 2)
        assert not any(evaluated) and np.array_equal(result, function(k))


def test_fusion_is_tried_less_often_after_each_try_in_vain() -> None:
    evaluated, _ = _run_often(lambda x: -x, wf.asarray(np.random.default_rng(1).random(4 * N)), 250)
    assert np.flatnonzero(evaluated).tolist() == [0, 33, 98, 227]


def test_a_site_is_forgotten_if_its_value_is_fused_when_fusion_is_tried() -> None:
    x, found = wf.asarray(np.random.default_rng(1).random(4 * N)), []
    for turn in range(120):
        before = _runs()
        y = -x
        if turn in (33, 34):
            y = y + x  # (the first two tries)
        np.array(y)
        found.append(_runs() > before)
    assert np.flatnonzero(found).tolist() == [0, 33, 34, 35, 68]
