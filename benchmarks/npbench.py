"""NPBench's unmodified programs on weft, compared with NumPy and with ports.

The ports are NPBench's versions for Numba and JAX. The programs come from a checkout of spcl/npbench, which is not part
of this project. Weft runs the files written for NumPy, unmodified. Each implementation of a program runs in a separate
process (`benchmarks.processes`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import programs_report
from benchmarks.processes import EMPTY_CACHE, NUMPY, WEFT, Effort, Outcome, measure
from benchmarks.subjects import compare, load_module, numpy_results, numpy_subject, weft_subject
from benchmarks.worker import Subject

# Ports: the ending of the file name, and the required module.
PORTS = {
    "Numba n": ("numba_n", "numba"),
    "Numba np": ("numba_np", "numba"),
    "Numba npr": ("numba_npr", "numba"),
    "JAX": ("jax", "jax"),
}
PORT_TOLERANCES = {"rtol": 1e-5, "atol": 1e-8, "norm_error": 1e-5}  # NPBench's defaults, if a program states none

SLOWEST = 0.6  # (programs with a smaller ratio of NumPy's time to weft's are listed)


def names(folder: str | Path) -> list[str]:
    """Return the names of the programs in a checkout of NPBench."""
    return sorted(path.stem for path in Path(folder, "bench_info").glob("*.json"))


def description(folder: Path, name: str) -> dict[str, Any]:
    """Return NPBench's description of a program."""
    found: dict[str, Any] = json.loads((folder / "bench_info" / f"{name}.json").read_text())["benchmark"]
    return found


def program_path(folder: Path, info: Mapping[str, Any], ending: str = "") -> Path:
    """Return the path of a version of a program.

    `ending` is the end of the file's stem, such as "numba_np". Without an ending, return the path of the file that
    creates the inputs.
    """
    name = f"{info['module_name']}_{ending}.py" if ending else f"{info['module_name']}.py"
    return folder / "npbench" / "benchmarks" / info["relative_path"] / name


def data(folder: Path, info: Mapping[str, Any], preset: str) -> dict[str, Any]:
    """Return the inputs of a program as a dict by name."""
    values: dict[str, Any] = dict(info["parameters"][preset])
    if info.get("init"):
        np.random.seed(0)
        made = getattr(load_module(program_path(folder, info)), info["init"]["func_name"])
        outputs = info["init"]["output_args"]
        arrays = made(*(values[name] for name in info["init"]["input_args"]))
        values.update(zip(outputs, arrays if len(outputs) > 1 else [arrays], strict=True))
    return values


# -- in the worker's process ------------------------------------------------------------------


def load(spec: Mapping[str, Any]) -> Subject:
    """Load a program, or one of its ports, as a `Subject`."""
    folder, side = Path(spec["folder"]), spec["side"]
    info = description(folder, spec["name"])
    inputs = data(folder, info, spec["preset"])
    values = [inputs[name] for name in info["input_args"]]
    arrays = [k for k, value in enumerate(values) if isinstance(value, np.ndarray)]

    def results(arguments: list[Any], returned: Any) -> dict[str, np.ndarray]:
        overwritten = {f"array {info['input_args'][k]}": np.asarray(arguments[k]) for k in arrays}
        return numpy_results(arguments, returned) | overwritten

    function = info["func_name"]
    if side == WEFT:
        return weft_subject(program_path(folder, info, "numpy"), function, values, results)
    program = getattr(load_module(program_path(folder, info, PORTS[side][0] if side in PORTS else "numpy")), function)
    if side != "JAX":
        return numpy_subject(program, values, results)

    import jax

    jax.config.update("jax_enable_x64", True)
    traced = [k for k, name in enumerate(info["input_args"]) if name in info["array_args"]]

    def arguments() -> list[Any]:
        made = [jax.numpy.array(value) if k in traced else value for k, value in enumerate(values)]
        jax.block_until_ready(made)
        return made

    # JAX overwrites nothing; its programs return their results.
    return Subject(arguments, lambda made: jax.block_until_ready(program(*made)), numpy_results)


def growing(info: Mapping[str, Any]) -> bool:
    """Return whether NPBench states error tolerances for a program. Such a program is assumed to amplify rounding errors."""
    return "rtol" in info or "norm_error" in info


# -- checks -----------------------------------------------------------------------------------


def compare_port(info: Mapping[str, Any], ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> str:
    """Return a description of a port's first difference from NumPy's results, or "".

    The results are compared by NPBench's rules. The results of each side are its returned values, followed by the
    arrays that NPBench names as outputs. They are compared in this order, so that a port may return an array that
    NumPy's version overwrites. Results without a counterpart are ignored.
    """
    outputs = [f"array {name}" for name in info["output_args"]]
    expected = [theirs[name] for name in (*(n for n in theirs if n.startswith("result")), *outputs)]
    found = [ours[name] for name in (*(n for n in ours if n.startswith("result")), *outputs) if name in ours]
    limits = {**PORT_TOLERANCES, **{name: info[name] for name in PORT_TOLERANCES if name in info}}
    for k, x, y in zip(count(), found, expected, strict=False):
        if x.shape != y.shape and x.size != y.size:
            return f"result {k} has shape {x.shape}, not {y.shape}"
        if not np.allclose(x, y, rtol=limits["rtol"], atol=limits["atol"]):
            error = np.linalg.norm(np.ravel(y - x)) / np.linalg.norm(np.ravel(y))
            if not error < limits["norm_error"]:
                return f"result {k} is off by {error:.1e} in norm"
    return ""


# -- the suite --------------------------------------------------------------------------------


def installed_ports(folder: Path, info: Mapping[str, Any], wanted: list[str] | None) -> list[str]:
    """Return the names of a program's ports that are selected, exist and can be run."""
    return [
        name
        for name, (ending, module) in PORTS.items()
        if program_path(folder, info, ending).exists()
        and find_spec(module) is not None
        and (wanted is None or module in {w.lower() for w in wanted})
    ]


def totals(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the suite's totals as a dict. Its only entry gives the number and the names of the programs that are slow on weft.

    A program is slow if the ratio of NumPy's time to weft's is below `SLOWEST`.
    """
    slow = {o.program: ratio for o in outcomes if (ratio := o.ratio()) is not None and ratio < SLOWEST}
    named = ", ".join(f"{name} {slow[name]:.2f}" for name in sorted(slow, key=slow.__getitem__))
    return {f"warm, below {SLOWEST} of NumPy's speed": f"{len(slow)}{': ' if slow else ''}{named}"}


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the programs, print a line for each, and write the results."""
    folder: Path | None = options.data
    if folder is None or not (folder / "bench_info").is_dir():
        raise SystemExit("--suite npbench needs --data FOLDER, a checkout of spcl/npbench")
    preset, outcomes = options.preset, list[Outcome]()
    effort = Effort(options.limit, options.seconds, options.turns, 1 if options.quick else options.rounds)
    chosen = options.programs.split(",") if options.programs else names(folder)
    report = programs_report.Report(f"npbench-{preset}", {**facts, "preset": preset}, options.out, PORTS, totals)
    for name in chosen:
        info = description(folder, name)

        def differs(side: str, theirs: Mapping[str, np.ndarray], ours: Mapping[str, np.ndarray]) -> str:
            # (If errors grow, NumPy's own results change as much for inputs that differ in the last bit.)
            if side in (WEFT, EMPTY_CACHE, NUMPY) and not growing(info):  # noqa: B023 - called in this turn of the loop
                return compare(ours, theirs)
            return compare_port(info, ours, theirs)  # noqa: B023 - called in this turn of the loop

        spec = {"suite": "npbench", "name": name, "folder": str(folder.resolve()), "preset": preset}
        outcomes.append(measure(spec, installed_ports(folder, info, options.peers), differs, effort))
        report.add(outcomes)
    print(report.text(outcomes))
