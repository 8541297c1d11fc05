"""Tests of sorts on the CPU and with GPU schedules.

Sorts are stable, and have NumPy's order of zeros and NaNs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft as wf
from weft.dsl.arrays.validation import NUMPY_VERSION

RNG = np.random.default_rng(8)
DEVICES = ["cpu", "simt"]
REAL = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8"]


def sample(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return elements of all magnitudes, with duplicates.

    Floats include NaNs of both signs, infinities, and signed zeros.
    """
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        wide = RNG.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
        return np.where(RNG.random(shape) < 0.5, wide, wide % 7).astype(kind)
    found = np.exp2(RNG.uniform(-14, 14, shape)) * RNG.choice([-1.0, 1.0], shape)
    special = RNG.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, 6e-8], shape)
    return np.where(RNG.random(shape) < 0.5, found, special).astype(kind)


def complex_sample(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return random complex numbers. Each real or imaginary part is one of five values, including infinity and NaN."""
    z = np.empty(shape, dtype)
    z.real, z.imag = RNG.choice([0.0, 1.0, -2.5, np.nan, np.inf], (2, *shape))
    return z


def same(found: Any, wanted: Any) -> None:
    """Assert that two arrays or tuples of arrays have the same bits."""
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for mine, theirs in pairs:
        array = np.asarray(mine)
        assert (array.dtype, array.shape) == (theirs.dtype, theirs.shape)
        assert array.tobytes() == np.ascontiguousarray(theirs).tobytes()


def ordered(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the result of a stable sort.

    NumPy's own sort does not guarantee stability for zeros and NaNs.
    """
    return np.take_along_axis(x, np.argsort(x, axis, "stable"), axis)


# rows that a block sorts alone or with other rows, and rows of several tiles
SHAPES = {
    "u1": [(3, 300), (2, 2048), (40, 7), (1, 1), (2, 9001), (300, 3), (1, 4097)],
    "f4": [(40, 7), (2, 2500), (1, 4097)],
    "i8": [(3, 300), (2, 2500)],
    "f2": [(1, 4097)],
}


@pytest.mark.parametrize("dtype", REAL)
def test_rows_are_ordered_to_the_bit(dtype: str) -> None:
    with wf.device("simt"):
        for k, shape in enumerate(SHAPES.get(dtype, [(40, 7)])):
            x = sample(dtype, shape)
            a = wf.asarray(x)
            same(wf.sort(a), ordered(x, -1))
            if dtype in SHAPES and k % 2 == 0:  # (each length has separate kernels for elements and for indices)
                same(wf.argsort(a), np.argsort(x, -1, "stable"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_any_axis_and_view(axis: int | None, device: str) -> None:
    x = sample("f4", (6, 30, 5))
    with wf.device(device):
        a = wf.asarray(x)
        for mine, theirs in (
            (a, x),
            (a[::-1, ::2], x[::-1, ::2]),
            (a[1:], x[1:]),
            (a[2] + 1, x[2] + 1),
            (a > 0, x > 0),
        ):
            flat = axis is None or axis >= theirs.ndim
            which = None if flat else axis
            wanted = np.argsort(theirs, which, "stable")
            same(wf.argsort(mine, which, stable=True), wanted)
            np.testing.assert_array_equal(wf.sort(mine, which), np.sort(theirs, which), strict=True)
            same(mine.argsort(which, kind="stable"), wanted)


def greatest_first(x: np.ndarray) -> np.ndarray:
    """Return the indices that sort each row in descending order, with NaNs last."""
    if NUMPY_VERSION >= (2, 5):
        return np.argsort(x, 1, stable=True, descending=True)  # type: ignore[call-overload, no-any-return]
    return np.argsort(~x if x.dtype.kind in "bui" else -x, 1, "stable")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*REAL, "c8", "c16"])
def test_the_greatest_first(dtype: str, device: str) -> None:
    shape = 40, 7  # (other tests compile kernels for this length)
    x = sample(dtype, shape) if dtype[0] != "c" else complex_sample(dtype, shape)
    wanted = greatest_first(x)
    with wf.device(device):
        a = wf.asarray(x)
        same(wf.argsort(a, descending=True), wanted)
        same(wf.sort(a, descending=True), np.take_along_axis(x, wanted, 1))
        same(wf.argsort(a, axis=None, descending=True).astype("i4")[:0], np.empty(0, "i4"))


@pytest.mark.parametrize("device", DEVICES)
def test_nans_come_last_in_both_orders(device: str) -> None:
    x = np.array([3.0, np.nan, 1.0, -0.0, 0.0, np.inf, -np.inf, -np.nan])
    with wf.device(device):
        assert wf.argsort(wf.asarray(x)).tolist() == [6, 3, 4, 2, 0, 5, 1, 7]
        assert wf.argsort(wf.asarray(x), descending=True).tolist() == [5, 0, 2, 3, 4, 6, 1, 7]


@pytest.mark.parametrize("device", DEVICES)
def test_complex_numbers(device: str) -> None:
    z = complex_sample("c8", (4, 90))
    with wf.device(device):
        a = wf.asarray(z)
        for axis in (0, 1, None):
            same(wf.argsort(a, axis, kind="stable"), np.argsort(z, axis, "stable"))
            np.testing.assert_array_equal(wf.sort(a, axis), np.sort(z, axis))


@pytest.mark.parametrize("device", DEVICES)
def test_keys_of_several_arrays(device: str) -> None:
    keys = RNG.integers(0, 4, (3, 700)).astype("i2"), sample("f4", (3, 700)), RNG.integers(0, 3, (3, 700))
    with wf.device(device):
        mine = tuple(map(wf.asarray, keys))
        same(wf.lexsort(mine), np.lexsort(keys))
        same(wf.lexsort(mine[:2], axis=0), np.lexsort(keys[:2], axis=0))
        same(wf.lexsort(mine[0]), np.lexsort(keys[0]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["?", "i4", "f4"])
def test_different_values(dtype: str, device: str) -> None:
    x = sample(dtype, (20, 30))
    x[x == 0] = 0  # (of zeros with different signs, any zero may be returned)
    with wf.device(device):
        a = wf.asarray(x)
        np.testing.assert_array_equal(wf.unique(a), np.unique(x), strict=True)
        for options in ({"return_counts": True}, {"return_index": True, "return_inverse": True, "return_counts": True}):
            for equal in (True, False):
                for mine, theirs in zip(
                    wf.unique(a, **options, equal_nan=equal), np.unique(x, **options, equal_nan=equal), strict=True
                ):
                    np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f2", "f4", "i4"])
def test_medians(dtype: str, device: str) -> None:
    x = RNG.integers(0, 100, (5, 40, 3)).astype(dtype)
    if dtype[0] == "f":
        x[1, 2, 0] = np.nan
        x[2, :30, 1] = np.inf
    with wf.device(device):
        for axis in (0, 1, -1, None):
            for keepdims in (False, True):
                wanted = np.asarray(np.median(x, axis, keepdims=keepdims))
                found = np.asarray(wf.median(wf.asarray(x), axis, keepdims=keepdims))
                np.testing.assert_array_equal(found, wanted, strict=True)


@pytest.mark.parametrize("device", DEVICES)
def test_methods_and_parts_of_arrays(device: str) -> None:
    x = sample("i4", (5, 60))
    with wf.device(device):
        a, b = wf.asarray(x), x.copy()
        before = a + 0
        a[1:].sort(0)
        a[0].sort()
        b[1:].sort(0)
        b[0].sort()
        same(a, b)
        same(before, x)
        a.partition(7, 1)
        assert (np.asarray(a)[:, 7] == np.sort(b, 1)[:, 7]).all()
        order = np.asarray(wf.argpartition(a, (3, -1)))
        assert (np.take_along_axis(np.asarray(a), order, 1)[:, [3, -1]] == np.sort(b, 1)[:, [3, -1]]).all()
        for wrong in (lambda: wf.partition(a, 60), lambda: a.argpartition(-61)):
            with pytest.raises(ValueError, match="out of bounds"):
                wrong()
        with pytest.raises(np.exceptions.AxisError):
            wf.sort(a, 2)


@pytest.mark.parametrize("device", DEVICES)
def test_nothing_and_one(device: str) -> None:
    with wf.device(device):
        for shape in ((0,), (0, 3), (3, 0), (1,), (1, 1)):
            x = np.ones(shape, "f4")
            same(wf.sort(wf.asarray(x)), x)
            same(wf.argsort(wf.asarray(x)), np.argsort(x))
            same(wf.unique(wf.asarray(x)), np.unique(x))
        same(wf.sort(wf.zeros(5)), np.zeros(5))
        same(wf.sort(wf.arange(6)[::-1]), np.arange(6))


def test_bfloat16_is_ordered_to_the_bit() -> None:
    brain = pytest.importorskip("ml_dtypes").bfloat16
    x = sample("f4", (3, 200)).astype(brain)
    wanted = np.argsort(x.astype("f4"), -1, "stable")
    with wf.device("simt"):
        same(wf.argsort(wf.asarray(x)), wanted)
        same(wf.sort(wf.asarray(x)), np.take_along_axis(x, wanted, -1))


# (the bytes that differ: all, none, the first, the last, two, one in the middle)
@pytest.mark.parametrize(
    "mask",
    [
        -1,
        0,
        0xFF,
        pytest.param(-(2**24), marks=pytest.mark.slow),
        0xFF00FF00,
        pytest.param(0xFF00, marks=pytest.mark.slow),
    ],
)
def test_turns_whose_digit_all_share_move_nothing(mask: int) -> None:
    x = sample("i4", (2, 2300)) & np.array(mask).astype("i4")
    x[1] += 5 if mask == 0 else 0
    with wf.device("simt"):
        same(wf.argsort(wf.asarray(x)), np.argsort(x, -1, "stable"))
        long = np.concatenate([x, x[:, ::-1]], 1)
        same(wf.sort(wf.asarray(long)), np.sort(long))


def test_sorts_are_recorded_and_explained() -> None:
    x = sample("f4", (2, 5000))
    with wf.device("simt"):
        a = wf.asarray(x)
        y = wf.sort(a * 2) + 1
        told = str(wf.explain(y))
        assert "call sort" in told
        assert "at most 4 passes of 8 bits, 2 tiles a row: 7 kernels" in told
        same(y, ordered(x * 2, -1) + 1)
        assert "rows within blocks: 1 kernel that moves 0.0048 MB" in str(wf.explain(wf.argsort(a[:, :200])))
        for _ in range(3):  # cached at the call site
            same(wf.argsort(a * 2), np.argsort(x * 2, -1, "stable"))


def test_sorts_tell_who_listens_of_their_kernels() -> None:
    with wf.device("simt"):
        a = wf.asarray(sample("u1", (9000,)))
        with wf.profile() as seen:
            wf.evaluate(wf.sort(a))
    assert [launch.note.name for launch in seen.launches] == ["clear", "count", "find_moving", "radix_pass"]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    dtype=st.sampled_from(["u1", "f4"]),
    rows=st.integers(1, 6),
    n=st.integers(1, 4500),
    different=st.integers(1, 400),
    seed=st.integers(0, 2**20),
)
def test_random_rows(dtype: str, rows: int, n: int, different: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = sample(dtype, (different,))
    x = draw.choice(values, (rows, n))
    with wf.device("simt"):
        same(wf.sort(wf.asarray(x)), ordered(x, -1))
        same(wf.argsort(wf.asarray(x)), np.argsort(x, -1, "stable"))


@pytest.mark.parametrize(("dtype", "shape"), [("u1", (50, 7)), ("u1", (1, 4200))])
def test_no_races(dtype: str, shape: tuple[int, int]) -> None:
    x = RNG.integers(0, 50, shape).astype(dtype)
    with wf.device("simt"), wf.sanitize():
        same(wf.argsort(wf.asarray(x)), np.argsort(x, -1, "stable"))


def test_any_order_of_threads() -> None:
    with wf.device("simt::backward"):
        for dtype, shape in (("u1", (3, 5000)), ("f4", (30, 9))):
            x = sample(dtype, shape)
            same(wf.argsort(wf.asarray(x)), np.argsort(x, -1, "stable"))
            same(wf.sort(wf.asarray(x)), ordered(x, -1))
