"""Functions that select or replace elements."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.runtime import override


@pytest.mark.parametrize("n", [20, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_nan_to_num_without_a_copy_writes_to_a_numpy_array(dtype, n):
    values = np.full(n, np.nan, dtype)
    assert wf.nan_to_num(values, copy=False, nan=wf.float32(2)) is values
    assert (values == 2).all()


BELOW_ONE = 1 - 2.0**-52


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.asarray])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "c8"])
def test_numbers_in_isclose_promote_as_in_numpy(dtype, kind, immediate):
    x, below = np.ones(3, dtype), kind(BELOW_ONE)
    calls = [
        lambda xp, x: xp.isclose(x, below, atol=0, rtol=0),
        lambda xp, x: xp.isclose(below, x, atol=0, rtol=0),
        lambda xp, x: xp.isclose(x, x * 0, atol=below),
        lambda xp, x: xp.isclose(x, 2, atol=0, rtol=kind(BELOW_ONE / 2)),
        lambda xp, x: xp.isclose(x, kind(np.nan), equal_nan=True),
        lambda xp, x: xp.allclose(x, below, 0, 0),
    ]
    with override(immediate=immediate):
        for call in calls:
            assert np.asarray(call(wf, wf.asarray(x))).tolist() == np.asarray(call(np, x)).tolist()
        assert bool(wf.isclose(1.0, below)) and not bool(wf.isclose(1, 2))


def test_putmask_converts_lists_to_the_dtype_of_a_numpy_array():
    values = np.zeros(3, "f2")
    wf.putmask(values, wf.array([True, False, True]), [1.5, 2.5, 3.5])
    assert values.tolist() == [1.5, 0, 3.5]
