"""Rare and invalid arguments of functions that change shapes have NumPy's results and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("axis", [0, -1])
def test_an_array_without_axes_is_squeezed(axis: int) -> None:
    assert wf.squeeze(wf.array(3.0), axis=axis).item() == np.squeeze(np.array(3.0), axis=axis)
    with pytest.raises(np.exceptions.AxisError):
        wf.squeeze(wf.array(3.0), axis=axis - 1 if axis else 1)


@pytest.mark.skipif(not hasattr(np, "row_stack"), reason="NumPy has removed row_stack in version 2.5")
def test_row_stack_warns_at_the_users_line() -> None:
    with pytest.warns(DeprecationWarning, match="row_stack") as caught:
        found = wf.row_stack((wf.ones(3), wf.zeros((2, 3))))
    assert found.tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3]
    assert caught[0].filename == __file__


def test_a_matrix_transpose_needs_two_axes() -> None:
    with pytest.raises(ValueError, match="matrix transpose with ndim < 2 is undefined"):
        _ = wf.arange(4).mT
    assert wf.ones((2, 3, 4)).mT.shape == (2, 4, 3)


@pytest.mark.parametrize("copy", ["False", "never"])
def test_copy_is_no_text(copy: Any) -> None:
    with pytest.raises(ValueError, match="strings are not allowed"):
        wf.zeros((2, 3)).reshape(3, 2, copy=copy)


@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [(2, 3), (0,)])
def test_a_mask_is_of_booleans(dtype: Any, shape: tuple[int, ...]) -> None:
    x = wf.zeros(shape)
    with pytest.raises(TypeError, match="Cannot cast array data"):
        wf.copyto(x, wf.ones(shape), where=wf.ones(shape, dtype))
    wf.copyto(x, wf.ones(shape), where=True)
    assert (x == 1).all()


@pytest.mark.parametrize("where", [3.2, 0.0, 1, False])
def test_a_number_is_a_mask(where: Any) -> None:
    ours, theirs = wf.zeros(3), np.zeros(3)
    wf.copyto(ours, wf.ones(3), where=where)
    np.copyto(theirs, np.ones(3), where=where)
    assert ours.tolist() == theirs.tolist()
