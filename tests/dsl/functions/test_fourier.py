"""Tests that Fourier transforms on the CPU are bit-identical to NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

KINDS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
source = np.random.default_rng(3)


@pytest.fixture(params=[(0, 1), (0, 2), (1 << 14, 2)], autouse=True)
def _tier(request: pytest.FixtureRequest) -> Iterator[None]:
    immediate, threads = request.param
    with override(immediate=immediate, threads=threads):
        yield


def values(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    found = source.integers(-40, 40, shape) / 8
    return (found + 1j * found[::-1] if np.dtype(dtype).kind == "c" else found).astype(dtype)


def check(name: str, x: np.ndarray, *rest: Any, **options: Any) -> None:
    expected = getattr(np.fft, name)(x, *rest, **options)
    found = getattr(wf.fft, name)(wf.asarray(x), *rest, **options)
    assert type(found) is wf.Array and found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides or min(expected.shape) == 1
    assert found.numpy().tobytes() == expected.tobytes()


def takes(name: str, dtype: Any) -> bool:
    return np.dtype(dtype).kind != "c" or name not in ("rfft", "ihfft", "rfft2", "rfftn")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "u1", "?", "f2"])
@pytest.mark.parametrize("name", KINDS)
def test_dtypes(name: str, dtype: str) -> None:
    if takes(name, dtype):
        check(name, values(6, 20, dtype=dtype))


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", KINDS)
def test_lengths_axes_and_norms(name: str, norm: str | None) -> None:
    x = values(7, 12, 5)
    for n in (None, 1, 4, 12, 17):
        for axis in (0, 1, -1):
            check(name, x, n, axis, norm)
    check(name, x[:, ::2].T, norm=norm)
    check(name, x[0, :, 0], norm=norm)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str) -> None:
    x = values(4, 6, 8)
    check(name, x)
    check(name, x, (3, 9), (0, 2))
    check(name, x, axes=(1, 0), norm="ortho")


@pytest.mark.parametrize("name", KINDS)
def test_rows_on_all_threads(name: str) -> None:
    check(name, values(600, 1024))
    check(name, values(64, 40, 300), axis=1)


def test_operations_around_a_transform_are_recorded() -> None:
    x = values(300, 500)
    spectrum = wf.fft.rfft(wf.asarray(x) * 2 + 1)
    spectrum = wf.where(wf.abs(spectrum) > 20, spectrum, 0)
    expected = np.fft.rfft(x * 2 + 1)
    expected = np.fft.irfft(np.where(np.abs(expected) > 20, expected, 0))
    np.testing.assert_allclose(wf.fft.irfft(spectrum).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x: f.fft(x, 0), ValueError, "Invalid number of FFT data points"),
        (lambda f, x: f.fft(x, axis=2), IndexError, "out of (range|bounds)"),
        (lambda f, x: f.ifft(x, norm="other"), ValueError, "Invalid norm value other"),
        (lambda f, x: f.rfft(x, norm=""), ValueError, "Invalid norm value"),
        (lambda f, x: f.rfft(x * 1j), TypeError, "rfft"),
        (lambda f, x: f.irfft(x[:, :1]), ValueError, "Invalid number of FFT data points"),
    ],
)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(np.fft, values(3, 4))
    with pytest.raises(error, match=message):
        call(wf.fft, wf.asarray(values(3, 4)))


def test_an_output_array() -> None:
    x, out = values(3, 8), wf.zeros((3, 8), dtype=complex)
    assert wf.fft.fft(wf.asarray(x), out=out) is out
    assert out.numpy().tobytes() == np.fft.fft(x).tobytes()
