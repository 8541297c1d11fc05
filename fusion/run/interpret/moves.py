"""Interpretation of operations that only move elements, such as views, gathers and updates.

In: the values of operands. Out: an array, as a view of an operand's memory if possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.fusion.graph.expr import Expr, constant_value, contiguous_strides, is_window
from weft.fusion.run.primitives import NeedsKernelError, primitive

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ValueStep


def run_leaf(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return the array for an input of the graph."""
    return frame.leaf(step)


def run_scalar(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return the scalar that a node reads, as a 0-d array."""
    return np.asarray(frame.slots[step.node.attrs[0]], step.node.dtype)


def run_constant(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return a constant as an array with the constant's shape."""
    shape = step.node.shape
    return _strided(constant_value(step.node), shape, (0,) * len(shape), 0)


def run_empty(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Return an uninitialized array."""
    return frame.new(step.node)


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
    """Return a view of a value, without a copy."""
    strides, offset = step.node.attrs
    base = values[step.operands[0]]
    if not base.flags.c_contiguous:
        base = frame.packed(step.node.operands[0], base)
    elif frame.owner[step.operands[0]] >= 0:
        frame.share(step.number, step.operands[0])
    return _strided(base, step.node.shape, strides, offset)


def _strided(base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    size, dtype = base.itemsize, base.dtype
    if 0 in shape:
        return np.empty(shape, dtype)
    if dtype.isbuiltin != 1:  # (other dtypes have no buffers)
        return as_strided(base.reshape(-1)[offset:], shape, [s * size for s in strides])
    # (a tenth of the time of `as_strided`)
    return np.ndarray(shape, dtype, base, offset * size, [s * size for s in strides])


def run_update(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Assign a value to the elements of a view, and return the updated array.

    The elements are replaced in the memory of the previous version if nothing else needs this memory.
    """
    shape, strides, offset = step.node.attrs
    # Invariant: these lines may run twice, since an interrupt may occur anywhere
    value = frame.apart(step.operands[1], step.operands[0])
    out = frame.overwritten(step)
    _strided(out, shape, strides, offset)[...] = value
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
    axis = _taken_axis(node, terms, base.shape, indices)
    if axis >= 0:
        np.take(base, indices[0].reshape(-1), axis=axis, out=out.reshape(*_taken_shape(base, axis)), mode="clip")
        return out
    if len(terms) == 1 or base.flags.c_contiguous:
        np.take(base.reshape(-1), _flat_position(terms, indices, node.shape, base.shape), out=out, mode="clip")
    else:
        out[...] = base[tuple(_positions(terms, indices, node.shape))]
    return out


def _taken_shape(base: Any, axis: int) -> tuple[int, ...]:
    return (*base.shape[:axis], -1, *base.shape[axis + 1 :])


def _taken_axis(node: Expr, terms: Any, shape: tuple[int, ...], indices: list[Any]) -> int:
    """Return the axis along which a gather selects elements, or -1 if it does not take all other axes whole."""
    if len(indices) != 1 or len(terms) != len(shape) or not node.size:
        return -1
    own = [k for k, (_, _, which) in enumerate(terms) if which >= 0]
    if len(own) != 1 or terms[own[0]] != (0, (), 0):
        return -1
    axis, count = own[0], len(node.shape) - len(shape) + 1
    if count < 0 or node.shape != (*shape[:axis], *node.shape[axis : axis + count], *shape[axis + 1 :]):
        return -1
    for k, (first, steps, _) in enumerate(terms):
        result_axis = k if k < axis else k + count - 1
        if k != axis and (first or (steps != ((result_axis, 1),) and shape[k] != 1)):
            return -1
    lead = indices[0].ndim - (len(node.shape) - axis)
    wanted = (*node.shape[axis : axis + count], *(1,) * (len(node.shape) - axis - count))
    given = indices[0].shape
    if lead < 0:
        return -1
    return axis if given[lead:] == wanted and all(n == 1 for n in given[:lead]) else -1


def _flat_position(terms: Any, indices: list[Any], shape: tuple[int, ...], of: tuple[int, ...]) -> Any:
    """Return the flat index, in an array of shape `of`, of each element of a gather or scatter.

    The index array has the shape `shape`. With one term, the elements are counted in C order.
    """
    strides = contiguous_strides(of) if len(terms) > 1 else (1,)
    parts = zip(strides, _positions(terms, indices, shape), strict=True)
    return np.broadcast_to(sum(part if step == 1 else part * step for step, part in parts), shape)


def _positions(terms: Any, indices: list[Any], shape: tuple[int, ...]) -> Iterator[Any]:
    """Yield the indices of all elements of a gather or scatter, as one index array per dimension.

    The index arrays broadcast to `shape`.
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
    """Call the host function that an expression contains."""
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


RUN = {
    "leaf": run_leaf,
    "scalar": run_scalar,
    "constant": run_constant,
    "empty": run_empty,
    "iota": run_iota,
    "view": run_view,
    "update": run_update,
    "scatter": run_scatter,
    "gather": run_gather,
}

__all__ = ["RUN", "contiguous_strides", "run_opaque"]
