"""Tests of index expressions, and of values that are assigned to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.validation import NUMPY_VERSION

X = np.arange(60.0).reshape(3, 4, 5)
AT = [2, 0]
MASK = np.array([[True, False, False, True], [False] * 4, [True] * 4])


class Wrapped:
    """An object that only has ``__array__``."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), AT, ..., AT),  # an ellipsis of no axes also separates index arrays
        (AT, ..., AT),
        (0, ..., AT, AT),
        (AT, AT, ..., 1),
        (AT, AT, AT, ...),
        (..., AT, slice(None), AT),
        (AT, None, AT),
        (None, AT, AT),
        (slice(None), 1, AT),
        (tuple(map(tuple, MASK.tolist())),),
        MASK.tolist(),
        Wrapped(MASK),
        (Wrapped(MASK), 1),
        (Wrapped(AT), slice(1, 3)),
        (range(2), tuple(AT)),
        (True, AT),
        (),
        [],
        (..., np.array(0)),
        (1, 2, 3, ...),
    ],
)
def test_index_like_numpy(key: Any) -> None:
    expected = X[key]
    found = wf.array(X)[key]
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    target, wanted = wf.array(X), X.copy()
    target[key] = wanted[key] = -np.arange(1, expected.size + 1.0).reshape(expected.shape)
    assert np.array_equal(target, wanted)


@pytest.mark.parametrize("key", [[1.5], "a", ([None],), np.array([1.5]), (0, 0, 0, [0]), (..., 0, ...)], ids=str)
def test_errors_like_numpy(key: Any) -> None:
    with pytest.raises(IndexError) as expected:
        X[key]
    with pytest.raises(IndexError) as found:
        wf.array(X)[key]
    assert str(found.value) == str(expected.value)


def test_at_with_numbers_and_sequences() -> None:
    target, wanted = wf.zeros(5), np.zeros(5)
    for value in (2, 0.5, np.float64(3), [1.0, 2.0, 4.0]):
        wf.add.at(target, [0, 3, 3], value)
        np.add.at(wanted, [0, 3, 3], value)
    assert np.array_equal(target, wanted)


LISTS: list[Any] = [
    [5],
    [[5]],
    [1, 2],
    [[1, 2]],
    [[1], [2]],
    [],
    (5,),
    range(2),
    ["3", "4"],
    [1j],
    [None],
    np.ones((1, 1)),
    np.ones((1, 2)),
    2**70,
]
KEYS: list[Any] = [
    1,
    (1,),
    slice(2),
    ...,
    (1, ...),
    (1, None),
    [1, 2],
    np.arange(50_000) == 1,
    (np.arange(50_000) < 2,),
    (np.arange(50_000) < 2, ...),
]


@pytest.mark.parametrize("size", [4, 50_000])
@pytest.mark.parametrize("value", LISTS, ids=str)
def test_values_of_assignments_have_at_most_the_axes_that_numpy_accepts(value: Any, size: int) -> None:
    for key in KEYS:
        if isinstance(key, tuple) and isinstance(key[0], np.ndarray):
            index: Any = tuple(each[:size] if isinstance(each, np.ndarray) else each for each in key)
        else:
            index = key[:size] if isinstance(key, np.ndarray) else key
        wanted, pending, known = np.arange(float(size)), wf.arange(float(size)) + 0, wf.asarray(np.arange(float(size)))
        errors = 0
        for target in (wanted, pending, known):
            try:
                target[index] = value
            except (TypeError, ValueError):
                errors += 1
        assert errors in (0, 3), (index, value)
        np.testing.assert_array_equal(pending, wanted)
        np.testing.assert_array_equal(known, wanted)


@pytest.mark.parametrize("size", [4, 50_000])
def test_a_part_takes_the_values_that_numpy_accepts(size: int) -> None:
    wanted = np.arange(size) * 1j
    target = wf.array(wanted)
    target.real = wanted.real = np.ones((1, size))
    target.imag = wanted.imag = "3"
    np.testing.assert_array_equal(target, wanted)
    refused = (np.ones((2, size)), [[1.0] * size], "a", *([1j] if NUMPY_VERSION >= (2, 5) else []))
    for value in refused:
        with pytest.raises((TypeError, ValueError)):
            target.real = value
    np.testing.assert_array_equal(target, wanted)


@pytest.mark.parametrize("size", [4, 50_000])
@pytest.mark.parametrize(
    "value", [[300, 1], [-129], [np.nan, 1.5], np.float64(np.nan), np.float64(1e30), np.int64(300)], ids=str
)
def test_numbers_that_an_integer_array_cannot_hold(value: Any, size: int) -> None:
    wanted = np.zeros(size, np.int8)
    for target in (wanted, wf.zeros(size, np.int8), wf.zeros(size, np.int8) + np.int8(0)):
        with pytest.raises((OverflowError, ValueError)):
            target[: len(value) if isinstance(value, list) else 1] = value
        assert not target.any()


@pytest.mark.parametrize("size", [6, 50_000])
@pytest.mark.parametrize("key", [[0, 0, 1], slice(3)], ids=str)
def test_at_refuses_surplus_axes(key: Any, size: int) -> None:
    for target in (np.zeros(size, complex), wf.zeros(size, complex)):
        with pytest.raises(ValueError, match="broadcast"):
            np.add.at(target, key, np.ones((1, 3)))
        assert not target.any()
