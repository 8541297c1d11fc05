"""Tests of explicit kernels, streams, host memory and device properties.

They use a stand-in for the driver.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from array import array
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime.test_cuda import PTX, Table
from weft.runtime import CudaError, DeviceLostError, HostMemory, ObjectCode
from weft.runtime.cuda.cuda_device import CudaDevice
from weft.runtime.cuda.cuda_services import DELAY


class Handle:
    """A stand-in for a structure of cuda.bindings."""

    def __init__(self, values: bytes) -> None:
        self.memory = ctypes.create_string_buffer(values, len(values))

    def getPtr(self) -> int:
        return ctypes.addressof(self.memory)


MORE: dict[str, tuple[Any, ...]] = {
    "cuDeviceGetUuid": (SimpleNamespace(bytes=bytes(range(16))),),
    "cuMemHostGetDevicePointer": (8192,),
    "cuMemAllocManaged": (12288,),
    "cuMemAlloc": (1 << 22,),
    "cuIpcGetMemHandle": (Handle(bytes(range(64))),),
    "cuIpcOpenMemHandle": (1 << 23,),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (8,),
    "cuOccupancyMaxPotentialBlockSize": (264, 768),
    "cuEventElapsedTime": (1.5,),
}
EXPLICIT = ObjectCode("ptx", "fused", PTX, "sm_90", (), (), {"scheme": "threads"})
TOGETHER = ObjectCode("ptx", "fused", PTX, "sm_90", (), (), {"scheme": "threads", "cooperative": True})


class Functions(IntEnum):
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
    CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
    CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2
    CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class Driver(Table):
    """A stand-in for the CUDA driver in tests of user-written kernels. It gives each new stream or event its own handle."""

    CUfunction_attribute = Functions

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def CUhostFn(self, value: int) -> int:
        return value

    def CUipcMemHandle(self) -> Handle:
        return Handle(bytes(64))

    def __getattr__(self, name: str) -> Any:
        plain = super().__getattr__(name)

        def function(*arguments: Any) -> tuple[Any, ...]:
            code, *results = plain(*arguments)
            if name in ("cuStreamCreate", "cuEventCreate") and not code:
                self.made += 1
                return (code, 100 + self.made)
            return (code, *(results or (MORE.get(name, ()) if not code else ())))

        return function

    def named(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the recorded calls of the named functions, in order."""
        return [(name, *arguments) for name, arguments in self.calls if name in names]


@pytest.fixture
def table() -> Driver:
    return Driver()


@pytest.fixture
def device(table: Driver) -> CudaDevice:
    return CudaDevice(0, table)


MAIN = 101  # the first stream that the stand-in creates


# -- launches ------------------------------------------------------------------------------------------


def test_a_grid(table: Driver, device: CudaDevice) -> None:
    function = device.load(EXPLICIT)
    slots = array("q", [11, 22, 33])
    device.launch_grid(function, (5, 6, 7), (8, 4, 2), 1024, slots)
    ((_, handle, *shape, shared, stream, pointers, extra),) = table.named("cuLaunchKernel")
    assert handle == "function"
    assert tuple(shape) == (5, 6, 7, 8, 4, 2)
    assert (shared, stream, extra) == (1024, MAIN, 0)
    assert pointers


def test_arguments_of_a_grid(table: Driver, device: CudaDevice) -> None:
    seen: list[int] = []

    def launch(*given: Any) -> tuple[int]:
        addresses = ctypes.cast(given[-2], ctypes.POINTER(ctypes.c_void_p))
        seen.extend(ctypes.c_int64.from_address(addresses[k]).value for k in range(3))  # type: ignore[arg-type]
        return (0,)

    table.cuLaunchKernel = launch  # type: ignore[attr-defined]
    device.launch_grid(device.load(EXPLICIT), (1, 1, 1), (1, 1, 1), 0, array("q", [11, -22, 33]))
    assert seen == [11, -22, 33]


def test_much_shared_memory_is_asked_for_once(table: Driver, device: CudaDevice) -> None:
    function = device.load(EXPLICIT)
    for size in (48 << 10, 64 << 10, 50 << 10, 100 << 10):
        device.launch_grid(function, (1, 1, 1), (32, 1, 1), size, array("q"))
    kind = Functions.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    # (also below 48 KiB, since static shared arrays may use the rest)
    assert [call[2:] for call in table.named("cuFuncSetAttribute")] == [(kind, k << 10) for k in (48, 64, 100)]


def test_cooperative_kernels(table: Driver, device: CudaDevice) -> None:
    device.launch_grid(device.load(TOGETHER), (4, 1, 1), (32, 1, 1), 0, array("q"))
    assert not table.named("cuLaunchKernel")
    ((_, _, *shape, _),) = table.named("cuLaunchCooperativeKernel")
    assert shape == [4, 1, 1, 32, 1, 1, 0, MAIN]


@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuFuncSetAttribute", "cuStreamWaitEvent", "cuEventRecord"])
@pytest.mark.parametrize(("code", "error"), [(1, CudaError), (700, DeviceLostError)])
def test_a_failing_launch(table: Driver, device: CudaDevice, name: str, code: int, error: type[Exception]) -> None:
    function, stream = device.load(EXPLICIT), device.create_stream()
    table.failing[name] = code
    with pytest.raises(error):
        device.launch_grid(function, (1, 1, 1), (32, 1, 1), 64 << 10, array("q"), stream)
    del table.failing[name]
    if error is CudaError:
        device.launch_grid(function, (1, 1, 1), (32, 1, 1), 64 << 10, array("q"), stream)
        assert len(table.named("cuLaunchKernel")) >= 1


# -- streams -------------------------------------------------------------------------------------------


def order(table: Driver) -> list[tuple[Any, ...]]:
    """Return a tuple for each recorded launch, copy or wait: a name and the stream. For a wait, the tuple also contains the awaited stream."""
    recorded: dict[Any, Any] = {}
    found: list[tuple[Any, ...]] = []
    for name, arguments in table.calls:
        match name:
            case "cuEventRecord":
                recorded[arguments[0]] = arguments[1]
            case "cuStreamWaitEvent":
                found.append(("wait", arguments[0], recorded[arguments[1]]))
            case "cuLaunchKernel":
                found.append(("launch", arguments[-3]))
            case "cuMemcpyHtoDAsync" | "cuMemcpyDtoHAsync" | "cuMemcpyDtoDAsync":
                found.append(("copy", arguments[-1]))
    return found


def launch(device: CudaDevice, function: Any, stream: Any = None) -> None:
    device.launch_grid(function, (1, 1, 1), (32, 1, 1), 0, array("q"), stream)


def test_streams_wait_for_the_devices_own_and_it_for_them(table: Driver, device: CudaDevice) -> None:
    function = device.load(EXPLICIT)
    one, other = device.create_stream(), device.create_stream()
    launch(device, function)
    launch(device, function, one)
    launch(device, function, one)
    launch(device, function, other)
    a, b = one.handle, other.handle
    assert order(table) == [
        ("launch", MAIN),
        ("wait", a, MAIN),
        ("launch", a),
        ("launch", a),
        ("wait", b, MAIN),
        ("launch", b),
    ], "two streams do not wait for each other"
    table.calls.clear()
    launch(device, function)
    launch(device, function)
    launch(device, function, other)
    assert order(table) == [
        ("wait", MAIN, a),
        ("wait", MAIN, b),
        ("launch", MAIN),
        ("launch", MAIN),
        ("wait", b, MAIN),
        ("launch", b),
    ]


def test_copies_in_a_stream(table: Driver, device: CudaDevice) -> None:
    stream = device.create_stream()
    values = np.arange(5.0)
    buffer = device.allocate(values.nbytes)
    device.write(buffer.address, values, stream)
    device.read(buffer.address, np.empty(5), stream)
    assert order(table) == [("wait", stream.handle, MAIN), ("copy", stream.handle), ("copy", stream.handle)]
    assert not table.named("cuEventQuery"), "nothing waits"
    device.download(buffer, np.dtype(float), (5,))
    assert order(table)[-2:] == [("wait", MAIN, stream.handle), ("copy", MAIN)]
    assert table.named("cuEventQuery")


def test_memory_is_not_reused_under_a_stream(table: Driver, device: CudaDevice) -> None:
    function, stream = device.load(EXPLICIT), device.create_stream()
    buffer = device.allocate(5000)
    device.claim(buffer, stream)
    launch(device, function, stream)
    del buffer
    gc.collect()
    table.calls.clear()
    device.allocate(5000)
    assert order(table) == [("wait", MAIN, stream.handle)]
    assert not table.named("cuMemAllocAsync", "cuMemFreeAsync")


def test_waiting_for_streams(table: Driver, device: CudaDevice) -> None:
    function, stream = device.load(EXPLICIT), device.create_stream()
    launch(device, function, stream)
    stream.synchronize()
    assert table.named("cuEventRecord")[-1][2] == stream.handle
    assert stream.query()
    device.synchronize()
    assert order(table)[-1] == ("wait", MAIN, stream.handle)
    table.failing["cuStreamQuery"] = 600
    assert not stream.query()
    assert device.exported_stream() == MAIN


def test_streams_of_others(table: Driver, device: CudaDevice) -> None:
    function = device.load(EXPLICIT)
    launch(device, function, device.create_stream(2))
    launch(device, function, device.create_stream(0))
    assert [call for call in order(table) if call[0] == "launch"] == [("launch", 2), ("launch", MAIN)]
    gc.collect()
    assert not table.named("cuStreamDestroy")
    stream = device.create_stream()
    handle = stream.handle
    del stream
    gc.collect()
    assert table.named("cuStreamDestroy") == [("cuStreamDestroy", handle)]


def test_callbacks(table: Driver, device: CudaDevice) -> None:
    stream = device.create_stream()
    seen: list[int] = []

    def first() -> None:
        seen.append(1)

    alive = weakref.ref(first)
    for function in (first, lambda: seen.append(2)):
        stream.add_callback(function)
    del first, function
    calls = table.named("cuLaunchHostFunc")
    assert [queue for _, queue, _, _ in calls] == [stream.handle] * 2
    assert not seen
    for _, _, pointer, number in calls:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pointer)(number)
    assert seen == [1, 2]
    assert alive() is None, "a function is freed after its call"


def test_an_idle_stream_waits_while_work_is_submitted(table: Driver, device: CudaDevice) -> None:
    table.failing["cuStreamQuery"] = 600
    device.delay()
    assert not table.named("cuLaunchHostFunc")
    del table.failing["cuStreamQuery"]
    device.delay()
    ((_, queue, pointer, microseconds),) = table.named("cuLaunchHostFunc")
    assert (queue, microseconds) == (MAIN, DELAY)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(pointer)(microseconds)  # (the host function returns)


def test_events_that_were_not_recorded(table: Driver, device: CudaDevice) -> None:
    begin, end = device.create_event(), device.create_event()
    table.failing["cuEventElapsedTime"] = 400
    with pytest.raises(ValueError, match="recorded"):
        end.elapsed(begin)
    table.failing["cuEventElapsedTime"] = 700
    with pytest.raises(DeviceLostError):
        end.elapsed(begin)


def test_events(table: Driver, device: CudaDevice) -> None:
    stream = device.create_stream()
    begin, end = device.create_event(), device.create_event(timing=False)
    assert [call[1] for call in table.named("cuEventCreate")] == [0, 2]
    begin.record(stream)
    end.record()
    assert [call[2] for call in table.named("cuEventRecord")] == [stream.handle, MAIN]
    assert end.elapsed(begin) == 1.5
    table.failing["cuEventQuery"] = 600
    assert not begin.query()


# -- device properties and memory ------------------------------------------------------------------------


def test_facts(table: Driver, device: CudaDevice) -> None:
    facts = device.facts()
    assert (facts.number, facts.name, facts.capability) == (0, "Stand-in", (9, 9))
    assert facts.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert facts.attributes["COMPUTE_CAPABILITY_MAJOR"] == 9
    assert set(facts.attributes) == {"COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR"}
    with pytest.raises(KeyError):
        _ = facts.attributes["NO_SUCH"]
    assert device.memory_info() == (3 << 30, 8 << 30)


def test_occupancy_of_a_kernel(table: Driver, device: CudaDevice) -> None:
    function = device.load(EXPLICIT)
    assert device.active_blocks(function, 128, 1024) == 8
    assert device.best_block(function, 0, 1024) == (264, 768)
    device.profile(True)
    device.profile(False)
    assert table.named("cuProfilerStart", "cuProfilerStop") == [("cuProfilerStart",), ("cuProfilerStop",)]


def test_host_memory_goes_back(table: Driver, device: CudaDevice) -> None:
    pinned, managed = device.host_memory(100, "pinned"), device.host_memory(100, "managed")
    assert (pinned.host, pinned.address) == (ctypes.addressof(table.pinned[0]), 8192)
    host = pinned.host
    assert managed.host == managed.address == 12288
    values = np.zeros(10)
    held: HostMemory = device.pin(values)
    assert table.named("cuMemHostRegister") == [("cuMemHostRegister", values.ctypes.data, 80, 3)]
    assert (held.host, held.address) == (values.ctypes.data, 8192)
    assert device.pin(np.zeros(0)).nbytes == 0
    assert not table.named("cuMemFreeHost", "cuMemFree", "cuMemHostUnregister")
    del pinned, managed, held
    gc.collect()
    assert table.named("cuMemFreeHost", "cuMemFree", "cuMemHostUnregister") == [
        ("cuMemFreeHost", host),
        ("cuMemFree", 12288),
        ("cuMemHostUnregister", values.ctypes.data),
    ]


def test_sharing(table: Driver, device: CudaDevice) -> None:
    buffer, handle = device.share(256)
    assert (buffer.address, buffer.nbytes, len(handle)) == (1 << 22, 256, 64)
    opened = device.open_shared(handle, 256)
    assert opened.address == 1 << 23
    ((_, given, flags),) = table.named("cuIpcOpenMemHandle")
    assert (given.memory.raw, flags) == (handle, 1)
    with pytest.raises(ValueError, match="a handle of 64 bytes, not of 23"):
        device.open_shared(b"/dev/shm/weft-abcdefghi", 256)
    del buffer, opened
    gc.collect()
    assert table.named("cuMemFree", "cuIpcCloseMemHandle") == [("cuMemFree", 1 << 22), ("cuIpcCloseMemHandle", 1 << 23)]


def test_reset_keeps_what_is_in_use(table: Driver, device: CudaDevice) -> None:
    kept = device.allocate(5000)
    device.allocate(9000)
    gc.collect()
    device.reset()
    assert len(table.named("cuMemFreeAsync")) == 1
    assert device.memory.held >= kept.nbytes
