"""Command ``python -m benchmarks [--device cpu|cuda] [--suite NAME ...] [--peers] [--out FOLDER]``.

The command runs benchmark suites, prints the results, and writes them as JSON, Markdown tables and pictures.

The suites `calls`, `classical`, `draws`, `elements`, `first`, `gallery`, `npbench`, `packages`, `small` and `sweep` run
only if they are named by ``--suite``. ``--suite npbench --data FOLDER [--preset S|M|L] [--programs a,b]`` measures the
programs of a checkout of spcl/npbench, each in processes of its own. ``--suite sweep`` measures single operations on a
million elements, ``--suite calls`` measures calls to NumPy's functions on 300 elements, ``--suite draws`` random
numbers, ``--suite elements`` loops over elements of large arrays, ``--suite packages`` the programs of
`tests.clients.packages`, and ``--suite first`` chains of ten operations in new processes. ``--suite classical
[--programs a,b]`` measures the programs of `benchmarks.classical`.

On the CPU, the suites `fused` and `sizes` run only if they are named, since they take minutes. On a GPU, `fused`,
`sizes`, `kernels`, `overhead` and `compile` run within ``--minutes`` (default 7), each in a process of its own.
``--peers`` compares weft with all installed peers, or with those named. ``--threads`` limits the threads of all
libraries, ``--only`` selects programs, ``--quick`` uses small sizes, and ``--more`` adds programs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from benchmarks import (
    calls,
    classics,
    compile,
    draws,
    elements,
    explicit,
    first,
    fused,
    gallery,
    idioms,
    kernels,
    launch_cost,
    launch_host,
    lengths,
    npbench,
    overhead,
    packages,
    peers,
    picture,
    pyhpc,
    sizes,
    small,
    sweep,
)
from benchmarks.more_programs import MORE
from benchmarks.reports import write
from weft.runtime import probe

# Suites whose functions return the results as text by name.
FIGURES: dict[str, tuple[Callable[[], dict[str, str]], ...]] = {
    "compile": (compile.measure,),
    "kernels": (kernels.measure, explicit.measure),
    "idioms": (idioms.measure,),
    "lengths": (lengths.measure,),
    "overhead": (overhead.measure, launch_cost.measure, launch_host.measure),
}
# Suites that print and write their results themselves.
SUITES: dict[str, Callable[[argparse.Namespace, dict[str, Any]], None]] = {
    "calls": calls.run,
    "classical": classics.run,
    "draws": draws.run,
    "elements": elements.run,
    "gallery": gallery.run,
    "first": first.run,
    "npbench": npbench.run,
    "packages": packages.run,
    "small": small.run,
    "sweep": sweep.run,
}
# Suites for a GPU, in the order in which they run, and the fraction of the time that each may take.
WHOLE = {"fused": 0.5, "sizes": 0.25, "kernels": 0.1, "overhead": 0.05, "compile": 0.1}
MINUTES = 7.0
GRACE = 20.0  # seconds beyond its time limit after which a suite is killed
PACKAGES = ("llvmlite", "cupy", "jax", "torch", "numba", "numba-cuda", "numexpr", "cuda-bindings")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark suites that the command's arguments select."""
    options = parser().parse_args(arguments)
    if options.device.startswith("cuda") and options.suite is None and not options.together:
        return run_apart(sys.argv[1:] if arguments is None else arguments, options.minutes or MINUTES)
    if options.threads:
        peers.limit_threads(options.threads)
    wf.set_default_device(options.device)
    on_gpu = wf.default_device().name.startswith("cuda")
    options.minutes = options.minutes or (MINUTES if on_gpu else math.inf)
    end = time.monotonic() + 60 * options.minutes
    facts = describe()
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    for name in options.suite or (WHOLE if on_gpu else sorted(FIGURES)):
        left = (end - time.monotonic()) / 60
        if left < 0.25 and options.suite is None:
            print(f"{name}: left out: no time")
            continue
        minutes = min(left, options.minutes * WHOLE.get(name, 1.0)) if options.suite is None else left
        match name:
            case "fused":
                run_fused(options, facts, minutes)
            case "sizes":
                run_sizes(options, facts, minutes)
            case _ if name in SUITES:
                SUITES[name](options, facts)
            case _:
                run_figures(name, options, facts)
    if options.out is not None:
        write(options.out, "README.md", as_index(options.out, facts))
    return 0


def run_apart(arguments: list[str], minutes: float) -> int:
    """Run each suite for a GPU in a separate process, and return the number of suites that failed.

    If a suite hangs or breaks the device, the others still run. Return 1 if there is no GPU.
    """
    found = probe()
    if found.status != "ok":
        print(f"no GPU: {found.message}{'; ' + found.remedy if found.remedy else ''}")
        return 1
    end, failed = time.monotonic() + 60 * minutes, 0
    for name, part in WHOLE.items():
        most = min(minutes * part, (end - time.monotonic()) / 60)
        if most < 0.25:
            print(f"{name}: left out: no time")
            continue
        command = [sys.executable, "-m", "benchmarks", *arguments, "--suite", name, "--minutes", f"{most:.2f}"]
        try:
            failed += subprocess.run(command, check=False, timeout=60 * most + GRACE).returncode != 0
        except subprocess.TimeoutExpired:
            failed += 1
            print(f"{name}: no end after {most:.1f} minutes")
    return failed


def parser() -> argparse.ArgumentParser:
    """Return the parser for the command's options."""
    made = argparse.ArgumentParser(prog="benchmarks")
    made.add_argument("--suite", choices=sorted([*FIGURES, *SUITES, "fused", "sizes"]), action="append")
    made.add_argument("--device", default="cpu")
    made.add_argument("--out", type=Path)
    made.add_argument("--threads", type=int, default=0, help="that everybody may use; 0: one a usable core")
    made.add_argument("--peers", nargs="*", metavar="NAME", help="against these, or all that are installed")
    made.add_argument(
        "--only", nargs="*", default=(), metavar="PART", help="programs or cases whose names contain this"
    )
    made.add_argument("--turns", type=int, default=fused.TURNS)
    made.add_argument("--quick", action="store_true", help="small sizes, or few turns")
    made.add_argument("--more", action="store_true", help="fused: more programs; on a GPU they always run")
    made.add_argument("--sizes", nargs="*", type=float, metavar="BYTES", help="sizes: these instead of 1e3 to 1e9")
    made.add_argument("--together", action="store_true", help="on a GPU: all suites in this process")
    made.add_argument("--minutes", type=float, help="that all suites together may take")
    made.add_argument("--pyhpc", type=Path, help="fused: a checkout of pyhpc-benchmarks, for two programs more")
    made.add_argument("--data", type=Path, metavar="FOLDER", help="npbench: a checkout of spcl/npbench")
    made.add_argument("--preset", choices=("S", "M", "L", "paper"), default="S", help="npbench: sizes")
    made.add_argument("--programs", default="", metavar="NAME,NAME", help="suites of programs: these; else all")
    made.add_argument("--limit", type=float, default=120.0, help="suites of programs: seconds that a call may take")
    made.add_argument("--seconds", type=float, default=12.0, help="suites of programs: of turns of one program, about")
    made.add_argument("--rounds", type=int, default=3, help="suites of programs: new processes for each first call")
    return made


def describe() -> dict[str, Any]:
    """Return facts for the reports: the device, the machine, package versions and the date."""
    device = wf.default_device()
    facts: dict[str, Any] = {"device": device.name, "machine": device.facts().name}
    if device.name.startswith("cuda"):
        facts["capability"] = ".".join(map(str, device.facts().capability))
        driver = wf.cuda.runtime.get_version()
        facts["driver for CUDA"] = ".".join(map(str, driver))
    facts |= {"python": platform.python_version(), "numpy": np.__version__, "weft": wf.__version__}
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    facts["date"] = time.strftime("%Y-%m-%d")
    return facts


def as_index(folder: Path, facts: dict[str, Any]) -> str:
    """Return a Markdown index of the result files in a folder, including those of earlier runs."""
    suites = sorted({path.stem.partition("-")[0] for path in folder.glob("*.json")})
    lines = ["# Measured", "", *(f"- {key}: {value}" for key, value in facts.items()), ""]
    return (
        "\n".join([*lines, f"Suites: {', '.join(suites)}. Each has a Markdown table and complete results as JSON."])
        + "\n"
    )


def run_figures(name: str, options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Run a suite of single measurements. After each measurement, write all results so far."""
    results: dict[str, str] = {}
    for measure in FIGURES[name]:
        for key, value in measure().items():
            print(f"{name}: {key}: {value}", flush=True)
            results[key] = value
        write(options.out, f"{name}.json", json.dumps({**facts, "results": results}, indent=1) + "\n")
        rows = [f"| {key} | {value} |" for key, value in results.items()]
        write(options.out, f"{name}.md", "\n".join(["| what | figure |", "| --- | --- |", *rows]) + "\n")


def chosen_peers(options: argparse.Namespace) -> Any:
    """Return the names of the chosen peers, None for all installed peers, or () for no peers."""
    return () if options.peers is None else options.peers or None


def run_fused(options: argparse.Namespace, facts: dict[str, Any], minutes: float) -> None:
    """Run the suite of fused programs, and write its results."""
    before = os.getloadavg()[0]
    on_gpu = facts["device"].startswith("cuda")
    threads = options.threads or len(os.sched_getaffinity(0))
    label = facts["device"].replace(":", "-") if on_gpu else str(threads)

    def tell(results: list[fused.Result]) -> None:
        told = {**facts, "threads": threads, "load before": f"{before:.1f}", "load after": f"{os.getloadavg()[0]:.1f}"}
        write(options.out, f"fused-{label}.md", fused.as_markdown(results, told))
        found = {**told, "summary": fused.summary(results), "results": fused.as_json(results)}
        write(options.out, f"fused-{label}.json", json.dumps(found, indent=1) + "\n")

    results = fused.measure(
        threads=options.threads,
        peers=chosen_peers(options),
        only=options.only,
        turns=options.turns,
        quick=options.quick,
        more=[
            *(MORE if options.more or on_gpu else ()),
            *(pyhpc.programs(options.pyhpc) if options.pyhpc else ()),
        ],
        device=facts["device"],
        minutes=minutes,
        tell=tell,
    )
    print(fused.as_markdown(results, {**facts, "threads": threads}))
    groups = {
        r.program: {n: r.moved / r.median(n) / 1e6 for n in r.turns_ms if n != "copy"} for r in results if r.turns_ms
    }
    title = f"Bytes of inputs and results a second, {facts['machine']}"
    write(options.out, f"fused-{label}.svg", picture.draw_bars(groups, title, "GB/s"))


def run_sizes(options: argparse.Namespace, facts: dict[str, Any], minutes: float) -> None:
    """Run the suite of fused programs at several sizes, and write its results."""

    def tell(points: list[sizes.Point]) -> None:
        write(options.out, "sizes.md", sizes.as_markdown(points, facts))
        write(options.out, "sizes.json", json.dumps({**facts, "results": sizes.as_json(points)}, indent=1) + "\n")

    points = sizes.measure(
        peers=chosen_peers(options),
        only=options.only,
        sizes=[int(size) for size in options.sizes or sizes.SIZES],
        threads=options.threads,
        device=facts["device"],
        minutes=minutes,
        tell=tell,
    )
    print(sizes.as_markdown(points, facts))
    write(options.out, "sizes.svg", picture.draw_curves(sizes.series(points), "bytes moved", "GB/s"))


if __name__ == "__main__":
    sys.exit(main())
