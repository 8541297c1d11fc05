"""The programs of the documentation's gallery, at sizes at which weft should pay.

Each program is a file with a function ``main(size)``, in `benchmarks.classical` or in ``docs/gallery``. Each side runs in a
process of its own (`benchmarks.processes`).
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

ROOT = Path(__file__).resolve().parents[1]
CLASSICAL, OWN = "benchmarks/classical", "docs/gallery"


@dataclass(frozen=True)
class Shown:
    """A program of the gallery: its folder, the size that is measured, and the size of its picture."""

    folder: str
    size: int
    picture: int

    def path(self, name: str) -> Path:
        """Return the program's file."""
        return ROOT / self.folder / f"{name}.py"


PROGRAMS = {
    "black_scholes": Shown(CLASSICAL, 1_000_000, 20_000),
    "gray_scott": Shown(CLASSICAL, 512, 160),
    "heat": Shown(OWN, 1500, 200),
    "image_filters": Shown(OWN, 2000, 300),
    "ising": Shown(CLASSICAL, 1000, 200),
    "k_means": Shown(CLASSICAL, 200_000, 20_000),
    "lattice_boltzmann": Shown(CLASSICAL, 600, 260),
    "life": Shown(CLASSICAL, 1500, 200),
    "mandelbrot": Shown(CLASSICAL, 1000, 400),
    "n_body": Shown(CLASSICAL, 600, 300),
    "pagerank": Shown(CLASSICAL, 400_000, 20_000),
    "poisson": Shown(CLASSICAL, 600, 160),
    "principal_components": Shown(CLASSICAL, 50_000, 5_000),
    "ray_marcher": Shown(CLASSICAL, 480, 240),
    "seawater": Shown(OWN, 1500, 200),
    "spectrogram": Shown(CLASSICAL, 500_000, 100_000),
    "wave_fdtd": Shown(CLASSICAL, 800, 140),
}


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a program for NumPy or for weft."""
    path = PROGRAMS[spec["name"]].path(spec["name"])
    if spec["side"] == WEFT:
        return weft_subject(path, "main", [spec["size"]], numpy_results)
    return numpy_subject(load_module(path).main, [spec["size"]], numpy_results)


def differs(side: str, theirs: Mapping[str, np.ndarray], ours: Mapping[str, np.ndarray]) -> str:
    """Return a description of how a side's results differ from NumPy's."""
    return compare(ours, theirs)


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the programs that are slower than NumPy's when warm."""
    slower = [o.program for o in outcomes if (ratio := o.ratio()) is not None and ratio < 1]
    return {"slower than NumPy": f"{len(slower)}: {', '.join(slower)}"}


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print a line for each, and write the results."""
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    report = programs_report.Report("gallery", facts, options.out, totals=totals)
    outcomes = list[Outcome]()
    for name in options.programs.split(",") if options.programs else PROGRAMS:
        size = PROGRAMS[name].picture if options.quick else PROGRAMS[name].size
        outcomes.append(measure({"suite": "gallery", "name": name, "size": size}, (), differs, effort))
        report.add(outcomes)
    print(report.text(outcomes))
