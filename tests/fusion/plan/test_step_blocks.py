"""Tests of temporal blocking with GPU schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.plan import test_time_steps as steps
from weft.codegen import GPU
from weft.codegen.schedules.writer import ThreadWriter
from weft.dsl.kernel.sanitizer.sanitized_launch import SanitizerError
from weft.fusion.plan import plan_cache, step_blocks, time_steps
from weft.fusion.run import execute


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Merge up to five steps per kernel, whatever the cost. Blocks are small, so that small arrays have many blocks."""
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**6))
    monkeypatch.setitem(vars(GPU), "steps_bytes", 0)
    monkeypatch.setattr(step_blocks, "LEAST_FILLS", 0)
    monkeypatch.setitem(vars(GPU), "steps", (5,))
    monkeypatch.setattr(step_blocks, "MANY_PARTS", 12)
    monkeypatch.setattr(step_blocks, "TILES", {1: ((64,),), 2: ((16, 16),)})
    execute._plans.clear()
    plan_cache._known.clear()
    yield


def centred(u: Any, k: Any) -> Any:
    """Apply a five-point stencil to the array `u` three times. Multiply each result by an element of the array `k`, and add half of a row of `k`."""
    for _ in range(3):
        u[1:-1, 1:-1] = k[1:-1, 1:-1] * steps._five_points(u) + 0.5 * k[0, 1:-1]
    return u


def brief(u: Any) -> Any:
    for _ in range(2):
        u[1:-1, 1:-1, 1:-1] = u[1:-1, 1:-1, 1:-1] + 0.5 * (u[:-2, 1:-1, 2:] - u[1:-1, :-2, 1:-1])
    return u


def pieces(u: Any) -> Any:
    """Update an array with an intermediate value that is assembled from several parts."""
    for _ in range(3):
        u[1:-1, 1:-1] = steps._five_points(u)
        w = u[1:-1, 1:-1] * 2
        w[0] = 1
        w[:, -1] = w[:, -2]
        u[2:-2, 2:-2] = steps._five_points(w)
    return u


def handed_on(u: Any) -> Any:
    """Update an array twice. Return the array, and a value that is computed from its updated points."""
    for _ in range(2):
        u[1:-1, 1:-1] = steps._five_points(u)
    return u, u[1:-1, 1:-1] * 2


def from_wider(u: Any, v: Any) -> Any:
    """Update an array of 64 columns from a wider array. A tile does not contain all columns that are read."""
    u = u[:, :64].copy()
    for _ in range(3):
        u[1:-1, 1:-1] = steps._five_points(u) + v[1:-1, 1:63] + v[1:-1, 5:67]
    return u


def _leaning(u: Any) -> Any:
    for _ in range(3):
        u[1:-1, 2:-2] = 0.5 * u[1:-1, 2:-2] + u[2:, 4:] - u[:-2, :-4]
    return u


def closed_row(u: Any) -> Any:
    for _ in range(4):
        u[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[0] = u[1]
        u[-1] = 1
    return u


CASES: list[tuple[Callable[..., Any], tuple[int, ...], int, Any]] = [
    (steps.jacobi, (67, 183), 1, "f4"),
    (steps.jacobi, (5, 9), 1, "f8"),
    (steps.diffusion, (300,), 1, "f4"),
    (steps.diffusion, (3,), 1, "f4"),
    (steps.heat, (20, 30, 40), 1, "f4"),
    (steps.heat, (5, 33, 7), 1, "i4"),
    (steps.alternating, (40, 130), 2, "f8"),
    (steps.wave, (40, 80), 3, "f4"),
    (steps.gray_scott, (40, 130), 2, "f4"),
    (steps.far, (30, 180), 1, "f4"),
    (steps.shrinking, (67, 200), 1, "f4"),
    (steps.upwind, (30, 200), 1, "f4"),
    (steps.fixed_walls, (30, 80), 1, "f4"),
    (steps.watched, (30, 80), 1, "f4"),
    (centred, (40, 130), 2, "f4"),
    (steps.closed, (30, 130), 1, "f4"),
    (closed_row, (300,), 1, "f4"),
    (pieces, (20, 90), 1, "f4"),
    (handed_on, (20, 90), 1, "f4"),
    (from_wider, (20, 84), 2, "f4"),
    (steps.jacobi, (30, 80), 1, "c8"),
    (steps.jacobi, (30, 80), 1, "f2"),
]


def _check(program: Callable[..., Any], shape: tuple[int, ...], count: int, dtype: Any, device: str) -> None:
    rng = np.random.default_rng(sum(shape))
    given = [(rng.random(shape) * (100 if dtype == "i4" else 1)).astype(dtype) for _ in range(count)]
    wanted = steps._listed(program(*(x.copy() for x in given)))
    with wf.device(device):
        found = steps._listed(program(*(wf.asarray(x).copy() for x in given)))
        if min(shape) > 4:
            assert "time steps in one kernel" in str(wf.explain(*found))
        wf.evaluate(*found)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


@pytest.mark.parametrize(("program", "shape", "count", "dtype"), CASES)
def test_same_bits_as_step_by_step(program: Callable[..., Any], shape: tuple[int, ...], count: int, dtype: Any) -> None:
    _check(program, shape, count, dtype, "simt")


@pytest.mark.parametrize("device", ["simt::backward", "simt::sanitized"])
@pytest.mark.parametrize(
    ("program", "shape", "count"),
    [(steps.jacobi, (6, 70), 1), (steps.diffusion, (90,), 1), (steps.closed, (7, 40), 1), (brief, (4, 9, 12), 1)],
)
def test_threads_do_not_get_in_each_others_way(
    program: Callable[..., Any], shape: tuple[int, ...], count: int, device: str
) -> None:
    _check(program, shape, count, "f4", device)


@pytest.mark.parametrize("fault", ["no barrier", "too early", "too narrow"])
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = step_blocks.set_lags, step_blocks._set_blocks

    def hasty(blocked: Any, apart: int) -> None:
        real[0](blocked, apart)
        for number, step in enumerate(blocked.steps):
            step.lag -= number + 1

    def narrow(blocked: Any) -> bool:
        found = real[1](blocked)
        blocked.margin = tuple(m - 1 for m in blocked.margin)
        return found

    if fault == "no barrier":
        monkeypatch.setattr(ThreadWriter, "barrier", lambda self: None)
    elif fault == "too early":
        monkeypatch.setattr(step_blocks, "set_lags", hasty)
    else:
        monkeypatch.setattr(step_blocks, "_set_blocks", narrow)

    def halves(u: Any) -> Any:  # a separate kernel, since cached kernels were compiled without the fault
        for _ in range(2):
            u[1:-1, 1:-1] = 0.4375 * (u[:-2, 1:-1] + u[1:-1, 2:])
        return u

    with pytest.raises((SanitizerError, AssertionError)):
        _check(halves, (5, 90), 1, "f4", "simt::sanitized")


@pytest.mark.usefixtures("cold_cache")
def test_a_third_size_compiles_nothing() -> None:
    def run(rows: int, columns: int) -> None:
        _check(steps.jacobi, (rows, columns), 1, "f8", "simt")

    run(100, 220)
    run(110, 230)
    before = wf.statistics()["compilations"]
    run(140, 250)
    assert wf.statistics()["compilations"] == before


def test_plans_are_found_again_at_other_lengths() -> None:
    def run(rows: int, columns: int) -> int:
        _check(_leaning, (rows, columns), 1, "f4", "simt")
        # (plans for exact sizes are stored together with plans for any sizes)
        return sum(record.exact is None for record in plan_cache._known[next(reversed(plan_cache._known))].templates)

    for lengths in (50, 60), (52, 66):
        run(*lengths)
    found = run(57, 70)
    assert found <= 2  # one of them is for special sizes
    assert run(80, 95) == found


def _seen(shape: tuple[int, ...], iterations: int = 10, dtype: Any = "f4") -> wf.Explanation:
    """Record a Jacobi iteration on the `simt` device, and return the result of ``wf.explain``. The number of steps is `iterations`."""
    with wf.device("simt"):
        u = wf.zeros(shape, dtype)
        wf.evaluate(u)
        for _ in range(iterations):
            u[1:-1, 1:-1] = steps._five_points(u)
        return wf.explain(u)


def test_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _seen((64, 80), 5)
    (kernel,) = found.kernels
    assert "5 time steps in one kernel" in kernel.title
    assert "in shared memory, a few rows of each" in str(found)
    assert (kernel.bytes_read, kernel.bytes_written, kernel.saved) == (64 * 80 * 4, 64 * 80 * 4, 4 * 2 * 64 * 80 * 4)


def test_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert len(_seen((4096, 4096)).kernels) <= 3
    assert len(_seen((512, 512)).kernels) == 10, "what the second cache holds"


def test_borders_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with wf.device("simt"):
        u = wf.zeros((4096, 4096), np.float32)
        wf.evaluate(u)
        assert len(wf.explain(steps.fixed_walls(u)).kernels) < 4


def test_shared_memory_is_what_every_gpu_gives() -> None:
    with wf.device("simt"):
        u = wf.zeros((300, 300, 300), np.float64)
        wf.evaluate(u)
        kernels = wf.explain(steps.heat(u), stage="threaded")
        held = [int(n) for n in re.findall(r"ptr<float64,shared> = shared\(\) count=(\d+)", str(kernels))]
        assert held and max(held) * 8 <= 48 << 10
