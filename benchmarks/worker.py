"""Worker processes that load a program and call it on request.

A benchmark has a `Worker` for each side of a comparison and sends requests to them in turn. A process that hangs,
crashes or runs out of memory affects no other process. Since each worker is a new process, its first call to the
program has all costs of a first call.

A suite that uses workers has a function `load(spec)` that returns a `Subject` in the worker's process.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0  # limit for a process to load a program and to create its data
EXIT_SECONDS = 3.0  # limit for a process to end


@dataclass
class Subject:
    """A program in one of the implementations that are compared, with its inputs and results.

    Attributes
    ----------
    arguments : callable
        Returns new arguments. A call may overwrite them.
    call : callable
        Runs the program on arguments, and waits for its results.
    results : callable
        Returns named results as NumPy arrays, given the arguments and the return value of `call`.
    counters : callable
        Returns counts since the start of the process by name, such as the number of plans.
    waiting : callable
        Returns the number of compilations in another process that are not finished.
    kernel_share : callable
        Runs the program on arguments, and returns the fraction of the time that is spent in kernels.
    """

    arguments: Callable[[], list[Any]]
    call: Callable[[list[Any]], Any]
    results: Callable[[list[Any], Any], dict[str, np.ndarray]]
    counters: Callable[[], dict[str, int]] = field(default=dict)
    waiting: Callable[[], int] = field(default=int)
    kernel_share: Callable[[list[Any]], float] = field(default=lambda arguments: math.nan)


@cache
def write_byte_code() -> None:
    """Compile the sources to byte code, so that first calls exclude this time."""
    face = ROOT / "src" / "weft"
    for folder in (face, ROOT / "benchmarks", *(link.resolve() for link in face.iterdir() if link.is_dir())):
        compileall.compile_dir(folder, quiet=2)


class WorkerError(Exception):
    """Raised if a worker process fails, dies, or does not answer in time."""


class Worker:
    """A process that has loaded a program and answers requests.

    Parameters
    ----------
    spec : mapping
        The argument for `load` of the module ``benchmarks.{spec["suite"]}``.
    environment : mapping
        Environment variables of the process, in addition to those of this process.
    limit : float
        Seconds that an answer may take.
    """

    def __init__(self, spec: Mapping[str, Any], environment: Mapping[str, str], limit: float) -> None:
        write_byte_code()
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.limit = limit
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd=ROOT,
            env={**inherited, **environment, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            process_group=0,
        )
        self.answers = b""
        try:
            self.ask(spec, max(limit, START_SECONDS))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and kill it and its children if it does not end in time."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def call(self, times: int = 1, save: str = "") -> dict[str, Any]:
        """Call the program, and return the seconds of each call and the increases of counters.

        If `save` is given, the results of the last call are saved in that file.
        """
        return self.ask({"times": times, "save": save}, self.limit)

    def kernel_share(self) -> float:
        """Call the program, and return the time spent in kernels as a fraction of the call's time."""
        return float(self.ask({"profile": True}, self.limit)["share"])

    def ask(self, request: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Send a request to the process, and return the answer. Raises WorkerError for an error or a missing answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._line(time.monotonic() + limit, limit))
        except BrokenPipeError:
            raise WorkerError(self._death()) from None
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def _line(self, end: float, limit: float) -> bytes:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        while b"\n" not in self.answers:
            if not select.select([pipe], [], [], max(end - time.monotonic(), 0.0))[0]:
                raise WorkerError(f"not done after {limit:.0f} s")
            part = os.read(pipe, 1 << 16)
            if not part:
                raise WorkerError(self._death())
            self.answers += part
        line, _, self.answers = self.answers.partition(b"\n")
        return line

    def _death(self) -> str:
        status = self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with status {status}" + (f": {words[-1][:200]}" if words else "")


def answer_request(subject: Subject, request: Mapping[str, Any]) -> dict[str, Any]:
    """Call or profile the program as requested, and return the answer."""
    if "profile" in request:
        return {"share": subject.kernel_share(subject.arguments())}
    seconds = []
    before = subject.counters()
    for _ in range(request["times"]):
        arguments = subject.arguments()
        begin = time.perf_counter()
        returned = subject.call(arguments)
        seconds.append(time.perf_counter() - begin)
    after = subject.counters()
    if request["save"]:
        np.savez(request["save"], **subject.results(arguments, returned))  # type: ignore[arg-type]
    counts = {name: after[name] - before[name] for name in after}
    return {"seconds": seconds, "counts": counts, "waiting": subject.waiting()}


def describe_error(error: BaseException) -> str:
    """Return an error as one line of text, with the file and the line that raised the error."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:160]
    return f"{type(error).__name__}: {text} ({Path(frame.filename).name}, line {frame.lineno})"


def main() -> None:
    """Load a program, and answer requests.

    The first line of the input names the program. Each later line is a request.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the program's output must not mix with the answers
    subject: Subject | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if subject is None:
                subject = importlib.import_module(f"benchmarks.{request['suite']}").load(request)
                answer: dict[str, Any] = {}
            else:
                answer = answer_request(subject, request)
        except Exception as error:  # all errors of a program are reported
            traceback.print_exc()
            answer = {"error": describe_error(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
