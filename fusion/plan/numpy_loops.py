"""Operations that run fastest as NumPy functions.

In: a group of one task. Out: the entry of `TABLE` that computes the task, and the operands, or None if a kernel is
faster or the operation is fused. Invariant: the bits are the same as those of the kernel, so that a value does not
depend on fusion. An entry needs no compilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.fusion.graph.expr import Expr, is_stream, is_window
from weft.fusion.graph.index_map import strided_view
from weft.runtime import BLOCK_BYTES, divide_axis, run_calls

if TYPE_CHECKING:
    from weft.fusion.plan.group import Group

# Minimum number of elements for a NumPy loop. For fewer elements, a kernel is faster.
LEAST = 1 << 15

Arrays = Sequence[np.ndarray]


class NumpyLoop(NamedTuple):
    """A NumPy function that can replace a kernel for one kind of operation.

    `operands` returns the operands of the function, or None if the function is not applicable. `run` calls the
    function.
    """

    operands: Callable[[Expr], tuple[Expr, ...] | None]
    # arguments: the node, the memory of the node, the operands, and the number of threads
    run: Callable[[Expr, np.ndarray, Arrays, int], None]


def find_numpy_loop(group: Group) -> tuple[NumpyLoop, tuple[Expr, ...]] | None:
    """Return a NumPy function and its operands if it computes a group faster than a kernel. Otherwise, return None."""
    if group.opaque is not None or len(group.placed) != 1 or group.over:
        return None
    task = group.placed[0].task
    row = TABLE.get((task.node.kind, task.node.op))
    if row is None or task.kind == "update" or task.shifted is not None:
        return None
    taken = row.operands(task.node)
    if taken is None:
        return None
    stored = {node for node, _ in task.reads()}
    bases = {value.operands[0] if is_window(value) else value for value in taken}
    if any(map(is_stream, stored)):  # (a kernel draws the numbers that it reads)
        return None
    # (values that are not in memory are computed in the kernel; a NumPy loop reads only the operands)
    return (row, taken) if bases == stored else None


def _in_memory(node: Expr) -> bool:
    """Return whether a value is in memory or is a view of memory, so that NumPy can read it."""
    return is_window(node) or node.kind not in ("view", "map", "constant", "scalar", "iota")


# -- copies -------------------------------------------------------------------------------------------------------------------


def _boxes(node: Expr) -> list[Expr] | None:
    """If an array is assembled in new memory from rectangular parts (boxes), return their assignments in order. Otherwise, return None.

    NumPy must be able to read all assigned values.
    """
    found = []
    while node.kind == "update":
        if not _in_memory(node.operands[1]):
            return None
        found.append(node)
        node = node.operands[0]
    return found[::-1] if node.kind == "empty" else None


def _box_operands(node: Expr) -> tuple[Expr, ...] | None:
    """If an array is assembled from rectangular parts (boxes), return the values assigned to the boxes.

    Return None if a kernel assembles the array faster than NumPy.

    NumPy is faster for `LEAST` or more one-byte elements that are neither read nor written contiguously. For all other arrays, return None.
    """
    boxes = _boxes(node) if node.size >= LEAST and node.dtype.itemsize == 1 else None
    if boxes is None:
        return None
    values = tuple(box.operands[1] for box in boxes)
    if any(_innermost_stride(*box.attrs[:2]) == 1 for box in boxes):
        return None
    strided = all(value.kind == "view" and abs(_innermost_stride(value.shape, value.attrs[0])) > 1 for value in values)
    return values if strided else None


def _innermost_stride(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the stride along the last axis whose length is not 1, or 0 if there is no such axis."""
    return next((step for n, step in zip(reversed(shape), reversed(strides), strict=True) if n != 1), 0)


def _copy_boxes(node: Expr, out: np.ndarray, values: Arrays, threads: int) -> None:
    boxes = _boxes(node)
    assert boxes is not None
    for box, value in zip(boxes, values, strict=True):  # (one after another, because a later box may overwrite another)
        target = strided_view(out, *box.attrs)
        if target.nbytes < 2 * BLOCK_BYTES or threads < 2:
            np.copyto(target, value)
            continue
        # (along the axis with the largest stride, if it is long enough)
        axis = max(range(target.ndim), key=lambda k: (target.shape[k] >= 4 * threads, target.strides[k]))
        rows, own = target.swapaxes(axis, 0), value.swapaxes(axis, 0)
        blocks = divide_axis(len(rows), target.nbytes, threads)
        run_calls([partial(np.copyto, rows[b], own[b]) for b in blocks], threads)


# -- positions ----------------------------------------------------------------------------------------------------------------


def _extreme_operands(node: Expr) -> tuple[Expr, ...] | None:
    """Return the operand of `argmax` or `argmin` if NumPy is faster than a kernel. Otherwise, return None.

    NumPy is faster for one-byte elements, and stops at the first bool that decides the result.
    """
    (value,) = node.operands
    if value.kind == "map" and value.op == "cast" and value.operands[0].dtype.kind == "b":
        (value,) = value.operands
    if not _in_memory(value) or value.dtype.itemsize != 1 or value.size < LEAST:
        return None
    return (value,) if len(node.attrs[0]) == len(value.shape) and _in_order(value) else None


def _in_order(value: Expr) -> bool:
    """Return whether the axes of a value are sorted by absolute stride, largest first. This is always true of values that are not views."""
    strides = [abs(s) for s in value.attrs[0]] if value.kind == "view" else []
    return all(one >= other for one, other in itertools.pairwise(strides))


def _find_extreme(node: Expr, out: np.ndarray, values: Arrays, threads: int) -> None:
    out[...] = getattr(np, node.op)(values[0].reshape(-1))


TABLE = {
    ("update", ""): NumpyLoop(_box_operands, _copy_boxes),
    ("reduce", "argmax"): NumpyLoop(_extreme_operands, _find_extreme),
    ("reduce", "argmin"): NumpyLoop(_extreme_operands, _find_extreme),
}
