"""Tests that `linspace` is recorded, and that its results are bit-identical to NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("dtype", [None, np.float32, np.float16, np.int32, np.complex64, bool])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(
    "ends", [(0, 1), (-3, 10.7), (2.5, np.float64(0.1)), (-0.0, -2.5), (5, 5), (-1e-310, 0), (np.float32(0.1), 3)]
)
def test_linspace_has_numpys_bits(ends: tuple[Any, Any], endpoint: bool, dtype: Any) -> None:
    for count in (2, 50, 20_000):
        ours, step = wf.linspace(*ends, count, endpoint, True, dtype)
        theirs, expected = np.linspace(*ends, count, endpoint, True, dtype)
        assert ours.dtype == theirs.dtype and ours.numpy().tobytes() == theirs.tobytes()
        assert step == expected and type(step) is type(expected)


def test_linspace_is_recorded() -> None:
    assert len(wf.explain(wf.linspace(0, 1, 20_000)).kernels) == 1
