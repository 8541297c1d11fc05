"""Tests of variances on a GPU, and of sums of ``exp(x - maximum)`` as in a softmax."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(6)


@pytest.mark.parametrize("length", [40_000, 300_001])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_variances_and_exponentials(length: int, dtype: str) -> None:
    values = (RNG.standard_normal(length) + 5).astype(dtype)
    wide = values.astype("f8")
    x = wf.asarray(values)
    tolerance = 1e-6 if dtype == "f4" else 1e-13
    assert float(x.var()) == pytest.approx(wide.var(), rel=tolerance)
    assert float(wf.exp(x - x.max()).sum()) == pytest.approx(np.exp(wide - wide.max()).sum(), rel=tolerance)
    first = float(x.std())
    for _ in range(5):
        assert float(x.std()) == first


@pytest.mark.parametrize("shape", [(5000, 70), (20_000, 3), (700, 600)])
def test_columns(shape: tuple[int, int]) -> None:
    values = (RNG.standard_normal(shape) + 5).astype("f4")
    x = wf.asarray(values)
    np.testing.assert_allclose(x.var(axis=0), values.astype("f8").var(axis=0), rtol=3e-6)
    np.testing.assert_allclose(x.std(axis=1), values.astype("f8").std(axis=1), rtol=3e-6)
