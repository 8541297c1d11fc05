"""Tests of functions that create arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

CUBE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = {
    "C": CUBE,
    "F": np.asfortranarray(CUBE),
    "swapped": CUBE.swapaxes(0, 1),
    "turned": CUBE.transpose(2, 0, 1),
    "part": CUBE[:, ::2].swapaxes(0, 1),
    "matrix": CUBE[0].T,
    "row": CUBE[0, 0],
}
ORDERS = [None, "C", "F", "A", "K"]


@pytest.fixture(params=[0, 1 << 14], autouse=True)
def _immediate(request: pytest.FixtureRequest) -> Iterator[None]:
    with override(immediate=request.param):
        yield


def given(layout: str) -> Any:
    """Return the NumPy array `LAYOUTS[layout]` as a weft array with the same elements and the same memory layout."""
    values = LAYOUTS[layout]
    found = wf.array(values)
    return wf.array(CUBE)[:, ::2].swapaxes(0, 1) if layout == "part" else found


def compare(ours: Any, theirs: np.ndarray, values: bool = True) -> None:
    assert type(ours) is wf.Array and ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert ours.strides == theirs.strides
    if values:
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_conversions(layout: str, order: str | None) -> None:
    x, options = LAYOUTS[layout], {} if order is None else {"order": order}
    compare(wf.array(x, **options), np.array(x, **options))
    compare(wf.array(given(layout), **options), np.array(x, **options))
    if order != "A" or layout not in ("swapped", "turned", "part"):  # (with a cast, NumPy takes "A" for "K" there)
        compare(wf.array(x, dtype=np.float32, **options), np.array(x, dtype=np.float32, **options))
    compare(wf.copy(given(layout), **options), np.copy(x, **options))
    compare(given(layout).copy(**options), x.copy(**options))
    if layout != "part":  # (NumPy returns the same array, with gaps)
        compare(wf.asarray(x, **options), np.asarray(x, **options))
    compare(wf.asarray(given(layout), **options), np.asarray(x, **options))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_arrays_like_others(layout: str, order: str | None) -> None:
    x, options = LAYOUTS[layout], {} if order is None else {"order": order}
    for name in ("zeros_like", "ones_like", "empty_like"):
        compare(getattr(wf, name)(given(layout), **options), getattr(np, name)(x, **options), name != "empty_like")
    compare(wf.full_like(given(layout), 7, **options), np.full_like(x, 7, **options))
    compare(wf.zeros_like(given(layout), shape=(5, 6), **options), np.zeros_like(x, shape=(5, 6), **options))


def test_a_list_of_arrays_lies_in_c_order() -> None:
    rows = [wf.array(LAYOUTS["matrix"]), wf.array(LAYOUTS["matrix"])]
    compare(wf.array(rows), np.array([LAYOUTS["matrix"]] * 2))
    compare(wf.array(rows, order="F"), np.array([LAYOUTS["matrix"]] * 2, order="F"))


@pytest.mark.parametrize("make", [lambda: [1, 2], lambda: wf.zeros((2, 3)), lambda: wf.zeros(3)])
def test_no_copy_is_made_where_none_may_be(make: Any) -> None:
    x = make()
    if isinstance(x, list):
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            wf.array(x, copy=False)
        return
    assert wf.array(x, copy=False) is x and wf.asarray(x, copy=False) is x
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        wf.array(x, copy=False, dtype=np.int32)
    if x.ndim > 1:
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            wf.array(x, copy=False, order="F")


def test_a_shape_is_not_none() -> None:
    for make in (wf.zeros, wf.empty, wf.ones):
        with pytest.raises(TypeError, match="not None"):
            make(None)


def test_indices_are_not_booleans() -> None:
    with pytest.raises(TypeError, match="booleans"):
        wf.indices((2, 3), dtype=bool)
    assert wf.indices((2, 2), dtype=bool).tolist() == np.indices((2, 2), dtype=bool).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_full_saturates_like_a_cast(dtype):
    limits, n = np.iinfo(dtype), 20_000
    for fill, expected in ((np.inf, limits.max), (-np.inf, limits.min), (1e30, limits.max), (np.nan, 0), (2.7, 2)):
        for found in (wf.full(n, fill, dtype=dtype), wf.full_like(wf.zeros(n, dtype=dtype), fill)):
            assert found.dtype == dtype
            assert found[0] == found[-1] == expected
            assert found[0] == wf.full(n, fill).astype(dtype)[0]


@pytest.mark.parametrize("layout", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(4,), (3, 1), (2, 1, 1), (2, 3, 4), ()])
def test_full_like_broadcasts_an_array_of_values(shape, layout):
    x = np.zeros((2, 3, 4)).transpose(layout).copy().transpose(np.argsort(layout))
    values = np.arange(float(np.prod(shape))).reshape(shape)
    for kind in (np.asarray, np.ndarray.tolist, wf.asarray):
        found, expected = wf.full_like(wf.asarray(x), kind(values)), np.full_like(x, values)
        assert found.tolist() == expected.tolist() and found.strides == expected.strides


@pytest.mark.parametrize("n", [5, 200_000])
@pytest.mark.parametrize("first", [2**63, 2**63 - 3, -(2**63)])
@pytest.mark.parametrize("dtype", [None, "Q", "q"])
def test_ranges_beyond_int64(dtype: str | None, first: int, n: int) -> None:
    try:
        expected = np.arange(first, first + n, dtype=dtype)
    except OverflowError:
        with pytest.raises(OverflowError):
            wf.arange(first, first + n, dtype=dtype)
        return
    found = wf.arange(first, first + n, dtype=dtype)
    assert found.dtype == expected.dtype and (found.numpy() == expected).all()


@pytest.mark.parametrize("dtype", [None, "f8", "c8", "i8"])
def test_full_of_a_number_beyond_int64(dtype: str | None) -> None:
    for number in (2**64, -(2**70)):
        try:
            expected = np.full(20_000, number, dtype)
        except OverflowError:
            with pytest.raises(OverflowError):
                wf.full(20_000, number, dtype=dtype)
        else:
            found = wf.full(20_000, number, dtype=dtype)
            assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    assert wf.full_like(wf.zeros(20_000), 2**64)[-1] == 2.0**64


@pytest.mark.parametrize("n", [3, 20_000])
@pytest.mark.parametrize("value", [1j, 0j, 2])
def test_numbers_become_truth_values(value: complex, n: int) -> None:
    compare(wf.full(n, value, bool), np.full(n, value, bool))
    compare(wf.full_like(wf.zeros(n, bool), value), np.full_like(np.zeros(n, bool), value))


@pytest.mark.parametrize("dtype", ["u8", "i1", "f2"])
def test_ranges_up_to_an_array_of_one_number(dtype: str) -> None:
    for ends in ((1,), (0, 1), (0, 1, 1)):
        theirs = [np.array(n, dtype) for n in ends]
        compare(wf.arange(*map(wf.asarray, theirs)), np.arange(*theirs))
        compare(wf.arange(*(each[()] for each in theirs)), np.arange(*(each[()] for each in theirs)))


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "eye", "full"])
def test_new_arrays_have_no_order_to_keep(name: str) -> None:
    for xp in (np, wf):
        with pytest.raises(ValueError, match="only 'C' or 'F' order is permitted"):
            getattr(xp, name)(3, *([7] if name == "full" else []), order="K")


def test_a_range_may_be_too_long() -> None:
    with pytest.raises(ValueError, match="too big"):
        wf.arange(2**62)


def test_arange_requires_a_stop() -> None:
    for arguments in ((), (None,), (None, None, 2)):
        with pytest.raises(TypeError):
            wf.arange(*arguments)
    for options in ({"stop": 3}, {"start": 1, "stop": 3}, {"start": 3, "stop": None}, {"stop": 3, "step": 2}):
        assert wf.arange(**options).tolist() == np.arange(**options).tolist()
