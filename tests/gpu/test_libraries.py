"""Tests of linear algebra and Fourier transforms by NVIDIA's libraries on a GPU.

The tests need nvmath-python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error::weft.HostFallbackWarning")]
source = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def _libraries(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--stand-in"):
        pytest.skip("needs NVIDIA's libraries (tests/runtime/cuda has stand-ins for them)")
    pytest.importorskip("nvmath")


def values(*shape: int, dtype: Any = "d") -> np.ndarray:
    found = source.normal(size=shape)
    return (found + 1j * source.normal(size=shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def close(found: Any, expected: Any, scale: float = 1.0) -> None:
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    tolerance = scale * (1e-9 if expected.dtype.char in "dD" else 2e-3)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


EVERY = pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])


@EVERY
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "irfft2", "rfftn", "irfftn"])
def test_transforms(name: str, dtype: str) -> None:
    real = name in ("rfft", "ihfft", "rfftn")
    x = values(6, 30, 64, dtype=dtype.lower() if real else dtype)
    given = wf.asarray(x)
    close(getattr(wf.fft, name)(given), getattr(np.fft, name)(x), 10)
    np.testing.assert_array_equal(np.asarray(given), x)  # (cuFFT may overwrite the operand of some transforms)
    if name[-1] == "t":
        for n in (1, 17, 30, 101):
            for norm in ("backward", "ortho", "forward"):
                options: Any = {"n": n, "axis": 1, "norm": norm}
                close(getattr(wf.fft, name)(given, **options), getattr(np.fft, name)(x, **options), 10)


def test_long_transforms() -> None:
    for n in (1 << 20, 1_000_003):
        x = values(n, dtype="D")
        found = np.asarray(wf.fft.fft(wf.asarray(x) * 2))
        np.testing.assert_allclose(found, np.fft.fft(x * 2), atol=1e-7)


@EVERY
@pytest.mark.parametrize("shape", [(1, 1), (40, 40), (7, 20, 20)])
def test_solutions(dtype: str, shape: tuple[int, ...]) -> None:
    a = values(*shape, dtype=dtype) + 8 * np.eye(shape[-1], dtype=dtype)
    b = values(*shape[:-1], 3, dtype=dtype)
    x = wf.asarray(a)
    close(wf.linalg.inv(x), np.linalg.inv(a))
    close(wf.linalg.solve(x, wf.asarray(b)), np.linalg.solve(a, b))
    for found, expected in zip(wf.linalg.slogdet(x), np.linalg.slogdet(a), strict=True):
        close(found, expected)
    np.testing.assert_array_equal(np.asarray(x), a)


@EVERY
@pytest.mark.parametrize("upper", [False, True])
def test_hermitian_matrices(dtype: str, upper: bool) -> None:
    a = values(3, 30, 30, dtype=dtype)
    a = (a @ a.conj().swapaxes(-1, -2) / 30 + np.eye(30)).astype(dtype)
    x, rule = wf.asarray(a), "U" if upper else "L"
    close(wf.linalg.cholesky(x, upper=upper), np.linalg.cholesky(a, upper=upper))
    close(wf.linalg.eigvalsh(x, rule), np.linalg.eigvalsh(a, rule))
    size, vectors = (np.asarray(part) for part in wf.linalg.eigh(x, rule))
    np.testing.assert_allclose(a @ vectors, vectors * size[..., None, :], atol=1e-9 if dtype in "dD" else 1e-3)


@EVERY
@pytest.mark.parametrize("shape", [(50, 20), (20, 50), (3, 30, 30)])
@pytest.mark.parametrize("full", [False, True])
def test_factors(dtype: str, shape: tuple[int, ...], full: bool) -> None:
    a = values(*shape, dtype=dtype)
    x, k = wf.asarray(a), min(shape[-2:])
    u, size, v = (np.asarray(part) for part in wf.linalg.svd(x, full))
    tolerance = 1e-9 if dtype in "dD" else 1e-3
    close(wf.linalg.svdvals(x), np.linalg.svdvals(a))
    np.testing.assert_allclose((u[..., :k] * size[..., None, :]) @ v[..., :k, :], a, atol=tolerance)
    mode: Any = "complete" if full else "reduced"
    q, r = (np.asarray(part) for part in wf.linalg.qr(x, mode))
    expected = np.linalg.qr(a, mode)
    assert q.shape == expected.Q.shape and r.shape == expected.R.shape
    np.testing.assert_allclose(q @ r, a, atol=tolerance)
    wide = np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1]))
    np.testing.assert_allclose(q.conj().swapaxes(-1, -2) @ q, wide, atol=tolerance)


@EVERY
@pytest.mark.parametrize("shape", [(50, 20), (20, 50), (30, 30)])
def test_least_squares(dtype: str, shape: tuple[int, int]) -> None:
    a, b = values(*shape, dtype=dtype), values(shape[0], 3, dtype=dtype)
    for right in (b, b[:, 0]):
        found, wanted = wf.linalg.lstsq(wf.asarray(a), wf.asarray(right)), np.linalg.lstsq(a, right)
        assert found[2] == wanted[2]
        for k in (0, 1, 3):
            close(found[k], wanted[k], 100)


def test_errors() -> None:
    x = wf.zeros((3, 3))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        wf.linalg.inv(x)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        wf.linalg.cholesky(x - 1)
    assert float(wf.linalg.det(x)) == 0
