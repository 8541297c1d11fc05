"""Random numbers from NumPy's streams: large arrays, and Monte Carlo programs.

Times are medians over the turns; in each turn, NumPy and weft run once. Results are compared first: the arrays of
random numbers and the generators' states have to be equal.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import weft as wf
from benchmarks.reports import bullets, one_line, table, write, write_json

ELEMENTS = 10_000_000
QUICK = 200_000
# Number of elements that are drawn first, so that native code is compiled, and seconds that the compilation may take.
WARM = 5_000_000
COMPILING = 2.0

Program = Callable[[Any, Any, int], Any]


def pi(m: Any, rng: Any, n: int) -> float:
    """Return the fraction of random points that lie in the unit circle, about pi / 4."""
    x, y = rng.random(n), rng.random(n)
    return float((x * x + y * y <= 1.0).mean())


def _price(m: Any, start: float, drift: float, volatility: float, normals: Any) -> Any:
    return start * m.exp(drift + volatility * normals)


def option(m: Any, rng: Any, n: int) -> float:
    """Estimate the expected payoff of a financial option by Monte Carlo simulation. The payoff depends on the average price of three assets."""
    x, y, z = rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(n)
    prices = (
        lambda: _price(m, 100.0, 0.02, 0.2, x),
        lambda: _price(m, 95.0, 0.015, 0.25, 0.6 * x + 0.8 * y),
        lambda: _price(m, 105.0, 0.01, 0.3, 0.5 * x + 0.3 * y + 0.81 * z),
    )
    return float(m.maximum(sum(price() for price in prices) / 3.0 - 100.0, 0.0).mean())


PROGRAMS: dict[str, Program] = {
    "random": lambda m, rng, n: rng.random(n),
    "uniform": lambda m, rng, n: rng.uniform(-1.0, 3.0, n),
    "standard_normal": lambda m, rng, n: rng.standard_normal(n),
    "standard_exponential": lambda m, rng, n: rng.standard_exponential(n),
    "integers": lambda m, rng, n: rng.integers(0, 1000, n),
    "random, float32": lambda m, rng, n: rng.random(n, np.float32),
    "standard_normal, float32": lambda m, rng, n: rng.standard_normal(n, np.float32),
    "integers, uint8": lambda m, rng, n: rng.integers(0, 100, n, np.uint8),
    "gumbel": lambda m, rng, n: rng.gumbel(0.0, 1.0, n),
    "standard_normal, PCG64DXSM": lambda m, rng, n: rng.standard_normal(n),
    "standard_normal, Philox": lambda m, rng, n: rng.standard_normal(n),
    "Monte Carlo pi": pi,
    "Monte Carlo option": option,
    "Monte Carlo pi, Philox": pi,
}
KINDS = {"PCG64DXSM": np.random.PCG64DXSM, "Philox": np.random.Philox}  # other programs use PCG64
WANTED = {"random": 2.5, "standard_normal": 2.5, "Monte Carlo pi": 6.0, "Monte Carlo option": 6.0}


@dataclass(frozen=True)
class Line:
    """The measurements of a program with NumPy and with weft."""

    program: str
    numpy_ms: float
    weft_ms: float
    ratio: float
    wanted: float
    correct: bool
    kernels: int
    megabytes: float


def measure_program(name: str, elements: int, turns: int) -> Line:
    """Measure a program with NumPy and with weft, and compare the results."""
    program = PROGRAMS[name]
    kind = KINDS.get(name.split(", ")[-1], np.random.PCG64)
    ours, theirs = wf.random.Generator(kind(5)), np.random.Generator(kind(5))

    def run(m: Any, rng: Any) -> tuple[float, Any]:
        begin = time.perf_counter()
        found = program(m, rng, elements)
        if isinstance(found, wf.Array):
            wf.evaluate(found)
        return time.perf_counter() - begin, found

    correct = True
    for _ in range(4):  # (the first runs are interpreted)
        found, expected = np.asarray(run(wf, ours)[1]), np.asarray(run(np, theirs)[1])
        # (weft sums in a different order)
        close = np.allclose(found, expected, rtol=1e-9) if not found.shape else np.array_equal(found, expected)
        correct = correct and close and str(ours.bit_generator.state) == str(theirs.bit_generator.state)
    wf.reset_statistics()
    run(wf, ours)
    counts = wf.statistics()
    pairs = [(run(np, theirs)[0], run(wf, ours)[0]) for _ in range(turns)]
    return Line(
        name,
        numpy_ms=1e3 * statistics.median(p[0] for p in pairs),
        weft_ms=1e3 * statistics.median(p[1] for p in pairs),
        ratio=statistics.median(p[0] / p[1] for p in pairs),
        wanted=WANTED.get(name, 1.0),
        correct=correct,
        kernels=counts["kernels"],
        megabytes=counts["bytes"] / 1e6,
    )


def as_markdown(lines: list[Line], facts: dict[str, Any]) -> str:
    """Return a Markdown report of the measurements."""
    rows = [
        [
            line.program,
            f"{line.numpy_ms:.1f}",
            f"{line.weft_ms:.1f}" + ("" if line.correct else ", wrong"),
            f"{line.ratio:.1f}",
            f"{line.wanted:.1f}",
            f"{line.kernels}",
            f"{line.megabytes:.2f}",
        ]
        for line in lines
    ]
    head = ["program", "NumPy, ms", "weft, ms", "ratio", "wanted", "kernels", "MB that kernels move"]
    found = {"below the ratio that is wanted": sum(x.ratio < x.wanted for x in lines)}
    found["wrong"] = sum(not x.correct for x in lines)
    return f"{one_line(facts)}\n{table(head, rows)}\n{bullets(found)}"


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print the times, and write the results."""
    for kind in () if options.quick else (np.random.PCG64, *KINDS.values()):
        wf.evaluate(wf.random.Generator(kind(0)).random(WARM))
        time.sleep(COMPILING)
    elements = QUICK if options.quick else ELEMENTS
    names = [name for name in PROGRAMS if not options.only or any(part in name for part in options.only)]
    lines = [measure_program(name, elements, options.turns) for name in names]
    print(as_markdown(lines, facts))
    write(options.out, "draws.md", as_markdown(lines, facts))
    write_json(options.out, "draws.json", {**facts, "elements": elements, "results": [asdict(x) for x in lines]})
