"""Types of kernel arguments and of kernel values, and signatures.

In: NumPy dtypes, values, and text such as ``"void(float32[:, ::1], int32)"``. Out: type objects, for which the
compiler specializes kernels. Invariant: types are immutable and compare by structure. `parse_type` parses the
`repr` of scalar types, and of writable arrays, tuples, optionals and pointers of them.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weft.dsl import kernel as face  # for names that are loaded on first use
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.python_mode.argument_conversion import convert

Layout = Literal["A", "C", "F"]


class Type:
    """Base class of types. ``float32[:]`` is an array type, and ``float32(int32)`` a signature."""

    __slots__ = ()

    def __getitem__(self, axes: Any) -> ArrayType:
        parts = axes if isinstance(axes, tuple) else (axes,)
        for part in parts:
            if not isinstance(part, slice) or part.start is not None or part.stop is not None:
                raise TypeError(f"an array of {self} is written {self}[:] or {self}[:, ::1], not with {part!r}")
        if not parts or any(part.step not in (None, 1) for part in parts):
            raise TypeError(f"the step of an array axis is 1 (contiguous) or left out: {self}[:, ::1]")
        return ArrayType(self, len(parts), "F" if parts[0].step and len(parts) > 1 else "C" if parts[-1].step else "A")

    def __call__(self, *arguments: Any) -> Any:
        for argument in arguments:
            if argument is not None and not isinstance(argument, Type):
                raise TypeError(f"{self}(...) makes a signature of types; {argument!r} is none")
        return Signature(self, tuple(none if a is None else a for a in arguments))

    def __repr__(self) -> str:
        fields: Any = dataclasses.fields(self)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(str(getattr(self, each.name)) for each in fields)})"


@dataclass(frozen=True, slots=True, repr=False)
class ScalarType(Type):
    """The type of a scalar, such as ``float32``. Calling the type with a value casts the value."""

    name: str
    dtype: np.dtype

    def __call__(self, *arguments: Any) -> Any:
        if len(arguments) == 1 and not isinstance(arguments[0], Type) and arguments[0] is not None:
            value = arguments[0]
            return np.asarray(value, self.dtype) if getattr(value, "ndim", 0) else convert(value, self.dtype)
        return Type.__call__(self, *arguments)

    @property
    def bitwidth(self) -> int:
        """Size of a value in bits."""
        return self.dtype.itemsize * 8

    @property
    def underlying_float(self) -> ScalarType:
        """The type of the real and imaginary parts of a complex type."""
        if self.dtype.kind != "c":
            raise AttributeError(f"{self.name} has no underlying_float: it is not complex")
        return float32 if self.dtype.itemsize == 8 else float64

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class NoneType(Type):
    """The type of None, also used as the result type of a function that returns nothing."""

    def __repr__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True, repr=False)
class ArrayType(Type):
    """The type of an array.

    `dtype` is a scalar, record or element type. `layout` is "C" or "F" if the array is contiguous, otherwise "A".
    """

    dtype: Type
    ndim: int
    layout: Layout = "A"
    readonly: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, (ScalarType, RecordType, ElementType)):
            raise TypeError(f"arrays hold numbers, dates, text or records, not {self.dtype}")
        if self.layout not in ("A", "C", "F") or self.ndim < 0:
            raise TypeError(
                f"an array type has a number of axes and layout 'A', 'C' or 'F', not {self.ndim} {self.layout!r}"
            )
        if self.layout == "F" and self.ndim < 2:
            object.__setattr__(self, "layout", "C")

    @property
    def is_contig(self) -> bool:
        """Whether arrays of this type are contiguous."""
        return self.layout != "A"

    def __getitem__(self, axes: Any) -> ArrayType:
        raise TypeError(f"arrays of arrays are not supported: {self} has a subscript already")

    def __repr__(self) -> str:
        if not self.ndim:
            return f"Array({self.dtype}, 0, {self.layout!r}{', readonly' * self.readonly})"
        axes = [":"] * self.ndim
        if self.layout != "A":
            axes[0 if self.layout == "F" else -1] = "::1"
        return f"{'readonly ' * self.readonly}{self.dtype}[{', '.join(axes)}]"


@dataclass(frozen=True, slots=True, repr=False)
class Tuple(Type):
    """The type of a tuple, with the types of its items."""

    types: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        if not all(isinstance(item, Type) for item in self.types):
            raise TypeError(f"the items of a tuple type are types: {self.types}")

    @property
    def count(self) -> int:
        """Number of items."""
        return len(self.types)

    def __iter__(self) -> Iterator[Type]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __repr__(self) -> str:
        if self.types and len(set(self.types)) == 1:
            return f"UniTuple({self.types[0]}, {len(self.types)})"
        return f"Tuple(({', '.join(map(str, self.types))}))"


def UniTuple(dtype: Type, count: int) -> Tuple:
    """Return the type of a tuple with `count` items of the same type."""
    return Tuple((dtype,) * count)


@dataclass(frozen=True, slots=True, repr=False)
class NamedTuple(Type):
    """The type of a named tuple or a dataclass."""

    types: tuple[Type, ...]
    cls: type

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", tuple(self.types))
        if len(self.types) != len(self.fields):
            raise TypeError(f"{self.cls.__name__} has the fields {self.fields}, but {len(self.types)} of their types")

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return field_names(self.cls)

    def __repr__(self) -> str:
        fields = ", ".join(f"{n}: {t}" for n, t in zip(self.fields, self.types, strict=True))
        return f"{self.cls.__name__}({fields})"


def field_names(cls: type) -> tuple[str, ...]:
    """Return the field names of a named tuple or dataclass."""
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    return tuple(getattr(cls, "_fields", ()))


@dataclass(frozen=True, slots=True, repr=False)
class NestedArray(Type):
    """The type of a C-ordered array of fixed shape inside a record."""

    dtype: Type
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class RecordType(Type):
    """The type of a record, which is an element of a structured array."""

    dtype: np.dtype

    @property
    def fields(self) -> dict[str, tuple[Type, int]]:
        """The type and byte offset of each field."""
        names: Any = self.dtype.fields or {}
        return {name: (from_dtype(row[0]), int(row[1])) for name, row in names.items()}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {kind} at {offset}" for name, (kind, offset) in self.fields.items())
        return f"Record({fields}; {self.dtype.itemsize} bytes)"


@dataclass(frozen=True, slots=True, repr=False)
class ElementType(Type):
    """The type of an array element that is a date, a duration or a text of fixed length."""

    dtype: np.dtype

    def __repr__(self) -> str:
        if self.dtype.kind in "mM":
            return str(self.dtype)
        return f"[{'char' if self.dtype.kind == 'S' else 'unichr'} x {int(self.dtype.str[2:])}]"


def NPDatetime(unit: str) -> ElementType:
    """Return the type of a datetime64 in a unit such as "D"."""
    return ElementType(np.dtype(f"M8[{unit}]"))


def NPTimedelta(unit: str) -> ElementType:
    """Return the type of a timedelta64 in a unit such as "D"."""
    return ElementType(np.dtype(f"m8[{unit}]"))


@dataclass(frozen=True, slots=True, repr=False)
class Optional(Type):
    """The type of a value that may be None."""

    type: Type


@dataclass(frozen=True, slots=True, repr=False)
class CPointer(Type):
    """The type of a C pointer to elements of `dtype`."""

    dtype: Type


@dataclass(frozen=True, slots=True, repr=False)
class Signature:
    """The argument types of a function, and its result type (None if the compiler infers it)."""

    result: Type | None
    arguments: tuple[Type, ...]

    @property
    def return_type(self) -> Type | None:
        """The type of the result, or None if the compiler infers it."""
        return self.result

    @property
    def args(self) -> tuple[Type, ...]:
        """The types of the arguments."""
        return self.arguments

    def __repr__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f"{self.result}({arguments})" if self.result is not None else f"({arguments})"


# -- the names --------------------------------------------------------------------------------

none = void = NoneType()


def _scalar(dtype: Any) -> ScalarType:
    kind = np.dtype(dtype)
    return ScalarType(kind.name, kind)


int8, int16, int32, int64 = (_scalar(f"i{n}") for n in (1, 2, 4, 8))
uint8, uint16, uint32, uint64 = (_scalar(f"u{n}") for n in (1, 2, 4, 8))
float16, float32, float64 = (_scalar(f"f{n}") for n in (2, 4, 8))
complex64, complex128 = (_scalar(f"c{n}") for n in (8, 16))
boolean = bool_ = b1 = _scalar("?")
i1, i2, i4, i8 = int8, int16, int32, int64
u1, u2, u4, u8 = uint8, uint16, uint32, uint64
f2, f4, f8 = float16, float32, float64
c8, c16 = complex64, complex128
float_, double = float32, float64
intp, uintp = _scalar(np.intp), _scalar(np.uintp)
ssize_t, size_t = intp, uintp
char, uchar, byte = int8, uint8, uint8
short, ushort = int16, uint16
int_, uint = intp, uintp
intc, uintc = _scalar(np.intc), _scalar(np.uintc)
long_, ulong = _scalar("l"), _scalar("L")
longlong, ulonglong = _scalar(np.longlong), _scalar(np.ulonglong)
Array = ArrayType
signed_domain = frozenset((int8, int16, int32, int64))
unsigned_domain = frozenset((uint8, uint16, uint32, uint64))
integer_domain = signed_domain | unsigned_domain
real_domain = frozenset((float32, float64))
complex_domain = frozenset((complex64, complex128))
number_domain = integer_domain | real_domain | complex_domain
voidptr = CPointer(void)

SCALARS: dict[np.dtype, ScalarType] = {
    t.dtype: t
    for t in sorted((boolean, float16, *number_domain), key=str)  # (a set has another order in each process)
}


def __getattr__(name: str) -> ScalarType:
    # bfloat16 exists if ml_dtypes is installed, and is loaded on first use.
    if name == "bfloat16":
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            raise AttributeError("types.bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
        return SCALARS.setdefault(np.dtype(bfloat16), ScalarType("bfloat16", np.dtype(bfloat16)))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- types of values ----------------------------------------------------------------------------


def from_dtype(dtype: Any) -> Type:
    """Return the kernel type for a NumPy dtype.

    Raises
    ------
    KernelTypeError
        If kernels do not support the dtype (for example, objects or a non-native byte order).

    Examples
    --------
    >>> cuda.from_dtype(np.dtype(np.float32))
    float32
    """
    kind = np.dtype(dtype)
    found = SCALARS.get(kind)
    if found is not None:
        return found
    if kind.subdtype is not None:
        return NestedArray(from_dtype(kind.subdtype[0]), kind.subdtype[1])
    if kind.names is not None:
        record = RecordType(kind)
        _ = record.fields  # raises an error for an unsupported field
        return record
    if kind.name == "bfloat16":
        return __getattr__("bfloat16")
    if not kind.isnative:
        raise KernelTypeError(
            f"kernels take this machine's byte order; convert {kind.str} by .astype({kind.newbyteorder('=').str!r})"
        )
    if kind.kind in "mMSU":
        return ElementType(kind)
    if kind.kind in "iu":  # another name of the same integer, such as C's long long
        return SCALARS[np.dtype(f"{kind.kind}{kind.itemsize}")]
    raise KernelTypeError(
        f"kernels have no values of dtype {kind}; they have booleans, numbers, dates, text and records of them"
    )


def as_type(value: object) -> Type:
    """Convert a type of weft or Numba, a dtype, or a class such as `float` to a weft type."""
    value = face.from_numba(value)
    if isinstance(value, Type):
        return value
    if value is None:
        return none
    return from_dtype(value)


def is_packed(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether an array with the given shape and byte strides is C-contiguous.

    As in NumPy, the stride of an axis of length 1 has no effect, and an array without elements is always C-contiguous.
    """
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected and 0 not in shape:
            return False
        expected *= extent
    return True


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> Layout:
    """Return the layout of an array, "C", "F" or "A", given its shape and byte strides."""
    if strides is None or is_packed(shape, strides, itemsize):
        return "C"
    return "F" if is_packed(shape[::-1], strides[::-1], itemsize) else "A"


_PYTHON: dict[type, ScalarType] = {bool: boolean, int: int64, float: float64, complex: complex128}


def typeof(value: Any) -> Type:
    """Return the type that a value has as a kernel argument.

    The value can be a number, a NumPy or weft array, an object with ``__cuda_array_interface__``, a record, None, or a
    tuple, named tuple or dataclass of such values. For an enumeration member, return the type of the member's value.

    Raises
    ------
    TypeError
        If the value has a different type.

    Examples
    --------
    >>> cuda.typeof(np.ones((2, 3), np.float32))
    float32[:, ::1]
    """
    kind = type(value)
    if kind in _PYTHON:
        if kind is not int or -(2**63) <= value < 2**63:
            return _PYTHON[kind]
        if not 0 <= value < 2**64:
            raise TypeError(f"the integer {value} does not fit into 64 bits")
        return uint64
    if isinstance(value, (np.generic, enum.Enum)):
        return typeof(value.value) if isinstance(value, enum.Enum) else from_dtype(value.dtype)
    if value is None:
        return none
    if isinstance(value, tuple):
        items = tuple(typeof(item) for item in value)
        return NamedTuple(items, kind) if hasattr(kind, "_fields") else Tuple(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return NamedTuple(tuple(typeof(getattr(value, name)) for name in field_names(kind)), kind)
    own = getattr(value, "kernel_type", None)
    if isinstance(own, Type):
        return own
    if isinstance(getattr(value, "dtype", None), np.dtype) and hasattr(value, "strides"):
        layout = layout_of(value.shape, value.strides, value.dtype.itemsize)
        readonly = not getattr(getattr(value, "flags", None), "writeable", True)
        return ArrayType(from_dtype(value.dtype), len(value.shape), layout, readonly)
    interface = getattr(value, "__cuda_array_interface__", None)
    if isinstance(interface, dict):
        dtype = np.dtype(interface["typestr"])
        layout = layout_of(interface["shape"], interface.get("strides"), dtype.itemsize)
        return ArrayType(from_dtype(dtype), len(interface["shape"]), layout, bool(interface["data"][1]))
    raise TypeError(
        f"a kernel takes no {kind.__name__}: numbers, arrays, records, None, and tuples or dataclasses of them"
    )


# -- signatures from text ---------------------------------------------------------------------------

_NAMES: dict[str, Type] = {n: v for n, v in globals().items() if isinstance(v, Type) and not n.startswith("_")}
_NAMES["bool"] = boolean
_MAKERS: dict[str, Callable[..., Type]] = {m.__name__: m for m in (UniTuple, Tuple, Optional, CPointer)}
_MAKERS["Array"] = ArrayType


def parse_type(text: str) -> Type:
    """Return the type that a text such as ``"float32[:, ::1]"`` describes, or raise TypeError for other texts."""
    value = _parse(text)
    if not isinstance(value, Type):
        raise _refuse(text, 0, "this is a signature, and a type was expected")
    return value


def parse_signature(text: str) -> Signature:
    """Return the signature that a text such as ``"void(float32[:, ::1], int32)"`` describes.

    Raises
    ------
    TypeError
        If the text cannot be parsed. The message marks the position with a caret.
    """
    value = _parse(text)
    match value:
        case Signature():
            return value
        case tuple():
            return Signature(None, value)
    raise _refuse(text, 0, f"a signature has arguments in brackets: void({text.strip()}), or {text.strip()}()")


def as_signature(value: object) -> Signature:
    """Convert a text, a tuple of argument types, or a signature of weft or Numba to a weft signature."""
    value = face.from_numba(value)
    match value:
        case Signature():
            return value
        case str():
            return parse_signature(value)
        case tuple():
            return Signature(None, tuple(parse_type(v) if isinstance(v, str) else as_type(v) for v in value))
    raise TypeError(f"a signature is text, void(...) or a tuple of types, not {value!r}")


def as_signatures(value: object) -> tuple[Signature, ...]:
    """Convert one signature or a list of signatures to a tuple of signatures."""
    return tuple(map(as_signature, value)) if isinstance(value, list) else (as_signature(value),)


def one_signature(value: object) -> Signature:
    """Convert a signature, or a list of one signature, to a weft signature."""
    found = as_signatures(value)
    if len(found) != 1:
        raise TypeError(f"one signature is needed here, not {len(found)}")
    return found[0]


def _refuse(text: str, column: int, what: str) -> TypeError:
    return TypeError(f"signature {text!r}: {what}\n    {text}\n    {' ' * column}^")


def _parse(text: str) -> Any:
    stripped = text.strip()
    lead = len(text) - len(text.lstrip())
    try:
        tree = ast.parse(stripped, mode="eval").body
    except SyntaxError as error:
        column = min(max((error.offset or 1) - 1, 0), max(len(stripped) - 1, 0))
        raise _refuse(text, lead + column, f"it cannot be read: {error.msg}") from None
    return _read(tree, text, lead)


def _read(node: ast.expr, text: str, lead: int) -> Any:
    """Return the object that a syntax node of a signature describes, such as a type."""

    def fail(at: ast.AST, what: str) -> TypeError:
        return _refuse(text, lead + getattr(at, "col_offset", 0), what)

    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name, value=ast.Name(id="types" | "numba" | "weft")):
            if name in _NAMES:
                return _NAMES[name]
            if name == "bfloat16":
                return __getattr__(name)
            near = difflib.get_close_matches(name, [*_NAMES, *_MAKERS], 1)
            raise fail(node, f"{name!r} is no type{f'; did you mean {near[0]!r}?' if near else ''}")
        case ast.Constant(value=value) if value is None or isinstance(value, (int, str)):
            return none if value is None else value
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_read(item, text, lead) for item in items)
        case ast.Call(func=ast.Name(id=name), args=items, keywords=[]) if name in _MAKERS:
            maker: Any = _MAKERS[name]
            arguments = [_read(item, text, lead) for item in items]
        case ast.Call(func=result, args=items, keywords=[]):
            maker = _read(result, text, lead)
            if not isinstance(maker, Type):
                raise fail(node, "the result of a signature is one type, with its arguments behind it in brackets")
            arguments = [_read(item, text, lead) for item in items]
            for item, argument in zip(items, arguments, strict=True):
                if not isinstance(argument, Type):
                    raise fail(item, "an argument of a signature is a type")
        case ast.Subscript(value=of, slice=axes):
            maker = getattr(_read(of, text, lead), "__getitem__", None)
            arguments = [_axes(axes, fail)]
        case _:
            raise fail(node, "a type was expected here")
    try:
        return maker(*arguments)
    except TypeError as error:
        raise fail(node, str(error)) from None


def _axes(node: ast.expr, fail: Callable[[ast.AST, str], TypeError]) -> tuple[slice, ...]:
    axes = []
    for part in node.elts if isinstance(node, ast.Tuple) else (node,):
        match part:
            case ast.Slice(lower=None, upper=None, step=None):
                axes.append(slice(None))
            case ast.Slice(lower=None, upper=None, step=ast.Constant(value=1)):
                axes.append(slice(None, None, 1))
            case _:
                raise fail(part, "an axis of an array is ':' or '::1'")
    return tuple(axes)


def element_dtype(kind: type) -> np.dtype:
    """Return the dtype of the scalar or record type `kind`, or raise TypeError for other types."""
    found = as_type(kind)
    dtype = getattr(found, "dtype", None)
    if not isinstance(dtype, np.dtype) or isinstance(found, ElementType):
        raise TypeError(f"{kind!r} is no type of array elements; give a dtype such as float32")
    return dtype
