"""The object that `Array.flat` returns, like `numpy.flatiter`.

In: an array. Out: its elements in C order, by index or one after another. Invariant: writes go to the array.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, write
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.functions import creation, manipulation


class Flat:
    """`Array.flat`: the elements in C order, readable and writable, and an iterator over them, like `numpy.flatiter`.

    Attributes
    ----------
    base : Array
    index : int
        The number of elements that the iterator has returned.
    """

    def __init__(self, array: Array) -> None:
        self.base = array
        self.index = 0
        self._elements: Any = None

    @property
    def coords(self) -> tuple[int, ...]:
        """Return the indices of the next element."""
        places = (self.index // prod(self.base.shape[k + 1 :]) for k in range(self.base.ndim))
        return tuple(place if k == 0 else place % self.base.shape[k] for k, place in enumerate(places))

    def copy(self) -> Array:
        """Return the elements as a one-dimensional copy."""
        return creation.copy_in_order(manipulation.ravel(self.base), "C")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(manipulation.ravel(self.base).numpy(), dtype)

    def __getitem__(self, key: object) -> Any:
        return manipulation.ravel(self.base)[_flat_key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        _assign(self.base, _flat_key(key), value)

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self._elements is None:
            self._elements = iter(manipulation.ravel(self.base))
        found = next(self._elements)
        self.index += 1
        return found

    def __len__(self) -> int:
        return self.base.size


@on_operands_device
def _assign(array: Array, key: Any, value: Any) -> None:
    """Execute ``array.flat[key] = value``."""
    flat = array.reshape(-1)
    if np.ndim(value) and (key is Ellipsis or isinstance(key, slice)):  # (values are repeated as needed)
        key = slice(None) if key is Ellipsis else key
        values, count = manipulation.ravel(value), len(range(*key.indices(flat.size)))
        few = 0 < values.size != count
        value = values[creation.arange(count) % values.size] if few else values
    flat[key] = value
    if flat._storage is not array._storage:
        write(array, expr_of(manipulation.reshape(flat, array.shape)))


def _flat_key(key: object) -> Any:
    """Check an index of `Array.flat` and return it. Raises IndexError for new axes and tuples of several indices."""
    if key is None or (isinstance(key, tuple) and len(key) > 1):
        raise IndexError("unsupported iterator index")
    return key
