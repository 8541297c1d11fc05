"""``weft run --compare``: run a script under NumPy and on weft, cold and warm, and report differences.

The script runs four times in this process, each time in a new module. The comparison covers its printed output, the
arrays that it saves through `numpy.save`, `savez` or `savetxt`, and its global variables.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.cli.execution import execute, with_arguments
from weft.dsl.plans import evaluate
from weft.dsl.script.script_namespace import script_module
from weft.fusion import reset_statistics, seconds_spent, show_host_work, statistics

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass
class Outcome:
    """One run of the script."""

    seconds: float
    status: int
    printed: str = ""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: int = 0
    bytes: int = 0
    compilations: int = 0
    host: str = ""


def _outcome(path: Path, arguments: list[str], on_weft: bool, saved: dict[str, np.ndarray]) -> Outcome:
    reset_statistics()
    text = io.StringIO()
    saved.clear()
    begin = time.perf_counter()
    with with_arguments(path, arguments), contextlib.redirect_stdout(text):
        status, names = execute(path, on_weft)
        left = {
            k: v for k, v in names.items() if isinstance(v, (Array, np.ndarray, np.generic)) and not k.startswith("_")
        }
        evaluate(*[v for v in left.values() if isinstance(v, Array)])
    seconds = time.perf_counter() - begin
    counts = {**statistics(), **seconds_spent()}
    host = (
        f"{show_host_work(counts)}, {1e3 * (seconds - counts['planning'] - counts['running']):.1f} ms outside of plans"
    )
    arrays = {f"global {k}": np.array(v) for k, v in left.items()}
    arrays.update({f"saved {k}": v for k, v in saved.items()})
    kernels, moved, compiled = (int(counts[name]) for name in ("kernels", "bytes", "compilations"))
    return Outcome(seconds, status, text.getvalue(), arrays, kernels, moved, compiled, host)


@contextlib.contextmanager
def _watch_saving(saved: dict[str, np.ndarray]) -> Iterator[None]:
    """Record the arrays saved through NumPy's saving functions."""
    originals = {name: getattr(np, name) for name in ("save", "savetxt")}

    def watcher(name: str) -> Any:
        def save(file: Any, values: Any, *arguments: Any, **options: Any) -> Any:
            saved[Path(str(file)).name] = np.array(values)
            return originals[name](file, values, *arguments, **options)

        save.__name__ = name
        return save

    namespace = script_module("numpy").__dict__

    for name in originals:
        setattr(np, name, watcher(name))
        namespace.pop(name, None)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(np, name, function)
            namespace.pop(name, None)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if text else "\r", file=sys.stderr, flush=True)


def compare(path: Path, arguments: list[str]) -> int:
    """Run a script four times, print the differences, and return its exit status (1 if a result differs)."""
    outcomes: dict[str, Outcome] = {}
    saved: dict[str, np.ndarray] = {}
    with _watch_saving(saved), tempfile.TemporaryDirectory():
        for name, on_weft in (("NumPy, cold", False), ("NumPy", False), ("weft, cold", True), ("weft", True)):
            _progress(f"running {path.name}: {name} ...")
            outcomes[name] = _outcome(path, arguments, on_weft, saved)
    _progress("")
    reference, ours = outcomes["NumPy"], outcomes["weft"]
    print(ours.printed, end="")
    rows = _printed_rows(reference.printed, ours.printed) + _array_rows(reference.arrays, ours.arrays)
    width = max((len(name) for name, _, _ in rows), default=10)
    print(f"\n{'result':{width}}  NumPy against weft")
    for name, verdict, _ in rows:
        print(f"{name:{width}}  {verdict}")
    cold = outcomes["weft, cold"]
    print(f"\n{'':8}{'cold':>12}{'warm':>12}")
    print(f"{'NumPy':8}{outcomes['NumPy, cold'].seconds * 1e3:9.1f} ms{reference.seconds * 1e3:9.1f} ms")
    print(
        f"{'weft':8}{cold.seconds * 1e3:9.1f} ms{ours.seconds * 1e3:9.1f} ms   {reference.seconds / ours.seconds:.2f} times NumPy's speed"
    )
    print(
        f"{ours.kernels} kernels launched, {ours.bytes / 1e6:.1f} MB moved, {cold.compilations} kernels compiled (0 with a warm cache)"
    )
    for name, one in (("cold", cold), ("warm", ours)):
        print(f"{name}: {one.host}")
    same = all(good for _, _, good in rows) and reference.status == ours.status
    return ours.status or int(not same)


def _array_rows(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> list[tuple[str, str, bool]]:
    rows = []
    for name in sorted(set(theirs) | set(ours)):
        if name not in theirs or name not in ours:
            rows.append((name, f"only under {'NumPy' if name in theirs else 'weft'}", False))
            continue
        rows.append((name, *_verdict(theirs[name], ours[name])))
    return rows


def _verdict(wanted: np.ndarray, found: np.ndarray) -> tuple[str, bool]:
    shape = f"{wanted.dtype}{list(wanted.shape)}"
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"{shape} against {found.dtype}{list(found.shape)}", False
    if wanted.dtype.kind not in "biufc":
        same = bool((wanted == found).all())
        return f"{shape} {'equal' if same else 'different'}", same
    if np.array_equal(wanted, found, equal_nan=wanted.dtype.kind in "fc"):
        return f"{shape} equal", True
    with np.errstate(all="ignore"):
        difference = float(np.nanmax(np.abs(wanted.astype(complex) - found.astype(complex))))
        scale = float(np.nanmax(np.abs(wanted.astype(complex)), initial=0))
    precision = float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0.0
    relative = difference / scale if scale else difference
    return (
        f"{shape} largest difference {difference:.3g} ({relative:.2g} of the largest value)",
        relative <= 1e6 * precision,
    )


def _printed_rows(theirs: str, ours: str) -> list[tuple[str, str, bool]]:
    """Compare printed lines. Return a row for each line that differs, with its numeric difference."""
    a, b = theirs.splitlines(), ours.splitlines()
    if len(a) != len(b):
        return [("printed", f"{len(a)} lines against {len(b)}", False)]
    rows = []
    for k, (x, y) in enumerate(zip(a, b, strict=True), 1):
        if x == y:
            continue
        numbers = [[float(n) for n in NUMBER.findall(line)] for line in (x, y)]
        if NUMBER.sub("#", x) != NUMBER.sub("#", y) or len(numbers[0]) != len(numbers[1]):
            rows.append((f"printed line {k}", f"{x!r} against {y!r}", False))
            continue
        worst = max(abs(p - q) / max(abs(p), 1e-300) for p, q in zip(*numbers, strict=True))
        rows.append((f"printed line {k}", f"numbers differ by up to {worst:.2g} of their value", worst < 1e-4))
    equal = len(a) - len(rows)
    return [("printed", f"{equal} of {len(a)} lines equal", True), *rows]
