"""Call sites of operations that weft evaluated alone, without fusing them with any other operation.

In: the call sites of evaluated values. Out: whether the last evaluation of a value from a call site computed only this
value. Recording an operation on arrays of medium size does not pay off at such a call site.
"""

from __future__ import annotations

from functools import cache
from math import inf
from time import perf_counter

import numpy as np

from weft.codegen import OPS
from weft.fusion.graph.expr import Expr, Location
from weft.runtime import setting, thread_count

# The id of a code object, an offset in it, and, for calls that record several operations, `CALL`.
Site = tuple[int, int] | tuple[int, int, str]
CALL = "call"

# Call sites whose last value was evaluated without other values. Each has the number of calls that remain until fusion
# is tried again, and the number of calls between two tries. Native recorders leave calls at these sites to Python.
ALONE: dict[Site, tuple[int, int]] = {}
LIMIT = 4096
CALLS, MOST_CALLS = 32, 1024  # initial and maximum number of calls between two tries
_TRIED = -1  # number of remaining calls that marks a site whose last call was recorded
# Number of bytes, per element of the limit of immediate operations. If an operation reads and writes more bytes (than a
# core's cache holds), a compiled kernel on two threads takes less time than NumPy.
_BYTES = 96
# Seconds of NumPy's loop from which a kernel takes less time, whatever the number of bytes.
_SLOW = 200e-6
_SAMPLE = 1 << 14  # number of elements with which the loop is timed


def note_alone(site: Site, waits: bool = False) -> None:
    """Record for the call site `site` that its latest result was evaluated without any other values.

    If the site tried fusion in vain, the next try follows after twice as many calls, unless the site `waits` for a
    compiled kernel.
    """
    if len(ALONE) >= LIMIT:
        ALONE.clear()
    calls = min(2 * ALONE[site][1], MOST_CALLS) if site in ALONE and not waits else CALLS
    ALONE[site] = calls, calls


def calls_since_try(where: Location | None) -> int:
    """Return how many calls at a call site NumPy executed between the previous attempt to fuse and the present one.

    Return 0 unless the last call at the site was recorded to try fusion again.
    """
    left, calls = ALONE.get((id(where[0]), where[1]), (0, 0)) if where is not None else (0, 0)
    return calls if left == _TRIED else 0


def is_faster_compiled(node: Expr) -> bool:
    """Return whether a compiled kernel for `node` alone is expected to take less time than NumPy."""
    if node.kind != "map" or node.op == "cast":  # (casts by NumPy take no longer)
        return False
    nbytes = node.nbytes + sum([child.nbytes for child in node.operands])
    if thread_count() > 1 and nbytes > _BYTES * setting("immediate"):
        return True
    return node.size * _seconds_per_element(node.op, tuple([child.dtype for child in node.operands])) > _SLOW


@cache
def _seconds_per_element(op: str, dtypes: tuple[np.dtype, ...]) -> float:
    """Return the measured seconds per element of NumPy's loop for an op, or 0 if there is no such loop."""
    loop = getattr(np, OPS[op].ufunc, None) if op in OPS else None
    if loop is None or any(dtype.kind not in "biufc" for dtype in dtypes):
        return 0.0
    operands = [(np.arange(_SAMPLE) % 7 + 1).astype(dtype) for dtype in dtypes]
    seconds = inf
    with np.errstate(all="ignore"):
        for _ in range(3):  # (the first call takes longer, and other programs may run at the same time)
            begin = perf_counter()
            try:
                loop(*operands)
            except TypeError:  # (no such loop)
                return 0.0
            seconds = min(seconds, perf_counter() - begin)
    return seconds / _SAMPLE


def was_evaluated_alone(where: Location, several: bool = False) -> bool:
    """Return whether the last value from a call site was evaluated alone, without other values. The parameter `where` is the call site.

    With `several`, the result is also True if the evaluation computed all operations of one call at this site.

    Each call of this function counts as a call at the site. After some calls the result is False, so that fusion is
    tried again.
    """
    site: Site = id(where[0]), where[1]
    if several and (*site, CALL) in ALONE:
        site = (*site, CALL)
    left, calls = ALONE.get(site, (_TRIED, 0))
    if left > _TRIED:
        ALONE[site] = left - 1, calls
    else:
        ALONE.pop(site, None)  # (the value of the last try was not evaluated alone)
    return left > 0
