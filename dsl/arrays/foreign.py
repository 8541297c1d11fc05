"""Detection of foreign operands, which implement NumPy's dispatch protocols.

NumPy executes operations on foreign operands.

A value is foreign if its type implements a protocol of NumPy, such as ``__array_ufunc__``. Weft arrays, exact NumPy
arrays, numbers, and lists and tuples of these are not foreign. Examples of foreign values are a pandas Series, an
xarray DataArray, a pint Quantity, a dask array, and an object of a subclass of `numpy.ndarray`. A value that only
converts to an array (``__array__``, the buffer protocol, ``__cuda_array_interface__``) is not foreign, but is
converted.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from types import EllipsisType, FunctionType, NoneType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, ReadOnly, Scalar
from weft.dsl.arrays.parts import Part, ReadOnlyPart

_PROTOCOLS = ("__array_ufunc__", "__array_function__", "__array_priority__", "__array_wrap__")
# Types that are not foreign. Further types are added when values of these types first occur.
OWN_TYPES: set[type] = {
    *(Array, Part, ReadOnly, ReadOnlyPart, Scalar, np.ndarray, np.memmap),
    *(bool, int, float, complex, str, bytes, NoneType, EllipsisType, slice, type, range, FunctionType),
    *(np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"),
}

_SEQUENCES = {list, tuple}
_DEPTH = 65  # NumPy nests sequences to 64 dimensions


def has_foreign(values: Iterable[Any]) -> bool:
    """Return whether any value, or any item of a nested list or tuple, is foreign."""
    for value in values:
        kind = type(value)
        if kind in OWN_TYPES:
            continue
        if kind is list or kind is tuple:
            if not (OWN_TYPES.issuperset(map(type, value)) or types_in(value) <= OWN_TYPES) and has_foreign(value):
                return True
        elif is_foreign(value):
            return True
    return False


def types_in(values: Iterable[Any]) -> set[type]:
    """Return the types of values and of the items of nested lists and tuples.

    The types `list` and `tuple` are left out. Builtins traverse the items quickly, because long lists of numbers and of
    pairs are common.
    """
    found: set[type] = set()
    for _ in range(_DEPTH):
        items = list(values)
        kinds = set(map(type, items))
        found |= kinds - _SEQUENCES
        if kinds.isdisjoint(_SEQUENCES):
            break
        values = chain.from_iterable(items if kinds <= _SEQUENCES else [v for v in items if type(v) in _SEQUENCES])
    return found


def is_foreign(value: object) -> bool:
    """Return whether a value is foreign, as the module's docstring defines it.

    Subclasses of ndarray other than memmap are foreign. Subclasses of weft's arrays, of NumPy's scalars, of list and of
    tuple are not foreign, nor are types with ``__cuda_array_interface__`` that are not subclasses of ndarray.
    """
    kind = type(value)
    if kind in OWN_TYPES:
        return False
    if issubclass(kind, np.ndarray):
        return True
    if issubclass(kind, (Array, np.generic, list, tuple)) or hasattr(value, "__cuda_array_interface__"):
        return False
    if any(hasattr(kind, name) for name in _PROTOCOLS):
        return True
    OWN_TYPES.add(kind)
    return False
