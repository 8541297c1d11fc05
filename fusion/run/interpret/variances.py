"""Interpretation of variances. The results have the same bits as those of compiled kernels.

In: a sum of squared differences from the mean of a whole array, which a plan divides into blocks. Out: the sum.
Invariant: each block is summed with its own mean as the shift, as `plan.shifted_moments` describes, so the differences
from the mean of the whole array are never computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.codegen as codegen  # (its names load when they are used)
from weft.fusion.graph.expr import Expr, is_number
from weft.fusion.graph.reduction_order import Tree, plain_tree
from weft.fusion.run.interpret.reductions import is_regular
from weft.fusion.run.reduce_arrays import reduce_rows
from weft.runtime import run_calls, thread_count

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ValueStep

# Number of blocks whose differences are in memory at a time: they stay in a core's cache.
TOGETHER = 8


def find_variances(order: list[Expr], origins: Mapping[Expr, Expr]) -> dict[Expr, tuple[Expr, Tree]]:
    """Find the sums ``sum((x - mean(x))**2)`` over all elements of long arrays x.

    Map each sum to the array and to the order in which the elements are added.
    """
    found = {}
    for node in order:
        array = _shifted(node, origins) if node.kind == "reduce" and node.op == "add" else None
        if array is not None and is_regular(array, node.attrs[0]):
            tree = plain_tree(array.shape, node.attrs[0], codegen.host_has_masks())
            if tree is not None and tree.block_length and not tree.outer:
                found[node] = array, tree
    return found


def _shifted(node: Expr, origins: Mapping[Expr, Expr]) -> Expr | None:
    """If a node is ``sum((x - mean(x))**2)`` over all elements of an array x, return x, otherwise None."""
    kind, (squares,) = node.dtype, node.operands
    if kind.char not in "fd" or node.size != 1 or not _is_map(squares, ("square", "multiply"), kind):
        return None
    difference = squares.operands[0]
    if squares.operands[-1] is not difference or not _is_map(difference, ("subtract",), kind):
        return None
    array, mean = difference.operands
    mean = origins.get(mean, mean)
    if array.dtype != kind or mean.size != 1 or not _is_map(mean, ("divide",), kind):
        return None
    total, count = mean.operands
    of_array = total.kind == "reduce" and total.op == "add" and total.operands == (array,) and total.dtype == kind
    return array if of_array and count.kind == "constant" and is_number(count, array.size) else None


def _is_map(node: Expr, ops: tuple[str, ...], kind: np.dtype) -> bool:
    return node.kind == "map" and node.op in ops and all(each == kind for each in (*node.attrs, node.dtype))


def run_variance(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Compute a sum of squared differences from the mean, and return it as an array."""
    tree: Tree = step.detail
    out = frame.new(step.node)
    with np.errstate(all="ignore"):
        out[...] = _sum_of_squares(np.ascontiguousarray(values[step.operands[0]]).reshape(-1), tree)
    return out


def _sum_of_squares(array: np.ndarray, tree: Tree) -> Any:
    number, block_length = array.dtype.type, tree.block_length
    whole = array.size - array.size % block_length
    parts = [
        array[k : min(k + TOGETHER * block_length, whole)].reshape(-1, block_length)
        for k in range(0, whole, TOGETHER * block_length)
    ]
    if whole < array.size:
        parts.append(array[whole:].reshape(1, -1))
    columns: list[Any] = [None] * len(parts)

    def add_up(k: int) -> None:
        part = parts[k]
        with np.errstate(all="ignore"):  # (the state of another thread)
            total = reduce_rows(np.add, part, tree.first)
            own = total / number(part.shape[1])
            away = part - own[:, None]
            distances = reduce_rows(np.add, away, tree.first)
            squares = reduce_rows(np.add, np.multiply(away, away, out=away), tree.first)
        columns[k] = total, own, distances, squares, np.full(len(part), part.shape[1], array.dtype)

    run_calls([partial(add_up, k) for k in range(len(parts))], thread_count())
    totals, owns, distances, squares, counts = (np.concatenate(column) for column in zip(*columns, strict=True))

    def combined(sums: Any) -> Any:
        return reduce_rows(np.add, sums.reshape(1, -1), tree.last)[0]

    # (from here on as in `shifted_moments.shift_sums` and `total_of_squares`)
    away = owns - combined(totals) / number(array.size)
    moved = counts * away
    there = squares + away * ((distances + distances) + moved)
    squares = combined(np.where(np.isfinite(squares), there, squares))
    distance = combined(distances + moved)
    better = np.maximum(squares - (distance / number(array.size)) * distance, number(0))
    return better if np.isfinite(squares) else squares
