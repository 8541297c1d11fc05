"""Tests of shifted moments (sums such as ``((x - mean) ** 2).sum()``) with random arrays and expressions.

The results are compared with results in float64. Rows and columns have arbitrary lengths, and other operations share
the kernels.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import weft as wf

SUMS = (
    "x.var(axis, ddof=d)",
    "x.std(axis)",
    "((x - x.mean(axis, keepdims=True)) ** 2).sum(axis)",
    "xp.square(x.mean(axis, keepdims=True) - x).mean(axis)",
    "(x * 2 + 1).var(axis)",
    "xp.exp(x - x.max(axis, keepdims=True)).sum(axis)",
    "xp.log(xp.exp(x - x.max(axis, keepdims=True)).sum(axis)) + x.max(axis)",
    "(x - x.mean(axis, keepdims=True)) / (1 + x.std(axis, keepdims=True))",
    "xp.exp2(x * 2 - (x * 2).max(axis, keepdims=True)).sum(axis)",
)
COMPANY = ("x.sum(axis)", "x.mean(axis)", "x.max(axis)", "(x * x).sum(axis)", "x.min()", "x.sum()", "x + 1")
LENGTHS = (513, 600, 2049, 5000, 16_384, 16_385, 33_000, 70_001, 150_000)
DTYPES = ("float32", "float32", "float64", "int16")


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 60))])
def test_random_sums_around_a_centre(seed: int, device: str) -> None:
    pick = random.Random(seed)
    length = pick.choice(LENGTHS)
    rows = pick.choice([n for n in (1, 2, 3, 7, 33, 70, 130) if n * length <= 200_000])
    shape = pick.choice([(rows, length), (length, rows), (length,), (2, length, rows)])
    axis = pick.choice([None, *range(len(shape)), *([(0, 1)] if len(shape) > 1 else [])])
    dtype = np.dtype(pick.choice(DTYPES))
    values = (np.random.default_rng(seed).standard_normal(shape) * 3 + pick.choice((0, 5))).astype(dtype)
    lines = [*pick.sample(SUMS, pick.randint(1, 2)), *pick.sample(COMPANY, pick.randint(0, 2))]
    start = pick.choice((0, 0, 0, 1)) if shape[-1] > 1 else 0
    names: dict[str, Any] = {"axis": axis, "d": pick.choice((0, 1))}
    with wf.device(device):
        x = wf.asarray(values)[..., start:]
        found = [eval(line, {**names, "xp": wf, "x": x}) for line in lines]
        wf.evaluate(*found)
        again = [np.asarray(eval(line, {**names, "xp": wf, "x": x})) for line in lines]
    wide = values.astype(np.float64)[..., start:]
    for line, got, alone in zip(lines, found, again, strict=True):
        want = eval(line, {**names, "xp": np, "x": wide})
        tolerance = 1e-12 if got.dtype == np.float64 else 2e-5
        scale = float(np.abs(want).max())
        np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance * scale, err_msg=line)
        np.testing.assert_array_equal(np.asarray(got), alone, err_msg=f"{line} by itself")
