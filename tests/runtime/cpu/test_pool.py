"""Tests of native worker threads.

All work is done exactly once for any caller, even after a fork and at the end of the process.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.runtime.cpu import pool
from weft.runtime.cpu.host_launches import chunk_of
from weft.runtime.cpu.pool import ROUND, Workers
from weft.runtime.cpu.processors import move_away

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def _function(note: Any) -> Any:
    """Return a kernel that calls the Python function `note`."""
    call = _ENTRY(lambda slots, start, stop: note(slots, start, stop))
    return SimpleNamespace(call=call, address=ctypes.cast(call, ctypes.c_void_p).value)


def _indices(workers: Workers, extent: int, parts: int = 3, chunk: int = 7) -> list[int]:
    seen: list[int] = []
    workers.split(_function(lambda slots, start, stop: seen.extend(range(start, stop))), 0, extent, parts, chunk)
    return sorted(seen)


@pytest.mark.parametrize(("extent", "parts", "chunk"), [(1, 2, 1), (7, 3, 1), (1000, 4, 64), (1000, 2, 999), (5, 8, 2)])
def test_every_index_once(extent: int, parts: int, chunk: int) -> None:
    assert _indices(Workers(), extent, parts, chunk) == list(range(extent))


def test_chunks_begin_at_multiples_and_slots_arrive() -> None:
    starts, slots = [], array("q", [42])
    address = slots.buffer_info()[0]

    def note(at: int, start: int, stop: int) -> None:
        assert ctypes.c_int64.from_address(at).value == 42
        starts.append(start)

    Workers().split(_function(note), address, 1000, 3, 96)
    assert sorted(starts) == list(range(0, 1000, 96))


def test_several_threads_take_part() -> None:
    both = threading.Barrier(2, timeout=20)
    Workers().split(_function(lambda slots, start, stop: both.wait()), 0, 2, 2, 1)
    assert not both.broken


def _threads(workers: Workers, alone: int) -> int:
    """Return the number of threads that execute a job of 20 ms. The workers sleep when the job starts."""
    seen: set[int] = set()

    def note(slots: int, start: int, stop: int) -> None:
        seen.add(threading.get_native_id())
        time.sleep(2e-3)

    workers.split(_function(note), 0, 10, 2, 1)
    time.sleep(0.05)
    seen.clear()
    workers.split(_function(note), 0, 10, 2, 1, alone=alone)
    return len(seen)


@pytest.mark.parametrize(("alone", "threads"), [(0, 2), (1, 2), (5_000_000, 2), (10**10, 1)])
def test_threads_that_sleep_are_woken_for_jobs_that_last(alone: int, threads: int) -> None:
    workers = Workers()
    assert any(_threads(workers, alone) == threads for _ in range(50))  # (a busy machine may run no worker)


def test_what_one_thread_cannot_do_another_does() -> None:
    """Test that a blocked thread delays only one chunk of work."""
    held, seen = threading.Event(), []
    first = threading.Lock()

    def run(slots: int, start: int, stop: int) -> None:
        if start == 50:
            held.wait(20)
        with first:
            seen.append(start)
            if len(seen) == 99:
                held.set()

    Workers().split(_function(run), 0, 100, 2, 1)
    assert sorted(seen) == list(range(100))


def test_many_jobs_from_many_threads() -> None:
    workers = Workers()
    totals = [0] * 4

    def go(k: int) -> None:
        for length in range(1, 200):
            assert _indices(workers, length) == list(range(length))
            totals[k] += 1

    threads = [threading.Thread(target=go, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [199] * 4


_CHILDREN = """
import os, sys
import numpy as np
import weft as wf
wf.set_default_device("cpu")
from weft.runtime import override
with override(threads=3):
    x = wf.asarray(np.arange(1_000_000, dtype=np.float32))
    assert float((x + 1)[999_999]) == 1_000_000
    for _ in range(5):
        child = os.fork()
        if not child:
            os._exit(0 if float((x * 2)[999_999]) == 1_999_998 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert float((x + 3)[0]) == 3
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own_and_both_end() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CHILDREN], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("nbytes", [0, 1, 100, pool.COPY_GRAIN * 2 - 1, pool.COPY_GRAIN * 2, 5_000_001])
def test_copies(nbytes: int) -> None:
    source = np.random.default_rng(0).integers(0, 256, nbytes + 2).astype(np.uint8)
    target = np.zeros_like(source)
    pool.copy_bytes(source.ctypes.data + 1, target.ctypes.data + 1, nbytes, 3)
    assert np.array_equal(target[1:-1], source[1:-1])
    assert target[0] == 0
    assert target[-1] == 0


def test_chunks_are_worth_their_trouble_and_keep_to_lines() -> None:
    assert chunk_of(1 << 24, 2, 1 << 24, 1) == (1 << 24) // (2 * pool.CHUNKS)
    assert chunk_of(100_000, 2, 100_000, 1) == -(-pool.GRAIN // ROUND) * ROUND
    assert chunk_of(4096, 2, 1 << 24, 64) % 64 == 0
    assert chunk_of(10, 2, 1 << 24, 1) == 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_workers_keep_off_the_processor_of_whoever_starts_jobs() -> None:
    """Test that workers do not run on the processor of the thread that starts jobs."""
    mine = os.sched_getaffinity(0)
    here = min(mine)
    os.sched_setaffinity(0, {here, max(mine)})
    try:
        before = set(os.listdir("/proc/self/task"))
        pool = Workers()
        pool._grow(1)
        (worker,) = (int(name) for name in set(os.listdir("/proc/self/task")) - before)
        move_away(here, pool._handles)
        assert os.sched_getaffinity(worker) == {max(mine)}
        move_away(max(mine), pool._handles)
        assert os.sched_getaffinity(worker) == {here}
        assert _indices(pool, 100, 2) == list(range(100))
    finally:
        os.sched_setaffinity(0, mine)
