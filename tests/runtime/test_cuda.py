"""Tests of the CUDA device on a stand-in for the driver."""

from __future__ import annotations

import ctypes
import gc
import os
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.runtime import REGISTER_AIMS, CudaError, DeviceLostError, ObjectCode, OutOfMemoryError, assemble
from weft.runtime.cuda import linker
from weft.runtime.cuda.cuda_device import CudaDevice
from weft.runtime.cuda.probe import probe_driver

PTX = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry fused()\n{\nret;\n}\n"
CODE = ObjectCode("ptx", "fused", PTX, "sm_90", (), (), {"scheme": "elements", "block": 256, "per_block": 1024})
RESULTS: dict[str, tuple[Any, ...]] = {
    "cuInit": (),
    "cuDriverGetVersion": (13000,),
    "cuDeviceGetCount": (1,),
    "cuDeviceGet": (0,),
    "cuDeviceGetName": (b"Stand-in\0",),
    "cuDeviceTotalMem": (1 << 33,),
    "cuDeviceGetAttribute": (9,),
    "cuDevicePrimaryCtxRetain": ("context",),
    "cuStreamCreate": ("stream",),
    "cuDeviceGetDefaultMemPool": ("pool",),
    "cuMemAllocAsync": (1 << 20,),
    "cuMemGetInfo": (3 << 30, 8 << 30),
    "cuEventCreate": ("event",),
    "cuModuleLoadData": ("module",),
    "cuModuleGetFunction": ("function",),
}


class Table:
    """A table of driver functions that record each call.

    Functions in `failing` fail, all of them or only the first call if `once` is true. Other functions succeed.
    """

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76
    )
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.pinned: list[Any] = []  # keeps pinned memory alive, since the host may write to it
        self.failing: dict[str, int] = {}
        self.once = False

    def __getattr__(self, name: str) -> Any:
        if name == "cuGetProcAddress":
            raise AttributeError("no native function: everything goes through this table")

        def function(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, arguments))
            code = self.failing.get(name, 0)
            if name == "cuMemHostAlloc" and not code:
                self.pinned.append(ctypes.create_string_buffer(arguments[0]))
                return 0, ctypes.addressof(self.pinned[-1])
            if code and self.once:
                del self.failing[name]
            return (code, *RESULTS.get(name, ())) if not code else (code, *(None for _ in RESULTS.get(name, ())))

        return function

    def cuuint64_t(self, value: int) -> int:
        return value

    def count(self, name: str) -> int:
        return sum(called == name for called, _ in self.calls)


@pytest.fixture
def table() -> Table:
    return Table()


def use(device: CudaDevice) -> None:
    buffer = device.upload(np.arange(5000.0))
    other = device.allocate(buffer.nbytes)
    device.copy(buffer, other, buffer.nbytes)
    function = device.load(CODE)
    device.launch(function, (5000,), 5000, array("q", [buffer.address, other.address]))
    device.download(other, np.dtype(float), (5000,))
    device.synchronize()


def test_a_run(table: Table) -> None:
    device = CudaDevice(0, table)
    use(device)
    (launch,) = [arguments for name, arguments in table.calls if name == "cuLaunchKernel"]
    assert launch[1:8] == (5, 1, 1, 256, 1, 1, 0)
    assert table.count("cuCtxPushCurrent") == table.count("cuCtxPopCurrent")
    gc.collect()
    assert device.memory.held == 0
    device.reset()
    assert table.count("cuModuleUnload") == 1
    assert table.count("cuMemFreeAsync") == table.count("cuMemAllocAsync")


def test_memory_is_reused(table: Table) -> None:
    device = CudaDevice(0, table)
    for _ in range(10):
        device.allocate(1000)
    assert table.count("cuMemAllocAsync") == 1


def test_nothing_is_launched_for_nothing(table: Table) -> None:
    device = CudaDevice(0, table)
    device.launch(device.load(CODE), (0, 7), 0, array("q"))
    assert table.count("cuLaunchKernel") == 0


CALLS = (
    "cuMemAllocAsync cuMemcpyHtoDAsync cuMemcpyDtoDAsync cuMemcpyDtoHAsync cuModuleLoadData cuModuleGetFunction "
    "cuLaunchKernel cuEventCreate cuEventRecord cuEventQuery cuCtxPushCurrent"
).split()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("code", "error"), [(1, CudaError), (700, DeviceLostError), (719, DeviceLostError)])
def test_each_call_failing(table: Table, name: str, code: int, error: type[Exception]) -> None:
    device = CudaDevice(0, table)
    table.failing[name] = code
    with pytest.raises(error):
        use(device)
    del table.failing[name]
    gc.collect()
    if error is DeviceLostError:
        with pytest.raises(DeviceLostError, match="restart the process"):
            device.allocate(10)
    else:
        use(device)


def test_out_of_memory_frees_waits_and_retries_once(table: Table) -> None:
    device = CudaDevice(0, table)
    kept = device.allocate(4096)
    del kept
    table.failing["cuMemAllocAsync"] = 2
    table.once = True
    device.allocate(1 << 16)
    assert table.count("cuMemFreeAsync") == 1
    table.failing["cuMemAllocAsync"] = 2
    table.once = False
    with pytest.raises(OutOfMemoryError) as caught:
        device.allocate(1 << 18)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.requested == 1 << 18


def test_a_copy_that_runs_out_of_memory_names_no_address_as_a_size(table: Table) -> None:
    device = CudaDevice(0, table)
    table.failing["cuMemcpyHtoDAsync"] = 2
    with pytest.raises(OutOfMemoryError) as caught:
        device.upload(np.arange(5000.0))
    assert caught.value.requested == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_gets_a_clear_error(table: Table) -> None:
    device = CudaDevice(0, table)
    buffer = device.allocate(8)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            before = len(table.calls)
            try:
                device.allocate(8)
                said = "nothing"
            except DeviceLostError as error:
                said = str(error)
            del buffer
            device.memory.empty()
            os.write(writing, f"{len(table.calls) - before} calls, {said}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said.startswith("0 calls, ")
    assert "forked" in said
    device.allocate(1 << 16)  # the parent process still works


def test_what_the_probe_says(table: Table) -> None:
    found = probe_driver(table)
    assert found.status == "ok"
    assert found.devices[0].name == "Stand-in"
    table.failing["cuInit"] = 100
    assert probe_driver(table).status in ("no device", "hidden")
    table.failing.clear()
    table.failing["cuDriverGetVersion"] = 0
    RESULTS_OLD = RESULTS["cuDriverGetVersion"]
    RESULTS["cuDriverGetVersion"] = (11040,)
    try:
        assert probe_driver(table).status == "driver too old"
        assert "11.4" in probe_driver(table).message
    finally:
        RESULTS["cuDriverGetVersion"] = RESULTS_OLD


@pytest.mark.parametrize(
    ("capabilities", "status", "first"), [([6, 6], "GPU too old", None), ([6, 9], "ok", 1), ([9, 6], "ok", 0)]
)
def test_gpus_that_are_too_old(capabilities: list[int], status: str, first: int | None) -> None:
    class Several(Table):
        def cuDeviceGetCount(self) -> tuple[int, int]:
            return 0, 2

        def cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
            return 0, ordinal

        def cuDeviceGetAttribute(self, kind: int, device: int) -> tuple[int, int]:
            return 0, capabilities[device] if kind == 75 else 1

    found = probe_driver(Several())
    assert found.status == status
    if first is None:
        assert "compute capability 6.1, needed is 7.0" in found.message
    else:
        assert found.first == first


def test_errors_of_the_beginning_say_what_helps(table: Table) -> None:
    for code, words in ((802, "fabric manager"), (803, "restart"), (999, "restart"), (34, "stub")):
        table.failing["cuInit"] = code
        found = probe_driver(table)
        assert found.status == "driver error" and words in found.remedy
    table.failing.clear()
    table.failing["cuDevicePrimaryCtxRetain"] = 3
    with pytest.raises(CudaError, match="forked"):
        CudaDevice(0, table)


def test_assembling_needs_no_driver() -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    cubin = assemble(PTX, "sm_90")
    assert cubin.code[:4] == b"\x7fELF"
    assert cubin.entry == "fused"
    with pytest.raises(Exception, match="refused"):
        assemble(PTX.replace(b"ret", b"nonsense"), "sm_90")


@pytest.mark.parametrize(
    ("spilling", "wanted"), [((), b".maxnreg 32"), ((b".maxnreg 32",), b".maxnreg 40"), ((b".maxnreg",), b"")]
)
def test_limits_of_registers_are_tried_until_nothing_spills(
    spilling: tuple[bytes, ...], wanted: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assembled(ptx: bytes, arch: str, links: tuple[str, ...]) -> ObjectCode:
        spills = 8 * any(limit in ptx for limit in spilling)
        return ObjectCode("cubin", "fused", ptx, arch, (), (), {"spills": spills})

    monkeypatch.setattr(linker, "_assemble", assembled)
    limited = PTX.replace(b"()", b"() .maxnreg 32")
    code = assemble(limited + f"{REGISTER_AIMS}32 40\n".encode(), "sm_90").code
    assert (wanted or b"fused() \n") in code
    assert code.count(b".maxnreg") == bool(wanted)
    # a limit in the text is kept, whatever its cost
    assert assemble(limited, "sm_90").code == limited
