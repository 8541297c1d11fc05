"""Pending selections ``x[mask]``, which are computed only if their elements are needed.

In: an array, its mask and a source line. Out: ``array[mask]`` as a pending expression or, for an assignment, the new
values of all elements. Invariant: the selections of a line stay pending only while each of them is assigned back after
elementwise operations. If a selection is used in another way, it is computed, and later selections of the line are
computed immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, expr_of, record, user_location
from weft.dsl.immediate.host_values import values_of
from weft.fusion import Expr, end_recording, intern, opaque, recording, site_of, topological

# On the CPU, searching for the selected elements is faster than a scan if the mask selects less than one element in
# `SPARSE`.
SPARSE = 8
# Maximum number of source lines.
LIMIT = 10_000


class _PendingSelection:
    """A callable that computes the pending selections ``array[mask]`` of a source line. Pending selections are computed only if needed."""

    def __init__(self, site: Any) -> None:
        self.site = site

    def __call__(self, out: np.ndarray, values: np.ndarray, test: np.ndarray) -> None:
        """Compute the pending selection, and make later selections at this source line immediate."""
        _lines[self.site] = None
        out[...] = values[test]


# Maps a source line to the host function of its pending selections, or to None if a selection had to be computed.
_lines: dict[Any, _PendingSelection | None] = {}


class _Latest:
    """The mask of the most recent selection, and the source lines that used this mask."""

    mask: Callable[[], Array | None] = staticmethod(lambda: None)
    sites: list[Any] = []


def select_later(array: Array, mask: Array) -> Array | None:
    """Return ``array[mask]`` as a pending selection, or None if it should be computed immediately.

    A selection stays pending if an earlier selection at its source line was followed by an assignment with the same
    mask, if no pending selection of this line had to be computed, and if the mask has the array's shape and selects
    enough elements. This test may evaluate the mask.
    """
    found = _lines.get(site := site_of(user_location(2)))
    if found is None or recording.held or mask.shape != array.shape:
        if _Latest.mask() is not mask:
            _Latest.mask, _Latest.sites = ref(mask), []
        _Latest.sites.append(site)
        return None
    if mask._device is None and mask._storage.buffer is None:
        end_recording()
    count = int(np.count_nonzero(elements_of(mask)))
    if count < 2 or count * SPARSE < mask.size:
        return None
    return record(opaque(found, [expr_of(array), expr_of(mask)], (count,), array.dtype, "select"))


def elements_of(array: Array) -> np.ndarray:
    """Return an array's elements as a NumPy array that the caller must not modify."""
    values = values_of(array)
    if values is None:
        return array.numpy()
    VALUE_READS[0] += 1
    return values


def assign_selection(array: Array, mask: Array, value: Array) -> Expr | None:
    """Prepare ``array[mask] = value``: return an expression in the array's shape that has the assigned values where the mask is true.

    This is possible if `value` is computed, element by element, from pending selections with this mask. Otherwise
    return None. If the most recent selection used this mask, later selections at the source lines that used it stay
    pending, except at lines where a pending selection had to be computed.
    """
    node, epoch = value._storage.expr, recording.epoch
    if epoch is not None and value._view is None and value._storage.epoch is epoch and node is not None:
        test = expr_of(mask)
        if recording.epoch is epoch and (found := _of_all(node, test, array.shape)) is not None:
            epoch.taken.add(found)  # (all of it was recorded in this epoch)
            return found
    if _Latest.mask() is mask:
        if len(_lines) >= LIMIT:
            _lines.clear()
        for site in _Latest.sites:
            _lines.setdefault(site, _PendingSelection(site))
    return None


def _of_all(node: Expr, test: Expr, shape: tuple[int, ...]) -> Expr | None:
    made: dict[Expr, Expr] = {}
    for each in topological([node], lambda one: one.kind != "map" or not one.shape):
        if not each.shape:
            made[each] = each
        elif each.kind == "map":
            operands = tuple([made[child] for child in each.operands])
            made[each] = intern("map", each.op, operands, each.attrs, shape, each.dtype, each.location)
        elif each.kind == "opaque" and type(each.attrs[0]) is _PendingSelection and each.operands[1] is test:
            made[each] = each.operands[0]
        else:
            return None
    return made[node]
