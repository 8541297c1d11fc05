"""A command that runs NPBench's unmodified programs on weft and on NumPy.

All results are compared. ``python -m tests.conformance.npbench FOLDER [NAME ...]``, where FOLDER is a checkout of
spcl/npbench, which is not part of this project. The command prints one line per program. The exit status is the number
of programs that differ or raise an error. All programs run in this process. ``python -m benchmarks --suite npbench``
measures each program in a separate process.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import Any

import weft as wf
from benchmarks.npbench import description, growing, load, names
from benchmarks.processes import NUMPY, WEFT
from benchmarks.subjects import compare


def run(spec: dict[str, Any], side: str) -> tuple[dict[str, Any], float, float]:
    """Return a program's results, and the seconds of its first and its second call."""
    subject = load({**spec, "side": side})
    seconds = []
    for _ in range(2):
        arguments = subject.arguments()
        begin = time.perf_counter()
        returned = subject.call(arguments)
        seconds.append(time.perf_counter() - begin)
    return subject.results(arguments, returned), *seconds


def main(folder: str, chosen: list[str]) -> int:
    """Run the programs, and return the number of programs that differ or raise an error."""
    bad = 0
    for name in chosen or names(folder):
        spec = {"folder": folder, "name": name, "preset": "S"}
        try:
            theirs, _, warm_numpy = run(spec, NUMPY)
            wf.reset_statistics()
            ours, cold, warm = run(spec, WEFT)
            trouble = compare(ours, theirs, growing(description(Path(folder), name)))
        except Exception:
            trouble = traceback.format_exc(limit=-2)
            cold = warm = warm_numpy = float("nan")
        bad += bool(trouble)
        counts = wf.statistics()
        print(
            f"{'ok  ' if not trouble else 'FAIL'} {name:26} cold {cold * 1e3:8.1f} ms, warm {warm * 1e3:8.1f} ms, "
            f"NumPy {warm_numpy * 1e3:8.1f} ms, {counts['kernels']} kernels, {counts['compilations']} compiled",
            flush=True,
        )
        if trouble:
            print("     " + trouble.replace("\n", "\n     "), flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
