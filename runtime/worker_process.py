"""A second Python process that answers requests from this process.

In: requests, as bytes. Out: answers, as bytes, in the order of the requests. Invariant: no call waits for an
answer. The second process survives Ctrl-C. It finishes its current request, and then ends if this process has ended or
has not sent a request for some time. Functions that wait for any child, such as ``os.wait``, do not find the
second process.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import select

from weft.runtime.cache import fixed_path
from weft.runtime.settings import environment

LENGTH = struct.Struct("<Q")
SHELL = "/bin/sh"
# Maximum length of an answer. Text that libraries print when they are loaded looks like a longer answer.
LONGEST = 1 << 20
# The shell ends at once, so that the process is not a child of this one. (A shell gives background processes no input
# unless it is redirected.)
_SCRIPT = 'exec 3<&0; "$@" <&3 3<&- 2>/dev/null &'
# Code that closes the inherited files and calls `main`. Imports find this package first, then the modules that a new
# interpreter finds, then those that this process finds.
_START = "import os, sys; os.closerange(3, 65536); sys.path[:0] = [{root!r}]; sys.path += [p for p in {paths!r} if p not in sys.path]; from {module} import main; main()"


def can_start() -> bool:
    """Return whether this process can start a second Python process.

    A frozen program and a worker of `multiprocessing` cannot.
    """
    processes = sys.modules.get("multiprocessing.process")
    worker = processes is not None and processes.parent_process() is not None
    return bool(sys.executable) and not getattr(sys, "frozen", False) and os.path.exists(SHELL) and not worker


def _spawn(module: str, requests: int, answers: int) -> int:
    """Start a Python process for a module's ``main`` function, and return the process group.

    `requests` and `answers` are the file descriptors for the process's standard input and output. Raises OSError if the
    shell that starts the process cannot be run.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = _START.format(root=root, paths=[os.path.abspath(path) for path in sys.path], module=module)
    command = [SHELL, "-c", _SCRIPT, SHELL, sys.executable, "-I" if sys.flags.isolated else "-P", "-c", code]
    actions = [(os.POSIX_SPAWN_DUP2, requests, 0), (os.POSIX_SPAWN_DUP2, answers, 1)]
    variables = environment()
    if folder := variables.get("WEFT_CACHE_DIR"):
        variables["WEFT_CACHE_DIR"] = fixed_path(folder)
    # (In a separate process group, Ctrl-C does not reach the process. In a new session, its priority would not count.)
    group = os.posix_spawn(SHELL, command, variables, file_actions=actions, setpgroup=0)
    os.waitpid(group, 0)
    return group


def start_detached(module: str, requests: Sequence[bytes]) -> None:
    """Start a process that answers `requests`, if possible. The answers are discarded."""
    with suppress(OSError), open(os.memfd_create("requests"), "w+b") as file, open(os.devnull, "wb") as answers:
        file.write(b"".join(map(_packed, requests)))
        file.seek(0)
        _spawn(module, file.fileno(), answers.fileno())


def _packed(message: bytes) -> bytes:
    return LENGTH.pack(len(message)) + message


class WorkerProcess:
    """A second Python process, which runs the ``main`` function of a module.

    Raises OSError if the process cannot be started.

    Attributes
    ----------
    ended : bool
        Whether no further answers can be received, since the process has ended or the connection is unusable.
    """

    def __init__(self, module: str) -> None:
        self._received = b""
        self.ended = False
        pipes: tuple[int, ...] = os.pipe()
        try:
            pipes += os.pipe()
            theirs, self._requests, self._answers, answers = pipes
            os.set_blocking(self._answers, False)
            self._group = _spawn(module, theirs, answers)
        except BaseException:
            for handle in pipes:
                os.close(handle)
            raise
        os.close(theirs)
        os.close(answers)

    def send(self, request: bytes) -> None:
        """Send a request to the process. A large request blocks the call until the process reads the request."""
        data = memoryview(_packed(request))
        try:
            with suppress(OSError):  # (the process has ended: `receive` reads its last messages)
                while data:
                    data = data[os.write(self._requests, data) :]
        except BaseException:  # an interrupt: the process must not read the next request as the rest of this one
            self.ended = True
            raise

    def receive(self) -> list[bytes]:
        """Return the answers that have arrived since the last call."""
        try:
            while not self.ended:
                part = os.read(self._answers, 1 << 16)
                self.ended = not part
                self._received += part
        except BlockingIOError:
            pass
        found, self._received = _split(self._received)
        self.ended |= len(self._received) >= LENGTH.size and LENGTH.unpack_from(self._received)[0] > LONGEST
        return found

    def leave(self, requests: Sequence[bytes]) -> None:
        """Leave requests for the worker process to handle later. Write as many of them as the connection accepts without blocking."""
        os.set_blocking(self._requests, False)
        with suppress(OSError):
            for data in map(_packed, requests):
                if os.write(self._requests, data) < len(data):
                    return

    def close(self) -> None:
        """Close the connection. The process ends after its current request."""
        self.ended = True
        for handle in (self._requests, self._answers):
            os.close(handle)


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete messages at the start of `data`, and the remaining bytes."""
    found = []
    while len(data) >= LENGTH.size:
        end = LENGTH.size + int(LENGTH.unpack_from(data)[0])
        if len(data) < end:
            break
        found.append(data[LENGTH.size : end])
        data = data[end:]
    return found, data


def serve(answer: Callable[[bytes], bytes], hello: bytes, farewell: bytes, idle: float) -> None:
    """Answer requests in the second process until the first process ends or is idle.

    The first process is idle if it sends no request for `idle` seconds. The first message that this process sends is
    `hello`, and the last is `farewell` if `idle` seconds have passed without a request.
    """
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1):  # (text that libraries print is not an answer)
        os.dup2(nothing, handle)

    def send(message: bytes) -> None:
        data = _packed(message)
        with suppress(BrokenPipeError):  # (the first process has ended, and the answers are for later processes)
            while data:
                data = data[os.write(answers, data) :]

    send(hello)
    received = b""
    while select([requests], [], [], idle)[0]:
        part = os.read(requests, 1 << 16)
        if not part:
            return
        found, received = _split(received + part)
        for request in found:
            send(answer(request))
    send(farewell)
