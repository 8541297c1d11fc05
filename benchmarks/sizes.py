"""Some programs of the fused suite, at several sizes.

Inputs and results have a thousand to a billion bytes. The sizes show the effects of launches, caches and memory.

If inputs and results together have at most `CHECKED` bytes, the results are compared with results in float64. Larger
sizes run the same kernels on more data.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.fused import Result, run_program
from benchmarks.peers import WEFT, installed
from benchmarks.programs import PROGRAMS, Program

SIZES = tuple(10**k for k in range(3, 10))  # bytes of the inputs and results
PARTS = ("axpy", "squared", "softmax", "b.T")
CHECKED = 10**8  # maximum bytes for which results are checked
SLOW = ("torch.compile", "NumPy")  # slow to compile for each size, or slow to run; skipped unless named
TURNS = 7


@dataclass(frozen=True)
class Point:
    """The measurements of a program at one size."""

    program: str
    nbytes: int
    result: Result

    def rate(self, name: str) -> float:
        """Return a library's memory throughput in GB/s: the bytes of inputs and results, divided by the median time."""
        return self.result.moved / self.result.median(name) / 1e6


def size_for(program: Program, nbytes: int) -> int:
    """Return the size at which a program's inputs and results have about `nbytes` bytes."""

    def moved(n: int) -> int:
        inputs = program.inputs(np.random.default_rng(0), n)
        return sum(x.nbytes for x in inputs) + sum(
            x.size * min(x.itemsize, inputs[0].itemsize) for x in program.expected(inputs)
        )

    # The number of bytes is nearly a power of the size.
    small, large = moved(64), moved(256)
    power = max(math.log(large / small, 4), 0.5)
    return max(4, round(256 * (nbytes / large) ** (1 / power)))


def measure(
    *,
    peers: Sequence[str] | None = None,
    only: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    threads: int = 0,
    device: str = "cpu",
    minutes: float = math.inf,
    tell: Callable[[list[Point]], None] = lambda points: None,
) -> list[Point]:
    """Measure programs at several sizes.

    After each measurement, `tell` is called with all results so far. `peers` are names of peers, or None for all
    installed peers except slow ones.
    """
    available = threads or len(os.sched_getaffinity(0))
    chosen = [
        p
        for p in installed(device)
        if (p.name not in SLOW if peers is None else p.name.lower() in {name.lower() for name in peers})
    ]
    programs = [p for p in PROGRAMS if any(part.lower() in p.name.lower() for part in only or PARTS)]
    cases = [(program, nbytes) for program in programs for nbytes in sizes]
    end = time.monotonic() + 60 * minutes
    points = []
    for k, (program, nbytes) in enumerate(cases):
        seconds = (end - time.monotonic()) / (len(cases) - k)
        inputs = program.inputs(np.random.default_rng(0), size_for(program, nbytes))
        try:
            found = run_program(program, inputs, chosen, available, TURNS, seconds, check=nbytes <= CHECKED)
        except MemoryError:
            continue  # the device has too little memory
        points.append(Point(program.name.partition(",")[0], nbytes, found))
        tell(points)
    return points


def series(points: Sequence[Point]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return a list of pairs (bytes, GB/s) for each program and peer."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for point in points:
        for name in point.result.turns_ms:
            if name != "copy":
                lines = found.setdefault(point.program, {}).setdefault(name, [])
                lines.append((float(point.result.moved), point.rate(name)))
    return found


def as_markdown(points: Sequence[Point], facts: dict[str, Any]) -> str:
    """Return a Markdown table of GB/s by size for each program."""
    lines = [", ".join(f"{key} {value}" for key, value in facts.items())]
    for program in dict.fromkeys(p.program for p in points):
        own = [p for p in points if p.program == program]
        names = dict.fromkeys(n for p in own for n in p.result.turns_ms if n != "copy")
        names = {WEFT.name: None, **names}
        lines += ["", f"{program}: GB/s", "", f"| bytes | {' | '.join(names)} |", "|" + " --- |" * (len(names) + 1)]
        for p in own:
            cells = [f"{p.rate(n):.4g}" if n in p.result.turns_ms else "-" for n in names]
            lines.append(f"| {p.result.moved:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the results as data for a JSON file, with all measured times instead of their medians."""
    return [
        {
            "program": p.program,
            "bytes": p.result.moved,
            "turns_ms": {k: [round(v, 5) for v in values] for k, values in p.result.turns_ms.items()},
            "events_ms": {k: [round(v, 5) for v in values] for k, values in p.result.events_ms.items()},
            "problems": p.result.problems,
        }
        for p in points
    ]
