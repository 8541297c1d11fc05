"""Benchmark of NumPy's functions and methods on small arrays: weft compared with NumPy.

`benchmarks.call_times` runs in processes of its own, under NumPy and on weft in turn. A ratio is NumPy's time divided
by weft's, as the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reports import bullets, geometric_mean, one_line, table, write, write_json

SCRIPT = Path(__file__).with_name("call_times.py")
ELEMENTS = 300
ROUNDS = 3
SHOWN = 60  # maximum number of calls in the table
QUICK = ("cumsum(", "linalg.norm(")  # the calls of a quick run


def times(command: Sequence[str], only: Sequence[str]) -> dict[str, float]:
    """Run `benchmarks.call_times` with the Python options in `command`. Return a dict from call names to seconds."""
    done = subprocess.run(
        [sys.executable, *command, str(SCRIPT), str(ELEMENTS), *only], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(rounds: int, only: Sequence[str]) -> list[dict[str, Any]]:
    """Return the times and the ratio of each call, with the smallest ratios first.

    The ratio is 0 if the call fails on weft.
    """
    pairs = [(times([], only), times(["-m", "weft", "run"], only)) for _ in range(rounds)]
    results = []
    for name in pairs[0][0]:
        both = [(theirs[name], ours[name]) for theirs, ours in pairs if name in theirs and name in ours]
        theirs, ours = (statistics.median(values) for values in zip(*both, strict=True)) if both else (0.0, 0.0)
        ratio = statistics.median(one / other for one, other in both) if both else 0.0
        results.append({"call": name, "numpy_us": 1e6 * theirs, "weft_us": 1e6 * ours, "ratio": ratio})
    return sorted(results, key=lambda result: float(result["ratio"]))


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the calls, print a summary, and write the results."""
    only = options.only or (QUICK if options.quick else ())
    results = measure(1 if options.quick else min(options.rounds, ROUNDS), only)
    ratios = [result["ratio"] for result in results if result["ratio"]]
    summary = {
        "calls": len(results),
        "errors on weft": len(results) - len(ratios),
        "geometric mean of NumPy / weft": round(geometric_mean(ratios), 3),
        "below 0.5": sum(ratio < 0.5 for ratio in ratios),
    }
    rows = [[r["call"], f"{r['numpy_us']:.2f}", f"{r['weft_us']:.2f}", f"{r['ratio']:.2f}"] for r in results[:SHOWN]]
    text = "\n".join([one_line(facts), bullets(summary), table(["call", "NumPy us", "weft us", "NumPy / weft"], rows)])
    print(text)
    write(options.out, "calls.md", text)
    write_json(options.out, "calls.json", {**facts, "elements": ELEMENTS, "summary": summary, "results": results})
