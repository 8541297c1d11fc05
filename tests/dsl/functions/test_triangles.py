"""Tests that `tri` has NumPy's results, also for negative sizes."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("shape", [(-2, None), (3, -1), (0, 2), (3, 4)])
def test_negative_sizes_are_zero(shape: tuple[int, int | None]) -> None:
    expected, found = np.tri(*shape), wf.tri(*shape)
    assert found.shape == expected.shape and found.tolist() == expected.tolist()
