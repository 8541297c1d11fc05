"""A command that runs CuPy's unmodified tests with weft and with NumPy.

``python -m tests.conformance.cupy_suite CHECKOUT [FOLDER ...]``, where CHECKOUT is a checkout of CuPy, which is not part
of this project. The tests of a folder run in a child process (`cupy_child`). By default, every tenth parametrization
of a test is run. For each folder, the command prints how many of the tests that NumPy passes also pass on weft. It then
prints the differences with their reasons, and the causes of the other failures.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance.cupy_differences import reason_for

FOLDERS = (
    "creation indexing manipulation sorting linalg logic fft statistics math padding lib binary functional polynomial "
    "random"
).split()
ROOT = Path(__file__).parents[2]
WARNINGS = (
    "error::FutureWarning",
    "ignore::UserWarning",
    "error::DeprecationWarning",
    "error::numpy.exceptions.ComplexWarning",
    "error::numpy.exceptions.VisibleDeprecationWarning",
)
LIMIT = 1800  # seconds that the files of a folder may take


def run_files(checkout: Path, names: list[str], backend: str, every: int) -> dict[str, tuple[str, str]]:
    """Run files of CuPy's tests in one process.

    Return a dict from the names of the tests to the outcomes and the reasons of failures.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        environment = {
            "WEFT_DEVICE": "cpu",
            "OPENBLAS_NUM_THREADS": "1",  # (its threads spin, which takes long while other processes run)
            **os.environ,
            "CUPY_TESTS_CHECKOUT": str(checkout),
            "CUPY_TESTS_BACKEND": backend,
            "CUPY_TESTS_EVERY": str(every),
            "CUPY_TESTS_RESULTS": str(results),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        }
        command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "tests.conformance.cupy_child"]
        command += [
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            str(checkout),
            "--timeout=1200",
            "-m",
            "not slow",
        ]
        command += [part for rule in WARNINGS for part in ("-W", rule)]
        command += [str(checkout / name) for name in names]
        try:
            child = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=LIMIT, text=True)
            ended = child.returncode in (0, 1) or bool(results.read_text())
            last = (child.stdout + child.stderr)[-2000:]
        except subprocess.TimeoutExpired:
            ended, last = False, f"the tests took more than {LIMIT} s"
        lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    found = {test.partition("cupy_tests/")[2]: (outcome, cause) for test, outcome, cause in lines}
    if not ended:
        found["(the process)"] = ("failed", last)
    return found


def simplify(cause: str) -> str:
    """Return the first error of a failure, without details that differ between tests."""
    errors = [line[1:].strip() for line in cause.splitlines() if line.startswith("E ")] or cause.strip().splitlines()
    named = [line for line in errors if re.match(r"[\w.]*(Error|Warning|Exit)\b", line)]
    return re.sub(r"0x[0-9a-f]+|\d+", "#", (named or errors or ["?"])[0])[:150]


def main() -> int:
    """Run the tests of the folders, and return the number of unexplained failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("parts", nargs="*", default=FOLDERS, help="folders, or parts of the names of files")
    parser.add_argument("--every", type=int, default=10, help="run every n-th parametrization of a test")
    parser.add_argument("--failures", action="store_true", help="print each failing test with its cause")
    options = parser.parse_intermixed_args()
    tests = options.checkout / "tests" / "cupy_tests"
    totals: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    causes: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for folder in FOLDERS:
        paths = (tests / f"{folder}_tests").glob("test_*.py")
        names = [
            n
            for n in sorted(str(p.relative_to(options.checkout)) for p in paths)
            if any(part in n for part in options.parts)
        ]
        if not names:
            continue
        began = time.monotonic()
        numpys = run_files(options.checkout, names, "numpy", options.every)
        wefts = run_files(options.checkout, names, "weft", options.every)
        counts = totals[folder]
        for test, (outcome, _) in numpys.items():
            if outcome != "passed":
                counts["not NumPy's"] += 1
                continue
            counts["numpy"] += 1
            found, cause = wefts.get(test, ("failed", "the process ended"))
            reason = reason_for(test)
            kind = "weft" if found == "passed" else "differs" if reason else "failed"
            counts[kind] += 1
            if kind == "differs":
                reasons[reason or ""] += 1
            elif kind == "failed":
                causes[simplify(cause)] += 1
                if options.failures:
                    print(f"    {test}\n        " + cause.strip().replace("\n", "\n        ")[-3000:])
        print(f"{folder}: {dict(counts)}, {time.monotonic() - began:.0f} s", flush=True)
    _print_tables(totals, causes, reasons)
    return sum(counts["failed"] for counts in totals.values())


def _print_tables(
    totals: dict[str, collections.Counter[str]], causes: collections.Counter[str], reasons: collections.Counter[str]
) -> None:
    print(f"\n{'folder':22} {'NumPy':>6} {'weft':>6} {'differs':>8} {'failed':>7}")
    for folder, counts in totals.items():
        print(f"{folder:22} {counts['numpy']:6} {counts['weft']:6} {counts['differs']:8} {counts['failed']:7}")
    for title, table in (("causes of failures", causes), ("differences", reasons)):
        print(f"\n{title}:")
        for cause, count in table.most_common(80):
            print(f"{count:5} {cause}")


if __name__ == "__main__":
    sys.exit(min(main(), 125))
