"""Tests of call sites where NumPy executes operations immediately. Weft chooses this if a site's last result was not fused with other operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS
from weft.fusion import Epoch, statistics
from weft.fusion.record import evaluate, unfused_sites
from weft.runtime import default_device, override

IMMEDIATE = 1 << 14  # for these tests
N = 20_000


def _runs() -> int:
    counted = statistics()
    return counted["interpreted"] + counted["kernels"]


def _run_often(function: Callable[[Any], Any], x: Any, turns: int) -> tuple[list[bool], np.ndarray]:
    """Call a function `turns` times. Return a list of flags and the last result. A flag is True if weft executed the call, and False if NumPy did."""
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
        lambda x: np.where(x > 0.5, x, 0),
    ],
)
def test_operations_on_medium_sized_arrays_are_recorded(function: Callable[[Any], Any]) -> None:
    values = np.random.default_rng(1).random(N)
    evaluated, result = _run_often(function, wf.asarray(values), 4)
    assert all(evaluated)
    wanted = function(values)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2,
        lambda x: -x,
        lambda x: x**2,
        lambda x: x.astype(np.int32),
        lambda x: 1 / x,
        lambda x: np.sqrt(x),
        lambda x: np.clip(x, 0.2, 0.6),
        lambda x: np.diff(x),
        lambda x: np.round(x, 1),
        lambda x: np.tril(x.reshape(2, -1)),
        lambda x: np.linalg.norm(x.reshape(4, -1), axis=0),
        lambda x: np.linalg.norm(x.reshape(-1, 4), axis=-1, keepdims=True),
    ],
)
def test_operations_that_were_evaluated_alone_are_immediate(function: Callable[[Any], Any]) -> None:
    values = np.random.default_rng(1).random(2 * N)
    evaluated, result = _run_often(function, wf.asarray(values), 4)
    assert evaluated == [True, False, False, False]
    wanted = function(values)
    assert result.dtype == wanted.dtype and np.array_equal(result, wanted)


def test_a_recording_without_pending_values_contains_no_operation() -> None:
    epoch = Epoch(default_device())
    epoch.first = test_a_recording_without_pending_values_contains_no_operation.__code__, 0
    assert evaluate._operation_alone(epoch) is None


def test_the_operations_of_one_call_are_fused() -> None:
    """Test that weft fuses the operations inside ``np.nan_to_num``, although the result of each call is evaluated at once."""
    values = np.random.default_rng(1).normal(size=2 * N)
    evaluated, result = _run_often(np.nan_to_num, wf.asarray(values), 4)
    assert all(evaluated) and np.array_equal(result, values)


@pytest.mark.parametrize(
    ("interpret", "threads", "often", "size"),
    [("never", 2, True, 700_000), ("never", 1, False, 700_000), ("always", 2, False, 700_001)],
)
def test_kernels_compute_large_operations_again_once_they_are_compiled(
    interpret: str, threads: int, often: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfused_sites, "_seconds_per_element", lambda op, dtypes: 1e-10)
    values = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    with override(interpret=interpret, threads=threads):
        evaluated, result = _run_often(lambda x: x + x, wf.asarray(values), 4)
    assert evaluated == [True, often, often, often] and np.array_equal(result, values + values)


@pytest.mark.parametrize(("seconds", "often"), [(1e-6, True), (1e-10, False)])
def test_kernels_compute_medium_sized_operations_that_numpy_computes_slowly(
    seconds: float, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfused_sites, "_seconds_per_element", lambda op, dtypes: seconds)
    values = np.random.default_rng(1).random(4 * N)
    with override(interpret="never", threads=1):
        evaluated, result = _run_often(lambda x: -x, wf.asarray(values), 4)
    assert evaluated == [True, often, often, often] and np.array_equal(result, -values)


def test_the_time_of_numpys_loops_is_known_for_each_op_and_dtype() -> None:
    ops = ["sin", "add", "logical_not", "left_shift", "negative"]
    for op, kind in itertools.product(ops, "?bBhHiIlLefdFD"):
        seconds = unfused_sites._seconds_per_element(op, (np.dtype(kind),) * OPS[op].arity)
        try:
            getattr(np, op)(*[np.ones(1, kind)] * OPS[op].arity)
        except TypeError:
            assert seconds == 0
        else:
            assert seconds > 0
    assert unfused_sites._seconds_per_element("where", (np.dtype(bool), np.dtype(float), np.dtype(float))) == 0


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


def test_a_kernel_is_awaited_with_tries_after_equal_numbers_of_calls() -> None:
    values = np.random.default_rng(1).integers(0, 256, 700_002, np.uint8)
    with override(interpret="always", threads=2):
        evaluated, _ = _run_often(lambda x: x + x, wf.asarray(values), 110)
    assert np.flatnonzero(evaluated).tolist() == [0, 33, 66, 99]


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
