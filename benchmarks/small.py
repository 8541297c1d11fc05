"""Times of single statements on arrays of 4 to 10,000 elements.

Both libraries are timed alternately in one process. A ratio is NumPy's time divided by weft's, as the median over the
turns.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import weft as wf
from benchmarks.reports import bullets, geometric_mean, one_line, table, write, write_json

# A statement for NumPy -> the statement for weft, in which `evaluate` computes a result that is an array.
EXPRESSIONS = {
    "x + y": "evaluate(x + y)",
    "x[1:] * y[:-1] + x[1:]": "evaluate(x[1:] * y[:-1] + x[1:])",
    "exp(x)": "evaluate(exp(x))",
    "float(x.sum())": "float(x.sum())",
    "a[i] = a[i - 1] * 0.5 + 1": "a[i] = a[i - 1] * 0.5 + 1",
    "float(x[:i] @ y[:i])": "float(x[:i] @ y[:i])",
}
SIZES = {4: 0.5, 1_000: 0.7, 10_000: 0.9}  # number of elements -> target ratio
FILLED = 2e-3  # minimum seconds of a turn
INDICES = 97  # number of values of i in a turn
WARM = 0.2  # seconds of calls before the first turn


@dataclass
class Line:
    """The times of a statement for one number of elements, with NumPy and with weft."""

    statement: str
    elements: int
    numpy_us: float
    weft_us: float
    ratio: float
    wanted: float
    correct: bool


def names(xp: Any, elements: int) -> dict[str, Any]:
    """Return a dict of the variables that the statements use.

    `order` contains the successive values of the index `i`.
    """
    source = np.random.default_rng(3)
    arrays = {name: xp.asarray(source.random(elements)) for name in "xya"}
    order = [1 + k * 7919 % (elements - 1) for k in range(INDICES)]
    return {**arrays, "exp": xp.exp, "evaluate": wf.evaluate, "order": order, "i": 1}


def value(statement: str, elements: int, xp: Any) -> np.ndarray:
    """Return the result of a statement as a NumPy array.

    An assignment is run for all values of `i`. The result is then the array `a`.
    """
    scope = names(xp, elements)
    if " = " in statement:
        exec(f"for i in order: {statement}", scope)
        return np.asarray(scope["a"])
    return np.asarray(eval(statement.removeprefix("evaluate"), scope))


def seconds_per_call(run: Callable[[int], float], repeats: int) -> float:
    """Return the mean time of a statement in seconds."""
    return run(repeats) / repeats / INDICES


def measure_line(statement: str, elements: int, turns: int) -> Line:
    """Time a statement alternately with NumPy and with weft, and compare the results."""
    calls, repeats = [], []
    for xp, text in ((np, statement), (wf, EXPRESSIONS[statement])):
        run = timeit.Timer(f"for i in order: {text}", globals=names(xp, elements)).timeit
        begin = time.perf_counter()
        while time.perf_counter() - begin < WARM:
            run(1)
        once = min(run(1) for _ in range(3))
        calls.append(run)
        repeats.append(max(1, math.ceil(FILLED / once)))
    pairs = [tuple(map(seconds_per_call, calls, repeats)) for _ in range(turns)]
    ours, theirs = value(EXPRESSIONS[statement], elements, wf), value(statement, elements, np)
    return Line(
        statement,
        elements,
        numpy_us=1e6 * statistics.median(p[0] for p in pairs),
        weft_us=1e6 * statistics.median(p[1] for p in pairs),
        ratio=statistics.median(p[0] / p[1] for p in pairs),
        wanted=SIZES[elements],
        correct=bool(np.allclose(ours, theirs, rtol=1e-12, atol=0)),
    )


def summary(lines: list[Line]) -> dict[str, Any]:
    """Return the totals over all statements."""
    found: dict[str, Any] = {
        f"geometric mean at {n:,} elements, NumPy / weft": round(
            geometric_mean([line.ratio for line in lines if line.elements == n]), 3
        )
        for n in SIZES
    }
    found["below the ratio that is wanted"] = sum(line.ratio < line.wanted for line in lines)
    found["wrong"] = sum(not line.correct for line in lines)
    return found


def as_markdown(lines: list[Line], facts: dict[str, Any]) -> str:
    """Return a Markdown table of the microseconds with NumPy and with weft, and their ratio."""
    rows = []
    for statement, text in EXPRESSIONS.items():
        cells = [f"`{text}`"]
        for line in lines:
            if line.statement == statement:
                wrong = "" if line.correct else ", wrong"
                cells.append(f"{line.numpy_us:.2f} / {line.weft_us:.2f} ({line.ratio:.2f}{wrong})")
        rows.append(cells)
    head = ["us: NumPy / weft (ratio)", *(f"{n:,} elements, wanted {wanted}" for n, wanted in SIZES.items())]
    return f"{one_line(facts)}\n{table(head, rows)}\n{bullets(summary(lines))}"


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure all statements, print the times, and write the results."""
    lines = [
        measure_line(statement, elements, 2 if options.quick else options.turns)
        for statement in EXPRESSIONS
        for elements in SIZES
    ]
    print(as_markdown(lines, facts))
    write(options.out, "small.md", as_markdown(lines, facts))
    write_json(options.out, "small.json", {**facts, "summary": summary(lines), "results": [asdict(x) for x in lines]})
