"""A second Python process that answers requests of this process.

In: requests, as bytes. Out: answers, as bytes, in the order of the requests. Invariant: no call waits for the second
process. It survives Ctrl-C, it ends when this process has ended and its current request is finished, and functions
that wait for any child, such as ``os.wait``, do not find it.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from select import select

from weft.runtime.settings import environment

LENGTH = struct.Struct("<Q")
SHELL = "/bin/sh"
# Maximum length of an answer. What libraries print when they are loaded looks like a longer one.
LONGEST = 1 << 20
# The shell ends at once, so that the process is not a child of this one. (A shell gives background processes no input
# unless it is redirected.)
_SCRIPT = 'exec 3<&0; "$@" <&3 3<&- 2>/dev/null &'
# The same after some seconds, if the process with this number still exists.
_SCRIPT_LATER = 'exec 3<&0; (sleep {delay}; kill -0 {number} && exec "$@") <&3 3<&- 2>/dev/null &'
# Closes what the process has inherited. Finds this package first, then the modules that a new interpreter finds, then
# those that this process finds.
_START = "import os, sys; os.closerange(3, 65536); sys.path[:0] = [{home!r}]; sys.path += [p for p in {paths!r} if p not in sys.path]; from {module} import main; main()"


def can_start() -> bool:
    """Return whether this process can start a second Python process. Workers of `multiprocessing` cannot."""
    processes = sys.modules.get("multiprocessing.process")
    worker = processes is not None and processes.parent_process() is not None
    return bool(sys.executable) and not getattr(sys, "frozen", False) and os.path.exists(SHELL) and not worker


class WorkerProcess:
    """A second Python process, which runs the function ``main`` of a module after `delay` seconds.

    Raises OSError if the process cannot be started.

    Attributes
    ----------
    ended : bool
        Whether the process has ended, and all of its answers were received.
    """

    def __init__(self, module: str, delay: float = 0.0) -> None:
        home = str(Path(__file__).absolute().parents[2])
        code = _START.format(home=home, paths=[os.path.abspath(path) for path in sys.path], module=module)
        script = _SCRIPT_LATER.format(delay=delay, number=os.getpid()) if delay else _SCRIPT
        command = [SHELL, "-c", script, SHELL, sys.executable, "-I" if sys.flags.isolated else "-P", "-c", code]
        theirs, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        os.set_blocking(self._answers, False)
        self._received = b""
        self.ended = False
        try:
            actions = [(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, answers, 1)]
            # (a process group of its own: Ctrl-C does not reach it, and its priority still counts, unlike in a new session)
            self._group = os.posix_spawn(SHELL, command, environment(), file_actions=actions, setpgroup=0)
            os.waitpid(self._group, 0)
        except OSError:
            self.close()
            raise
        finally:
            os.close(theirs)
            os.close(answers)

    def send(self, request: bytes) -> None:
        """Send a request to the process, which should be waiting for one.

        Otherwise, sending a large request blocks until the process reads it.
        """
        data = memoryview(LENGTH.pack(len(request)) + request)
        try:
            while data:
                data = data[os.write(self._requests, data) :]
        except OSError:
            self.ended = True
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

    def cancel(self) -> None:
        """Kill the process, even if it has not answered yet."""
        with suppress(OSError):
            os.killpg(self._group, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Close the connection. The process then ends after its current request."""
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
    """Answer requests in the second process until the first process ends or sends none for `idle` seconds.

    The first message that this process sends is `hello`, and the last is `farewell` if it ends by itself.
    """
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1):  # (what libraries print is no answer)
        os.dup2(nothing, handle)

    def send(message: bytes) -> None:
        data = LENGTH.pack(len(message)) + message
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
