"""Tests of calls that go on when an interrupt arrives (`uninterruptible`), such as the compilation of a kernel."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from weft.codegen.obtain import CodeCache
from weft.runtime import run_calls, uninterruptible

work_alone = sys.modules[
    "weft.runtime.uninterruptible"
]  # (in the package, the function hides the module of the same name)


def test_results_and_errors_come_back() -> None:
    assert uninterruptible(lambda: 3, "three") == 3
    assert uninterruptible(lambda: None, "none") is None
    with pytest.raises(ZeroDivisionError):
        uninterruptible(lambda: 1 // 0, "fault")
    assert uninterruptible(lambda: 2, "fault") == 2


def _time_out(*_: object) -> None:
    raise TimeoutError


@pytest.mark.parametrize(
    ("handler", "error"), [(signal.default_int_handler, KeyboardInterrupt), (_time_out, TimeoutError)]
)
def test_an_interrupt_is_raised_at_once_and_the_work_goes_on(
    handler: Callable[..., None], error: type[BaseException]
) -> None:
    release, done = threading.Event(), threading.Event()

    def work() -> int:
        release.wait(30)
        done.set()
        return 3

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(error):
            uninterruptible(work, "work")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not done.is_set()
    release.set()
    # a second request waits for the work that is in progress
    assert uninterruptible(lambda: 4, "work") == 3
    assert done.is_set()
    assert uninterruptible(lambda: 4, "work") == 4


def test_a_thread_that_never_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that work is done even if the thread for it cannot start, for example because memory is exhausted."""
    monkeypatch.setattr(work_alone, "PATIENCE", 0.05)
    monkeypatch.setattr(work_alone._thread, "start_new_thread", lambda *_: 1)
    assert uninterruptible(lambda: 5, "five") == 5

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(work_alone._thread, "start_new_thread", refuse)
    assert uninterruptible(lambda: 6, "six") == 6
    before = len(threading.enumerate())
    done: list[int] = []
    calls = [partial(done.append, k) for k in range(9)]
    run_calls(calls, 40)
    assert sorted(done) == [*range(9)] and len(threading.enumerate()) == before


def test_nobody_waits_for_a_build_that_was_interrupted() -> None:
    cache, begun = CodeCache(), threading.Event()
    found: list[int] = []

    def interrupted() -> int:
        begun.set()
        while not cache._building:
            time.sleep(0.001)
        raise KeyboardInterrupt

    def second() -> None:
        begun.wait(30)
        found.append(cache.get_or_build("key", lambda: 7))

    other = threading.Thread(target=second)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_build("key", interrupted)
    other.join(30)
    assert found == [7] and not cache._building


@pytest.mark.skipif(
    sys.version_info >= (3, 14),
    reason="Python 3.14 may raise KeyboardInterrupt between a lock's acquisition and its block",
)
def test_interrupts_at_any_moment_leave_builds_that_somebody_can_do() -> None:
    """Test that an interrupt during a build of a cache entry leaves no lock held, so that another call can build the entry."""
    gc.disable()  # an interrupt during a garbage collection would be ignored
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    pick, cache, interrupted = random.Random(0), CodeCache(), 0
    try:
        for number in range(1500):
            try:
                signal.setitimer(signal.ITIMER_REAL, pick.random() * 1e-4)
                for k in range(50):
                    cache.get_or_build((number, k), lambda: 1)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            assert repr(cache._lock).startswith("<unlocked")
            assert all(repr(turn).startswith("<unlocked") for turn in cache._building.values())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert interrupted > 50


def test_a_build_that_asks_for_itself() -> None:
    """Test that a build may request the kernel that it is building, as can happen when a finalizer runs in the compiling thread."""
    cache = CodeCache()
    assert cache.get_or_build("kernel", lambda: cache.get_or_build("kernel", lambda: 1) + 1) == 2
    assert cache.get("kernel") == 2


AT_EXIT = """
import atexit, os
def compile_another():
    print((wf.exp(x) * x - 3).sum() > 0, flush=True)
if {early}:
    atexit.register(compile_another)
import weft as wf
if not {early}:
    atexit.register(compile_another)
x = wf.linspace(0, 3, 20_000)
print((x * x + 1).sum() > 0)  # (loads LLVM)
"""


@pytest.mark.parametrize("early", [True, False])
def test_exit_handlers_may_compile(early: bool, tmp_path: Path) -> None:
    settings = {"WEFT_CACHE_DIR": str(tmp_path), "WEFT_INTERPRET": "never", "WEFT_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(early=early)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
    assert done.returncode == 0 and not done.stderr
