"""Tests of values that are evaluated one at a time.

Later evaluations read earlier results from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(5)


def deviations(xp: Any, x: Any) -> tuple[Any, Any]:
    centre = x.mean(axis=1, keepdims=True)
    distance = x - centre
    return centre, (distance * distance).mean(axis=1, keepdims=True)


def exponentials(xp: Any, x: Any) -> tuple[Any, Any]:
    top = x.max(axis=1, keepdims=True)
    return top, xp.exp(x - top).sum(axis=1, keepdims=True)


def normalised(xp: Any, x: Any) -> tuple[Any, Any]:
    total = x.sum(axis=1, keepdims=True)
    return total, (x / total).sum(axis=1, keepdims=True)


def product(xp: Any, x: Any) -> tuple[Any, Any]:
    doubled = x * 2
    return doubled, doubled @ doubled.T


def written(xp: Any, x: Any) -> tuple[Any, Any]:
    part = x + 1
    whole = xp.zeros((x.shape[0], 2 * x.shape[1]))
    whole[:, : x.shape[1]] = part
    whole[:, x.shape[1] :] = part[:, ::-1]
    return part, whole


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("program", [deviations, exponentials, normalised, product, written])
@pytest.mark.parametrize("length", [2, 3, 7, 12, 13, 40])
def test_one_value_then_the_other(program: Callable[..., tuple[Any, Any]], length: int, device: str) -> None:
    values = RNG.standard_normal((6, length))
    wanted = program(np, values)
    with wf.device(device):
        for order in ((0, 1), (1, 0)):
            found = program(wf, wf.asarray(values))
            for k in order:
                wf.evaluate(found[k])
                np.testing.assert_allclose(np.asarray(found[k]), wanted[k], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_a_known_mean_is_the_centre_in_traced_plans_too(device: str) -> None:
    """Test that ``((x - mean) ** 2).mean()`` has the same bits as ``x.var()``, even if the mean of x has been evaluated before."""
    for length in (40_000, 40_001, 40_002):
        values = RNG.standard_normal((2, length)).astype(np.float32) + 2
        with wf.device(device):
            x = wf.asarray(values)
            alone = np.asarray(x.var(axis=1, keepdims=True) + x)
            mean = x.mean(axis=1, keepdims=True)
            later = ((x - mean) ** 2).mean(axis=1, keepdims=True) + x  # too large to be computed together with the mean
            wf.evaluate(mean)
            np.testing.assert_array_equal(np.asarray(later), alone)


def test_a_result_that_was_overwritten_is_computed_again() -> None:
    """Test that weft does not reuse the mask ``x > 0`` after a program has overwritten it. Every ``x[mask]`` must be as long as in NumPy."""

    def program(xp: Any, x: Any) -> list[tuple[int, ...]]:
        pending = x * 2  # keeps the recording open
        counts = []
        for _ in range(4):
            mask = x > 0
            before = x[mask].shape[0]
            mask[1:] = False
            counts.append((before, x[mask].shape[0]))
        return [*counts, pending.shape]

    values = RNG.standard_normal((60, 70))
    assert program(wf, wf.asarray(values)) == program(np, values)


def test_no_kernel_runs_over_slots_that_hold_something_else() -> None:
    x = wf.asarray(np.arange(10.0))
    for wrong in (None, 3, wf.asarray(np.arange(5.0))._storage.buffer):
        y = x + 1
        epoch = y._storage.epoch
        assert epoch is not None
        slot = epoch.slots.index(x._storage.buffer)
        right, epoch.slots[slot] = epoch.slots[slot], wrong
        with pytest.raises(RuntimeError, match="does not hold"):
            wf.evaluate(y)
        epoch.slots[slot] = right
        np.testing.assert_array_equal(y, np.arange(10.0) + 1)
    other = wf.asarray(np.arange(10.0))
    y = x + other
    epoch = y._storage.epoch
    assert epoch is not None
    epoch.slots[epoch.slots.index(other._storage.buffer)] = x._storage.buffer  # two slots for one storage
    with pytest.raises(RuntimeError, match="does not hold"):
        wf.evaluate(y)


@pytest.mark.cpu
@pytest.mark.parametrize("before", [0, 3])
def test_values_that_are_all_alike_get_memory_without_a_plan(before: int) -> None:
    """Test that constant results need no plan, and are freed."""
    whole = wf.asarray(np.arange(50_000))
    wf.evaluate(whole)
    pending = [whole * k for k in range(before)]
    wf.reset_statistics()
    for array, wanted in ((wf.isnan(whole), np.zeros(50_000, bool)), (wf.full((3, 4), 2.5), np.full((3, 4), 2.5))):
        wf.evaluate(array)
        assert wf.statistics()["plans"] == 0
        np.testing.assert_array_equal(np.asarray(array), wanted, strict=True)
        array += array
        np.testing.assert_array_equal(np.asarray(array), wanted + wanted, strict=True)
        wf.reset_statistics()
    zeros = wf.zeros(50_000)
    wf.evaluate(zeros)
    held = ref(zeros._storage)
    del zeros
    assert held() is None
    for k, each in enumerate(pending):
        np.testing.assert_array_equal(np.asarray(each), np.arange(50_000) * k)
