"""What laziness costs: recording, cached plans, long chains, loops without evaluation.

Each figure of weft's is taken in turns with NumPy's in the same run; medians over the turns.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf

TURNS = 15


def per_call(function: Callable[[], Any], calls: int) -> float:
    """Microseconds a call."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls * 1e6


def in_turns(first: Callable[[], Any], second: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Median microseconds a call of each, measured alternately."""
    first()
    second()
    pairs = [(per_call(first, calls), per_call(second, calls)) for _ in range(TURNS)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def _chain(x: Any, y: Any) -> Any:
    """Forty operations."""
    r = x
    for _ in range(20):
        r = r * 0.5
        r = r + y
    return r


def _record(x: Any, y: Any) -> None:
    """A hundred operations whose results nobody needs."""
    for _ in range(100):
        x + y


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure() -> dict[str, str]:
    """Every figure, with its unit."""
    source = np.random.default_rng(0)
    a, b = source.random(100), source.random(100)
    x, y = wf.asarray(a), wf.asarray(b)
    ours, theirs = in_turns(lambda: _record(x, y), lambda: _record(a, b), 2)
    results = {"recording one binary operation": f"{ours / 100:.2f} us (NumPy computes it in {theirs / 100:.2f} us)"}
    ours, theirs = in_turns(lambda: wf.evaluate(_chain(x, y)), lambda: _chain(a, b), 50)
    results["40 operations on 100 elements, evaluated"] = f"{ours:.1f} us (NumPy {theirs:.1f} us)"
    for count in (50_000, 200_000):
        begin = time.perf_counter()
        r = wf.zeros(100)
        for _ in range(count):
            r = r + 1.0
        wf.evaluate(r)
        text = repr(r)
        del r
        assert str(count) in text
        results[f"chain of {count} operations: build, evaluate, print, delete"] = f"{time.perf_counter() - begin:.2f} s"
    z = wf.zeros(1 << 17)
    wf.evaluate(z)
    before = _peak()
    begin = time.perf_counter()
    for _ in range(20_000):
        z += 1.0
    assert float(z[0]) == 20_000
    results["20,000 steps in place on 1 MB"] = (
        f"{time.perf_counter() - begin:.2f} s, peak memory grew by {_peak() - before:.1f} MB"
    )
    return results
