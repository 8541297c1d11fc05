"""`Array.flat` is an iterator with NumPy's attributes."""

from __future__ import annotations

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


@pytest.mark.parametrize("key", [None, (0, 1), (slice(None), 1)])
def test_indices_that_it_does_not_take(key: Any) -> None:
    x = wf.zeros((2, 3))
    with pytest.raises(IndexError, match="unsupported iterator index"):
        x.flat[key]
    with pytest.raises(IndexError, match="unsupported iterator index"):
        x.flat[key] = 1
