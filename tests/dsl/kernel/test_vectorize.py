"""Tests of user-defined functions in lazy expressions: ``vectorize``, ``guvectorize`` and ``reduce``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda

RNG = np.random.default_rng(5)
X = RNG.standard_normal(1003).astype(np.float32)
Y = RNG.standard_normal(1003).astype(np.float32)


def branches(x: Any, y: Any) -> Any:
    if x > y:
        return x * 2
    elif x < -1:
        return y
    z = x
    if y > 0.5:
        z += 1
    return z + y


def by_hand(x: Any, y: Any) -> Any:
    return np.where(x > y, x * 2, np.where(x < -1, y, np.where(y > 0.5, x + 1, x) + y))


def steps(c: Any) -> Any:
    z = 0j
    for i in range(40):
        if abs(z) > 2:
            return i
        z = z * z + c
    return 40


def kernels_of(array: Any) -> int:
    weft.reset_statistics()
    array.numpy()
    return weft.statistics()["kernels"]


def test_branches_are_fused_with_what_is_around_them() -> None:
    f = weft.vectorize(branches)
    result = f(weft.asarray(X) + 1, weft.asarray(Y)) * 3
    assert result.dtype == np.float32
    assert kernels_of(result) == 1
    np.testing.assert_array_equal(result.numpy(), by_hand(X + 1, Y) * 3)


def test_loops_are_fused_too() -> None:
    c = (X + 1j * Y).astype(np.complex128)
    result = weft.vectorize(steps)(weft.asarray(c) * 1) + 1
    assert result.dtype == np.int64
    assert kernels_of(result) == 1
    np.testing.assert_array_equal(result.numpy(), [steps(v) + 1 for v in c])


def test_equal_on_a_gpu_and_here() -> None:
    result = weft.vectorize(branches)(weft.asarray(X), weft.asarray(Y)) + 0
    (kernel,) = weft.compile(result, target="sm_80")
    assert ".visible .entry" in kernel.ptx
    (kernel,) = weft.compile(weft.vectorize(steps)(weft.asarray(X.astype(np.complex64))), target="sm_80")
    assert "bra" in kernel.ptx


def test_python_numbers_are_weak() -> None:
    f = weft.vectorize(lambda x, a: a * x + 0.5)
    assert f(weft.asarray(X), 2).dtype == np.float32
    assert f(weft.asarray(X), np.float64(2)).dtype == np.float64
    np.testing.assert_array_equal(f(weft.asarray(X), 2.0).numpy(), np.float32(2) * X + np.float32(0.5))


def test_broadcasting_and_out() -> None:
    f = weft.vectorize(lambda x, y: x - y)
    column = weft.asarray(X[:7].reshape(7, 1))
    result = f(column, weft.asarray(Y[:5]))
    np.testing.assert_array_equal(result.numpy(), X[:7].reshape(7, 1) - Y[:5])
    out = weft.zeros((7, 5), dtype=np.float32)
    assert f(column, Y[:5], out=out) is out
    np.testing.assert_array_equal(out.numpy(), result.numpy())


def test_several_results() -> None:
    f = weft.vectorize(lambda x, y: (x + y, x * y))
    total, product = f(weft.asarray(X), weft.asarray(Y))
    np.testing.assert_array_equal(total.numpy(), X + Y)
    np.testing.assert_array_equal(product.numpy(), X * Y)


def test_signatures_choose_the_dtype() -> None:
    @cuda.vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def hypotenuse(x: Any, y: Any) -> Any:
        return math.sqrt(x * x + y * y)

    assert hypotenuse(X, Y).dtype == np.float32
    assert hypotenuse(X.astype(np.float64), Y).dtype == np.float64
    with pytest.raises(weft.KernelTypeError, match="no signature takes"):
        hypotenuse(X.astype(np.complex128), Y)


def test_vectorized_function_inside_a_kernel() -> None:
    f = weft.vectorize(branches)

    @weft.kernel
    def k(x: Any, y: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < out.size:
            out[i] = f(x[i], y[i])

    out = np.zeros_like(X)
    k.forall(X.size)(X, Y, out)
    np.testing.assert_array_equal(out, by_hand(X, Y))


@pytest.mark.usefixtures("cold_cache")
def test_equal_functions_share_their_code() -> None:
    weft.vectorize(lambda v: v * v - 3)(weft.asarray(X)).numpy()
    weft.reset_statistics()
    weft.vectorize(lambda v: v * v - 3)(weft.asarray(X)).numpy()
    assert weft.statistics()["compilations"] == 0


def test_what_cannot_be_vectorized() -> None:
    with pytest.raises(weft.KernelTypeError, match="arguments"):
        weft.vectorize(branches)(X)
    with pytest.raises(weft.KernelTypeError, match="returns"):
        weft.vectorize(["float32(float32)"])(lambda x: None)(weft.asarray(X))
    with pytest.raises(weft.KernelTypeError, match="returns tuple"):
        weft.vectorize(["float32(float32)"])(lambda x: (x, x))(weft.asarray(X))
    with pytest.raises(weft.KernelSyntaxError, match="try"):
        weft.vectorize(["float32(float32)"])(refused)(weft.asarray(X))
    with pytest.warns(weft.PerformanceWarning, match="NumPy calls refused for each element.*try"):
        assert (weft.vectorize(refused)(weft.asarray(X)) == X).all()


def refused(x: Any) -> Any:
    try:
        return x
    finally:
        x = 1


def test_guvectorize() -> None:
    @weft.guvectorize(["void(float64[:,:], float64[:,:], float64[:,:])"], "(m,n),(n,p)->(m,p)")
    def product(a: Any, b: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                out[i, j] = total

    a, b = RNG.random((5, 7, 3, 4)), RNG.random((7, 4, 2))
    np.testing.assert_allclose(product(a, b).numpy(), a @ b, rtol=1e-14)
    np.testing.assert_allclose(product(weft.asarray(a) + 1, b).numpy(), (a + 1) @ b, rtol=1e-14)
    with pytest.raises(ValueError, match="axis n has length"):
        product(a, b[:, :3])


def test_guvectorize_with_scalars_and_output_given() -> None:
    @cuda.guvectorize("(n),()->()")
    def scaled_sum(x: Any, factor: Any, out: Any) -> None:
        total = 0.0
        for v in x:
            total += v
        out[0] = total * factor

    x = RNG.random((6, 10))
    np.testing.assert_allclose(scaled_sum(x, 2.0), x.sum(1) * 2)
    assert type(scaled_sum(x, 2.0)) is np.ndarray
    assert type(scaled_sum(weft.asarray(x), 2.0)) is weft.Array
    out = np.zeros(6)
    assert scaled_sum(x, 3.0, out) is out
    np.testing.assert_allclose(out, x.sum(1) * 3)


@pytest.mark.parametrize("layout", ["(n)(n)->()", "n->n", "(n)->(m)", "(n),(n)", ""])
def test_layouts_that_cannot_be_read(layout: str) -> None:
    with pytest.raises(weft.KernelTypeError, match="layout|known|takes"):
        weft.guvectorize(lambda x, y: None, layout)


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 511, 513, 1000, 100_003])
def test_reduce(n: int) -> None:
    values = np.arange(n, dtype=np.int64)
    assert weft.reduce(lambda a, b: a + b)(values) == values.sum()
    assert weft.reduce(lambda a, b: max(a, b))(values) == n - 1


def test_reduce_of_a_lazy_array_with_the_same_bits_each_time() -> None:
    total = cuda.reduce(lambda a, b: a + b)
    first = total(weft.asarray(X) * 2)
    assert first == total(weft.asarray(X) * 2)
    assert first == pytest.approx(float((X * 2).astype(np.float64).sum()), rel=1e-4)
    assert cuda.Reduce(lambda a, b: a if a < b else b)(X) == X.min()


def test_reduce_to_an_output_with_a_start() -> None:
    total = weft.reduce(lambda a, b: a + b)
    output = weft.zeros(1, dtype=np.float32)
    assert total(X, res=output, init=10) is None
    assert output.numpy()[0] == pytest.approx(X.sum() + 10, rel=1e-4)
    assert total(np.zeros(0), init=7) == 7
    assert total(np.ones(3), init=np.array(2.0)) == 5
    assert total(X, size=1) == X[0]
    with pytest.raises(np.exceptions.AxisError):
        weft.vectorize(lambda a, b: a + b).reduce(X, axis=1)
    with pytest.raises(weft.KernelTypeError, match="one axis"):
        total(np.zeros((2, 2)))
    with pytest.raises(weft.KernelTypeError, match="two numbers"):
        weft.reduce(lambda a: a)


def test_guvectorize_prefers_the_signature_that_loses_least() -> None:
    @weft.guvectorize(["void(float32[:], float32[:])", "void(float64[:], float64[:])"], "(n)->()")
    def total(x: Any, out: Any) -> None:
        out[0] = x[0] + x[1]

    found = np.asarray(total(np.array([[1, 2.0**30]])))
    assert found.dtype == np.float64 and found[0] == 2**30 + 1


@pytest.mark.parametrize("otypes", ["f", [np.float32]])
def test_result_dtypes_as_second_argument(otypes: Any) -> None:
    assert weft.vectorize(lambda x: x + 1, otypes)(np.arange(3)).dtype == np.float32


def test_several_results_of_numpy_arrays() -> None:
    results = cuda.vectorize(lambda x: (x + 1, x * 2))(np.arange(2.0))
    assert [(type(r), r.tolist()) for r in results] == [(np.ndarray, [1, 2]), (np.ndarray, [0, 2])]


def test_guvectorize_into_an_input() -> None:
    @weft.guvectorize("(n)->(n)")
    def turned(x, out):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            out[i] = x[x.size - 1 - i]

    x = weft.arange(6.0)
    assert turned(x, out=x) is x
    assert x.tolist() == [5, 4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="has 1 output"):
        turned(x, out=(x, x))


def test_guvectorize_with_some_outputs() -> None:
    @weft.guvectorize("(n)->(),()")
    def ends(x: Any, first: Any, second: Any) -> None:
        first[0], second[0] = x[0], x[1]

    out = np.zeros(2)
    first, second = ends(np.array([[1.0, 2.0], [3.0, 4.0]]), out=(None, out))
    np.testing.assert_array_equal(np.asarray(first), [1, 3])
    np.testing.assert_array_equal(out, [2, 4])
    assert second is out


@pytest.mark.parametrize("named", [{"typo": 3}, {"x": 3}, {"dtype": np.float32}])
def test_unknown_arguments(named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="no argument"):
        weft.vectorize(lambda x, y=2: x * y)(np.arange(3.0), **named)
