"""Faster versions of NumPy's median, quantile and percentile functions for long rows.

NumPy's `partition` finds one element with vector code. To find several elements, which these functions need, it uses
scalar code, which takes 5 to 20 times as long. In: one of NumPy's functions. Out: a function that calls it with arrays
whose `partition` finds one element after another. Invariant: the results equal those of NumPy's function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

# Minimum length of rows for which the overhead per row and per partitioned element is negligible.
LONG = 1 << 12


class _Partitioned(np.ndarray):
    """A NumPy array whose `partition` method is faster than NumPy's for long rows."""

    def partition(self, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> None:
        """Partition the rows along an axis, like `numpy.ndarray.partition`."""
        values = self.view(np.ndarray)
        n = values.shape[axis] if values.ndim else 0
        if n < LONG:
            values.partition(kth, axis, kind, order)
            return
        ranks = sorted({int(rank) % n for rank in np.ravel(kth)})
        rows = np.moveaxis(values, axis, -1)
        for index in np.ndindex(rows.shape[:-1]):
            _partition(rows[index], ranks)


def _partition(row: np.ndarray, ranks: Sequence[int]) -> None:
    """Move the elements with the given ranks to their sorted positions.

    As in `numpy.partition`, smaller elements come before them.
    """
    if row.itemsize == 1:
        row.sort(kind="stable")  # (there is no vector code for bytes; the stable sort is a radix sort)
        return
    if not ranks:
        return
    middle = len(ranks) // 2
    rank = ranks[middle]
    last = rank == len(row) - 1
    if last or rank == 0:  # (a search for an extreme is much faster than a partition, even than one in vector code)
        found = row.argmax() if last else row.argmin()
        row[rank], row[found] = row[found], row[rank]
    if not last and (rank or row[0] != row[0]):  # (NaN comes last)
        row.partition(rank)
    _partition(row[:rank], ranks[:middle])
    _partition(row[rank + 1 :], [later - rank - 1 for later in ranks[middle + 1 :]])


def with_fast_partitions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a NumPy function, such as `median`, that is faster for long rows.

    The first argument of the function is an array. The results equal NumPy's.
    """

    @wraps(function)
    def call(a: Any, *arguments: Any, **options: Any) -> Any:
        if type(a) is not np.ndarray or a.size < LONG:
            return function(a, *arguments, **options)
        found = function(a.view(_Partitioned), *arguments, **options)
        if not isinstance(found, _Partitioned):
            return found
        return found.view(np.ndarray) if found.ndim else found.view(np.ndarray)[()]

    return call
