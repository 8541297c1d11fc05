"""The command ``weft run --compare``, which runs a script under NumPy and on weft.

The script runs cold and warm, and the differences are reported.

The script runs on weft in this process, each time in a new module, until a run makes no plan, but at most `WARM_RUNS`
times. Cold runs are in new processes. The comparison covers the printed output, the arrays that the script saves through
`numpy.save`, `numpy.savetxt`, `numpy.savez` or `numpy.savez_compressed`, and the arrays and numbers in its global
variables.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pickle
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, evaluate
from weft.dsl.cli import main_program
from weft.dsl.cli.differences import SIGNS, ResultComparison, Row, scales_of
from weft.dsl.cli.main_program import MainProgram, output_is_closed
from weft.dsl.cli.reasons import explain_speed
from weft.dsl.profile import Profile, user_lines
from weft.dsl.script.redirect import isolated
from weft.dsl.script.script_namespace import script_module
from weft.dsl.tracebacks import hide_frames
from weft.fusion import reset_statistics, seconds_spent, show_host_work, statistics
from weft.runtime import counted, override, setting


@dataclass
class Outcome:
    """The result of one run of a script or notebook cell.

    The times exclude the startup of the interpreter and the imports of NumPy and weft.
    """

    seconds: float = math.nan
    status: int = 0
    printed: str = ""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: int = 0
    bytes: int = 0
    found: bool = False  # whether plans were read from disk, and nothing was compiled
    settled: bool = True  # whether the run used only plans that were in memory before
    host: str = ""  # the report's text about the time on the host
    outside: float = 0.0  # seconds that were not spent on planning or running plans


# Maximum number and total seconds of runs on weft until a run makes no plan. weft learns where to end recordings, so
# some runs of a loop make new plans.
WARM_RUNS = 12
WARM_SECONDS = 20.0
MOST_ITEMS = 100  # maximum number of items of a list, tuple or dictionary that are compared
_ARRAYS, _NUMBERS = (Array, np.ndarray, np.generic), {bool, int, float, complex}
GAIN = 1.1  # the report gives reasons if the ratio of NumPy's time to weft's is below this value


def execute(program: MainProgram) -> tuple[int, dict[str, Any]]:
    """Execute a program once, and return its exit status and its global variables ({} after an exception).

    Raises BrokenPipeError if the reader of standard output has ended.
    """
    try:
        return 0, program.execute()
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0, {}
        print(leaving.code, file=sys.stderr)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and output_is_closed():
            raise
        hide_frames(error)
        sys.excepthook(type(error), error, error.__traceback__)
    return 1, {}


def _results_in(names: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays and numbers in global variables, and in lists, tuples and dicts.

    Of each list, tuple or dict, the first `MOST_ITEMS` items are considered. A list or tuple of Python numbers is one
    array. Names that start with an underscore are left out.
    """
    found: dict[str, Any] = {}
    for name, value in names.items():
        if name.startswith("_"):
            continue
        items: dict[str, Any] = {name: value}
        if type(value) in (list, tuple) and not {type(item) for item in value} <= _NUMBERS:
            items = {f"{name}[{k}]": item for k, item in enumerate(value[:MOST_ITEMS])}
        elif type(value) in (list, tuple):
            items = {name: np.array(value)} if value else {}
        elif type(value) is dict:
            items = {f"{name}[{key!r}]": item for key, item in list(value.items())[:MOST_ITEMS]}
        found |= {k: v for k, v in items.items() if isinstance(v, _ARRAYS) or type(v) in _NUMBERS}
    return found


def _outcome(program: MainProgram, on_weft: bool, saved: dict[str, np.ndarray]) -> Outcome:
    reset_statistics()
    text = io.StringIO()
    saved.clear()
    begin = time.perf_counter()
    with isolated(program.folder, on_weft), contextlib.redirect_stdout(text):
        status, names = execute(program)
        left = _results_in(names)
        evaluate(*[v for v in left.values() if isinstance(v, Array)])
    seconds = time.perf_counter() - begin
    counts = {**statistics(), **seconds_spent()}
    outside = seconds - counts["planning"] - counts["running"]
    running = f"{1e3 * max(counts['running'], 0.0):.1f} ms for running them"
    host = f"{show_host_work(counts)}, {running}, {1e3 * max(outside, 0.0):.1f} ms outside of plans"
    arrays = {f"global {k}": np.array(v) for k, v in left.items()}
    arrays.update({f"saved {k}": v for k, v in saved.items()})
    kernels, moved = int(counts["kernels"]), int(counts["bytes"])
    found = bool(counts["plans_read"]) and not counts["compilations"]
    settled = not any(counts[name] for name in ("plans", "plans_read", "interpreted", "compilations"))
    return Outcome(seconds, status, text.getvalue(), arrays, kernels, moved, found, settled, host, outside)


@contextlib.contextmanager
def _record_saved_arrays(saved: dict[str, np.ndarray]) -> Iterator[None]:
    """Within a ``with`` block, record the arrays that the program saves with NumPy's functions."""
    originals = {name: getattr(np, name) for name in ("save", "savetxt", "savez", "savez_compressed")}

    def watcher(name: str) -> Any:
        @wraps(originals[name])
        def save(*arguments: Any, **options: Any) -> Any:
            with contextlib.suppress(TypeError):  # (wrong arguments, for which NumPy raises an error)
                given = signature(originals[name]).bind(*arguments, **options).arguments
                file, values, *_ = given.values()
                arrays = {"": values}
                if name.startswith("savez"):
                    arrays = {f" arr_{k}": each for k, each in enumerate(given.get("args", ()))}
                    arrays |= {f" {key}": each for key, each in given.get("kwds", {}).items()}
                # (the text of an object contains its address)
                path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", type(file).__name__)
                saved.update({f"{Path(str(path)).name}{key}": np.array(each) for key, each in arrays.items()})
            return originals[name](*arguments, **options)

        return save

    scripts = script_module("numpy")

    def replace(name: str, function: Any) -> None:
        setattr(np, name, function)
        vars(scripts).pop(name, None)
        getattr(scripts, name)  # (`find_all_names` fills the dictionary only once)

    for name in originals:
        replace(name, watcher(name))
    try:
        yield
    finally:
        for name, function in originals.items():
            replace(name, function)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if text else "\r", file=sys.stderr, flush=True)


def _in_new_process(program: MainProgram) -> Outcome:
    """Run the program on weft once in a new process, and return the measurements.

    If the process failed, return an empty `Outcome`.
    """
    command = [sys.executable, "-c", f"from {__name__} import time_program; time_program()"]
    done = subprocess.run(
        command, input=pickle.dumps(program), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return Outcome(**json.loads(done.stdout)) if done.returncode == 0 else Outcome()


def time_program() -> None:
    """Read a pickled `MainProgram` from standard input, run it once, and print the measurements as JSON."""
    found = _outcome(pickle.load(sys.stdin.buffer), True, {})
    print(json.dumps({"seconds": found.seconds, "found": found.found, "host": found.host}))


def _under_numpy(program: MainProgram) -> tuple[float, float]:
    """Run the program twice under NumPy, in a process without weft, and return both times in seconds.

    The times are NaN if the process failed.
    """
    command = [sys.executable, main_program.__file__]
    fields = json.dumps([program.option, program.text, program.arguments]).encode()
    done = subprocess.run(command, input=fields, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    cold, warm = map(float, done.stdout.split()) if done.returncode == 0 else (math.nan, math.nan)
    return cold, warm


def compare(program: MainProgram) -> int:
    """Run a program under NumPy and on weft, print the differences, and return the exit status.

    The status is 1 if the results differ. If a run fails, the status is that of the run.
    """
    if program.option == "-":
        print(
            "weft run: --compare runs the program several times, so the program cannot be read from standard input",
            file=sys.stderr,
        )
        return 2
    outcomes: dict[str, Outcome] = {}
    saved: dict[str, np.ndarray] = {}
    firsts: list[Outcome] = []
    with _record_saved_arrays(saved):
        for name, on_weft in (("NumPy, first", False), ("NumPy", False), ("weft", True)):
            if on_weft:  # (cold runs are in new processes, whose memory and processor caches are cold)
                _progress(f"running {program.text}: NumPy, in a new process ...")
                numpy_cold, numpy_warm = _under_numpy(program)
                firsts.append(Outcome(numpy_cold))
                if not math.isnan(numpy_warm):
                    outcomes["NumPy"].seconds = numpy_warm
                _progress(f"running {program.text}: weft, cold ...")
                firsts.append(_in_new_process(program))
            _progress(f"running {program.text}: {name} ...")
            with compiled_first():
                outcomes[name] = _outcome(program, on_weft, saved)
            if outcomes[name].status:
                _progress("")
                print(f"the run ({name}) ended with exit status {outcomes[name].status}", file=sys.stderr)
                return outcomes[name].status
        outcomes["weft"] = _run_until_warm(program, outcomes["weft"], saved)
        firsts.append(_in_new_process(program))
    _progress("")
    first, reference, ours = outcomes.values()
    print(ours.printed, end="")
    comparison = ResultComparison(first.arrays, first.printed, scales_of(reference.arrays, reference.printed))
    arrays = comparison.arrays(reference.arrays, ours.arrays)
    rows = [*comparison.printed(reference.printed, ours.printed, any(SIGNS in text for _, text, _ in arrays)), *arrays]
    _print_report(program, rows, firsts, reference, ours)
    same = all(good for _, _, good in rows) and reference.status == ours.status
    return ours.status or int(not same)


def _print_report(
    program: MainProgram, rows: list[Row], firsts: list[Outcome], reference: Outcome, ours: Outcome
) -> None:
    """Print the report of ``weft run --compare``.

    The report contains the differences, the times, the largest kernel and, if weft is not faster, the reasons.
    """
    numbers = [row for row in rows if row[1].endswith("[] equal")]
    rows = [row for row in rows if row not in numbers]
    if numbers:
        rows.append(("numbers", f"{len(numbers)} equal", True))
    width = max((len(name) for name, _, _ in rows), default=10)
    print(f"\n{'result':{width}}  NumPy against weft")
    for name, verdict, _ in rows:
        print(f"{name:{width}}  {verdict}")
    print("\n".join(_time_table(firsts, reference.seconds, ours.seconds)))
    print(_describe_fusion(program))
    launched = f"{counted(ours.kernels, 'kernel')} launched, {ours.bytes / 1e6:.1f} MB moved, "
    print(f"cold: {firsts[1].host}")
    print(f"warm: {launched if ours.kernels else ''}{ours.host}")
    if reference.seconds < GAIN * ours.seconds:
        for reason in explain_speed(lambda: _outcome(program, True, {}), ours, reference.seconds):
            print(f"why not faster: {reason}")


def _run_until_warm(program: MainProgram, last: Outcome, saved: dict[str, np.ndarray]) -> Outcome:
    """Run a program on weft until a run makes no new plan, and return the outcome of the last run.

    `last` is the outcome of the first run. At least two and at most `WARM_RUNS` runs are made, including the first.
    After `WARM_SECONDS`, no third or later run begins.
    """
    end = time.perf_counter() + WARM_SECONDS
    for runs in range(1, WARM_RUNS):
        if runs > 1 and (last.settled or time.perf_counter() > end):
            break
        with compiled_first():
            last = _outcome(program, True, saved)
    return last


@contextlib.contextmanager
def compiled_first() -> Iterator[None]:
    """Within a ``with`` block, compile kernels before their first use, if the `interpret` setting is "auto".

    Without this function, the program would have to run repeatedly until a second process, which compiles in the
    background, has compiled all kernels.
    """
    with override(interpret="never") if setting("interpret") == "auto" else contextlib.nullcontext():
        yield


def _time_table(firsts: list[Outcome], numpy_warm: float, warm: float) -> list[str]:
    """Return a table of NumPy's and weft's times as lines of text.

    `firsts` are three first runs, each in a new process: one under NumPy, and two on weft.
    """
    numpy_cold, cold, new = (run.seconds for run in firsts)
    found = ", which found its kernels on disk" if firsts[1].found else ""
    meaning = (
        f"(cold: the first run, in a new process{found}; new process: the first run in a later process, which loads "
        "kernels and plans from disk; warm: a later run in the same process; the times do not include the start of "
        "Python and the imports of NumPy and weft)"
    )
    return [
        f"\n{'':8}{'cold':>12}{'new process':>15}{'warm':>12}",
        f"{'NumPy':8}{numpy_cold * 1e3:9.1f} ms{'':15}{numpy_warm * 1e3:9.1f} ms",
        f"{'weft':8}{cold * 1e3:9.1f} ms{new * 1e3:12.1f} ms{warm * 1e3:9.1f} ms",
        f"{'ratio':8}{numpy_cold / cold:12.2f}{numpy_cold / new:15.2f}{numpy_warm / warm:12.2f} times NumPy's speed",
        *textwrap.wrap(meaning, 112),
    ]


def _describe_fusion(program: MainProgram) -> str:
    """Run a program on weft, and return a sentence about its largest fused kernel."""
    with Profile() as profile, compiled_first():
        _outcome(program, True, {})
    fused = [kernel for kernel in profile.kernels if kernel.note.members]
    if not fused:
        return f"nothing was fused: {'the program is still interpreted' if profile.counts['interpreted'] else 'no kernel ran'}"
    largest = max(fused, key=lambda kernel: len(kernel.note.members))
    operations = len(largest.note.members)
    lines = sorted(line for _, line in user_lines(largest.note))
    where = ""
    if lines:
        where = f", at line {lines[0]}" if lines[0] == lines[-1] else f", from line {lines[0]} to line {lines[-1]}"
    start = "fused: " if len(fused) == 1 else f"fused: {len(fused)} kernels; the largest joins "
    return f"{start}{counted(operations, 'array operation')} in one loop{where}"
