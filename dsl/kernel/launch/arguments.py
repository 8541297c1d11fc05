"""Type descriptors of kernel arguments, and their encoding as 64-bit words.

In: a Python object, or a type of a signature. Out: a hashable descriptor, equal for all arguments of one
specialization. The descriptor determines the kernel's parameters and, together with an object, the words that a launch
passes. Invariant: a descriptor contains everything that the code depends on.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import struct
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, is_bfloat16, is_supported
from weft.dsl.arrays.array import Array as LazyArray
from weft.dsl.arrays.array import is_writable
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import extents, types
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.device_function import DeviceFunction
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.values import (
    ArrayValue,
    Constant,
    DateValue,
    RecordValue,
    ScalarValue,
    TupleValue,
    in_bytes,
    is_date_dtype,
    memory_dtype,
)
from weft.dsl.kernel.library.vector_types import Vector

# ("scalar", dtype, weak) | ("array", dtype, ndim, packed, writable) | ("record", dtype)
# ("date", dtype) | ("pointer", dtype) | ("tuple", maker, names, parts) | ("constant", Same)
Descriptor = tuple[Any, ...]

_OF_PYTHON: dict[type, Descriptor] = {kind: ("scalar", np.dtype(kind), True) for kind in (float, bool, complex)}
_LANES = ("x", "y", "z", "w")
ENDLESS = 2**31 - 1  # the length of the array that a raw pointer points to


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Same(types.Type):
    """Type of a kernel argument that is a compile-time constant, such as a function. Each value has its own type, and its own compiled kernel.

    Two such types are equal if their values are identical or, for a str, an enum member or None, equal.
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or type(self.value) is not type(other.value):
            return False
        return self.value is other.value or (_plain(self.value) and bool(self.value == other.value))

    def __repr__(self) -> str:
        return f"Constant({getattr(self.value, '__name__', self.value)})"

    def __hash__(self) -> int:
        return hash(self.value) if _plain(self.value) else id(self.value)


def _plain(value: object) -> bool:
    return isinstance(value, (str, enum.Enum, type(None)))


# -- from objects ----------------------------------------------------------------------------------


def describe_scalar(value: Any) -> Descriptor | None:
    """Return the type descriptor of a scalar argument, or None for other values."""
    kind = type(value)
    if kind in _OF_PYTHON:
        return _OF_PYTHON[kind]
    if kind is int:
        if not -(2**63) <= value < 2**64:
            raise KernelTypeError(f"the integer {value} does not fit into 64 bits")
        return ("scalar", np.dtype(np.int64), True) if value < 2**63 else ("scalar", np.dtype(np.uint64), False)
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        dtype = value.dtype
        if is_date_dtype(dtype):
            return ("date", dtype)
        if not is_supported(dtype):
            raise KernelTypeError(
                f"{dtype} is not part of the kernel language: use bool, integers, floats or complex numbers"
            )
        return ("scalar", dtype.newbyteorder("="), False)
    return None


def describe_array(dtype: np.dtype, ndim: int, packed: bool, writable: bool = True) -> Descriptor:
    """Return the type descriptor of an array argument.

    `packed` tells whether the array is C-contiguous. Raises KernelTypeError for unsupported dtypes.
    """
    base = dtype.newbyteorder("=")
    if base != dtype:
        raise KernelTypeError(
            f"arrays in the other byte order ({dtype}) are not part of the kernel language: convert it"
        )
    if not (in_bytes(dtype) or is_date_dtype(dtype) or is_supported(dtype)):
        raise KernelTypeError(
            f"arrays of {dtype} are not part of the kernel language: use bool, integers, floats or complex"
        )
    return ("array", dtype, ndim, packed, writable)


def describe_lazy(value: LazyArray) -> Descriptor:
    """Return the type descriptor of a weft array argument."""
    dtype = value._storage.dtype
    window = value._view
    if window is None:
        return ("array", dtype, len(value._storage.shape), True, is_writable(value))
    shape, strides, _ = window
    return ("array", dtype, len(shape), types.is_packed(shape, strides, 1), is_writable(value))


def describe(value: object) -> Descriptor:
    """Return the type descriptor of an argument that is not an array.

    Raises KernelTypeError for unsupported arguments.
    """
    found = describe_scalar(value)
    if found is not None:
        return found
    if isinstance(value, list):
        raise KernelTypeError("a list cannot be passed to a kernel: pass a tuple, or an array")
    if value is None or isinstance(value, (enum.Enum, type, np.dtype)):
        return ("constant", Same(value))
    if isinstance(value, (FunctionType, BuiltinFunctionType, DeviceFunction, np.ufunc)):
        return ("constant", Same(value))
    parts = parts_of(value)
    if parts is not None:
        maker, names, items = parts
        return ("tuple", maker, names, tuple(describe(item) for item in items))
    raise KernelTypeError(
        f"{type(value).__name__} cannot be passed to a kernel: it takes arrays, numbers, tuples, named tuples, dataclasses, "
        "records, enumeration members and functions"
    )


def parts_of(value: object) -> tuple[Any, tuple[str, ...], tuple[Any, ...]] | None:
    """Return the class, field names and items of a tuple, dataclass or vector, otherwise None.

    The class of a plain tuple is None.
    """
    if isinstance(value, Vector):
        return type(value), _LANES[: value.lanes], tuple(value)
    if isinstance(value, tuple):
        names = tuple(getattr(type(value), "_fields", ()))
        return (type(value) if names else None), names, tuple(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value))
        return type(value), names, tuple(getattr(value, n) for n in names)
    return None


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to an argument or, for a tuple, dataclass or vector, to each item recursively.

    Return the function's result, or a copy of the tuple, dataclass or vector that contains the results. If no item
    changes, return the argument itself.
    """
    parts = parts_of(value)
    if parts is None:
        return function(value)
    maker, names, items = parts
    made = [map_leaves(function, item) for item in items]
    if all(new is old for new, old in zip(made, items, strict=True)):
        return value
    if dataclasses.is_dataclass(maker):
        return dataclasses.replace(value, **dict(zip(names, made, strict=True)))
    return tuple(made) if maker is None else maker(*made)


def from_type(kind: Any) -> Descriptor:
    """Return the type descriptor of an argument of the type `kind`."""
    match kind:
        case types.ArrayType(dtype=element, ndim=ndim, layout=layout, readonly=readonly):
            return describe_array(_element_dtype(element), ndim, layout == "C", not readonly)
        case types.Tuple(types=parts):
            return ("tuple", None, (), tuple(from_type(part) for part in parts))
        case types.NamedTuple():
            return ("tuple", kind.cls, kind.fields, tuple(from_type(part) for part in kind.types))
        case types.RecordType(dtype=dtype):
            return ("record", dtype)
        case types.ElementType(dtype=dtype) if dtype.kind in "mM":
            return ("date", dtype)
        case types.NoneType():
            return ("constant", Same(None))
        case Same():
            return ("constant", kind)
        case types.ScalarType(dtype=dtype):
            return ("scalar", dtype, False)
        case types.CPointer():
            return ("pointer", _element_dtype(kind.dtype))
    raise KernelTypeError(f"{kind!r} cannot be a kernel's argument")


def _element_dtype(kind: Any) -> np.dtype:
    return kind if isinstance(kind, np.dtype) else kind.dtype


# Kinds of scalars that are cast to each kind in a signature.
_TAKES = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}


def is_lossless(given: Descriptor, wanted: Descriptor) -> bool:
    """Return whether an argument can be passed as another type without lossy casts.

    `given` and `wanted` are descriptors. Casts that are safe in NumPy's sense are not lossy.
    """
    match given, wanted:
        case ("scalar", dtype, _), ("scalar", target, _):
            return bool(np.can_cast(dtype, target, "safe"))
        case ("tuple", _, _, parts), ("tuple", _, _, wants):
            return can_pass(given, wanted) and all(map(is_lossless, parts, wants))
    return can_pass(given, wanted)


def can_pass(given: Descriptor, wanted: Descriptor) -> bool:
    """Return whether an argument can be passed as another type.

    `given` and `wanted` are descriptors.

    Scalars may be converted, contiguous arrays may be passed as pointers, and integers as the addresses of pointers.
    """
    match given, wanted:
        case ("scalar", dtype, _), ("scalar", target, _):
            return dtype_kind(dtype) in _TAKES[dtype_kind(target)]
        case ("array", dtype, ndim, packed, _), ("array", target, count, wants_packed, _):
            return dtype == target and ndim == count and (packed or not wants_packed)
        case ("tuple", maker, _, parts), ("tuple", other, _, wants):
            return maker == other and len(parts) == len(wants) and all(map(can_pass, parts, wants))
        case ("array", dtype, _, packed, _), ("pointer", target):
            return bool(dtype == target and packed)
        case ("scalar", dtype, _), ("pointer", _):  # an address
            return dtype_kind(dtype) in "iu"
    return given == wanted


def extended(value: object, extensions: Sequence[Any], stream: object, retrieve: list[Any]) -> Any:
    """Convert an argument with the extensions of a kernel, last extension first, as Numba does.

    The extensions append functions to `retrieve`, which are called after the launch.
    """
    try:
        kind = types.typeof(value)
    except (TypeError, ValueError):
        kind = None
    for extension in reversed(extensions):
        kind, value = extension.prepare_args(kind, value, stream=stream, retr=retrieve)
    return value


# -- to parameters ---------------------------------------------------------------------------------


def declare(c: Compiler, name: str, descriptor: Descriptor, origin: int = -1) -> Any:
    """Declare the kernel parameters for an argument, and return the argument's value in the kernel."""
    b = c.builder
    match descriptor:
        case ("scalar", dtype, weak):
            if dtype.kind == "c":
                parts = (b.scalar(f"{name}_{part}", f"f{dtype.itemsize // 2}") for part in ("real", "imag"))
                return ScalarValue(b.op("_complex", *parts, dtype=dtype), weak)
            return ScalarValue(b.scalar(name, dtype), weak, dtype.kind == "u")
        case ("array", dtype, ndim, packed, writable):
            pointer = b.pointer(name, memory_dtype(dtype), writable=writable, align=max(_alignment(dtype), 1))
            shape = tuple(b.scalar(f"{name}_n{k}") for k in range(ndim))
            if packed:
                strides: Any = extents.contiguous(c, shape, arrays.unit(dtype))
            else:
                strides = tuple(b.scalar(f"{name}_s{k}") for k in range(ndim))
            by = [] if packed else [str(dtype.itemsize // arrays.unit(dtype)), *(stride.name for stride in strides)]
            c.arrays.append(" ".join((name, str(dtype.itemsize), *(extent.name for extent in shape), *by)))
            return ArrayValue(pointer, dtype, shape, strides, "global", writable, name, packed, origin)
        case ("pointer", dtype):
            pointer = b.pointer(name, dtype, writable=True, align=max(_alignment(dtype), 1))
            return ArrayValue(pointer, dtype, (ENDLESS,), (1,), "global", True, name, True, origin)
        case ("date", dtype):
            return DateValue(ScalarValue(b.scalar(name, np.dtype(np.int64))), dtype)
        case ("record", dtype):
            return RecordValue(
                b.pointer(name, np.uint8, writable=True, align=_alignment(dtype)), dtype, True, name, "global", origin
            )
        case ("tuple", maker, names, parts):
            labels = names or tuple(str(k) for k in range(len(parts)))
            made = (declare(c, f"{name}_{label}", part, origin) for label, part in zip(labels, parts, strict=True))
            return TupleValue(tuple(made), maker, names)
        case ("constant", same):
            return Constant(same.value)
    raise AssertionError(descriptor)


def _alignment(dtype: np.dtype) -> int:
    if in_bytes(dtype):
        return dtype.alignment
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


def words_of(descriptor: Descriptor) -> int:
    """Return the number of 64-bit words that encode an argument."""
    match descriptor:
        case ("scalar", dtype, _):
            return 2 if dtype.kind == "c" else 1
        case ("array", _, ndim, packed, _):
            return 1 + ndim * (1 if packed else 2)
        case ("tuple", _, _, parts):
            return sum(map(words_of, parts))
        case ("constant", _):
            return 0
    return 1


# -- to items --------------------------------------------------------------------------------------

_CODES = {"?": "?7x", "e": "e6x", "f": "f4x", "d": "d"}


def pack(value: Any, dtype: np.dtype) -> int:
    """Encode a scalar as a 64-bit word, whose low bytes are those of the scalar."""
    code = _CODES.get(dtype.char)
    if is_bfloat16(dtype):
        return int(np.asarray(value).astype(dtype).view(np.uint16))
    if code is None:
        number = int(value)
        return number if number < 2**63 else number - 2**64
    try:
        return struct.unpack("<q", struct.pack("<" + code, value))[0]
    except (OverflowError, struct.error):  # beyond the largest float of a narrower dtype
        return pack(math.copysign(math.inf, value), dtype)


def flatten_numbers(value: Any, descriptor: Descriptor, items: list[int]) -> None:
    """Append to `items` the 64-bit words of an argument that contains no arrays."""
    match descriptor:
        case ("scalar", dtype, _):
            if dtype.kind == "c":
                part = np.dtype(f"f{dtype.itemsize // 2}")
                number = complex(value)
                items.append(pack(number.real, part))
                items.append(pack(number.imag, part))
                return
            items.append(pack(value, dtype))
        case ("date", _):
            items.append(int(value.view(np.int64)))
        case ("pointer", _):
            items.append(pack(value, np.dtype(np.uint64)))
        case ("tuple", _, _, parts):
            found = parts_of(value)
            assert found is not None
            for part, item in zip(parts, found[2], strict=True):
                flatten_numbers(item, part, items)
