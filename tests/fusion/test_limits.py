"""Tests that planning time, compilation time and kernel sizes are limited for programs of any size."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.test_programs import layer_norm, softmax
from weft.codegen import CPU, Pointer
from weft.codegen.passes.unroll_loops import SHORT
from weft.fusion import Expr, kernels_of
from weft.fusion.graph.expr import constant, leaf, map_, reduce_, update, view
from weft.fusion.plan.grouping import MAX_BUFFERS, MAX_INSTRUCTIONS
from weft.fusion.plan.schedule import make_schedule

F = np.dtype(np.float32)


def test_a_kernel_has_few_pointers() -> None:
    arrays = [wf.asarray(np.full(50, k, np.float32)) for k in range(100)]
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    for kernel in kernels_of([total._storage]):
        pointers = [p for p in kernel.parameters if isinstance(p.value.type, Pointer)]
        assert len(pointers) <= MAX_BUFFERS
    np.testing.assert_array_equal(total, np.full(50, sum(range(100)), np.float32))


def test_a_kernel_has_few_instructions() -> None:
    x = wf.asarray(np.linspace(0, 1, 100))
    y = x
    for k in range(1500):
        y = y * x + k
    kernels = kernels_of([y._storage])
    assert len(kernels) < 20
    for kernel in kernels:
        assert sum(1 for _ in kernel.walk()) <= MAX_INSTRUCTIONS + 20


def test_choices_in_a_loop_are_one_kernel_that_computes_each_value_once() -> None:
    a = np.linspace(-2, 1, 100)

    def steps(xp: Any, x: Any) -> Any:
        y = x
        for _ in range(20):
            y = xp.where(y * y < 4, y * y + x, xp.where(y > 0, y - 1, y + 1))
        return y

    found = steps(wf, wf.asarray(a))
    (kernel,) = kernels_of([found._storage])
    assert sum(1 for _ in kernel.walk()) <= 20 * 8 + 20
    np.testing.assert_array_equal(found, steps(np, a))


def test_parts_that_are_chosen_inside_parts_do_not_multiply() -> None:
    """Test that kernels of nested selections stay small.

    Each branch of a selection contains its own copy of the selections that are nested in it.
    """
    given = np.linspace(-2, 1, 40), np.linspace(3, -1, 40)
    turn = "a = xp.roll(a, {0}) * 0.5 + xp.pad(b, 1)[2:]; b = xp.where(a > {1}, a, -b)"
    turn += "; a, b = xp.clip(a, -9, 9), xp.clip(b, -9, 9)"
    text = "\n".join(turn.format(k % 3, k) for k in range(9))  # (unrolled, since recordings end at loops)

    def steps(xp: Any, a: Any, b: Any) -> Any:
        names = {"xp": xp, "a": a, "b": b}
        exec(text, names)
        return names["a"], names["b"]

    found = steps(wf, *map(wf.asarray, given))
    sizes = [sum(1 for _ in kernel.walk()) for kernel in kernels_of([x._storage for x in found])]
    assert max(sizes) < 1000
    for ours, theirs in zip(found, steps(np, *given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_value_read_at_many_indices_is_stored() -> None:
    a = np.random.default_rng(0).random(200)

    def steps(xp: Any, x: Any) -> Any:
        for _ in range(12):
            x = xp.sqrt(x[2:] + x[1:-1] * x[:-2])
        return x

    found = steps(wf, wf.asarray(a))
    assert sum(sum(1 for _ in kernel.walk()) for kernel in kernels_of([found._storage])) < 500
    np.testing.assert_array_equal(found, steps(np, a))


def chain(n: int) -> list[Expr]:
    x = y = leaf(0, (1000,), F)
    for k in range(n):
        y = map_("add" if k % 2 else "multiply", [y, x])
    return [y]


def wide_sum(n: int) -> list[Expr]:
    found = [leaf(k, (1000,), F) for k in range(n // 2)]
    while len(found) > 1:
        found = [
            map_("add", pair) if len(pair) > 1 else pair[0]
            for pair in (found[k : k + 2] for k in range(0, len(found), 2))
        ]
    return found


def reductions(n: int) -> list[Expr]:
    x = leaf(0, (1000,), F)
    return [reduce_("add", map_("multiply", [x, constant(k, F)]), (0,), F) for k in range(n // 3)]


def reductions_in_turn(n: int) -> list[Expr]:
    y = leaf(0, (1000,), F)
    for _ in range(n // 2):
        y = map_("subtract", [y, reduce_("add", y, (0,), F)])
    return [y]


def time_steps(n: int) -> list[Expr]:
    u = leaf(0, (1000,), F)
    for _ in range(n // 4):
        u = update(u, map_("add", [view(u, (998,), (1,), 0), view(u, (998,), (1,), 2)]), (998,), (1,), 1)
    return [u]


def element_by_element(n: int) -> list[Expr]:
    u = leaf(0, (n,), F)
    for k in range(n // 4):
        u = update(u, map_("add", [view(u, (1,), (1,), k), constant(k, F, (1,))]), (1,), (1,), k + 1)
    return [u]


def calls(work: Callable[[], object]) -> int:
    """Return the number of function calls that `work` makes."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "program",
    [chain, wide_sum, reductions, reductions_in_turn, time_steps, element_by_element],
    ids=lambda f: f.__name__,
)
def test_planning_is_linear(program: Callable[[int], list[Expr]]) -> None:
    small, large = (partial(make_schedule, program(n), [], {}, CPU) for n in (300, 1200))
    first = calls(small)
    assert calls(large) < 5 * first


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda xp, x: x * 2 + xp.sqrt(abs(x)),
    "shifted": lambda xp, x: x[1:] - x[:-1],
    "transposed": lambda xp, x: x + x.T.copy().T,
    "rows": lambda xp, x: x.sum(axis=1),
    "columns": lambda xp, x: x.sum(axis=0),
    "all": lambda xp, x: x.sum(),
    "softmax": softmax,
    "layer norm": layer_norm,
}


@pytest.mark.usefixtures("cold_cache")
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_sizes_need_few_compilations(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(3)
    shapes = [(int(a), int(b)) for a, b in zip(source.integers(1, 40, 60), source.integers(1, 200, 60), strict=True)]
    wf.reset_statistics()
    for shape in shapes:
        wf.evaluate(PROGRAMS[name](wf, wf.asarray(source.random(shape, np.float32))))
    assert wf.statistics()["plans"] <= 20
    assert wf.statistics()["compilations"] <= 4 + SHORT  # (short reductions have a kernel for each length)
    wf.reset_statistics()
    monkeypatch.setattr("weft.fusion.plan.plan_cache._known", OrderedDict())
    monkeypatch.setattr("weft.fusion.plan.plan_cache.NODES", 0)  # each shape has a separate plan
    for rows, columns in shapes:
        wf.evaluate(PROGRAMS[name](wf, wf.asarray(source.random((rows + 50, columns), np.float32))))
    assert wf.statistics()["plans"] >= 50
    assert wf.statistics()["compilations"] <= 4


def test_a_loop_in_time_allocates_nothing_after_its_second_step() -> None:
    def in_place(u: Any, v: Any) -> tuple[Any, Any]:
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1])
        return u, v

    def swapped(u: Any, v: Any) -> tuple[Any, Any]:
        v[1:-1] = u[:-2] + u[2:]
        return v, u

    def anew(u: Any, v: Any) -> tuple[Any, Any]:
        return 0.5 * u + v, v

    for step in (in_place, swapped, anew):
        u, v = wf.asarray(np.random.default_rng(0).random((300, 300))), wf.asarray(np.ones((300, 300)))
        held = []
        for _ in range(8):
            u, v = step(u, v)
            wf.evaluate(u, v)
            info = wf.memory.info()
            held.append(info.held + info.kept)
        assert held[2:] == held[2:3] * len(held[2:])


def test_folds_across_rows_without_columns() -> None:
    """Test reductions with empty results. Planning must not divide by the number of results."""
    x = wf.asarray(np.ones((4, 17)))
    assert np.array_equal(x[:, 3:3].sum(0), np.ones(0))
    assert wf.diff(x[:, :1]).max(0, keepdims=True).shape == (1, 0)
    assert np.array_equal(wf.diff(x[:, :1]).max(0, keepdims=True), np.ones((1, 0)))
