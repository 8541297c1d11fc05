"""Interpretation of reductions and scans, in the order of a plan.

In: a reduction, and the computation of its operand. Out: the order for `reduce_arrays`. Invariant: if a plan's order is
unknown or not the CPU's, the graph needs a kernel.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import numpy as np

import weft.codegen as codegen  # (its names load when they are used)
from weft.codegen import EXTREMES, OPS, dtype_kind, find_op, identity_of, widened
from weft.fusion.graph.expr import ALWAYS_STORED, Expr, contiguous_strides, topological
from weft.fusion.graph.index_map import decode_view
from weft.fusion.graph.reduction_order import plain_tree
from weft.fusion.run.primitives import primitive
from weft.fusion.run.reduce_arrays import NeedsKernelError, memoized_tree, reduce_in_order, reduce_values
from weft.fusion.run.stored_loops import compiler

if TYPE_CHECKING:
    from weft.fusion.run.interpret.frame import ValueFrame
    from weft.fusion.run.interpret.program import ReductionOrders, ValueStep
    from weft.runtime import Device

# Maximum row length of scans by one thread (twice `lowering.SCAN_BLOCK`). Longer rows are shared by threads.
SHARED_SCAN = 1 << 16
_EXACT = EXTREMES | {"argmin", "argmax"}
# Ops of shifted moments (`shifted_moments.py`).
_SHIFTED = frozenset({"square", "multiply", "exp", "exp2"})


def rounds(node: Expr) -> bool:
    """Return whether a reduction or scan rounds, so that its result may depend on the order of the elements."""
    return dtype_kind(node.dtype) in "fc" and node.op not in _EXACT


def may_fail(node: Expr) -> bool:
    """Return whether the interpretation of a node may raise NeedsKernelError, depending on the data."""
    return node.kind == "reduce" and dtype_kind(node.dtype) == "f" and node.op in _EXACT


def operands_of(node: Expr) -> tuple[Expr, ...]:
    """Return a node's operands. If the node counts the true elements of a bool array, return this array instead of its cast to integers."""
    if node.kind != "reduce" or node.op != "add" or node.dtype.kind not in "iu":
        return node.operands
    (operand,) = node.operands
    if operand.kind != "map" or operand.op != "cast" or operand.operands[0].dtype.kind != "b":
        return node.operands
    return operand.operands if operand.operands[0].shape == operand.shape else node.operands


def has_gpu_schedules(device: Device) -> bool:
    """Return whether a device runs the schedules of a GPU."""
    # (the target of the CPU takes a few milliseconds to load)
    return device.name != "cpu" and bool(device.target.machine.is_gpu)


def choose_order(node: Expr, orders: ReductionOrders) -> Any:
    """Return the order in which a plan would combine the elements of a reduction.

    Return None if the order is irrelevant, or if `reduce_values` derives it from the operand's shape. Raises
    NeedsKernelError if an interpreted reduction cannot have the bits of a plan's.
    """
    # (two elements have only one order)
    if not rounds(node) or orders.any_order or node.operands[0].size <= 2 * node.size:
        return None
    if has_gpu_schedules(orders.device) or (node.op == "multiply" and node.dtype.kind == "c"):
        raise NeedsKernelError
    (operand,) = node.operands
    tree = None
    if not is_regular(operand, node.attrs[0]):
        stored, short = orders.stored()
        key = _outline(node, stored, short)
        tree = memoized_tree(key, lambda: compiler().find_tree(node, stored - {node}, short, orders.target))
    if may_be_shifted(node, orders.origins) and _is_cut(operand, node, tree):
        raise NeedsKernelError
    return tree


def _outline(node: Expr, stored: Container[Expr], short: Container[Expr]) -> Any:
    """Return an outline of how a reduction's operand is computed. It is the key under which the order of the reduction is cached.

    Equal keys have equal orders. Offsets of views are not part of the key: the iterations of a loop that reduces one
    window after another have the same kernel.
    """
    numbers: dict[Expr, int] = {}
    parts: list[Any] = []
    for one in topological([node], lambda other: other is not node and other in stored):
        held = one is not node and one in stored
        attrs = one.attrs
        if held:
            attrs = ()
        elif one.kind == "view" and one.operands[0] in stored:
            coordinates = decode_view(one.operands[0].shape, one.shape, *attrs)
            attrs = attrs[0], None if coordinates is None else tuple([terms for _, terms in coordinates])
        operands = () if held else tuple([numbers[child] for child in one.operands])
        numbers[one] = len(parts)
        # (the name of a user function means nothing in another process, and a key with an ellipsis is not stored)
        op = one.op if one.kind != "map" or one.op == "cast" or one.op in OPS else (one.op, ...)
        parts.append((held, one in short, one.kind, op, operands, attrs, one.shape, one.dtype))
    return tuple(parts)


def _is_cut(operand: Expr, node: Expr, tree: Any) -> bool:
    tree = plain_tree(operand.shape, node.attrs[0], codegen.host_has_masks()) if tree is None else tree
    return tree is None or bool(tree.block_length)


def may_be_shifted(node: Expr, origins: Any) -> bool:
    """Return whether a node may have the form ``sum((x - mean)**2)`` or ``sum(exp(x - maximum))``.

    A plan may compute such a node as a shifted moment: block by block, so that the elements are read once.
    """
    (operand,) = node.operands
    if node.op != "add" or operand.kind != "map" or operand.op not in _SHIFTED:
        return False
    return any(
        child.kind == "map" and child.op == "subtract" and any(_is_found(c, origins) for c in child.operands)
        for child in operand.operands
    )


def _is_found(node: Expr, origins: Any) -> bool:
    while node.kind == "view" or (node.kind == "map" and node.op in ("divide", "cast")):
        node = node.operands[0]
    return node.kind == "reduce" or node in origins


def is_regular(operand: Expr, axes: tuple[int, ...]) -> bool:
    """Return whether the operand of a reduction has a regular memory layout. If so, the operand's shape alone determines the order of the reduction.

    The layout is regular if all values from which `operand` is computed are C-contiguous and have its shape. One-element values
    and constants do not count. If only the last axis is reduced, one C-contiguous value suffices. The others may be
    broadcast, and may have any strides if the last one is 0 or 1.
    """
    shape = operand.shape
    long = [k for k, n in enumerate(shape) if n != 1]
    along = [k for k in long if k in axes]
    last = len(along) == 1 and along == long[-1:]
    whole = False
    stack, seen = [operand], {operand}
    while stack:
        node = stack.pop()
        if node.size == 1 or node.kind in ("constant", "scalar"):
            continue
        if node.kind == "map":
            stack += [child for child in node.operands if child not in seen]
            seen.update(node.operands)
            continue
        if not _is_in_memory(node.operands[0] if node.kind == "view" else node):
            return False
        strides = node.attrs[0] if node.kind == "view" else contiguous_strides(node.shape)
        steps = [0 if n == 1 else s for n, s in zip(node.shape, strides, strict=True)]
        packed = contiguous_strides(node.shape)
        if node.shape == shape and all(s == p for s, p, n in zip(steps, packed, shape, strict=True) if n != 1):
            whole = True
        elif not last or (len(steps) == len(shape) and steps and steps[long[-1]] not in (0, 1)):
            return False
        elif len(steps) < len(shape) and steps and steps[-1] not in (0, 1):
            return False
    return whole


def _is_in_memory(node: Expr) -> bool:
    """Return whether a value is in memory in every possible plan.

    Values that are assembled from boxes in new memory need not be materialized.
    """
    while node.kind == "update":
        node = node.operands[0]
    return node.kind in ALWAYS_STORED and node.kind != "empty"


def check_scan(node: Expr, orders: ReductionOrders) -> None:
    """Raise NeedsKernelError if compiled kernels split each row of a scan among threads and the order of the operations may affect the results."""
    if rounds(node) and (has_gpu_schedules(orders.device) or node.shape[node.attrs[0]] > SHARED_SCAN):
        raise NeedsKernelError


def run_reduce(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Compute a reduction and return its result."""
    node = step.node
    axes, _ = node.attrs
    array = values[step.operands[0]]
    with np.errstate(all="ignore"):
        if step.detail is not None:
            kind = widened(node.dtype)
            found = reduce_in_order(node.op, array.astype(kind, copy=False), step.detail)
        else:
            if rounds(node):
                array = np.ascontiguousarray(array)
            found = _reduce(frame, node, array, axes)
    out = frame.new(node)
    out[...] = np.asarray(found).astype(node.dtype, copy=False).reshape(node.shape)
    return out


def _reduce(frame: ValueFrame, node: Expr, array: np.ndarray, axes: tuple[int, ...]) -> Any:
    try:
        return reduce_values(node.op, array.reshape(node.operands[0].shape), axes, node.dtype)
    except Exception as error:
        if not frame.program.any_order or isinstance(error, MemoryError):
            raise
        # (after a failure of the optimizer, the search for the order may be what failed)
        return getattr(np, find_op(node.op).ufunc).reduce(array, axis=axes)


def run_scan(frame: ValueFrame, values: list[Any], step: ValueStep) -> Any:
    """Compute a scan, such as a cumulative sum, and return the array of its results."""
    node = step.node
    out = frame.new(node)
    if out.size:
        row: Any = primitive(node.op, (node.dtype,) * 2, node.dtype)
        array = values[step.operands[0]].astype(node.dtype, copy=False)
        with np.errstate(all="ignore"):
            if node.op == "multiply" and node.dtype.kind == "c":  # (1 changes infinities and the signs of zeros)
                first = (slice(None),) * node.attrs[0] + (0,)
                array = array.copy()
                array[first] = row(node.dtype.type(identity_of("multiply", node.dtype)), array[first])
            row.accumulate(array, axis=node.attrs[0], out=out)
    return out
