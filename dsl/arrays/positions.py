"""Checked index arrays, and their conversion to positions in the flattened array.

In: the index of one axis. Out: `Positions`, which give expressions of valid indices. Invariant: an out-of-bounds index
raises IndexError before anything is recorded with it. A pending index array is not evaluated if its expression cannot
exceed the bounds.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, convert, expr_of, record
from weft.dsl.immediate.host_values import values_of
from weft.fusion import Expr, broadcast_to, cast, constant, evaluate, gather, map_, range_of, reduce_

_INT64 = np.dtype(np.int64)

# Minimum number of indices in host memory for which kernels find the bounds faster than NumPy.
MANY = 1 << 18


class Positions(NamedTuple):
    """Checked indices along one axis of an array."""

    position: int  # the number of axes of the basic part (see `indexing.Index`) before the index
    length: int  # of the indexed axis
    stride: int  # ... its stride
    shape: tuple[int, ...]
    numbers: np.ndarray | None  # the indices, none of which is negative, ...
    array: Array | None = None  # ... or a weft array of indices
    wraps: bool = False  # whether the weft array may contain negative indices

    def expr(self) -> Expr:
        """Return the indices, all non-negative, as an expression of the current recording."""
        if self.numbers is not None:
            return expr_of(convert(self.numbers))
        assert self.array is not None
        node = expr_of(self.array)
        if not self.wraps:
            return node
        node = cast(node, _INT64)
        below = map_("less", [node, constant(0, _INT64)])
        return map_("where", [below, map_("add", [node, constant(self.length, _INT64)]), node])


def positions_of(values: Array | np.ndarray, axis: int, length: int, stride: int, position: int) -> Positions:
    """Check index values for an axis, and return them as `Positions`, or raise IndexError."""
    if isinstance(values, np.ndarray):
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if values.size:
            _check(values, low, high, axis, length)
        wide = values.astype(np.int64)  # (a narrow dtype may not hold the length, and the caller may change the array)
        if low < 0:
            wide[wide < 0] += length
        return Positions(position, length, stride, values.shape, wide)
    if not values.size:
        return Positions(position, length, stride, values.shape, None, values)
    numbers = _in_memory(values)
    if numbers is None:
        low, high = (0, 0) if values._storage.expr is None else range_of(expr_of(values))
        if values._storage.expr is not None and low >= -length and high < length:
            return Positions(position, length, stride, values.shape, None, values, low < 0)
        evaluate([values._storage], aside=True)
        numbers = _in_memory(values)
    if numbers is None:
        low, high = map(int, extremes(values))
    else:
        VALUE_READS[0] += 1
        low, high = 0, int(numbers.view(f"u{numbers.itemsize}").max())
        # (in an unsigned interpretation, negative numbers have the highest bit set)
        if high >= length or (numbers.dtype.kind == "i" and high >> (8 * numbers.itemsize - 1)):
            low, high = int(numbers.min()), int(numbers.max())
    if low < -length or high >= length:
        _check(values.numpy() if numbers is None else numbers, low, high, axis, length)
    return Positions(position, length, stride, values.shape, None, values, low < 0)


def _in_memory(values: Array) -> np.ndarray | None:
    """Return `values` as a NumPy array if they are few and already in CPU memory, otherwise None."""
    return values_of(values) if values.size < MANY and values.device.name == "cpu" else None


def extremes(*arrays: Array) -> list[Any]:
    """Return the minimum and the maximum of each array as NumPy scalars, computed by one plan."""
    found = []
    for array in arrays:
        node = expr_of(array)
        found += [record(reduce_(op, node, tuple(range(array.ndim)), node.dtype)) for op in ("minimum", "maximum")]
    evaluate([each._storage for each in found], aside=True)
    return [each.numpy()[()] for each in found]


def _check(numbers: np.ndarray, low: int, high: int, axis: int, length: int) -> None:
    if low < -length or high >= length:
        wrong = numbers[(numbers < -length) | (numbers >= length)].flat[0]
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {length}")


def flat_position(positions: list[Positions]) -> Expr:
    """Return the sum of each index times its stride, which is an offset in elements."""
    on_host = [p.numbers if p.stride == 1 else p.numbers * p.stride for p in positions if p.numbers is not None]
    terms = [expr_of(convert(reduce(np.add, on_host)))] if on_host else []
    for p in positions:
        if p.numbers is None:
            node = cast(p.expr(), _INT64)
            terms.append(node if p.stride == 1 else map_("multiply", [node, constant(p.stride, _INT64)]))
    return reduce(lambda node, term: map_("add", [node, term]), terms)


def rank(marks: Expr, values: Expr, side: str, index: np.dtype) -> Expr:
    """Return the index at which to insert each value into the sorted array `marks`, as `searchsorted` does.

    NaN comes last. The result has the dtype `index`.
    """
    position, length = broadcast_to(constant(0, index), values.shape), marks.size

    def comes_before(offset: int) -> Expr:
        mark = element_at(marks, position, offset)
        if side == "right":
            found = map_("greater_equal", [values, mark])
            return found if values.dtype.kind != "f" else map_("logical_or", [found, map_("isnan", [values])])
        if marks.dtype.kind != "f":
            return map_("less", [mark, values])
        return map_("logical_not", [map_("logical_or", [map_("greater_equal", [mark, values]), map_("isnan", [mark])])])

    while length > 1:
        half = length // 2
        position = map_("where", [comes_before(half - 1), map_("add", [position, constant(half, index)]), position])
        length -= half
    return map_("add", [position, cast(comes_before(0), index)])


def element_at(marks: Expr, position: Expr, offset: int) -> Expr:
    """Return the elements of a 1-D array at the indices ``position + offset``."""
    return gather(marks, [position], ((offset, (), 0),), position.shape)
