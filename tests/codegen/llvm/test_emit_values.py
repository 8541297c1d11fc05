"""Tests of products ``index * constant`` in which type casts have changed the value of the constant."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize(("number", "dtypes"), [(200, "Bbi"), (70000, "qhi"), (3_000_000_000, "qil")])
def test_factor_of_an_index_that_casts_have_changed(number: int, dtypes: str) -> None:
    first, second, third = dtypes
    factor = wf.full(1000, number, first).astype(second).astype(third)
    wanted = np.full(1000, number, first).astype(second).astype(third) * np.arange(1000, dtype=third)
    np.testing.assert_array_equal(factor * wf.arange(1000, dtype=third), wanted)
