"""Tests of expressions that simplify themselves."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

SHAPES = [((6, 1, 7), (6, 5, 7)), ((1, 6, 7), (5, 6, 7)), ((6, 7, 1), (6, 7, 5)), ((1, 1, 7), (3, 0, 7))]


@pytest.mark.parametrize(("own", "shape"), SHAPES)
@pytest.mark.parametrize("name", ["max", "min", "any", "all", "argmax", "argmin"])
def test_extremes_of_broadcast_arrays(name: str, own: tuple[int, ...], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 5, own)
    x, y = wf.broadcast_to(wf.asarray(values), shape), np.broadcast_to(values, shape)
    several = [] if name.startswith("arg") else [(0, 1), (1, 2), (0, 2)]
    for axis in (None, 0, 1, 2, *several):
        try:
            expected = getattr(np, name)(y, axis=axis, keepdims=True)
        except ValueError:
            with pytest.raises(ValueError, match=r"zero-size|empty"):
                getattr(wf, name)(x, axis=axis, keepdims=True)
            continue
        np.testing.assert_array_equal(getattr(wf, name)(x, axis=axis, keepdims=True), expected, strict=True)


def test_repeated_elements_are_read_once() -> None:
    x = wf.broadcast_to(wf.asarray(np.arange(40_000.0) % 7), (100, 40_000))
    assert "parallel i 40000\n" in str(wf.explain(wf.argmin(x, 0)))  # (no loop along the broadcast axis)
