"""Tests of the parsing of index expressions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

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
