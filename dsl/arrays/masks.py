"""Masks: assignments to what a boolean array takes, and where on a GPU it holds, without looking at each element in turn.

In: an array, a mask of its first axes, and what is assigned. Out: a new version of the storage, each element chosen where it
lies; or positions. Both go by a running count of the mask: the element with count k gets value k - 1, and is the k-th position.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

import weft.runtime as runtime
from weft.dsl.arrays.array import Array, as_operand, expr_of, record, wrap, write
from weft.dsl.arrays.numbers import number_of
from weft.dsl.arrays.selections import SPARSE, elements_of, has_runs, put_back, take_later
from weft.dsl.immediate.at_call import hand_out, put_masked
from weft.fusion import (
    Expr,
    Location,
    Storage,
    broadcast_to,
    cast,
    constant,
    current_epoch,
    evaluate,
    gather,
    iota,
    map_,
    recording,
    reduce_,
    reshape,
    scan,
)
from weft.runtime import IMMEDIATE, Device

_INT64 = np.dtype(np.int64)

# Elements of a mask up to which what it takes is found by NumPy on the CPU.
SMALL = 1 << 14
# Elements of a mask that are looked at together.
BLOCK = 1 << 16
# Elements of a mask that are looked at at the call, for each that is done there: NumPy goes through 64 of them as fast.
MOST_LOOKED_AT = 64


def assign_masked(array: Array, mask: Any, value: Any, where: Location) -> bool:
    """``array[mask] = value`` where the value is one for all, or has an element for each that is taken; False for others."""
    if type(value) is Array and type(mask) is Array and mask.shape == array.shape and value.size > 1:
        node = put_back(array, mask, value)
        if node is not None:
            write(array, map_("where", [expr_of(mask), cast(node, array.dtype), expr_of(array)]))
            return True
    several = isinstance(value, (Array, np.ndarray)) and value.ndim == 1 and value.size > 1
    few = several and value.size <= IMMEDIATE[0] and mask.size <= MOST_LOOKED_AT * IMMEDIATE[0]
    if (few or mask.size <= BLOCK) and (several or not _is_recorded(mask)) and put_masked(array, mask, value):
        return True
    # looked at first: what is recorded is valid until something is evaluated
    if several and (mask.ndim != array.ndim or not mask.size or not _is_worth_it(array, mask, value.size)):
        return False
    node, weak = as_operand(value)
    if not several and (node.size != 1 or len(node.shape) > 1):
        return False
    if weak is not None:
        node = number_of(value, array.dtype, where, "set", current_epoch())
    test = _test(mask, array.ndim)
    node = _spread(test, node) if several else reshape(node, ())
    write(array, map_("where", [test, cast(node, array.dtype), expr_of(array)]))
    return True


def _is_recorded(mask: Any) -> bool:
    """Whether a mask is pending in the current recording, where the assignment fuses with what computes it."""
    return type(mask) is Array and mask._storage.buffer is None and mask._storage.epoch is recording.epoch


def _test(mask: Any, ndim: int) -> Expr:
    test = as_operand(mask)[0]
    return reshape(test, test.shape + (1,) * (ndim - len(test.shape)))


def _is_worth_it(array: Array, mask: Any, values: int) -> bool:
    """Whether the mask takes as many elements as there are values, and not too few of all."""
    taken = _count(mask) if isinstance(mask, Array) else int(np.count_nonzero(mask))
    return taken == values and (array._storage.device.name != "cpu" or taken * SPARSE >= mask.size)


def _spread(test: Expr, values: Expr) -> Expr:
    """For each element of the mask the value that is its own where it is taken."""
    counts = _counts(test)
    kind = counts.dtype
    first = map_("subtract", [counts, constant(1, kind)])
    place = reshape(map_("maximum", [first, constant(0, kind)]), test.shape)
    return gather(values, [place], ((0, (), 0),), test.shape)


def _counts(test: Expr) -> Expr:
    kind = np.dtype(np.int32 if test.size < 2**31 else np.int64)
    return scan("add", cast(reshape(test, (test.size,)), kind), 0, kind)


def _count(mask: Array) -> int:
    """How many elements hold: the mask is evaluated."""
    if mask._storage.device.name == "cpu":
        evaluate([mask._storage], aside=True)
        return int(np.count_nonzero(mask.numpy()))
    count = record(reduce_("add", cast(expr_of(mask), _INT64), tuple(range(mask.ndim)), _INT64))
    evaluate([count._storage, mask._storage], aside=True)
    return int(count)


def select(array: Array, mask: Array) -> Array | None:
    """``array[mask]`` where both are in the host's memory: block by block, on all threads; None elsewhere."""
    device = array._storage.device
    if device.name != "cpu" or mask._storage.device is not device or not mask.ndim:
        return None
    if mask.shape != array.shape[: mask.ndim]:
        return None
    if mask.size > IMMEDIATE[0] and (later := take_later(array, mask)) is not None:
        return later
    if mask._storage.buffer is None or array._storage.buffer is None:
        evaluate([mask._storage, array._storage], aside=recording.held)
    values, test = elements_of(array), elements_of(mask)
    if not values.size or (test.ndim == values.ndim and has_runs(mask, test)):
        return hand_out(values[test], device)  # type: ignore[no-any-return]
    rest = values.shape[test.ndim :]
    length = test.shape[0]
    in_order = values.flags.c_contiguous and test.flags.c_contiguous
    if (
        test.size <= BLOCK // 2
    ):  # (by positions up to ten times as fast, but NumPy copies what lies in another order for that)
        taken = values.reshape(-1, *rest).take(np.flatnonzero(test), axis=0) if in_order else values[test]
        return hand_out(taken, device)  # type: ignore[no-any-return]
    # (a block of rows, or of elements where both lie in order)
    if in_order:
        values, test, length = values.reshape(-1, *rest), test.reshape(-1), test.size

    def copy(block: slice, out: np.ndarray) -> None:
        places = np.flatnonzero(test[block])
        # (only "clip" writes into memory of this dtype without a copy; no place is out of range)
        values[block].reshape(-1, *rest).take(places, axis=0, out=out, mode="clip")

    return _collect(copy, test, max(1, BLOCK * length // test.size), rest, values.dtype, device)


def _positions(mask: np.ndarray, device: Device) -> Array:
    """Flat positions of what holds in a mask in C order."""
    flat = mask.reshape(-1)

    def fill(block: slice, out: np.ndarray) -> None:
        np.add(np.flatnonzero(flat[block]), block.start, out=out)

    return _collect(fill, flat, BLOCK, (), _INT64, device)


def _collect(
    fill: Callable[[slice, np.ndarray], None],
    test: np.ndarray,
    size: int,
    rest: tuple[int, ...],
    dtype: np.dtype,
    device: Device,
) -> Array:
    """What `fill` writes for each block of `size` rows of a mask, an item for each element that holds, on all threads."""
    blocks = [slice(k, k + size) for k in range(0, len(test), size)]
    ends = np.cumsum([np.count_nonzero(test[block]) for block in blocks]).tolist()
    storage = Storage((ends[-1], *rest), dtype, device, device.allocate(ends[-1] * prod(rest) * dtype.itemsize))
    out = device.lend(storage.buffer, dtype, storage.shape)  # type: ignore[attr-defined]
    calls = [
        partial(fill, b, out[begin:end]) for b, begin, end in zip(blocks, [0, *ends], ends, strict=False) if end > begin
    ]
    runtime.run_calls(calls, runtime.thread_count())
    return wrap(storage)


def find_true(mask: Array) -> tuple[np.ndarray | Array, ...]:
    """Positions along each axis where a mask holds, in order: on the CPU found by NumPy, elsewhere where the mask lies.

    Everyone who asks for a position looks for its count by halves.
    """
    device = mask._storage.device
    if device.name == "cpu" or not mask.ndim or not mask.size:
        evaluate([mask._storage], aside=True)
        values = mask.numpy()
        if values.size <= SMALL:
            return np.nonzero(values)
        flat_positions = _positions(values, device)
        return _along_axes(expr_of(flat_positions), mask.shape) if mask.ndim > 1 else (flat_positions,)
    shape = (_count(mask),)
    if not shape[0]:
        return (np.empty(0, np.int64),) * mask.ndim
    counts = _counts(expr_of(mask))
    kind = counts.dtype
    wanted = map_("add", [iota(shape, 0, kind), constant(1, kind)])
    place, length = broadcast_to(constant(0, kind), shape), mask.size
    while length > 1:
        half = length // 2
        below = map_("less", [gather(counts, [place], ((half - 1, (), 0),), shape), wanted])
        place = map_("where", [below, map_("add", [place, constant(half, kind)]), place])
        length -= half
    below = map_("less", [gather(counts, [place], ((0, (), 0),), shape), wanted])
    flat = cast(map_("add", [place, cast(below, kind)]), _INT64)
    return _along_axes(flat, mask.shape)


def _along_axes(flat: Expr, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Flat positions as positions along each axis."""
    found = []
    for axis, n in enumerate(shape):
        step = prod(shape[axis + 1 :])
        along = map_("floor_divide", [flat, constant(step, _INT64)]) if step > 1 else flat
        found.append(record(map_("remainder", [along, constant(n, _INT64)]) if axis else along))
    return tuple(found)


__all__ = ["assign_masked", "find_true", "select"]
