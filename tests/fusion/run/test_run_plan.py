"""Tests of evaluations: threads, listeners, failures, and interrupts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion.run import run_plan
from weft.fusion.run.host_calls import call_host
from weft.runtime import Listening, override

PROGRAM = """
import sys, threading, time
import numpy as np
import weft as wf

class Slow:
    # (the import of `tiers` takes so long that all threads evaluate during it)
    def find_spec(self, name, path=None, target=None):
        if name == "weft.fusion.run.raised_limit":
            time.sleep(0.5)

sys.meta_path.insert(0, Slow())
arrays = [wf.asarray(np.arange(50_000.0) + k) for k in range(4)]
found = [None] * len(arrays)

def work(k):
    found[k] = float((arrays[k] + 1).max())

threads = [threading.Thread(target=work, args=(k,)) for k in range(len(arrays))]
for thread in threads:
    thread.start()
    time.sleep(0.05)
for thread in threads:
    thread.join()
assert found == [50_000.0 + k for k in range(len(arrays))], found
"""


def test_threads_may_evaluate_while_another_loads_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_failed_library_call_leaves_inputs_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError

    with wf.device("cpu"), override(interpret="never"):
        x, a = wf.zeros(90_000), wf.ones((300, 300))
        wf.evaluate(x, a)
        x[::2] += 1
        product = x.reshape(300, 300) @ a
        x[1::2] = product[0, 0]
        with monkeypatch.context() as patch:
            patch.setattr(run_plan, "call_host", fail)
            with pytest.raises(MemoryError):
                wf.evaluate(x, product)
        np.testing.assert_array_equal(x[:4].numpy(), [1, 150, 1, 150])


class Heard:
    """A listener to kernel launches that does nothing but let each launch proceed.

    While a listener is active, weft launches kernels one by one.
    """

    def launch(self, device: object, note: object, start: Callable[[], None]) -> None:
        start()

    def built(self, note: object) -> None:
        pass


def test_a_listener_may_leave_during_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Heard()

    def call(*arguments: Any) -> None:
        Listening.remove(listener)
        call_host(*arguments)

    with wf.device("cpu"), override(interpret="never"):
        a = wf.ones((300, 300))
        wf.evaluate(a)
        for _ in range(3):  # (kernels are prepared after the first runs)
            Listening.add(listener)
            with monkeypatch.context() as patch:
                patch.setattr(run_plan, "call_host", call)
                np.testing.assert_array_equal(np.asarray(a @ a * 2 + 1), 601)


@pytest.mark.parametrize("started", [False, True])
def test_a_launch_that_is_interrupted_runs_once(started: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, interrupts, listener = run_plan._launch, [KeyboardInterrupt()], Heard()

    def stopped(*arguments: Any) -> None:
        if started or not interrupts:
            launch(*arguments)
        if interrupts:
            raise interrupts.pop()

    with wf.device("cpu"), override(interpret="never"):
        x = wf.asarray(np.arange(50_000.0)) + 0
        wf.evaluate(x)
        x[1:] += 1  # (in place: after an interrupt, the plan goes on)
        Listening.add(listener)
        monkeypatch.setattr(run_plan, "_launch", stopped)
        try:
            with pytest.raises(KeyboardInterrupt):
                wf.evaluate(x)
        finally:
            Listening.remove(listener)
    np.testing.assert_array_equal(np.asarray(x), np.arange(50_000.0) + (np.arange(50_000) > 0))
