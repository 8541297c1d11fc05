"""Compile-time representations of the values and variables in a kernel.

A value is a compile-time constant (`Constant`), a run-time number (`ScalarValue`), or a composite of such values:
`TupleValue`, `ArrayValue`, `RecordValue`, and a few helpers that exist only at compile time. A variable's *kind*
determines which class of value the variable holds, and in which dtype. `join` returns a kind that holds the values of
two kinds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import Value, find_op, is_bfloat16, is_supported, resolve_dtypes
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.names import ThreadNumbers

Extent = int | Value  # a length or stride: an int known at compile time, or a run-time index

INT, BOOL = np.dtype(np.int64), np.dtype(np.bool_)
WEAK: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A Python object that is known at compile time. Python numbers are weak, as in NEP 50."""

    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class ScalarValue:
    """A scalar that is known only at run time.

    A `weak` number is promoted like a Python number: it takes the dtype of the other operand (NEP 50). A `nonnegative`
    number is known at compile time not to be negative, so an index needs no wrapping.
    """

    ir: Value
    weak: bool = False
    nonnegative: bool = False

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype of the scalar."""
        assert isinstance(self.ir.type, np.dtype)
        return self.ir.type


@dataclass(frozen=True, slots=True, eq=False)
class TupleValue:
    """A tuple, named tuple, dataclass or vector in a kernel.

    `maker` is the class of a named tuple, a dataclass or a vector, and `names` are the names of its fields. For a plain
    tuple, `maker` is None.
    """

    items: tuple[Any, ...]
    maker: Any = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class BaseAxis:
    """The indices of a view along one axis of its base array.

    The first index is `start`, and the index grows by `step` along the view's axis `axis`. If `axis` is None, `start`
    is the only index.
    """

    start: Extent
    step: int = 1
    axis: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue:
    """An array in a kernel, with its pointer, its dtype, and the length and stride of each axis.

    Strides count elements. For records and text, strides count bytes, and the pointer points to bytes. `label` is the
    array's name in messages. `packed` arrays are in C order without gaps. `origin` is the number of the argument that
    holds the memory, or -1. Views with equal keys `base` are views of the same array, the base array, and `window`
    describes each of its axes. For other arrays, `base` is None.
    """

    pointer: Value
    dtype: np.dtype
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    space: str = "global"
    writable: bool = True
    label: str = ""
    packed: bool = False
    origin: int = -1
    index: tuple[Value, ...] = ()  # the index in the original array, as written; only for the sanitizer
    base: tuple[Any, ...] | None = None
    window: tuple[BaseAxis, ...] = ()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


def base_of(array: ArrayValue) -> tuple[Any, ...]:
    """Return a key that identifies the base array of `array`. An array that is not a view is its own base array."""
    return array.base or (array.pointer, array.strides)


def window_of(array: ArrayValue) -> tuple[BaseAxis, ...]:
    """Return the indices of a view along each axis of its base array."""
    return array.window if array.base else tuple(BaseAxis(0, 1, axis) for axis in range(array.ndim))


@dataclass(frozen=True, slots=True, eq=False)
class RecordValue:
    """An element of a structured or text dtype, as a pointer to its bytes."""

    pointer: Value
    dtype: np.dtype
    writable: bool
    label: str = ""
    space: str = "global"
    origin: int = -1
    index: tuple[Value, ...] = ()  # as for an array


@dataclass(frozen=True, slots=True, eq=False)
class DateValue:
    """A datetime64 or timedelta64 value in a kernel, as an int64."""

    number: Any
    dtype: np.dtype


@dataclass(frozen=True, slots=True, eq=False)
class ChildKernel:
    """The value ``kernel[grid, block]`` in another kernel: a kernel with a launch configuration."""

    kernel: Any
    configuration: Any


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The value ``range(start, stop, step)`` in a kernel."""

    start: Any
    stop: Any
    step: Any


@dataclass(frozen=True, slots=True, eq=False)
class Zipped:
    """The value ``zip(*parts)`` in a kernel. It also represents ``enumerate(x)``: then `parts` is (None, x), where None stands for the index."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Indices:
    """The value of ``np.ndindex(*shape)`` in a kernel, or of ``np.ndenumerate(array)`` if the field `array` is set."""

    shape: tuple[Any, ...]
    array: ArrayValue | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Reversed:
    """The value ``reversed(part)`` in a kernel."""

    part: Any


@dataclass(frozen=True, slots=True, eq=False)
class Sliced:
    """A slice ``start:stop:step``, in which omitted parts are None."""

    start: Any
    stop: Any
    step: Any


def make_slice(*parts: Any) -> Sliced:
    """Return a slice with the given start, stop and step. The constant None stands for an omitted part."""
    return Sliced(*(None if isinstance(part, Constant) and part.value is None else part for part in parts))


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A bound method in a kernel: the method `name` of the value `owner`."""

    owner: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """An unevaluated property of a dataclass or named tuple."""

    owner: Any
    read: property


@dataclass(frozen=True, slots=True, eq=False)
class TextValue:
    """An f-string in a kernel: its constant pieces, and the values between them with their formats."""

    pieces: tuple[str, ...]
    values: tuple[Any, ...]
    formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """A generator expression in a kernel, with the frame that evaluates it."""

    node: Any
    frame: Any


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function defined inside a kernel, with the frame in which it was defined."""

    source: Any
    frame: Any
    defaults: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class OptionalValue:
    """A value that may be None at run time: `value` if `present` is true, otherwise None.

    `value` is None until the compiler sees an assignment of another value.
    """

    present: Value
    value: Any
    label: str = ""


# -- kinds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """The kind of a variable whose value is a scalar of one dtype."""

    dtype: np.dtype
    weak: bool
    nonnegative: bool

    def __str__(self) -> str:
        return f"Python {WEAK[self.dtype.kind].__name__}" if self.weak else self.dtype.name


@dataclass(frozen=True, slots=True)
class ConstantKind:
    """The kind of a variable whose value is always the same compile-time constant."""

    key: tuple[Any, ...]
    value: Any = field(compare=False)

    def __str__(self) -> str:
        return f"the constant {self.value!r}"


@dataclass(frozen=True, slots=True)
class TupleKind:
    """The kind of a variable whose value is a tuple, with a separate variable for each item."""

    length: int
    maker: Any
    names: tuple[str, ...]

    def __str__(self) -> str:
        name = getattr(self.maker, "__name__", "tuple")
        return f"{name} of {self.length}"


@dataclass(frozen=True, slots=True)
class HeldKind:
    """The kind (compile-time type) of a variable that always refers to the same object in the compiler. This object is, for example, a `Closure`."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """The kind of a variable whose value is one of several arrays, selected at run time."""

    dtype: np.dtype
    ndim: int
    space: str
    packed: bool
    writable: bool
    shape: tuple[int, ...] | None = None  # if all these arrays have the same shape, known at compile time

    def __str__(self) -> str:
        return f"{self.ndim}-d array of {self.dtype}"


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """The kind of a variable that may be None at run time.

    The variable stores whether there is a value. A second variable, the first of its parts, stores the value.
    """

    def __str__(self) -> str:
        return "a value or None"


@dataclass(frozen=True, slots=True)
class DateKind:
    """The kind of a variable whose value is a datetime64 or timedelta64 of one unit."""

    dtype: np.dtype

    def __str__(self) -> str:
        return str(self.dtype)


OPTIONAL = OptionalKind()
Kind = ScalarKind | ConstantKind | TupleKind | HeldKind | ArrayKind | OptionalKind | DateKind


def is_none(kind: Kind | None) -> bool:
    """Return whether a variable of kind `kind` can only be None."""
    return isinstance(kind, ConstantKind) and kind.value is None


def array_kind(array: ArrayValue) -> ArrayKind | None:
    """Return the `ArrayKind` of an array, or None for a local array of records or text."""
    if array.space == "local" and in_bytes(array.dtype):
        return None
    known = tuple(n for n in array.shape if isinstance(n, int))
    shape = known if array.packed and len(known) == array.ndim else None
    return ArrayKind(array.dtype, array.ndim, array.space, array.packed, array.writable, shape)


def is_date_dtype(dtype: np.dtype) -> bool:
    """Return whether a dtype is datetime64 or timedelta64."""
    return dtype.kind in "mM"


def is_text_dtype(dtype: np.dtype) -> bool:
    """Return whether a dtype is a text dtype: str or bytes of a fixed length."""
    return dtype.kind in "SU"


def in_bytes(dtype: np.dtype) -> bool:
    """Return whether `dtype` is a record or text dtype, which kernels access through byte pointers."""
    return dtype.names is not None or is_text_dtype(dtype)


def memory_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype with which kernels access elements of `dtype` in memory.

    The dtype is uint8 for records and text, int64 for dates, and the elements' dtype otherwise.
    """
    return np.dtype(np.uint8) if in_bytes(dtype) else INT if is_date_dtype(dtype) else dtype


def is_number(value: object) -> bool:
    """Return whether a Python object is a number that kernels support."""
    if isinstance(value, np.generic):
        return is_supported(value.dtype)
    return isinstance(value, (bool, int, float, complex))


def beside(kinds: Iterable[Any]) -> tuple[Any, ...]:
    """Replace Python's int and float in a list of types by bfloat16, if one of the types is bfloat16.

    NumPy treats its own float dtypes in this way, but promotes Python numbers and ml_dtypes' bfloat16 to float32.
    """
    kinds = tuple(kinds)
    brain = next((k for k in kinds if isinstance(k, np.dtype) and is_bfloat16(k)), None)
    return kinds if brain is None else tuple(brain if k is int or k is float else k for k in kinds)


def kind_of(value: object) -> Kind:
    """Return the kind of a variable that holds `value`."""
    match value:
        case Constant(value=held):
            return ConstantKind(_key(held), held)
        case ScalarValue():
            return ScalarKind(value.dtype, value.weak, value.nonnegative)
        case TupleValue(items=items, maker=maker, names=names):
            return TupleKind(len(items), maker, names)
        case OptionalValue():
            return OPTIONAL
        case DateValue(dtype=dtype):
            return DateKind(dtype)
        case _:
            return HeldKind(describe(value))


def _key(value: object) -> tuple[Any, ...]:
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    if isinstance(value, (float, complex)):
        return type(value), repr(value)  # (0.0 and -0.0 are equal)
    if isinstance(value, (bool, int, str, type(None), enum.Enum)):
        return type(value), value
    return type(value), id(value)


def runtime_kind(kind: Kind) -> Kind | None:
    """Convert the kind (compile-time type) of a constant to the kind of a run-time variable that can hold the constant.

    Return other kinds unchanged. Return None for a constant that is neither a number nor a date.
    """
    if not isinstance(kind, ConstantKind):
        return kind
    value = kind.value.value if isinstance(kind.value, enum.Enum) else kind.value
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return DateKind(value.dtype)
    return number_kind(value) if is_number(value) else None


def number_kind(value: Any) -> ScalarKind:
    """Return the kind of a run-time variable that can hold the constant number `value`."""
    if isinstance(value, np.generic):
        return ScalarKind(value.dtype, False, value.dtype.kind in "iu" and int(value) >= 0)
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return ScalarKind(np.dtype(type(value)), True, isinstance(value, int) and value >= 0)
    if not 0 <= value < 2**64:
        raise KernelTypeError(f"Python int {value} does not fit in 64 bits")
    return ScalarKind(np.dtype(np.uint64), False, True)


def join(first: Kind, second: Kind, numba: bool = False) -> Kind | None:
    """Return a kind (compile-time type) for a variable that can hold values of both given kinds, or None if there is
    none.

    If `numba` is true, Python numbers are not weak.
    """
    if first == second:
        return first
    if isinstance(first, ArrayKind) and isinstance(second, ArrayKind):
        if (first.dtype, first.ndim, first.space) != (second.dtype, second.ndim, second.space):
            return None
        shape = first.shape if first.shape == second.shape else None
        packed, writable = first.packed and second.packed, first.writable and second.writable
        return replace(first, packed=packed, writable=writable, shape=shape)
    if any(isinstance(kind, OptionalKind) or is_none(kind) for kind in (first, second)):
        return None if any(isinstance(kind, HeldKind) for kind in (first, second)) else OPTIONAL
    one, other = runtime_kind(first), runtime_kind(second)
    if isinstance(one, ScalarKind) and isinstance(other, ScalarKind):
        numba = numba and not is_bfloat16(one.dtype) and not is_bfloat16(other.dtype)
        weak = one.weak and other.weak and (not numba or one.dtype == other.dtype)
        operands = [k if k.weak and not numba else k.dtype for k in (one, other)]
        return ScalarKind(_promote(operands), weak, one.nonnegative and other.nonnegative)
    return one if one == other else None


def _promote(kinds: list[Any]) -> np.dtype:
    parts = beside(WEAK[k.dtype.kind] if isinstance(k, ScalarKind) else k for k in kinds)
    if not any(isinstance(part, np.dtype) for part in parts):
        return max((k.dtype for k in kinds), key=lambda d: "bifc".index(d.kind))
    if any(isinstance(part, np.dtype) and is_bfloat16(part) for part in parts):
        return resolve_dtypes(find_op("add"), parts)[1]
    return np.result_type(*(part if isinstance(part, np.dtype) else part(0) for part in parts))


def describe(value: object) -> str:
    """Return a description of a value's type for error messages."""
    match value:
        case Constant(value=held):
            if is_number(held):
                return f"{type(held).__name__} {held!r}" if not isinstance(held, np.generic) else held.dtype.name
            if isinstance(held, (FunctionType, type)) or callable(held):
                return f"function {getattr(held, '__name__', held)!s}"
            if held is None:
                return "None"
            if isinstance(held, ThreadNumbers):
                return f"cuda.{held.path}, which has the components x, y and z"
            return f"str {held!r}" if isinstance(held, str) else type(held).__name__
        case ScalarValue(weak=weak):
            return f"Python {WEAK[value.dtype.kind].__name__}" if weak else value.dtype.name
        case TupleValue(items=items, maker=maker):
            inside = ", ".join(describe(item) for item in items)
            return f"{getattr(maker, '__name__', 'tuple')}({inside})"
        case ArrayValue():
            return f"{value.ndim}-d {value.space if value.space != 'global' else ''} array of {value.dtype}".replace(
                "  ", " "
            )
        case RecordValue(dtype=dtype):
            return f"text of dtype {dtype}" if dtype.kind in "SU" else f"record {dtype}"
        case TextValue():
            return "str"
        case DateValue(dtype=dtype):
            return str(dtype)
        case OptionalValue(value=held):
            return f"optional {describe(held)}" if held is not None else "None"
        case Closure(source=source):
            return f"function {source.name}"
        case Method(owner=owner, name=name):
            return f"method {name} of {describe(owner)}"
        case Sliced():
            return "slice"
        case _:
            return type(value).__name__.lower()
