"""Tests of boolean selections that are assigned back with the same mask.

Such selections stay pending. The kernel computes all elements, and the values are NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import pending_selections
from weft.fusion import reset_statistics, statistics

N = 300


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_selections, "_lines", {})
    monkeypatch.setattr(pending_selections, "_Latest", type("_Latest", (pending_selections._Latest,), {}))


def grow(np: Any, x: Any, step: Any, turns: int) -> Any:
    """Increase elements while they are small. Each iteration assigns through two masks."""
    size, when = np.zeros_like(x), np.zeros(x.shape, dtype=np.int64)
    inside = np.ones(x.shape, dtype=bool)
    for turn in range(turns):
        size[inside] = size[inside] * x[inside] + step[inside]
        out = inside & (size > 2)
        when[out] = turn
        inside &= ~out
    return size, when


@pytest.mark.cpu
def test_what_goes_back_is_one_kernel_with_what_surrounds_it() -> None:
    rng = np.random.default_rng(1)
    x, step = rng.random((2, N, N)) + 0.5
    wanted = grow(np, x, step, 6)
    for _ in range(2):
        found = grow(wf, wf.asarray(x), wf.asarray(step), 6)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)
    ours = wf.asarray(x), wf.asarray(step)
    reset_statistics()
    wf.evaluate(*grow(wf, *ours, 6))
    assert statistics()["kernels"] <= 12


@pytest.mark.cpu
def test_a_selection_that_something_else_needs_is_taken() -> None:
    """Test that a selection is executed if something besides the assignment uses it.

    Later selections at the same line run immediately.
    """
    x = np.random.default_rng(2).random((N, N))
    array = wf.asarray(x)
    for turn in range(5):
        mask, ours = x > 0.3, array > 0.3
        part, theirs = array[ours], x[mask]
        pending = part._storage.buffer is None
        assert pending == (turn == 1)
        if turn == 2:
            assert list(pending_selections._lines.values()) == [None]
        np.testing.assert_array_equal(wf.cumsum(part) if turn else part, np.cumsum(theirs) if turn else theirs)
        array[ours] = part * 0.9
        x[mask] = theirs * 0.9
        np.testing.assert_array_equal(array, x)


def test_what_is_assigned_is_as_it_was_when_it_was_taken() -> None:
    x = np.random.default_rng(3).random((N, N))
    array = wf.asarray(x)
    y, other = x.copy(), wf.asarray(x)
    for _ in range(4):
        ours, theirs = array > 0.5, x > 0.5
        taken, wanted = array[ours], x[theirs]
        array += 1
        x += 1
        more, much = other[ours] - taken, y[theirs] - wanted
        array[ours] = more * 2 + taken
        x[theirs] = much * 2 + wanted
        ours[:9] = False
        theirs[:9] = False
        assert array[ours].shape == x[theirs].shape
        np.testing.assert_array_equal(array, x)
        array %= 1
        x %= 1


def test_another_mask_and_another_count_are_no_way_back() -> None:
    x = np.random.default_rng(4).random((N, N))
    array = wf.asarray(x)
    for _ in range(3):
        ours, theirs = array > 0.5, x > 0.5
        array[ours] = array[ours] * 0.99
        x[theirs] = x[theirs] * 0.99
    turned = wf.asarray(theirs[::-1].copy())
    array[turned] = array[ours] + 1
    x[theirs[::-1]] = x[theirs] + 1
    np.testing.assert_array_equal(array, x)
    with pytest.raises(ValueError, match="broadcast"):
        array[array > 2] = array[ours] + 1


def test_numbers_that_change_go_back_too() -> None:
    """Test the statement ``array[mask] = array[mask] * number`` in a loop. The number changes in each iteration, and the new number must be used."""
    x = np.random.default_rng(5).random((N, N))
    array, theirs = wf.asarray(x), x > 0.5
    ours = wf.asarray(theirs)
    for turn in range(9):
        array[ours] = array[ours] * (turn + 0.5)
        x[theirs] = x[theirs] * (turn + 0.5)
        np.testing.assert_array_equal(array, x)
