"""Tests of threads and finalizers that use the same arrays.

No update is lost or done twice.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import assign, current_epoch, operand, recording


@pytest.fixture(autouse=True)
def _on_the_cpu() -> Iterator[None]:
    with wf.device("cpu"):
        yield


@pytest.fixture
def _often() -> Iterator[None]:
    """During a test, switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_another_thread(work: Any) -> Any:
    """Call a function in another thread, and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def write_part(out: Any, x: Any, k: int, n: int) -> None:
    """Write to the `n` elements of an array that belong to thread `k`."""
    own = slice(k * n, (k + 1) * n)
    for turn in range(6):
        out[own] = x[own] * 2 + turn
        out[own] += x[own]
        view = out[own]
        view *= 0.5
        out[k * n] = turn
        out[k * n + turn % n] += 1
        out[own] = out[own][::-1]


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("threads", [2, 5])
def test_parts_of_one_array(threads: int) -> None:
    n = 7
    start = np.random.default_rng(threads).random(threads * n)
    x, wanted = wf.asarray(start), np.zeros(threads * n)
    for _ in range(3):
        out = wf.zeros(threads * n)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda k: write_part(out, x, k, n), range(threads)))  # noqa: B023
        for k in range(threads):
            write_part(wanted, start, k, n)
        assert np.array_equal(out, wanted)


def test_a_thread_that_ends_with_pending_work() -> None:
    x = wf.zeros(6)

    def work() -> wf.Array:
        x[:3] = 1
        return x[3:] + 2

    made = in_another_thread(work)
    x[3:] = 5
    assert np.array_equal(made, np.full(3, 2.0))
    assert np.array_equal(x, [1, 1, 1, 5, 5, 5])


def test_what_is_handed_on_through_a_queue() -> None:
    there: Queue[Any] = Queue()
    back: Queue[Any] = Queue()

    def work() -> None:
        while (given := there.get()) is not None:
            given[::2] += 1
            back.put(given)

    thread = threading.Thread(target=work)
    thread.start()
    x, wanted = wf.zeros(6), np.zeros(6)
    for turn in range(20):
        x[turn % 6] += 3
        wanted[turn % 6] += 3
        there.put(x)
        x = back.get()
        wanted[::2] += 1
    there.put(None)
    thread.join()
    assert np.array_equal(x, wanted)


def test_a_version_that_another_thread_has_replaced_is_no_longer_written_to() -> None:
    x = wf.asarray(np.arange(4.0)) + 0
    storage, epoch = x._storage, current_epoch()
    before = operand(storage, epoch)
    in_another_thread(lambda: x.__setitem__(0, 7.0))
    assert not assign(storage, before, before, epoch)
    assert np.array_equal(x, [7, 1, 2, 3])


def test_what_another_thread_evaluates_is_not_overwritten() -> None:
    x = wf.asarray(np.arange(6.0)) + 0
    wf.evaluate(x)
    epoch = current_epoch()
    old = operand(x._storage, epoch)  # a reference like that of an operation that is being recorded
    address = x._storage.buffer.address
    x += 1
    assert np.array_equal(in_another_thread(lambda: x.numpy()), np.arange(1.0, 7.0))
    assert epoch.slots[old.attrs[0]].address == address
    assert recording.epoch is epoch
    assert np.array_equal(wf.asarray(epoch.device.download(epoch.slots[old.attrs[0]], x.dtype, (6,))), np.arange(6.0))


class Finaliser:
    """An object in a reference cycle whose finalizer uses arrays."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.own = self

    def __del__(self) -> None:
        self.work()


@pytest.fixture
def _collected() -> Iterator[None]:
    """During a test, run the garbage collector almost continuously."""
    before = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("_collected")
def test_finalisers_that_evaluate_inside_recordings() -> None:
    seen: list[float] = []
    for seed in range(4):
        start = np.random.default_rng(seed).random(12)
        x, wanted = wf.asarray(start), start
        for turn in range(12):
            y, z = x * (turn + seed), wanted * (turn + seed)
            pending = y
            Finaliser(lambda pending=pending: seen.append(float((pending + 1).sum())))
            x, wanted = wf.sqrt(abs(y - x)) + y[::-1], np.sqrt(abs(z - wanted)) + z[::-1]
            if turn % 4 == 3:
                assert np.array_equal(x, wanted)
        assert np.array_equal(x, wanted)
    gc.collect()
    assert len(seen) == 48


@pytest.mark.usefixtures("_collected")
def test_finalisers_that_write_inside_recordings() -> None:
    x, count, wanted = wf.zeros(8), wf.zeros(3), np.zeros(8)

    def tell() -> None:
        count[1] += 1

    for turn in range(40):
        Finaliser(tell)
        x[1:] = x[:-1] + turn
        wanted[1:] = wanted[:-1] + turn
        count[0] += 1
        count[2:] += 2
    gc.collect()
    assert np.array_equal(x, wanted)
    assert np.array_equal(count, [40, 40, 80])


def test_what_is_evaluated_inside_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test an evaluation that begins during the planning of another evaluation."""
    from weft.fusion.run import planning

    x, found = wf.asarray(np.arange(5.0)) + 0, []
    wf.evaluate(x)
    x += 1
    y = x * 3
    make = planning.make_plan

    def interrupted(*given: Any) -> Any:
        plan = make(*given)
        if not found:
            found.append(None)
            found[0] = np.array(y)
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(planning, "make_plan", interrupted)
        wf.evaluate(x, y)
    assert np.array_equal(found[0], np.arange(1.0, 6.0) * 3)
    assert np.array_equal(x, np.arange(1.0, 6.0))
    assert np.array_equal(y, np.arange(1.0, 6.0) * 3)
    x += 1
    assert np.array_equal(x, np.arange(2.0, 7.0))
