"""Reports of suites that measure programs in separate processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import picture
from benchmarks.processes import EMPTY_CACHE, NUMPY, WEFT, Outcome
from benchmarks.reports import bullets, geometric_mean, one_line, table, write, write_json

COLD_FACTOR, COLD_SECONDS = 1.5, 0.4  # factor of NumPy's time, and additional seconds, that a first call may take
WORST = 5
MOST_CALLS = 8  # maximum number of calls before the turns that are written to the report


def bound(outcome: Outcome) -> float:
    """Return the time limit, in seconds, that a first call of weft should meet."""
    return COLD_FACTOR * (outcome.first_seconds(NUMPY) or 0.0) + COLD_SECONDS


def within(outcome: Outcome, side: str) -> bool:
    """Return whether the median time of an implementation's first calls is within the limit.

    Return False if there are no times.
    """
    seconds = outcome.first_seconds(side)
    return seconds is not None and seconds <= bound(outcome)


def steady_plans(outcome: Outcome) -> int | None:
    """Return how many plans weft still creates in its warm-up calls after the first two.

    Return None if there is no third call.
    """
    return sum(call["plans"] for call in outcome.calls[2:]) if len(outcome.calls) > 2 else None


def best_port(outcome: Outcome, ports: Collection[str]) -> tuple[str, float] | None:
    """Return the name and the ratio of the fastest port, or None if no port has times.

    The ratio is NumPy's time divided by the port's time.
    """
    found = [(name, ratio) for name in ports if (ratio := outcome.ratio(name)) is not None]
    return max(found, key=lambda pair: pair[1], default=None)


def summary(outcomes: Sequence[Outcome], ports: Collection[str]) -> dict[str, Any]:
    """Return the totals over all programs."""
    warm = {o.program: ratio for o in outcomes if (ratio := o.ratio()) is not None}
    cold = {
        side: {
            o.program: seconds / numpy
            for o in outcomes
            if (seconds := o.first_seconds(side)) is not None and (numpy := o.first_seconds(NUMPY))
        }
        for side in (EMPTY_CACHE, WEFT)
    }
    wrong = [o.program for o in outcomes if {WEFT, EMPTY_CACHE, NUMPY} & set(o.problems)]
    found: dict[str, Any] = {
        "programs": len(outcomes),
        "failed or wrong on weft": f"{len(wrong)}{': ' if wrong else ''}{', '.join(wrong)}",
        "warm, geometric mean of NumPy / weft": round(geometric_mean(list(warm.values())), 3),
        "warm, programs faster than NumPy": f"{sum(v > 1 for v in warm.values())} of {len(warm)}",
        "warm, worst": ", ".join(f"{n} {warm[n]:.3g}" for n in sorted(warm, key=warm.__getitem__)[:WORST]),
    }
    for side, title in ((EMPTY_CACHE, "first call, empty cache"), (WEFT, "first call, filled cache")):
        times = cold[side]
        worst = sorted(times, key=times.__getitem__, reverse=True)[:WORST]
        held = sum(within(o, side) for o in outcomes)
        found[f"{title}, geometric mean of weft / NumPy"] = round(geometric_mean(list(times.values())), 2)
        found[f"{title}, within {COLD_FACTOR} times NumPy's + {COLD_SECONDS} s"] = f"{held} of {len(outcomes)}"
        found[f"{title}, worst"] = ", ".join(f"{n} {times[n]:.3g} times" for n in worst)
    for name in ports:
        ratios = [ratio for o in outcomes if (ratio := o.ratio(name)) is not None]
        if ratios:
            found[f"{name}, geometric mean of NumPy / {name} ({len(ratios)} programs)"] = round(
                geometric_mean(ratios), 3
            )
    best = [pair[1] for o in outcomes if (pair := best_port(o, ports)) is not None]
    if best:
        found[f"best port, geometric mean of NumPy / port ({len(best)} programs)"] = round(geometric_mean(best), 3)
    return found


def milliseconds(seconds: float | None) -> str:
    """Return a time in milliseconds as a table cell."""
    return "-" if seconds is None else f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def cells(outcome: Outcome, ports: Collection[str]) -> list[str]:
    """Return the table cells of a program's row."""
    ratio, share, plans = outcome.ratio(), outcome.kernel_share, steady_plans(outcome)
    best = best_port(outcome, ports)
    line = [
        outcome.program,
        milliseconds(outcome.seconds(NUMPY)),
        milliseconds(outcome.seconds(WEFT)),
        "-" if ratio is None else f"{ratio:.3g}",
        milliseconds(outcome.first_seconds(NUMPY)),
        milliseconds(outcome.first_seconds(EMPTY_CACHE)) + ("" if within(outcome, EMPTY_CACHE) else " !"),
        milliseconds(outcome.first_seconds(WEFT)) + ("" if within(outcome, WEFT) else " !"),
        ", ".join(milliseconds(call["seconds"]) for call in outcome.calls[1:3]) or "-",
        "-" if plans is None else str(plans),
        "-" if share is None else f"{100 * share:.0f} %",
    ]
    return [*line, f"{best[0]} {best[1]:.3g}" if best else "-"] if ports else line


class Report:
    """The result files of a suite, which are rewritten while the suite runs.

    Parameters
    ----------
    name : str
        The name of the files, without suffix.
    facts : dict
        Facts about the machine.
    folder : Path or None
        The folder for the files. If None, no files are written.
    ports : collection of str
        Sides in addition to NumPy and weft.
    totals : callable
        A function that returns totals that only this suite reports.
    """

    def __init__(
        self,
        name: str,
        facts: dict[str, Any],
        folder: Path | None,
        ports: Collection[str] = (),
        totals: Callable[[Sequence[Outcome]], dict[str, Any]] = lambda outcomes: {},
    ) -> None:
        self.name, self.facts, self.folder, self.ports, self.totals = name, facts, folder, ports, totals
        self.head = [
            "program",
            "NumPy ms",
            "weft ms",
            "NumPy / weft",
            "first call: NumPy ms",
            "weft, empty cache",
            "weft, filled cache",
            "second, third call",
            "plans from the third on",
            "in kernels",
        ]
        self.head += ["best port, NumPy / port"] if ports else []

    def summary(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """Return the totals over all programs, including the totals that only this suite reports."""
        return summary(outcomes, self.ports) | self.totals(outcomes)

    def text(self, outcomes: Sequence[Outcome]) -> str:
        """Return the table, the totals, and a list of problems, as text."""
        problems = {f"{o.program}, {name}": text for o in outcomes for name, text in o.problems.items()}
        return "\n".join(
            [
                one_line(self.facts),
                "Medians of turns in one run; `!` marks first calls that take longer than they should.\n",
                table(self.head, [cells(o, self.ports) for o in outcomes]),
                bullets(self.summary(outcomes)),
                f"Left out or wrong:\n\n{bullets(problems)}" if problems else "",
            ]
        )

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Print the last program's results and write all results so far."""
        print(" | ".join(cells(outcomes[-1], self.ports)), flush=True)
        for side, text in outcomes[-1].problems.items():
            print(f"    {side}: {text}", flush=True)
        write(self.folder, f"{self.name}.md", self.text(outcomes))
        found = {**self.facts, "summary": self.summary(outcomes), "results": [as_json(o) for o in outcomes]}
        write_json(self.folder, f"{self.name}.json", found)
        write(self.folder, f"{self.name}.svg", self.picture(outcomes))

    def picture(self, outcomes: Sequence[Outcome]) -> str:
        """Return an SVG chart of speedups over NumPy. Each program has a bar for weft, and a bar for its fastest port (such as a Numba version)."""
        groups: dict[str, dict[str, float]] = {}
        for o in outcomes:
            best, ratio = best_port(o, self.ports), o.ratio()
            groups[o.program] = {"weft": ratio} if ratio is not None else {}
            groups[o.program] |= {"best port": best[1]} if best else {}
        return picture.draw_ratios(groups, f"{self.name}: NumPy's time over that of others")


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return the measurements of a program for a JSON file."""
    rounded = {name: [round(v, 7) for v in values] for name, values in outcome.turns.items()}
    first = {name: [round(v, 7) for v in values] for name, values in outcome.first.items()}
    calls = outcome.calls[:MOST_CALLS]
    return {**asdict(outcome), "calls": calls, "first": first, "turns": rounded, "ratio": outcome.ratio()}
