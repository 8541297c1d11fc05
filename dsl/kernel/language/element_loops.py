"""Loops over the elements of arrays in kernels: broadcasting, and the order of iteration.

In: an output array and operands. Out: loops, and indices into the operands. Invariant: each element of the output is
read before it is overwritten, as in NumPy. If no order of iteration achieves this, an error is raised or reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.extents import add, extent_ir, multiply
from weft.dsl.kernel.language.values import ArrayValue, Constant, Extent, ScalarValue, base_of, in_bytes, window_of

_BOTH_SIDES = "several parts of {} overlap the output on both sides: use a loop, or a local array for the result"


def broadcast_axes(value: ArrayValue, view: ArrayValue) -> dict[int, Extent]:
    """Find the axes along which the array `value` may have to be broadcast to the shape of the array `view`.

    Map each of these axes to the length of `value` along the axis: 1, or a length that is known only at run time.
    """
    lengths = (*(1,) * (view.ndim - value.ndim), *value.shape)
    return {
        axis: n
        for axis, (n, own) in enumerate(zip(lengths, view.shape, strict=True))
        if own != 1 and n is not own and (n == 1 or not isinstance(n, int))
    }


def aligned(
    c: Compiler, value: ArrayValue, view: ArrayValue, index: tuple[ScalarValue, ...], single: bool
) -> tuple[Constant | ScalarValue, ...]:
    """Return the index in the array `value` that corresponds to an index in `view`, when `value` is broadcast to the
    shape of `view`.

    The index along an axis of length 1 is 0. Lengths that are known only at run time are tested if `single` is true.
    """
    b, axes = c.builder, broadcast_axes(value, view)
    found: list[Constant | ScalarValue] = []
    for n, (axis, at) in zip(value.shape, list(enumerate(index))[view.ndim - value.ndim :], strict=True):
        if isinstance(n, int):
            found.append(Constant(0) if n == 1 else at)
        elif single and axis in axes:
            zero = b.constant(0, np.int64)
            found.append(ScalarValue(b.op("where", b.op("equal", n, b.constant(1)), zero, at.ir), True, True))
        else:
            found.append(at)
    return tuple(found)


@dataclass
class Order:
    """An order of iteration over the axes of an array, in nested loops.

    The loop over the last axis is the innermost. `backward` contains, for some axes, a run-time bool that tells whether
    the loop starts with the last index. `first` contains, for some axes, the index with which the loop starts. It ends
    with the index before this one.
    """

    backward: dict[int, Value] = field(default_factory=dict)
    first: dict[int, Value] = field(default_factory=dict)


@dataclass
class _Overlap:
    """The overlap of an operand with the output array: the elements of the output that the operand also reads.

    `along` contains, for some axes, an int n and a bool that tells whether the operand is broadcast along the axis. If it
    is broadcast, the operand reads only the elements with the index n. Otherwise, it reads the element at index i + n
    where the element at index i is written. `met` contains run-time bools. If one of them is false, the operand does not
    read elements of the output. If `exact` is false, only the sign of n is known.
    """

    along: dict[int, tuple[Extent, bool | Value]] = field(default_factory=dict)
    met: list[Value] = field(default_factory=list)
    exact: bool = True


def safe_order(c: Compiler, view: ArrayValue, values: list[ArrayValue], single: bool) -> Order | None:
    """Return an order in which ``view[...] = f(*values)`` reads each element before overwriting it.

    The result is None if any order works. Otherwise, parts of one array are assigned to each other, and may overlap.
    If elements move along an axis, the loop over this axis starts at the end to which they move. If a part is broadcast
    along an axis, its index is visited last. Lengths that are known only at run time may be 1 if `single` is true.
    Raises KernelTypeError if parts that may overlap have different steps. If operands need different orders, the kernel
    reports an error.
    """
    parts = [part for value in values if (part := _overlap(c, view, value, single)) and part.along]
    if not parts:
        return None
    b, order = c.builder, Order()
    several = len(parts) > 1
    ahead = [_meets(c, view, part) if several else b.constant(True, np.bool_) for part in parts]
    for axis, extent in enumerate(view.shape):
        n, up, down, ends = extent_ir(c, extent), [], [], []
        for k, part in enumerate(parts):
            if axis not in part.along:
                continue
            at, alone = part.along[axis]
            at = extent_ir(c, at)
            zero = b.constant(0, at.type)
            if alone is not False:
                inside = _all_of(c, [ahead[k], b.op("greater_equal", at, zero), b.op("less", at, n)])
                ends.append((inside if alone is True else b.op("bitwise_and", inside, alone), at))
            if alone is not True:
                moves = ahead[k] if alone is False else b.op("greater", ahead[k], alone)
                up.append(b.op("bitwise_and", moves, b.op("greater", at, zero)))
                down.append(b.op("bitwise_and", moves, b.op("less", at, zero)))
                if several and part.exact:  # the loops over the inner axes do not matter to elements that move here
                    ahead[k] = b.op("greater", ahead[k], b.op("bitwise_or", up[-1], down[-1]))
        if len(up) + len(ends) > 1:
            c.report(_conflict(c, n, up, down, ends), ValueError, _BOTH_SIDES.format(view.label or "an array"))
        if down:
            order.backward[axis] = any_of(c, down)
        if ends:
            starts = [b.op("where", inside, b.op("add", at, b.constant(1)), b.constant(0)) for inside, at in ends]
            start = reduce(lambda one, other: b.op("maximum", one, other), starts)
            order.first[axis] = b.op("where", any_of(c, up + down), b.constant(0), start) if up else start
    return order


def _conflict(c: Compiler, n: Value, up: list[Value], down: list[Value], ends: list[tuple[Value, Value]]) -> Value:
    """Return whether the operands need contradictory orders of iteration over the `n` indices of an axis.

    The bools `up` and `down` tell whether the elements of an operand have higher or lower indices than the elements that
    are written at the same time. `ends` contains the indices to be visited last, each with a bool that tells whether
    this is necessary.
    """
    b = c.builder
    found = [b.op("bitwise_and", any_of(c, up), any_of(c, down))] if up else []
    last = b.op("subtract", n, b.constant(1))
    for k, (inside, at) in enumerate(ends):
        found += [
            _all_of(c, [inside, any_of(c, moves), b.op("not_equal", at, end)])
            for moves, end in ((up, last), (down, b.constant(0)))
            if moves
        ]
        found += [_all_of(c, [inside, also, b.op("not_equal", at, other)]) for also, other in ends[:k]]
    return any_of(c, found)


def _meets(c: Compiler, view: ArrayValue, part: _Overlap) -> Value:
    """Return whether an operand reads elements of the output `view`."""
    b, found = c.builder, list(part.met)
    for axis, (at, alone) in part.along.items() if part.exact else ():
        at, n = extent_ir(c, at), extent_ir(c, view.shape[axis])
        least, below = b.constant(-1), b.op("negative", n)
        if isinstance(alone, bool):
            least = least if alone else below
        else:
            least = b.op("where", alone, least, below)
        found += [b.op("greater", at, least), b.op("less", at, n)]
    return _all_of(c, found) if found else b.constant(True, np.bool_)


def any_of(c: Compiler, truths: list[Value]) -> Value:
    """Return whether any of several run-time bools is true."""
    return reduce(lambda one, other: c.builder.op("bitwise_or", one, other), truths)


def _all_of(c: Compiler, truths: list[Value]) -> Value:
    """Return whether all of several run-time bools are true."""
    return reduce(lambda one, other: c.builder.op("bitwise_and", one, other), truths)


def _overlap(c: Compiler, view: ArrayValue, value: ArrayValue, single: bool) -> _Overlap | None:
    """Return the overlap of `value` with the output `view`, or None if any order of iteration works.

    Raises KernelTypeError if both are parts of one array, but have different steps or different axes.
    """
    if value is view:
        return None
    if base_of(value) != base_of(view):
        return _overlap_by_address(c, view, value)
    b, found = c.builder, _Overlap()
    lengths = broadcast_axes(value, view)
    lead, differ = view.ndim - value.ndim, False
    for own, other in zip(window_of(view), window_of(value), strict=True):
        axis = None if other.axis is None or value.shape[other.axis] == 1 else other.axis + lead
        distance = add(c, other.start, multiply(c, own.start, -1)) if own.start is not other.start else 0
        if own.axis is None and axis is None:
            if isinstance(distance, int):
                if distance:
                    return None
            else:
                found.met.append(b.op("equal", distance, b.constant(0)))
            continue
        if own.axis is None or (axis is not None and (axis, other.step) != (own.axis, own.step)):
            differ = True
            continue
        alone: bool | Value = axis is None
        if single and axis in lengths:
            alone = b.op("equal", extent_ir(c, lengths[axis]), b.constant(1))
        at = _steps(c, distance, own.step, found)
        if at is None or (alone is True and isinstance(at, int) and at < 0):
            return None
        if alone is not False or not isinstance(at, int) or at:
            found.along[own.axis] = at, alone
    if differ:
        _refuse_steps(c, view)
    return found


def _steps(c: Compiler, distance: Extent, step: int, found: _Overlap) -> Extent | None:
    """Divide `distance` by `step`. If the distance is a compile-time constant and not a multiple of the step, return None instead."""
    b = c.builder
    if isinstance(distance, int):
        return None if distance % step else distance // step
    if abs(step) == 1:
        return multiply(c, distance, step)
    at = b.op("floor_divide", distance, b.constant(step))
    found.met.append(b.op("equal", b.op("multiply", at, b.constant(step)), distance))
    return at


def _overlap_by_address(c: Compiler, view: ArrayValue, value: ArrayValue) -> _Overlap | None:
    """Return the overlap of two arrays that may share memory, as far as their addresses tell.

    Raises KernelTypeError if they seem to be parts of the same array with different steps.
    """
    if not value.ndim or (value.origin, value.space, value.dtype) != (view.origin, view.space, view.dtype):
        return None
    steps, own = ([s for s, n in zip(a.strides, a.shape, strict=True) if n != 1] for a in (value, view))
    if len(steps) != len(own) or not own:
        return None
    if any(s is not o and not (isinstance(s, int) and s == o) for s, o in zip(steps, own, strict=True)):
        if value.origin >= 0 or (value.label and value.label == view.label):
            _refuse_steps(c, view)
        return None
    b, i8 = c.builder, np.dtype(np.int64)
    start, address = (b.emit("address", (a.pointer,), (i8,))[0] for a in (view, value))
    far = b.op("subtract", address, start)
    found = _Overlap(met=[b.op("less", b.op("absolute", far), _reach(c, view))], exact=False)
    for axis, stride in enumerate(view.strides):
        falls = b.op("less", extent_ir(c, stride), b.constant(0))
        found.along[axis] = b.op("where", falls, b.op("negative", far), far), False
    return found


def _refuse_steps(c: Compiler, view: ArrayValue) -> NoReturn:
    c.fail(
        f"parts of {view.label or 'an array'} with different steps are assigned to each other, and may overlap: "
        "use a loop, or a local array between them"
    )


def _reach(c: Compiler, view: ArrayValue) -> Value:
    """Return the size in bytes of the address range that an array spans."""
    b, total = c.builder, c.builder.constant(1, np.int64)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        far = b.op("subtract", b.cast(extent_ir(c, extent), np.int64), b.constant(1, np.int64))
        total = b.op("add", total, b.op("multiply", far, b.op("absolute", b.cast(extent_ir(c, stride), np.int64))))
    return b.op("multiply", total, b.constant(1 if in_bytes(view.dtype) else view.dtype.itemsize, np.int64))


@contextmanager
def each(
    c: Compiler, shape: tuple[Extent, ...], order: Order | None = None, rolled: bool = False
) -> Iterator[tuple[ScalarValue, ...]]:
    """Context manager that compiles nested loops over the axes of a shape, and yields the loop indices."""
    b, order = c.builder, order or Order()
    attributes: dict[str, Any] = {"rolled": True} if rolled else {}
    indices: list[Value] = []
    with ExitStack() as loops:
        for axis, length in enumerate(shape):
            extent = extent_ir(c, length)
            index = loops.enter_context(b.loop(extent, "serial", **attributes)).index
            if axis in order.backward:
                last = b.op("subtract", extent, b.constant(1))
                index = b.op("where", order.backward[axis], b.op("subtract", last, index), index)
            if axis in order.first:
                n = b.cast(extent, np.int64)
                index = b.op("add", b.cast(index, np.int64), b.cast(order.first[axis], np.int64))
                index = b.op("where", b.op("less", index, n), index, b.op("subtract", index, n))
            indices.append(index)
        yield tuple(ScalarValue(b.cast(index, np.int64), True, True) for index in indices)
