"""Parallel reductions and assignments with repeated indices.

In: the previous elements, the values, and the index of each value. Out: expressions of the resulting elements, or
None if the caller must record a `scatter`. Invariant: the result does not depend on the order of the threads.

*On the CPU*, each block of values has its own accumulators, which are combined in order. The number of blocks depends
only on the sizes.

*On a GPU*, integers are reduced by atomics. Sums of floats are sums of integers. Each value is rounded to a multiple of
a step. The step is chosen from the largest value at the index, so that the sum of all values there is below 2^62 steps.
The error of a value is at most half a step. For 16 M values, a step is at most 2^-36 of the largest value. Sums of
float64 also add the remainders, in correspondingly smaller steps. Sequential addition would round each partial sum,
with a relative error of 2^-24 for float32 and 2^-53 for float64. An assignment stores the value of the last occurrence
of an index, whichever thread writes it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from weft import codegen
from weft.codegen import identity_of
from weft.fusion import (
    Expr,
    Location,
    broadcast_to,
    cast,
    constant,
    gather,
    iota,
    map_,
    reduce_,
    reshape,
    scatter,
    view,
)
from weft.runtime import Device

Terms = tuple[tuple[int, tuple[tuple[int, int], ...], int], ...]

# On the CPU: minimum block length, maximum number of blocks, and minimum number of values per index in a block.
SHORTEST = 1 << 17
MOST_BLOCKS = 64
VALUES_PER_INDEX = 4
# On a GPU: maximum number of values that one thread processes in order, and maximum number of indices per value. With
# more indices, processing all of them costs more.
FEW = 32
INDICES_PER_VALUE = 64
_FLAT: Terms = ((0, (), 0),)
_INT32, _INT64, _FLOAT64 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)
_IN_BLOCKS = frozenset({"add", "subtract", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor"})


def is_gpu(device: Device) -> bool:
    """Return whether a device is a GPU or the CPU emulation of a GPU."""
    return codegen.machine_of(device).is_gpu


def scatter_reduce(op: str, previous: Expr, value: Expr, position: Expr, device: Device) -> Expr | None:
    """Compute ``previous[position[k]] = op(previous[position[k]], value[k])`` for all k, in parallel.

    `value` and `position` are flat. Return None if the op, the dtype or the sizes are unsuitable. The caller then
    records a `scatter`.
    """
    count, size, kind = value.size, previous.size, previous.dtype
    if is_gpu(device):
        summed = op in ("add", "subtract") and kind.kind == "f"
        if not summed or not FEW < count < 2**31 or size > INDICES_PER_VALUE * count:
            return None
        total = sum_in_any_order(value, position, size)
    else:
        blocks = min(MOST_BLOCKS, (count - 1) // max(SHORTEST, VALUES_PER_INDEX * size))
        if op not in _IN_BLOCKS or kind.kind not in "biuf" or blocks < 2:
            return None
        total = _reduce_in_blocks("add" if op == "subtract" else op, kind, value, position, size, blocks)
    before = reshape(previous, (size,))
    after = map_(op, [before, cast(total, kind)])
    if kind.kind == "f" and op in ("add", "subtract"):
        # A zero keeps its sign if nothing is added to it.
        after = map_("where", [map_("equal", [total, constant(0, total.dtype)]), before, after])
    return reshape(after, previous.shape)


def _reduce_in_blocks(op: str, kind: np.dtype, value: Expr, position: Expr, size: int, blocks: int) -> Expr:
    """Reduce the values at each index in parallel, first within blocks and then across blocks."""
    length = -(-value.size // blocks)
    whole = value.size // length
    nothing = constant(identity_of(op, kind), kind)
    shape = (whole, length)
    own: Terms = ((0, ((0, 1),), -1), (0, (), 0))
    parts = [view(each, shape, (length, 1), 0) for each in (value, position)]
    partial = scatter(broadcast_to(nothing, (whole, size)), parts[0], [parts[1]], own, shape, op)
    total = reduce_(op, partial, (0,), kind)
    rest = value.size - whole * length
    if rest:
        parts = [view(each, (rest,), (1,), whole * length) for each in (value, position)]
        total = scatter(total, parts[0], [parts[1]], _FLAT, (rest,), op)
    return total


def sum_in_any_order(value: Expr, position: Expr, size: int, *, fine: bool = False) -> Expr:
    """Return an array of `size` float64 sums. Sum number k adds all elements of `value` for which `position` is k.

    The sums do not depend on the order of the additions. If `fine` is true, sums of float16 and float32 are as exact as
    those of float64.
    """
    count, narrow = value.size, value.dtype
    if narrow.itemsize < 4:
        value = cast(value, np.dtype(np.float32))
    nan = map_("isnan", [value])
    special = constant(np.iinfo(_INT32).max, _INT32)
    # Maximum of the exponents. The exponent of infinity becomes the largest integer, that of 0 the smallest.
    exponent = cast(map_("floor", [map_("log2", [map_("absolute", [value])])]), _INT32)
    least = broadcast_to(constant(np.iinfo(_INT32).min, _INT32), (size,))
    top = _scatter_reduced("maximum", least, map_("where", [nan, special, exponent]), position)
    # The logarithm may be rounded up or down to a whole number, so a value is below 2^(exponent + 2).
    bits = 60 - (count - 1).bit_length()
    shift = map_(
        "subtract", [constant(bits, _INT32), map_("clip", [top, constant(-1100, _INT32), constant(1100, _INT32)])]
    )
    half = map_("right_shift", [shift, constant(1, _INT32)])
    halves = [half, map_("subtract", [shift, half])]
    one = constant(1, _FLOAT64)
    up = [map_("ldexp", [one, n]) for n in halves]
    down = [map_("ldexp", [one, map_("negative", [n])]) for n in halves]
    scaled = cast(value, _FLOAT64)
    for factor in up:
        scaled = map_("multiply", [scaled, _at(factor, position)])
    steps = map_("rint", [scaled])
    total = _sum_steps(value, nan, steps, _at(top, position), position, size)
    found = cast(total, _FLOAT64)
    if fine or narrow == _FLOAT64:
        left = map_("multiply", [map_("subtract", [scaled, steps]), constant(2.0**bits, _FLOAT64)])
        zeros = broadcast_to(constant(0, _INT64), (size,))
        rest = cast(_scatter_reduced("add", zeros, cast(map_("rint", [left]), _INT64), position), _FLOAT64)
        found = map_("add", [found, map_("multiply", [rest, constant(2.0**-bits, _FLOAT64)])])
    for factor in down:
        found = map_("multiply", [found, factor])
    return map_("where", [map_("equal", [top, special]), _special_sum(total), found])


# The infinities and NaNs at an index are counted in one integer: positive infinities in its lower half, negative
# infinities in its upper half, and a NaN as one of each.
_UPPER = 32


def _sum_steps(value: Expr, nan: Expr, steps: Expr, top: Expr, position: Expr, size: int) -> Expr:
    is_special = map_("equal", [top, constant(np.iinfo(_INT32).max, _INT32)])
    positive, negative = (map_("equal", [value, constant(v, value.dtype)]) for v in (np.inf, -np.inf))
    code = constant(0, _FLOAT64)
    for test, count in ((negative, 2.0**_UPPER), (positive, 1.0), (nan, 1 + 2.0**_UPPER)):
        code = map_("where", [test, constant(count, _FLOAT64), code])
    zeros = broadcast_to(constant(0, _INT64), (size,))
    return _scatter_reduced("add", zeros, cast(map_("where", [is_special, code, steps]), _INT64), position)


def _special_sum(counts: Expr) -> Expr:
    """For each index, return the special sum (inf, -inf or NaN) that follows from the packed counts of infinities and NaNs at this index."""
    negative, mask = constant(_UPPER, _INT64), constant((1 << _UPPER) - 1, _INT64)
    infinity, nan = (constant(v, _FLOAT64) for v in (np.inf, np.nan))
    some = [
        cast(map_(op, [counts, with_]), np.dtype(bool))
        for op, with_ in (("bitwise_and", mask), ("right_shift", negative))
    ]
    one_sign = map_("where", [some[0], infinity, map_("negative", [infinity])])
    return map_("where", [map_("logical_and", some), nan, one_sign])


def scatter_assign(
    previous: Expr,
    value: Expr,
    position: Expr,
    terms: Terms,
    shape: tuple[int, ...],
    device: Device,
    location: Location | None = None,
) -> Expr:
    """Return `previous` with `value` assigned to the elements that `position` selects.

    For a repeated index, the last value is assigned.
    """
    count = prod(shape)
    if not is_gpu(device) or count <= FEW or count >= 2**31 or previous.size > INDICES_PER_VALUE * count:
        return scatter(previous, value, [position], terms, shape, "", location)
    # (The order does not matter for a constant, and for a single element that is broadcast.)
    if value.kind != "constant" and (value.kind != "view" or any(value.attrs[0])):
        number = reshape(iota((count,), 0, _INT32), shape)  # the flat index of each element
        none = broadcast_to(constant(-1, _INT32), (previous.size,))
        last = scatter(none, number, [position], terms, shape, "maximum")
        value = gather(reshape(value, (count,)), [gather(last, [position], terms, shape)], _FLAT, shape)
    return scatter(previous, value, [position], terms, shape, "same", location)


def _at(values: Expr, position: Expr) -> Expr:
    return gather(values, [position], _FLAT, position.shape)


def _scatter_reduced(op: str, target: Expr, value: Expr, position: Expr) -> Expr:
    return scatter(target, value, [position], _FLAT, position.shape, op)
