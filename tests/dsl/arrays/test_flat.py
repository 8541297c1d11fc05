"""Tests that `Array.flat` has the state, elements and errors of NumPy's iterator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft as wf


def steps(x: Any) -> list[Any]:
    found: list[Any] = []
    elements = x.flat
    for _ in range(4):
        found += [elements.coords, elements.index, next(elements).item()]
    return [*found, *(e.item() for e in elements), elements.copy().tolist(), len(elements), elements.index]


def test_the_iterators_state() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    assert steps(wf.array(x)) == steps(x)
    assert steps(wf.array(x)[:, ::2].T) == steps(x[:, ::2].T)


def test_it_is_an_iterator_of_its_array() -> None:
    x = wf.zeros((2, 3))
    elements = x.flat
    assert iter(elements) is elements and elements.base is x
    copied = elements.copy()
    copied[0] = 1
    assert x[0, 0] == 0


@pytest.mark.parametrize("size", [3, 50_000])
@pytest.mark.parametrize(
    "view", [lambda x: x, lambda x: x.T, lambda x: x[1, ::-1], lambda x: (x + 1j).real, lambda x: (x + 1j)[0, 1].real]
)
def test_it_returns_elements_that_were_written_after_its_start(view: Any, size: int) -> None:
    found = []
    for xp in (np, wf):
        x = view(xp.asarray(np.arange(2.0 * size).reshape(2, size)) + 0)
        elements = x.flat
        found.append([float(next(elements))])
        if x.ndim:
            x *= 2
            found[-1].append(float(next(elements)))
    assert found[0] == found[1]


@pytest.mark.parametrize("whole", [np.arange(24.0).reshape(2, 3, 4), np.arange(12).reshape(3, 4).T, np.zeros((0, 2))])
def test_single_elements(whole: np.ndarray) -> None:
    x = wf.array(whole)
    for key in (*range(-whole.size, whole.size, 5), np.int64(whole.size - 1)):
        if whole.size:
            assert x.flat[key] == whole.flat[key]
            x.flat[key] = whole.flat[key] = 99.0
    assert x.tolist() == whole.tolist()
    for key in (whole.size, -whole.size - 1):
        with pytest.raises(IndexError, match=f"index {key} is out of bounds for size {whole.size}"):
            x.flat[key]
        with pytest.raises(IndexError, match=f"index {key} is out of bounds for size {whole.size}"):
            x.flat[key] = 1


@pytest.mark.parametrize("size", [3, 50_000])
@pytest.mark.parametrize("key", [slice(1, 5), slice(None), (slice(2, None),), ..., ()])
def test_slices_are_copies(key: Any, size: int) -> None:
    found = []
    for xp in (np, wf):
        x = xp.asarray(np.arange(2.0 * size).reshape(2, size)) + 0
        part, other = x.flat[key], x.flat[key]
        x += 1
        other[:2] = -1.0
        found.append([part.tolist(), other.tolist(), x.tolist()])
    assert found[0] == found[1]


KEYS: dict[str, Any] = {
    "int": 4,
    "slice": slice(1, None, 2),
    "list": [5, 0, -1],
    "two dimensions": np.array([[1, 2], [3, 4]]),
    "weft array": wf.array([0, 5, 1], dtype="i2"),
    "mask": np.arange(6) % 2 == 0,
    "weft mask": wf.arange(6) > 1,
    "Ellipsis": ...,
    "empty tuple": (),
    "tuple": ([0, 3],),
    "empty list": [],
    "True": True,
    "False": False,
    "floats": [1.0, 2.0],
    "np.True_": np.True_,
    "bools": [True, False],
    "short mask": np.ones(5, bool),
    "short weft mask": wf.ones(5, bool),
    "mask of two dimensions": np.ones((2, 3), bool),
    "array of floats": np.array([1.0]),
    "weft array of floats": wf.array([1.0]),
    "None": None,
    "two": (0, 1),
    "out of bounds": [6, 0],
}


def outcome(x: Any, key: Any, *value: Any) -> tuple[Any, ...]:
    """Read or assign ``x.flat[key]``. Return elements and warnings, or the error.

    After an assignment, the elements are those of `x`.
    """
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = x.flat.__setitem__(key, *value) if value else x.flat[key]
        except (IndexError, ValueError) as error:
            return type(error), str(error)
    return (x if value else found).tolist(), [str(w.message) for w in seen]


@pytest.mark.parametrize("key", KEYS)
def test_indices(key: str) -> None:
    x, index = np.arange(12).reshape(2, 6)[:, ::2], KEYS[key]
    theirs = index.numpy() if isinstance(index, wf.Array) else index
    index = wf.array(theirs) if isinstance(index, wf.Array) else index  # (on the device that the test uses)
    assert outcome(wf.array(x), index) == outcome(x, theirs)
    values: list[Any] = [9, [7], [7, 8, 9], [[7], [8]], list(range(20)), []]
    for value in {"int": [9, 7.5], "True": [9, 7.5], "out of bounds": [9]}.get(key, values):
        assert outcome(wf.array(x), index, value) == outcome(x.copy(), theirs, value)
