"""Tests that small arrays of a GPU device are passed to kernels by value.

A loop that combines small arrays with a large array copies nothing to the device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.native_recording import recording_in_native_code
from tests.stand_in import RunningDevice, RunningStandIn
from weft.fusion import realise
from weft.fusion.plan import traffic
from weft.fusion.record import by_value
from weft.runtime import Device, get_device, override
from weft.runtime import device as on_device

IMMEDIATE = 16384


@pytest.fixture(params=["simt", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    where: Device = get_device("simt") if request.param == "simt" else RunningDevice(RunningStandIn(1 << 28))
    with on_device(where), override(interpret="never"):
        yield where


def counted(work: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    before = wf.statistics()
    found = work()
    return found, {name: count - before[name] for name, count in wf.statistics().items()}


def is_on_host(array: Any) -> bool:
    return array._device is not None or array._storage.host is not None


def steps(x: Any, small: Any, count: int) -> Any:
    for k in range(count):
        small[k % 6] = small[k % 5] * 0.5 + k
        x = x * 0.5 + small[:, None]
    return x


@pytest.mark.parametrize("native", [False, True])
def test_a_loop_over_small_things_moves_nothing(device: Any, native: bool) -> None:
    with recording_in_native_code() if native else nullcontext():
        check_a_loop()


def check_a_loop() -> None:
    with on_device("cpu"), override(immediate=0):  # (recorded: call sites remember this for arrays of this length)
        there = wf.arange(6.0)
        there[0] = 5
        assert there[0] == 5
    a, large = np.arange(6.0), wf.asarray(np.ones((6, 5000)))

    def run(small: Any) -> Any:
        found = large
        for _ in range(4):
            found = wf.evaluate(steps(found, small, 40))
        return found

    for _ in range(2):  # (memory may be unshared when the second run begins)
        run(wf.asarray(np.arange(6.0)))
    small = wf.asarray(np.arange(6.0))
    found, counts = counted(lambda: run(small))
    assert counts["uploaded"] == counts["compilations"] == counts["plans"] == 0
    assert counts["by_value"] == 160 and counts["kernels"] < 60
    expected = np.ones((6, 5000))
    for _ in range(4):
        expected = steps(expected, a, 40)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(small, a)
    assert is_on_host(small)


def test_values_that_stay_are_one_parameter(device: Any) -> None:
    large, small = wf.asarray(np.ones((6, 5000))), wf.asarray(np.arange(6.0))
    wf.evaluate(large)

    def run() -> Any:
        x = large
        for _ in range(100):
            x = x + small[:, None]
        return wf.evaluate(x)

    found, counts = counted(run)
    np.testing.assert_array_equal(found, 1 + 100 * np.arange(6.0)[:, None] + np.zeros(5000))
    assert counts["by_value"] == counts["kernels"] == 1 and counts["uploaded"] == 0


@pytest.mark.usefixtures("cold_cache")
def test_no_kernel_is_compiled_for_a_value_or_a_length(device: Any) -> None:
    large = wf.evaluate(wf.asarray(np.ones(60_000)))

    def run(n: int, values: float) -> Any:
        small = wf.asarray(np.full(n, values))
        return wf.evaluate(large[: 100 * n].reshape(100, n) + small)

    for n in (20, 21, 22):
        run(n, 1.0)
    _, counts = counted(lambda: [run(n, 2.0 + n) for n in range(23, 33)])
    assert counts["compilations"] == 0 and counts["by_value"] == 10


@pytest.mark.parametrize("code", ["?", "i1", "f2", "c16"])
def test_dtypes_and_views(device: Any, code: str) -> None:
    a = (np.arange(24) % 3).reshape(4, 6).astype(code)
    large, small = wf.asarray(np.ones((4, 6, 3000), "f4")), wf.asarray(a)
    views: list[Callable[[Any], Any]] = [
        lambda s: s[:, :, None],
        lambda s: s[::-1, ::-1, None],
        lambda s: s[1, None, :, None],
        lambda s: s[2:3, ::-2][:, :1, None],
        lambda s: s.T.reshape(4, 6)[..., None],
    ]
    found, counts = counted(lambda: wf.evaluate(*[large * view(small) for view in views]))
    for each, view in zip(found, views, strict=True):
        np.testing.assert_array_equal(each, np.ones((4, 6, 3000), "f4") * view(a))
    assert counts["uploaded"] == 0 and counts["by_value"] and is_on_host(small)


def test_other_kinds_of_kernels(device: Any) -> None:
    b, a, k = np.arange(60_000.0).reshape(60, 1000), np.arange(60.0), np.arange(5) * 7
    large, small, indices = map(wf.asarray, (b, a, k))
    programs: list[Callable[[Any, Any, Any], Any]] = [
        lambda x, s, p: (x * s[:, None]).sum(axis=1),
        lambda x, s, p: (x + s[:, None]).max(axis=0),
        lambda x, s, p: (x + s[:, None]).cumsum(axis=1),
        lambda x, s, p: x[p] + 1,
        lambda x, s, p: s[x.astype("int64") % 60] + x,
        lambda x, s, p: s[::-1][x.astype("int64") % 60] + x,
        lambda x, s, p: (x - s[:, None]).sum() + s[7],
    ]
    for program in programs:
        found, counts = counted(lambda program=program: wf.evaluate(program(large, small, indices)))
        np.testing.assert_allclose(found, program(b, a, k), rtol=1e-12)
        assert counts["uploaded"] == 0 and counts["by_value"]
    grown = wf.asarray(b)
    grown[:, 3:5] = small[:, None]
    b[:, 3:5] = a[:, None]
    np.testing.assert_array_equal(grown, b)


def test_what_does_not_fit_is_in_memory(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = wf.asarray(np.ones((4, 5000))), [wf.asarray(np.full(4, float(k))) for k in range(5)]
    wf.evaluate(large)
    monkeypatch.setattr(traffic, "KERNEL_BYTES", 64)

    def run() -> Any:
        x = large
        for each in small:
            x = x + each[:, None]
        return wf.evaluate(x)

    for uploads in (3, 0):  # (in the second run, the arrays are on the device)
        found, counts = counted(run)
        np.testing.assert_array_equal(found, np.full((4, 5000), 11.0))
        assert counts["uploaded"] == uploads and counts["by_value"] == 2
    monkeypatch.setattr(traffic, "LARGE", 0)
    found, counts = counted(lambda: wf.evaluate(large - small[1][:, None]))
    assert counts["by_value"] == 0 and not np.asarray(found).any()
    longer = wf.asarray(np.arange(by_value.MOST_BYTES / 8 + 1))
    found, counts = counted(lambda: wf.evaluate(wf.zeros((200, longer.size)) + longer))
    assert counts["uploaded"] == 1 and not is_on_host(longer)


def test_what_is_written_to_with_pending_values_moves(device: Any) -> None:
    large, small = wf.asarray(np.ones((6, 5000))), wf.asarray(np.arange(6.0))
    before = large + small[:, None]
    small += (large * 2).sum(axis=1)
    small[2:] = (large * 3).sum(axis=1)[:4]
    np.testing.assert_array_equal(small, [10000, 10001, 15000, 15000, 15000, 15000])
    np.testing.assert_array_equal(before, 1 + np.arange(6.0)[:, None] + np.zeros(5000))


def test_whole_values_are_copied_as_results(device: Any) -> None:
    small = wf.asarray(np.arange(6.0))
    with override(immediate=0):
        same = wf.evaluate(wf.copy(small))
    small[0] = 9.0
    np.testing.assert_array_equal(same, np.arange(6.0))


def test_explanations_say_where_small_arrays_are(device: Any) -> None:
    large, small = wf.asarray(np.ones((6, 5000))), wf.asarray(np.arange(6.0))
    assert "x1 by value" in str(wf.explain(large + small[:, None]))
    call = wf.explain(wf.asarray(np.ones((5000, 6))) @ small)
    assert "by value" in str(call) or "on the host" in str(call)


@pytest.mark.usefixtures("device")
def test_native_recording_leaves_small_arrays_on_the_host() -> None:
    large, small = wf.asarray(np.ones((6, 5000))), wf.asarray(np.arange(6.0))
    longer = wf.asarray(np.arange(1000.0))  # (too long to be passed by value, so it may be copied to the device)
    with recording_in_native_code():
        for k in range(50):
            pending = large + small[:, None]
            small[k % 6] = 1.0
            longer[k] = longer[k + 1] + small[0]
            longer[k : k + 3] += 1.0
            small[1:] *= 2.0
            assert pending.shape == (6, 5000) and is_on_host(small)


@pytest.mark.parametrize("how", ["item", "in place", "out"])
def test_what_is_written_while_another_thread_moves_the_array_is_kept(how: str) -> None:
    with on_device("simt"), override(interpret="always"):
        for _ in range(20):
            _write_while_moved(how)


def _write_while_moved(how: str) -> None:
    small = wf.asarray(np.zeros(40))
    assert is_on_host(small)
    storage = small._storage
    ready = threading.Barrier(2)

    def move() -> None:
        ready.wait()
        realise(storage)

    other = threading.Thread(target=move)
    other.start()
    ready.wait()
    for k in range(40):
        if how == "item":
            small[k] = 1.0
        elif how == "in place":
            small[k : k + 1] += 1.0
        else:
            wf.add(small[k : k + 1], 1.0, out=small[k : k + 1])
    other.join()
    np.testing.assert_array_equal(small, np.ones(40))


def test_what_is_written_in_the_middle_of_a_move_is_kept(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small = wf.asarray(np.zeros(4))
    upload = type(device).upload

    def late(self: Any, values: np.ndarray) -> Any:
        found = upload(self, values)
        if is_on_host(small) and not float(small[2]):
            small[2] = 5.0
        return found

    monkeypatch.setattr(type(device), "upload", late)
    realise(small._storage)
    assert not is_on_host(small)
    np.testing.assert_array_equal(small, [0, 0, 5, 0])
