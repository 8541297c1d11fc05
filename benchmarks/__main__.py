"""``python -m benchmarks [--suite overhead] [--out FOLDER]``: measure, print, and write JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

import numpy as np

import weft as wf
from benchmarks import kernels, overhead

SUITES = {"kernels": kernels.measure, "overhead": overhead.measure}


def main() -> int:
    """Run the chosen suites."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--suite", choices=sorted(SUITES), action="append")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wf.set_default_device(options.device)
    facts = {
        "device": options.device,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "weft": wf.__version__,
    }
    for name in options.suite or sorted(SUITES):
        found = {**facts, "results": SUITES[name]()}
        for key, value in found["results"].items():
            print(f"{name}: {key}: {value}")
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
