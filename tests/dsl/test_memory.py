"""Tests of `weft.memory`, `weft.stream`, and arrays on several devices."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.test_cuda_launch import order
from tests.runtime.test_cuda_memory import Copies
from weft import cuda
from weft.runtime.cuda.cuda_device import CudaDevice

registry = import_module("weft.runtime.devices")


@pytest.mark.cpu
def test_what_is_held() -> None:
    gc.collect()
    before = wf.memory.info()
    x = wf.asarray(np.ones(1_000_000))
    now = wf.memory.info()
    assert now.device == "cpu"
    assert 8_000_000 <= now.held - before.held <= 10_000_000
    assert now.peak >= now.held and now.total >= now.free > 0 and now.limit is None
    assert "held by arrays" in str(now)
    del x
    kept = wf.memory.info()
    assert kept.held == before.held and kept.kept >= 8_000_000
    assert wf.memory.empty() == kept.kept
    assert wf.memory.info().kept == 0
    assert wf.memory.info("null").held == 0 and wf.memory.empty("null") == 0


def test_the_size_of_an_array_object_includes_its_elements() -> None:
    x = wf.ones((1000, 50)) + 1j
    assert x.nbytes < sys.getsizeof(x) < x.nbytes + 1000
    assert max(map(sys.getsizeof, (x[1:], x.T, x.real, wf.zeros(1000, device="null")))) < 1000


def test_a_limit_names_the_largest_arrays_and_loses_nothing() -> None:
    gc.collect()
    wf.memory.empty()
    big, small = wf.asarray(np.ones(500_000)), wf.asarray(np.ones(1000))
    held = wf.memory.info().held
    before = wf.memory.limit(held + 5_000_000)
    try:
        assert before is None and wf.memory.limit() == held + 5_000_000
        y = big * 2 + 1
        z = (y[:250_000] - y[250_000:]).cumsum()
        big += 1
        with pytest.raises(wf.OutOfMemoryError, match="nothing pending was lost") as caught:
            wf.evaluate(big, y, z)
        text = str(caught.value)
        assert "4,000,000 bytes, test_memory.py:" in text and "weft.memory.limit allows" in text
        assert caught.value.limit == held + 5_000_000
    finally:
        wf.memory.limit(None)
    np.testing.assert_array_equal(np.asarray(y), 3.0)
    np.testing.assert_array_equal(np.asarray(big), 2.0)
    assert float(z.sum()) == 0 and small.size
    with pytest.raises(ValueError, match="0 or more"):
        wf.memory.limit(-1)


def test_the_largest_arrays_and_their_lines() -> None:
    x = wf.asarray(np.ones(3_000_000))
    y = x * 2
    wf.evaluate(y)
    line = test_the_largest_arrays_and_their_lines.__code__.co_firstlineno
    assert set(wf.memory.largest(2)) == {
        (24_000_000, f"test_memory.py:{line + 1}"),
        (24_000_000, f"test_memory.py:{line + 2}"),
    }


def test_a_lower_limit_gives_back_what_is_kept() -> None:
    x = wf.asarray(np.ones(1_000_000))
    del x
    info = wf.memory.info()
    assert info.kept
    wf.memory.limit(info.held)
    try:
        assert wf.memory.info().kept == 0
    finally:
        wf.memory.limit(None)


# -- devices ------------------------------------------------------------------------------------------------


@pytest.mark.cpu
def test_arrays_remember_their_device() -> None:
    x = wf.asarray(np.arange(10.0))
    with wf.device("simt"):
        y = wf.arange(10) * 2.0
        z = x + 1  # on the device of its operand
    assert (x.device.name, y.device.name, z.device.name) == ("cpu", "simt", "cpu")
    np.testing.assert_array_equal(np.asarray(y), np.arange(10) * 2.0)
    with pytest.raises(wf.DeviceMismatchError, match=r"\.to\("):
        x + y
    moved = y[::2].to("cpu")
    assert moved.device.name == "cpu" and y.to("simt") is y
    np.testing.assert_array_equal(np.asarray(moved + x[:5]), np.arange(5) * 5.0)
    np.testing.assert_array_equal(np.asarray(y.to("null")), np.zeros(10))


class Location:
    def __init__(self) -> None:
        self.location = SimpleNamespace()


class Pair(Copies):
    """A stand-in for the driver of a machine with two GPUs."""

    CUmemAccessDesc = Location
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)

    def cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
        return 0, ordinal

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return 0, 7000 + device

    def cuDeviceCanAccessPeer(self, device: int, other: int) -> tuple[int, int]:
        self.calls.append(("cuDeviceCanAccessPeer", (device, other)))
        return 0, 1

    def cuMemcpyPeerAsync(self, to: int, there: int, source: int, here: int, size: int, stream: Any) -> tuple[int]:
        self._copy("cuMemcpyPeerAsync", to, source, size, stream)
        self.contexts = (there, here)
        return (0,)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    table = Pair()
    for k in range(2):
        monkeypatch.setitem(registry._devices, f"cuda:{k}", CudaDevice(k, table))
    yield table


def test_from_one_gpu_to_another(pair: Pair) -> None:
    values = np.random.default_rng(0).random(1000)
    with wf.device("cuda:1"):
        x = wf.asarray(values)
    assert x.device.name == "cuda:1"
    pair.calls.clear()
    y = x.to("cuda:0")
    assert y.device.name == "cuda:0" and pair.contexts == (7000, 7001)
    assert not pair.named("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"), "not by way of the host"
    assert [name for name, _ in pair.calls if name in ("cuCtxEnablePeerAccess", "cuMemPoolSetAccess")] == [
        "cuCtxEnablePeerAccess",
        "cuMemPoolSetAccess",
    ]
    streams = {x.device._order.own.number: "source", y.device._order.own.number: "target"}  # type: ignore[attr-defined]
    waits = [tuple(streams[s] for s in call[1:]) for call in order(pair)]
    assert waits == [("target", "source"), ("source", "target")], "nothing is read too early or overwritten too early"
    np.testing.assert_array_equal(y.numpy(), values)
    pair.calls.clear()
    x.to("cuda:0")
    assert not pair.named("cuDeviceCanAccessPeer"), "they know each other"
    np.testing.assert_array_equal(x.to("cpu").numpy(), values)
    with wf.device("cpu"):
        z = wf.asarray(values)
    np.testing.assert_array_equal(z.to("cuda:1").numpy(), values)
    with pytest.raises(wf.DeviceMismatchError, match=r"cuda:0 and cuda:1.*\.to\('cuda:0'\)"):
        x + y


# -- streams --------------------------------------------------------------------------------------------------


def test_streams_of_the_cpu() -> None:
    with wf.stream() as stream:
        x = wf.arange(10) + 1
        assert x._storage.buffer is None
    assert x._storage.buffer is not None, "what was recorded in a stream runs in it"
    assert stream.query()
    other = wf.stream("cpu")
    other.wait(stream)
    with other, stream:
        y = x * 2
    np.testing.assert_array_equal(np.asarray(y), (np.arange(10) + 1) * 2)


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(KeyError), wf.stream():
        x = wf.arange(3) + 1
        raise KeyError
    np.testing.assert_array_equal(np.asarray(x), [1, 2, 3])


def test_transfers_in_streams_of_a_gpu(pair: Pair) -> None:
    with wf.device("cuda:0"):
        one, other = wf.stream(), wf.stream()
        assert one.device.name == "cuda:0"
        with one:
            x = wf.asarray(np.arange(1000.0))
            with other:
                y = wf.asarray(np.arange(1000.0) * 2)
                pair.calls.clear()
                found = x.numpy()
        np.testing.assert_array_equal(found, np.arange(1000.0))
        waits = [call for call in order(pair) if call[0] == "wait"]
        assert (other.handle, one.handle) in {call[1:] for call in waits}, "the reader waits for the writer"
        pair.calls.clear()
        other.wait(one)
        assert order(pair) == [("wait", other.handle, one.handle)]
        np.testing.assert_array_equal(y.numpy(), np.arange(1000.0) * 2)


def test_a_stream_of_another_gpu(pair: Pair) -> None:
    with wf.device("cuda:1"):
        x = cuda.to_device(np.arange(10.0))
    with pytest.raises(
        wf.DeviceMismatchError, match=r"a stream of cuda:0 was given work of cuda:1.*weft.stream\('cuda:1'\)"
    ):
        x.copy_to_host(stream=wf.stream("cuda:0"))
    with wf.stream("cuda:0"):
        np.testing.assert_array_equal(x.numpy(), np.arange(10.0))


def test_threads_have_streams_of_their_own(pair: Pair) -> None:
    device: Any = registry.get_device("cuda:0")
    found = []
    with wf.stream("cuda:0") as stream:
        thread = threading.Thread(target=lambda: found.append(device._order.current))
        thread.start()
        thread.join()
        assert device._order.current is stream.queue
    assert found == [device._order.own]
