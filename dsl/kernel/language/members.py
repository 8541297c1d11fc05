"""Compilation of attribute accesses in kernels, such as ``x.shape``. This module also finds the Python class of a value in a kernel.

In: arrays, scalars, records, named tuples and Python objects. Out: values of their attributes.
"""

from __future__ import annotations

import dataclasses
import enum
from types import ModuleType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents, names
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.global_values import wrap
from weft.dsl.kernel.language.kernel_errors import suggestion
from weft.dsl.kernel.language.known import NO_TEXT
from weft.dsl.kernel.language.numba_objects import from_numba
from weft.dsl.kernel.language.types import ScalarType
from weft.dsl.kernel.language.value_methods import ARRAY_METHODS
from weft.dsl.kernel.language.values import (
    INT,
    ArrayValue,
    Constant,
    Method,
    Property,
    RecordValue,
    ScalarValue,
    Sliced,
    TupleValue,
    describe,
    is_number,
)

NUMBERS = {"threadIdx": "thread_index", "blockIdx": "block_index", "blockDim": "block_size", "gridDim": "grid_size"}
_NEED_MEMORY = frozenset(("astype", "copy"))  # (calls to these methods are rejected)
_NUMBER_METHODS = frozenset("conjugate item astype is_integer bit_count bit_length view".split())


def attribute(c: Compiler, owner: object, name: str) -> Any:
    """Compile ``owner.name``."""
    match owner:
        case ArrayValue():
            return _of_array(c, owner, name)
        case RecordValue():
            if name in (owner.dtype.names or ()):
                return arrays.get_field(c, owner, name)
            if name == "dtype":
                return Constant(owner.dtype)
        case TupleValue():
            if name in owner.names:
                return owner.items[owner.names.index(name)]
            found = getattr(owner.maker, name, None) if owner.maker is not None else None
            if isinstance(found, property):
                return Property(owner, found)
            if callable(found) or name in ("index", "count"):
                return Method(owner, name)
            if found is not None:
                return wrap(c, found, name)
            if owner.maker is None and name in ("append", "extend", "pop"):
                c.fail(f"lists do not grow in a kernel (no {name!r}): use cuda.local.array and a counter", "attribute")
        case ScalarValue():
            return _of_number(c, owner, name)
        case Sliced() if name in ("start", "stop", "step"):
            part = getattr(owner, name)
            return Constant(None) if part is None else part
        case Constant(value=held):
            return _of_object(c, owner, held, name)
    c.fail(f"{describe(owner)} has no attribute {name!r} inside a kernel", "attribute")


def thread_number(c: Compiler, path: str, axis: int) -> Constant | ScalarValue:
    """Return a component of a built-in variable such as threadIdx. The component is promoted like a Python int."""
    if path == "blockDim" and c.block is not None:
        return Constant(c.block[axis])
    (found,) = c.builder.emit(NUMBERS[path], (), (c.index_dtype,), axis=axis)
    return ScalarValue(c.builder.cast(found, INT), True, True)


def python_class(c: Compiler, value: object) -> type:
    """Return the class that a value has in Python."""
    match value:
        case ArrayValue():
            return np.ndarray
        case TupleValue(maker=maker):
            return maker or tuple
        case ScalarValue():
            kind = c.kind(value)
            return kind if isinstance(kind, type) else kind.type
        case Constant(value=held):
            return type(held)
        case RecordValue(dtype=dtype):
            return dtype.type
    return object


def is_instance(c: Compiler, value: object, wanted: object) -> bool:
    """Return whether a value is an instance of `wanted`, which is a class or a scalar type of weft.

    NumPy numbers are also instances of the Python types of their kind. Raises KernelTypeError for any other `wanted`.
    """
    if not isinstance(wanted, (type, ScalarType)):
        c.fail(f"isinstance takes classes, not {describe(Constant(wanted))}")
    if isinstance(value, ScalarValue) or (isinstance(value, Constant) and isinstance(value.value, np.generic)):
        kind = c.kind(value)
        if isinstance(kind, np.dtype) and isinstance(wanted, ScalarType):
            return wanted.dtype == kind
        if isinstance(kind, np.dtype) and wanted in (int, float, complex, bool):
            return dtype_kind(kind) in {int: "iu", float: "f", complex: "c", bool: "b"}[wanted]
    return isinstance(wanted, type) and issubclass(python_class(c, value), wanted)


def _of_array(c: Compiler, array: ArrayValue, name: str) -> Any:
    match name:
        case "shape":
            return TupleValue(tuple(arrays.length(c, n) for n in array.shape))
        case "size":
            return arrays.length(c, extents.product(c, array.shape))
        case "ndim":
            return Constant(array.ndim)
        case "dtype":
            return Constant(array.dtype)
        case "itemsize":
            return Constant(array.dtype.itemsize)
        case "nbytes":
            return c.apply("multiply", _of_array(c, array, "size"), Constant(array.dtype.itemsize))
        case "strides":
            width = array.dtype.itemsize // arrays.unit(array.dtype)
            parts = []
            for stride in array.strides:
                step = arrays.length(c, stride)
                if isinstance(step, ScalarValue):
                    step = ScalarValue(step.ir, True, False)
                parts.append(c.apply("multiply", step, Constant(width)))
            return TupleValue(tuple(parts))
        case "T":
            packed = array.packed and array.ndim < 2
            return arrays.permuted(array, range(array.ndim)[::-1], packed)
        case "real" | "imag" if array.dtype.kind == "c":
            return _part(c, array, name)
        case "real":
            return array
        case "flat":
            return arrays.flatten(c, array)
        case _ if name in (array.dtype.names or ()):
            return arrays.field_of(c, array, name)
        case _ if name in ARRAY_METHODS:
            return Method(array, name)
    near = suggestion(name, ("shape", "size", "ndim", "dtype", "itemsize", "nbytes", "strides", *ARRAY_METHODS))
    c.fail(
        f"arrays have no attribute {name!r} inside a kernel{near} (they have shape, size, ndim, dtype, itemsize, nbytes, "
        f"strides, T, real, flat, for complex numbers also imag, and the methods {', '.join(sorted(set(ARRAY_METHODS) - _NEED_MEMORY))})",
        "attribute",
    )


def _part(c: Compiler, array: ArrayValue, name: str) -> ArrayValue:
    """Return a view of the real or imaginary parts of a complex array."""
    dtype = np.dtype(f"f{array.dtype.itemsize // 2}")
    pointer = c.builder.reinterpret(array.pointer, dtype)
    if name == "imag":
        pointer = c.builder.offset(pointer, c.builder.constant(1))
    strides = tuple(extents.multiply(c, s, 2) for s in array.strides)
    view = arrays.permuted(array, range(array.ndim))  # (a view of the same part of the base array)
    return dataclasses.replace(view, pointer=pointer, dtype=dtype, strides=strides)


def _of_number(c: Compiler, number: ScalarValue, name: str) -> Any:
    match name:
        case "real" | "imag":
            if number.dtype.kind == "c":
                part = np.dtype(f"f{number.dtype.itemsize // 2}")
                return ScalarValue(c.builder.op(name, number.ir, dtype=part), number.weak)
            return number if name == "real" else c.cast(Constant(0), number.dtype, number.weak)
        case "dtype":
            return Constant(number.dtype)
        case "itemsize" | "nbytes":
            return Constant(number.dtype.itemsize)
        case "ndim":
            return Constant(0)
        case "size":
            return Constant(1)
        case "shape":
            return TupleValue(())
        case "T":
            return number
        case _ if name in _NUMBER_METHODS:
            return Method(number, name)
    c.fail(f"numbers have no attribute {name!r} inside a kernel", "attribute")


def _of_object(c: Compiler, owner: Constant, held: object, name: str) -> Any:
    if isinstance(held, names.ThreadNumbers):
        if name not in "xyz" or len(name) != 1:
            c.fail(f"cuda.{held.path} has x, y and z, not {name!r}", "attribute")
        return thread_number(c, held.path, "xyz".index(name))
    if isinstance(held, enum.Enum) and name == "value":
        return Constant(held.value)
    if is_number(held) and name in (*_NUMBER_METHODS, "real", "imag", "dtype"):
        if name in _NUMBER_METHODS:
            return Method(owner, name)
        return Constant(getattr(held, name) if name != "dtype" else np.asarray(held).dtype)
    if isinstance(held, str):
        c.fail(NO_TEXT, "syntax")
    if isinstance(held, (dict, list, set)):
        c.fail(f"a {type(held).__name__} from outside cannot be used in a kernel: pass arrays or tuples", "syntax")
    try:
        found = getattr(held, name)
    except AttributeError:
        where = describe(owner)
        if isinstance(held, ModuleType):
            where = f"module {held.__name__}"
        elif isinstance(held, names.Namespace):
            where = f"cuda.{held.path}"
        c.fail(f"{where} has no attribute {name!r}{suggestion(name, dir(held))}", "attribute")
    readable = isinstance(held, (ModuleType, type, names.Namespace, np.dtype, np.finfo, np.iinfo)) or (
        dataclasses.is_dataclass(held) or hasattr(held, "_fields")
    )
    if not readable and not callable(found) and not is_number(found):
        c.fail(
            f"attributes of {describe(owner)} cannot be read in a kernel: pass what is needed as arguments", "attribute"
        )
    return Constant(from_numba(found))
