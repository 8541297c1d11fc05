"""Reductions of whole arrays in host memory, done at the call: nothing fuses with the array, and the result is one number.

In: a function's name and NumPy's view of an array. Out: the number, as NumPy's scalar, or None. Invariant: it has the bits that
a plan's reduction has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.fusion.fold_order import CHUNK
from weft.fusion.primitives import NeedsKernelError, reduce_values

# Elements up to which a variance is two sums in a plan as well.
_TWO_SUMS = 2 * CHUNK
_ROWS = {"sum": "add", "mean": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
NAMES = frozenset({*_ROWS, "all", "any", "std", "var"})
# Elements, for each of the limit of small work, up to which a recorded reduction takes longer, which may run on several threads.
MOST = 8


def reduce_whole(name: str, values: np.ndarray) -> Any:
    """Return a reduction of all elements; None where a kernel has to do it."""
    kind = values.dtype
    if kind.kind == "c" or not values.flags.c_contiguous:
        return None
    if name == "mean" and kind.kind in "biu":
        if kind.itemsize > 4:
            return None  # (the sum of floats may round)
        return np.float64(np.count_nonzero(values) if kind.kind == "b" else values.sum()) / np.float64(values.size)
    if name in ("std", "var"):
        return _spread(name, values) if kind.kind == "f" and values.size <= _TWO_SUMS else None
    if name not in _ROWS or kind.kind in "biu":
        return getattr(values, name)()
    try:
        found = reduce_values(_ROWS[name], values, tuple(range(values.ndim)), kind)
    except NeedsKernelError:
        return None
    return found / kind.type(values.size) if name == "mean" else found


def _spread(name: str, values: np.ndarray) -> Any:
    count, axes = values.dtype.type(values.size), tuple(range(values.ndim))
    distance = values - reduce_values("add", values, axes, values.dtype) / count
    found = reduce_values("add", np.square(distance, distance), axes, values.dtype) / count
    return np.sqrt(found) if name == "std" else found
