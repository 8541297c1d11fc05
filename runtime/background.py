"""Function calls that a second process executes in the background.

In: the name of a function, and its arguments. Out: a `Request`, which later has the result. Invariant: no call waits
for the second process, which handles one request at a time. A program that ends within `DELAY` seconds starts the
second process only at exit, unless a request is urgent or `prepare` is called.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

from weft.runtime.failures import report_failure
from weft.runtime.settings import OVERRIDES, override, setting, thread_count
from weft.runtime.worker_process import WorkerProcess, can_start, serve, start_detached

HELLO, FAREWELL = b"hello", b"farewell"
# Maximum number of waiting requests, and number of unexpected exits after which no further process is started.
MOST_WAITING, MOST_ENDED = 64, 4
# Seconds without a request after which the second process ends.
IDLE = 20.0
# Priority of the second process: low, so that the second process does not slow down this process.
NICE = 10
# Seconds from the import of this module until the second process starts for requests that are not urgent. An earlier
# start would slow down short programs. Their requests are answered after the program has ended, so that its next run
# finds the results on disk.
DELAY = 1.0
_BEGIN = time.monotonic()


class Request:
    """A request to call a function in the second process.

    Attributes
    ----------
    state : str
        "waiting"; then "done", "failed" if the function has raised an exception, "crashed" if the function has ended
        the process, or "lost" if no process can answer the request.
    result : object
        The result of the function, the error as text if the state is "failed", and otherwise None.
    """

    def __init__(self, data: bytes, then: Callable[[], object] | None) -> None:
        self.state = "waiting"
        self.result: Any = None
        self.data = data
        self._then = then

    def is_over(self) -> bool:
        """Receive pending answers, and return whether the state is no longer "waiting"."""
        if self.state == "waiting":
            exchange()
        return self.state != "waiting"

    def finish(self, state: str, result: object = None) -> None:
        """Record the state and the result, and call the callback if the state is "done"."""
        self.state, self.result, self.data = state, result, b""
        if state == "done" and self._then is not None:
            try:
                self._then()
            except Exception as error:
                report_failure("replacing code by better code", "this program keeps the code that it has", error)


class _Second:
    """The second process, its current request, and the queues of waiting requests."""

    process: WorkerProcess | None = None
    ready = False  # whether the process has started and not announced its end
    resends = False  # whether the process ends for another reason than the sent request, which is then sent again
    ended = 0  # number of processes that have ended unexpectedly
    sent: Request | None = None
    queues: tuple[deque[Request], deque[Request]] = deque(), deque()  # urgent requests, and others
    lock = threading.RLock()

    @classmethod
    def finish_sent(cls, state: str, result: object = None) -> None:
        """Finish the request that was sent to the background process: record its state and its result."""
        if cls.sent is not None:
            request, cls.sent = cls.sent, None
            request.finish(state, result)

    @classmethod
    def lose(cls) -> None:
        """Mark all requests as lost, because there is no process that can answer them."""
        cls.finish_sent("lost")
        for queue in cls.queues:
            while queue:
                queue.popleft().finish("lost")


def submit(
    function: str, arguments: tuple[Any, ...], then: Callable[[], object] | None = None, *, urgent: bool = False
) -> Request | None:
    """Request a function call in the second process.

    Return None if the second process is disabled or unusable, or if too many requests wait.

    Parameters
    ----------
    function : str
        Module and name, such as "weft.runtime.cpu.native.compile_optimized".
    arguments : tuple
        The arguments, which are pickled. JSON must be able to represent the result.
    then : callable, optional
        Called without arguments if the call succeeds, by a later `exchange` in any thread of this process.
    urgent : bool, optional
        Whether the request precedes those that are not urgent, and starts the second process without delay.
    """
    if not setting("background") or not can_start():
        return None
    settings = OVERRIDES | {"threads": thread_count(), "background": False}
    request = Request(pickle.dumps((function, settings, arguments)), then)
    with _Second.lock:
        if sum(map(len, _Second.queues)) >= MOST_WAITING or not (
            _start() if urgent or _is_late() else _Second.ended < MOST_ENDED
        ):
            return None
        _Second.queues[not urgent].append(request)
    exchange()
    return request


def waiting() -> int:
    """Return the number of requests that wait for an answer."""
    exchange()
    return sum(map(len, _Second.queues)) + (_Second.sent is not None)


def prepare() -> None:
    """Start the second process, if it is enabled, before there are requests."""
    if setting("background") and can_start():
        with _Second.lock:
            _start()


def _is_late() -> bool:
    """Return whether this program has run for more than `DELAY` seconds."""
    return time.monotonic() > _BEGIN + DELAY


def _start() -> bool:
    if _Second.process is None and _Second.ended < MOST_ENDED:
        try:
            _Second.process = WorkerProcess(__name__)
            _Second.resends = False
        except OSError:
            _Second.ended = MOST_ENDED
    return _Second.process is not None


def exchange() -> None:
    """Receive answers from the background process. If the background process is ready, send it the next request.

    If requests are waiting, start the second process as soon as `_is_late` allows it, and replace it if it has ended.
    """
    if _Second.process is None and not any(_Second.queues):
        return
    with _Second.lock:
        if _Second.process is None and any(_Second.queues) and _is_late() and not _start():
            _Second.lose()
        process = _Second.process
        if process is None:
            return
        messages = process.receive()
        if messages:
            _Second.resends = messages[-1] == FAREWELL
            _Second.ready = not _Second.resends
        for message in messages:
            if message not in (HELLO, FAREWELL):
                _Second.finish_sent(*json.loads(message))
        if process is not _Second.process:
            return  # (the `then` function of a request has called `exchange`)
        if process.ended:
            _replace(process)
        elif _Second.ready and _Second.sent is None and any(_Second.queues):
            _Second.sent = (_Second.queues[0] or _Second.queues[1]).popleft()
            try:
                process.send(_Second.sent.data)
            except BaseException:
                _Second.resends = True
                raise


def _replace(process: WorkerProcess) -> None:
    """Replace a background process that has ended: close it and, if requests are waiting, start a new one."""
    process.close()
    _Second.process, _Second.ready = None, False
    if not _Second.resends:
        _Second.ended += 1
        _Second.finish_sent("crashed")
    elif _Second.sent is not None:
        request, _Second.sent = _Second.sent, None
        _Second.queues[0].appendleft(request)
    if any(_Second.queues) and not _start():
        _Second.lose()


@atexit.register
def _leave() -> None:
    """At the end of this process, send the waiting requests to a process that continues to run."""
    with _Second.lock:
        waiting = [request.data for queue in _Second.queues for request in queue]
        if not waiting or not setting("background"):
            return
        if _Second.process is not None:
            _Second.process.leave(waiting)
        else:
            start_detached(__name__, waiting)


def _after_fork() -> None:
    # the second process belongs to the parent
    _Second.lock = threading.RLock()
    if _Second.process is not None:
        _Second.process.close()
        _Second.process = None
    _Second.ended = MOST_ENDED
    _Second.lose()


os.register_at_fork(after_in_child=_after_fork)


# -- in the second process ----------------------------------------------------------------------


def main() -> None:
    """Run the background process: answer requests until the main program ends, or sends no request for `IDLE` seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    sys.setrecursionlimit(10_000)
    serve(_answer, HELLO, FAREWELL, IDLE)


def _answer(data: bytes) -> bytes:
    function, settings, arguments = pickle.loads(data)
    module, _, name = function.rpartition(".")
    try:
        with override(**settings):
            return json.dumps(("done", getattr(import_module(module), name)(*arguments))).encode()
    except Exception as error:  # the requesting process works without the result, or finds the same error
        return json.dumps(("failed", f"{type(error).__name__}: {error}")).encode()
