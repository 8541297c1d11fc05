"""Conversion of Numba's types, signatures and decorated functions.

In: an object from outside a kernel. Out: weft's object for it. Numba is never imported: its objects are recognized by
the module of their class, and read through their public attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl.kernel.language import types


def from_numba(value: Any) -> Any:
    """Convert a Numba object. A type or signature becomes the equivalent weft object, and a compiled function becomes its Python function.

    Return other values unchanged.
    """
    kind = type(value)
    if not kind.__module__.startswith("numba."):
        return value
    # the Python function of a compiled or of a vectorized function
    function = getattr(getattr(value, "_dispatcher", value), "py_func", None)
    if function is not None:
        return function
    match kind.__name__:
        case "Signature":
            return types.Signature(from_numba(value.return_type), tuple(map(from_numba, value.args)))
        case "Integer" | "Float" | "Complex" | "Boolean":
            return types.parse_type(str(value))
        case "IntegerLiteral" | "BooleanLiteral":
            return from_numba(value.literal_type)
        case "NoneType" | "Omitted":
            return types.none
        case "Array":
            return types.ArrayType(from_numba(value.dtype), value.ndim, value.layout)
        case "UniTuple" | "Tuple":
            return types.Tuple(tuple(map(from_numba, value.types)))
        case "CPointer":
            return types.CPointer(from_numba(value.dtype))
        case "Record":
            return types.from_dtype(_dtype_of(value))
    return value


def _dtype_of(record: Any) -> Any:
    """Return the NumPy dtype of a Numba record type."""
    names = [name for name, _ in record.members]
    formats = [
        (from_numba(kind.dtype).dtype, kind.shape) if hasattr(kind, "shape") else from_numba(kind).dtype
        for _, kind in record.members
    ]
    offsets = [record.offset(name) for name in names]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": record.size})
