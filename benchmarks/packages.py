"""Tutorial programs of packages that use NumPy arrays, on weft and on NumPy.

The programs are in `tests.clients.packages`, one per file, with a function ``main()`` that prints its results. The
printed texts are compared. Each program runs with NumPy and with weft in separate processes (`benchmarks.processes`).
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import programs_report
from benchmarks.processes import WEFT, Effort, Outcome, measure
from benchmarks.subjects import load_module, numpy_subject, weft_subject
from benchmarks.worker import Subject
from weft.dsl.script.redirect import redirect

FOLDER = Path(__file__).parent.parent / "tests" / "clients" / "packages"
SLOWEST = 0.6  # (programs with a smaller ratio of NumPy's time to weft's are counted)


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a program as a `Subject` that runs it with NumPy or with weft.

    Weft's redirection of imports lasts until the process ends.
    """
    path, printed = FOLDER / f"{spec['name']}.py", io.StringIO()
    folder = tempfile.TemporaryDirectory()  # (for the files that packages write to the current folder)
    os.chdir(folder.name)

    def results(arguments: list[Any], returned: Any) -> dict[str, np.ndarray]:
        return {"printed": np.array(printed.getvalue())}

    if spec["side"] == WEFT:
        subject = weft_subject(path, "main", [], results)
        redirect(str(FOLDER))  # (as in ``weft run``, so that libraries are distinguished from the program)
    else:
        subject = numpy_subject(load_module(path).main, [], results)
    run = subject.call
    weakref.finalize(subject, folder.cleanup)

    def call(arguments: list[Any]) -> None:
        printed.seek(printed.truncate(0))
        with redirect_stdout(printed):
            run(arguments)

    subject.call = call
    return subject


def differs(side: str, theirs: Mapping[str, np.ndarray], ours: Mapping[str, np.ndarray]) -> str:
    """Return a description of the first line that differs from NumPy's output, or "".

    If one output has fewer lines than the other, its missing lines count as empty.
    """
    expected, found = (str(results["printed"]).splitlines() for results in (theirs, ours))
    pairs = zip_longest(found, expected, fillvalue="")
    return next((f"{x!r} instead of {y!r}" for x, y in pairs if x != y), "")


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the totals of the suite: a dict whose only entry is the number of programs that are slow on weft.

    A program is slow if the ratio of NumPy's time to weft's is below `SLOWEST`.
    """
    ratios = [ratio for o in outcomes if (ratio := o.ratio()) is not None]
    return {f"below {SLOWEST} of NumPy's speed": sum(ratio < SLOWEST for ratio in ratios)}


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print a line for each, and write the results."""
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    report = programs_report.Report("packages", facts, options.out, totals=totals)
    outcomes = list[Outcome]()
    for name in options.programs.split(",") if options.programs else sorted(path.stem for path in FOLDER.glob("*.py")):
        outcomes.append(measure({"suite": "packages", "name": name}, (), differs, effort))
        report.add(outcomes)
    print(report.text(outcomes))
