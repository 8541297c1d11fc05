"""Times of single operations on a million elements, with warm caches.

Both libraries are timed alternately in one process. A ratio is NumPy's time divided by weft's, as the median over the
turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import weft as wf
from benchmarks.fused import TooLongError, as_problem, time_limit, warm_up
from benchmarks.operations import ELEMENTS, OPERATIONS, Case, cases, operands
from benchmarks.reports import bullets, geometric_mean, one_line, table, write, write_json

TURNS = 5
FILLED = 2e-3  # approximate seconds of the calls in a turn
MOST_TIMES = 50
LIMIT = 30.0  # maximum seconds to check and warm up a case on weft
SHOWN = 60  # maximum number of cases in the table
TELL_EVERY = 50
QUICK_ELEMENTS, QUICK_EVERY = 10_000, 40


@dataclass
class Found:
    """The measured times of a case, and a description of its problem, if it has one."""

    case: Case
    numpy_ms: float = 0.0
    weft_ms: float = 0.0
    ratio: float = 0.0
    problem: str = ""


def as_numpy(result: Any) -> list[np.ndarray]:
    """Convert the results of an operation to NumPy arrays."""
    return [np.asarray(part) for part in (result if isinstance(result, (tuple, list)) else [result])]


def difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], largest: float) -> str:
    """Return a description of how results differ, or "" if they agree.

    The absolute tolerance is relative to the largest finite magnitude of `theirs`, or to `largest` if that is larger.
    """
    for x, y in zip(ours, theirs, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        if y.dtype.kind in "fc":
            rtol = 1e-3 if y.dtype.itemsize <= (4 if y.dtype.kind == "f" else 8) else 1e-9
            scale = float(np.abs(y[np.isfinite(y)]).max(initial=largest))
            same = np.allclose(x, y, rtol=rtol, atol=rtol * 1e-3 * scale, equal_nan=True)
        else:
            same = np.array_equal(x, y)
        if not same:
            return f"wrong in {np.count_nonzero(x != y)} of {y.size}"
    return ""


def seconds_per_call(call: Callable[[], Any], times: int) -> float:
    """Return the mean time of a call in seconds, from several calls."""
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def measure_case(case: Case, elements: int, turns: int) -> Found | None:
    """Check and time a case, or return None if NumPy does not support it."""
    operation = OPERATIONS[case.operation]
    x, y, extra = operands(np, case, elements)

    def theirs() -> Any:
        return operation(np, x, y, extra)

    try:
        expected = as_numpy(theirs())
    except (TypeError, ValueError):
        return None
    largest = float(np.abs(x).max())
    try:
        with time_limit(LIMIT):
            a, b, further = operands(wf, case, elements)
            wf.evaluate(a, b, further.rows, further.flat, further.chosen, further.zeros)

            def ours() -> Any:
                result = operation(wf, a, b, further)
                wf.evaluate(*filter(is_weft, parts_of(result)))
                return result

            problem = difference(as_numpy(ours()), expected, largest)
            warm_up(ours, "interpreted")
            result = operation(wf, a, b, further)
            if is_weft(result):  # (the loops below time what a program contains)

                def ours() -> Any:
                    return wf.evaluate(operation(wf, a, b, further))

            elif not any(map(is_weft, parts_of(result))):

                def ours() -> Any:  # (numbers need no evaluation)
                    return operation(wf, a, b, further)

            problem = problem or difference(as_numpy(ours()), expected, largest)
    except (Exception, TooLongError) as error:  # the sweep continues
        return Found(case, problem=as_problem(error))
    calls = (theirs, ours)
    times = [min(MOST_TIMES, max(1, round(FILLED / seconds_per_call(call, 1)))) for call in calls]
    pairs = [tuple(map(seconds_per_call, calls, times)) for _ in range(turns)]
    return Found(
        case,
        numpy_ms=1e3 * statistics.median(p[0] for p in pairs),
        weft_ms=1e3 * statistics.median(p[1] for p in pairs),
        ratio=statistics.median(p[0] / p[1] for p in pairs),
        problem=problem,
    )


def parts_of(result: Any) -> Sequence[Any]:
    """Return the items of a tuple or list, or the result itself as the only item."""
    return result if isinstance(result, (tuple, list)) else [result]


def is_weft(value: Any) -> bool:
    """Return whether a result is a weft array."""
    return isinstance(value, wf.Array)


# -- reports ----------------------------------------------------------------------------------


def totals(found: Iterable[Found]) -> dict[str, Any]:
    """Return the totals over several cases."""
    ratios = [f.ratio for f in found if f.ratio]
    slower, cliffs = sum(r < 1 for r in ratios), sum(r < 0.5 for r in ratios)
    return {
        "cases": len(ratios),
        "geometric mean of NumPy / weft": round(geometric_mean(ratios), 3),
        "slower than NumPy": f"{slower} ({100 * slower / max(len(ratios), 1):.1f} %)",
        "below 0.5": cliffs,
    }


def grouped(found: Sequence[Found], field: str) -> list[list[str]]:
    """Return one table row for each value of a field. The smallest mean ratio of NumPy's time to weft's comes first.

    Each row contains totals, and names the slowest case with that value.
    """
    groups: dict[str, list[Found]] = {}
    for f in found:
        if f.ratio:
            groups.setdefault(getattr(f.case, field), []).append(f)
    lines = sorted((geometric_mean([f.ratio for f in group]), name) for name, group in groups.items())
    rows = []
    for mean, name in lines:
        worst = min(groups[name], key=lambda f: f.ratio)
        below = sum(f.ratio < 0.5 for f in groups[name])
        rows.append([name, str(len(groups[name])), f"{mean:.2f}", str(below), f"{worst.ratio:.2f}", str(worst.case)])
    return rows


def as_markdown(found: Sequence[Found], facts: dict[str, Any]) -> str:
    """Return a Markdown report of the results."""
    worst = sorted((f for f in found if f.ratio), key=lambda f: f.ratio)[:SHOWN]
    problems = {str(f.case): f.problem for f in found if f.problem}
    parts = [
        one_line(facts),
        bullets({**totals(found), "errors and wrong results": len(problems)}),
        table(
            ["case", "NumPy ms", "weft ms", "NumPy / weft"],
            [[str(f.case), f"{f.numpy_ms:.3f}", f"{f.weft_ms:.3f}", f"{f.ratio:.2f}"] for f in worst],
        ),
    ]
    for field in ("operation", "dtype", "layout", "shape"):
        parts.append(table([field, "cases", "geometric mean", "below 0.5", "worst", "of"], grouped(found, field)))
    parts += [f"Errors and wrong results:\n\n{bullets(problems)}"] if problems else []
    return "\n".join(parts)


def run(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Measure the cases, print the totals, and write the results."""
    elements, found = QUICK_ELEMENTS if options.quick else ELEMENTS, list[Found]()
    chosen = [c for c in cases(elements) if not options.only or any(part in str(c) for part in options.only)]
    chosen = chosen[::QUICK_EVERY] if options.quick else chosen

    def tell() -> None:
        print(f"{len(found)} of {len(chosen)}: {totals(found)}", flush=True)
        write(options.out, "sweep.md", as_markdown(found, facts))
        results = [{**asdict(f.case), **asdict(f), "case": str(f.case)} for f in found]
        write_json(options.out, "sweep.json", {**facts, "summary": totals(found), "results": results})

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k, case in enumerate(chosen):
            one = measure_case(case, elements, min(options.turns, TURNS))
            found += [one] if one is not None else []
            if k % TELL_EVERY == TELL_EVERY - 1:
                tell()
    tell()
    print(as_markdown(found, facts))
