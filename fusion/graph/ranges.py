"""Static ranges of integer expressions, which make some index checks unnecessary.

In: an expression. Out: a lower and an upper bound of its elements. Invariant: no element lies outside these bounds,
regardless of the values of the leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf, isnan, prod

import numpy as np

from weft.fusion.graph.expr import Expr, constant_value

Range = tuple[int, int]
_DEPTH = 12  # maximum depth of operations that are analyzed


def range_of(node: Expr, depth: int = _DEPTH, known: dict[tuple[Expr, int], Range] | None = None) -> Range:
    """Return a lower and an upper bound of the elements of an integer or bool expression.

    If nothing else is known, these are the bounds of the dtype. `known` contains the bounds of nodes at each depth,
    since an expression may contain a node many times.
    """
    if node.dtype.kind == "b":
        return 0, 1
    known = {} if known is None else known
    if (node, depth) not in known:
        whole = _whole_range(node.dtype)
        found = _narrower_range(node, depth, known) if depth and 0 not in node.shape else None
        # beyond the dtype's range the value has wrapped around, and nothing is known
        known[node, depth] = whole if found is None or found[0] < whole[0] or found[1] > whole[1] else found
    return known[node, depth]


@cache
def _whole_range(dtype: np.dtype) -> Range:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _narrower_range(node: Expr, depth: int, known: dict[tuple[Expr, int], Range]) -> Range | None:
    match node.kind:
        case "constant":
            value = int(constant_value(node))
            return value, value
        case "iota":
            return 0, max(0, node.shape[node.attrs[0]] - 1)
        case "view" | "gather":
            return range_of(node.operands[0], depth - 1, known)
        case "update":
            first, second = (range_of(child, depth - 1, known) for child in node.operands)
            return min(first[0], second[0]), max(first[1], second[1])
        case "reduce" if node.op in ("argmin", "argmax"):
            return 0, max(0, prod(node.operands[0].shape[axis] for axis in node.attrs[0]) - 1)
        case "reduce" if node.op in ("minimum", "maximum") and node.operands[0].dtype.kind in "iu":
            return range_of(node.operands[0], depth - 1, known)
        case "map" if node.op == "cast" and node.operands[0].dtype.kind == "f":
            return _range_after_cast(node, *_float_range(node.operands[0], depth - 1))
        case "map" if all(child.dtype.kind in "biu" for child in node.operands):
            rule = _RULES.get(node.op)
            if rule is not None and all(
                _is_exact_cast(child, kind) for child, kind in zip(node.operands, node.attrs, strict=False)
            ):
                return rule(*(range_of(child, depth - 1, known) for child in node.operands))
    return None


def _range_after_cast(node: Expr, low: float, high: float) -> Range:
    """Return the range of the integers to which floats from `low` to `high` are cast.

    The cast saturates, and it converts NaN to 0.
    """
    lowest, highest = _whole_range(node.dtype)
    least, most = (int(min(max(bound, lowest), highest)) for bound in (low, high))
    return min(least, 0), max(most, 0)


def _float_range(node: Expr, depth: int) -> tuple[float, float]:
    """Return a lower and an upper bound of the elements of a float expression.

    The bounds may be infinite. Elements may also be NaN.
    """
    nothing = -inf, inf
    if node.kind == "constant":
        value = float(constant_value(node))
        return nothing if isnan(value) else (value, value)
    if node.kind == "view" and depth:
        return _float_range(node.operands[0], depth - 1)
    if node.kind != "map" or not depth or any(child.dtype != node.dtype for child in node.operands):
        return nothing
    if node.op in ("minimum", "maximum"):
        first, second = (_float_range(child, depth - 1) for child in node.operands)
        pick = min if node.op == "minimum" else max
        return pick(first[0], second[0]), pick(first[1], second[1])
    return nothing


def _is_exact_cast(child: Expr, kind: np.dtype) -> bool:
    """Return whether a cast of the integer or bool `child` to the dtype `kind` is known to be exact."""
    if np.can_cast(child.dtype, kind):
        return True
    limits = np.iinfo(kind) if kind.kind in "iu" and child.kind == "constant" else None
    return limits is not None and limits.min <= int(constant_value(child)) <= limits.max


def _remainder(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _floor_divide(a: Range, b: Range) -> Range | None:
    return _corners(a, b, int.__floordiv__) if b[0] > 0 else None


def _bitwise_and(a: Range, b: Range) -> Range | None:
    highest = [most for least, most in (a, b) if least >= 0]
    return (0, min(highest)) if highest else None


def _corners(a: Range, b: Range, of: Callable[[int, int], int]) -> Range:
    values = [of(x, y) for x in a for y in b]
    return min(values), max(values)


_RULES: dict[str, Callable[..., Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": lambda a, b: _corners(a, b, int.__mul__),
    "negative": lambda a: (-a[1], -a[0]),
    "absolute": lambda a: (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1]))),
    "remainder": _remainder,
    "floor_divide": _floor_divide,
    "bitwise_and": _bitwise_and,
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "where": lambda c, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "cast": lambda a: a,
}
