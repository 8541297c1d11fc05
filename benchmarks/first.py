"""First calls in new processes, for chains of about ten operations on a million elements.

Each chain runs on each side in a separate process (`benchmarks.processes`). Weft runs in two processes: one with an
empty cache, and one with the cache that the first process has filled.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import programs_report
from benchmarks.processes import WEFT, Effort, Outcome, measure
from benchmarks.subjects import compare, numpy_results, numpy_subject, weft_call
from benchmarks.worker import Subject

ELEMENTS, QUICK_ELEMENTS = 1_000_000, 20_000


def arithmetic(xp: Any, x: Any, y: Any) -> Any:
    """Return the result of a chain of arithmetic operations."""
    z = (x + y) * 0.5
    z = z - x * y
    z = z * z + x
    return (z + 1.0) / (y + 2.0) - 3.0


def functions(xp: Any, x: Any, y: Any) -> Any:
    """Return the result of a chain of operations with five elementary functions, such as `exp`."""
    z = xp.exp(-x) * xp.sin(y)
    z = xp.sqrt(x * x + y) + z
    return xp.tanh(z) / (xp.log(y + 2.0))


def norms(xp: Any, x: Any, y: Any) -> Any:
    """Return the squares of standardized values, and the sum of the positive values."""
    z = x * y + x
    z = (z - z.mean()) / z.std()
    return z * z, xp.maximum(z, 0.0).sum()


CHAINS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (arithmetic, functions, norms)}


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a chain of operations as a `Subject` that runs it with NumPy or with weft."""
    chain, source = CHAINS[spec["name"]], np.random.default_rng(21)
    values = [source.random(spec["elements"]), source.random(spec["elements"])]
    if spec["side"] != WEFT:
        return numpy_subject(lambda x, y: chain(np, x, y), values, numpy_results)
    import weft as wf

    return weft_call(lambda x, y: chain(wf, x, y), wf.asarray, values, numpy_results)


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the selected chains of operations, print a line for each chain, and write the results."""
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    elements = QUICK_ELEMENTS if options.quick else ELEMENTS
    report = programs_report.Report("first", facts, options.out)
    outcomes = list[Outcome]()
    for name in options.programs.split(",") if options.programs else CHAINS:
        spec = {"suite": "first", "name": name, "elements": elements}
        outcomes.append(measure(spec, (), lambda side, theirs, ours: compare(ours, theirs), effort))
        report.add(outcomes)
    print(report.text(outcomes))
