"""Tests of GPU plans that are reused for other lengths."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fuzz.lengths import compared
from weft.codegen import print_kernel
from weft.fusion.plan import plan_cache
from weft.fusion.plan.steps import Plan
from weft.fusion.run import execute, run_plan

# Lengths at which schedules change, and adjacent lengths.
EDGES = (
    2,
    3,
    4,
    5,
    7,
    8,
    16,
    31,
    32,
    63,
    64,
    65,
    100,
    128,
    255,
    256,
    257,
    1000,
    1023,
    1024,
    1025,
    2048,
    4096,
    4097,
    8192,
)
F = np.float32


def softmax(x: Any) -> Any:
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def moved(x: Any) -> Any:
    """Return a view whose offset in memory depends on the number of rows of `x`.

    The length of the view's rows is a multiple of the vector length.
    """
    start, length = x.shape[0] % 40, max(4, x.shape[1] & -4)
    line = wf.asarray(np.broadcast_to(F(1), start + 8 * length))
    wf.evaluate(line)
    return line[start:].reshape(8, length)


def counted(x: Any, rows: int) -> Any:
    """Return counts that are computed by a scatter with one index for each element of `x`."""
    counts = wf.zeros(rows, np.int32)
    wf.add.at(counts, wf.asarray(np.zeros(x.size, np.int64)), 1)
    return counts


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: x * 2 + 1,
    "parts": lambda x: x[1:, 1:] - x[:-1, :-1],
    "rows": lambda x: (x * x).sum(axis=1),
    "moved": lambda x: softmax(moved(x)),
    "columns": lambda x: x.max(axis=0),
    "all": lambda x: x.sum(),
    "variance": lambda x: x.var(),
    "softmax": softmax,
    "layer norm": lambda x: (x - x.mean(1, keepdims=True)) / wf.sqrt(x.var(1, keepdims=True) + 1e-5),
    "extremes": lambda x: (x.argmax(axis=1), x.min()),
    "running along rows": lambda x: wf.cumsum(x, axis=1),
    "running down columns": lambda x: wf.cumsum(x, axis=0),
    "running along one row": lambda x: wf.cumsum(x.reshape(-1)),
    "transposed": lambda x: x.T.copy() + 1,
    "crossing": lambda x: x[: min(x.shape), : min(x.shape)] + x[: min(x.shape), : min(x.shape)].T,
    "stencil": lambda x: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1],
    "outer": lambda x: x[:, :1] * x[0] + x[-1],
    "joined": lambda x: wf.concatenate([x[:, 1:], x[:, :1]], axis=1),
    "counted": lambda x: counted(x, x.shape[0]),
}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Return a list to which evaluations append their plans instead of running them."""
    plans: list[Plan] = []

    def keep(plan: Plan, epoch: Any, assign_results: Any, shown: bool) -> None:
        plans.append(plan)
        table = epoch.slots[: plan.slots] + [None] * (plan.table_size - plan.slots)
        for node, slot in plan.outputs:
            table[slot] = epoch.device.allocate(node.nbytes)
        assign_results(plan, table)

    monkeypatch.setattr(run_plan, "execute", keep)
    monkeypatch.setattr("tests.fuzz.lengths.obtain_function", lambda device, kernel, digest="": print_kernel(kernel))
    for cache in (execute._plans, plan_cache._known):
        cache.clear()
    return plans


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "counted"])  # (it evaluates its indices first)
def test_plans_for_other_lengths_are_those_made_anew(name: str, planned: list[Plan]) -> None:
    source, trouble = Random(name), list[str]()
    with wf.device("simt"), compared(trouble):
        for _ in range(60):
            rows, columns = (source.choice((source.choice(EDGES), source.randint(2, 3000))) for _ in range(2))
            x = wf.asarray(np.broadcast_to(F(1), (rows, columns)))
            if rows * columns * x.itemsize >= 4 << 20:
                continue
            wf.evaluate(x)
            wf.evaluate(PROGRAMS[name](x))
            assert not trouble, (name, rows, columns)
    assert any(known.templates for known in plan_cache._known.values())
    execute._plans.clear()
    plan_cache._known.clear()


def test_devices_have_plans_of_their_own() -> None:
    """Test a program without inputs on several devices, which must not share plans."""
    execute._plans.clear()
    plan_cache._known.clear()
    for device in ("cpu", "simt", "simt:sm_80"):
        before = wf.statistics()["plans"]
        with wf.device(device):
            for length in (100, 60, 70, 80):
                out = wf.zeros((12, length))
                out[3:8, 2:] = 7
                assert np.asarray(out.sum(1)).tolist() == [0] * 3 + [7 * (length - 2)] * 5 + [0] * 4
        assert wf.statistics()["plans"] > before


@pytest.mark.parametrize("name", ["elements", "rows", "all", "softmax", "running along rows", "stencil", "counted"])
def test_values_at_other_lengths(name: str) -> None:
    """Test that plans adapted to other lengths have the same results as plans that are made for these lengths."""
    source = np.random.default_rng(5)
    shapes = [(int(a), int(b)) for a, b in source.integers(3, 90, (8, 2))] + [(5, 300), (40, 1100), (3, 2048), (30, 64)]
    arrays = [source.random(shape, F) for shape in shapes]
    found: list[list[bytes]] = []
    plans: list[int] = []
    with wf.device("simt"):
        for kept in (True, False):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plan_cache, "_known", type(plan_cache._known)())
                execute._plans.clear()
                patch.setattr(plan_cache, "NODES", plan_cache.NODES if kept else 0)
                wf.reset_statistics()
                found.append([np.asarray(PROGRAMS[name](wf.asarray(values))).tobytes() for values in arrays])
                plans.append(wf.statistics()["plans"])
    assert found[0] == found[1]
    assert plans[0] < plans[1]
