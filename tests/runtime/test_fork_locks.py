"""Tests that a forked child does not wait for locks that threads of its parent held."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from weft.dsl import profile
from weft.fusion.plan import plan_cache
from weft.fusion.run import execute, tiers
from weft.runtime import Listening
from weft.runtime.cpu import trace_log
from weft.runtime.cpu.host_memory import Pool
from weft.runtime.cpu.random.readiness import Readiness
from weft.runtime.cuda.blas import Blas
from weft.runtime.cuda.staging import Staging
from weft.runtime.fork_locks import renew_in_children


class _Owner:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        renew_in_children(self)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_Owner, id="object"),
        pytest.param(Pool, id="memory"),
        pytest.param(lambda: Readiness(lambda _: None, lambda _: True), id="draws"),
        pytest.param(lambda: sys.modules["weft.runtime.devices"], id="devices"),
        pytest.param(lambda: sys.modules["weft.runtime.settings"], id="settings"),
        pytest.param(lambda: Listening, id="listeners"),
        pytest.param(lambda: execute, id="plans"),
        pytest.param(lambda: plan_cache, id="forms"),
        pytest.param(lambda: tiers, id="interpretation"),
        pytest.param(lambda: trace_log, id="traces"),
        pytest.param(lambda: profile, id="profiles"),
        pytest.param(lambda: Staging(Any, Any), id="uploads"),
        pytest.param(lambda: Blas(Any, Any), id="products"),
    ],
)
def test_a_child_does_not_wait_for_a_thread_of_its_parent(make: Callable[[], Any]) -> None:
    owner, held, free = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with owner._lock:
            held.set()
            free.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # (a handler would continue the tests in the child)
        signal.alarm(10)
        os._exit(0 if owner._lock.acquire() else 1)
    free.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
