"""A benchmark of classical NumPy programs. It compares weft's times for these programs with NumPy's times.

The programs are in `benchmarks.classical`, one per file, with a function ``main(size)``. Each program runs on each side
in a separate process (`benchmarks.processes`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import programs_report
from benchmarks.processes import WEFT, Effort, Outcome, measure
from benchmarks.subjects import compare, load_module, numpy_results, numpy_subject, weft_subject
from benchmarks.worker import Subject

FOLDER = Path(__file__).parent / "classical"
# targets of each program: NumPy / weft, and for large arrays the fraction of time in kernels
SLOWEST, KERNEL_SHARE = 0.6, 0.7


@dataclass(frozen=True)
class Classic:
    """A classical program: its normal size, its size in tests, and whether it uses large arrays.

    A large array has more than 10,000 elements.
    """

    size: int
    small: int
    large: bool


PROGRAMS = {
    "black_scholes": Classic(50_000, 500, True),
    "conjugate_gradient": Classic(200, 20, True),
    "gaussian_mixture": Classic(20_000, 500, True),
    "gray_scott": Classic(256, 40, True),
    "heat_implicit": Classic(300, 20, False),
    "householder": Classic(300, 20, False),
    "ising": Classic(256, 20, True),
    "k_means": Classic(20_000, 500, True),
    "kalman": Classic(1_000, 20, False),
    "knapsack": Classic(200_000, 1_000, True),
    "lattice_boltzmann": Classic(400, 40, True),
    "life": Classic(512, 20, True),
    "logistic_regression": Classic(20_000, 600, False),
    "lstm": Classic(128, 8, False),
    "mandelbrot": Classic(400, 30, True),
    "n_body": Classic(300, 20, True),
    "pagerank": Classic(20_000, 200, True),
    "poisson": Classic(300, 20, True),
    "principal_components": Classic(5_000, 200, False),
    "ray_marcher": Classic(240, 24, True),
    "sir": Classic(20_000, 200, True),
    "smith_waterman": Classic(800, 30, False),
    "spectrogram": Classic(100_000, 2_000, True),
    "wave_fdtd": Classic(300, 40, True),
}


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a program as a `Subject` that runs it with NumPy or with weft."""
    path = FOLDER / f"{spec['name']}.py"
    if spec["side"] == WEFT:
        return weft_subject(path, "main", [spec["size"]], numpy_results)
    return numpy_subject(load_module(path).main, [spec["size"]], numpy_results)


def differs(side: str, theirs: Mapping[str, np.ndarray], ours: Mapping[str, np.ndarray]) -> str:
    """Return a description of how results differ from NumPy's, or "" if they agree."""
    return compare(ours, theirs)


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the totals that only this suite reports, keyed by description."""
    ratios = [ratio for o in outcomes if (ratio := o.ratio()) is not None]
    large = [o for o in outcomes if PROGRAMS[o.program].large and o.kernel_share is not None]
    planning = [o.program for o in outcomes if programs_report.steady_plans(o)]
    elsewhere = [o.program for o in large if (o.kernel_share or 0.0) < KERNEL_SHARE]
    return {
        f"below {SLOWEST} of NumPy's speed": sum(ratio < SLOWEST for ratio in ratios),
        "plans made in the third call or later": f"{len(planning)}: {', '.join(planning)}",
        f"less than {100 * KERNEL_SHARE:.0f} % of the time in kernels, of programs with large arrays": (
            f"{len(elsewhere)} of {len(large)}: {', '.join(elsewhere)}"
        ),
    }


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print a line for each, and write the results."""
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    report = programs_report.Report("classical", facts, options.out, totals=totals)
    outcomes = list[Outcome]()
    for name in options.programs.split(",") if options.programs else PROGRAMS:
        size = PROGRAMS[name].small if options.quick else PROGRAMS[name].size
        outcomes.append(measure({"suite": "classics", "name": name, "size": size}, (), differs, effort))
        report.add(outcomes)
    print(report.text(outcomes))
