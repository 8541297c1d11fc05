"""Times of the programs of the documentation's gallery.

At the sizes that are measured, weft should be faster than NumPy. Each program is a file with a function ``main(size)``,
in `benchmarks.classical` or in ``docs/gallery``. Each side runs in a separate process, with one thread. The measured
time is processor time, which depends little on other work on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reports import write
from benchmarks.subjects import compare, load_module, numpy_results, numpy_subject, weft_subject

ROOT = Path(__file__).resolve().parents[1]
CLASSICAL, OWN = "benchmarks/classical", "docs/gallery"


@dataclass(frozen=True)
class Shown:
    """A program of the gallery: its folder, its size in the benchmark, and its size in the picture."""

    folder: str
    size: int
    picture: int

    def path(self, name: str) -> Path:
        """Return the path of the file of the program `name`."""
        return ROOT / self.folder / f"{name}.py"


PROGRAMS = {
    "black_scholes": Shown(CLASSICAL, 400_000, 20_000),
    "gray_scott": Shown(CLASSICAL, 512, 160),
    "heat": Shown(OWN, 1200, 200),
    "image_filters": Shown(OWN, 1500, 300),
    "ising": Shown(CLASSICAL, 300, 200),
    "k_means": Shown(CLASSICAL, 40_000, 20_000),
    "lattice_boltzmann": Shown(CLASSICAL, 480, 260),
    "life": Shown(CLASSICAL, 1000, 200),
    "mandelbrot": Shown(CLASSICAL, 1600, 400),
    "n_body": Shown(CLASSICAL, 300, 300),
    "pagerank": Shown(CLASSICAL, 50_000, 20_000),
    "poisson": Shown(CLASSICAL, 600, 160),
    "principal_components": Shown(CLASSICAL, 20_000, 5_000),
    "ray_marcher": Shown(CLASSICAL, 240, 240),
    "seawater": Shown(OWN, 700, 200),
    "spectrogram": Shown(CLASSICAL, 2_000_000, 100_000),
    "wave_fdtd": Shown(CLASSICAL, 300, 140),
}


NUMPY, WEFT = "NumPy", "weft"
ONE_CORE = dict.fromkeys(("WEFT_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Minimum number and minimum seconds of warm-up calls; then the number of calls whose shortest time is reported
WARM_CALLS, WARM_SECONDS, TIMED_CALLS = 5, 4.0, 3
MOST_CALLS = 60


def time_calls(name: str, side: str, size: int, results: Path) -> dict[str, float]:
    """Time calls of a program in this process, and save the program's results.

    Returns
    -------
    dict
        Processor seconds of the ``first`` call, and of the shortest ``warm`` call.
    """
    path = PROGRAMS[name].path(name)
    if side == WEFT:
        subject = weft_subject(path, "main", [size], numpy_results)
    else:
        subject = numpy_subject(load_module(path).main, [size], numpy_results)
    seconds: list[float] = []
    last = WARM_CALLS
    while len(seconds) < last + TIMED_CALLS:
        arguments = subject.arguments()
        begin = time.process_time()
        returned = subject.call(arguments)
        seconds.append(time.process_time() - begin)
        if len(seconds) == last and sum(seconds) < WARM_SECONDS and last < MOST_CALLS:
            last += 1
    np.savez(results, **subject.results(arguments, returned))
    return {"first": seconds[0], "warm": min(seconds[last:])}


def start(name: str, side: str, size: int, results: Path, cache: Path) -> dict[str, float]:
    """Run `time_calls` for a program in a new process."""
    command = [sys.executable, "-m", "benchmarks.gallery", name, side, str(size), str(results)]
    environment = {**os.environ, **ONE_CORE, "WEFT_CACHE_DIR": str(cache), "WEFT_DEVICE": "cpu"}
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, size: int) -> dict[str, Any]:
    """Measure a program with NumPy, and with weft on an empty and on a filled cache.

    Each of these measurements runs in a new process. Raises ValueError if the results differ.
    """
    with tempfile.TemporaryDirectory(prefix="weft-gallery-", ignore_cleanup_errors=True) as folder:
        files = {side: Path(folder) / f"{side}.npz" for side in (NUMPY, WEFT)}
        numpy = start(name, NUMPY, size, files[NUMPY], Path(folder))
        empty = start(name, WEFT, size, files[WEFT], Path(folder))
        filled = start(name, WEFT, size, files[WEFT], Path(folder))
        with np.load(files[NUMPY]) as theirs, np.load(files[WEFT]) as ours:
            if text := compare(dict(ours), dict(theirs)):
                raise ValueError(f"{name}: {text}")
    warm = min(empty["warm"], filled["warm"])
    return {
        "program": name,
        "size": size,
        "numpy": numpy["warm"],
        "weft": warm,
        "ratio": numpy["warm"] / warm,
        "first call, NumPy": numpy["first"],
        "first call, empty cache": empty["first"],
        "first call, filled cache": filled["first"],
    }


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, and print and write the results after each of them."""
    results = []
    for name in options.programs.split(",") if options.programs else PROGRAMS:
        size = PROGRAMS[name].picture if options.quick else PROGRAMS[name].size
        found = measure(name, size)
        results.append(found)
        print(
            f"{name}: NumPy {found['numpy']:.4f} s, weft {found['weft']:.4f} s, ratio {found['ratio']:.2f}", flush=True
        )
        if options.out is not None:
            kept = {**facts, "seconds": "processor time on one core", "results": results}
            write(options.out, "gallery.json", json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    print(json.dumps(time_calls(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))))
