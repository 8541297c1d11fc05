"""Operations that run fastest as NumPy functions, called block by block on all threads.

In: a group of one task. Out: the entry of `TABLE` that computes the task, and the operands, or None if a kernel is
faster or the operation is fused. Invariant: the bits are the same as those of the kernel, so that a value does not
depend on fusion. An entry needs no compilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.fusion.graph.expr import Expr, constant_value, contiguous_strides, is_stream, is_window
from weft.fusion.graph.index_map import decode_view, strided_view, taken_axis
from weft.runtime import BLOCK_BYTES, divide_axis, run_calls

if TYPE_CHECKING:
    from weft.fusion.plan.group import Group

# Minimum number of elements for a NumPy loop. With fewer elements, a kernel starts sooner.
LEAST = 1 << 15
# Number of elements that one thread searches for a deciding bool before the rest is divided among threads.
FIRST = 1 << 16

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
    """Return the NumPy function that can compute a group, with its operands, or None if there is none."""
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
    """Return, in order, the updates that assemble a value in new memory, or None for other values.

    NumPy must be able to read all assigned values.
    """
    found = []
    while node.kind == "update":
        if not _in_memory(node.operands[1]):
            return None
        found.append(node)
        node = node.operands[0]
    return found[::-1] if node.kind in ("empty", "constant") else None


def _box_operands(node: Expr) -> tuple[Expr, ...] | None:
    boxes = _boxes(node) if node.size >= LEAST and len(node.shape) else None
    if boxes is None or not _is_copied(node, boxes):
        return None
    if boxes[0].operands[0].kind == "constant" and (len(boxes) > 1 or _box_bounds(boxes[0]) is None):
        return None
    return tuple(box.operands[1] for box in boxes)


# Minimum average length of the runs that a copy by NumPy's inner loop writes.
LONG = 512
# Minimum length of rows of bools for which NumPy's search along the rows is faster than a kernel's.
ROW = 512


def _is_copied(node: Expr, boxes: list[Expr]) -> bool:
    """Return whether NumPy assembles an array from boxes faster than a kernel does.

    This is the case for complex numbers if the contiguous runs of memory are long, and for single bytes that are
    neither read nor written contiguously.
    """
    runs = 0  # contiguous runs of memory that are written
    for box in boxes:
        shape, strides, _ = box.attrs
        run = 1
        for n, step in zip(reversed(shape), reversed(strides), strict=True):
            if n != 1 and step != run:
                break
            run *= n
        runs += prod(shape) // run
    if node.dtype.itemsize == 1:
        return runs == node.size and all(map(_is_strided, (box.operands[1] for box in boxes)))
    return node.dtype.kind == "c" and bool(LONG * runs <= node.size)


def _is_strided(value: Expr) -> bool:
    """Return whether a value is a view whose consecutive elements are not adjacent in memory."""
    steps = [step for n, step in zip(value.shape, value.attrs[0], strict=True) if n > 1] if value.kind == "view" else []
    return bool(steps) and abs(steps[-1]) > 1


def _box_bounds(box: Expr) -> tuple[tuple[int, int], ...] | None:
    """Return the bounds of a box in its target array, or None if the box has gaps or permuted axes."""
    shape, strides, offset = box.attrs
    if len(shape) != len(box.shape):
        return None
    coordinates = decode_view(box.shape, shape, strides, offset)
    if coordinates is None or any(terms not in ((), ((axis, 1),)) for axis, (_, terms) in enumerate(coordinates)):
        return None
    return tuple((first, first + n) for (first, _), n in zip(coordinates, shape, strict=True))


def _copy_boxes(node: Expr, out: np.ndarray, values: Arrays, threads: int) -> None:
    boxes = _boxes(node)
    assert boxes is not None
    pairs = [(strided_view(out, *box.attrs), value) for box, value in zip(boxes, values, strict=True)]
    base = boxes[0].operands[0]
    if base.kind == "constant":
        _fill_outside(out, _box_bounds(boxes[0]), constant_value(base))
    _copy(pairs, threads)


def _fill_outside(out: np.ndarray, border: tuple[tuple[int, int], ...] | None, value: object) -> None:
    assert border is not None
    before: tuple[slice, ...] = ()
    for begin, end in border:
        out[(*before, slice(None, begin))] = value
        out[(*before, slice(end, None))] = value
        before = (*before, slice(begin, end))


def _copy(pairs: list[tuple[np.ndarray, np.ndarray]], threads: int) -> None:
    for target, value in pairs:  # (one after another, because a later box may overwrite a part of an earlier box)
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
    """Return the operand of an `argmax` or `argmin` if NumPy is faster than a kernel, otherwise None.

    NumPy is fastest for some one-byte elements, and stops at the first bool that decides the result.
    """
    (value,) = node.operands
    if value.kind == "map" and value.op == "cast" and value.operands[0].dtype.kind == "b":
        (value,) = value.operands
    if not _in_memory(value) or value.dtype.itemsize != 1 or value.size < LEAST:
        return None
    axes = node.attrs[0]
    if len(axes) == len(value.shape):
        return (value,) if _in_order(value) else None
    return (value,) if value.dtype.kind == "b" and len(axes) == 1 and _is_long_inner_axis(value, axes[0]) else None


def _in_order(value: Expr) -> bool:
    """Return whether the axes of a view are in order of decreasing stride."""
    strides = [abs(s) for s in value.attrs[0]] if value.kind == "view" else []
    return all(one >= other for one, other in itertools.pairwise(strides))


def _is_long_inner_axis(value: Expr, axis: int) -> bool:
    """Return whether an axis is long and has the smallest stride of all axes."""
    if value.shape[axis] < ROW:
        return False
    strides = value.attrs[0] if value.kind == "view" else contiguous_strides(value.shape)
    return all(n == 1 or abs(strides[axis]) <= abs(s) for n, s in zip(value.shape, strides, strict=True))


def _find_extreme(node: Expr, out: np.ndarray, values: Arrays, threads: int) -> None:
    function: Any = getattr(np, node.op)
    (value,) = values
    axes = node.attrs[0]
    if len(axes) == value.ndim:
        flat = value.reshape(-1)  # (a copy, like NumPy's own, if it is not in order)
        if flat.dtype.kind == "b":
            first = int(function(flat[:FIRST]))
            if flat[first] == (node.op == "argmax"):
                out[...] = first
                return
        out[...] = function(flat)
        return
    (axis,) = axes
    found = out.reshape(value.shape[:axis] + value.shape[axis + 1 :])
    other = 0 if axis else 1  # an axis along which the work is divided
    blocks = divide_axis(value.shape[other], value.nbytes, threads)
    calls = []
    for b in blocks:
        index = (b,) if axis else (slice(None), b)
        calls.append(partial(function, value[index], axis, out=found[b]))
    run_calls(calls, threads)


# -- elements at indices ------------------------------------------------------------------------------------------------------


def _take_operands(node: Expr) -> tuple[Expr, ...] | None:
    """Return the base and the indices of a gather if NumPy is faster than a kernel, otherwise None.

    NumPy is faster at gathering short rows of 16-byte elements along one axis.
    """
    if len(node.operands) != 2 or node.size < LEAST:
        return None
    base, index = node.operands
    if base.kind == "view" or (base.dtype.itemsize, index.dtype) != (16, np.int64):
        return None
    axis = taken_axis(node) if _in_memory(base) and _in_memory(index) else -1
    return (base, index) if axis >= 0 and 1 < prod(base.shape[axis + 1 :]) < 16 else None


def _take(node: Expr, out: np.ndarray, values: Arrays, threads: int) -> None:
    base, index = values
    axis = taken_axis(node)
    target, index = out.reshape(*base.shape[:axis], -1, *base.shape[axis + 1 :]), index.reshape(-1)
    # (only "clip" writes to memory of this dtype without a copy; all indices are in range)
    blocks = divide_axis(len(target), out.nbytes, threads)
    if axis:
        run_calls([partial(base[b].take, index, axis, target[b], "clip") for b in blocks], threads)
    else:
        run_calls([partial(base.take, index[b], 0, target[b], "clip") for b in blocks], threads)


TABLE = {
    ("update", ""): NumpyLoop(_box_operands, _copy_boxes),
    ("reduce", "argmax"): NumpyLoop(_extreme_operands, _find_extreme),
    ("reduce", "argmin"): NumpyLoop(_extreme_operands, _find_extreme),
    ("gather", ""): NumpyLoop(_take_operands, _take),
}
