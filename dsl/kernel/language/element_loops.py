"""Loops over the elements of arrays in kernels: broadcasting, and the order of iteration.

In: an output array and operands. Out: loops, and indices into the operands. Invariant: each element of the output is
read before it is overwritten, as in NumPy. If no order of iteration achieves this, an error is raised or reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.extents import extent_ir
from weft.dsl.kernel.language.values import ArrayValue, Constant, Extent, ScalarValue, in_bytes

_BOTH_SIDES = "several parts of {} overlap the output on both sides: use a loop, or a local array for the result"


def broadcast_axes(value: ArrayValue, view: ArrayValue) -> dict[int, Extent]:
    """Return the axes of `view` along which `value` may be broadcast, with the lengths of `value`.

    A length is 1, or known only at run time.
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
    """Convert an index into `view` to an index into `value`, which is broadcast to the shape of `view`.

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
    """An order of iteration over the axes of an array, chosen by run-time bools.

    `transposed` tells whether the first axis is the innermost loop (None if it is always the outermost), and `backward`
    whether the loop over an axis starts with the last index (with the first index for None). `first` contains, for some
    axes, the index with which the loop starts. It ends with the index before this one.
    """

    transposed: Value | None
    backward: tuple[Value | None, ...]
    first: dict[int, Value] = field(default_factory=dict)


def safe_order(c: Compiler, view: ArrayValue, values: list[ArrayValue], single: bool) -> Order | None:
    """Return an order in which ``view[...] = f(*values)`` reads each element before it is overwritten, as in NumPy.

    The result is None if any order works. Otherwise, parts of one array are assigned to each other, and may overlap.
    The order then visits addresses in decreasing order if elements move to higher addresses, and in increasing order
    otherwise. Parts that are broadcast are visited last. Lengths that are known only at run time may be 1 if `single`
    is true. Raises KernelTypeError if the parts may overlap and are not known to have the same strides. If no order
    works, the kernel reports an error.
    """
    parts = [value for value in values if _may_overlap(c, view, value)]
    orders = [order for v in values if (order := _part_last(c, view, v, single))] if single or not parts else []
    if orders or not parts:
        return reduce(lambda one, other: _both(c, view, one, other), orders) if orders else None
    b = c.builder
    own, *others = (b.emit("address", (a.pointer,), (np.dtype(np.int64),))[0] for a in (view, *parts))
    higher = [b.op("less", other, own) for other in others]
    if len(parts) > 1:
        lower = [b.op("less", own, other) for other in others]
        distances = [b.op("absolute", b.op("subtract", other, own)) for other in others]
        near = [b.op("less", distance, _reach(c, view)) for distance in distances]
        both = (
            any_of(c, [b.op("bitwise_and", m, n) for m, n in zip(moves, near, strict=True)])
            for moves in (higher, lower)
        )
        c.report(b.op("bitwise_and", *both), ValueError, _BOTH_SIDES.format(view.label or "an array"))
        higher = [b.op("bitwise_and", m, n) for m, n in zip(higher, near, strict=True)]
    falls = [b.op("less", extent_ir(c, stride), b.constant(0)) for stride in view.strides]
    backward = tuple(b.op("not_equal", any_of(c, higher), fall) for fall in falls)
    return Order(_transposed(c, view), backward)


def _transposed(c: Compiler, view: ArrayValue) -> Value | None:
    """Return whether the first axis of an array has a smaller stride than the last, as a run-time bool.

    Return None if the stride of the last axis is known at compile time.
    """
    b, strides = c.builder, [s for s, n in zip(view.strides, view.shape, strict=True) if n != 1]
    if isinstance(strides[-1], int):
        return None
    first, last = (b.op("absolute", extent_ir(c, stride)) for stride in (strides[0], strides[-1]))
    return b.op("less", first, last)


def _part_last(c: Compiler, view: ArrayValue, value: ArrayValue, single: bool) -> Order | None:
    """Return an order that visits `value` last if `value` is a part of `view` and is broadcast, otherwise None."""
    if not value.ndim or (value.origin, value.dtype) != (view.origin, view.dtype):
        return None
    axes = {k: n for k, n in broadcast_axes(value, view).items() if single or isinstance(n, int)}
    lead = (1,) * (view.ndim - value.ndim)
    steps = zip((*lead, *value.strides), view.strides, strict=True)
    if not axes or any(k not in axes and s is not o and s != o for k, (s, o) in enumerate(steps)):
        return None
    b, i8 = c.builder, np.dtype(np.int64)
    start, address = (b.emit("address", (a.pointer,), (i8,))[0] for a in (view, value))
    far = b.op("subtract", address, start)
    alone = {axis: b.op("equal", extent_ir(c, n), b.constant(1)) for axis, n in axes.items()}
    order = list(axes)
    *first, rest = _starts(c, view, alone, order, far)
    if len(axes) > 1 and not isinstance(view.strides[order[-1]], int):
        sizes = (b.op("absolute", extent_ir(c, view.strides[axis])) for axis in (order[0], order[-1]))
        rising = b.op("less", *sizes)
        pairs = zip(_starts(c, view, alone, order[::-1], far), [*first, rest], strict=True)
        *first, rest = (b.op("where", rising, other, found) for other, found in pairs)
    backward: list[Value | None] = []
    for axis, (n, own, step) in enumerate(zip((*lead, *value.shape), view.shape, view.strides, strict=True)):
        if n is own if not isinstance(n, int) else axis in axes:
            backward.append(None)
            continue
        falls = b.op("less", extent_ir(c, step), b.constant(0))
        moves = b.op("not_equal", b.op("less", rest, b.constant(0, i8)), falls)
        backward.append(b.op("greater", moves, alone[axis]) if axis in axes else moves)
    return Order(_transposed(c, view) if any(backward) else None, tuple(backward), dict(zip(axes, first, strict=True)))


def _starts(c: Compiler, view: ArrayValue, alone: dict[int, Value], order: list[int], far: Value) -> list[Value]:
    """Return the index at which the loop over each axis in `alone` starts, and a displacement in bytes.

    `far` is the address of a part of `view` relative to that of `view`. The bools `alone` tell along which axes the part
    is broadcast. `order` lists the axes by decreasing strides. The loop over such an axis starts after the index of the
    part, and the loop over any other axis, or of a part outside `view`, at 0. The displacement is that along the axes
    without broadcasting, or `far` if the part is outside `view`.
    """
    b, i8 = c.builder, np.dtype(np.int64)
    zero, one, two = (b.constant(n, i8) for n in range(3))
    width = b.constant(1 if in_bytes(view.dtype) else view.dtype.itemsize, i8)
    axes, left, found, inside = {}, far, {}, b.constant(True, np.bool_)
    for axis in order:
        last, stride = (b.cast(extent_ir(c, n[axis]), i8) for n in (view.shape, view.strides))
        last, falls = b.op("subtract", last, one), b.op("less", stride, zero)
        size = b.op("multiply", b.op("absolute", stride), width)
        axes[axis] = last, falls, size
        lower = b.op("where", b.op("bitwise_and", alone[axis], falls), b.op("multiply", last, size), zero)
        left = b.op("add", left, lower)  # relative to the lowest address
    least = [b.op("where", alone[axis], size, b.constant(np.iinfo(i8).max, i8)) for axis, (*_, size) in axes.items()]
    half = b.op(
        "floor_divide", reduce(lambda x, y: b.op("minimum", x, y), least), two
    )  # (the displacement may be negative)
    for axis, (last, falls, size) in axes.items():
        index = b.op("where", alone[axis], b.op("floor_divide", b.op("add", left, half), size), zero)
        left = b.op("subtract", left, b.op("multiply", index, size))
        within = b.op("bitwise_and", b.op("greater_equal", index, zero), b.op("less_equal", index, last))
        inside = b.op("bitwise_and", inside, within)
        after = b.op("add", b.op("where", falls, b.op("subtract", last, index), index), one)
        found[axis] = b.op("where", b.op("bitwise_and", alone[axis], within), after, zero)
    return [*(found[axis] for axis in alone), b.op("where", inside, left, far)]


def _both(c: Compiler, view: ArrayValue, one: Order, other: Order) -> Order:
    """Combine two orders: return `one`, changed to visit last also the parts that `other` visits last.

    The kernel reports an error if the orders start at different indices of an axis.
    """
    b, first = c.builder, {**other.first, **one.first}
    for axis in one.first.keys() & other.first.keys():
        starts = one.first[axis], other.first[axis]
        differ = b.op(
            "bitwise_and",
            b.op("not_equal", *starts),
            b.op("not_equal", b.op("multiply", *starts), b.constant(0, np.int64)),
        )
        c.report(differ, ValueError, _BOTH_SIDES.format(view.label or "an array"))
        first[axis] = b.op("maximum", *starts)
    return Order(one.transposed, one.backward, first)


def any_of(c: Compiler, truths: list[Value]) -> Value:
    """Return whether any of several run-time bools is true."""
    return reduce(lambda one, other: c.builder.op("bitwise_or", one, other), truths)


def _reach(c: Compiler, view: ArrayValue) -> Value:
    """Return the size in bytes of the address range that an array spans."""
    b, total = c.builder, c.builder.constant(1, np.int64)
    for extent, stride in zip(view.shape, view.strides, strict=True):
        far = b.op("subtract", b.cast(extent_ir(c, extent), np.int64), b.constant(1, np.int64))
        total = b.op("add", total, b.op("multiply", far, b.op("absolute", b.cast(extent_ir(c, stride), np.int64))))
    return b.op("multiply", total, b.constant(1 if in_bytes(view.dtype) else view.dtype.itemsize, np.int64))


def _may_overlap(c: Compiler, view: ArrayValue, value: ArrayValue) -> bool:
    """Return whether the order of iteration may matter when `value` is assigned to `view`.

    Raise KernelTypeError if the two may overlap and are not known to have the same strides.
    """
    if not value.ndim or value is view:
        return False
    if value.pointer is view.pointer and value.shape == view.shape and value.strides == view.strides:
        return False
    if (value.origin, value.space, value.dtype) != (view.origin, view.space, view.dtype):
        return False
    steps, own = ([s for s, n in zip(a.strides, a.shape, strict=True) if n != 1] for a in (value, view))
    if len(steps) != len(own) or any(
        s is not o and not (isinstance(s, int) and s == o) for s, o in zip(steps, own, strict=True)
    ):
        if len(steps) == len(own) and own and (value.origin >= 0 or (value.label and value.label == view.label)):
            c.fail(
                f"parts of {view.label or 'an array'} with different steps are assigned to each other, and may overlap: "
                "use a loop, or a local array between them"
            )
        return False
    return bool(own)


class each:
    """Context manager that compiles nested loops over the axes of a shape, and yields the loop indices."""

    def __init__(
        self, c: Compiler, shape: tuple[Extent, ...], order: Order | None = None, rolled: bool = False
    ) -> None:
        self.c = c
        self.shape = shape
        self.attributes: dict[str, Any] = {"rolled": True} if rolled else {}
        self.order = order or Order(None, ())
        self.open: list[Any] = []

    def __enter__(self) -> tuple[ScalarValue, ...]:
        b = self.c.builder
        extents = self._in_order([extent_ir(self.c, extent) for extent in self.shape])
        indices = []
        for extent in extents:
            self.open.append(b.loop(extent, "serial", **self.attributes))
            indices.append(self.open[-1].__enter__().index)
        indices = self._in_order(indices)
        for axis, backward in enumerate(self.order.backward):
            if backward is None:
                continue
            last = b.op("subtract", extent_ir(self.c, self.shape[axis]), b.constant(1))
            indices[axis] = b.op("where", backward, b.op("subtract", last, indices[axis]), indices[axis])
        for axis, first in self.order.first.items():
            n, moved = (
                b.cast(extent_ir(self.c, self.shape[axis]), np.int64),
                b.op("add", b.cast(indices[axis], np.int64), first),
            )
            indices[axis] = b.op("where", b.op("less", moved, n), moved, b.op("subtract", moved, n))
        return tuple(ScalarValue(b.cast(index, np.int64), True, True) for index in indices)

    def _in_order(self, values: list[Value]) -> list[Value]:
        """Reverse a list of one value per axis if the first axis is the innermost loop."""
        if self.order.transposed is None:
            return values
        pairs = zip(values, reversed(values), strict=True)
        return [self.c.builder.op("where", self.order.transposed, other, value) for value, other in pairs]

    def __exit__(self, *error: Any) -> None:
        for loop in reversed(self.open):
            loop.__exit__(*error)
