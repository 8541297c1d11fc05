"""Tests of functions that read or write elements at different indices in each row."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("pending", [False, True])
def test_what_numpy_takes(axis: int | None, pending: bool) -> None:
    x = RNG.standard_normal((5, 7, 3))
    n = x.size if axis is None else x.shape[axis]
    shape = (11,) if axis is None else tuple(4 if k == axis % 3 else m for k, m in enumerate(x.shape))
    indices = RNG.integers(-n, n, shape)
    a, mine = wf.asarray(x), x
    if pending:
        a, mine = (a * 2)[::-1], (x * 2)[::-1]
    np.testing.assert_array_equal(
        wf.take_along_axis(a, wf.asarray(indices), axis), np.take_along_axis(mine, indices, axis)
    )
    np.testing.assert_array_equal(np.take_along_axis(a, indices, axis), np.take_along_axis(mine, indices, axis))


def test_axes_of_one_element_are_repeated() -> None:
    x, indices = RNG.standard_normal((5, 1)), RNG.integers(0, 5, (2, 6))
    np.testing.assert_array_equal(wf.take_along_axis(wf.asarray(x), indices, 0), np.take_along_axis(x, indices, 0))
    np.testing.assert_array_equal(
        wf.take_along_axis(wf.asarray(x.T), wf.asarray(indices[:1]), 1), np.take_along_axis(x.T, indices[:1], 1)
    )


def test_what_numpy_puts() -> None:
    x = RNG.standard_normal((5, 7))
    indices = np.argsort(x, 1)[:, :3]
    a = wf.asarray(x)
    view = a[::-1]
    wf.put_along_axis(view, wf.asarray(indices), 9.0, 1)
    np.put_along_axis(x[::-1], indices, 9.0, 1)
    wf.put_along_axis(a, np.array([3, -1]), [1.0, 2.0], None)
    np.put_along_axis(x, np.array([3, -1]), [1.0, 2.0], None)
    np.testing.assert_array_equal(a, x)


def test_wrong_indices_are_named() -> None:
    a = wf.ones((3, 4))
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 with size 4"):
        wf.take_along_axis(a, np.full((3, 1), 4), 1)
    with pytest.raises(IndexError, match="integer"):
        wf.take_along_axis(a, np.ones((3, 1)), 1)
    with pytest.raises(ValueError, match="same number of dimensions"):
        wf.take_along_axis(a, np.array([1]), 1)
    with pytest.raises(ValueError, match="single dimension"):
        wf.take_along_axis(a, np.ones((3, 1), int), None)
