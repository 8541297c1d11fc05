"""Tests of matrix products on a CUDA device.

A stand-in for cuBLAS delays work as long as possible.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import weft as wf
from tests.stand_in import RunningDevice, RunningStandIn
from weft.dsl.functions import linear
from weft.runtime import CudaError, override, set_default_device
from weft.runtime.cuda.blas import PARAMETERS, Blas

DTYPES = {2: np.float16, 0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}


class Library:
    """A stand-in for the functions of cuBLAS that weft uses. It computes in host memory, in column-major order."""

    def __init__(self, driver: RunningStandIn) -> None:
        self.driver = driver
        self.stream = 0
        self.calls = 0
        self.made = self.destroyed = 0
        self.code = self.refused = self.mode = 0

    def cublasCreate_v2(self, handle: Any) -> int:
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = 4711
        self.made += 1
        return self.refused

    def cublasSetMathMode(self, handle: Any, mode: int) -> int:
        self.mode = mode
        return 0

    def cublasDestroy_v2(self, handle: Any) -> int:
        assert self.driver.count("cuCtxPushCurrent") > self.driver.count("cuCtxPopCurrent"), "outside the context"
        self.destroyed += 1
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        assert handle.value == 4711
        self.stream = stream.value
        return 0

    def cublasGemmStridedBatchedEx(self, handle: Any, *given: Any) -> int:
        self.calls += 1
        assert len(given) == len(PARAMETERS) - 1
        (ta, tb, m, n, k, alpha, a, kind_a, lda, step_a, b, kind_b, ldb, step_b, beta, c, kind_c, ldc, step_c) = given[
            :19
        ]
        count, compute, _ = given[19:]
        if self.code:
            return self.code
        assert kind_a == kind_b == kind_c and lda >= (k if ta else m) and ldb >= (n if tb else k) and ldc >= m
        dtype = np.dtype(DTYPES[kind_a])
        factor = np.float32 if dtype == np.float16 else dtype.type
        assert compute == (70 if dtype.itemsize == 16 or dtype == np.float64 else 68)
        size = np.dtype(factor).itemsize
        read = [np.frombuffer((ctypes.c_char * size).from_address(at), factor)[0] for at in (alpha, beta)]
        assert read == [1, 0]

        def columns(at: int, rows: int, width: int, lead: int) -> np.ndarray:
            span = (lead * (width - 1) + rows) * dtype.itemsize
            assert self.driver.memory.covers(at, span), "outside the memory"
            flat = np.frombuffer((ctypes.c_char * span).from_address(at), dtype)
            return as_strided(flat, (rows, width), (dtype.itemsize, lead * dtype.itemsize))

        def work() -> int:
            for i in range(count):
                left = columns(a + i * step_a * dtype.itemsize, *((k, m) if ta else (m, k)), lda)
                right = columns(b + i * step_b * dtype.itemsize, *((n, k) if tb else (k, n)), ldb)
                wide = np.float32 if dtype == np.float16 else dtype
                found = (left.T if ta else left).astype(wide) @ (right.T if tb else right).astype(wide)
                columns(c + i * step_c * dtype.itemsize, m, n, ldc)[...] = found
            return 0

        return self.driver.queues.give(self.stream, work)


@pytest.fixture(autouse=True)
def _every_product_is_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the library even for small products, which kernels would otherwise compute."""
    monkeypatch.setattr(linear, "is_fused", lambda device, kind, *sizes: kind.char not in "efdFD")


@pytest.fixture
def library(driver: RunningStandIn) -> Iterator[Library]:
    device = RunningDevice(driver)
    found = Library(driver)
    device._blas = Blas(device._driver, device._order, found)
    set_default_device(device)
    yield found
    set_default_device(None)


def check(a: np.ndarray, b: np.ndarray, views: Any = lambda x, y: (x, y)) -> None:
    x, y = views(wf.asarray(a), wf.asarray(b))
    u, v = views(a, b)
    found = (x @ y).numpy()
    expected = u @ v
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=5e-3 if a.dtype == np.float16 else 1e-5)


def values(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    source = np.random.default_rng(sum(shape))
    found = source.integers(-4, 5, shape).astype(dtype)
    return found + 1j * source.integers(-4, 5, shape) if np.dtype(dtype).kind == "c" else found  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes(library: Library, dtype: Any) -> None:
    check(values(5, 7, dtype=dtype), values(7, 3, dtype=dtype).astype(dtype))
    assert library.calls == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 6), (6, 5)), ((1, 6), (6, 5)), ((4, 1), (1, 5)), ((4, 6), (6, 1)), ((6,), (6, 5)), ((4, 6), (6,)), ((6,), (6,)),
     ((3, 4, 6), (3, 6, 5)), ((3, 4, 6), (6, 5)), ((4, 6), (3, 6, 5)), ((2, 3, 4, 6), (3, 6, 5)), ((2, 1, 4, 6), (1, 3, 6, 5)),
     ((2, 3, 4, 6), (2, 1, 6, 5)), ((3, 1, 6), (3, 6, 1)), ((3, 4, 6), (6,))],
)  # fmt: skip
def test_shapes(library: Library, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    check(values(*left), values(*right))
    assert library.calls


@pytest.mark.parametrize(
    ("left", "right", "calls"),
    [
        ((2, 3, 4, 6), (2, 3, 6, 5), 1),
        ((5, 1, 4, 6), (5, 1, 6, 5), 1),
        ((2, 1, 3, 4, 6), (6, 5), 1),
        ((2, 3, 4, 6), (3, 6, 5), 2),
        ((2, 3, 5, 4, 6), (2, 1, 1, 6, 5), 2),
    ],
)
def test_stacks_take_few_calls(library: Library, left: tuple[int, ...], right: tuple[int, ...], calls: int) -> None:
    check(values(*left), values(*right))
    assert library.calls == calls


def test_handle(driver: RunningStandIn) -> None:
    device, library = RunningDevice(driver), Library(driver)
    device._blas = Blas(device._driver, device._order, library)
    with wf.device(device):
        check(values(3, 4), values(4, 5))
    assert library.mode == 16  # sums are not rounded to the dtype of the operands
    device._blas = None
    assert library.destroyed == 1


@pytest.mark.parametrize(
    "views",
    [
        lambda x, y: (x.T, y),
        lambda x, y: (x, y.T),
        lambda x, y: (x.T, y.T),
        lambda x, y: (x[1:5, 2:7], y[3:8, 1:4]),
        lambda x, y: (x[1:5, 2:7].T, y[3:7, 1:4]),
        lambda x, y: (x[2], y[:, 3]),
        lambda x, y: (x[2, 1:5], y[1:5, 2:4]),
        lambda x, y: (x[2:3, 1:5], y[1:5, 2:3]),
        lambda x, y: (x[:, 1:2], y[4:5]),
    ],
)
def test_views_are_not_copied(library: Library, driver: RunningStandIn, views: Any) -> None:
    check(values(8, 8), values(8, 8), views)
    assert library.calls == 1
    assert driver.count("cuMemcpyDtoHAsync") == 1, "the result alone came to the host"


@pytest.mark.parametrize(
    "views", [lambda x, y: (x[::2, :4], y[::2, ::2]), lambda x, y: (x[:, ::-1], y), lambda x, y: (x[:3, :0], y[:0, :3])]
)
def test_what_the_library_cannot_take(library: Library, views: Any) -> None:
    check(values(8, 8), values(8, 8), views)
    assert library.calls <= 1


def test_a_large_product_of_small_arrays_is_computed_on_the_device(library: Library) -> None:
    """Test the product of two small matrices in host memory. If the result is large, the device's library computes it."""
    with override(immediate=1 << 14):
        a, b = values(300, 20), values(20, 200)
        x, y = wf.asarray(a), wf.asarray(b)
        for found in (x @ y, wf.matmul(x, y), x.dot(y), a @ y):
            np.testing.assert_allclose(found.numpy(), a @ b)
    assert library.calls == 4


def test_integers_go_another_way(library: Library) -> None:
    check(values(3, 4, dtype=np.int64), values(4, 5, dtype=np.int64))
    assert not library.calls


def test_in_a_plan_and_in_streams(library: Library) -> None:
    a, b = values(20, 30), values(30, 10)
    with wf.stream():
        x = wf.asarray(a)
        with wf.stream():
            y = wf.maximum((x * 2 + 1) @ wf.asarray(b) - 3, 0).sum(axis=0)
    expected = np.maximum((a * 2 + 1) @ b - 3, 0).sum(axis=0)
    np.testing.assert_allclose(y.numpy(), expected)
    assert library.calls == 1 and library.made == 1


def test_half_precision_is_the_librarys_on_a_gpu(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    check(values(20, 30, dtype=np.float16), values(30, 10, dtype=np.float16))
    assert library.calls == 1


def test_failures(library: Library) -> None:
    library.code = 15  # not supported, so the host computes the product
    check(values(3, 4), values(4, 5))
    library.code = 13
    with pytest.raises(CudaError, match="cublasGemmStridedBatchedEx failed with cuBLAS status 13"):
        (wf.asarray(values(3, 4)) @ wf.asarray(values(4, 5))).numpy()


def test_without_the_library(driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.runtime.cuda.blas.find_library", lambda names: None)
    with wf.device(RunningDevice(driver)), pytest.warns(wf.PerformanceWarning, match="cuBLAS is not installed"):
        check(values(3, 4), values(4, 5))


def test_a_library_that_cannot_be_initialized(library: Library) -> None:
    library.refused = 1
    with pytest.warns(wf.PerformanceWarning, match="cublasCreate_v2 failed with status 1"):
        check(values(3, 4), values(4, 5))
    check(values(3, 4), values(4, 5))  # (warns only once)
    assert library.made == 1 and not library.calls
