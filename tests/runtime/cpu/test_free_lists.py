"""Tests of the free lists of buffers."""

from __future__ import annotations

import gc
import warnings
import weakref
from array import array
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.test_cuda_memory import Machine
from weft.runtime import Buffer, BufferRequests, CpuDevice, CudaDevice, OptimizerWarning, override
from weft.runtime.cpu.free_list_code import MOST, TAKE, TAKES, take_text
from weft.runtime.cpu.host_memory import size_class
from weft.runtime.cpu.native import Builtin, python_function
from weft.runtime.errors import CompileError


@pytest.fixture
def device() -> CpuDevice:
    """Return a new CPU device with free lists."""
    made = CpuDevice()
    assert made.memory.obtain_free_lists() is not None
    return made


@pytest.fixture
def gpu() -> Iterator[Any]:
    """Yield a new CUDA device with free lists, on a stand-in for the driver."""
    made = CudaDevice(0, Machine())
    assert made.memory.obtain_free_lists() is not None
    yield made


def test_a_buffer_that_is_made_again_is_as_good_as_new(device: CpuDevice) -> None:
    first = device.allocate(1000)
    address, kind, seen = first.address, type(first), weakref.ref(first)
    first.origin, first.unwritten = (device.allocate.__code__, 3), bytearray(1000)
    assert isinstance(first, Buffer) and device.memory.held == size_class(1000)
    del first
    assert seen() is None and device.memory.held == 0 and device.memory.kept == size_class(1000)
    again = device.allocate(990)
    assert type(again) is kind and again.address == address and again.nbytes == 990
    assert again.origin is None and again.unwritten is None and again.device is device
    assert gc.is_tracked(again) and weakref.ref(again)() is again
    assert (device.memory.held, device.memory.kept) == (size_class(1000), 0)
    other = device.allocate(1000)
    assert other.address != address
    part = Buffer(device, other.address, 8, other)
    del other
    assert device.memory.held == 2 * size_class(1000), "a part keeps the whole"
    del part, again
    assert device.memory.held == 0 and device.memory.peak == 2 * size_class(1000)


def test_requests_are_met_by_one_call_once_they_come_back(device: CpuDevice) -> None:
    requests = BufferRequests([1, 3, 4], [100, 5000, 100])
    first: set[int] = set()
    for turn in range(5):
        table: list[Any] = [None, None, "kept", None, None]
        device.allocate_into(table, requests)
        assert (requests.call is not None) == (turn > 0)
        assert table[0] is None and table[2] == "kept"
        assert [table[k].nbytes for k in requests.slots] == requests.sizes
        found = {table[k].address for k in requests.slots}
        assert len(found) == 3
        first = first or found
        if turn > 1:
            assert found == first
    assert requests.call is not None
    requests.call(requests.address, table)  # (repeat the call, as after an interrupt: the first buffers are released)
    assert len({table[k].address for k in requests.slots}) == 3
    assert device.memory.held == size_class(5000) + 2 * size_class(100)
    del table
    with pytest.raises(IndexError):
        requests.call(requests.address, [None])
    assert device.memory.held == 0


def test_requests_are_prepared_once(device: CpuDevice) -> None:
    """Test that requests prepared for native code are not replaced. Another thread may be using them."""
    free_lists: Any = device.memory.free_lists
    requests = BufferRequests([0], [100])
    free_lists.prepare(requests, [256])
    words, address = requests.words, requests.address
    free_lists.prepare(requests, [256])
    assert requests.words is words and requests.address == address == words.buffer_info()[0]


def test_what_native_functions_are_made_of_stays() -> None:
    """Test that a native function stays callable after the caller deletes the `Builtin` object that owns the function's code."""
    builtin = Builtin(TAKE, take_text(), [python_function(name) for name in TAKES])
    call, seen = builtin.call, weakref.ref(builtin)
    del builtin
    gc.collect()
    assert seen() is not None
    record = array("q", [0])
    assert call(record.buffer_info()[0], []) == 0


def test_what_the_collector_finds_gives_its_block_back_once(device: CpuDevice) -> None:
    """Test that a buffer in a reference cycle returns its block exactly once."""
    for _ in range(3):
        buffer = device.allocate(3000)
        buffer.unwritten = [buffer]
        del buffer
        assert device.memory.held == size_class(3000)
        gc.collect()
        assert (device.memory.held, device.memory.kept) == (0, size_class(3000))
        held = [device.allocate(3000) for _ in range(3)]
        assert len({buffer.address for buffer in held}) == 3
        del held
        device.memory.empty()


def test_no_more_is_kept_than_the_bound(device: CpuDevice) -> None:
    device.memory.counts[MOST] = 2 * size_class(4000)
    held = [device.allocate(4000) for _ in range(5)]
    del held
    assert device.memory.kept == device.memory.made == 2 * size_class(4000)
    assert device.memory.empty() == 2 * size_class(4000)
    assert device.memory.made == 0


def test_a_buffer_that_could_not_be_finished_has_no_block(device: CpuDevice) -> None:
    free_lists: Any = device.memory.free_lists
    with warnings.catch_warnings(), pytest.raises(TypeError):
        warnings.simplefilter("error")  # (pytest reports errors in destructors as warnings)
        free_lists.make(4096)
    assert free_lists.take(4096, 4096) is None
    with pytest.raises(TypeError, match="cannot create"):
        type(device.allocate(8))(device, 0, 0)


def test_without_native_code_buffers_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CompileError("no compiler")

    monkeypatch.setattr(Builtin, "__init__", fail)
    monkeypatch.setattr("weft.runtime.cpu.free_lists._taker", lambda: Builtin("", "", []))
    device = CpuDevice()
    requests = BufferRequests([0, 1], [100, 200])
    monkeypatch.setattr("weft.runtime.failures._reported", set())
    with override(strict=False), pytest.warns(OptimizerWarning, match="free lists failed .* one by one") as caught:
        for _ in range(4):
            table: list[Any] = [None, None]
            device.allocate_into(table, requests)
            assert [buffer.nbytes for buffer in table] == [100, 200]
    assert len(caught) == 1
    assert requests.call is None and device.memory.free_lists is None


def test_a_gpus_small_blocks(gpu: Any) -> None:
    requests = BufferRequests([0, 1, 2], [1000, 100, 8 << 20])
    found = []
    for _ in range(4):
        table: list[Any] = [None] * 3
        gpu.allocate_into(table, requests)
        assert [block.nbytes for block in table] == requests.sizes
        assert {block.origin_stream for block in table} == {gpu.memory.own}
        found.append({block.address for block in table})
    assert found[2] == found[3], "the large one from the pool, the others from their free_lists"
    del table
    kept = gpu.memory.kept
    assert gpu.memory.held == 0 and gpu.memory.empty() == kept and gpu.memory.made == 0


def test_a_block_that_another_stream_read_waits_for_it(gpu: Any) -> None:
    block = gpu.allocate(1000)
    address, stream = block.address, gpu.create_stream()
    gpu.claim(block, stream)
    del block
    assert gpu.memory.free_lists.take(1024, 1000) is None, "it is not on a free list"
    assert gpu.memory.held == 0 and gpu.allocate(1000).address == address


def test_another_streams_blocks_are_on_no_free_list(gpu: Any) -> None:
    own = gpu.allocate(1000)
    address = own.address
    del own
    stream = gpu.create_stream()
    with gpu.working_in(stream):
        block = gpu.allocate(1000)
        assert block.origin_stream is stream
        del block
        requests = BufferRequests([0], [1000])
        for _ in range(4):
            table: list[Any] = [None]
            gpu.allocate_into(table, requests)
            assert table[0].origin_stream is stream
    assert gpu.allocate(1000).address == address
