"""Programs over several streams, on a stand-in that puts work off as long as it may: what is too early shows."""

from __future__ import annotations

import gc
import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.fusion.test_arena import PROGRAMS
from tests.stand_in import RunningDevice, RunningStandIn
from weft import cuda
from weft.runtime.cuda import staging

N = 300


@wf.kernel
def scale(x, out):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * 3 + 1


class Walk:
    """A random program, run on weft and, step by step, in NumPy."""

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
        """Into an array's own memory, from the host, in a stream."""
        a, a_ = self.pick()
        values = np.array([self.source.randrange(100) for _ in range(N)], float)
        stream = self.source.choice(self.streams[1:])
        a.copy_to_device(values, stream)
        stream.synchronize()  # the host's array goes
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


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(device: RunningDevice, seed: int) -> None:
    Walk(seed).run(40)


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
        driver.fail("cuMemAllocAsync", 2, after, 2)  # the retry fails too
        try:
            results = program(wf, wf.asarray(a), wf.asarray(b))
            wf.evaluate(*results)
        except wf.OutOfMemoryError as error:
            assert error.total == driver.memory.total
            failed += 1
        driver.mend()
        if results is None:  # it was an upload
            continue
        for found, right in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(found), right, rtol=1e-12)
    assert failed > 2
    del results, found
    gc.collect()
    device.memory.empty()
    assert device.memory.held == 0
