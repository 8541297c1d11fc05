"""Tests of the native call that runs all kernels of a plan."""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from weft.runtime import override
from weft.runtime.cpu import host_launches as module
from weft.runtime.cpu.host_launches import LET_GO, HostLaunches, divide
from weft.runtime.cpu.pool import GRAIN
from weft.runtime.launches import Launch

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
Note = Callable[[list[int], int, int], None]


def _launch(
    note: Note,
    slots: list[int],
    *,
    patches: list[tuple[int, int, int]] | None = None,
    scalars: list[tuple[int, int]] | None = None,
    extent: int = 5,
    work: int = 5,
    parallel: bool = False,
    cost: int = 0,
) -> Launch:
    """Return a launch of a kernel that is a Python function.

    The kernel passes its arguments and index range to `note`.
    """

    def called(at: int, start: int, stop: int) -> None:
        note(list((ctypes.c_int64 * len(slots)).from_address(at)) if slots else [], start, stop)

    call = _ENTRY(called)
    address = ctypes.cast(call, ctypes.c_void_p).value
    function: Any = SimpleNamespace(call=call, address=address, parallel=parallel, grain=1, cost=cost)
    return Launch(function, (extent,), work, array("q", slots), patches or [], scalars or [], 0, None)


def _at(address: int) -> Any:
    return SimpleNamespace(address=address)


def _thrice(launches: list[Launch], table: list[Any]) -> None:
    """Run launches one at a time, and then twice by the native function."""
    prepared = HostLaunches(launches)
    for _ in range(3):
        prepared.run([*table, 0])


def test_each_kernel_gets_its_own_arguments_in_order() -> None:
    seen: list[Any] = []

    def note(slots: list[int], start: int, stop: int) -> None:
        seen.append((slots, start, stop))

    first = _launch(note, [7, 0, 0, 9], patches=[(1, 2, 16), (2, 0, 0)], extent=3)
    second = _launch(note, [0, 5], patches=[(0, 1, -8)], scalars=[(1, 3)], extent=4)
    none = _launch(note, [], extent=2)
    _thrice([first, second, none], [_at(1000), _at(2000), _at(3000), -4])
    assert seen == 3 * [([7, 3016, 1000, 9], 0, 3), ([1992, -4], 0, 4), ([], 0, 2)]


def test_the_table_may_change_from_run_to_run() -> None:
    seen: list[int] = []
    prepared = HostLaunches(
        [_launch(lambda slots, *_: seen.extend(slots), [0, 0], patches=[(0, 0, 1)], scalars=[(1, 1)])],
    )
    for k in range(4):
        prepared.run([_at(10 * k), k, 0])
    assert seen == [1, 0, 11, 1, 21, 2, 31, 3]


def test_more_arguments_than_one_record_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SLOTS", 4)
    seen: list[list[int]] = []
    launches = [_launch(lambda slots, *_: seen.append(slots), [0, k], patches=[(0, k, 0)]) for k in range(5)]
    _thrice(launches, [_at(k + 100) for k in range(5)])
    assert seen == 3 * [[k + 100, k] for k in range(5)]


def test_what_is_missing_is_told_before_anything_runs() -> None:
    seen: list[Any] = []
    launches = [_launch(lambda *given: seen.append(given), [0], patches=[(0, k, 0)]) for k in range(2)]
    prepared = HostLaunches(launches)
    prepared.run([_at(1), _at(2), 0])
    seen.clear()
    for table, error in (
        ([_at(1), None, 0], AttributeError),
        ([0], AttributeError),
        ([_at(1), _at("no"), 0], TypeError),
    ):
        with pytest.raises(error):
            prepared.run(table)
    assert not seen


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_long_kernels_are_divided(threads: int) -> None:
    extent = 1000
    seen: list[int] = []
    lock = threading.Lock()

    def note(slots: list[int], start: int, stop: int) -> None:
        assert slots == [42]
        with lock:
            seen.extend(range(start, stop))

    launch = _launch(note, [0], scalars=[(0, 0)], extent=extent, work=8 * GRAIN, parallel=True)
    with override(threads=threads):
        prepared = HostLaunches([launch])
        for _ in range(3):
            seen.clear()
            prepared.run([42, 0])
            assert sorted(seen) == list(range(extent))
    with override(threads=5 - threads):  # the launch records are rewritten
        seen.clear()
        prepared.run([42, 0])
        assert sorted(seen) == list(range(extent))


def test_kernels_with_many_instructions_are_divided_sooner() -> None:
    work = GRAIN // 2
    light, heavy = (_launch(lambda *_: None, [], extent=work, work=work, parallel=True, cost=cost) for cost in (2, 400))
    assert divide(light.function, light.parallel, light.work, 2) == (work, work, 1, 0)
    _, chunk, parts, _ = divide(heavy.function, heavy.parallel, heavy.work, 2)
    assert parts == 2
    assert chunk <= work // 2


@pytest.mark.parametrize(("grains", "waits"), [(2, True), (8, True), (9, False), (1000, False)])
def test_threads_that_sleep_are_left_alone_for_short_jobs(grains: int, waits: bool) -> None:
    kernel = _launch(lambda *_: None, [], extent=grains * GRAIN, work=grains * GRAIN, parallel=True, cost=0)
    assert (divide(kernel.function, kernel.parallel, kernel.work, 2)[3] > 0) == waits


def test_who_comes_while_the_pool_is_busy_runs_alone() -> None:
    parts: list[tuple[int, int]] = []
    inside, done = threading.Event(), threading.Event()

    def slow(slots: list[int], start: int, stop: int) -> None:
        inside.set()
        assert done.wait(20)

    held = _launch(slow, [], extent=2, work=4 * GRAIN, parallel=True)
    other = _launch(lambda _, *range_: parts.append(range_), [], extent=100, work=4 * GRAIN, parallel=True)  # type: ignore[arg-type, misc]
    with override(threads=2):
        prepared = HostLaunches([other])
        prepared.run([0])
        prepared.run([0])
        thread = threading.Thread(target=HostLaunches([held]).run, args=([0],))
        thread.start()
        assert inside.wait(20)
        parts.clear()
        prepared.run([0])
        done.set()
        thread.join()
    assert parts == [(0, 100)]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "poll"), reason="needs poll")
def test_the_interpreter_goes_on_while_long_kernels_run() -> None:
    milliseconds = 200
    poll = ctypes.CDLL(None).poll  # poll(NULL, 0, milliseconds) has the signature of a kernel
    address = ctypes.cast(poll, ctypes.c_void_p).value
    function: Any = SimpleNamespace(call=lambda *given: None, address=address, parallel=False, grain=1, cost=0)
    prepared = HostLaunches([Launch(function, (milliseconds,), LET_GO, array("q"), [], [], 0, None)])
    prepared.run([0])
    steps, done = [], threading.Event()

    def step() -> None:
        while not done.wait(0.001):
            steps.append(0)

    other = threading.Thread(target=step)
    other.start()
    before = len(steps)
    prepared.run([0])
    during = len(steps) - before
    done.set()
    other.join()
    assert during > 3


def test_without_the_native_function_kernels_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runner", lambda: None)
    seen: list[int] = []
    _thrice([_launch(lambda slots, *_: seen.extend(slots), [0], patches=[(0, 0, 1)])], [_at(6)])
    assert seen == [7, 7, 7]


def test_the_last_item_of_the_table_counts_what_was_started() -> None:
    seen: list[int] = []
    launches = [_launch(lambda slots, *_: seen.extend(slots), [k]) for k in range(3)]
    prepared = HostLaunches(launches)
    for done in (0, 0, 1, 2, 3):
        table = [done]
        prepared.run(table)
        assert seen == list(range(done, 3)) and table == [3]
        seen.clear()
