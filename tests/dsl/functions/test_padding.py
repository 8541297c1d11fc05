"""Tests of the values with which arrays are padded, and of padded scalars."""

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


def test_a_scalar_is_padded_to_an_array() -> None:
    total = wf.asarray(np.ones(50_000)).sum()
    for x in (total, total + 1):  # (the second one is pending)
        found = wf.pad(x, 1)
        assert type(found) is wf.Array and found.shape == () and float(found) == float(x)
