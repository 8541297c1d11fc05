"""Counters of what has been run, for reports."""

from __future__ import annotations

from dataclasses import dataclass

import weft.codegen as codegen


@dataclass(slots=True)
class Statistics:
    """Since the start of the process or the last reset: kernels launched, bytes they had to move
    (each element touched once a kernel), kernels compiled, plans made."""

    launches: int = 0
    bytes: int = 0
    plans: int = 0
    compiled_before: int = 0


STATISTICS = Statistics()


def statistics() -> dict[str, int]:
    """What the process did since it began, or since `reset_statistics`.

    Returns
    -------
    dict
        The counters: ``kernels`` launched, ``bytes`` moved, ``compilations``, ``plans``.
    """
    s = STATISTICS
    return {
        "kernels": s.launches,
        "bytes": s.bytes,
        "compilations": codegen.Tally.compiled - s.compiled_before,
        "plans": s.plans,
    }


def reset_statistics() -> None:
    """Set every counter to 0."""
    STATISTICS.launches = STATISTICS.bytes = STATISTICS.plans = 0
    STATISTICS.compiled_before = codegen.Tally.compiled
