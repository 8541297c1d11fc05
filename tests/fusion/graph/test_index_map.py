"""Tests of affine index maps.

A view that is decoded from strides reads the same elements as in NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.fusion.graph.index_map import (
    ZERO,
    Affine,
    broadcast,
    combine,
    decode_view,
    disjoint,
    flatten,
    rename,
    through_view,
    variable,
)


def as_view(base: np.ndarray, window: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    start = window.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    strides = tuple(s // base.itemsize for s in window.strides)
    return window.shape, strides, start // base.itemsize


def read(base: np.ndarray, shape: tuple[int, ...], decoded: tuple) -> np.ndarray:
    grid = np.indices(shape)
    where = tuple(start + sum((grid[axis] * jump for axis, jump in terms), np.int64(0)) for start, terms in decoded)
    return base[tuple(np.broadcast_to(w, shape) for w in where)]


slices = st.builds(
    slice,
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-6, 6),
    st.sampled_from([None, 1, 2, 3, -1, -2]),
)


# on a busy machine, examples may take any time
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_slices_and_transposes_decode(shape: list[int], data: st.DataObject) -> None:
    base = np.arange(np.prod(shape)).reshape(shape)
    window = base[tuple(data.draw(slices) for _ in shape)]
    window = window.transpose(data.draw(st.permutations(range(window.ndim))))
    if window.size == 0:
        return
    view = as_view(base, window)
    decoded = decode_view(base.shape, *view)
    assert decoded is not None
    np.testing.assert_array_equal(read(base, view[0], decoded), window)


@pytest.mark.parametrize(
    ("base", "shape", "strides", "offset", "decodes"),
    [
        ((12,), (3, 4), (4, 1), 0, True),  # a reshape that splits an axis
        ((3, 4), (12,), (1,), 0, False),  # a reshape that merges two axes
        ((3, 4), (3,), (5,), 0, False),  # the diagonal, whose stride is not a multiple of one axis
        ((3, 4), (2, 3, 4), (0, 4, 1), 0, True),  # repeated along a new axis
        ((3, 4), (4,), (3,), 0, False),  # a diagonal that wraps around
    ],
)
def test_what_decodes(
    base: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], offset: int, decodes: bool
) -> None:
    values = np.arange(np.prod(base)).reshape(base)
    decoded = decode_view(base, shape, strides, offset)
    assert (decoded is not None) == decodes
    if decoded is not None:
        expected = np.lib.stride_tricks.as_strided(
            values.reshape(-1)[offset:], shape, tuple(s * values.itemsize for s in strides)
        )
        np.testing.assert_array_equal(read(values, shape, decoded), expected)


def test_forms_are_canonical() -> None:
    both = combine(3, ((variable(1), 2), (variable(0), 5), (variable(1), -2)))
    assert both == (3, ((0, 5),))
    assert rename(both, {0: 7}) == (3, ((7, 5),))
    assert flatten((variable(0), ZERO, (1, ((2, 3),))), (4, 5, 6)) == (1, ((0, 30), (2, 3)))


def test_through_a_view_and_a_broadcast() -> None:
    decoded = decode_view((6, 8), (3, 8), (16, -1), 7)
    assert decoded == ((0, ((0, 2),)), (7, ((1, -1),)))
    at = through_view(decoded, (variable(4), variable(5)))
    assert at == ((0, ((4, 2),)), (7, ((5, -1),)))
    assert broadcast((variable(0), variable(1), variable(2)), (1, 9)) == (ZERO, variable(2))


def test_disjoint_indices_never_meet() -> None:
    source = np.random.default_rng(0)
    found = 0
    for _ in range(400):
        extents = [int(n) for n in source.integers(1, 5, 2)]
        one, other = (
            (int(source.integers(0, 12)), tuple((k, int(c)) for k, c in enumerate(source.integers(-3, 7, 2)) if c))
            for _ in range(2)
        )
        if disjoint(one, other, extents):
            found += 1
            assert _values(one, extents).isdisjoint(_values(other, extents))
    assert found > 40


def _values(form: Affine, extents: list[int]) -> set[int]:
    return {form[0] + sum(c * at[k] for k, c in form[1]) for at in np.ndindex(*extents)}
