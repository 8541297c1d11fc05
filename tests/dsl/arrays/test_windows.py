"""Tests of views and elements: repeated indices, immediate writes, and flags.

Views see the written elements, and earlier results keep the old values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

INDICES: list[Any] = [
    3,
    -1,
    slice(1, None),
    slice(None, None, -2),
    (2, 3),
    (slice(None), 1),
    (..., 1),
    (1, ...),
    (None, slice(2, 4)),
    (slice(1, 3), slice(None, -1)),
    ...,
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("value", [2.5, 7, "row"])
def test_reads_and_writes_at_an_index_that_was_met_before(index: Any, value: Any) -> None:
    source = np.arange(24.0).reshape(4, 6)
    for _ in range(3):
        a, x = source.copy(), wf.asarray(source)
        for turn in range(4):
            given = value if value != "row" else a[index] + turn
            a[index] = given
            x[index] = given if not isinstance(given, np.ndarray) else wf.asarray(given)
            np.testing.assert_array_equal(np.asarray(x[index]), a[index])
            if turn % 2:
                a, x = a * 1.5, x * 1.5
        np.testing.assert_array_equal(np.asarray(x), a)


def test_every_write_that_loses_imaginary_parts_warns() -> None:
    with override(immediate=0):
        x, z = wf.zeros(5), wf.asarray(np.arange(4) + 1j)
        for _ in range(4):
            with pytest.warns(np.exceptions.ComplexWarning):
                x[1:] = z
            wf.evaluate(x)


def test_what_was_recorded_or_copied_keeps_the_old_element() -> None:
    x = wf.asarray(np.arange(5.0))
    for k in range(3):
        x[2] = 0.0
        copied, pending = x.numpy(), x * 2.0
        x[2] = 10.0 + k
        part = x[1:]
        x[3] = -1.0
        assert float(part[2]) == -1.0
        assert copied[2] == 0.0
        assert float(pending[2]) == 0.0
        assert float(x[2]) == 10.0 + k


def test_views_are_those_of_their_storage() -> None:
    """Test the shapes of views of an array that is itself a view."""
    for shape in ((4,), (2, 2), (4,)):
        x = wf.ones(shape).reshape(4)[None]
        assert x[0].shape == (4,)
        assert x.reshape(4).shape == x.T[:, 0].shape == (4,)
        assert x.reshape((2, 2)).shape == (2, 2)
        with pytest.raises(TypeError):
            x.reshape(4.0)


def test_an_element_is_a_copy() -> None:
    x = wf.asarray(np.arange(5.0))
    first = x[1]
    x[1] = 9.0
    assert float(first) == 1.0
    assert float(x[1]) == 9.0


def test_elements_take_what_numpy_takes() -> None:
    x = wf.asarray(np.arange(5))
    x[1] = 2.75
    x[2] = True
    assert x.tolist() == [0, 2, 1, 3, 4]
    for wrong, error in ((float("nan"), ValueError), (float("inf"), OverflowError), (1 << 70, OverflowError)):
        with pytest.raises(error):
            x[0] = wrong
    with pytest.raises(IndexError):
        x[5] = 1
    assert x.tolist() == [0, 2, 1, 3, 4]


def test_broadcast_views_stay_read_only() -> None:
    x = wf.broadcast_to(wf.asarray(np.arange(3.0)), (2, 3))
    assert float(x[1, 2]) == 2.0
    for value in (5.0, wf.asarray(5.0)):
        with pytest.raises(ValueError, match="read-only"):
            x[1, 2] = value
        with pytest.raises(ValueError, match="read-only"):
            x[1] = value


def test_python_numbers_of_elements() -> None:
    for dtype, value, kind in (
        ("f8", 0.1, float),
        ("f4", 0.5, float),
        ("i4", -7, int),
        ("u1", 200, int),
        ("?", True, bool),
    ):
        x = wf.asarray(np.array([value, value], dtype))
        found = x[1].item()
        assert type(found) is kind
        assert found == value
        assert float(x[0]) == float(value)
        assert bool(x[0]) is True
    assert complex(wf.asarray(np.array([1 + 2j]))[0]) == 1 + 2j
    assert x.sum().item() == 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_flags_are_printed_like_numpys(order: Any) -> None:
    ours, theirs = wf.ones((200, 300), order=order).copy(order).flags, np.ones((200, 300), order=order).flags
    assert str(ours).replace("OWNDATA : False", "OWNDATA : True") == repr(theirs) == str(theirs)


@pytest.mark.parametrize("immediate", [0, 16_384])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (3, 4, 4)])
def test_diagonals_can_be_made_writable(shape: tuple[int, ...], immediate: int) -> None:
    with override(immediate=immediate):
        x, values = wf.zeros((*shape, shape[-1])), np.random.default_rng(3).random(shape)
        diagonal = wf.diagonal(x, axis1=-2, axis2=-1)
        with pytest.raises(ValueError, match="read-only"):
            diagonal[:] = 1
        diagonal.flags.writeable = True
        diagonal[:] = values
        diagonal += 1
        np.testing.assert_array_equal(np.diagonal(np.asarray(x), axis1=-2, axis2=-1), values + 1)


@pytest.mark.parametrize("key", [slice(None), slice(None, None, 2), (slice(None), 0), (0, slice(None))])
def test_flags_are_also_bits(key: Any) -> None:
    values = np.arange(12.0).reshape(3, 4)
    for given in (values, values.T, np.diagonal(values)):
        x = wf.asarray(values)
        mine = x if given is values else x.T if given.ndim == 2 else np.diagonal(x)
        if given.ndim == 2:
            mine, given = mine[key], given[key]
        owned = 4  # (`values` is itself a view)
        assert mine.flags.num & ~owned == given.flags.num & ~owned
