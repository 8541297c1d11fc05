"""Values of global and closure variables in kernels.

In: a Python object. Out: a value. Invariant: host arrays are copied when the kernel is compiled. weft arrays are
passed at each launch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import Pointer, is_supported
from weft.dsl.arrays.array import Array as LazyArray
from weft.dsl.kernel.language import extents, names
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.numba_objects import from_numba
from weft.dsl.kernel.language.values import ArrayValue, Constant, ScalarValue, TupleValue


def wrap(c: Compiler, value: object, label: str = "") -> Any:
    """Convert the value of a global or closure variable to a kernel value."""
    if isinstance(value, (tuple, list)):
        fields = tuple(getattr(type(value), "_fields", ()))
        return TupleValue(tuple(wrap(c, item) for item in value), type(value) if fields else None, fields)
    if isinstance(value, bytes):
        value = c.made.setdefault(value, np.frombuffer(value, np.uint8))
    if isinstance(value, np.ndarray):
        return table(c, value, label)
    if isinstance(value, LazyArray):
        return captured(c, value, label)
    if isinstance(value, names.ThreadNumber):
        (found,) = c.builder.emit("lane_index", (), (c.index_dtype,))
        return ScalarValue(c.builder.cast(found, np.int64), True, True)
    return Constant(from_numba(value))


def table(c: Compiler, values: np.ndarray, label: str = "") -> ArrayValue:
    """Return a NumPy array as a constant kernel array, which becomes part of the compiled kernel."""
    found = c.tables.get(id(values))
    if found is not None:
        return found
    if values.dtype.names is not None and values.nbytes <= 65536:
        made = c.tables[id(values)] = _record_table(c, values, label)
        return made
    if values.dtype.names is None and not is_supported(values.dtype):
        c.fail(f"an array of {values.dtype} cannot be used as a constant: pass it as an argument")
    if values.nbytes > 65536:
        c.fail(f"{label or 'the array'} has {values.nbytes} bytes; constants hold 65536: pass it as an argument")
    flat = np.ascontiguousarray(values).reshape(-1)
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=True)
    with c.at_top():
        if flat.size == 0:
            flat = np.zeros(1, flat.dtype)
        (pointer,) = c.builder.emit("table", (), (Pointer(flat.dtype, "constant"),), values=flat)
    made = ArrayValue(
        pointer,
        flat.dtype,
        values.shape,
        extents.contiguous(c, values.shape),
        "constant",
        False,
        label or "the constant",
        True,
    )
    c.tables[id(values)] = made
    return made


def _record_table(c: Compiler, values: np.ndarray, label: str) -> ArrayValue:
    """Return a NumPy array of records as a constant array, aligned to 8 bytes."""
    words = np.zeros(-(-max(values.nbytes, 1) // 8), np.uint64)
    words.view(np.uint8)[: values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
    with c.at_top():
        (pointer,) = c.builder.emit("table", (), (Pointer(words.dtype, "constant"),), values=words)
        pointer = c.builder.reinterpret(pointer, np.uint8)
    strides = extents.contiguous(c, values.shape, values.dtype.itemsize)
    return ArrayValue(pointer, values.dtype, values.shape, strides, "constant", False, label or "the constant", True)


def captured(c: Compiler, value: LazyArray, label: str) -> ArrayValue:
    """Return a global weft array as a kernel array.

    Each launch passes the array's pointer as a hidden argument.
    """
    found = c.tables.get(id(value))
    if found is not None:
        return found
    with c.at_top():
        pointer = c.hide("captured", value.dtype, ("array", value))
        shape = value.shape
        made = ArrayValue(pointer, value.dtype, shape, extents.contiguous(c, shape), "global", True, label, True)
    c.tables[id(value)] = made
    return made
