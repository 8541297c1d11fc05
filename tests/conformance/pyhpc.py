"""A command that runs pyhpc-benchmarks' unmodified programs on weft and on NumPy.

The results are compared. ``python -m tests.conformance.pyhpc FOLDER [SIZE]``, where FOLDER is a checkout of
dionhaefner/pyhpc-benchmarks, which is not part of this project.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft.dsl.script.redirect import load_program

PROGRAMS = {"equation_of_state": "eos_numpy", "isoneutral_mixing": "isoneutral_numpy"}


def main(folder: str, size: int) -> int:
    """Run each program on weft and on NumPy. Return the number of programs whose results differ."""
    bad = 0
    for name, module in PROGRAMS.items():
        program = Path(folder) / "benchmarks" / name
        inputs = load_program(program / "__init__.py", name, to_weft=False)["generate_inputs"](size)
        theirs = load_program(program / f"{module}.py", module, to_weft=False)["run"]
        ours = load_program(program / f"{module}.py", module)["run"]
        expected = _listed(theirs(*(np.array(x) for x in inputs)))
        arguments = [wf.asarray(x) for x in inputs]
        wf.reset_statistics()
        found = _listed(ours(*arguments))
        wf.evaluate(*found)
        counts = wf.statistics()
        worst = max(
            float(np.abs(np.asarray(a) - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True)
        )
        times: dict[str, list[float]] = {"weft": [], "numpy": []}
        for _ in range(5):
            begin = time.perf_counter()
            wf.evaluate(*_listed(ours(*arguments)))
            middle = time.perf_counter()
            theirs(*inputs)
            times["weft"].append(middle - begin)
            times["numpy"].append(time.perf_counter() - middle)
        medians = {k: statistics.median(v) for k, v in times.items()}
        good = len(found) == len(expected) and worst < 1e-10
        bad += not good
        print(
            f"{'ok  ' if good else 'FAIL'} {name} at {size}: {counts['kernels']} kernels, relative difference {worst:.2g}, "
            f"weft {medians['weft'] * 1e3:.1f} ms, NumPy {medians['numpy'] * 1e3:.1f} ms, ratio {medians['numpy'] / medians['weft']:.1f}",
            flush=True,
        )
    return bad


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4_194_304))
