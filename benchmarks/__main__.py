"""``python -m benchmarks [--suite NAME] [--out FOLDER]``: measure, print, and write JSON and Markdown.

The suite `fused` runs where it is named: it takes minutes. ``--peers`` sets it against every peer that is installed (or
those that are named), ``--threads`` limits all alike, ``--only`` picks programs, ``--quick`` takes small sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from benchmarks import compile, fused, kernels, overhead, peers, pyhpc

SUITES = {"compile": compile.measure, "kernels": kernels.measure, "overhead": overhead.measure}


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen suites."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--suite", choices=sorted([*SUITES, "fused"]), action="append")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=0, help="that everybody may use; 0: one a usable core")
    parser.add_argument("--peers", nargs="*", metavar="NAME", help="fused: against these, or all that are installed")
    parser.add_argument(
        "--only", nargs="*", default=(), metavar="PART", help="fused: programs whose names contain this"
    )
    parser.add_argument("--turns", type=int, default=fused.TURNS)
    parser.add_argument("--quick", action="store_true", help="fused: small sizes")
    parser.add_argument("--pyhpc", type=Path, help="fused: a checkout of pyhpc-benchmarks, for two programs more")
    options = parser.parse_args(arguments)
    if options.threads:
        peers.limit_threads(options.threads)
    wf.set_default_device(options.device)
    facts = {
        "device": options.device,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "weft": wf.__version__,
    }
    for name in options.suite or sorted(SUITES):
        if name == "fused":
            run_fused(options, facts)
            continue
        found = {**facts, "results": SUITES[name]()}
        for key, value in found["results"].items():
            print(f"{name}: {key}: {value}")
        write(options.out, f"{name}.json", json.dumps(found, indent=1) + "\n")
    return 0


def write(folder: Path | None, name: str, text: str) -> None:
    """A file in the folder for results, if there is one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run_fused(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """The suite of the fused programs."""
    chosen = () if options.peers is None else options.peers or None
    before = os.getloadavg()[0]
    results = fused.measure(
        threads=options.threads,
        peers=chosen,
        only=options.only,
        turns=options.turns,
        quick=options.quick,
        more=pyhpc.programs(options.pyhpc) if options.pyhpc else (),
    )
    threads = options.threads or len(os.sched_getaffinity(0))
    told = {**facts, "threads": threads, "load before": f"{before:.1f}", "load after": f"{os.getloadavg()[0]:.1f}"}
    text = fused.as_markdown(results, told)
    print(text)
    write(options.out, f"fused-{threads}.md", text)
    found = {**told, "summary": fused.summary(results), "results": fused.as_json(results)}
    write(options.out, f"fused-{threads}.json", json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
