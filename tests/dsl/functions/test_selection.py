"""Tests of functions that select or replace elements."""

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


@pytest.mark.parametrize("immediate", [0, 16384])
def test_putmask_casts_a_pending_scalar_by_any_rule(immediate):
    with override(immediate=0):
        total = wf.ones(3, "uint64").sum()
    with override(immediate=immediate):
        x = wf.array([True, False, True])
        wf.putmask(x, x, total - 3)
    assert x.tolist() == [False, False, False]


@pytest.mark.parametrize("immediate", [0, 16384])
def test_where_selects_objects(immediate):
    with override(immediate=immediate):
        x = wf.arange(4)
        assert wf.where(x > 1, x, None).tolist() == [None, None, 2, 3]
        assert wf.where(x > 1, None, x).tolist() == [0, 1, None, None]
        with pytest.raises(ValueError, match="neither"):
            wf.where(x > 1, x)


@pytest.mark.parametrize("immediate", [0, 16384])
def test_masked_assignment_converts_text_and_objects(immediate):
    with override(immediate=immediate):
        x = wf.arange(4.0)
        x[x == 1], x[x == 2] = "5", None
        np.testing.assert_array_equal(x, [0, 5, np.nan, 3])
        with pytest.raises(ValueError, match="convert"):
            x[x == 3] = "q"


@pytest.mark.parametrize("immediate", [0, 16384])
def test_the_method_choose_takes_each_choice_as_an_argument(immediate):
    with override(immediate=immediate):
        which, x = wf.array([0, 2, 1]), wf.array([1, 2, 3])
        assert which.choose(x, x * 10, x * 100).tolist() == [1, 200, 30] == which.choose([x, x * 10, x * 100]).tolist()


@pytest.mark.parametrize("immediate", [0, 16384])
@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (1,), ()])
def test_outputs_of_take_and_choose_have_their_shapes(shape, immediate):
    with override(immediate=immediate):
        for xp in (np, wf):
            x, out = xp.asarray([1, 0, 1]), xp.zeros(shape, dtype=int)
            with pytest.raises(ValueError, match="does not match result"):
                xp.take(x, [2, 1, 0], out=out)
            with pytest.raises(TypeError, match="invalid shape"):
                xp.choose(x, [x, 7], out=out, mode="wrap")


@pytest.mark.parametrize("n", [4, 200_000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    "bounds", [(0.0, 1), (-0.0, 1), (-1, 0.0), (-1, -0.0), (0.0, None), (None, -0.0), ([0.0, -0.0], 1)], ids=str
)
def test_clip_keeps_the_sign_of_zeros(bounds, dtype, n):
    x = np.tile(np.array([-0.0, 0.0, 2, -3], dtype), n // 4)
    if isinstance(bounds[0], list):
        bounds = np.tile(np.array(bounds[0], dtype), n // 2), bounds[1]
    expected, found = np.clip(x, *bounds), wf.clip(wf.asarray(x), *bounds)
    assert (found.numpy() == expected).all() and (np.signbit(found.numpy()) == np.signbit(expected)).all()
