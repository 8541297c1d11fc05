"""Memory that NumPy has made, as an array's own.

In: what a NumPy function gives. Out: an array over its memory, where nothing else refers to that; else over a copy.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from weft.dsl.array import Array, born, wrap
from weft.dsl.host_values import adopt, view_of
from weft.fusion import dense_order
from weft.runtime import Device


def adopt_result(values: np.ndarray, base: Any, home: Device) -> Array:
    """Return an array of NumPy's elements, a view of `base` or None: in their own memory, if they have all of it alone."""
    strides = tuple([step // values.itemsize for step in values.strides])
    order = dense_order(values.shape, strides) if home.name == "cpu" and values.size else None
    own = type(base) is np.ndarray and base.base is None and base.nbytes == values.nbytes
    alone = base is None or (own and getrefcount(base) <= _ALONE)
    if order is None or not alone:
        return born(np.array(values, order="C"), home)
    storage = adopt(values.transpose(order), home)
    storage.buffer.values = values if base is None else base  # type: ignore[union-attr]
    array = wrap(storage, view_of(values, storage))
    array._values = values
    return array


def _count_alone() -> int:
    """Count the references to memory that a view has alone, as `adopt_result` sees them."""
    values = np.empty(2).reshape(1, 2)
    base = values.base
    return (lambda values, base: getrefcount(base))(values, base)


_ALONE = _count_alone()
