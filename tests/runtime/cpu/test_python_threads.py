"""Tests of `run_calls`. It executes calls of NumPy's loops in several Python threads.

After `run_calls` returns or raises an error, no call is running.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from weft.runtime import run_calls


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_call_is_done_once(threads: int) -> None:
    for count in (0, 1, 2, 40):
        done: list[int] = []
        run_calls([partial(done.append, k) for k in range(count)], threads)
        assert sorted(done) == list(range(count))


def test_calls_run_side_by_side() -> None:
    barrier = threading.Barrier(2)
    run_calls([lambda: barrier.wait(20) and None] * 2, 2)


def test_an_error_is_raised_after_the_other_calls_have_returned() -> None:
    running: list[int] = []

    def slow() -> None:
        running.append(1)
        time.sleep(0.05)
        running.pop()

    def wrong() -> None:
        time.sleep(0.01)
        raise ValueError("wrong")

    for calls in ([wrong, slow], [slow, wrong], [slow, wrong, *[slow] * 20]):
        with pytest.raises(ValueError, match="wrong"):
            run_calls(calls, 3)
        assert not running


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_an_exception_of_a_signal_handler_waits_for_the_calls_that_run(error: type[BaseException]) -> None:
    def stop(*_: object) -> None:
        raise error

    out = np.zeros(4)
    both = threading.Barrier(2)

    def call() -> None:
        both.wait(20)
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
        else:
            time.sleep(0.3)
            out[0] = 1

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(error):
            run_calls([call] * 2, 2)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert out[0] == 1


def test_a_forked_child_has_threads_of_its_own() -> None:
    run_calls([lambda: None] * 4, 2)
    child = os.fork()
    if not child:
        done: list[int] = []
        run_calls([partial(done.append, k) for k in range(8)], 2)
        os._exit(0 if len(done) == 8 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
