"""Interpretation of constants, host calls, and operations that move elements.

In: the values of operands. Out: an array, as a view of an operand's memory if possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.fusion.graph.expr import constant_value, contiguous_strides, is_window
from weft.fusion.graph.index_map import strided_view, taken_axis
from weft.fusion.run.primitives import NeedsKernelError, primitive

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ValueStep


def run_scalar(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return the scalar that a node reads, as a 0-d array."""
    return np.asarray(frame.slots[step.node.attrs[0]], step.node.dtype)


def run_constant(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return a constant as an array with the constant's shape."""
    shape = step.node.shape
    return strided_view(constant_value(step.node), shape, (0,) * len(shape), 0)


def run_iota(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return an array that contains the index of each element along an axis."""
    node = step.node
    axis = node.attrs[0]
    shape = tuple(n if k == axis else 1 for k, n in enumerate(node.shape))
    line = np.arange(node.shape[axis], dtype=np.int64)
    with np.errstate(all="ignore"):
        typed = line if node.dtype == line.dtype else primitive("cast", (line.dtype,), node.dtype)(line)
    return np.broadcast_to(typed.reshape(shape), node.shape)


def run_view(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return a view of a value, or of a copy if the value is not C-contiguous."""
    base = values[step.operands[0]]
    if base.flags.c_contiguous:
        frame.owner[step.number] = frame.owner[step.operands[0]]
    else:
        base = np.ascontiguousarray(base)
    return strided_view(base, step.node.shape, *step.node.attrs)


def run_update(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Replace some elements of an array by new values, and return the result. If the old array may not be overwritten, change a copy of it."""
    # Invariant: these lines may run twice, since an interrupt may occur anywhere
    value = frame.apart(step.operands[1], step.operands[0])
    out = frame.overwritten(step)
    strided_view(out, *step.node.attrs)[...] = value
    return out


def run_scatter(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Replace or combine the elements at computed indices, and return the updated array."""
    node = step.node
    terms, shape = node.attrs
    value, indices = frame.apart(step.operands[1], step.operands[0]), [values[k] for k in step.operands[2:]]
    out = frame.copied(step)
    # (in NumPy, `at` takes ten times as long with several index arrays, or an index array of several axes)
    position = _flat_position(terms, indices, shape, out.shape).reshape(-1)
    value, target = np.broadcast_to(value, shape).reshape(-1), out.reshape(-1)
    if node.op in ("", "same"):
        target[position] = value
    else:
        function = primitive(node.op, (node.dtype,) * 2, node.dtype)
        if not hasattr(function, "at"):  # (functions of bfloat16)
            raise NeedsKernelError
        with np.errstate(all="ignore"):
            function.at(target, position, value)
    return out


def run_gather(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return the elements at computed indices."""
    node = step.node
    base, indices = values[step.operands[0]], [values[k] for k in step.operands[1:]]
    (terms,) = node.attrs
    out = frame.new(node)
    if not out.size:
        return out
    axis = taken_axis(node)
    if axis >= 0:
        target = out.reshape(*base.shape[:axis], -1, *base.shape[axis + 1 :])
        np.take(base, indices[0].reshape(-1), axis=axis, out=target, mode="clip")
        return out
    if len(terms) == 1 or base.flags.c_contiguous:
        np.take(base.reshape(-1), _flat_position(terms, indices, node.shape, base.shape), out=out, mode="clip")
    else:
        out[...] = base[tuple(_positions(terms, indices, node.shape))]
    return out


def _flat_position(terms: Any, indices: list[Any], shape: tuple[int, ...], of: tuple[int, ...]) -> Any:
    """Return the flat indices of the elements that a gather or scatter accesses.

    `of` is the shape of the indexed array. The result has the shape `shape`. A single term already counts elements in C
    order.
    """
    strides = contiguous_strides(of) if len(terms) != 1 else (1,)
    parts = zip(strides, _positions(terms, indices, shape), strict=True)
    return np.broadcast_to(sum(part if step == 1 else part * step for step, part in parts), shape)


def _positions(terms: Any, indices: list[Any], shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield an array of indices for each dimension of the indexed array.

    A single term is one array of flat indices. The arrays of indices broadcast to `shape`.
    """
    for first, steps, which in terms:
        total: Any = np.int64(first)
        for axis, step in steps:
            line = np.arange(shape[axis], dtype=np.int64) * step
            total = total + line.reshape(tuple(-1 if k == axis else 1 for k in range(len(shape))))
        if which >= 0:
            index = indices[which]
            total = index.astype(np.int64, copy=False) if type(total) is np.int64 and not total else total + index
        yield total


def run_opaque(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Call the host function of an expression, and return its result."""
    node = step.node
    arrays = []
    for k, child in zip(step.operands, node.operands, strict=True):
        array = values[k]
        if not is_window(child) and not array.flags.c_contiguous:
            array = np.ascontiguousarray(array).reshape(child.shape)
        if array.flags.writeable:
            array = array.view()
            array.flags.writeable = False
        arrays.append(array)
    out = frame.new(node)
    node.attrs[0](out, *arrays)
    return out


RUN: dict[str, Callable[[ValueFrame, list[Any], ValueStep], Any]] = {
    "leaf": lambda frame, values, step: frame.leaf(step),
    "scalar": run_scalar,
    "constant": run_constant,
    "empty": lambda frame, values, step: frame.new(step.node),
    "iota": run_iota,
    "view": run_view,
    "update": run_update,
    "scatter": run_scatter,
    "gather": run_gather,
}
