"""Tests that recordings end between iterations of loops.

The third run of a program then needs no new plans.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import native_immediate
from weft.fusion import iota, map_
from weft.fusion.record import recording
from weft.fusion.record.loops import MANY, VisitLoop, find_loop, is_uneven
from weft.fusion.record.storage import Epoch
from weft.runtime.settings import override

SITES = {name: ("file.py", "f", 1, line) for line, name in enumerate("abcdefghxyz")}


def sequence(text: str) -> list[Any]:
    return [SITES.get(name) for name in text]


@pytest.mark.parametrize(
    ("text", "head", "length"),
    [
        ("abcabcabc", "a", 3),
        ("xyabcabcab", "a", 3),
        ("abbbbcabbbbcab", "a", 6),  # the header of the outer loop
        ("aabcbcbcbcbc", "b", 2),  # the loop over a has ended
        ("a.b.a.b.a.", "a", 4),  # a dot is an operation at the same call site
    ],
)
def test_the_outermost_loop_is_found(text: str, head: str, length: int) -> None:
    loop = find_loop(sequence(text))
    assert loop is not None
    assert (loop.head, loop.length) == (SITES[head], length)


def test_straight_code_has_no_loop() -> None:
    assert find_loop(sequence("abcdefgh")) is None
    assert find_loop([]) is None


def lattice_boltzmann(m: ModuleType, steps: int) -> Any:
    c = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    w = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    y, x = m.meshgrid(m.arange(20), m.arange(40), indexing="ij")
    solid = (x - 10) ** 2 + (y - 10) ** 2 < 9
    f = m.stack([m.ones((20, 40)) * wi for wi in w])
    f[1] *= 1.1
    for _ in range(steps):
        for k in range(9):
            f[k] = m.roll(f[k], c[k], axis=(1, 0))
        rho = f.sum(axis=0)
        ux = sum(c[k][0] * f[k] for k in range(9)) / rho
        uy = sum(c[k][1] * f[k] for k in range(9)) / rho
        for k in range(9):
            cu = 3 * (c[k][0] * ux + c[k][1] * uy)
            f[k] = m.where(solid, f[8 - k], f[k] - 1.7 * (f[k] - rho * w[k] * (1 + cu + 0.5 * cu * cu)))
    return f


def life(m: ModuleType, steps: int) -> Any:
    cells = (m.arange(40 * 40).reshape(40, 40) * 7919 % 13 < 4).astype(m.int8)
    for _ in range(steps):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        count = sum(m.roll(m.roll(cells, i, 0), j, 1) for i, j in shifts)
        cells = ((count == 3) | ((cells == 1) & (count == 2))).astype(m.int8)
    return cells


def relaxed(m: ModuleType, steps: int) -> Any:
    """Run two inner loops in each iteration. Each inner loop has a body of one line."""
    u = m.zeros((30, 30))
    b = m.ones((30, 30))
    for _ in range(steps):
        for _ in range(30):
            u[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - b[1:-1, 1:-1])
        b = b * 0.5 + u
        for _ in range(5):
            b = b * 0.9
    return u


@pytest.mark.parametrize("program", [lattice_boltzmann, life, relaxed])
def test_the_third_run_plans_nothing(program: Callable[[ModuleType, int], Any]) -> None:
    native_immediate.install_native_code()  # (otherwise native code would replace Python code during a run)
    with wf.device("cpu"):
        expected = program(np, 25)
        plans = []
        for _ in range(4):
            before = wf.statistics()["plans"]
            np.testing.assert_allclose(np.asarray(program(wf, 25)), expected, rtol=1e-9, atol=1e-12)
            plans.append(wf.statistics()["plans"] - before)
        assert plans[2:] == [0, 0], plans


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list. Whenever a recording ends, the number of its pending operations is appended to the list."""
    lengths: list[int] = []
    end = recording._end

    def noting(epoch: Epoch) -> Any:
        lengths.append(len(epoch.pending))
        return end(epoch)

    monkeypatch.setattr(recording, "_end", noting)
    return lengths


def test_plans_of_interpreted_programs_do_not_move_the_cuts(lengths: list[int]) -> None:
    """Test that recordings end at the same operations in interpreted and in compiled runs."""
    native_immediate.install_native_code()
    with wf.device("cpu"):
        runs = []
        for how in ("always", "always", "always", "never", "never"):
            lengths.clear()
            with override(interpret=how):
                found = np.asarray(relaxed(wf, 25))
            np.testing.assert_allclose(found, relaxed(np, 25), rtol=1e-9, atol=1e-12)
            runs.append(lengths[:])
    assert runs[2] and runs[3] == runs[4] == runs[2]


def relaxed_by_colour(m: ModuleType, red: Any, iterations: int) -> Any:
    u = m.zeros((200, 200))
    for _ in range(iterations):
        for colour in (red, ~red):  # (immediate once `red` is in memory)
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] += 0.7 * m.where(colour, 0.25 * around - u[1:-1, 1:-1] + 0.01, 0.0)
    return u


def test_a_head_that_is_not_recorded_any_more_is_forgotten(lengths: list[int]) -> None:
    colour = np.add.outer(np.arange(198), np.arange(198)) % 2 == 0
    with wf.device("cpu"), override(immediate=1 << 14):
        for _ in range(2):
            red = (wf.asarray(colour.astype(np.int64)) + 0) == 1  # (pending)
            found = np.asarray(relaxed_by_colour(wf, red, 100))
    np.testing.assert_allclose(found, relaxed_by_colour(np, colour, 100), rtol=1e-9, atol=1e-12)
    assert max(lengths) < 600
    assert sum(lengths) > 2000


def power_iteration(m: ModuleType, n: int, iterations: int) -> Any:
    x = m.linspace(0, 1, n)
    for _ in range(iterations):
        y = 2 * x
        y[1:] += x[:-1]
        y[:-1] += x[1:]
        x = y / m.sqrt((y * y).sum())
    return x


@pytest.mark.parametrize(("n", "most"), [(40_000, 32), (2_000, 400)])
def test_recordings_are_short_if_each_iteration_waits_for_a_number(n: int, most: int, lengths: list[int]) -> None:
    with wf.device("cpu"):
        for _ in range(2):
            lengths.clear()
            found = np.asarray(power_iteration(wf, n, 80))
    np.testing.assert_allclose(found, power_iteration(np, n, 80), rtol=1e-9)
    assert most / 4 < max(lengths[1:]) <= most  # (the first recording begins before the loop)


def test_iterations_are_cut_alike() -> None:
    """Test that weft cuts a loop into similar recordings for any number of iterations. Longer loops need new plans only for their last operations."""
    with wf.device("cpu"):
        lattice_boltzmann(wf, 12)
        for steps in (13, 30, 61):
            before = wf.statistics()["plans"]
            np.asarray(lattice_boltzmann(wf, steps))
            assert wf.statistics()["plans"] - before <= 3  # the last operations of a run


def knapsack(m: ModuleType, weights: list[int], size: int) -> Any:
    best, taken = m.zeros(size, dtype=np.int64), m.zeros((len(weights), size), dtype=bool)
    for k, w in enumerate(weights):
        candidate = best.copy()
        candidate[w:] = best[:-w] + (k + 3) * 7919 % 100
        taken[k] = candidate > best
        best = m.maximum(best, candidate)
    return taken, best


def test_iterations_of_other_lengths_share_plans(lengths: list[int]) -> None:
    """Test a loop in which each iteration uses slices of another length. The iterations share plans, so that few plans are made.

    All recordings but the first one have fewer than 40 operations.
    """
    weights = [[seed * (k + 5) % 97 + 1 for k in range(60)] for seed in (31, 57, 41, 83)]
    with wf.device("cpu"), override(immediate=64):
        made = []
        for given in weights:
            before = wf.statistics()["plans"]
            for found, wanted in zip(knapsack(wf, given, 500), knapsack(np, given, 500), strict=True):
                np.testing.assert_array_equal(np.asarray(found), wanted)
            made.append(wf.statistics()["plans"] - before)
    assert max(made) <= 4 and made[-1] == 0
    assert max(lengths[1:]) < 40  # (the first recording begins before the loop)


@pytest.mark.cpu
def test_a_program_that_is_compiled_again_is_cut_at_the_same_operations() -> None:
    program = "for k in range(60):\n    total += scale[k] * wf.exp(2j * (x @ atoms[k]))\n"
    rng = np.random.default_rng(0)
    arrays = {
        name: wf.asarray(rng.random(shape)) for name, shape in (("x", (20_000, 3)), ("atoms", (60, 3)), ("scale", 60))
    }
    made = []
    with override(interpret="never"):
        for _ in range(4):
            names = {"wf": wf, **arrays, "total": wf.evaluate(wf.zeros(20_000, complex))}
            before = wf.statistics()["plans"] + wf.statistics()["plans_read"]
            exec(compile(program, "compiled again", "exec"), names)
            wf.evaluate(names["total"])
            made.append(wf.statistics()["plans"] + wf.statistics()["plans_read"] - before)
    assert made[0] and not any(made[1:]), made


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([("negative", 5), ("sqrt", 5)], [("negative", 6), ("sqrt", 6)], True),
        ([("negative", 5), ("sqrt", 5)], [("negative", 5), ("sqrt", 5)], False),
        ([("negative", 5), ("sqrt", 5)], [("negative", 6), ("exp", 6)], False),  # not the same operations
    ],
)
def test_iterations_over_arrays_of_different_lengths(before: Any, after: Any, expected: bool) -> None:
    visits = list(range(0, 2 * MANY + 2, 2))
    operations = (before * MANY)[: 2 * MANY - 2] + after
    recorded = [map_(op, [iota((length,), 0, np.dtype(np.float64))]) for op, length in operations]
    assert is_uneven(VisitLoop(SITES["a"], visits, 2), recorded, 0) is expected
