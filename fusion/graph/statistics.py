"""Counters of events such as launches and plans, for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import weft.codegen as codegen
import weft.runtime as runtime


class Statistics:
    """Counters since the start of the process or since the last reset.

    `statistics` and `seconds_spent` describe most counters.

    `unknown` counts the programs that had neither a plan nor an interpreter program in memory.
    """

    launches: int = 0
    bytes: int = 0
    unknown: int = 0
    plans: int = 0
    plans_read: int = 0
    lowered: int = 0
    interpreted: int = 0
    uploaded: int = 0
    by_value: int = 0
    planning: float = 0.0
    running: float = 0.0
    compiled_before: int = 0


STATISTICS = Statistics()


def statistics() -> dict[str, int]:
    """Return the counts of launches, plans and other events.

    The counts begin at the last call to `reset_statistics`, or else at the start of the process.

    Returns
    -------
    dict
        ``kernels`` is the number of launched kernels, ``bytes`` is the number of bytes that they moved, and
        ``compilations`` is the number of compiled kernels. ``plans`` counts the created plans, ``plans_read`` counts
        the plans that were read from disk, and ``lowered`` counts the kernels that were generated, compiled or not.
        ``interpreted`` counts the runs of interpreted programs. ``compiling`` is the number of programs and functions
        that wait for their compilation in a second process. ``uploaded`` counts the small arrays that were copied to a
        device, and ``by_value`` counts those that were passed to kernels by value.

    Examples
    --------
    >>> before = wf.statistics()['plans']
    >>> wf.statistics()['plans'] - before
    0
    """
    s = STATISTICS
    return {
        "kernels": s.launches,
        "bytes": s.bytes,
        "compilations": codegen.CompileCounts.compiled - s.compiled_before,
        "plans": s.plans,
        "plans_read": s.plans_read,
        "lowered": s.lowered,
        "interpreted": s.interpreted,
        "compiling": runtime.waiting(),
        "uploaded": s.uploaded,
        "by_value": s.by_value,
    }


def seconds_spent() -> dict[str, float]:
    """Return the time in seconds that the host has spent on ``planning`` and on ``running``.

    Planning is the time to find or create plans, including compilation. Running includes interpreted programs and, on
    the CPU, the kernels.
    """
    return {"planning": STATISTICS.planning, "running": STATISTICS.running}


# The counters of the host's work, as text.
_WORK = {
    "plans": ("plan made", "plans made"),
    "plans_read": ("plan read from disk", "plans read from disk"),
    "lowered": ("kernel generated", "kernels generated"),
    "compilations": ("kernel compiled", "kernels compiled"),
    "interpreted": ("program interpreted", "programs interpreted"),
    "uploaded": ("small array moved to the device", "small arrays moved to the device"),
    "by_value": ("small array passed by value", "small arrays passed by value"),
}


def show_host_work(counts: Mapping[str, Any]) -> str:
    """Format the results of `statistics` and `seconds_spent` as text."""
    # (a counter is negative if it was reset in between)
    parts = [runtime.counted(counts[name], *words) for name, words in _WORK.items() if counts[name] > 0]
    return ", ".join([*parts, f"{1e3 * max(counts['planning'], 0):.1f} ms for finding, making and compiling plans"])


def reset_statistics() -> None:
    """Reset the counters of `statistics` and the times spent on the host to 0.

    The count ``compiling`` is not reset.

    Examples
    --------
    >>> wf.reset_statistics()
    >>> wf.statistics()['kernels']
    0
    """
    for name in Statistics.__annotations__:
        setattr(STATISTICS, name, 0)
    STATISTICS.compiled_before = codegen.CompileCounts.compiled
