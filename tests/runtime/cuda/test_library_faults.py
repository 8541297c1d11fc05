"""Tests of failed calls of cuBLAS, cuFFT, cuSOLVER and the driver.

Most calls of an operation fail, one at a time. A failure raises a clear error, or issues a warning if the host can
compute the result. Nothing is leaked, and the next computation is right.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime import test_cuda_blas
from tests.runtime.cuda import test_fourier, test_solver
from tests.runtime.cuda.library_error import LibraryError
from tests.runtime.test_cuda_faults import PAIRS, leaks
from tests.stand_in import RunningDevice, RunningStandIn
from weft.dsl.functions import linear
from weft.runtime import CudaError, DeviceLostError, OutOfMemoryError, PerformanceWarning, set_default_device
from weft.runtime.cuda.blas import Blas
from weft.runtime.cuda.driver import STICKY
from weft.runtime.cuda.fourier import TYPES, Fourier
from weft.runtime.cuda.solver import Solver

STATUS = 9
FOURIER = [
    (name, dtype) for name in ("fft", "ifft", "rfft", "irfft") for dtype in "fdFD" if name[0] != "r" or dtype in "fd"
]
# Function and dtype -> the library.
OPERATIONS: dict[tuple[str, str], str] = {
    **dict.fromkeys([("matmul", dtype) for dtype in "efdFD"], "cuBLAS"),
    **dict.fromkeys(FOURIER, "cuFFT"),
    **dict.fromkeys([(f"linalg.{name}", "d") for name in "cholesky det eigh eigvalsh inv pinv slogdet solve svd svdvals".split()], "cuSOLVER"),
    **dict.fromkeys([("linalg.qr", dtype) for dtype in "fdFD"], "cuSOLVER"),
}  # fmt: skip
RELEASES = {"destroy", "destroy_params", "cublasDestroy_v2"}


@dataclass
class Watched:
    """A substitute for a library. It records its calls, and the call with number `failing` fails."""

    library: Any
    names: list[str] = field(default_factory=list)
    failing: int = -1  # the number of the call

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.library, name)

        def call(*arguments: Any) -> Any:
            self.names.append(name)
            if len(self.names) - 1 != self.failing:
                return function(*arguments)
            if name.startswith("cublas"):
                return STATUS
            raise LibraryError(STATUS)

        return call


class Bench:
    """A CUDA device with stand-ins for the libraries, and an operation on a matrix."""

    def __init__(self, operation: tuple[str, str]) -> None:
        self.name, self.dtype = operation
        self.driver = RunningStandIn()
        self.device = RunningDevice(self.driver)
        self.equip()
        set_default_device(self.device)
        source = np.random.default_rng(5).integers(-3, 4, (4, 4)).astype(self.dtype)
        self.values = source @ source.conj().T + np.eye(4, dtype=self.dtype) * 3
        self.x: Any = wf.asarray(self.values) + 0
        wf.evaluate(self.x)

    def equip(self, title: str = "", failing: int = -1) -> None:
        """Replace the device's CUDA libraries by new stand-ins. In the library named `title`, the call with the number `failing` fails."""
        solver = test_solver.Library(self.driver)
        solver.kind = self.dtype
        self.libraries = {
            "cuBLAS": Watched(test_cuda_blas.Library(self.driver)),
            "cuFFT": Watched(test_fourier.Library(self.driver)),
            "cuSOLVER": Watched(solver),
        }
        if title:
            self.libraries[title].failing = failing
        order = self.device._driver, self.device._order
        self.device._blas = Blas(*order, self.libraries["cuBLAS"])
        self.device.fourier = Fourier(*order, self.device.allocate, self.libraries["cuFFT"])
        self.device.solver = Solver(*order, self.device.allocate, self.device.read, self.libraries["cuSOLVER"])

    def strip(self) -> None:
        """Remove the libraries from the device, and check that handles and plans have been destroyed."""
        del self.device._blas, self.device.fourier, self.device.solver
        gc.collect()
        made = self.libraries["cuBLAS"].library
        assert made.made == made.destroyed
        assert not self.libraries["cuFFT"].library.plans
        assert self.libraries["cuSOLVER"].library.handles == self.libraries["cuSOLVER"].library.options == 0

    def call(self, module: Any, x: Any) -> Any:
        """Apply the tested operation, such as ``matmul``, to a matrix. The parameter `module` is the implementation: NumPy or weft."""
        function = module.fft if self.name in ("fft", "ifft", "rfft", "irfft") else module
        for part in self.name.split("."):
            function = getattr(function, part)
        return function(x, x) if self.name in ("matmul", "linalg.solve") else function(x)

    def run(self) -> list[np.ndarray]:
        """Run the operation, and return the magnitudes of the results. The signs of eigenvectors are not determined."""
        found = self.call(wf, self.x)
        return [np.asarray(abs(each)) for each in (found if isinstance(found, tuple) else (found,))]

    def check(self) -> None:
        """Compare the results with NumPy's."""
        with np.errstate(all="ignore"):
            expected = self.call(np, self.values)
        for ours, theirs in zip(self.run(), expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(ours, abs(theirs), rtol=2e-3, atol=1e-3)

    def abandon(self) -> None:
        """Release all memory of the device. After this call, the device is not used again."""
        set_default_device(None)
        self.driver.memory.blocks.clear()
        self.driver.memory.starts.clear()
        self.driver.close()

    def close(self) -> dict[str, int]:
        """Release everything, and return the number of leaked resources by kind."""
        del self.x
        set_default_device(None)
        self.strip()
        self.device.reset()
        gc.collect()
        found = leaks(self.driver)
        assert not self.driver.memory.wrong
        # (the main stream, its event, kernels and staging memory live as long as the device)
        kinds = Counter(kind for kind, _, _ in self.driver.memory.blocks.values())
        self.abandon()
        lasting = {"cuStreamCreate", "cuEventCreate", "cuModuleLoadData", "memory"}
        return {name: count for name, count in found.items() if name not in lasting} | (
            {"memory": kinds["pool"]} if kinds["pool"] else {}
        )


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the libraries compute small products, and let garbage collections ignore existing objects."""
    monkeypatch.setattr(linear, "is_fused", lambda device, kind, *sizes: False)
    gc.freeze()
    yield
    gc.unfreeze()
    set_default_device(None)


def calls_of(operation: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Return the names of the library calls and of the driver calls of an operation.

    The library calls are those of two runs, without releases. The driver calls are those of the second run.
    """
    bench = Bench(operation)
    bench.check()
    bench.driver.forget()
    bench.check()
    second = [call.name for call in bench.driver.calls]
    names = bench.libraries[OPERATIONS[operation]].names
    bench.close()
    return [name for name in names if name not in RELEASES], second


@pytest.mark.parametrize("operation", OPERATIONS, ids="-".join)
def test_each_call_of_a_library_failing(operation: tuple[str, str]) -> None:
    title = OPERATIONS[operation]
    names = calls_of(operation)[0]
    assert len(names) > 2
    bench = Bench(operation)
    for number, name in enumerate(names):
        if 0 < names[:number].count(name) < names.count(name) - 1:
            continue  # (only the first and the last of repeated calls)
        bench.strip()
        bench.equip(title, number)
        if name in ("cublasCreate_v2", "cublasSetMathMode"):  # (the host computes the product)
            with pytest.warns(PerformanceWarning, match=f"{name} failed with status {STATUS}"):
                bench.check()
            bench.check()
            continue
        with pytest.raises(CudaError, match=rf"{title}.*{STATUS}|cublas\w+ failed.*{STATUS}") as caught:
            bench.check()
            bench.check()
        assert name in str(caught.value) and caught.value.code == STATUS
        del caught
        bench.check()
    assert not bench.close()


def test_the_operations_make_every_call() -> None:
    made = {name for operation in OPERATIONS for name in calls_of(operation)[0]}
    fourier = {"create", "set_auto_allocation", "make_plan_many64", "set_stream", "set_work_area"}
    sized = {"xpotrf", "xgetrf", "xsyevd", "xgesvd", "xgeqrf", "sorgqr", "dorgqr", "cungqr", "zungqr"}
    assert made == (
        {"cublasCreate_v2", "cublasSetMathMode", "cublasSetStream_v2", "cublasGemmStridedBatchedEx", "create_params", "xgetrs", *sized}
        | {f"{name}_buffer_size" for name in sized} | fourier | {f"exec_{name}" for types in TYPES.values() for name, _ in types}
    )  # fmt: skip


# One operation for each way of calling the libraries.
KINDS = [("matmul", "d"), ("fft", "D"), ("linalg.solve", "d"), ("linalg.svd", "d"), ("linalg.qr", "d")]


@pytest.mark.parametrize("code", [2, 719])
@pytest.mark.parametrize("operation", KINDS, ids="-".join)
def test_each_driver_call_failing(operation: tuple[str, str], code: int) -> None:
    for name, count in Counter(calls_of(operation)[1]).items():
        _one_fault(operation, name, code, 0 if code in STICKY else count - 1)  # (the first or the last call)


def _one_fault(operation: tuple[str, str], name: str, code: int, after: int) -> None:
    where = f"{name} fails with {code} after {after} calls"
    bench = Bench(operation)
    bench.check()
    bench.driver.fail(name, code, after, times=1)
    try:
        bench.check()
    except (CudaError, OutOfMemoryError, DeviceLostError) as caught:
        assert str(caught), where
        caught.__traceback__ = None
    bench.driver.mend()
    if bench.device._driver.lost:
        assert code in STICKY, where
        with pytest.raises(DeviceLostError, match="restart the process"):
            bench.check()
        bench.abandon()
        return
    bench.check()
    found = bench.close()
    if name in PAIRS.values():  # (the release that failed)
        found.pop(next(make for make, take in PAIRS.items() if take == name), None)
    assert not found or name in ("cuCtxPushCurrent", "cuMemFreeAsync"), where


@pytest.mark.parametrize("operation", KINDS, ids="-".join)
@pytest.mark.parametrize("reason", ["library", "driver"])
def test_a_handle_that_cannot_be_destroyed(
    operation: tuple[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_value))
    bench = Bench(operation)
    bench.check()
    if reason == "library":
        for library in bench.libraries.values():
            library.failing = len(library.names)
    else:
        bench.driver.fail("cuCtxPushCurrent", 719)
    del bench.device._blas, bench.device.fourier, bench.device.solver
    gc.collect()
    assert not raised
    bench.driver.mend()
    bench.abandon()


@pytest.mark.parametrize("operation", KINDS, ids="-".join)
def test_no_memory_for_workspaces(operation: tuple[str, str]) -> None:
    bench = Bench(operation)
    bench.check()
    full, bench.driver.memory.total = bench.driver.memory.total, 0
    bench.device.reset()  # (releases cached memory)
    with pytest.raises(OutOfMemoryError):
        bench.check()
    bench.driver.memory.total = full
    bench.check()
    assert not bench.close()
