"""Sanitizer for fused kernels, used by the ``simt::sanitized`` device to check GPU schedules.

In: a fused kernel compiled with instrumentation, and the events of a launch. Out: a `SanitizerError` if there are
findings. The error's locations are operations of the kernel's IR (line 1 is the first instrumented operation).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.dsl.kernel.language.kernel_errors import SourceLocation
from weft.dsl.kernel.sanitizer.detector import Detector
from weft.dsl.kernel.sanitizer.sanitized_launch import SanitizerError, make_report, no_collector
from weft.dsl.kernel.sanitizer.tracer import Site, SiteKind
from weft.runtime import KernelFault

_KINDS = {kind.name.lower(): kind for kind in SiteKind}
_GRID = (1 << 31, 1, 1)  # an upper bound of the grid size; the grid has one dimension, so a block's number is its index


def _site(name: str, number: int, facts: tuple[Any, ...]) -> Site:
    kind, text, array, space, size, align, numbers, valued, compares = facts
    location = SourceLocation(f"kernel {name}", number + 1, 0, len(text), text)
    return Site(_KINDS[kind], location, array, space, size, align, numbers, valued, compares)


@contextmanager
def check_launch(function: Any) -> Iterator[Callable[[list[list[int]]], None]]:
    """Context manager that checks one launch, and yields a function that receives its events."""
    sites = [_site(function.name, k, tuple(facts)) for k, facts in enumerate(function.traced)]
    detector = Detector(sites, function.schedule.threads)
    stuck: KernelFault | None = None
    try:
        with no_collector():
            yield detector.take
    except KernelFault as fault:
        stuck = fault
    findings = detector.finish(stuck is not None)
    if findings:
        block = (function.schedule.threads, 1, 1)
        counts = [detector.counts[f.kind, f.site, f.other] for f in findings]
        reports = [make_report(f, n, _GRID, block) for f, n in zip(findings, counts, strict=True)]
        raise SanitizerError(function.name, reports) from stuck
    if stuck is not None:
        raise stuck
