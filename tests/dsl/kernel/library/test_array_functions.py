"""Tests of NumPy's functions of whole arrays in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft import KernelError, cuda

RNG = np.random.default_rng(5)
VALUES = {
    "float64": RNG.normal(size=9),
    "float32": RNG.normal(size=8).astype(np.float32),
    "int32": RNG.integers(-5, 6, 12).astype(np.int32),
    "uint8": RNG.integers(0, 6, 7).astype(np.uint8),
    "one": np.array([2.5]),
    "nan": np.array([np.nan, 1.5, np.nan, -2.0, 4.0, np.nan]),
    "sorted": np.arange(40.0),
    "reversed": np.arange(40.0)[::-1].copy(),
}
NUMBERS = "sum prod min max mean std var ptp median count_nonzero nansum nanprod nanmin nanmax nanmean nanstd nanvar nanmedian"
ARRAYS = "cumsum cumprod sort argsort"


def of_number(function: Any, space: str, n: int, dtype: np.dtype) -> Any:
    """Return a kernel that applies a function to an array, and stores the resulting number.

    `space` is the memory that holds the array: local, shared or global.
    """
    if space == "global":

        @cuda.jit
        def whole(x: Any, out: Any) -> None:
            out[0] = function(x)

        return whole

    make = getattr(cuda, space).array

    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        a = make(n, dtype)
        for k in range(n):
            a[k] = x[k]
        out[0] = function(a)

    return kernel


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", NUMBERS.split())
def test_numbers(name: str, values: str) -> None:
    x = VALUES[values]
    function = getattr(np, name)
    with np.errstate(invalid="ignore"):
        wanted = np.asarray(function(x))
    spaces = ("local", "shared") if "median" in name else ("local", "shared", "global")
    # one kernel for each function and array, with kinds of memory in turn
    space = spaces[(NUMBERS.split().index(name) + list(VALUES).index(values)) % len(spaces)]
    out = np.zeros(1, wanted.dtype)
    of_number(function, space, x.size, x.dtype)[1, 1](x, out)
    np.testing.assert_allclose(out[0], wanted, rtol=1e-5 if x.dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", ARRAYS.split())
def test_arrays(name: str, values: str) -> None:
    x = VALUES[values]
    function, n, dtype = getattr(np, name), x.size, x.dtype

    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        a = cuda.local.array(n, dtype)
        for k in range(n):
            a[k] = x[k]
        made = function(a)
        for k in range(n):
            out[k] = made[k]

    wanted = function(x, kind="stable") if name == "argsort" else function(x)
    out = np.zeros(n, wanted.dtype)
    kernel[1, 1](x, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_degrees_of_freedom_and_methods() -> None:
    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        out[0] = np.std(x, ddof=1)
        out[1] = x.var()
        out[2] = np.nanvar(x, 1)
        a = cuda.local.array(3, np.float64)
        for k in range(3):
            a[k] = -x[k]
        a.sort()
        out[3], out[4] = a[0], a.cumsum()[2]
        x.sort()

    x, out = np.array([4.0, 1.0, 2.5]), np.zeros(5)
    before = x.copy()
    kernel[1, 1](x, out)
    np.testing.assert_allclose(out, [before.std(ddof=1), before.var(), before.var(ddof=1), -4, -7.5])
    np.testing.assert_array_equal(x, [1, 2.5, 4])


def test_new_arrays() -> None:
    @cuda.jit
    def kernel(out: Any, i: Any, y: Any) -> None:
        table = np.array([[1, 2], [4, i]])
        out[0] = table[i, i] + table.sum()
        numbers = np.array([y, 2 * y], dtype=np.float32)
        out[1] = numbers[1]
        again = np.array(numbers)
        again[1] = 0
        out[2] = numbers[1] + again[0]
        out[3] = np.arange(10, 0, -3)[i] + np.arange(1.0, 2.0, 0.25)[3]
        points = np.linspace(0, 1, 5)
        out[4] = points[4] + points[1]
        filled = np.full((2, 2), y)
        out[5] = filled[1, 1] + np.zeros_like(filled)[0, 0] + np.ones_like(numbers)[1] + np.empty_like(filled).size
        out[6] = np.full_like(table, 2.75)[1, 0] + np.full_like(table, fill_value=y, dtype=np.float32).sum()

    out = np.zeros(7)
    kernel[1, 1](out, 1, 0.75)
    np.testing.assert_array_equal(out, [9, 1.5, 2.25, 8.75, 1.25, 5.75, 5])


def test_dtypes_of_new_arrays_are_numbas() -> None:
    @cuda.jit
    def kernel(out: Any, y: Any) -> None:
        out[0] = np.array([1, 2]).itemsize
        out[1] = np.array([1, y]).itemsize
        out[2] = np.array([y, y])[0] * 2  # (no rounding to float32)
        out[3] = np.full(3, 7).itemsize

    out = np.zeros(4)
    kernel[1, 1](out, np.float32(0.1))
    np.testing.assert_array_equal(out, [8, 8, 2 * np.float32(0.1), 8])


@pytest.mark.parametrize("function", [np.copy, lambda a: a.copy(), lambda a: a.flatten(), lambda a: a.astype("f4")])
def test_copies(function: Any) -> None:
    @cuda.jit
    def kernel(out: Any) -> None:
        a = np.array([[1.5, 2], [3, 4]])
        b = function(a.T)
        b[0] = 7
        out[0], out[1] = a[0, 0], b.reshape(4)[2]

    out = np.zeros(2)
    kernel[1, 1](out)
    np.testing.assert_array_equal(out, [1.5, 2])


def test_refusals_say_why() -> None:
    def unknown_shape(x: Any) -> None:
        x[0] = np.sort(x)[0]

    def ragged(x: Any) -> None:
        x[0] = np.array([[1, 2], [3]])[0, 0]

    def unknown_range(x: Any) -> None:
        x[0] = np.arange(x.size)[0]

    def complex_numbers(x: Any) -> None:
        x[0] = np.var(np.array([1j, 2]))

    for function, why in (
        (unknown_shape, "the shape of its argument has to be known"),
        (ragged, "different lengths"),
        (unknown_range, "the ends of np.arange have to be known"),
        (complex_numbers, "complex"),
    ):
        with pytest.raises(KernelError, match=why):
            cuda.jit(function)[1, 1](np.zeros(2))


def test_variance_of_fewer_elements_than_degrees_of_freedom() -> None:
    @cuda.jit
    def kernel(x: Any, out: Any) -> None:
        a = cuda.local.array(3, np.float64)
        for k in range(3):
            a[k] = x[k]
        out[0] = np.var(a, ddof=4)

    out = np.zeros(1)
    kernel[1, 1](np.arange(3.0), out)
    assert out[0] == np.inf  # as in NumPy


def transposed(x: Any, out: Any) -> None:
    out[0] = x.T.ravel()[1]


def real_parts(x: Any, out: Any) -> None:
    out[0] = x.real.reshape(4)[1]


@pytest.mark.parametrize(("function", "x"), [(transposed, np.ones((2, 3))), (real_parts, np.ones((2, 2), complex))])
def test_views_that_are_not_contiguous_cannot_be_flattened(function: Any, x: np.ndarray) -> None:
    with pytest.raises(KernelError, match="not known to be contiguous"):
        cuda.jit(function)[1, 1](x, np.zeros(1))
