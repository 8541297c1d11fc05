"""Tests that reductions by NumPy (`reduce_arrays`) give results with the same bits as those of compiled kernels."""

from __future__ import annotations

from itertools import combinations
from unittest import mock

import numpy as np
import pytest

import weft as wf
from tests.fusion.run.test_primitives import same_bits, values
from weft.fusion.run import reduce_arrays
from weft.fusion.run.reduce_arrays import NeedsKernelError, reduce_values

pytestmark = pytest.mark.cpu

SHAPES = (
    *((n,) for n in (1, 2, 3, 4, 5, 31, 32, 33, 100, 1000, 32768, 32769, 50000)),
    *(
        (5, 7),
        (3, 100),
        (100, 3),
        (1000, 40),
        (40, 1000),
        (600, 2),
        (70000, 3),
        (3, 70000),
        (64, 33000),
        (600, 100),
        (2, 1),
        (1, 50),
    ),
    *((2, 3, 4), (4, 1, 5), (20, 30, 40)),
)


def layouts(x: np.ndarray) -> list[tuple[wf.Array, np.ndarray]]:
    """Return pairs of a weft array and a NumPy array: in C order, transposed, and strided."""
    a = wf.asarray(x)
    cut = (slice(None, None, 2), *[slice(None, None, -1)] * (x.ndim - 1))
    return [(a, x), (a.T, x.T), (a[cut], x[cut])]


@pytest.mark.parametrize("dtype", ("float64", "float32", "float16", "complex128"))
def test_sums(dtype: str) -> None:
    """Test that sums without a plan are bit-identical to those from kernels.

    NumPy computes the sums first. Compiled loops are used after `OFTEN` calls.
    """
    kind, loops = np.dtype(dtype), dict[tuple[str, str], object]()
    with np.errstate(all="ignore"):
        for shape in SHAPES:
            if kind.char in "eD" and np.prod(shape) > 60_000:
                continue
            x = np.nan_to_num(values(kind, 3, int(np.prod(shape))), posinf=3, neginf=-2).reshape(shape)
            for a, y in layouts(x):
                for count in range(1, y.ndim + 1):
                    for axes in combinations(range(y.ndim), count):
                        expected = a.sum(axis=axes)
                        for often, made in ((10**9, {}), (0, loops)):
                            with mock.patch.multiple(reduce_arrays, OFTEN=often, _loops=made):
                                found = reduce_values("add", y, axes, kind)
                            assert same_bits(found, expected), (shape, axes, y.strides, often)
    assert ("add", "f" if kind.char == "e" else kind.char) in loops


@pytest.mark.parametrize("dtype", ("float64", "float32"))
def test_sums_of_products(dtype: str) -> None:
    """Test that sums of products from compiled loops are bit-identical to those from kernels."""
    for n in (2, 3, 31, 1000, 16384, 16385, 32768, 32769, 49152, 100_003):
        x, y = (np.nan_to_num(values(np.dtype(dtype), seed, n), posinf=3, neginf=-2) for seed in (4, 5))
        a, b = wf.asarray(x), wf.asarray(y)
        for left, right, expected in ((x, y, wf.dot(a, b)), (y, y, (b * b).sum())):
            with mock.patch.multiple(reduce_arrays, OFTEN=0, _loops={}):
                assert same_bits(reduce_arrays.sum_of_products(left, right), expected), n


@pytest.mark.parametrize("dtype", ("float64", "int32", "uint8", "bool", "float16", "complex128"))
def test_other_reductions(dtype: str) -> None:
    kind = np.dtype(dtype)
    names = {"prod": "multiply", "max": "maximum", "min": "minimum", "argmax": "argmax", "argmin": "argmin"}
    for shape in ((7,), (40, 3), (3, 40), (4, 5, 6), (1,)):
        x = values(kind, 5, int(np.prod(shape))).reshape(shape)
        x = x + kind.type(1) if kind.kind in "fc" else x  # avoids zeros of both signs
        for name, row in names.items():
            if kind.kind == "c" and name in ("max", "min", "prod"):
                continue
            for axis in (None, 0, -1):
                expected = np.asarray(getattr(wf.asarray(x), name)(axis=axis))
                axes = tuple(range(x.ndim)) if axis is None else (axis % x.ndim,)
                if kind.kind == "b" and name in ("max", "min"):
                    row = "logical_or" if name == "max" else "logical_and"
                with np.errstate(all="ignore"):
                    assert same_bits(reduce_values(row, x, axes, expected.dtype), expected), (name, shape, axis)


def test_shapes_and_empty_arrays() -> None:
    kind = np.dtype(float)
    assert reduce_values("add", np.ones((2, 3, 4)), (0, 2), kind, True).shape == (1, 3, 1)
    assert reduce_values("add", np.ones((0, 3)), (0,), kind).tolist() == [0, 0, 0]
    assert reduce_values("add", np.ones((0, 3)), (1,), kind).shape == (0,)
    assert reduce_values("add", np.ones((3, 0)), (0,), kind).shape == (0,)
    assert reduce_values("maximum", np.ones((0, 3)), (0,), kind).tolist() == [-np.inf] * 3
    assert not np.signbit(reduce_values("add", np.full(5, -0.0), (0,), kind))


def test_zeros_of_both_signs_have_no_known_order() -> None:
    kind = np.dtype(float)
    assert np.signbit(reduce_values("maximum", np.array([-1.0, -0.0]), (0,), kind))
    with pytest.raises(NeedsKernelError):
        reduce_values("maximum", np.array([0.0, -0.0]), (0,), kind)
