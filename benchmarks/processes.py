"""Measurement of programs in separate processes.

A *port* is a version of the program for another library. NumPy, weft and each port are *sides* of the comparison. In a
*turn*, every side is called.

First calls are measured with NumPy, with weft and an empty cache folder, with weft and the cache that the previous
process has filled, and with each port. Each of them runs in a new process. Repeated calls in these processes are then
timed alternately, so that other load affects all of them equally. A call before the timed calls of a turn brings the
process's memory back: during the turns of the other sides, its data leaves the caches, and some virtual machines drop
its page tables (calls after such a pause took 10 to 20 ms longer, with NumPy too). Results of all first calls and of
weft's last call are compared with NumPy's.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worker import Worker, WorkerError

NUMPY, WEFT, EMPTY_CACHE = "NumPy", "weft", "weft, empty cache"
FILLED = 0.02  # approximate seconds of the repeated calls of a side in a turn
MOST_TIMES = 50  # maximum number of these calls
PAUSE = 0.15  # seconds before a turn, in which other threads go to sleep (OpenBLAS's spin for 0.1 s, one per core)
FILLING_CALLS = 3  # number of calls by which a process fills the cache for the next process
FIRST_CALLS = 3  # minimum number of weft's calls in the second process before the turns
# Minimum seconds of calls before the first turn. By then, plans that are first interpreted have been compiled.
WARM_LEAST = 2.0
WARM_SECONDS = 4.0  # maximum time in which weft may still make plans or compile
FEWEST_TURNS = 3

Results = Mapping[str, np.ndarray]
Difference = Callable[[str, Results, Results], str]


@dataclass(frozen=True)
class Effort:
    """Limits on the time and the number of measurements.

    Attributes
    ----------
    limit : float
        Maximum seconds of one request to a process, which may make several calls. If it takes longer, the process is
        ended.
    seconds : float
        The approximate time of one program's turns, and of its first calls in new processes.
    turns : int
        The largest number of turns.
    rounds : int
        The largest number of first calls of NumPy and weft, each in a new process.
    """

    limit: float = 120.0
    seconds: float = 12.0
    turns: int = 9
    rounds: int = 3


@dataclass
class Outcome:
    """The measurements of a program with all implementations: NumPy, weft and ports.

    Attributes
    ----------
    first : dict
        Seconds of first calls in new processes, by side; ``EMPTY_CACHE`` is a side of its own.
    calls : list of dict
        Weft's calls with a filled cache until it is warm: seconds, and counts of plans and compilations.
    turns : dict
        Mean seconds of a repeated call in each turn, by side.
    kernel_share : float or None
        Fraction of the time of a warm call of weft, under its profiler, that is spent in kernels. Matrix products and
        other library calls do not count as kernels.
    problems : dict
        The reason why a side was left out or is wrong, by side. The key "profile" is for an error of `kernel_share`.
    """

    program: str
    first: dict[str, list[float]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    turns: dict[str, list[float]] = field(default_factory=dict)
    kernel_share: float | None = None
    problems: dict[str, str] = field(default_factory=dict)

    def first_seconds(self, side: str) -> float | None:
        """Return the median time of an implementation's first calls, or None if there are none."""
        return statistics.median(self.first[side]) if side in self.first else None

    def seconds(self, side: str) -> float | None:
        """Return the median time of an implementation's repeated calls, or None if there are none."""
        return statistics.median(self.turns[side]) if side in self.turns else None

    def ratio(self, side: str = WEFT) -> float | None:
        """Return NumPy's time divided by an implementation's time, as the median over all turns.

        Return None if NumPy or the implementation has no times.
        """
        if NUMPY not in self.turns or side not in self.turns:
            return None
        pairs = zip(self.turns[NUMPY], self.turns[side], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)


class Sides:
    """The processes that run a program: one for NumPy, one for weft, and one for each port to another library."""

    def __init__(self, spec: Mapping[str, Any], differs: Difference, effort: Effort, folder: Path) -> None:
        self.spec, self.differs, self.effort, self.folder = spec, differs, effort, folder
        self.outcome = Outcome(spec["name"])
        self.workers: dict[str, Worker] = {}
        self.expected: Results = {}

    def enter(self, side: str, cache: Path | None = None, name: str = "") -> None:
        """Start a process for an implementation, time its first call, and check the results."""
        name = name or side
        if name in self.outcome.problems:
            return
        if name in self.workers:
            self.workers.pop(name).close()
        # (An error of the optimizer ends the program, rather than only making it slower.)
        environment = {"WEFT_STRICT": "1"}
        if cache:
            environment |= {"WEFT_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}
        try:
            worker = self.workers[name] = Worker({**self.spec, "side": side}, environment, self.effort.limit)
            answer = worker.call(save=str(self.folder / "first.npz"))
        except WorkerError as error:
            self.leave(name, str(error))
            return
        self.outcome.first.setdefault(name, []).extend(answer["seconds"])
        if name == WEFT:
            self.outcome.calls = [{"seconds": answer["seconds"][0], **answer["counts"]}]
        self.check(name, "first.npz")

    def check(self, name: str, file: str) -> None:
        """Compare saved results with NumPy's, and stop measuring an implementation that differs.

        If `name` is NumPy, its results become the expected results.
        """
        with np.load(self.folder / file) as saved:
            found = dict(saved)
        if name == NUMPY:
            self.expected = found
        elif text := self.differs(name, self.expected, found):
            self.leave(name, f"wrong: {text}")

    def leave(self, name: str, problem: str) -> None:
        """Record an implementation's problem, and stop measuring the implementation."""
        self.outcome.problems[name] = problem
        self.outcome.turns.pop(name, None)
        if name in self.workers:
            self.workers.pop(name).close()

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()

    def enter_weft(self, cache: Path) -> None:
        """Measure weft's first calls, with an empty and with the filled cache."""
        self.enter(WEFT, cache, EMPTY_CACHE)
        if EMPTY_CACHE not in self.workers:
            return
        with self.workers.pop(EMPTY_CACHE) as worker:
            try:
                if sum(self.outcome.first[EMPTY_CACHE]) < self.effort.seconds:
                    worker.call(FILLING_CALLS - 1)
            except WorkerError as error:
                self.outcome.problems[EMPTY_CACHE] = str(error)
        self.enter(WEFT, cache)

    def warm_up(self) -> None:
        """Call weft until two successive calls neither plan nor compile anything.

        Reading a plan from disk counts as planning, and so does a compilation in another process. At least
        `FIRST_CALLS` calls are made, for at least `WARM_LEAST` seconds. After these calls, no call begins later than
        `WARM_SECONDS`.
        """
        begin, quiet = time.monotonic(), 0
        while WEFT in self.workers:
            spent = time.monotonic() - begin
            if len(self.outcome.calls) >= FIRST_CALLS and spent > (WARM_LEAST if quiet >= 2 else WARM_SECONDS):
                break
            answer = self.attempt(WEFT, 1)
            if answer is not None:
                self.outcome.calls.append({"seconds": answer["seconds"][0], **answer["counts"]})
                busy = answer["waiting"] or any(answer["counts"][n] for n in ("plans", "plans_read", "compilations"))
                quiet = 0 if busy else quiet + 1

    def attempt(self, name: str, times: int, save: str = "") -> dict[str, Any] | None:
        """Let a worker process call an implementation repeatedly, and return the worker's answer.

        `times` is the number of calls.

        If a call fails, end the process and return None.
        """
        try:
            return self.workers[name].call(times, save)
        except WorkerError as error:
            self.leave(name, str(error))
            return None

    def take_turns(self) -> None:
        """Time all implementations alternately.

        In each turn, each implementation is called once without being timed, and then once or, if it is fast, several
        times.
        """
        spent, times, turns = 0.0, {}, self.outcome.turns
        for name in list(self.workers):
            answer = self.attempt(name, 1)
            if answer is not None:
                times[name] = min(MOST_TIMES, max(1, round(FILLED / answer["seconds"][0])))
        for turn in range(self.effort.turns):
            if spent > (self.effort.seconds if turn >= FEWEST_TURNS else 3 * self.effort.seconds) and turn:
                break
            for name in list(self.workers):
                time.sleep(PAUSE)
                answer = self.attempt(name, 1 + times[name])
                if answer is not None:
                    spent += sum(answer["seconds"])
                    turns.setdefault(name, []).append(statistics.fmean(answer["seconds"][1:]))

    def finish(self) -> None:
        """Check weft's last results, and measure the fraction of time spent in kernels."""
        path = str(self.folder / "last.npz")
        if WEFT in self.workers and self.attempt(WEFT, 1, path) is not None:
            self.check(WEFT, "last.npz")
        if WEFT in self.workers:
            try:
                self.outcome.kernel_share = self.workers[WEFT].kernel_share()
            except WorkerError as error:
                self.outcome.problems["profile"] = str(error)


def measure(spec: Mapping[str, Any], ports: Sequence[str], differs: Difference, effort: Effort) -> Outcome:
    """Measure a program with NumPy, with weft, and with its ports (versions of the program for other libraries).

    Parameters
    ----------
    spec : mapping
        The argument of the suite's `load` function, without the side.
    ports : sequence of str
        Sides in addition to NumPy and weft.
    differs : callable
        ``differs(side, expected, found)`` describes how a side's results differ from NumPy's.
    """
    with (
        tempfile.TemporaryDirectory(prefix="weft-benchmark-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        sides = Sides(spec, differs, effort, Path(name))
        stack.callback(sides.close)
        begin = time.monotonic()
        for k in range(effort.rounds):
            sides.enter(NUMPY)
            if NUMPY not in sides.workers:
                return sides.outcome
            cache = Path(name) / f"cache-{k}"
            sides.enter_weft(cache)
            if time.monotonic() - begin > effort.seconds:
                break
            if k + 1 < effort.rounds:
                shutil.rmtree(cache, ignore_errors=True)
        for port in ports:
            sides.enter(port)
        sides.warm_up()
        sides.take_turns()
        sides.finish()
        return sides.outcome
