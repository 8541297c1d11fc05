"""Overhead of small operations, long chains of operations, and in-place loops.

Weft and NumPy are timed alternately in the same process, and the figures are medians over the turns. Chains of 50,000
and more operations and the 20,000 in-place steps are measured once, only on weft.
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
    """Return the mean time of a call in microseconds."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls * 1e6


def in_turns(first: Callable[[], Any], second: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Time two functions alternately, and return the median microseconds per call of each."""
    first()
    second()
    pairs = [(per_call(first, calls), per_call(second, calls)) for _ in range(TURNS)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def _chain(x: Any, y: Any) -> Any:
    """Compute a chain of forty operations."""
    r = x
    for _ in range(20):
        r = r * 0.5
        r = r + y
    return r


def _record(x: Any, y: Any) -> None:
    """Add two arrays a hundred times. The results are never used."""
    for _ in range(100):
        x + y


def _heat(u: Any) -> None:
    """Compute a time step of the heat equation by slices, including the boundary."""
    u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    u[0] = u[-1] = 0.0


class _Steps:
    """Small steps of work as they occur in loops, on NumPy arrays or weft arrays.

    Each method except `write` evaluates its results, or reads a value that depends on them.
    """

    def __init__(self, xp: Any, done: Callable[..., Any]) -> None:
        source = np.random.default_rng(1)
        self.done = done
        self.x, self.y = xp.asarray(source.random(100)), xp.asarray(source.random(100))
        self.count = 0
        self.xp = xp
        self.states = xp.asarray(source.random(100)), xp.asarray(source.random(100))
        self.sand, self.points = xp.asarray(source.integers(0, 9, (12, 12))), xp.asarray(source.random((12, 3)))

    def one(self) -> None:
        """Add two arrays."""
        self.done(self.x + self.y)

    def four(self) -> None:
        """Compute four results."""
        x, y = self.x, self.y
        self.done(x + y, x - y, x * y, x * 2.0)

    def many(self) -> None:
        """Compute sixty-four results."""
        self.done(*[self.x * k for k in range(1, 65)])

    def changing(self) -> None:
        """Multiply by a scalar that changes with each call."""
        self.count += 1
        self.done(self.x * (1e-3 * self.count))

    def total(self) -> None:
        """Compute a sum and convert it to a Python scalar."""
        float(self.x.sum())

    def read(self) -> None:
        """Read an element as a Python scalar."""
        self.count += 1
        float(self.x[self.count % 97])

    def write(self) -> None:
        """Assign to an element."""
        self.count += 1
        self.y[self.count % 97] = 0.5

    def heat(self) -> None:
        """Compute a time step of the heat equation."""
        _heat(self.y)
        self.done(self.y)

    # Loops that read a value in each iteration.

    def until(self) -> None:
        """Compute a time step, and test for values that are too large."""
        _heat(self.y)
        if self.y.max() > 1e6:
            raise ArithmeticError

    def wave(self) -> None:
        """Compute a time step of the wave equation, and read an element."""
        before, now = self.states
        after = self.xp.zeros(100)
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.1 * (now[2:] - 2 * now[1:-1] + now[:-2])
        self.states = now, after * 0.99
        float(after[5])

    def topple(self) -> None:
        """Compute a step of a sandpile model, and read the largest value."""
        sand = self.sand
        fall = sand >> 2
        sand[:, :] = sand - 4 * fall
        sand[1:, :] += fall[:-1, :]
        sand[:-1, :] += fall[1:, :]
        sand[:, 1:] += fall[:, :-1]
        sand[:, :-1] += fall[:, 1:]
        if sand.max() > 1000:
            raise ArithmeticError

    def nearest(self) -> None:
        """Compute the squared distances of all points from one point, and read their argmin."""
        self.count += 1
        distances = ((self.points - self.points[self.count % 12]) ** 2).sum(axis=1)
        int(distances.argmin())


_STEPS = {
    "x + y of 100 elements, evaluated": "one",
    "four results of 100 elements": "four",
    "sixty-four results of 100 elements": "many",
    "x * a number that is new each time, evaluated": "changing",
    "float(x.sum()) of 100 elements": "total",
    "float(x[k])": "read",
    "x[k] = 0.5": "write",
    "a time step of 100 elements by slices, with its boundary": "heat",
    "the same, and `if u.max() > limit` in each turn": "until",
    "a wave of 100 points, and one of them read in each turn": "wave",
    "a sandpile of 12 x 12, and its largest read in each turn": "topple",
    "the nearest of 12 points": "nearest",
}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure() -> dict[str, str]:
    """Return all measurements with their units."""
    source = np.random.default_rng(0)
    a, b = source.random(100), source.random(100)
    x, y = wf.asarray(a), wf.asarray(b)
    ours, theirs = in_turns(lambda: _record(x, y), lambda: _record(a, b), 2)
    results = {"recording one binary operation": f"{ours / 100:.2f} us (NumPy computes it in {theirs / 100:.2f} us)"}
    ours, theirs = in_turns(lambda: wf.evaluate(_chain(x, y)), lambda: _chain(a, b), 50)
    results["40 operations on 100 elements, evaluated"] = f"{ours:.1f} us (NumPy {theirs:.1f} us)"
    weft, plain = _Steps(wf, wf.evaluate), _Steps(np, lambda *made: None)
    for title, name in _STEPS.items():
        ours, theirs = in_turns(getattr(weft, name), getattr(plain, name), 200)
        results[title] = f"{ours:.1f} us (NumPy {theirs:.2f} us)"
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
