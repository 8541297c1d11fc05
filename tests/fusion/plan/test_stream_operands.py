"""Tests of kernels that draw random numbers instead of reading them from memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.plan.test_plan_store import counts, forget
from weft.fusion.run import execute, run_plan
from weft.runtime import override

pytestmark = pytest.mark.cpu

N = 40_000


def work(program: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Return the results of a program with weft and with NumPy."""
    found = program(wf, wf.random.default_rng(3))
    wf.evaluate(found)
    return np.asarray(found), program(np, np.random.default_rng(3))


def moved(program: Callable[[Any, Any], Any]) -> int:
    """Check the results of a program, and return the number of bytes that its kernels move."""
    found, expected = work(program)
    np.testing.assert_array_equal(found, expected)
    wf.reset_statistics()
    work(program)
    return wf.statistics()["bytes"]


def test_a_kernel_draws_what_it_reads() -> None:
    assert moved(lambda m, rng: rng.random(N) * 2) == 8 * N
    assert moved(lambda m, rng: rng.random(N) * rng.random(N)) == 8 * N
    assert moved(lambda m, rng: (rng.random((200, 300)) <= 0.5).sum(axis=1)) == 8 * 200


def test_two_kernels_draw_the_same_numbers() -> None:
    def program(m: Any, rng: Any) -> Any:
        x = rng.random(20 * N)
        return (x <= x.max() / 2).sum()

    assert moved(program) < 8 * N


def test_numbers_in_memory() -> None:
    assert moved(lambda m, rng: m.diff(rng.random(N))) >= 16 * (N - 1)
    assert moved(lambda m, rng: rng.random(N)[::-1] * 2) >= 16 * N

    def kept(m: Any, rng: Any) -> Any:
        x = rng.random(N)
        y = x * 2
        if m is wf:
            wf.evaluate(x, y)
        return y

    assert moved(kept) == 16 * N


def test_a_variable_does_not_keep_numbers_in_memory() -> None:
    rng, theirs = wf.random.default_rng(3), np.random.default_rng(3)
    x, expected = rng.random(N), theirs.random(N)
    float((x * 2).max())
    wf.reset_statistics()
    assert float((x * 2).max()) == (expected * 2).max()
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_a_plan_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = lambda m, rng: rng.random(N) * rng.standard_normal(N) <= 1  # noqa: E731
    with override(plans=True, cache_dir=str(tmp_path / "cache")):
        (found, expected), made, read = counts(lambda: work(program))
        np.testing.assert_array_equal(found, expected)
        assert (made, read) == (1, 0)
        forget(monkeypatch)
        (found, expected), made, read = counts(lambda: work(program))
        np.testing.assert_array_equal(found, expected)
        assert (made, read) == (0, 1)
        (plan,) = execute._plans.values()
        assert any(getattr(step, "streams", ()) for step in plan.steps)


def test_other_sizes_use_the_same_plan() -> None:
    for n in (N, N + 1, 2 * N + 7, 3 * N):
        program = lambda m, rng, n=n: rng.normal(1.0, 2.0, n) + rng.random(n)  # noqa: E731
        found, expected = work(program)
        np.testing.assert_array_equal(found, expected)
    before = wf.statistics()["compilations"]
    found, expected = work(lambda m, rng: rng.normal(1.0, 2.0, 5 * N) + rng.random(5 * N))
    np.testing.assert_array_equal(found, expected)
    assert wf.statistics()["compilations"] == before


def test_a_name_for_numbers_keeps_no_other_memory() -> None:
    rng, theirs = wf.random.default_rng(3), np.random.default_rng(3)
    held: list[int] = []
    gc.disable()  # (an epoch and its pending values refer to each other)
    try:
        for _ in range(6):
            x, expected = rng.random(N), theirs.random(N)
            y = wf.asarray(np.ones(N)) * wf.sqrt(x)
            wf.evaluate(y)
            np.testing.assert_array_equal(np.asarray(y), np.sqrt(expected))
            held.append(wf.memory.info().held)
    finally:
        gc.enable()
    assert max(held[2:]) == held[1]
    assert float((x * 2).max()) == (expected * 2).max()
    np.testing.assert_array_equal(np.asarray(x), expected)


def test_an_interrupt_after_a_stream_was_set_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, theirs = wf.random.default_rng(3), np.random.default_rng(3)
    x, other = rng.random(N), theirs.random(N)
    y = x * 2
    found: list[Any] = []
    original = run_plan.execute

    def again(plan: Any, epoch: Any, assign_results: Any, shown: bool) -> None:
        def twice(plan: Any, table: Any) -> None:
            assign_results(plan, table)
            found.append(x._storage.epoch)
            assign_results(plan, table)

        original(plan, epoch, twice, shown)

    monkeypatch.setattr(run_plan, "execute", again)
    wf.evaluate(y)
    assert found and x._storage.epoch is found[0]
    np.testing.assert_array_equal(np.asarray(x), other)
    np.testing.assert_array_equal(np.asarray(y), other * 2)
