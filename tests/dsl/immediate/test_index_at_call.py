"""Tests of immediate accesses to few elements of large arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import index_at_call
from weft.fusion.record import evaluate

IMMEDIATE = 16384


def _warp(xp: Any, a: Any, b: Any) -> Any:
    """Return the table of dynamic time warping, computed one antidiagonal after another."""
    table = xp.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0
    costs = xp.abs(a[:, None] - b[None, :])
    for s in range(2, len(a) + len(b) + 1):
        i = np.arange(max(1, s - len(b)), min(len(a), s - 1) + 1)
        j = s - i
        before = [table[i - 1, j], table[i, j - 1], table[i - 1, j - 1]]
        table[i, j] = costs[i - 1, j - 1] + xp.minimum.reduce(before)
    return table


@pytest.mark.cpu
def test_an_antidiagonal_of_a_large_table_is_computed_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = [], evaluate.run
    monkeypatch.setattr(evaluate, "run", lambda *given: (runs.append(given), run(*given)))
    a, b = np.sin(np.linspace(0, 9, 200)), np.sin(np.linspace(0, 9, 210) ** 1.05)
    found = np.asarray(_warp(wf, wf.asarray(a), wf.asarray(b)))
    np.testing.assert_array_equal(found, _warp(np, a, b))
    assert len(runs) < 10


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (200, 300)])
def test_reduce_has_its_own_default_axis(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    own, numpys = getattr(wf, name), getattr(np, name)
    for options in ({}, {"axis": None}, {"axis": -1}, {"keepdims": True}, {"initial": 1.0}):
        for given in (wf.asarray(x), [wf.asarray(row) for row in x]):
            np.testing.assert_array_equal(np.asarray(own.reduce(given, **options)), numpys.reduce(x, **options))


@pytest.mark.parametrize("rest", [(), (3,), (2, 2)])
@pytest.mark.parametrize("other", [False, True])
def test_the_elements_that_a_mask_selects_are_counted(rest: tuple[int, ...], other: bool) -> None:
    x = np.arange(40 * math.prod(rest)).reshape(8, 5, *rest)
    for mask in (np.arange(8) % 3 == 0, (np.arange(40) % 7 == 0).reshape(8, 5), np.ones(8, bool)):
        mask = mask.view(np.uint8) * 2 if other else mask  # (True is any byte but 0)
        assert index_at_call._picked(x.shape, mask.view(bool)) == x[mask.view(bool)].size
    with pytest.raises(IndexError):
        index_at_call._picked(x.shape, np.ones(7, bool))
