"""Tests of programs that combine explicit kernels with lazy arrays.

The arguments of kernels are lazy arrays, host arrays and other libraries' arrays. Lazy expressions call device
functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft as wf
from weft import cuda

pytestmark = pytest.mark.filterwarnings("ignore::weft.PerformanceWarning")


@weft.kernel
def double(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


@weft.kernel
def add(x: Any, y: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def test_lazy_arrays_are_evaluated() -> None:
    x = wf.arange(10.0) * 3 + 1
    out = wf.zeros(10)
    add[1, 16](x, x[::-1], out)
    np.testing.assert_array_equal(np.asarray(out), 3 * np.arange(10.0) + 1 + 3 * np.arange(10.0)[::-1] + 1)


def test_results_go_on_lazily() -> None:
    x = wf.arange(6.0)
    double[1, 8](x)
    y = (x + 1).sum()
    assert float(y) == 36.0
    x += 1
    double[1, 8](x)
    np.testing.assert_array_equal(np.asarray(x), 2 * (2 * np.arange(6.0) + 1))


def test_who_captured_the_old_value_keeps_it() -> None:
    x = wf.arange(4.0)
    before = x + 0.5
    view = x[1:3]
    double[1, 4](x)
    np.testing.assert_array_equal(np.asarray(before), np.arange(4.0) + 0.5)
    np.testing.assert_array_equal(np.asarray(view), [2.0, 4.0])


def test_captured_views_keep_their_strides() -> None:
    matrix: Any = wf.arange(6.0).reshape(2, 3)
    turned, rest = matrix.T, matrix[1, 1:]

    def kernel(out: Any) -> None:
        out[0] = turned[2, 0]
        out[1] = rest[0]
        turned[0, 1] = 10

    out = np.zeros(2)
    weft.kernel(kernel)[1, 1](out)
    assert out.tolist() == [2, 4]
    assert np.asarray(matrix).tolist() == [[0, 1, 2], [10, 4, 5]]


def test_views_are_written_through() -> None:
    x = wf.arange(10.0)
    double[1, 8](x[1::3])
    wanted = np.arange(10.0)
    wanted[1::3] *= 2
    np.testing.assert_array_equal(np.asarray(x), wanted)
    m = wf.arange(12.0).reshape(3, 4)
    double[1, 8](m[:, 2])
    double[1, 8](m.T[0])
    right = np.arange(12.0).reshape(3, 4)
    right[:, 2] *= 2
    right[:, 0] *= 2
    np.testing.assert_array_equal(np.asarray(m), right)


def test_host_arrays_are_written_back() -> None:
    x = np.arange(8.0)
    double[1, 8](x[::2])
    np.testing.assert_array_equal(x, [0, 1, 4, 3, 8, 5, 12, 7])


def test_read_only_host_array_as_input() -> None:
    x = np.arange(4.0)
    x.flags.writeable = False
    out = np.zeros(4)
    add[1, 4](x, x, out)
    np.testing.assert_array_equal(out, 2 * x)
    with pytest.raises((ValueError, TypeError), match="read"):
        double[1, 4](x)


def test_directions_of_copies() -> None:
    x, y, out = np.arange(4.0), np.ones(4), np.zeros(4)
    add[1, 4](cuda.In(x), cuda.In(y), cuda.Out(out))
    np.testing.assert_array_equal(out, np.arange(4.0) + 1)
    double[1, 4](cuda.InOut(out))
    np.testing.assert_array_equal(out, 2 * np.arange(4.0) + 2)


def test_device_arrays_are_weft_arrays() -> None:
    d = cuda.to_device(np.arange(5.0))
    assert isinstance(d, weft.Array)
    double[1, 8](d)
    np.testing.assert_array_equal(np.asarray(d * 2 + 1), 4 * np.arange(5.0) + 1)


def test_overlapping_arguments() -> None:
    x = wf.arange(8.0)
    add[1, 4](x[:4], x[:4], x[4:])
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2, 3, 0, 2, 4, 6])
    y = np.arange(8.0)
    add[1, 8](y, y, y)
    np.testing.assert_array_equal(y, 2 * np.arange(8.0))


class Exported:
    """An array that supports only DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack() -> None:
    x = np.arange(4.0)
    double[1, 4](Exported(x))
    np.testing.assert_array_equal(x, 2 * np.arange(4.0))


def test_vectorize() -> None:
    @wf.vectorize
    def clipped(v: Any, limit: Any) -> Any:
        if v > limit:
            return limit
        return v * v

    x = np.linspace(-2, 2, 11)
    found = clipped(wf.asarray(x), 1.5)
    assert isinstance(found, weft.Array)
    np.testing.assert_array_equal(np.asarray(found), np.where(x > 1.5, 1.5, x * x))
    matrix = clipped(wf.asarray(x)[:, None], wf.asarray(x))
    assert matrix.shape == (11, 11)
    np.testing.assert_array_equal(np.asarray(matrix), np.where(x[:, None] > x, x, (x * x)[:, None]))
    single = clipped(wf.asarray(x.astype(np.float32)), 1.5)
    assert single.dtype == np.float32


def test_vectorize_is_fused() -> None:
    @wf.vectorize
    def f(v: Any) -> Any:
        return v * v + 1

    x = wf.arange(100.0)
    y = f(x + 1) * 2 - f(x)
    assert len(wf.explain(y).kernels) == 1
    n = np.arange(100.0)
    np.testing.assert_array_equal(np.asarray(y), ((n + 1) ** 2 + 1) * 2 - (n * n + 1))


def test_vectorize_with_loops() -> None:
    @wf.vectorize
    def steps(n: Any) -> Any:
        count = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    found = np.asarray(steps(wf.arange(1, 30)))
    assert found[26] == 111 and found[0] == 0 and found[8] == 19


def test_vectorize_as_numba_writes_it() -> None:
    @cuda.vectorize(["float32(float32, float32)", "float64(float64, float64)"])
    def f(a: Any, b: Any) -> Any:
        return a + 2 * b

    x = np.arange(4, dtype=np.float32)
    found = f(x, x)
    np.testing.assert_array_equal(np.asarray(found), 3 * x)
    assert np.asarray(found).dtype == np.float32


def test_guvectorize() -> None:
    @wf.guvectorize("(n),(n)->()")
    def dot(a: Any, b: Any, out: Any) -> None:
        total = 0.0
        for k in range(a.shape[0]):
            total += a[k] * b[k]
        out[0] = total

    x = np.arange(12.0).reshape(3, 4)
    found = np.asarray(dot(wf.asarray(x), wf.asarray(x)))
    np.testing.assert_array_equal(found, (x * x).sum(1))


def test_reduce() -> None:
    total = wf.reduce(lambda a, b: a + b)
    assert float(total(wf.arange(1000.0))) == 499500.0

    @cuda.reduce
    def greatest(a: Any, b: Any) -> Any:
        return a if a > b else b

    x = np.random.default_rng(1).normal(size=777)
    assert float(greatest(x)) == x.max()
    assert float(greatest(x, init=100.0)) == 100.0
