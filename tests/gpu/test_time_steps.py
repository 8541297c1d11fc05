"""Tests that temporal blocking on a GPU produces the same bits as NumPy's separate time steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.plan import test_step_blocks, test_time_steps
from weft.codegen import GPU
from weft.fusion.plan import plan_cache, step_blocks, time_steps
from weft.fusion.run import execute

pytestmark = pytest.mark.gpu

PROGRAMS: list[tuple[Callable[..., Any], tuple[int, ...], int, str]] = [
    (test_time_steps.jacobi, (67, 530), 1, "f4"),
    (test_time_steps.jacobi, (40, 300), 1, "f8"),
    (test_time_steps.diffusion, (5000,), 1, "f4"),
    (test_time_steps.heat, (20, 30, 70), 1, "f4"),
    (test_time_steps.wave, (40, 300), 3, "f4"),
    (test_time_steps.gray_scott, (40, 300), 2, "f4"),
    (test_step_blocks.centred, (40, 300), 2, "f4"),
    (test_time_steps.closed, (30, 300), 1, "f4"),
]


@pytest.mark.parametrize(("program", "shape", "count", "dtype"), PROGRAMS)
def test_same_bits_as_step_by_step(
    program: Callable[..., Any], shape: tuple[int, ...], count: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(sum(shape))
    given = [rng.random(shape).astype(dtype) for _ in range(count)]
    wanted = program(*(x.copy() for x in given))
    monkeypatch.setitem(vars(GPU), "steps_bytes", 0)
    monkeypatch.setattr(step_blocks, "LEAST_FILLS", 0)
    monkeypatch.setattr(step_blocks, "MANY_PARTS", 8)
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**9))
    execute._plans.clear()
    plan_cache._known.clear()
    found = program(*(wf.asarray(x) for x in given))
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    assert "time steps in one kernel" in str(wf.explain(*found))
    wf.evaluate(*found)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(x), y)
