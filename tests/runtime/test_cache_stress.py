"""Stress tests of the caches: threads, processes, killed writers, and unusable folders."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import compile, obtain
from weft.codegen.obtain import CodeCache
from weft.runtime import CacheWarning, ObjectCode
from weft.runtime.cache import DiskCache

CODE = ObjectCode("object", "kernel", bytes(range(256)) * 40, "host", ("pointer",), (), {})
PROGRAM = (
    "import weft as wf, numpy as np; wf.set_default_device('cpu'); x = wf.asarray(np.arange(99.0));"
    "print(float((wf.exp(-x) * 3 + x / 7).sum()), float((x[::-1] * x - {k}).max()))"
)


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "WEFT_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, cold_cache: None) -> CodeCache:
    """Replace the code cache and the disk cache by empty caches. Return the code cache."""
    cache = CodeCache()
    monkeypatch.setattr(obtain, "_functions", cache)
    return cache


def in_threads(work: Any, count: int) -> None:
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors


def test_many_threads_compile_a_kernel_once(fresh: CodeCache) -> None:
    with wf.device("cpu"):
        x = wf.asarray(np.arange(77.0))
        wf.evaluate(x)
    at_once = threading.Barrier(8)
    found = []
    before = obtain.CompileCounts.compiled

    def work(k: int) -> None:
        at_once.wait()
        with wf.device("cpu"):
            found.append(np.array(wf.sqrt(x * 5.25) - x))

    in_threads(work, 8)
    assert obtain.CompileCounts.compiled - before == 1
    assert all(np.array_equal(values, found[0]) for values in found)


def test_a_compilation_holds_nobody_up(fresh: CodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that other threads can run and compile kernels while a thread compiles."""
    begun, go_on = threading.Event(), threading.Event()
    real = compile.compile_kernel
    slow_thread: list[threading.Thread] = []

    def slow(kernel: Any, target: Any) -> Any:
        if threading.current_thread() in slow_thread:
            begun.set()
            assert go_on.wait(60)
        return real(kernel, target)

    monkeypatch.setattr(compile, "compile_kernel", slow)
    results: list[float] = []

    def patient() -> None:
        with wf.device("cpu"):
            results.append(float(wf.arctan(wf.asarray(np.ones(5)) * 1.5).sum()))

    slow_thread.append(threading.Thread(target=patient))
    slow_thread[0].start()
    assert begun.wait(60)
    with wf.device("cpu"):
        for _ in range(2):
            assert (wf.asarray(np.ones(4)) * 2 + 1).tolist() == [3.0] * 4
    assert not results
    go_on.set()
    slow_thread[0].join(60)
    assert results == [pytest.approx(5 * np.arctan(1.5))]


def test_waiting_threads_go_on_where_the_build_fails() -> None:
    cache, begun, go_on = CodeCache(), threading.Event(), threading.Event()
    found = []

    def fails() -> Any:
        begun.set()
        go_on.wait(60)
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            cache.get_or_build("k", fails)

    builder = threading.Thread(target=first)
    builder.start()
    assert begun.wait(60)
    waiters = [threading.Thread(target=lambda: found.append(cache.get_or_build("k", lambda: 7))) for _ in range(4)]
    for thread in waiters:
        thread.start()
    go_on.set()
    for thread in (builder, *waiters):
        thread.join(60)
    assert found == [7] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_waits_for_no_build_of_its_parents_threads() -> None:
    cache, begun, go_on = CodeCache(), threading.Event(), threading.Event()

    def build() -> int:
        begun.set()
        go_on.wait(60)
        return 1

    builder = threading.Thread(target=cache.get_or_build, args=("k", build))
    builder.start()
    assert begun.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks in processes with threads, which is tested here
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if cache.get_or_build("k", lambda: 2) == 2 else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    builder.join(60)
    assert os.waitstatus_to_exitcode(status) == 0
    assert cache.get("k") == 1


def test_processes_share_a_cold_cache(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM.format(k=2)]
    running = [
        subprocess.Popen(command, env=environment(tmp_path / "c"), stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    printed = [process.communicate(timeout=120)[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert printed[0] and printed == [printed[0]] * 3
    assert not list((tmp_path / "c").glob("new-*"))


def test_a_killed_writer_leaves_no_broken_entry(tmp_path: Path) -> None:
    writing = (
        "import sys; from pathlib import Path; from weft.runtime import ObjectCode; from weft.runtime.cache import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1]), 1 << 30); print('go', flush=True)\n"
        "for k in range(10**9): cache.put(b'%d' % (k % 5), ObjectCode('object', 'kernel', b'x' * 100000, 'host', (), (), {}))"
    )
    for turn in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", writing, str(tmp_path)], env=environment(tmp_path), stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"go\n"
        time.sleep(0.02 * turn + 0.01)
        child.kill()
        child.wait()
        child.stdout.close()
    cache = DiskCache(tmp_path, 1 << 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [cache.get(b"%d" % k) for k in range(5)]
    assert all(code is None or code.code == b"x" * 100000 for code in found)


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    old, young = tmp_path / "new-old", tmp_path / "new-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache._room = 0
    cache.put(b"key", CODE)
    assert young.exists() and not old.exists()
    cache.clear()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_folder_that_cannot_be_written_to(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put(b"kept", CODE)

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.warns(CacheWarning) as warned:
        for k in range(3):
            cache.put(b"new %d" % k, CODE)
    assert len(warned) == 1
    assert cache.get(b"kept") == CODE


def test_a_disk_that_fills_up_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(tmp_path, 1 << 20)

    class Filling(io.FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            super().write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", Filling)
    with pytest.warns(CacheWarning, match="cannot write"):
        cache.put(b"key", CODE)
    assert not list(tmp_path.iterdir())
    assert cache.get(b"key") is None


def test_a_folder_that_vanished_is_made_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "weft", 1 << 20)
    (tmp_path / "weft").rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get(b"key") is None
        cache.put(b"key", CODE)
        assert cache.get(b"key") == CODE


def test_a_program_goes_on_without_its_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(k=3)],
        env=environment(tmp_path / "file" / "below"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert done.stderr.count("CacheWarning") == 1
