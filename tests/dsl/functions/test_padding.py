"""Tests of the values with which arrays are padded."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

IMMEDIATE = 0


@pytest.mark.parametrize("fill", [(0.0, -0.0), (-0.0, 0.0), -0.0, ((1.0, 1.0), (1.0, 1.0)), np.nan])
def test_zeros_of_either_sign(fill: object) -> None:
    x = np.ones((2, 3))
    expected, found = np.pad(x, 1, constant_values=fill), wf.pad(wf.asarray(x), 1, constant_values=fill)  # type: ignore
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
