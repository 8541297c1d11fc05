"""Tests of concatenations, stacks and rolls."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.fusion import reset_statistics, statistics

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("count", [64, 65, 300])
def test_many_parts(count: int, device: str) -> None:
    values = RNG.standard_normal((count, 5, 3))
    with wf.device(device):
        x = wf.asarray(values)
        for axis in (0, 1, -1, None):
            parts = [x[k] * 2 if k % 3 else x[k, ::-1] for k in range(count)]
            wanted = [values[k] * 2 if k % 3 else values[k, ::-1] for k in range(count)]
            np.testing.assert_array_equal(wf.concatenate(parts, axis), np.concatenate(wanted, axis))
        np.testing.assert_array_equal(wf.stack(parts, 1), np.stack(wanted, 1))
        out = wf.zeros((count * 5, 3), np.float32)
        assert wf.concatenate(parts, out=out) is out
        np.testing.assert_array_equal(out, np.concatenate(wanted).astype(np.float32))
        mixed = [part.astype(np.int32) if k % 2 else part for k, part in enumerate(parts)]
        np.testing.assert_array_equal(
            wf.concatenate(mixed), np.concatenate([w.astype(np.int32) if k % 2 else w for k, w in enumerate(wanted)])
        )
        with pytest.raises(ValueError, match="must match exactly"):
            wf.concatenate([*parts, x[0, :, :2]])


@pytest.mark.cpu
def test_thousands_of_slices_are_copied_and_not_planned() -> None:
    x = wf.asarray(np.arange(400_000.0))
    parts = [x[k : k + 20] for k in range(0, 400_000, 20)]
    reset_statistics()
    joined = wf.concatenate(parts)
    assert statistics()["plans"] == 0
    np.testing.assert_array_equal(joined, x)


@pytest.mark.parametrize("count", [2, 65])
@pytest.mark.parametrize("n", [20, 20_000], ids=["small", "large"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_concatenate_and_stack_write_to_a_numpy_array(kind, n, count):
    values = RNG.standard_normal((count, n))
    rows, out = list(wf.asarray(values) * 2), np.zeros(count * n, kind)
    assert wf.concatenate(rows, out=out) is out
    assert np.array_equal(out, (values * 2).ravel().astype(kind))
    out = np.zeros((n, count), kind)
    assert wf.stack(rows, 1, out) is out
    assert np.array_equal(out, (values * 2).T.astype(kind))


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("layout", ["C", "transposed", "columns", "rows"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_short_rows_are_joined_as_one_axis(layout: str, axis: int, device: str) -> None:
    values = RNG.standard_normal((2, 7000, 3))
    with wf.device(device):
        x = wf.asarray(values)
        wf.evaluate(x)

        def parts(x):
            first, second = x[0], x[1]
            if layout == "transposed":
                return first.T, second.T
            if layout == "columns":
                return first[:, :2], second[:, 1:]
            if layout == "rows":
                return first[::2], second[1::2]
            return first, second

        for make in (lambda m, a, b: m.concatenate([a, b], axis), lambda m, a, b: m.roll(a, 2, axis) + b):
            wanted = make(np, *parts(values))
            found = make(wf, *parts(x))
            np.testing.assert_array_equal(found, wanted)
            assert np.asarray(found).strides == wanted.strides and found.flags.writeable
        joined = wf.concatenate(parts(x), axis)
        joined[1] = 5  # (memory of its own)
        joined[0, 1:] += joined[1, :-1]
        wanted = np.concatenate(parts(values), axis)
        wanted[1] = 5
        wanted[0, 1:] += wanted[1, :-1]
        np.testing.assert_array_equal(joined, wanted)
        np.testing.assert_array_equal(x, values)


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize(
    "view", [np.s_[::-1], np.s_[::2, 1:], np.s_[..., ::-2]], ids=["reversed", "strided", "columns"]
)
def test_views_are_rolled_as_one_axis(view: object, device: str) -> None:
    values = RNG.standard_normal((6, 5, 8))
    with wf.device(device):
        x = wf.asarray(values)
        for shift in (0, 1, -1, 7, -13, values[view].size):
            expected = np.roll(values[view], shift)
            np.testing.assert_array_equal(wf.roll(x[view], shift), expected, strict=True)
        row = wf.broadcast_to(x[0, 0], (4, 8))
        np.testing.assert_array_equal(wf.roll(row, 3), np.roll(np.broadcast_to(values[0, 0], (4, 8)), 3), strict=True)


@pytest.mark.parametrize("number", [300, -1, 1.5, 2j, True])
@pytest.mark.parametrize("dtype", ["u1", "u8", "i1", "f2", "?"])
def test_numbers_are_joined_in_the_dtype_of_the_arrays(dtype: str, number: complex) -> None:
    x = np.ones(40_000, dtype)
    expected, found = np.concatenate([x, number], axis=None), wf.concatenate([wf.asarray(x), number], axis=None)
    assert found.dtype == expected.dtype and found[-1] == expected[-1]
