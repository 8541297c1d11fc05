"""Masks: assignments to what a boolean array takes, without looking for it.

In: an array, a mask of its first axes, and what is assigned. Out: a new version of the storage, each element chosen where it
lies. The values of an array go to their places by a running count of the mask: the element with count k gets value k - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl.array import Array, as_operand, expr_of, record, write
from weft.fusion import Expr, cast, constant, evaluate, gather, map_, reduce_, reshape, scan

# On the CPU it pays to look for what a mask takes where that is less than one element in so many.
SPARSE = 8


def assign_masked(array: Array, mask: Any, value: Any) -> bool:
    """``array[mask] = value`` where the value is one for all, or has an element for each that is taken; False for others."""
    several = isinstance(value, (Array, np.ndarray)) and value.ndim == 1 and value.size > 1
    # looked at first: what is recorded is valid until something is evaluated
    if several and (mask.ndim != array.ndim or not mask.size or not _is_worth_it(array, mask, value.size)):
        return False
    node, weak = as_operand(value)
    if not several and (node.size != 1 or len(node.shape) > 1):
        return False
    if weak is not None:
        node = constant(value, array.dtype)
    test = _test(mask, array.ndim)
    node = _spread(test, node) if several else reshape(node, ())
    write(array, map_("where", [test, cast(node, array.dtype), expr_of(array)]))
    return True


def _test(mask: Any, ndim: int) -> Expr:
    test = as_operand(mask)[0]
    return reshape(test, test.shape + (1,) * (ndim - len(test.shape)))


def _is_worth_it(array: Array, mask: Any, values: int) -> bool:
    """Whether the mask takes as many elements as there are values, and not too few of all."""
    if isinstance(mask, Array):
        test = expr_of(mask)
        count = record(reduce_("add", cast(test, np.dtype(np.int64)), tuple(range(mask.ndim)), np.int64))
        evaluate([count._storage, mask._storage], aside=True)
        taken = int(count)
    else:
        taken = int(np.count_nonzero(mask))
    return taken == values and (array._storage.device.name != "cpu" or taken * SPARSE >= mask.size)


def _spread(test: Expr, values: Expr) -> Expr:
    """For each element of the mask the value that is its own where it is taken."""
    kind = np.dtype(np.int32 if test.size < 2**31 else np.int64)
    counts = scan("add", cast(reshape(test, (test.size,)), kind), 0, kind)
    first = map_("subtract", [counts, constant(1, kind)])
    place = reshape(map_("maximum", [first, constant(0, kind)]), test.shape)
    return gather(values, [place], ((0, (), 0),), test.shape)


__all__ = ["assign_masked"]
