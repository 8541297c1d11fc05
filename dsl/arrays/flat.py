"""The object that `Array.flat` returns, like `numpy.flatiter`.

In: an array. Out: its elements in C order, by index or one after another. Invariant: the object holds no copy of the
elements. Reads and writes through the object access the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, write
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.arrays.indexing import nonzero
from weft.dsl.arrays.memory_order import copy_in_order
from weft.dsl.arrays.parts import Part
from weft.dsl.arrays.windows import is_c_ordered
from weft.dsl.functions import creation, manipulation


class Flat:
    """An iterator over the elements of an array in C order, like `numpy.flatiter`.

    The iterator can also be indexed to read and write elements.

    Attributes
    ----------
    base : Array
        The array.
    index : int
        The number of elements that the iterator has returned.
    """

    def __init__(self, array: Array) -> None:
        self.base = array
        self.index = 0
        self._elements: Any = None

    @property
    def coords(self) -> tuple[int, ...]:
        """The n-dimensional index of the next element."""
        return _unravel(self.index, self.base.shape) if self.base.ndim else ()

    def copy(self) -> Array:
        """Return the elements as a one-dimensional copy."""
        return copy_in_order(manipulation.ravel(self.base), "C")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(manipulation.ravel(self.base).numpy(), dtype)

    def __getitem__(self, key: object) -> Any:
        if (at := self._coordinates(key)) is not None:
            return self.base[at]
        selected = _flat_key(key, self.base.size)
        found = manipulation.ravel(self.base)[selected]
        return found.copy() if selected is Ellipsis or type(selected) is slice else found  # (as in NumPy, no view)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, tuple) and not key:
            raise IndexError("Assigning to a flat iterator with a 0-D index is not supported")
        if isinstance(value, (int, float)) and (at := self._coordinates(key)) is not None:
            self.base[at] = value
            return
        _assign(self.base, _flat_key(key, self.base.size), value)

    def _coordinates(self, key: Any) -> tuple[int, ...] | None:
        """Return the n-dimensional index of the element that an integer selects.

        Return None for other keys and for 0-d arrays.
        """
        shape, size = self.base.shape, self.base.size
        if not shape or (type(key) is not int and type(key) is not np.int64):
            return None
        if not -size <= key < size:
            raise IndexError(f"index {key} is out of bounds for size {size}")
        return _unravel(int(key) % size, shape)

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self._elements is None:
            # (the iterator returns elements that were written after its start, so it must not iterate over a copy)
            whole = is_c_ordered(self.base) and not isinstance(self.base, Part)
            self._elements = iter(manipulation.ravel(self.base)) if whole else _elements_of(self.base)
        found = next(self._elements)
        self.index += 1
        return found

    def __len__(self) -> int:
        return self.base.size


def _elements_of(array: Array) -> Iterator[Any]:
    """Yield the elements of an array in C order. Each element is read only when it is requested."""
    for item in array if array.ndim else [array[()]]:
        if array.ndim > 1:
            yield from _elements_of(item)
        else:
            yield item


def _unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the n-dimensional index of an element, given its flat index in C order."""
    found: list[int] = []
    for n in shape[:0:-1]:
        index, last = divmod(index, n or 1)
        found.append(last)
    return (index, *reversed(found))


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Flat, _name, lambda self, other, _name=_name: getattr(manipulation.ravel(self.base), _name)(other))


@on_operands_device
def _assign(array: Array, key: Any, value: Any) -> None:
    """Execute ``array.flat[key] = value``. Values are repeated if there are too few, and surplus values are ignored."""
    flat = array.reshape(-1)
    if np.ndim(value) and (key is Ellipsis or isinstance(key, slice) or np.ndim(key)):
        values = manipulation.ravel(value)
        if not values.size:
            return
        if key is Ellipsis or isinstance(key, slice):
            shape: Any = (len(range(*(slice(None) if key is Ellipsis else key).indices(flat.size))),)
        else:
            key = nonzero(key)[0] if key.dtype == bool else key
            shape = key.shape
        value = values if (values.size,) == shape else values[creation.arange(prod(shape)).reshape(shape) % values.size]
    flat[key] = value
    if flat._storage is not array._storage:
        write(array, expr_of(manipulation.reshape(flat, array.shape)))


def _flat_key(key: Any, size: int) -> Any:
    """Convert an index of `Array.flat` to an index of a 1-D array of `size` elements.

    Invalid indices cause NumPy's errors and warnings.
    """
    if isinstance(key, tuple) and len(key) < 2:
        key = key[0] if key else Ellipsis
    if key is Ellipsis or isinstance(key, slice) or (isinstance(key, int) and not isinstance(key, bool)):
        return key
    # (NumPy checks the index on an array whose elements share memory)
    seen = np.broadcast_to(np.zeros((), key.dtype), key.shape) if isinstance(key, Array) else key
    if not (isinstance(key, Array) and (key.dtype.kind in "iu" or (key.dtype == bool and key.shape == (size,)))):
        np.broadcast_to(np.int8(0), (size,)).flat[seen]
    if isinstance(key, bool):
        return 0 if key else slice(0)
    if not isinstance(key, (Array, np.ndarray)):
        key = np.array(key, np.intp)
    return key if key.ndim else int(key)
