"""Tests of the functions in ``signals.py`` that convert indices: `ravel_multi_index` and `unravel_index`, for each memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("order", ["C", "F", "c", "f", None])
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_flat_indices_in_every_order(order: Any, mode: str) -> None:
    rows, columns = np.array([0, 1, 2, 1]), np.array([3, 0, 1, 2])
    if mode != "raise":
        rows, columns = rows * 5 - 4, columns * 3
    expected = np.ravel_multi_index((rows, columns), (3, 4), mode, order or "C")
    found = wf.ravel_multi_index((wf.array(rows), wf.array(columns)), (3, 4), mode, order)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("order", ["C", "F", "c", "f"])
def test_index_arrays_in_every_order(order: Any) -> None:
    found = wf.unravel_index(wf.array([0, 5, 11]), (3, 4), order)
    assert [x.tolist() for x in found] == [x.tolist() for x in np.unravel_index([0, 5, 11], (3, 4), order.upper())]


@pytest.mark.parametrize("order", ["A", "K", "Q", 1])
def test_other_orders_are_refused(order: Any) -> None:
    with pytest.raises(ValueError, match="order"):
        wf.ravel_multi_index((wf.array([1]), wf.array([1])), (3, 4), order=order)


@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
def test_a_flat_index_into_an_empty_shape_is_an_error(mode):
    with pytest.raises(ValueError, match="zero entries"):
        wf.ravel_multi_index(wf.zeros((3, 20_000), dtype=int), (2, 1, 0), mode=mode)
    assert wf.ravel_multi_index(wf.zeros((3, 0), dtype=int), (2, 1, 0), mode=mode).shape == (0,)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [list, wf.array])
def test_shapes_of_more_elements_than_memory_holds(kind: Any, order: str) -> None:
    shape, parts = (10**6, 10**6, 9 * 10**6), np.array([[1, 999_999], [2, 999_998], [3, 8_999_997]])
    flat = np.ravel_multi_index(tuple(parts), shape, order=order)
    assert wf.ravel_multi_index(tuple(map(kind, parts)), shape, order=order).tolist() == flat.tolist()
    assert [k.tolist() for k in wf.unravel_index(kind(flat), shape, order)] == parts.tolist()
    with pytest.raises(ValueError, match="large|big"):
        wf.ravel_multi_index(tuple(map(kind, parts)), (*shape[:2], 10**7), order=order)


@pytest.mark.parametrize("dtype", ["u1", "i1"])
@pytest.mark.parametrize("mode", ["raise", "clip", "wrap"])
def test_a_narrow_dtype_need_not_hold_the_lengths(mode: Any, dtype: str) -> None:
    x = np.arange(100_000).astype(dtype)
    parts = (x % 120, x % 100 if mode == "raise" else x)
    expected = np.ravel_multi_index(parts, (300, 400), mode)
    assert (wf.ravel_multi_index(tuple(map(wf.asarray, parts)), (300, 400), mode) == expected).all()
