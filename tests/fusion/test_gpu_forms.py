"""Tests that few GPU kernels suffice for an expression, however small or large its arrays are.

The expressions are planned, but nothing is compiled. The last test compiles kernels for exact sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.lower import kernels as kernel_cache
from weft.fusion.plan import plan_cache
from weft.fusion.plan.steps import KernelLaunch
from weft.fusion.run import execute, run_plan

MOST = 1 << 24
LEAST = 5  # reductions over fewer elements are unrolled
SIZES = 24
# Shapes on both sides of thresholds: short rows, rows of a warp or a block, rows in registers, rows split into blocks,
# few rows, and many rows.
BORDERS = [
    (70, 6), (70, 100), (300, 1024), (70, 1026), (70, 4100), (5, 30_000), (6, 40_000), (5, 50_001), (300, 40_000), (40_000, 9),
    (5000, 33), (600, 70_000), (16, 16), (17, 15), (2000, 64), (130_000, 100), (9000, 1001), (12, 5000), (20_000, 700),
]  # fmt: skip


class Counted:
    """A counter of kernels that would be compiled. It counts only while `on` is true."""

    def __init__(self) -> None:
        self.on = False
        self.digests: list[str] = []


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    found = Counted()
    obtained, loaded = kernel_cache.obtain_function, kernel_cache.is_loaded

    def obtain(device: Any, kernel: Any, digest: str) -> Any:
        if not found.on:
            return obtained(device, kernel, digest)
        if digest not in found.digests:
            found.digests.append(digest)
        return None

    def is_loaded(device: Any, digest: str) -> bool:
        return digest in found.digests if found.on else loaded(device, digest)

    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache, "obtain_function", obtain)
        patch.setattr(kernel_cache, "is_loaded", is_loaded)
        patch.setattr(kernel_cache, "_met", set())
        patch.setattr(plan_cache, "_known", type(plan_cache._known)())
        yield found


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[wf.Array, wf.Array]]:
    with wf.device("simt"):
        yield wf.asarray(np.zeros(MOST, np.float32)), wf.asarray(np.zeros(MOST, np.float32))
        wf.evaluate(wf.zeros(1))


def shapes(name: str, axes: int) -> Iterator[tuple[int, ...]]:
    """Yield random shapes of all magnitudes, and shapes on both sides of the schedules' thresholds."""
    source = Random(name)
    found = [shape if axes == 2 else (prod(shape),) for shape in BORDERS if prod(shape) <= MOST]
    for _ in range(SIZES):
        size = int(LEAST**axes * (MOST / LEAST**axes) ** source.random())
        first = int(LEAST * (size / LEAST**axes) ** source.random()) if axes > 1 else 1
        found.append((first, max(LEAST, size // first))[2 - axes :])
    source.shuffle(found)
    yield from found


def softmax(x: wf.Array) -> wf.Array:
    e = wf.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def centred(x: wf.Array) -> wf.Array:
    d = x - x.mean(axis=1, keepdims=True)
    return d / wf.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


# name -> number of axes, expression, maximum number of kernels
PROGRAMS: dict[str, tuple[int, Callable[[wf.Array, wf.Array], Any], int]] = {
    "chain": (1, lambda x, y: x * 2.5 + y, 4),
    "sum": (1, lambda x, y: (x * 2.5 + 1).sum(), 4),
    "variance": (1, lambda x, y: x.var(), 4),
    "position": (1, lambda x, y: x.argmax(), 4),
    "three folds": (1, lambda x, y: (abs(x).max(), abs(x).mean(), (x * x).sum()), 4),
    "running sum": (1, lambda x, y: x.cumsum(), 4),
    "sums of rows": (2, lambda x, y: (x * 2.5 + 1).sum(axis=1), 4),
    "largest of rows": (2, lambda x, y: x.max(axis=1), 4),
    "variances of rows": (2, lambda x, y: x.var(axis=1), 4),
    "softmax": (2, lambda x, y: softmax(x), 4),
    "layer norm": (2, lambda x, y: centred(x), 4),
    "running sums of rows": (2, lambda x, y: x.cumsum(axis=1), 4),
    "broadcast": (2, lambda x, y: x * 2 + y[0], 4),
    "stencil": (2, lambda x, y: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1], 4),
    "transpose": (2, lambda x, y: x + y.reshape(x.shape[::-1]).T, 4),
    "sums of columns": (2, lambda x, y: (x * 2.5 + 1).sum(axis=0), 4),
    "columns less their means": (2, lambda x, y: x - x.mean(axis=0), 5),
    "rows and columns": (2, lambda x, y: (x.sum(axis=1), x.sum(axis=0)), 7),
    "running sums of columns": (2, lambda x, y: x.cumsum(axis=0), 6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_of_all_magnitudes_share_few_kernels(
    name: str, compiled: Counted, memory: tuple[wf.Array, wf.Array]
) -> None:
    axes, program, most = PROGRAMS[name]
    for shape in shapes(name, axes):
        x, y = (a[: prod(shape)].reshape(shape) for a in memory)
        made = program(x, y)
        results = made if isinstance(made, tuple) else (made,)
        epoch = results[0]._storage.epoch
        assert epoch is not None
        compiled.on = True
        versions = [r._storage.expr for r in results]
        execute._find_or_make(execute.Evaluation(object(), epoch, versions, None, lambda plan, table: None))
        compiled.on = False
        del made, results, x, y
        wf.evaluate(wf.zeros(1))  # drops pending operations
    assert 2 <= len(compiled.digests) <= most


# -- kernels for exact sizes ------------------------------------------------------------------------


def special_kernels(result: Callable[[], wf.Array], times: int) -> list[bool]:
    """Evaluate several arrays that the function `result` returns. For each array, return whether its kernels were made for exact sizes."""
    found = []
    for _ in range(times):
        wf.evaluate(result())
        plan = next(reversed(execute._plans.values()))
        launches = [step for step in plan.steps if isinstance(step, KernelLaunch)]
        assert launches
        found.append(all(launch.exact for launch in launches))
    return found


def test_large_sizes_that_come_back_get_kernels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (run_plan, "LARGE", 0),
        (kernel_cache, "LARGE", 0),
        (kernel_cache, "_met", set()),
        (plan_cache, "_known", type(plan_cache._known)()),
        (execute, "_plans", type(execute._plans)()),
    ):
        monkeypatch.setattr(module, name, value)
    with wf.device("simt"):
        arrays = [wf.asarray(np.arange(3 * n, dtype=np.float32).reshape(3, n)) for n in (130, 134, 138)]
        first, second, third = ((lambda x=x: (x * 0.37).sum(axis=1)) for x in arrays)
        assert special_kernels(first, 1) == [True]  # the first sizes have a special kernel
        before = np.asarray(second())
        assert special_kernels(second, execute.OFTEN) == [False] * (execute.OFTEN - 1) + [True]
        assert np.array_equal(np.asarray(second()), before)
        monkeypatch.setattr(plan_cache, "MOST_KERNELS", 3)  # the limit has been reached
        assert not any(special_kernels(third, execute.OFTEN + 2))
