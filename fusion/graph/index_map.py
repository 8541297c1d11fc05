"""Affine index maps: indices that are linear functions of loop indices.

An affine form is ``(constant, ((loop, coefficient), ...))``, sorted by loop, without zero coefficients. Forms are
plain tuples of ints, so two maps are equal if and only if their tuples are equal. In: views by strides. Out: the index
of each read, per dimension or flat in C order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.fusion.graph.expr import Expr, contiguous_strides
from weft.fusion.graph.sizes import common_divisor

Affine = tuple[int, tuple[tuple[int, int], ...]]
Coordinates = tuple[Affine, ...]  # one per dimension

ZERO: Affine = (0, ())


def variable(loop: int) -> Affine:
    """Return the affine form of a single loop index."""
    return 0, ((loop, 1),)


def combine(constant: int, terms: tuple[tuple[Affine, int], ...]) -> Affine:
    """Return the affine form ``constant + sum(form * factor)``."""
    if len(terms) == 1 and terms[0][1] == 1:
        start, coefficients = terms[0][0]
        return start + constant, coefficients
    total: dict[int, int] = {}
    for (start, coefficients), factor in terms:
        constant += start * factor
        for loop, coefficient in coefficients:
            total[loop] = total.get(loop, 0) + coefficient * factor
    return constant, tuple(sorted((loop, c) for loop, c in total.items() if c))


def flatten(coordinates: Coordinates, shape: tuple[int, ...]) -> Affine:
    """Return the flat index in C order of the element at `coordinates`."""
    strides = contiguous_strides(shape)
    return combine(0, tuple(zip(coordinates, strides, strict=True)))


def rename(form: Affine, loops: dict[int, int]) -> Affine:
    """Rename loops of an affine form according to the mapping `loops`."""
    return form[0], tuple(sorted((loops.get(loop, loop), c) for loop, c in form[1]))


def broadcast(coordinates: Coordinates, shape: tuple[int, ...]) -> Coordinates:
    """Convert coordinates in a broadcast result to coordinates in an operand of shape `shape`."""
    lead = len(coordinates) - len(shape)
    return tuple(ZERO if n == 1 else c for n, c in zip(shape, coordinates[lead:], strict=True))


@lru_cache(maxsize=16384)
def decode_view(
    base: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Coordinates | None:
    """Return the coordinates of a strided view's elements in a C-ordered base.

    The result has one affine form per dimension of `base`, in the indices along the view's axes. Return None if there
    are no such forms, for example for a reshape that merges axes.

    Each view axis with a nonzero stride must belong to one base dimension, and no dimension may overflow into the
    previous one, for any index in range.
    """
    if 0 in shape:
        return (ZERO,) * len(base)  # nothing is ever read
    steps = contiguous_strides(base)
    starts = [0] * len(base)
    terms: list[list[tuple[int, int]]] = [[] for _ in base]
    lowest, highest = [0] * len(base), [0] * len(base)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        if n == 1 or stride == 0:
            continue
        # the largest base stride that divides the view's stride, and whose dimension can hold all indices
        for dimension, step in enumerate(steps):
            if base[dimension] == 1 or stride % step:
                continue
            jump = stride // step
            if abs(jump) * (n - 1) < base[dimension]:
                terms[dimension].append((axis, jump))
                lowest[dimension] += min(0, jump * (n - 1))
                highest[dimension] += max(0, jump * (n - 1))
                break
        else:
            return None
    rest = offset
    for dimension, step in enumerate(steps):
        if base[dimension] == 1:
            continue
        starts[dimension], rest = divmod(rest, step)
    if rest:
        return None
    # with a negative stride, the digits of the offset are those of the first element, which is in range
    for dimension, n in enumerate(base):
        if starts[dimension] + lowest[dimension] < 0 or starts[dimension] + highest[dimension] >= n:
            return None
    return tuple((start, tuple(sorted(t))) for start, t in zip(starts, terms, strict=True))


def through_view(decoded: Coordinates, coordinates: Coordinates) -> Coordinates:
    """Convert coordinates in a view to coordinates in the view's base."""
    return tuple(
        combine(start, tuple((coordinates[axis], jump) for axis, jump in terms)) if terms else (start, ())
        for start, terms in decoded
    )


def taken_axis(node: Expr) -> int:
    """Return the axis along which a gather selects elements like `numpy.take`, otherwise -1."""
    base, *indices = node.operands
    (terms,) = node.attrs
    shape = base.shape
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
    given = indices[0].shape
    lead = len(given) - (len(node.shape) - axis)
    wanted = (*node.shape[axis : axis + count], *(1,) * (len(node.shape) - axis - count))
    if lead < 0:
        return -1
    return axis if given[lead:] == wanted and all(n == 1 for n in given[:lead]) else -1


def strided_view(base: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """Return a view of a C-contiguous NumPy array or scalar, with strides and an offset in elements."""
    size, dtype = base.itemsize, base.dtype
    if 0 in shape:
        return np.empty(shape, dtype)
    if dtype.isbuiltin != 1:  # (other dtypes have no buffers)
        return as_strided(base.reshape(-1)[offset:], shape, [s * size for s in strides])
    # (a tenth of the time of `as_strided`)
    return np.ndarray(shape, dtype, base, offset * size, [s * size for s in strides])


def disjoint(one: Affine, other: Affine, extents: Sequence[int]) -> bool:
    """Return True if two flat index expressions certainly have no common value over all iterations of the loops. If in doubt, return False."""
    steps = [c for _, c in (*one[1], *other[1])]
    if not steps:
        return one[0] != other[0]
    if (one[0] - other[0]) % common_divisor(*steps):
        return True
    (low, high), (low_other, high_other) = reach(one, extents), reach(other, extents)
    return high < low_other or high_other < low


def reach(form: Affine, extents: Sequence[int]) -> tuple[int, int]:
    """Return the minimum and the maximum of an affine form over loops with the given extents."""
    ends = [c * (extents[k] - 1) for k, c in form[1]]
    return form[0] + sum(e for e in ends if e < 0), form[0] + sum(e for e in ends if e > 0)


def bound_form(form: Affine, quotients: Mapping[int, tuple[Affine, int]], extents: Sequence[int]) -> tuple[int, int]:
    """Return a lower and an upper bound of an affine form that contains quotients.

    The key ``-1 - k`` in a form stands for quotient k. `quotients` maps k to the dividend and the divisor. Interval
    arithmetic overestimates ``f - q * (f // q)``, because it treats a quotient and its dividend as independent. Here
    each quotient is replaced by ``(f - remainder) / q``, so that the form is linear in independent numbers.
    """
    scale = prod(divisor for _, divisor in quotients.values())
    constant = form[0] * scale
    factors: dict[int, int] = defaultdict(int)  # multiplied by `scale`; a negative key stands for a remainder
    terms = [(key, c * scale) for key, c in form[1]]
    while terms:
        key, factor = terms.pop()
        if key >= 0:
            factors[key] += factor
            continue
        dividend, divisor = quotients[-1 - key]
        factor //= divisor  # (exact)
        factors[key] -= factor
        constant += factor * dividend[0]
        terms += [(inner, factor * c) for inner, c in dividend[1]]
    ends = [c * ((extents[key] if key >= 0 else quotients[-1 - key][1]) - 1) for key, c in factors.items()]
    low, high = constant + sum(e for e in ends if e < 0), constant + sum(e for e in ends if e > 0)
    return low // scale, -(-high // scale)
