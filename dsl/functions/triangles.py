"""NumPy's `tril`, `triu` and `tri`."""

from __future__ import annotations

from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, record
from weft.dsl.arrays.array import start as begin
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.validation import as_dtype, warn_deprecation
from weft.dsl.functions.creation import asarray, ones
from weft.dsl.immediate.small_work import make_small
from weft.fusion import broadcast_to, constant, iota, map_

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike


def _whole(*numbers: Any) -> list[int]:
    """Convert sizes and diagonal offsets to integers, with NumPy's deprecation warning for floats."""
    try:
        return [index(number) for number in numbers]
    except TypeError:
        kind = next((type(number) for number in numbers if not hasattr(number, "__index__")), type(numbers[0]))
        warn_deprecation(
            (2, 5),
            f"Cannot convert {kind.__name__} safely to an integer."
            "This will raise an error in future versions (Deprecated NumPy 2.5)",
        )
        return [int(number) for number in numbers]


def _triangle(name: str, comparison: str) -> Any:
    """Return `tril` or `triu`.

    An element is kept if the op `comparison` of its column and the column of the diagonal in the same row is true.
    """

    def function(m: ArrayLike, k: int = 0) -> Array:
        (beyond,) = _whole(k)
        where = begin()
        source = asarray(m)
        if not source.ndim:
            raise TypeError("tril and triu need an array with at least one axis")
        node = expr_of(source)
        if len(node.shape) < 2:
            node = broadcast_to(node, (node.shape[0], node.shape[0]))
        shape = node.shape[-2:]
        row = map_("add", [iota(shape, 0, np.int64), constant(beyond, np.int64)])
        keep = map_(comparison, [iota(shape, 1, np.int64), row])
        return record(map_("where", [keep, node, constant(0, node.dtype)], location=where))

    return memoized(named(name, function))


tril = _triangle("tril", "less_equal")
triu = _triangle("triu", "greater_equal")


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = float, *, like: object = None) -> Array:
    """Return a matrix with ones on and below the `k`-th diagonal, and zeros above it.

    Examples
    --------
    >>> wf.tri(3, dtype=np.int64)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    rows, columns, diagonal = _whole(N, N if M is None else M, k)
    shape = max(rows, 0), max(columns, 0)
    made = make_small(np.tri, prod(shape), *shape, diagonal, as_dtype(dtype))
    return tril(ones(shape, dtype), diagonal) if made is None else made
