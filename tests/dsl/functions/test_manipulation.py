"""Tests of functions that change shapes, with rare and invalid arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.validation import NUMPY_VERSION
from weft.dsl.functions.own_names import find_own


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


@pytest.mark.parametrize("n", [9, 300, 40_000])
@pytest.mark.parametrize("kind", ["windows", "broadcast"])
@pytest.mark.parametrize("pending", [False, True])
def test_parts_of_a_read_only_view_with_overlapping_elements_are_read_only(pending, kind, n):
    x = wf.arange(n) * 2 if pending else wf.asarray(np.arange(n) * 2)
    windows = find_own(np.lib.stride_tricks.sliding_window_view)
    view = windows(x, 3) if kind == "windows" else wf.broadcast_to(x, (3, n))
    assert not view.flags.writeable
    for index in ((0, 0), 0, slice(None), (slice(None), 1), (0, slice(2))):
        with pytest.raises(ValueError, match="read-only"):
            view[index] = -1
    for part in (view[0], view.T[1], view[:1]):
        with pytest.raises(ValueError, match="read-only"):
            part[...] = -1
    assert np.array_equal(x, np.arange(n) * 2)


def test_windows_are_writable_on_request():
    x = wf.arange(40_000)
    view = find_own(np.lib.stride_tricks.sliding_window_view)(x, 2, writeable=True)
    view[0, 1] = -1
    assert x[:3].tolist() == [0, -1, 2]


@pytest.mark.parametrize("axes", [np.array([0, 2]), range(0, 3, 2), [-3, -1]])
def test_axes_in_any_sequence(axes: Any) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    x = wf.asarray(values)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda lib, a: lib.moveaxis(a, axes, (1, 0)),
        lambda lib, a: lib.flip(a, axes),
        lambda lib, a: lib.rot90(a, 1, axes),
        lambda lib, a: lib.roll(a, (1, 2), axes),
        lambda lib, a: lib.gradient(a, axis=axes)[1],
        lambda lib, a: lib.average(a, axis=axes),
        lambda lib, a: lib.lib.stride_tricks.sliding_window_view(a, (2, 2), axes),
    ]
    for function in functions:
        np.testing.assert_array_equal(function(wf, x), function(np, values))
    with pytest.raises(ValueError, match="repeated axis in `source` argument"):
        wf.moveaxis(x, (0, 0), (1, 2))


@pytest.mark.parametrize("repeats", [2.0, np.float64(2.7), np.float32(2), "2", [2.0], [1.0, 0.0, 2.0]])
def test_repeat_converts_numbers_that_are_no_array(repeats: Any) -> None:
    values = np.arange(3.0)
    np.testing.assert_array_equal(wf.repeat(wf.asarray(values), repeats), np.repeat(values, repeats))
    with pytest.raises(TypeError):
        wf.repeat(wf.asarray(values), np.asarray(repeats))


@pytest.mark.parametrize("n", [4, 40_000])
@pytest.mark.parametrize("length", [1, 2])
def test_windows_are_read_only(n: int, length: int) -> None:
    x = wf.arange(n) * 1.0
    view = find_own(np.lib.stride_tricks.sliding_window_view)(x, length)
    others = wf.ones(100_000)[: view.size].reshape(view.shape) * 2
    for write in (view.__iadd__, view[:1].__iadd__, lambda value: view.__setitem__(slice(None), value)):
        for value in (1, others[:1]):
            with pytest.raises(ValueError, match="read-only|overlap"):
                write(value)
    assert np.array_equal(x, np.arange(n)) and float(view.sum()) == np.arange(n).sum() * 1.0 * length - (n - 1) * (
        length - 1
    )


@pytest.mark.parametrize("n", [3, 300])
@pytest.mark.parametrize("axis", [np.array([0, 1]), range(2), {0, 1}, 1.0, None])
def test_new_axes_are_an_integer_a_tuple_or_a_list(axis: Any, n: int) -> None:
    for lib in (np, wf):
        with pytest.raises(TypeError):
            lib.expand_dims(lib.ones((n, 400)), axis)


def test_the_old_name_of_a_shape() -> None:
    x = wf.ones((300, 400))
    with pytest.raises(TypeError, match="newshape"):
        wf.reshape(x, (400, 300), newshape=(1,))
    if NUMPY_VERSION >= (2, 5):
        with pytest.raises(TypeError, match="unexpected keyword argument 'newshape'"):
            wf.reshape(x, newshape=(400, 300))
    else:
        with pytest.warns(DeprecationWarning, match="newshape"):
            assert wf.reshape(x, newshape=(400, 300)).shape == (400, 300)


@pytest.mark.parametrize(
    ("shape", "counts"),
    [
        ((100, 300), (1,) * 40 + (2, 3)),
        ((1,) * 39 + (40_000,), 2),
        ((100, 1, 300), (2, 3, 1)),
        ((100, 0), (3, 2)),
        ((100, 300), (2, 0)),
        ((1, 1), (300, 200)),
        ((), (200, 200)),
    ],
)
def test_tiles_of_many_axes(shape: tuple[int, ...], counts: Any) -> None:
    values = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
    np.testing.assert_array_equal(wf.tile(wf.asarray(values), counts), np.tile(values, counts))


@pytest.mark.parametrize("size", [12, 120_000])
def test_unknown_lengths_of_a_shape(size: int) -> None:
    values = np.arange(float(size))
    x = wf.asarray(values)
    for shape in ((-1, 3), (-2, 3), (3, -5), -7):
        np.testing.assert_array_equal(wf.reshape(x, shape), np.reshape(values, shape))
        np.testing.assert_array_equal(x.reshape(shape), values.reshape(shape))
    for shape in ((-1, -1), (-1, -2), (-2, 0), (-2, 7), (0,)):
        for given in (x, values):
            with pytest.raises(ValueError):
                given.reshape(shape)
    assert x.reshape(3, -1).reshape(None).shape == values.reshape(3, -1).reshape(None).shape == (3, size // 3)
