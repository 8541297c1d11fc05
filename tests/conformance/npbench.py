"""Runs NPBench's NumPy programs, unmodified, on weft, and compares every array with NumPy's.

``python -m tests.conformance.npbench FOLDER [NAME ...]`` with FOLDER a checkout of spcl/npbench, which is no part of this
project. Prints one line a program; the exit status is the number of programs that differ.
"""

from __future__ import annotations

import copy
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import weft as wf
from weft.dsl.redirect import Redirected

PROGRAMS = (
    "jacobi_1d jacobi_2d fdtd_2d cavity_flow hdiff deriche compute softmax floyd_warshall azimint_naive mandelbrot1 "
    "scattering_self_energies contour_integral conv2d_bias mlp gemm gemver atax k2mm mvt doitgen covariance2 cholesky lu "
    "gramschmidt syrk symm trisolv spmv covariance go_fast crc16"
).split()


def to_weft(value: Any) -> Any:
    """Arguments as weft arrays."""
    if isinstance(value, np.ndarray):
        return wf.asarray(value)
    return value


def load(folder: Path, name: str, preset: str) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """A program's description, the path of its NumPy version, and its data."""
    info = json.loads((folder / "bench_info" / f"{name}.json").read_text())["benchmark"]
    place = folder / "npbench" / "benchmarks" / info["relative_path"]
    data: dict[str, Any] = dict(info["parameters"][preset])
    if info.get("init"):
        names = Redirected(place, to_weft=False).run(place / f"{info['module_name']}.py", info["module_name"])
        made = names[info["init"]["func_name"]](*(data[a] for a in info["init"]["input_args"]))
        outputs = info["init"]["output_args"]
        data.update(zip(outputs, made if len(outputs) > 1 else [made], strict=True))
    return info, place / f"{info['module_name']}_numpy.py", data


def run(info: dict[str, Any], path: Path, data: dict[str, Any], on_weft: bool) -> tuple[list[Any], float, float]:
    """Every returned value and array argument afterwards; seconds of the first and of a second call."""
    program = Redirected(path.parent, on_weft).run(path, info["module_name"])[info["func_name"]]
    times = []
    for _ in range(2):
        arguments = [copy.deepcopy(data[a]) for a in info["input_args"]]
        if on_weft:
            arguments = [to_weft(a) for a in arguments]
        begin = time.perf_counter()
        result = program(*arguments)
        found = [result] if not isinstance(result, (tuple, list)) else list(result)
        found += [a for a in arguments if hasattr(a, "dtype") and hasattr(a, "shape")]
        found = [f for f in found if f is not None]
        pending = [f for f in found if isinstance(f, wf.Array)]
        if pending:
            wf.evaluate(*pending)
        times.append(time.perf_counter() - begin)
    return found, *times


def compare(ours: list[Any], theirs: list[Any]) -> str:
    """What differs, or nothing."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        x, y = np.asarray(a), np.asarray(b)
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {k} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        single = x.dtype in (np.float32, np.complex64)
        scale = np.abs(y[np.isfinite(y)]).max(initial=0) if y.dtype.kind in "fc" else 0
        if not np.allclose(
            x, y, rtol=1e-4 if single else 1e-9, atol=(1e-6 if single else 1e-12) * scale, equal_nan=True
        ):
            return f"result {k} differs by up to {np.nanmax(np.abs(x - y)):.3g} (largest value {scale:.3g})"
    return ""


def main(folder: str, names: list[str]) -> int:
    """Run the programs; how many differ."""
    bad = 0
    for name in names or PROGRAMS:
        try:
            info, path, data = load(Path(folder), name, "S")
            theirs, _, warm_numpy = run(info, path, data, False)
            wf.reset_statistics()
            ours, cold, warm = run(info, path, data, True)
            trouble = compare(ours, theirs)
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
