"""Ten fused programs on weft and its peers.

On the CPU, the peers are NumPy, numexpr, Numba, JAX and torch.compile. On a GPU, the peers are those of
`benchmarks.gpu_peers`. Peers that are not installed are left out.

Results are first compared with those of a computation in float64. A peer with wrong results is reported and not timed.
Then weft and all peers are timed alternately, in turns, so that other load on the machine affects all of them equally.
A ratio is the time of the best peer divided by that of weft, as the median over the turns. The best peer is the one
with the smallest median time.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft as wf
from benchmarks.peers import WEFT, Call, Peer, Timer, as_numpy, device_copy, installed
from benchmarks.programs import PROGRAMS, Arrays, Program
from benchmarks.reports import geometric_mean

TURNS = 9
BY_HAND = "CUDA C++"
SECONDS = 12.0  # limit for a program's turns, after the first three
FILLED = 1.0  # minimum milliseconds of a turn, which consists of repeated calls
MOST_TIMES = 200
PAUSE = 0.005  # seconds before a turn, so that the threads of the previous library go to sleep
COMPILE_SECONDS = 60.0  # limit for a first call
WARM_CALLS = 3  # minimum number of warm-up calls of weft
# seconds after which warm-up ends: if the last two calls made no plans and compiled nothing, and otherwise
WARM_LEAST, WARM_SECONDS = 0.3, 2.0
COPIED = 1 << 26  # bytes of the copy that measures bandwidth


@dataclass
class Result:
    """The measurements of a program on weft and its peers."""

    program: str
    first_ms: dict[str, float] = field(default_factory=dict)
    turns_ms: dict[str, list[float]] = field(default_factory=dict)
    events_ms: dict[str, list[float]] = field(default_factory=dict)  # by the GPU's clock, for libraries with a timer
    problems: dict[str, str] = field(default_factory=dict)
    moved: int = 0  # bytes: inputs are read once, and results are written once
    streams: bool = False
    copied: int = COPIED

    def median(self, name: str) -> float:
        """Return the median time of weft or a peer in milliseconds."""
        return statistics.median(self.turns_ms[name])

    def spread(self, name: str) -> float:
        """Return half of the interquartile range of the times of weft or a peer, in milliseconds."""
        times = sorted(self.turns_ms[name])
        return (times[(3 * len(times) - 1) // 4] - times[len(times) // 4]) / 2

    @property
    def best(self) -> str | None:
        """The name of the peer with the smallest median time, or None.

        The result is None if weft or all peers have no times. Kernels written by hand for one program are not peers.
        """
        others = [name for name in self.turns_ms if name not in (WEFT.name, "copy", BY_HAND)]
        return min(others, key=self.median) if others and WEFT.name in self.turns_ms else None

    def ratio(self, name: str) -> float:
        """Divide another library's time by weft's time in each repetition, and return the median of these ratios."""
        pairs = zip(self.turns_ms[name], self.turns_ms[WEFT.name], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)

    def quickest(self, name: str) -> float:
        """Return a peer's fastest time divided by weft's fastest time."""
        return min(self.turns_ms[name]) / min(self.turns_ms[WEFT.name])

    def share(self) -> float:
        """Return weft's memory bandwidth as a fraction of the bandwidth of a copy."""
        return self.ratio("copy") * self.moved / (2 * self.copied) if "copy" in self.turns_ms else math.nan


class TooLongError(BaseException):
    """Raised if a call exceeds its time limit.

    It derives from BaseException, since compilers catch Exception.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager that raises TooLongError after the given seconds.

    On systems without interval timers, it has no effect.
    """

    def ring(*_: Any) -> None:
        raise TooLongError(f"not done after {seconds:.0f} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def milliseconds(call: Call) -> float:
    """Return the time of a call in milliseconds, excluding the release of its results."""
    begin = time.perf_counter()
    result = call()
    taken = (time.perf_counter() - begin) * 1e3
    del result
    return taken


def copy_call(threads: int) -> Call:
    """Return a function that copies memory on several threads, to measure the memory bandwidth."""
    source, target = np.ones(COPIED, np.uint8), np.ones(COPIED, np.uint8)
    part = COPIED // threads
    pool = ThreadPoolExecutor(threads)

    def move(k: int) -> None:
        ctypes.memmove(target.ctypes.data + k * part, source.ctypes.data + k * part, part)

    return lambda: list(pool.map(move, range(threads)))


def difference(program: Program, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """Return a description of how results differ from the expected ones, or "" if they agree."""
    if [x.shape for x in found] != [x.shape for x in expected]:
        return f"shapes {[x.shape for x in found]}"
    for ours, right in zip(found, expected, strict=True):
        off = np.abs(ours.astype(np.float64) - right) / max(float(np.abs(right).max()), 1e-300)
        wrong = np.count_nonzero(~(off <= program.tolerance))
        if wrong > program.outliers * off.size:
            return f"wrong: off by {float(off.max()):.1e} of the largest value"
    return ""


def run_program(
    program: Program,
    inputs: Arrays,
    peers: Sequence[Peer],
    threads: int,
    turns: int,
    seconds: float = math.inf,
    check: bool = True,
) -> Result:
    """Check a program on weft and its peers, then time them alternately.

    This takes about `seconds` at most. Peers for which there is no time are left out.
    """
    result = Result(program.name, streams=program.streams)
    end = time.monotonic() + seconds
    expected = program.expected(inputs) if check else None
    gpu = device_copy()
    calls: dict[str, Call] = {}
    timers: dict[str, Timer] = {}
    for peer in (WEFT, *peers):
        left = end - time.monotonic()
        if left < seconds / 3 and peer is not WEFT:
            result.problems[peer.name] = "left out: no time"
            continue
        try:
            with time_limit(min(COMPILE_SECONDS, left)):
                begin = time.perf_counter()
                call = peer.prepare(program, inputs)
                found = call()
                first = (time.perf_counter() - begin) * 1e3
                arrays = as_numpy(found)
                moved = sum(x.nbytes for x in inputs) + sum(x.nbytes for x in arrays)
                wrong = difference(program, arrays, expected) if expected is not None else ""
                del found, arrays
                timer = peer.timer() if gpu and peer.timer is not None else None
        except (Exception, TooLongError) as error:  # a peer may fail in any way, and the others continue
            result.problems[peer.name] = as_problem(error)
            continue
        result.first_ms[peer.name] = first
        result.moved = result.moved or moved
        if wrong:
            result.problems[peer.name] = wrong
        else:
            calls[peer.name] = call
            if timer is not None:
                timers[peer.name] = timer
    del expected
    if WEFT.name in calls:
        warm_up(calls[WEFT.name], "interpreted")
    calls["copy"], result.copied = gpu or (copy_call(threads), COPIED)
    take_turns(result, calls, timers, turns, min(SECONDS, max(end - time.monotonic(), 1.0)))
    return result


def warm_up(call: Call, *others: str) -> None:
    """Call weft until two successive calls neither plan nor compile anything.

    Reading a plan from disk counts as planning. At least `WARM_CALLS` calls are made, for at least `WARM_LEAST`
    seconds. After these calls, no call begins later than `WARM_SECONDS`.

    `others` are further names in `weft.statistics` of counters that must not increase.
    """
    begin, calls, quiet = time.perf_counter(), 0, 0
    while calls < WARM_CALLS or time.perf_counter() - begin < (WARM_LEAST if quiet >= 2 else WARM_SECONDS):
        before = wf.statistics()
        call()
        after = wf.statistics()
        calls += 1
        same = all(before[n] == after[n] for n in ("plans", "plans_read", "compilations", *others))
        quiet = quiet + 1 if same and not after["compiling"] else 0


def as_problem(error: BaseException) -> str:
    """Return an error as one line of text."""
    return f"{type(error).__name__}: {str(error).strip()[:120]}"


def take_turns(
    result: Result, calls: dict[str, Call], timers: dict[str, Timer], turns: int, seconds: float = SECONDS
) -> None:
    """Time all calls alternately, once per turn.

    A call that takes less than a millisecond is repeated. The times of the first turn are discarded.

    A call that fails or takes too long is removed.
    """
    taken, events = result.turns_ms, result.events_ms
    begin = time.perf_counter()
    times = dict.fromkeys(calls, 1)
    enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(turns + 1):
            if turn > 3 and time.perf_counter() - begin > seconds:
                break
            for name, call in list(calls.items()):
                time.sleep(PAUSE)
                try:
                    with time_limit(COMPILE_SECONDS):
                        found, on_device = one_turn(call, timers.get(name), times[name])
                        warm = 0.0 if turn else min(milliseconds(call) for _ in range(2))
                except (Exception, TooLongError) as error:
                    result.problems[name] = as_problem(error)
                    for kept in (calls, taken, events):
                        kept.pop(name, None)
                    continue
                if turn:
                    taken.setdefault(name, []).append(found)
                    if on_device is not None:
                        events.setdefault(name, []).append(on_device)
                else:
                    times[name] = min(MOST_TIMES, max(1, round(FILLED / max(warm, 1e-6))))
    finally:
        if enabled:
            gc.enable()


def one_turn(call: Call, timer: Timer | None, times: int) -> tuple[float, float | None]:
    """Measure the mean time per call in milliseconds, both with the host's clock and with `timer`, which uses the GPU's clock.

    Without a timer, the second time is None.
    """
    if timer is not None:
        timer.start()
    found = sum(milliseconds(call) for _ in range(times)) / times
    return found, timer.stop() / times if timer is not None else None


def measure(
    *,
    threads: int = 0,
    peers: Sequence[str] | None = None,
    only: Sequence[str] = (),
    turns: int = TURNS,
    quick: bool = False,
    more: Sequence[Program] = (),
    device: str = "cpu",
    minutes: float = math.inf,
    tell: Callable[[list[Result]], None] = lambda results: None,
) -> list[Result]:
    """Measure programs with weft and with other libraries: the programs of the suite, and additional ones in `more`.

    `only` selects the programs whose names contain one of its parts. `peers` are names of peers, or None for all that
    are installed.

    After each program, `tell` is called with all results so far.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    chosen = [p for p in installed(device) if peers is None or p.name.lower() in {name.lower() for name in peers}]
    results = []
    wanted = [p for p in (*PROGRAMS, *more) if not only or any(part.lower() in p.name.lower() for part in only)]
    end = time.monotonic() + 60 * minutes
    for k, program in enumerate(wanted):
        inputs = program.inputs(np.random.default_rng(0), program.quick if quick else program.size)
        seconds = (end - time.monotonic()) / (len(wanted) - k)
        results.append(run_program(program, inputs, chosen, threads or available, turns, seconds))
        tell(results)
    return results


# -- reports ----------------------------------------------------------------------------------


def summary(results: Sequence[Result]) -> dict[str, float]:
    """Return the totals of the suite, as a dict from descriptions to numbers."""
    compared = [r for r in results if r.best is not None]
    best = [r.ratio(r.best) for r in compared if r.best is not None]
    return {
        "programs": len(results),
        "at least as fast as the best peer": sum(v >= 1 for v in best),
        "geometric mean, best peer / weft": round(geometric_mean(best), 3),
        **{
            f"geometric mean, {name} / weft": round(geometric_mean(ratios), 2)
            for name in ("NumPy", BY_HAND)
            if (ratios := [r.ratio(name) for r in compared if name in r.turns_ms])
        },
    }


def as_markdown(results: Sequence[Result], facts: dict[str, Any]) -> str:
    """Return a Markdown report of the results."""
    names = [WEFT.name, *dict.fromkeys(n for r in results for n in (*r.first_ms, *r.problems) if n != WEFT.name)]
    head = ["program", *names, "best peer", "ratio", "by fastest turns", "NumPy / weft", "GB/s", "share of copy"]
    lines = [
        ", ".join(f"{key} {value}" for key, value in facts.items()),
        "",
        f"| {' | '.join(head)} |",
        "|" + " --- |" * len(head),
    ]
    for r in results:
        cells = [f"{r.median(n):.2f} ± {r.spread(n):.2f}" if n in r.turns_ms else "-" for n in names]
        best = r.best
        cells += [best or "-", f"{r.ratio(best):.2f}" if best else "-", f"{r.quickest(best):.2f}" if best else "-"]
        cells.append(f"{r.ratio('NumPy'):.1f}" if best and "NumPy" in r.turns_ms else "-")
        cells.append(f"{r.moved / r.median(WEFT.name) / 1e6:.1f}" if WEFT.name in r.turns_ms else "-")
        cells.append(f"{100 * r.share():.0f} %" if WEFT.name in r.turns_ms else "-")
        lines.append(f"| {r.program} | {' | '.join(cells)} |")
    lines += ["", *(f"- {key}: {value}" for key, value in summary(results).items())]
    if any(r.events_ms for r in results):
        lines += ["", "By the GPU's clock (ms):", "", f"| program | {' | '.join(names)} |"]
        lines.append("|" + " --- |" * (len(names) + 1))
        for r in results:
            cells = [f"{statistics.median(r.events_ms[n]):.3f}" if n in r.events_ms else "-" for n in names]
            lines.append(f"| {r.program} | {' | '.join(cells)} |")
    lines += [
        "",
        "First call, with compiling (ms):",
        "",
        f"| program | {' | '.join(names)} |",
        "|" + " --- |" * (len(names) + 1),
    ]
    for r in results:
        cells = [f"{r.first_ms[n]:.0f}" if n in r.first_ms else "-" for n in names]
        lines.append(f"| {r.program} | {' | '.join(cells)} |")
    problems = [f"- {r.program}, {name}: {text}" for r in results for name, text in r.problems.items()]
    return "\n".join([*lines, *(["", "Left out:", "", *problems] if problems else [])]) + "\n"


def as_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Convert each program's results to a dict for a JSON file. The dict contains every measured time."""
    return [
        {
            "program": r.program,
            "bytes": r.moved,
            "bandwidth_bound": r.streams,
            "first_ms": {k: round(v, 3) for k, v in r.first_ms.items()},
            "turns_ms": {k: [round(v, 4) for v in values] for k, values in r.turns_ms.items()},
            "events_ms": {k: [round(v, 4) for v in values] for k, values in r.events_ms.items()},
            "problems": r.problems,
            "best_peer": r.best,
            "ratio": round(r.ratio(r.best), 4) if r.best else None,
            "share_of_copy": round(r.share(), 4) if WEFT.name in r.turns_ms else None,
        }
        for r in results
    ]
