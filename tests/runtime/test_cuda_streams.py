"""Tests of programs with several streams.

The stand-in for the driver delays work as long as possible, which exposes missing waits.
"""

from __future__ import annotations

import ctypes
import gc
import random
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.plan.test_arena import PROGRAMS
from tests.stand_in import RunningDevice, RunningStandIn
from weft import cuda
from weft.runtime import CudaError
from weft.runtime.cuda import staging

N = 300


@wf.kernel
def scale(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * 3 + 1


class Walk:
    """A random program whose steps run both on weft and in NumPy."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.streams = [None, wf.stream(), wf.stream(), wf.stream()]
        self.pairs: list[tuple[Any, np.ndarray]] = []
        self.steps: list[str] = []

    def within(self) -> Any:
        stream = self.source.choice(self.streams)
        return nullcontext() if stream is None else stream

    def pick(self) -> tuple[Any, np.ndarray]:
        return self.source.choice(self.pairs)

    def upload(self) -> None:
        values = np.array([self.source.randrange(100) for _ in range(N)], float)
        with self.within():
            self.pairs.append((wf.asarray(values), values.copy()))

    def compute(self) -> None:
        (a, a_), (b, b_) = self.pick(), self.pick()
        with self.within():
            c = (a + b[::-1]) * 0.5 - (a - b).mean()
        self.pairs.append((c, (a_ + b_[::-1]) * 0.5 - (a_ - b_).mean()))

    def update(self) -> None:
        (a, a_), (b, b_) = self.pick(), self.pick()
        plain = self.source.random() < 0.5
        with self.within():
            if plain:
                a += b
            else:
                a[1:] = b[:-1]
        if plain:
            a_ += b_
        else:
            a_[1:] = b_[:-1].copy()

    def forget(self) -> None:
        if len(self.pairs) > 2:
            self.pairs.pop(self.source.randrange(len(self.pairs)))

    def launch(self) -> None:
        a, a_ = self.pick()
        out = cuda.device_array(N)
        stream = self.source.choice(self.streams[1:])
        scale[2, 256, stream](a, out)
        self.pairs.append((out, a_ * 3 + 1))

    def read(self) -> None:
        a, a_ = self.pick()
        with self.within():
            found = a.numpy()
        np.testing.assert_allclose(found, a_, rtol=1e-12, err_msg=" ".join(self.steps))

    def copy(self) -> None:
        """Copy data from the host to an array, in a random stream."""
        a, a_ = self.pick()
        values = np.array([self.source.randrange(100) for _ in range(N)], float)
        stream = self.source.choice(self.streams[1:])
        a.copy_to_device(values, stream)
        stream.synchronize()  # so that the host array may be freed
        a_[:] = values

    def run(self, count: int) -> None:
        self.upload()
        self.upload()
        for _ in range(count):
            step = self.source.choice(
                ["upload", "compute", "compute", "update", "forget", "forget", "launch", "read", "copy"]
            )
            self.steps.append(step)
            getattr(self, step)()
        for a, a_ in self.pairs:
            np.testing.assert_allclose(a.numpy(), a_, rtol=1e-12, err_msg=" ".join(self.steps))


@pytest.mark.parametrize(("seed", "aside"), [(seed, 1024 if seed > 3 else 8 << 20) for seed in range(10)])
def test_random_programs(device: RunningDevice, monkeypatch: pytest.MonkeyPatch, seed: int, aside: int) -> None:
    overtake_from(monkeypatch, aside)
    Walk(seed).run(40)


def overtake_from(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Set the minimum size in bytes of host-to-device copies that may overtake earlier work of the device."""
    for module in ("cuda_device", "device_memory"):
        monkeypatch.setattr(f"weft.runtime.cuda.{module}.ASIDE", nbytes)


def test_a_large_copy_from_the_host_waits_for_no_kernel(
    device: RunningDevice, driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    overtake_from(monkeypatch, 1 << 16)
    first, second = np.arange(10_000.0), np.arange(10_000.0)[::-1].copy()
    x = wf.asarray(first)
    y = x * 2
    wf.evaluate(y)
    driver.launched.clear()
    before = len(driver.launched)
    z = x + 1
    wf.evaluate(z)
    other = wf.asarray(second)  # larger than all staging buffers together
    assert len(driver.launched) == before, "the kernel has not even begun"
    np.testing.assert_array_equal((other + z).numpy(), second + first + 1)
    np.testing.assert_array_equal(y.numpy(), first * 2)


def test_memory_that_a_kernel_still_reads_is_not_copied_over(
    device: RunningDevice, driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    overtake_from(monkeypatch, 1 << 16)
    kept, values = [], [np.full(10_000, float(k)) for k in range(8)]
    for k in range(8):
        x = wf.asarray(values[k])
        y = x * 3
        wf.evaluate(y)
        kept.append(y)
        del x
    assert driver.count("cuMemAllocAsync") < 8 + 8, "memory is used again"
    pending = len(driver.launched)
    assert pending < 8, "the last kernels have not begun"
    for k, y in enumerate(kept):
        np.testing.assert_array_equal(y.numpy(), values[k] * 3)


def test_memory_given_up_before_copies_overtook(device: RunningDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    values = np.arange(10_000.0)
    x = wf.asarray(values)
    y = x * 3
    wf.evaluate(y)
    del x
    overtake_from(monkeypatch, 1 << 16)
    z = wf.asarray(-values)
    np.testing.assert_array_equal(z.numpy(), -values)
    np.testing.assert_array_equal(y.numpy(), values * 3)


def test_a_stream_waits_for_a_copy_that_overtook(device: RunningDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    overtake_from(monkeypatch, 2000)
    values, stream, out = np.arange(float(N)), cuda.stream(), cuda.device_array(N)
    scale[2, 256, stream](out, out)  # the stream has now waited for the main stream
    scale[2, 256, stream](wf.asarray(values), out)
    stream.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), values * 3 + 1)


def test_memory_that_a_stream_had_meanwhile(device: RunningDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    overtake_from(monkeypatch, 1 << 16)
    values = np.arange(10_000.0)
    x, a = wf.asarray(values), wf.asarray(values + 5)
    wf.evaluate(x + 1)
    address = x._storage.buffer.address  # type: ignore[union-attr]
    del x  # the main stream has recorded an event for the release
    stream = wf.stream()
    with stream:
        w = a * 2
        wf.evaluate(w)
        v = w + 1
        wf.evaluate(v)
    assert w._storage.buffer.address == address  # type: ignore[union-attr]
    u = v + 0
    wf.evaluate(u)
    gone = weakref.ref(stream.queue)
    del a, w, v, stream
    gc.collect()
    assert gone() is None, "its memory is the device's own stream's"
    z = [wf.asarray(values - k) for k in range(3)]
    for k in range(3):
        np.testing.assert_array_equal(z[k].numpy(), values - k)
    np.testing.assert_array_equal(u.numpy(), (values + 5) * 2 + 1)


def test_a_copy_from_the_host_that_fails_half_way(
    device: RunningDevice, driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    overtake_from(monkeypatch, 1 << 16)
    x = wf.asarray(np.zeros(10_000))
    driver.fail("cuMemcpyHtoDAsync", 1, after=7, times=1)
    with pytest.raises(CudaError):
        wf.asarray(np.ones(10_000))
    driver.mend()
    y = wf.zeros(10_000) + x + 5
    np.testing.assert_array_equal(y.numpy(), np.full(10_000, 5.0))


def test_streams_run_side_by_side(device: RunningDevice, driver: RunningStandIn) -> None:
    one, other = wf.stream(), wf.stream()
    with one:
        x = wf.asarray(np.ones(N))
        for _ in range(5):
            x = wf.evaluate(x * 2)
    driver.launched.clear()
    with other:
        y = wf.asarray(np.ones(N)) * 3
        np.testing.assert_array_equal(y.numpy(), 3.0)
    assert {started.stream for started in driver.launched} == {other.handle}, (
        "the first stream's work is not waited for"
    )
    np.testing.assert_array_equal(x.numpy(), 32.0)
    assert one.handle in {started.stream for started in driver.launched}


def test_a_loop_over_two_streams_needs_no_more_memory(device: RunningDevice, driver: RunningStandIn) -> None:
    one, other = wf.stream(), wf.stream()
    x = y = wf.asarray(np.ones(1 << 15))
    for turn in range(30):
        with one:
            x = x * 0.5 + y
        with other:
            y = y * 0.5 + x
        if turn == 10:
            before = driver.memory.held
    assert driver.memory.held <= before + 4 * x.nbytes
    assert np.isfinite(x.numpy()).all()


@pytest.mark.parametrize("size", [700, 5000, 40_000])
def test_pieces_of_transfers_are_not_overwritten(
    device: RunningDevice, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(staging, "PIECE", 4096)
    a, b = np.random.default_rng(size).random((2, size))
    x, y = wf.asarray(a), wf.asarray(b)
    np.testing.assert_array_equal((x * 2 - y).numpy(), a * 2 - b)
    np.testing.assert_array_equal(x.numpy(), a)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_any_allocation_may_fail(device: RunningDevice, driver: RunningStandIn, program: Any) -> None:
    source = np.random.default_rng(0)
    a, b = source.random(100), source.random(100)
    expected = program(np, a.copy(), b.copy())
    driver.forget()
    wf.evaluate(*program(wf, wf.asarray(a), wf.asarray(b)))
    count = driver.count("cuMemAllocAsync")
    assert count > 2
    failed = 0
    for after in range(count):
        results = None
        device.memory.empty()
        driver.fail("cuMemAllocAsync", 2, after, 2)  # the retry also fails
        try:
            results = program(wf, wf.asarray(a), wf.asarray(b))
            wf.evaluate(*results)
        except wf.OutOfMemoryError as error:
            assert error.total == driver.memory.total
            failed += 1
        driver.mend()
        if results is None:  # an upload has failed
            continue
        for found, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(found), right, rtol=1e-12)
    assert failed > 2
    del results, found
    gc.collect()
    device.memory.empty()
    assert device.memory.held == 0


def test_what_launches_count_in_keeps_no_stream(device: RunningDevice, driver: RunningStandIn) -> None:
    for _ in range(6):
        x = wf.asarray(np.ones(200_000, np.float32))
        with wf.stream() as stream:
            y, z = x.sum(), wf.cumsum(x)
            wf.evaluate(y, z)
        assert device._counters, "the blocks of the sum count"
        assert float(y) == float(z[-1]) == 200_000
        del stream, x, y, z
        wf.evaluate(wf.arange(10) + 1)
    gc.collect()
    assert driver.count("cuStreamCreate") - driver.count("cuStreamDestroy") <= 3


def test_the_exported_stream_waits_for_the_evaluation(device: RunningDevice, driver: RunningStandIn) -> None:
    """Test that the exported stream waits for an evaluation in another stream."""
    values, stream = np.arange(float(N)), wf.stream()
    x = wf.asarray(values)
    wf.evaluate(x * 1)
    with stream:
        interface = (pending := x * 3).__cuda_array_interface__
    driver.queues.drain(interface["stream"])
    found = np.frombuffer((ctypes.c_char * pending.nbytes).from_address(interface["data"][0]), float)
    np.testing.assert_array_equal(found, values * 3)


def test_an_event_in_the_default_stream_covers_the_work_of_all_streams(
    device: RunningDevice, driver: RunningStandIn
) -> None:
    x, out, stream, end = wf.asarray(np.ones(N)), cuda.device_array(N), wf.stream(), cuda.event()
    wf.evaluate(x)
    driver.launched.clear()
    scale[2, 256, stream](x, out)
    end.record()
    end.synchronize()
    assert [started.stream for started in driver.launched] == [stream.handle], "the kernel has ended"


def test_an_event_is_recorded_and_waited_for_in_the_stream_of_the_block(
    device: RunningDevice, driver: RunningStandIn
) -> None:
    stream, event = wf.stream(), cuda.event()
    driver.forget()
    with stream:
        event.record()
        event.wait()
        event.record(cuda.default_stream())
        event.wait(cuda.default_stream())
    calls = [call.arguments for call in driver.calls if call.name in ("cuEventRecord", "cuStreamWaitEvent")]
    used = [next(int(a) for a in arguments if int(a) != event.handle) for arguments in calls]
    own = cuda.default_stream().queue.number
    assert used == [stream.handle, stream.handle, own, own]


def test_a_launch_in_the_default_stream_within_a_block(device: RunningDevice, driver: RunningStandIn) -> None:
    x, out = wf.evaluate(wf.asarray(np.ones(N))), cuda.device_array(N)
    driver.launched.clear()
    with wf.stream():
        scale[2, 256, cuda.default_stream()](x, out)
    cuda.default_stream().synchronize()
    assert [started.stream for started in driver.launched] == [cuda.default_stream().queue.number]
