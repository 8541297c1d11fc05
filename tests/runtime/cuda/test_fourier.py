"""Tests of Fourier transforms on a CUDA device.

A stand-in for cuFFT delays work as long as possible.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.cuda  # (installs `__cuda_array_interface__`, which `ihfft` must not read from `out`)
from tests.runtime.cuda.library_error import LibraryError
from tests.stand_in import RunningDevice, RunningStandIn
from weft.runtime import CudaError, override
from weft.runtime.cuda.fourier import KEPT_PLANS, Fourier

NAMES = {0x29: ("c2c", "F", "F"), 0x2A: ("r2c", "f", "F"), 0x2C: ("c2r", "F", "f")}
NAMES |= {0x69: ("z2z", "D", "D"), 0x6A: ("d2z", "d", "D"), 0x6C: ("z2d", "D", "d")}


class Library:
    """A stand-in for the functions of cuFFT's bindings that weft uses. It computes in host memory."""

    def __init__(self, driver: RunningStandIn) -> None:
        self.driver = driver
        self.plans: dict[int, dict[str, Any]] = {}
        self.made = self.destroyed = self.runs = 0
        self.failing = ""

    def _enter(self, name: str) -> None:
        if self.failing == name:
            raise LibraryError(6)

    def create(self) -> int:
        self._enter("create")
        self.made += 1
        self.plans[self.made] = {}
        return self.made

    def destroy(self, plan: int) -> None:
        self.destroyed += 1
        del self.plans[plan]

    def set_auto_allocation(self, plan: int, value: int) -> None:
        self._enter("set_auto_allocation")
        assert value == 0
        self.plans[plan]["own memory"] = True

    def make_plan_many64(self, plan: int, rank: int, n: list[int], *layout: int) -> int:
        self._enter("make_plan_many64")
        assert self.plans[plan]["own memory"] and rank == 1 and layout[:6] == (0, 1, 0, 0, 1, 0)
        self.plans[plan].update(n=n[0], kind=layout[6], rows=layout[7])
        return 16 * n[0] * layout[7]

    def set_stream(self, plan: int, stream: int) -> None:
        self._enter("set_stream")
        self.plans[plan]["stream"] = stream

    def set_work_area(self, plan: int, address: int) -> None:
        self._enter("set_work_area")
        made = self.plans[plan]
        made["work"] = address, 16 * made["n"] * made["rows"]

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self._execute(name, *given)

    def _execute(self, name: str, plan: int, source: int, out: int, direction: int = 0) -> None:
        self._enter("exec")
        made = self.plans[plan]
        kind, taken, given = NAMES[made["kind"]]
        n, rows = made["n"], made["rows"]
        assert name == f"exec_{kind}" and bool(direction) == (kind in ("c2c", "z2z"))
        self.runs += 1

        def array(at: int, dtype: str, length: int) -> np.ndarray:
            kind = np.dtype(dtype)
            span = rows * length * kind.itemsize
            assert self.driver.memory.covers(at, span), "outside the memory"
            return np.frombuffer((ctypes.c_char * span).from_address(at), kind).reshape(rows, length)

        def work() -> int:
            address, nbytes = made["work"]
            assert self.driver.memory.covers(address, nbytes), "the workspace was freed"
            (ctypes.c_char * nbytes).from_address(address)[:] = b"\xff" * nbytes
            half = n // 2 + 1
            x = array(source, taken, half if taken.isupper() and given.islower() else n)
            if given.islower():
                assert not x[:, 0].imag.any() and (n % 2 or not x[:, -1].imag.any())
                found: Any = np.fft.irfft(x, n, norm="forward")
            elif taken.islower():
                found = np.fft.rfft(x)
            else:
                found = np.fft.fft(x) if direction == -1 else np.fft.ifft(x, norm="forward")
            array(out, given, found.shape[1])[...] = found
            return 0

        self.driver.queues.give(made["stream"], work)


@pytest.fixture
def library(driver: RunningStandIn, device: RunningDevice) -> Iterator[Library]:
    found = Library(driver)
    device.fourier = Fourier(device._driver, device._order, device.allocate, found)
    yield found


def values(*shape: int, dtype: Any = "D") -> np.ndarray:
    source = np.random.default_rng(sum(shape))
    found = source.integers(-40, 40, shape) / 8
    return (found + 1j * source.integers(-8, 8, shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def check(name: str, x: np.ndarray, *rest: Any, **options: Any) -> None:
    expected = getattr(np.fft, name)(x, *rest, **options)
    found = getattr(wf.fft, name)(wf.asarray(x), *rest, **options)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.strides == expected.strides or 1 in expected.shape
    tolerance = 1e-12 if expected.dtype.char in "dD" else 2e-3 if expected.dtype.char == "e" else 1e-5
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.filterwarnings("error::weft.HostFallbackWarning")
@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D", "i4", "?"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_dtypes(library: Library, name: str, dtype: str) -> None:
    if np.dtype(dtype).kind != "c" or name not in ("rfft", "ihfft"):
        check(name, values(3, 10, dtype=dtype))
        assert library.runs == 1


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_axes_and_norms(library: Library, name: str, norm: str) -> None:
    x = values(4, 6, 5, dtype="d" if name in ("rfft", "ihfft") else "D")
    for n in (None, 1, 4, 9):
        for axis in (0, 1, -1):
            check(name, x, n, axis, norm)
    check(name, x[::2, ::-1].T, norm=norm)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(library: Library, name: str) -> None:
    check(name, values(3, 4, 6, dtype="d" if name[0] == "r" else "D"))
    assert library.runs == (3 if name[-1] == "n" else 2)


@pytest.mark.filterwarnings("error::weft.HostFallbackWarning")
@pytest.mark.parametrize("name", ["fft", "irfft", "ihfft", "fftn", "rfft2"])
def test_outputs(library: Library, name: str) -> None:
    x = values(4, 6, dtype="d" if name in ("ihfft", "rfft2") else "D")
    expected = getattr(np.fft, name)(x)
    out = wf.zeros(expected.shape, expected.dtype)
    assert getattr(wf.fft, name)(wf.asarray(x), out=out) is out
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)
    with pytest.raises(ValueError), override(host_fallback="ignore"):
        getattr(wf.fft, name)(wf.asarray(x), out=wf.zeros(3, expected.dtype))


def test_the_operand_is_not_written(library: Library) -> None:
    x = wf.asarray(values(4, 5))
    wf.evaluate(wf.fft.irfft(x), wf.fft.fft(x))
    np.testing.assert_array_equal(x.numpy(), values(4, 5))


def test_in_a_program_and_in_streams(library: Library) -> None:
    x = values(8, 30, dtype="d")
    with wf.stream():
        a = wf.fft.rfft(wf.asarray(x) * 2)
        with wf.stream():
            b = wf.fft.irfft(a * wf.asarray(values(16))).sum(axis=0)
    expected = np.fft.irfft(np.fft.rfft(x * 2) * values(16)).sum(axis=0)
    np.testing.assert_allclose(b.numpy(), expected, atol=1e-10)


def test_plans_are_kept_and_destroyed(library: Library, driver: RunningStandIn, device: RunningDevice) -> None:
    for n in [*range(2, KEPT_PLANS + 6), KEPT_PLANS + 5]:
        wf.evaluate(wf.fft.fft(wf.asarray(values(n))))
    assert library.made == KEPT_PLANS + 4 and len(library.plans) == KEPT_PLANS
    device.fourier = None
    gc.collect()
    assert library.destroyed == library.made and not library.plans


@pytest.mark.parametrize(
    "call", ["create", "set_auto_allocation", "make_plan_many64", "set_stream", "set_work_area", "exec"]
)
def test_failures(library: Library, call: str) -> None:
    x = wf.asarray(values(3, 8))
    library.failing = call
    with pytest.raises(CudaError, match=rf"cuFFT's {call}.* failed with STATUS_6 \(6\)"):
        wf.evaluate(wf.fft.fft(x))
    library.failing = ""
    gc.collect()
    assert len(library.plans) == (0 if call in ("create", "set_auto_allocation", "make_plan_many64") else 1)
    check("fft", values(3, 8))


def test_without_the_library(device: RunningDevice) -> None:
    with pytest.warns(wf.PerformanceWarning, match="NumPy computes cuFFT's functions on the host"):
        x = wf.fft.fft(wf.asarray(values(3, 8)))
    with pytest.warns(wf.HostFallbackWarning, match="fft has no implementation for cuda"):
        np.testing.assert_array_equal(x.numpy(), np.fft.fft(values(3, 8)))
