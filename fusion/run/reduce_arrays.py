"""Reductions of arrays by NumPy. The results have the same bits as those of CPU kernels.

In: an array, and a kernel's reduction order (`reduction_order.Tree`). Out: the reduced array. Invariant: elements are
combined in the kernel's order. NumPy chooses the order only if the result is the same in any order.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import weft.codegen as codegen  # (modules that read the disk cache load when they are used)
import weft.runtime as runtime
from weft.codegen import EXTREMES, SUM_LANES, dtype_kind, find_op, identity_of, is_bfloat16, widened
from weft.fusion.graph.reduction_order import (
    REDUCTION_BLOCK,
    SHORT,
    SHORT_COLUMN,
    LaneLoop,
    Tree,
    is_in_blocks,
    plain_tree,
)
from weft.fusion.run.expanded_ops import BY_NUMPY, stored_loops

# Number of reductions of contiguous rows, by op and dtype, after which a compiled loop is worthwhile.
OFTEN = 32
# Minimum number of short rows that are reduced column by column, without a transposed copy.
MANY = 1000
# Orders of reductions that `plain_tree` cannot find. Bounded.
_trees: OrderedDict[Any, Tree] = OrderedDict()
TREES_LIMIT = 1024
# Compiled loops by op and dtype, and the number of reductions that would have used each loop before it was available.
_loops: dict[tuple[str, str], Any] = {}
_counts: dict[tuple[str, str], int] = {}
_POSITIONS = frozenset({"argmax", "argmin"})
_IN_ORDER = frozenset({"add", "multiply"})


class NeedsKernelError(Exception):
    """Raised if a result needs a compiled kernel, because NumPy might compute it with other bits.

    Examples are a maximum over zeros of both signs, and a product of complex numbers.
    """


def reduce_values(op: str, values: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, keepdims: bool = False) -> Any:
    """Reduce the array `values` over the axes `axes`, and return the result. The result is bit-identical to that of a compiled kernel.

    The kernel is one for an array with the shape and strides of `values`. `op` has an identity, or is "argmax" or
    "argmin". `axes` are sorted and not negative. `dtype` is the dtype of the result and of the accumulators.

    Raises
    ------
    NeedsKernelError
        If the maximum (or minimum) float is zero and there are zeros of both signs, or for products of complex numbers.
    """
    loop = _loops.get((op, dtype.char))
    if loop is not None and not keepdims and len(axes) == values.ndim and values.dtype is dtype:
        if 1 < values.size <= 2 * REDUCTION_BLOCK and values.flags.c_contiguous:
            return loop(values if len(axes) == 1 else values.reshape(-1))
    if axes == (0,) and dtype.char in "fd" and values.dtype is dtype and op in _IN_ORDER:
        if 1 < len(values) <= SHORT_COLUMN and values.size > len(values) and values.flags.c_contiguous:
            # (kernels combine the rows in order, too)
            return getattr(np, op).reduce(values, axis=0, keepdims=keepdims, initial=identity_of(op, dtype))
    if op in _POSITIONS or dtype_kind(dtype) not in "fc" or op in EXTREMES:
        found = _reduce_exactly(op, values, axes, dtype)
    else:
        if dtype.kind == "c" and op == "multiply":
            raise NeedsKernelError
        kind = widened(dtype)
        typed = values if values.dtype == kind else values.astype(kind)
        found = _reduce_compiled(op, typed, axes, kind) if values.flags.c_contiguous else None
        if found is None:
            found = reduce_in_order(op, typed, _tree_for(op, values, axes, kind))
        if kind != dtype:
            found = found.astype(dtype)
    shape = tuple([1 if k in axes else n for k, n in enumerate(values.shape) if keepdims or k not in axes])
    return found if found.shape == shape else found.reshape(shape)


# -- reductions whose order does not affect the result ------------------------------------------


def _reduce_exactly(op: str, values: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    if op in _POSITIONS:
        return _find_extreme(getattr(np, op), values, axes, dtype)
    if is_bfloat16(values.dtype):
        return _reduce_exactly(op, values.astype(np.float32), axes, np.dtype(np.float32)).astype(dtype)
    if values.dtype.kind == "b" and op == "add" and len(axes) == values.ndim:
        return dtype.type(np.count_nonzero(values))
    start = {} if values.size else {"initial": identity_of(op, dtype)}
    if values.dtype != dtype and dtype.kind != "b":
        values = values.astype(dtype)
    found = getattr(np, find_op(op).ufunc).reduce(values, axis=axes, **start)
    if dtype.kind == "f" and op in EXTREMES:
        _check_zeros(values, found)
    return found if found.dtype == dtype else found.astype(dtype)


def _check_zeros(values: Any, found: Any) -> None:
    if np.count_nonzero(found) < found.size:
        signs = np.signbit(values[values == 0])
        if signs.any() and not signs.all():
            raise NeedsKernelError


def _find_extreme(function: Any, values: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    if len(axes) == 1:
        return function(values, axis=axes[0]).astype(dtype, copy=False)
    return dtype.type(function(values))  # (of the whole array: there is no position along several axes)


# -- reductions whose order affects the result --------------------------------------------------


def _tree_for(op: str, values: np.ndarray, axes: tuple[int, ...], kind: np.dtype) -> Tree:
    """Return the order in which a plan would reduce an array with the shape and strides of `values`."""
    if values.flags.c_contiguous:
        found = plain_tree(values.shape, axes, codegen.host_has_masks())
        if found is not None:
            return found
    key = op, kind, values.dtype, values.shape, values.strides, axes
    return memoized_tree(key, lambda: stored_loops().compiler().tree_of_array(op, values, axes, kind))


def memoized_tree(key: object, find: Callable[[], Tree]) -> Tree:
    """Return the order in which a reduction combines elements. If no order for `key` is in memory or on disk, call `find` to determine it."""
    known = _trees.get(key)
    if known is None:
        known = _trees[key] = stored_loops().obtain_tree(key, find)
        if len(_trees) > TREES_LIMIT:
            _trees.popitem(last=False)
    return known


def reduce_in_order(op: str, values: np.ndarray, tree: Tree) -> Any:
    """Reduce `values` in the order `tree`. The dtype of `values` must be that of the accumulators."""
    row = getattr(np, find_op(op).ufunc)
    shape = tuple(tree.pieces[k] for k in tree.outer)
    rows = prod(shape)
    if not rows or 0 in tree.extents:
        return np.full(shape, identity_of(op, values.dtype))
    if len(tree.pieces) > 1 or values.shape != tree.pieces:
        values = values.reshape(tree.pieces).transpose(*tree.outer, *tree.inner).reshape(rows, *tree.extents)
    else:
        values = values.reshape(rows, *tree.extents)
    if tree.block_length:
        values = _reduce_blocks(row, values, tree)
        found = reduce_rows(row, values, tree.last)
    else:
        found = reduce_rows(row, values, tree.first)
    return found.reshape(shape)[()]


def _reduce_blocks(row: np.ufunc, values: np.ndarray, tree: Tree) -> Any:
    """Return the partial results of a split reduction, as an array ``(rows, blocks)``."""
    rows, extent, *rest = values.shape
    whole = extent // tree.block_length
    parts = values[:, : whole * tree.block_length].reshape(rows * whole, tree.block_length, *rest)
    found = reduce_rows(row, parts, tree.first).reshape(rows, whole)
    if whole * tree.block_length < extent:
        left = reduce_rows(row, values[:, whole * tree.block_length :], tree.first)
        found = np.concatenate([found, left[:, None]], axis=1)
    return found


def reduce_rows(row: np.ufunc, values: np.ndarray, level: LaneLoop) -> Any:
    """Reduce each row of an array in the order in which a kernel combines elements. The array has shape ``(rows, *extents of reduced loops)``."""
    rows, *extents = values.shape
    if level.lanes < 0 or not extents:
        found = _in_order(row, values.reshape(rows, -1))
    else:
        found = _in_lanes(row, values, level)
    # a sum starts with 0.0, so that it is never -0.0
    return found + found.dtype.type(0) if row is np.add else found


def _in_order(row: np.ufunc, values: np.ndarray) -> Any:
    """Reduce each row in order, from its first element to its last."""
    rows, length = values.shape
    if length == 1:
        return values[:, 0]
    if rows == 1:
        return row.accumulate(values[0])[-1:]  # (NumPy's reduction of one row has another order)
    if length <= SHORT and rows >= MANY:
        found = row(values[:, 0], values[:, 1])
        for k in range(2, length):
            row(found, values[:, k], out=found)
        return found
    return row.reduce(np.ascontiguousarray(values.T), axis=0)


def _in_lanes(row: Any, values: Any, level: LaneLoop) -> Any:
    rows, *extents = values.shape
    before, extent = prod(extents[: level.lanes]), extents[level.lanes]
    inside = prod(extents[level.lanes + 1 :])
    values = values.reshape(rows * before, extent, inside)
    whole = extent - extent % SUM_LANES
    vectors = None
    if whole:
        vectors = values[:, :whole].reshape(rows * before, -1, SUM_LANES, inside)
        vectors = vectors.swapaxes(2, 3).reshape(rows * before, -1, SUM_LANES)
        # (along an axis that is not the innermost, NumPy reduces from the first element to the last)
        vectors = row.reduce(np.ascontiguousarray(vectors), axis=1)
    left = values[:, whole:]
    if level.masked and whole < extent:
        vectors = _combine_remainder(row, vectors, left)
    if vectors is not None:
        while vectors.shape[1] > 1:
            half = vectors.shape[1] // 2
            vectors = row(vectors[:, :half], vectors[:, half:])
    if not level.masked and whole < extent:
        left = left.reshape(rows * before, -1)
        vectors = left if vectors is None else np.concatenate([vectors, left], axis=1)
    assert vectors is not None
    return _in_order(row, vectors.reshape(rows, -1))


def _combine_remainder(row: Any, vectors: Any, left: Any) -> Any:
    """Combine the last elements of each row, which are in the array `left`, with the first lanes of the array `vectors`.

    If `vectors` is None, new vectors are created first. The other lanes keep their values. The ufunc `row` combines.
    """
    rows, count, inside = left.shape
    if vectors is None:
        width = 1 << (count - 1).bit_length()
        start = -0.0 if row is np.add else 1
        vectors = np.full((rows, width), start, left.dtype)
        vectors[:, :count] = left[:, :, 0]
        left = left[:, :, 1:]
        inside -= 1
    for k in range(inside):
        vectors[:, :count] = row(vectors[:, :count], left[:, :, k])
    return vectors


# -- compiled loops -----------------------------------------------------------------------------


def _reduce_compiled(op: str, values: np.ndarray, axes: tuple[int, ...], kind: np.dtype) -> Any:
    """Reduce contiguous rows with a compiled loop, or return None if there is no loop.

    No loop is used for rows that are not contiguous, and for several short rows. The first calls with an op and a dtype
    use a loop only if it is in the disk cache.
    """
    ndim = values.ndim
    if len(axes) == ndim:
        values = values.reshape(-1)
    elif axes != (ndim - 1,) or values.shape[-1] <= SHORT or values.size == values.shape[-1]:
        return None
    length = values.shape[-1]
    if length < 2:
        return None
    loop = _compiled(op, kind)
    if loop is None:
        return None
    if values.ndim == 1:
        return loop(values if length <= 2 * REDUCTION_BLOCK else _block_results(loop, values))
    if not is_in_blocks(values.size // length, length):
        return loop(values)
    parts = np.stack([_block_results(loop, row) for row in values.reshape(-1, length)])
    return reduce_rows(getattr(np, find_op(op).ufunc), parts, LaneLoop())


def sum_of_products(left: np.ndarray, right: np.ndarray) -> Any:
    """Return the sum of the products of two contiguous float vectors, or None if there is no compiled loop.

    The vectors have the same dtype and at least two elements.
    """
    loop = _compiled("add", left.dtype, 2)
    if loop is None:
        return None
    if left.size <= 2 * REDUCTION_BLOCK:
        return loop(left, right)
    return reduce_values("add", _block_results(loop, left, right), (0,), left.dtype)


def _compiled(op: str, kind: np.dtype, factors: int = 1) -> Any:
    """Return a compiled reduction of rows, or None if it has not been compiled.

    It is compiled after several calls of this function. If `factors` is 2, the function reduces the products of two
    rows. A function in the disk cache is returned at once.
    """
    key = op, kind.char * factors
    loop = _loops.get(key)
    if loop is None:
        count = _counts[key] = _counts.get(key, 0) + 1
        stored = stored_loops()
        if count > OFTEN:
            form = f"the compilation of reductions by {op} of {kind}"
            loop = runtime.try_compiling(form, BY_NUMPY, lambda: stored.obtain_reduction(op, kind, factors))
            if loop is None:
                _counts[key] = -sys.maxsize
        elif count == 1:
            loop = stored.find_reduction(op, kind, factors)  # (another process may have compiled it)
        if loop is None:
            return None
        _loops[key] = loop
    return loop


def _block_results(loop: Any, *rows: np.ndarray) -> Any:
    """Reduce each block of a long row separately, and return the results. The blocks are as long as those of kernels."""
    length = rows[0].size
    whole = length - length % REDUCTION_BLOCK
    parts = loop(*[row[:whole].reshape(-1, REDUCTION_BLOCK) for row in rows])
    return parts if whole == length else np.append(parts, loop(*[row[whole:] for row in rows]))
