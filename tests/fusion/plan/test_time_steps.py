"""Tests of temporal blocking on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import CPU
from weft.fusion.plan import plan_cache, time_steps
from weft.fusion.run import execute


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Merge up to five steps per kernel, whatever the cost. Blocks are small, so that small arrays have many blocks."""
    monkeypatch.setitem(vars(CPU), "steps_bytes", 0)
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**6))
    monkeypatch.setitem(vars(CPU), "steps", (5,))
    monkeypatch.setattr(time_steps, "MANY_PARTS", 3)
    monkeypatch.setattr(time_steps, "WIDTHS", (16, 48))
    execute._plans.clear()
    plan_cache._known.clear()
    with wf.device("cpu"):
        yield


def _five_points(u: Any) -> Any:
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def jacobi(u: Any) -> Any:
    for _ in range(5):
        u[1:-1, 1:-1] = _five_points(u)
    return u


def diffusion(u: Any) -> Any:
    for _ in range(5):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def heat(u: Any) -> Any:
    for _ in range(5):
        c = u[1:-1, 1:-1, 1:-1]
        around = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
        u[1:-1, 1:-1, 1:-1] = c + 0.1 * (around + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * c)
    return u


def alternating(u: Any, v: Any) -> Any:
    for _ in range(5):
        v[1:-1, 1:-1] = _five_points(u)
        u, v = v, u
    return u, v


def wave(before: Any, now: Any, after: Any) -> Any:
    for _ in range(10):
        after[1:-1, 1:-1] = 2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * (_five_points(now) - now[1:-1, 1:-1])
        before, now, after = now, after, before
    return before, now, after


def gray_scott(u: Any, v: Any) -> Any:
    for _ in range(5):
        a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
        new = a + 0.16 * (_five_points(u) - a) - a * b * b + 0.06 * (1 - a)
        v[1:-1, 1:-1] = b + 0.08 * (_five_points(v) - b) + a * b * b - 0.12 * b
        u[1:-1, 1:-1] = new
    return u, v


def far(u: Any) -> Any:
    for _ in range(5):
        u[2:-2, 3:-3] = 0.2 * (u[:-4, 3:-3] + u[4:, 3:-3] + u[2:-2, :-6] + u[2:-2, 6:] + u[2:-2, 3:-3])
    return u


def shrinking(u: Any) -> Any:
    for _ in range(5):
        u = _five_points(u)
    return u


def upwind(u: Any) -> Any:
    for _ in range(5):
        u[1:, :-1] = u[1:, :-1] - 0.3 * (u[1:, :-1] - u[:-1, 1:])
    return u


def fixed_walls(u: Any) -> Any:
    for _ in range(5):
        u[1:-1, 1:-1] = _five_points(u)
        u[:, -1] = u[:, -2]
        u[0, :] = u[1, :]
        u[-1, :] = 0
    return u


def closed(u: Any) -> Any:
    """Update an array with reflecting borders, which are written in place after each step."""
    for _ in range(4):
        u[1:-1, 1:-1] = _five_points(u)
        u[-1, :] = u[-2, :]
        u[:, 0] = u[:, 1]
        u[0, :] = u[1, :]
        u[:, -1] = u[:, -3]
        u[3, 2:7] *= 0.5
    return u


def damped(u: Any) -> Any:
    """Update an array with steps that overwrite the elements that they read. No point may be computed twice."""
    for _ in range(2):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - u[:-2])
        u[0] = u[2]
        u[1:-1] = 1.5 * u[1:-1]
    return u[1:] * 2


def watched(u: Any) -> Any:
    found = []
    for _ in range(5):
        u[1:-1, 1:-1] = _five_points(u)
        found.append(u[::2] * 2)
    return (u, *found)


def changed(u: Any) -> Any:
    """Subtract the array after the first time step from the array after the last time step."""
    for turn in range(4):
        u[1:-1, 1:-1] = _five_points(u)
        if turn == 0:
            first = u.copy()
    return u[2:-2, 2:-2] - first[2:-2, 2:-2]


def narrower(u: Any) -> Any:
    """Apply four time steps to the array `u`. Return `u` and ``u[:, :-2] * 2``."""
    for _ in range(4):
        u[1:-1, 1:-1] = _five_points(u)
    return u, u[:, :-2] * 2


CASES = [
    (jacobi, [(67, 83), (5, 9), (40, 700), (3, 300)], 1),
    (diffusion, [(100,), (5000,), (3,)], 1),
    (heat, [(20, 30, 40), (9, 33, 130), (30, 5, 70)], 1),
    (alternating, [(67, 80)], 2),
    (wave, [(67, 80), (40, 300)], 3),
    (gray_scott, [(67, 80)], 2),
    (far, [(67, 80), (5, 300)], 1),
    (shrinking, [(67, 200)], 1),
    (upwind, [(67, 80), (30, 400)], 1),
    (fixed_walls, [(67, 80)], 1),
    (closed, [(67, 80), (7, 300)], 1),
    (damped, [(3000,)], 1),
    (watched, [(67, 80)], 1),
    (changed, [(67, 83)], 1),
    (narrower, [(67, 83)], 1),
]


def _listed(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


ALL = [(program, shape, count, np.float32) for program, shapes, count in CASES for shape in shapes]


@pytest.mark.parametrize(
    ("program", "shape", "count", "dtype"), [*ALL, (jacobi, (67, 83), 1, np.float64), (heat, (9, 33, 70), 1, np.int32)]
)
def test_same_bits_as_step_by_step(program: Callable[..., Any], shape: tuple[int, ...], count: int, dtype: Any) -> None:
    rng = np.random.default_rng(sum(shape))
    given = [(rng.random(shape) * (100 if dtype == np.int32 else 1)).astype(dtype) for _ in range(count)]
    wanted = _listed(program(*(x.copy() for x in given)))
    found = _listed(program(*(wf.asarray(x).copy() for x in given)))
    if min(shape) > 4:
        assert "time steps in one kernel" in str(wf.explain(*found))
    wf.evaluate(*found)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)


def test_explained() -> None:
    u = wf.asarray(np.zeros((64, 80), np.float32)).copy()
    wf.evaluate(u)
    (kernel,) = wf.explain(jacobi(u)).kernels
    assert "5 time steps in one kernel" in kernel.title
    assert kernel.saved == 4 * 2 * 64 * 80 * 4
    assert (kernel.bytes_read, kernel.bytes_written) == (64 * 80 * 4, 64 * 80 * 4)


def test_what_fits_into_a_cache_stays_a_kernel_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(CPU), "steps_bytes", 4 << 20)
    u = wf.asarray(np.zeros((64, 80), np.float32)).copy()
    wf.evaluate(u)
    assert len(wf.explain(jacobi(u)).kernels) == 5


def test_large_arrays_are_joined_by_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    u = wf.zeros((1024, 2048), np.float32)
    wf.evaluate(u)
    assert len(wf.explain(jacobi(u)).kernels) == 1


def test_borders_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that a loop over steps writes borders in place, so that all steps are one kernel."""
    monkeypatch.undo()
    u = wf.zeros((1024, 2048), np.float32)
    wf.evaluate(u)
    for _ in range(4):
        u[1:-1, 1:-1] = _five_points(u)
        u[0], u[-1] = u[1], u[-2]
        u[:, 0], u[:, -1] = u[:, 1], u[:, -2]
    assert len(wf.explain(u).kernels) == 1


def test_steady_loops_take_no_new_memory() -> None:
    u = wf.asarray(np.ones((200, 300), np.float32)).copy()
    held = []
    for _ in range(5):
        jacobi(u)
        wf.evaluate(u)
        held.append(wf.memory.info().held + wf.memory.info().kept)
    assert held[1:] == held[1:2] * 4


@pytest.mark.usefixtures("cold_cache")
def test_a_new_length_compiles_nothing() -> None:
    def run(rows: int, columns: int) -> None:
        u = wf.asarray(np.ones((rows, columns), np.float32)).copy()
        wf.evaluate(jacobi(u))

    run(100, 120)
    before = wf.statistics()["compilations"]
    run(140, 150)
    assert wf.statistics()["compilations"] == before
