"""Assignments to what a mask takes: NumPy's values on every device, without a look at each element in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics

RNG = np.random.default_rng(3)
SHAPES = [(10,), (30, 40), (9000,), (3, 4, 5)]


def masks(kind: str, values: np.ndarray) -> Any:
    match kind:
        case "numpy":
            return values
        case "stored":
            return wf.asarray(values)
    return wf.asarray(values.astype(np.int8)) > 0


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("kind", ["numpy", "stored", "pending"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_goes_to_what_a_mask_takes(shape: tuple[int, ...], kind: str, device: str) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for share in (0.0, 0.05, 0.5, 1.0):
        mask = RNG.random(shape) < share
        values = RNG.integers(-9, 9, mask.sum())
        wanted = x.copy()
        wanted[mask] = values
        with wf.device(device):
            found = wf.asarray(x)
            found[masks(kind, mask)] = wf.asarray(values)
            np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_what_is_assigned_may_be_the_array_itself(device: str) -> None:
    x = RNG.standard_normal(5000)
    with wf.device(device):
        found, wanted = wf.asarray(x), x.copy()
        for a in (found, wanted):
            a[a > 0.3] = a[a > 0.3] * 2 + 1
            a[1:][a[1:] < 0] = a[1:][a[1:] < 0][::-1]
            view = a[::-1]
            view[view > 1] = view[view > 1][::-1]
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_count_and_choice_are_one_kernel() -> None:
    x, mask = RNG.standard_normal(9000), RNG.random(9000) < 0.5
    with wf.device("simt"):
        a, m, v = wf.asarray(x), wf.asarray(mask), wf.asarray(np.arange(int(mask.sum())))
        wf.evaluate(a, m, v)
        a[m] = v
        reset_statistics()
        wf.evaluate(a)
    assert statistics()["kernels"] == 1


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_too_few_values_are_refused(device: str) -> None:
    with wf.device(device):
        a = wf.asarray(np.zeros(4))
        with pytest.raises(ValueError, match="shape"):
            a[np.array([True, True, True, False])] = wf.asarray(np.ones(2))
        assert not np.asarray(a).any()
