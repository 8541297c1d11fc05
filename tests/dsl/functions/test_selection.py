"""Functions that select or replace elements."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("n", [20, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_nan_to_num_without_a_copy_writes_to_a_numpy_array(dtype, n):
    values = np.full(n, np.nan, dtype)
    assert wf.nan_to_num(values, copy=False, nan=wf.float32(2)) is values
    assert (values == 2).all()
