"""Tests of loops over single elements of a large array. After a few iterations, the operations run immediately instead of being recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import host_values
from weft.fusion import recording
from weft.runtime import override

LENGTH, ITERATIONS = 100_000, 64


def chain(x: Any) -> None:
    for k in range(1, ITERATIONS):
        x[k] = x[k - 1] * 0.5 + 1


def swaps(x: Any) -> None:
    for k in range(ITERATIONS):
        x[k], x[-k - 1] = x[-k - 1], x[k]


def rows(x: Any) -> None:
    grid = x.reshape(-1, 100)
    for k in range(1, ITERATIONS):
        grid[k, 3] = grid[k - 1, 3] + 1


def strided(x: Any) -> None:
    other = x[::2]
    for k in range(1, ITERATIONS):
        other[k] = x[k] + 1


def shrinking(x: Any) -> None:
    for _ in range(ITERATIONS):
        middle = len(x) // 2
        x[middle], x[-2] = x[-2], x[middle]
        x = x[:-2]


def cleared(x: Any) -> None:
    for k in range(2, ITERATIONS):
        x[k * k :: k * k * k] = 0


STARTS: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda np: np.zeros(LENGTH),
    "pending": lambda np: np.arange(LENGTH) * 1.0 + 1.5,
    "copy": lambda np: np.asarray(np.arange(LENGTH) * 1.0).copy(),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("loop", [chain, swaps, rows, strided, shrinking, cleared])
def test_a_loop_over_elements_of_a_large_array_soon_runs_immediately(loop: Callable[[Any], None], start: str) -> None:
    expected = STARTS[start](np)
    loop(expected)
    with wf.device("cpu"), override(immediate=16384):
        x = STARTS[start](wf)
        loop(x)
        assert recording.epoch is None or not recording.epoch.live()
        np.testing.assert_array_equal(np.asarray(x), expected)


def test_reads_of_elements_of_a_pending_array_soon_run_immediately() -> None:
    order = np.random.default_rng(0).permutation(LENGTH)
    with wf.device("cpu"), override(immediate=16384):
        x = wf.arange(LENGTH) * 1.5
        total: Any = 0.0
        for k in range(ITERATIONS):
            total = total + x[order[k]]
        assert recording.epoch is None or not recording.epoch.live()
        assert float(total) == sum(order[:ITERATIONS].tolist()) * 1.5


def test_a_search_in_a_large_array_runs_immediately() -> None:
    with wf.device("cpu"), override(immediate=16384):
        x = wf.asarray(np.linspace(0, 1, LENGTH))
        found = wf.searchsorted(x, 0.25), x.searchsorted([0.0, 0.5])
        assert recording.epoch is None or not recording.epoch.live()
        np.testing.assert_array_equal(np.asarray(found[0]), np.linspace(0, 1, LENGTH).searchsorted(0.25))
        np.testing.assert_array_equal(np.asarray(found[1]), [0, LENGTH // 2])


def test_a_write_at_a_pending_position_evaluates_the_position() -> None:
    values = np.random.default_rng(1).random(LENGTH)
    with wf.device("cpu"), override(immediate=16384):
        x = wf.asarray(values.copy()) * 1.0
        found = []
        for _ in range(ITERATIONS):
            found.append(x.argmax())
            x[found[-1]] = -1
        assert recording.epoch is None or not recording.epoch.live()
        assert [int(each) for each in found] == np.argsort(-values)[:ITERATIONS].tolist()


def test_a_step_that_was_computed_from_a_large_array_is_used_as_a_number() -> None:
    def integrate(np: Any) -> Any:
        t, y = np.linspace(0, 10, LENGTH), np.zeros((LENGTH, 2))
        y[0] = (1, 0)
        h = t[1] - t[0]
        for i in range(ITERATIONS):
            y[i + 1] = y[i] + h * np.array([y[i, 1], -y[i, 0]])
        return y

    with wf.device("cpu"), override(immediate=16384):
        y = integrate(wf)
        assert recording.epoch is None or not recording.epoch.live()
        np.testing.assert_array_equal(np.asarray(y), integrate(np))


def test_an_interpolation_in_a_large_table_runs_immediately() -> None:
    values = np.linspace(0, 1, LENGTH)
    with wf.device("cpu"), override(immediate=16384):
        x = wf.asarray(values)
        found = wf.interp(0.3, x, x * 2)
        wf.evaluate(found)
        assert wf.interp(0.3, x, wf.asarray(values**2)) == np.interp(0.3, values, values**2)
        assert recording.epoch is None or not recording.epoch.live()


@pytest.mark.parametrize("transposed", [False, True])
def test_copies_that_are_read_have_memory_of_their_own(transposed: bool) -> None:
    """Test that `x.copy()` copies the elements once, and shares no memory with `x`.

    A kernel copies the elements if the memory order changes.
    """
    values = np.arange(90_000.0).reshape(300, 300)
    whole = wf.evaluate(wf.asarray(values))
    x, wanted = (whole.T, values.T) if transposed else (whole, values)
    fetch = mock.patch.object(type(whole.device), "fetch", autospec=True, side_effect=type(whole.device).fetch)
    with override(immediate=1 << 14), fetch as fetched:
        copied = x.copy()
        assert np.array_equal(copied[3], wanted[3]) and fetched.call_count == (not transposed)
    copied[3, 4] = -1
    assert np.array_equal(x, wanted)


def test_small_operands_of_a_large_operation_do_not_end_a_run() -> None:
    values = np.random.default_rng(2).integers(0, 9, (200, 200))
    with wf.device("cpu"), override(immediate=16384):
        x = (wf.asarray(values) + 1) * 2
        with mock.patch.object(host_values, "end_small_run") as end:
            found = wf.add.outer(x[:, 3], x[5])
        assert x._storage.expr is not None
        assert not end.called
        np.testing.assert_array_equal(np.asarray(found), 2 * (2 + np.add.outer(values[:, 3], values[5])))
