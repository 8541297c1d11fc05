"""Values of global and closure variables in kernels.

In: a Python object. Out: a value. Invariant: host arrays are copied when the kernel is compiled. weft arrays are
passed at each launch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.codegen import Pointer, is_supported
from weft.dsl.arrays.array import Array as LazyArray
from weft.dsl.arrays.array import is_writable, whole
from weft.dsl.kernel.language import extents, names
from weft.dsl.kernel.language.array_values import unit
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.numba_objects import from_numba
from weft.dsl.kernel.language.types import is_packed
from weft.dsl.kernel.language.values import ArrayValue, Constant, Range, ScalarValue, TupleValue, make_slice


def wrap(c: Compiler, value: object, label: str = "") -> Any:
    """Convert the value of a global or closure variable to a kernel value."""
    if isinstance(value, (tuple, list)):
        fields = tuple(getattr(type(value), "_fields", ()))
        return TupleValue(tuple(wrap(c, item) for item in value), type(value) if fields else None, fields)
    if isinstance(value, slice):
        return make_slice(*(wrap(c, part) for part in (value.start, value.stop, value.step)))
    if isinstance(value, range):
        return Range(Constant(value.start), Constant(value.stop), Constant(value.step))
    if isinstance(value, bytes):
        value = c.made.setdefault(value, np.frombuffer(value, np.uint8))
    if isinstance(value, (np.ndarray, LazyArray)):
        if id(value) not in c.tables:
            made = _table(c, value, label) if isinstance(value, np.ndarray) else _captured(c, value, label)
            c.tables[id(value)] = value, made
        return c.tables[id(value)][1]
    if isinstance(value, names.ThreadNumber):
        if value.path != "laneid":
            c.fail(f"cuda.{value.path} is read outside of the kernel here: read it inside the kernel")
        (found,) = c.builder.emit("lane_index", (), (c.index_dtype,))
        return ScalarValue(c.builder.cast(found, np.int64), True, True)
    return Constant(from_numba(value))


def _table(c: Compiler, values: np.ndarray, label: str) -> ArrayValue:
    """Return a NumPy array as a constant kernel array, which becomes part of the compiled kernel.

    Records are stored as words of 8 bytes, so that they are aligned.
    """
    if values.dtype.names is None and not is_supported(values.dtype):
        c.fail(f"an array of {values.dtype} cannot be used as a constant: pass it as an argument")
    if values.nbytes > 65536:
        c.fail(f"{label or 'the array'} has {values.nbytes} bytes; constants hold 65536: pass it as an argument")
    dtype = values.dtype if values.dtype.names is not None else values.dtype.newbyteorder("=")
    if dtype.names is None:
        stored = np.zeros(max(values.size, 1), dtype)
        stored[: values.size] = values.ravel()
    else:
        stored = np.zeros(-(-max(values.nbytes, 1) // 8), np.uint64)
        stored.view(np.uint8)[: values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
    with c.at_top():
        (pointer,) = c.builder.emit("table", (), (Pointer(stored.dtype, "constant"),), values=stored)
        if dtype.names is not None:
            pointer = c.builder.reinterpret(pointer, np.uint8)
    strides = extents.contiguous(c, values.shape, unit(dtype))
    return ArrayValue(pointer, dtype, values.shape, strides, "constant", False, label or "the constant", True)


def _captured(c: Compiler, value: LazyArray, label: str) -> ArrayValue:
    """Return a global weft array as a kernel array.

    Each launch passes a pointer to the array's storage as a hidden argument.
    """
    if c.callee is not None:
        return c.visible(("captured", id(value)), lambda: wrap(c, value, label))
    shape, strides, offset = value._view or whole(value._storage)
    with c.at_top():
        pointer = c.hide("captured", value.dtype, ("array", value))
        if offset:
            pointer = c.builder.offset(pointer, extents.extent_ir(c, offset))
    packed = is_packed(shape, strides, 1)
    return ArrayValue(pointer, value.dtype, shape, strides, "global", is_writable(value), label, packed)
