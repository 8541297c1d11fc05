"""Tests of functions that a second process runs."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from weft.runtime import OptimizerWarning, background, override, submit, thread_count, waiting
from weft.runtime.background import Request
from weft.runtime.worker_process import LENGTH, WorkerProcess

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are started as on Linux")


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    """Enable weft's helper process (second process). After the test, reset the counter of helper processes that ended unexpectedly."""
    with override(background=True):
        yield
    background._Second.ended = 0


def answered(request: Request | None, seconds: float = 60.0) -> Request:
    """Wait until a request is answered or lost. Return the same request, which then holds the answer."""
    assert request is not None
    end = time.monotonic() + seconds
    while not request.is_over():
        assert time.monotonic() < end
        time.sleep(0.005)
    return request


def test_a_function_runs_in_another_process_with_the_same_settings() -> None:
    told: list[str] = []
    request = answered(submit("os.getpid", (), lambda: told.append("done")))
    assert request.state == "done" and told == ["done"] and request.result != os.getpid()
    with override(threads=7):
        threads = answered(submit("weft.runtime.settings.thread_count", ()))
    assert (threads.result, thread_count() == 7) == (7, False)
    assert not waiting()


def test_an_exception_is_the_answer() -> None:
    request = answered(submit("math.sqrt", (-1,)))
    assert request.state == "failed" and request.result.startswith("ValueError")
    assert answered(submit("math.sqrt", (4,))).result == 2.0


def test_urgent_requests_come_first() -> None:
    order: list[int] = []
    with mock.patch.object(background, "exchange"):  # (nothing is sent yet)
        requests = [submit("math.sqrt", (k,), lambda k=k: order.append(k), urgent=k > 2) for k in (1, 2, 3, 4)]
    for request in requests:
        answered(request)
    assert order == [3, 4, 1, 2]


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close the second process. Requests that are not urgent do not start a new one."""
    if background._Second.process is not None:
        background._Second.process.close()
    background._Second.process, background._Second.ready = None, False
    monkeypatch.setattr(background, "_BEGIN", time.monotonic() + 1000)


def test_requests_that_are_not_urgent_start_the_process_later(
    no_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = submit("math.sqrt", (4,))
    assert later is not None and not later.is_over() and waiting() == 1 and background._Second.process is None
    monkeypatch.setattr(background, "_BEGIN", time.monotonic() - 1000)
    assert answered(later).result == 2.0


def test_an_urgent_request_starts_the_process(no_process: None) -> None:
    later, urgent = submit("math.sqrt", (4,)), submit("math.sqrt", (9,), urgent=True)
    assert (answered(urgent).result, answered(later).result) == (3.0, 2.0)


def test_requests_are_lost_if_the_process_cannot_be_started_later(
    no_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = submit("math.sqrt", (4,))
    monkeypatch.setattr(background, "_BEGIN", time.monotonic() - 1000)
    monkeypatch.setattr(background._Second, "ended", background.MOST_ENDED)
    assert later is not None and later.is_over() and later.state == "lost"


def test_a_request_that_ends_the_process_has_crashed_and_the_next_one_starts_another() -> None:
    assert answered(submit("os._exit", (3,))).state == "crashed"
    assert answered(submit("math.sqrt", (4,))).result == 2.0
    states = [answered(request).state for _ in range(9) if (request := submit("os._exit", (3,))) is not None]
    assert states == ["crashed"] * (background.MOST_ENDED - 1)


def test_an_idle_process_leaves_and_is_started_again() -> None:
    first = answered(submit("os.getpid", ())).result
    assert background._Second.process is not None
    background._Second.process._received += LENGTH.pack(len(background.FAREWELL)) + background.FAREWELL
    os.kill(first, signal.SIGKILL)
    second = answered(submit("os.getpid", ()))
    assert second.state == "done" and second.result != first and not background._Second.ended


def test_a_process_leaves_while_a_request_is_sent() -> None:
    first, process = answered(submit("os.getpid", ())).result, background._Second.process
    assert process is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: is_gone(first))
    answers, end = os.pipe()
    os.write(end, LENGTH.pack(len(background.FAREWELL)) + background.FAREWELL)
    os.set_blocking(answers, False)
    os.dup2(answers, process._answers)
    os.close(answers)
    os.close(end)
    with mock.patch.object(process, "receive", list):  # (the messages have not arrived yet)
        request = submit("os.getpid", ())
    assert answered(request).state == "done" and not background._Second.ended


def test_an_answer_whose_function_exchanges_messages_with_the_next_process() -> None:
    answered(submit("os.getpid", ()))
    first, ended = background._Second.process, background._Second.ended
    assert first is not None

    def ask() -> None:
        waiting()

    def receive() -> list[bytes]:
        first.ended = True
        found, messages[:] = list(messages), []
        return found

    request = Request(b"", ask)
    messages = [b'["done", 3]', background.FAREWELL]
    with mock.patch.object(first, "receive", receive):
        with background._Second.lock, mock.patch.object(background, "_is_late", lambda: False):
            background._Second.sent = request
            background._Second.queues[1].append(later := Request(pickle.dumps(("math.sqrt", {}, (4,))), None))
            background.exchange()
    assert request.state == "done" and background._Second.process is not first
    assert answered(later).result == 2.0 and background._Second.ended == ended


def test_an_error_of_the_function_of_an_answer_is_a_warning() -> None:
    def fail() -> None:
        raise LookupError("a stale cache")

    with override(strict=False), pytest.warns(OptimizerWarning, match="a stale cache"):
        assert answered(submit("math.sqrt", (4,), fail)).result == 2.0


def test_ctrl_c_does_not_reach_the_process_and_no_wait_finds_it() -> None:
    number = answered(submit("os.getpid", ())).result
    assert os.getpgid(number) != os.getpgrp()
    with pytest.raises(ChildProcessError):
        os.waitpid(number, os.WNOHANG)
    os.kill(number, signal.SIGINT)
    assert answered(submit("os.getpid", ())).result == number


def test_an_interrupted_request_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(submit("os.getpid", ()))

    def interrupt(*arguments: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "write", interrupt)
        submit("os.getpid", ())
    assert waiting() == 1
    request = background._Second.sent or background._Second.queues[0][0]
    assert answered(request).state == "done" and not background._Second.ended


def test_what_a_library_prints_at_the_start_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.write(1, b'a library says hello to everybody')\n")
    code = """
request = submit('os.getpid', ())
while not request.is_over(): time.sleep(0.01)
print(request.state)
"""
    assert run(code, str(tmp_path)) == ["lost"]


def run(code: str, path: str = "") -> list[str]:
    """Run a program that uses the second process, and return the words that it has printed.

    The second process also finds modules in `path`.
    """
    env = {"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu", "PATH": os.environ["PATH"]}
    program = "import os, time\nfrom weft.runtime import submit, waiting\n"
    program += f"os.environ['PYTHONPATH'] = {path!r} + ':' + os.environ['PYTHONPATH']\n{code}"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=100)
    assert not told.returncode and not told.stderr, told.stderr
    return told.stdout.split()


def is_gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_exit_waits_for_no_request_and_the_process_ends_after_its_request() -> None:
    (number,) = run(
        "first = submit('os.getpid', ())\nwhile not first.is_over(): time.sleep(0.01)\n"
        "submit('time.sleep', (5.0,))\nprint(first.result)"
    )
    assert not is_gone(int(number))
    wait_for(lambda: is_gone(int(number)))


def test_a_short_program_starts_the_process_at_its_end(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    (started,) = run(
        f"for name in {[str(file) for file in files]}: submit('os.mkdir', (name,))\n"
        "from weft.runtime import background\nprint(background._Second.process)"
    )
    assert started == "None"
    wait_for(lambda: all(file.exists() for file in files))


def test_the_process_answers_requests_that_wait_at_the_end(tmp_path: Path) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    run(f"for name in {[str(file) for file in files]}: submit('os.mkdir', (name,), urgent=True)")
    wait_for(lambda: all(file.exists() for file in files))


def test_a_short_program_without_requests_starts_no_process() -> None:
    code = "import subprocess\nos.posix_spawn = None\nfrom weft.runtime import background\nprint(waiting())"
    assert run(code) == ["0"]


def test_a_forked_child_has_no_second_process() -> None:
    code = """
first = submit('os.getpid', ())
while not first.is_over(): time.sleep(0.01)
slow = submit('time.sleep', (0.5,))
if not os.fork():
    print(slow.state, submit('os.getpid', ()), waiting(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
while not slow.is_over(): time.sleep(0.01)
print(slow.state)
"""
    assert run(code) == ["lost", "None", "0", "0", "done"]


def test_a_worker_of_multiprocessing_starts_none() -> None:
    code = """
import multiprocessing
if __name__ == '__main__':
    from weft.runtime.worker_process import can_start
    with multiprocessing.get_context('fork').Pool(1) as pool:
        print(can_start(), pool.apply(can_start))
"""
    assert run(code) == ["True", "False"]


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    monkeypatch.setattr(background._Second, "process", None)
    assert submit("os.getpid", ()) is None and submit("os.getpid", ()) is None
    with pytest.raises(OSError, match="no more"):
        WorkerProcess("weft.runtime.background")
    made = [os.pipe()]
    monkeypatch.setattr(os, "pipe", iter(made).__next__)  # (the second call fails)
    with pytest.raises(StopIteration):
        WorkerProcess("weft.runtime.background")
    for handle in made[0]:
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(handle)
