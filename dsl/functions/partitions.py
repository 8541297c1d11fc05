"""Faster versions of NumPy's median, quantile and percentile functions for long rows.

These functions call `partition` to find a few elements of each row in sorted order, which takes NumPy about 10 ns per
element of the row. In: one of NumPy's functions. Out: a function that calls it with arrays whose `partition` finds the
elements by comparing the row with two bounds from a sample. Invariant: the results equal those of NumPy's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from math import isqrt
from typing import Any

import numpy as np

# Minimum length of rows that are compared with bounds, and number of elements in a sample.
LONG, SAMPLE = 1 << 15, 1 << 12


class _Selecting(np.ndarray):
    """A NumPy array whose `partition` method stores only the elements that belong at the given positions, and does not move the others."""

    def partition(self, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> None:
        """Partition along an axis: put at each position in `kth` the element that a sorted array would have there."""
        values = self.view(np.ndarray)
        n = values.shape[axis] if values.ndim else 0
        if n < LONG or values.dtype.kind not in "biuf":
            values.partition(kth, axis, kind, order)
            return
        ranks = np.unique(np.ravel(kth) % n)
        rows = np.moveaxis(values, axis, -1)
        for index in np.ndindex(rows.shape[:-1]):
            rows[index][ranks] = _select(rows[index], ranks)


def _select(row: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the elements of a row that have the given ranks, which are in ascending order.

    The method is that of R. W. Floyd and R. L. Rivest, "Expected time bounds for selection", CACM 18 (1975): two elements
    of a sample are probably just below and just above the wanted element, and only the elements between them are sorted.
    """
    if row.itemsize == 1:
        return np.sort(row, kind="stable")[ranks]  # (a radix sort)
    if row.dtype.char == "e":
        return _select(row.astype(np.float32), ranks).astype(row.dtype)
    row = np.ascontiguousarray(row)
    step = len(row) // SAMPLE
    sample = np.sort(row[::step])
    return np.concatenate([_select_near(row, sample, near) for near in _groups(ranks, step)])


def _groups(ranks: np.ndarray, gap: int) -> Iterator[np.ndarray]:
    """Divide ranks into groups in which neighbors differ by at most `gap`."""
    yield from np.split(ranks, np.flatnonzero(np.diff(ranks) > gap) + 1)


def _select_near(row: np.ndarray, sample: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return the elements of a row that have the given ranks, which are close to each other.

    `sample` contains some elements of the row in sorted order.
    """
    n, m = len(row), len(sample)
    if len(ranks) == 1 and ranks[0] in (0, n - 1):
        extreme = row[[row.argmax() if ranks[0] else row.argmin()]]
        if ranks[0] or extreme[0] == extreme[0]:  # (NaN comes last)
            return extreme
    margin = 2 * isqrt(m)  # (4 standard deviations)
    first, last = ranks[0] * m // n - margin, ranks[-1] * m // n + margin
    inside, below = np.ones(n, np.bool_), 0
    if last < m:
        np.less_equal(row, sample[last], out=inside)
    if first >= 0:
        inside &= row >= sample[first]
        below = int(np.count_nonzero(row < sample[first]))
    found = row[inside]
    if below <= ranks[0] and ranks[-1] - below < len(found):
        row, ranks = found, ranks - below
        if 0 <= first and last < m and sample[first] == sample[last]:
            return row[ranks]  # (all elements of `found` are equal)
    return np.partition(row, ranks)[ranks]


def with_fast_partitions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a NumPy function, such as `median`, that is faster for long rows.

    The first argument of the function is an array. The results equal NumPy's. The function must not overwrite its input.
    """

    @wraps(function)
    def call(a: Any, *arguments: Any, **options: Any) -> Any:
        if type(a) is not np.ndarray or a.size < LONG:
            return function(a, *arguments, **options)
        found = function(a.view(_Selecting), *arguments, **options)
        if not isinstance(found, _Selecting):
            return found
        return found.view(np.ndarray) if found.ndim else found.view(np.ndarray)[()]

    return call
