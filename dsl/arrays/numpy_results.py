"""Conversion of NumPy's results to weft arrays, if possible over the same memory.

In: an array that a NumPy function has returned, and the device of the new weft array. Out: a weft array with the values
of the result and, unless the result has gaps, the same axis order. Invariant: nothing else refers to the memory of the
weft array.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from weft.dsl.arrays.array import Array, adopt_new, wrap
from weft.dsl.arrays.memory_order import unpermuted
from weft.dsl.immediate.host_values import adopt
from weft.fusion import dense_order
from weft.runtime import Device


def adopt_result(values: np.ndarray, device: Device) -> Array:
    """Convert a NumPy result to a weft array, if possible over the same memory.

    On the CPU, dense memory is not copied if nothing else refers to it. Results with gaps are copied in C order, and
    other results keep their axis order. Only the caller may refer to a result that owns its memory.
    """
    base = values.base
    view, ordered = None, values.flags.c_contiguous
    if ordered:
        order = (*range(values.ndim),) if values.size else None
    else:
        view = values.shape, tuple([step // values.itemsize for step in values.strides]), 0
        order = dense_order(*view[:2])
    own = type(base) is np.ndarray and base.base is None and base.nbytes == values.nbytes
    adoptable = device.name == "cpu" and (base is None or (own and getrefcount(base) <= _ALONE_AS_BASE))
    if order is None or (ordered and not adoptable):
        return adopt_new(np.array(values, order="C"), device)
    if not adoptable:
        return unpermuted(adopt_new(np.array(values.transpose(order), order="C"), device), order)
    storage = adopt(values.transpose(order), device)
    storage.buffer.values = values if base is None else base  # type: ignore[union-attr]
    array = wrap(storage, view)
    array._values = values
    return array


def _count_alone() -> tuple[int, int]:
    """Return two reference counts of an array: while only one variable refers to it, and while a view of it exists as well."""
    made = np.empty(2)
    alone = getrefcount(made)
    _view = made.reshape(1, 2)
    return alone, getrefcount(made)


ALONE, _ALONE_AS_BASE = _count_alone()
