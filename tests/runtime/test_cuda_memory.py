"""Tests of memory, stream order and transfers of the CUDA device.

They use a stand-in for the driver.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.runtime.test_cuda_launch import EXPLICIT, MAIN, Driver, launch, order
from weft.runtime import Buffer, OutOfMemoryError
from weft.runtime.cuda import staging
from weft.runtime.cuda.cuda_device import CudaDevice
from weft.runtime.cuda.device_memory import KEPT_BYTES, FreeList, size_class
from weft.runtime.cuda.staging import PIECE

MIB = 1 << 20


class Machine(Driver):
    """A stand-in for the driver with limited memory. Every allocated block has its own address."""

    def __init__(self, total: int = 8 << 30) -> None:
        super().__init__()
        self.total = total
        self.given: dict[int, int] = {}
        self._next = 1 << 32

    def cuMemAllocAsync(self, size: int, stream: Any) -> tuple[Any, ...]:
        self.calls.append(("cuMemAllocAsync", (size, stream)))
        if sum(self.given.values()) + size > self.total:
            return 2, None
        self._next += 1 << 28
        self.given[self._next] = size
        return 0, self._next

    def cuMemFreeAsync(self, address: int, stream: Any) -> tuple[int]:
        self.calls.append(("cuMemFreeAsync", (address, stream)))
        del self.given[address]  # freeing twice is an error
        return (0,)

    def cuMemGetInfo(self) -> tuple[int, int, int]:
        return 0, self.total - sum(self.given.values()), self.total


@pytest.fixture
def table() -> Machine:
    return Machine()


@pytest.fixture
def device(table: Machine) -> CudaDevice:
    return CudaDevice(0, table)


# -- blocks ------------------------------------------------------------------------------------------------


def test_who_uses_a_part_uses_the_whole(device: CudaDevice) -> None:
    stream = device.create_stream()
    whole: Any = device.allocate(1000)
    part = Buffer(device, whole.address + 256, 100, whole)
    inner = Buffer(device, part.address + 8, 8, part)
    assert whole.writer is whole.origin_stream and not whole.is_multi_stream
    device.claim(inner, stream)
    assert whole.readers == {stream} and whole.is_multi_stream
    device.claim(part, stream, written=True)
    assert whole.writer is stream and not whole.readers
    address = whole.address
    del whole, part
    assert device.memory.held, "a part keeps the whole"
    del inner
    assert not device.memory.held and device.memory.kept
    # the main stream waits for the other stream before it reuses the block
    assert device.allocate(1000).address == address


@pytest.mark.parametrize("listed", [False, True])
def test_many_threads_take_and_give_back(table: Machine, device: CudaDevice, listed: bool) -> None:
    """Test that no two threads use a block at the same time. The final byte counts of the pool must be right, too."""
    memory = device.memory
    assert not listed or memory.obtain_free_lists() is not None
    taken: dict[int, int] = {}
    wrong: list[int] = []

    def go(seed: int) -> None:
        held: list[Any] = []
        for k in range(3000):
            block = device.allocate((100, 1000, 5000, 2 * MIB)[(k * seed) % 4])
            if taken.setdefault(block.address, id(block)) != id(block):
                wrong.append(k)
            held.append(block)
            if len(held) > 8:
                old = held.pop(k % 8)
                del taken[old.address]
                del old
            if k % 500 == 499:
                memory.empty()
        for block in held:
            del taken[block.address]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(go, (1, 3, 5, 7)))
    finally:
        sys.setswitchinterval(before)
    gc.collect()
    assert not wrong and memory.held == 0
    assert memory.kept == sum(table.given.values())
    memory.empty()
    assert memory.kept == 0 and not table.given


@pytest.mark.parametrize("nbytes", [0, 1, 512, 513, 4000, 65_537, MIB, MIB + 1, 100 * MIB + 7])
def test_sizes_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= nbytes and size % 512 == 0
    assert size <= max(512, nbytes * 1.26) or size - nbytes < 2 * MIB


def test_a_free_list_gives_the_size_or_slightly_more() -> None:
    free = FreeList()
    for address, size in ((1, 8 * MIB), (2, 4 * MIB), (3, 8 * MIB), (4, 64 * MIB)):
        free.put(address, size)
    assert free.take(8 * MIB) == (3, 8 * MIB)
    assert free.take(60 * MIB) == (4, 64 * MIB)
    assert free.take(32 * MIB) is None
    assert sorted(free.drain()) == [(1, 8 * MIB), (2, 4 * MIB)]
    assert free.take(4 * MIB) is None and not free.drain()


def test_what_is_held_and_kept(table: Machine, device: CudaDevice) -> None:
    memory = device.memory
    one, other = device.allocate(3 * MIB), device.allocate(3 * MIB)
    assert (memory.held, memory.kept, memory.peak) == (8 * MIB, 0, 8 * MIB)
    del one
    assert (memory.held, memory.kept, memory.peak) == (4 * MIB, 4 * MIB, 8 * MIB)
    again = device.allocate(4 * MIB)
    assert len(table.named("cuMemAllocAsync")) == 2
    del other, again
    assert memory.empty() == 8 * MIB
    assert (memory.held, memory.kept, memory.peak) == (0, 0, 8 * MIB)
    assert not table.given
    assert table.named("cuMemPoolTrimTo")


def test_what_is_kept_is_bounded(table: Machine, device: CudaDevice) -> None:
    table.total = 1 << 40
    buffers = [device.allocate(1 << 30) for _ in range(6)]
    del buffers
    assert device.memory.kept == KEPT_BYTES == 4 << 30
    assert len(table.given) == 4


def test_the_drivers_pool_keeps_everything(table: Machine, device: CudaDevice) -> None:
    ((_, pool, attribute, value),) = table.named("cuMemPoolSetAttribute")
    assert (pool, attribute, value) == ("pool", 4, 2**64 - 1)


def test_a_driver_without_pools(table: Machine) -> None:
    table.failing["cuDeviceGetDefaultMemPool"] = 801
    device = CudaDevice(0, table)
    buffer = device.allocate(1000)
    assert table.named("cuMemAlloc") and not table.named("cuMemAllocAsync")
    del buffer
    device.memory.empty()
    assert table.named("cuMemFree") and not table.named("cuMemFreeAsync", "cuMemPoolTrimTo")


# -- out of memory -------------------------------------------------------------------------------------------


def test_no_memory(table: Machine, device: CudaDevice) -> None:
    table.total = 100 * MIB
    held = device.allocate(60 * MIB)
    held.origin = (test_no_memory.__code__, 0)
    small = device.allocate(2 * MIB)
    kept = device.allocate(30 * MIB)
    del kept
    table.calls.clear()
    with pytest.raises(OutOfMemoryError) as caught:
        device.allocate(50 * MIB)
    names = [
        name for name, _ in table.calls if name.startswith(("cuMemAlloc", "cuMemFree", "cuEventQuery", "cuMemPool"))
    ]
    assert names[:2] == ["cuMemAllocAsync", "cuMemFreeAsync"]
    assert "cuEventQuery" in names, "pending frees were waited for"
    assert names[-1] == "cuMemAllocAsync" and names.count("cuMemAllocAsync") == 2, "one retry"
    error = caught.value
    assert isinstance(error, MemoryError)
    assert (error.requested, error.held, error.total, error.limit) == (50 * MIB, 62 * MIB, 100 * MIB, None)
    assert [nbytes for nbytes, _ in error.largest] == [60 * MIB, 2 * MIB]
    line = test_no_memory.__code__.co_firstlineno
    assert f"62,914,560 bytes, test_cuda_memory.py:{line}" in str(error)
    del held
    device.allocate(50 * MIB)
    assert small.nbytes


def test_a_limit(table: Machine, device: CudaDevice) -> None:
    device.memory.limit = 10 * MIB
    one = device.allocate(4 * MIB)
    other = device.allocate(4 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"weft.memory.limit allows 10,485,760"):
        device.allocate(4 * MIB)
    del one
    device.allocate(6 * MIB)  # the kept blocks are released first, since the sum would be 14 MiB
    assert sum(table.given.values()) <= 10 * MIB
    device.memory.limit = None
    device.allocate(50 * MIB)
    assert other.nbytes


def test_garbage_is_free_memory(table: Machine, device: CudaDevice) -> None:
    table.total = 10 * MIB
    gc.disable()
    try:
        ring: list[Any] = [device.allocate(8 * MIB)]
        ring.append(ring)
        del ring
        device.allocate(8 * MIB)
    finally:
        gc.enable()


# -- streams ---------------------------------------------------------------------------------------------------


def test_memory_of_a_stream_is_its_own(table: Machine, device: CudaDevice) -> None:
    one, other = device.create_stream(), device.create_stream()
    with device.working_in(one):
        first = device.allocate(MIB)
        address = first.address
        assert table.named("cuMemAllocAsync")[-1][2] == one.handle
        del first
    with device.working_in(other):
        second = device.allocate(MIB)
        assert second.address != address
    with device.working_in(one):
        assert device.allocate(MIB).address == address
    assert len(table.named("cuMemAllocAsync")) == 2


def test_what_one_stream_made_another_waits_for(table: Machine, device: CudaDevice) -> None:
    one, other = device.create_stream(), device.create_stream()
    function = device.load(EXPLICIT)
    with device.working_in(one):
        buffer = device.allocate(MIB)
        launch(device, function)
    table.calls.clear()
    with device.working_in(other):
        device.claim(buffer)
        launch(device, function)
        device.claim(buffer)
        launch(device, function)
    a, b = one.handle, other.handle
    assert order(table) == [("wait", b, a), ("launch", b), ("launch", b)], "and for whom that one waited"
    table.calls.clear()
    with device.working_in(one):
        device.claim(buffer)
        launch(device, function)
        assert order(table) == [("launch", a)], "two may read at the same time"
        device.claim(buffer, written=True)
        launch(device, function)
    assert order(table)[1:] == [("wait", a, b), ("launch", a)], "a writer waits for the readers"


def test_memory_that_crossed_streams_is_not_reused_early(table: Machine, device: CudaDevice) -> None:
    one, other = device.create_stream(), device.create_stream()
    function = device.load(EXPLICIT)
    with device.working_in(one):
        buffer = device.allocate(MIB)
        launch(device, function)
    with device.working_in(other):
        device.claim(buffer)
        launch(device, function)
    address = buffer.address
    del buffer
    with device.working_in(one):
        assert device.allocate(MIB).address != address, "the other may still read it"
    table.calls.clear()
    kept = device.allocate(MIB)
    assert kept.address == address
    assert {call for call in order(table) if call[0] == "wait"} == {
        ("wait", MAIN, one.handle),
        ("wait", MAIN, other.handle),
    }


def test_memory_of_a_stream_that_is_gone(table: Machine, device: CudaDevice) -> None:
    stream = device.create_stream()
    with device.working_in(stream):
        buffer = device.allocate(MIB)
        launch(device, device.load(EXPLICIT))
    del buffer
    device.synchronize()
    del stream
    gc.collect()
    assert table.named("cuStreamDestroy")
    device.allocate(MIB)
    assert len(table.named("cuMemAllocAsync")) == 1, "its memory went to the device's own stream"


# -- transfers ---------------------------------------------------------------------------------------------------


class Copies(Machine):
    """A stand-in for the driver whose device memory is host memory. Copies between host and device copy the data."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Any] = []

    def cuMemAllocAsync(self, size: int, stream: Any) -> tuple[Any, ...]:
        self.blocks.append(ctypes.create_string_buffer(size))
        return 0, ctypes.addressof(self.blocks[-1])

    def cuMemFreeAsync(self, address: int, stream: Any) -> tuple[int]:
        return (0,)

    def _copy(self, name: str, to: int, source: int, size: int, stream: Any) -> tuple[int]:
        self.calls.append((name, (to, source, size, stream)))
        code = self.failing.get(name, 0)
        if not code:
            ctypes.memmove(to, source, size)
        return (code,)

    def cuMemcpyHtoDAsync(self, *given: Any) -> tuple[int]:
        return self._copy("cuMemcpyHtoDAsync", *given)

    def cuMemcpyDtoHAsync(self, *given: Any) -> tuple[int]:
        return self._copy("cuMemcpyDtoHAsync", *given)


@pytest.mark.parametrize("size", [1, 1000, PIECE, PIECE + 8, 9 * PIECE - 3])
def test_there_and_back(size: int) -> None:
    table = Copies()
    device = CudaDevice(0, table)
    values = np.random.default_rng(size).integers(0, 255, size).astype(np.uint8)
    buffer = device.upload(values)
    expected = values.copy()
    values[:] = 0  # the host array may change immediately
    np.testing.assert_array_equal(device.download(buffer, np.dtype(np.uint8), (size,)), expected)
    pinned = [(ctypes.addressof(raw), ctypes.addressof(raw) + len(raw)) for raw in table.pinned]
    for name, to, source, length, _ in table.named("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"):
        host = source if name == "cuMemcpyHtoDAsync" else to
        assert any(low <= host and host + length <= high for low, high in pinned), "every copy is of pinned memory"


@pytest.mark.parametrize("cores", [1, 8])
@pytest.mark.parametrize("size", [1, staging.WORTH - 1, staging.WORTH, 3 * staging.WORTH + 5])
def test_hands_copy_everything(monkeypatch: pytest.MonkeyPatch, cores: int, size: int) -> None:
    monkeypatch.setattr(staging, "usable_cores", lambda: cores)
    source = np.random.default_rng(size).integers(0, 255, size).astype(np.uint8)
    to = np.zeros(size + 2, np.uint8)
    staging.copy_on_host(to.ctypes.data + 1, source.ctypes.data, size)
    np.testing.assert_array_equal(to[1:-1], source)
    assert to[0] == to[-1] == 0


def test_an_interrupt_waits_for_the_threads_that_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that an interrupted copy ends only after all its threads have ended, since the caller may free the memory afterwards."""
    monkeypatch.setattr(staging, "usable_cores", lambda: 8)
    ended: list[int] = []

    def move(to: int, source: int, nbytes: int) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)
        ended.append(to)

    monkeypatch.setattr(staging.ctypes, "memmove", move)
    with pytest.raises(KeyboardInterrupt):
        staging.copy_on_host(0, 0, staging.WORTH)
    before = len(ended)
    time.sleep(0.15)
    assert len(ended) == before


def test_an_upload_does_not_wait_for_the_device() -> None:
    table = Copies()
    device = CudaDevice(0, table)
    device.upload(np.ones(1000))
    assert not table.named("cuEventQuery")[len(table.pinned) :]


def test_without_pinned_memory() -> None:
    table = Copies()
    table.failing["cuMemHostAlloc"] = 2
    device = CudaDevice(0, table)
    values = np.arange(3.0 * PIECE / 8)
    np.testing.assert_array_equal(device.download(device.upload(values), values.dtype, values.shape), values)


def test_transfers_in_a_stream() -> None:
    table = Copies()
    device = CudaDevice(0, table)
    stream = device.create_stream()
    with device.working_in(stream):
        buffer = device.upload(np.arange(10.0))
        device.download(buffer, np.dtype(float), (10,))
    assert {call[-1] for call in table.named("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync")} == {stream.handle}
    assert not any(call[1] == MAIN for call in table.named("cuStreamWaitEvent")), "the device's own stream goes on"


@pytest.mark.parametrize("name", ["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuEventRecord"])
def test_a_failing_transfer_leaves_the_rest_usable(name: str) -> None:
    table = Copies()
    device = CudaDevice(0, table)
    values = np.arange(10.0)
    table.failing[name] = 1
    with pytest.raises(Exception, match=name):
        device.download(device.upload(values), values.dtype, values.shape)
    table.failing.clear()
    np.testing.assert_array_equal(device.download(device.upload(values), values.dtype, values.shape), values)
