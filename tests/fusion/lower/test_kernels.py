"""Tests that kernels for exact sizes and kernels for all sizes give results with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fuzz.row_columns import however_small
from weft.codegen import GPU, Kernel
from weft.codegen.schedules.table import SCHEDULES
from weft.fusion.lower import kernels as kernel_cache
from weft.fusion.plan import plan_cache, step_blocks, time_steps
from weft.fusion.plan.steps import SizeSpecialization
from weft.fusion.run import execute, planning


def _softmax(x: Any, y: Any) -> Any:
    e = wf.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _rows_and_columns(x: Any, y: Any) -> Any:
    with however_small():
        return wf.evaluate(x.sum(axis=1), x.mean(axis=0))


def _counts(x: Any, y: Any) -> Any:
    counts = wf.zeros(60, dtype=np.int32)
    np.add.at(counts, (x * 8).astype(np.int32), 1)
    return counts


def _time_steps(x: Any, y: Any) -> Any:
    for _ in range(3):
        x[1:-1] = (x[:-2] + x[2:]) * np.float32(0.37)
    return x


# schedule -> a program for which weft chooses it, and shapes whose rows are and are not multiples of a vector
PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], list[tuple[int, ...]]]] = {
    "split_reductions": (lambda x, y: x.var(), [(16_384 * 3,), (16_384 * 3 + 5,)]),
    "rows_and_columns": (_rows_and_columns, [(1500, 128), (1500, 130)]),
    "lookback": (lambda x, y: x.cumsum(axis=1), [(2, 8196), (2, 8197)]),
    "temporal_blocking": (_time_steps, [(1024,), (1025,)]),
    "scatter": (_counts, [(5000,), (5003,)]),
    "columns": (lambda x, y: (x * 2.5 + 1).sum(axis=0), [(300, 33), (300, 64), (7, 5000)]),
    "any_rows": (lambda x, y: (x * y).sum(axis=1), [(5, 66), (70, 1028), (2, 8196)]),
    "rows": (_softmax, [(5, 66), (5, 68), (3, 1028), (2, 8196)]),
    "tiles": (lambda x, y: x + y.reshape(x.shape[::-1]).T, [(40, 68), (41, 67)]),
    "planes": (lambda x, y: x[1:-1, 2:] * x[1:-1, :-2] + x[2:, 1:-1], [(33, 68), (5, 130)]),
    "scans": (lambda x, y: x.cumsum(axis=1), [(3, 130), (3, 132)]),
    "elements": (lambda x, y: x * 2.5 + y, [(1001,), (1024,)]),
    "reductions": (lambda x, y: (x * 2.5).reshape(7, -1, 11).sum(axis=(0, 2)), [(77, 12), (77, 40)]),
    "items": (lambda x, y: x.cumsum(axis=0), [(30, 7), (30, 8)]),
}


def test_every_schedule_has_a_program() -> None:
    assert set(PROGRAMS) == {schedule.__name__.rpartition(".")[2] for schedule in SCHEDULES}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_for_exact_sizes_have_the_bits_of_kernels_for_all_sizes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    obtained: list[Kernel] = []

    def obtain(device: Any, kernel: Kernel, digest: str) -> Any:
        obtained.append(kernel)
        return real(device, kernel, digest)

    real = kernel_cache.obtain_function
    monkeypatch.setattr(kernel_cache, "obtain_function", obtain)
    monkeypatch.setattr(kernel_cache, "is_loaded", lambda device, digest: False)
    # time steps are merged in small arrays, too
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**6))
    monkeypatch.setattr(step_blocks, "LEAST_FILLS", 0)
    monkeypatch.setitem(vars(GPU), "steps_bytes", 0)
    program, shapes = PROGRAMS[name]
    chosen = set()
    with wf.device("simt"):
        for shape in shapes:
            bits = []
            for exact in (False, True):
                for cache in (execute._plans, plan_cache._known, kernel_cache._met):
                    cache.clear()  # type: ignore[attr-defined]
                monkeypatch.setattr(planning, "_may_be_special", lambda form, exact=exact: SizeSpecialization(exact))
                obtained.clear()
                x, y = (wf.asarray(np.random.default_rng(k).random(shape, np.float32) * 7) for k in range(2))
                found = program(x, y)
                bits.append([np.asarray(each).tobytes() for each in (found if type(found) is tuple else (found,))])
                schedules = {type(k.attributes["schedule"]) for k in obtained}
                assert exact or not any("exact" in k.attributes for k in obtained)
                assert not exact or any("exact" in k.attributes for k in obtained) == any(
                    s.specialized for s in schedules
                )
                chosen |= {schedule.__module__.rpartition(".")[2] for schedule in schedules}
            assert bits[0] == bits[1], shape
    assert name in chosen
