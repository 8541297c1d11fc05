"""Tests of Ctrl-C during an evaluation.

Pending values can be evaluated later, and no update runs twice.
"""

from __future__ import annotations

import gc
import random
import sys
from types import FrameType

import numpy as np
import pytest

import weft as wf
from tests.fuzz.disturbed import stops
from weft.runtime.cpu import host_launches as launches
from weft.runtime.cpu.host_launches import HostLaunches


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with wf.device("cpu"):
        yield


def test_an_update_in_place_is_not_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.asarray(np.arange(12.0).reshape(3, 4)).copy()
    wf.evaluate(x)
    run, interrupts = HostLaunches.run, [KeyboardInterrupt()]

    def stopped(self: HostLaunches, table: list) -> None:
        run(self, table)
        if interrupts:
            raise interrupts.pop()

    x[1:] += 1
    y = x @ x.T
    with monkeypatch.context() as patch:
        patch.setattr(HostLaunches, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            wf.evaluate(x, y)
    wanted = np.arange(12.0).reshape(3, 4)
    wanted[1:] += 1
    assert np.array_equal(x, wanted)
    assert np.array_equal(y, wanted @ wanted.T)
    x[0] -= 1  # later statements still work
    wanted[0] -= 1
    assert np.array_equal(x, wanted)


def test_a_whole_assignment_in_place_is_not_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.asarray(np.arange(12.0)).copy()
    wf.evaluate(x)
    before, run, interrupts = x._storage.buffer.address, HostLaunches.run, [KeyboardInterrupt()]

    def stopped(self: HostLaunches, table: list) -> None:
        run(self, table)
        if interrupts:
            raise interrupts.pop()

    x *= 2
    with monkeypatch.context() as patch:
        patch.setattr(HostLaunches, "run", stopped)
        with pytest.raises(KeyboardInterrupt):
            wf.evaluate(x)
    assert np.array_equal(x, np.arange(12.0) * 2)
    assert x._storage.buffer.address == before


@pytest.mark.parametrize("seed", range(20))
def test_loops_that_are_stopped_anywhere_and_go_on(seed: int) -> None:
    pick = random.Random(seed)
    x, wanted = wf.zeros((4, 6)), np.zeros((4, 6))
    wf.evaluate(x)
    for turn in range(10):
        x[1:, ::2] += turn
        wanted[1:, ::2] += turn
        y = x.sum(0) * 2
        x[0] = y
        wanted[0] = wanted.sum(0) * 2
        with stops(pick, 0.3):
            try:
                wf.evaluate(x, y)
            except KeyboardInterrupt:
                continue  # the next iteration may be recorded after pending operations
    assert np.array_equal(x, wanted)


def test_kernels_that_run_one_by_one_are_stopped_between_any_two_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "runner", lambda: None)  # as in the first run of a plan
    wanted = np.arange(70_000.0)
    wanted[1:] += 1
    wanted = wanted.reshape(100, 700)
    at = 0
    while True:
        x = wf.asarray(np.arange(70_000.0)) + 0
        y = wf.asarray(np.arange(70_000.0).reshape(100, 700)) + 0
        wf.evaluate(x, y)
        x[1:] += 1
        y[:, 1:] *= 2
        left = at

        def stop(frame: FrameType, event: str, argument: object) -> None:
            nonlocal left
            # points at which Python checks for signals
            if event in ("call", "c_return") and str(frame.f_globals.get("__name__")).startswith("weft.runtime.cpu."):
                left -= 1
                if left == -1:
                    raise KeyboardInterrupt

        try:
            gc.disable()
            sys.setprofile(stop)
            wf.evaluate(x, y)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
            gc.enable()
        assert np.array_equal(x, wanted.reshape(-1)), at
        assert np.array_equal(np.asarray(y)[:, 1:], np.arange(70_000.0).reshape(100, 700)[:, 1:] * 2), at
        if left >= 0:
            break
        at += 1
    assert at > 20
