"""Programs that loop over elements, rows and slices of large arrays, on weft and on NumPy.

The programs are the functions of `benchmarks.element_programs`. Each program runs on each side in a process of its own
(`benchmarks.processes`).
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import element_programs, programs_report
from benchmarks.classics import differs
from benchmarks.processes import WEFT, Effort, Outcome, measure
from benchmarks.subjects import load_module, numpy_results, numpy_subject, weft_subject
from benchmarks.worker import Subject

FILE = Path(element_programs.__file__)
PROGRAMS = [
    name
    for name, function in vars(element_programs).items()
    if inspect.isfunction(function) and list(inspect.signature(function).parameters) == ["n"]
]
ITERATIONS, FEW = 3_000, 200


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a program as a `Subject` that runs it with NumPy or with weft."""
    if spec["side"] == WEFT:
        return weft_subject(FILE, spec["name"], [spec["size"]], numpy_results)
    return numpy_subject(getattr(load_module(FILE), spec["name"]), [spec["size"]], numpy_results)


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print a line for each, and write the results."""
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    report = programs_report.Report("elements", facts, options.out)
    outcomes = list[Outcome]()
    for name in options.programs.split(",") if options.programs else PROGRAMS:
        spec = {"suite": "elements", "name": name, "size": FEW if options.quick else ITERATIONS}
        outcomes.append(measure(spec, (), differs, effort))
        report.add(outcomes)
    print(report.text(outcomes))
