"""The lazy array class `Array`, and the recording of its operations.

In: Python operators on arrays and scalars. Out: expressions recorded in the calling thread's epoch. An `Array` has a
`Storage` and, unless it covers the whole storage in C order, a view (shape, strides, offset in elements). Invariant:
reading an array gives the values that NumPy would give at the same point of the program, although execution is
deferred.
"""

from __future__ import annotations

import operator
import sys
from abc import ABCMeta
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft import fusion
from weft.codegen import is_supported, native_dtype
from weft.dsl.arrays.foreign_memory import READ_ONLY, storage_of_interface
from weft.dsl.arrays.numbers import SLOT_TYPES
from weft.dsl.arrays.validation import NO_VIEW, UnsupportedDtypeError, check_unmasked, warn_deprecation
from weft.dsl.immediate.callers import is_library, sees_numpy
from weft.dsl.immediate.host_values import make_storage, overlaps, read_number, values_of, view_of
from weft.fusion import (
    Expr,
    Location,
    Storage,
    constant,
    contiguous_strides,
    current_epoch,
    cut,
    find_shared,
    operand,
    realise,
    recording,
    update,
    view,
    write_anew,
    write_view,
)
from weft.fusion import evaluate as evaluate_storages
from weft.runtime import IMMEDIATE, SEVERAL_DEVICES, Device, limit_on

if TYPE_CHECKING:  # members that operators.py and methods.py install, for type checkers
    from weft.dsl.arrays.array_members import ArrayMembers
else:
    ArrayMembers = object

View = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides and offset in elements


# Returns the class that `isinstance` sees for an array. `show_class` replaces the function.
_seen_class = partial(type)


def show_class(function: Callable[[Any], type]) -> None:
    """Register the function that computes `Array.__class__`, which `isinstance` uses."""
    _seen_class.__setstate__((function, (), {}, {}))  # type: ignore[attr-defined]


def class_for(value: object, depth: int) -> type:
    """Return `value.__class__` as a caller sees it. Under `weft run`, it depends on the caller, which is `depth` frames up the call stack."""
    function: Callable[..., type] = _seen_class.func
    return type(value) if function is type else function(value, depth + 1)


# Number of reads of array values. Work that is recorded after a read may depend on the value. Native code also
# increments the number.
VALUE_READS = array("q", [0])


class Array(ArrayMembers):
    """An n-dimensional array, like `numpy.ndarray`.

    Most operations on large arrays are recorded, and executed later in fused kernels. Arrays are created by
    `weft.asarray`, by creation functions such as `weft.zeros`, and by operations. They have the attributes, methods and
    operators of `numpy.ndarray`.

    Examples
    --------
    >>> x = wf.arange(6).reshape(2, 3)
    >>> isinstance(x, wf.Array), x.shape, x.sum(axis=0)
    (True, (2, 3), array([3, 5, 7]))
    """

    __module__ = "weft"  # the public name, shown by `repr(type(x))` and stored in pickles
    # Immediate execution sets `_values`, a NumPy array, and `_device`, the array's device. `_storage` and `_view` are created
    # from them when they are first needed; from then on, `_device` is None. `_exported` is set if other code may have
    # obtained the memory of `_values`.
    __slots__ = ("__weakref__", "_device", "_exported", "_storage", "_values", "_view")
    __array_priority__ = 1000.0
    # pandas recognizes arrays by this name, and converts them with `to_numpy` before storing them.
    _typ = "npy_extension"
    __hash__ = None  # type: ignore[assignment]
    _device: Device | None
    _exported: bool | None
    _storage: Storage
    _values: np.ndarray | None
    _view: View | None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        made = convert(np.ndarray(*arguments, **options))  # uninitialized, or a copy of a buffer
        self._device, self._values, self._view = made._device, made._values, made._view
        if self._device is None:
            self._storage = made._storage

    __class__ = property(_seen_class)  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        # called only for attributes that are not set
        if name in ("_device", "_values", "_exported"):
            return None
        if name == "_storage" and self._device is not None:
            self._storage = storage = make_storage(self)
            self._device = None
            return storage
        if name == "_view" and self._values is not None:
            self._view = seen = view_of(self._values, self._storage)
            return seen
        raise AttributeError(f"'weft.Array' object has no attribute {name!r}", name=name, obj=self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        if self._values is not None:
            return self._values.shape
        return self._storage.shape if self._view is None else self._view[0]

    @shape.setter
    def shape(self, shape: Any) -> None:
        if type(self) is Scalar:
            raise AttributeError("attribute 'shape' of 'numpy.generic' objects is not writable", name="shape", obj=self)
        warn_deprecation(
            (2, 5),
            "Setting the shape on a NumPy array has been deprecated in NumPy 2.5.\nAs an alternative, you can create a "
            "new view using np.reshape (with copy=False if needed).",
        )
        changed = self.reshape(shape)
        if changed._storage is not self._storage:
            raise AttributeError(NO_VIEW)
        self._values, self._view = None, changed._view

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the elements."""
        return self._storage.dtype if self._values is None else self._values.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Total size of the elements in bytes."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride along each axis, in bytes."""
        if self._values is not None:
            return self._values.strides
        return tuple(s * self.itemsize for s in layout(self)[1])

    @property
    def device(self) -> Device:
        """Device that holds the array."""
        return self._device or self._storage.device

    @property
    def base(self) -> Array | None:
        """An array over the entire storage, or None if this array has the storage's shape and strides."""
        return self._view and wrap(self._storage, None, ReadOnly if self._storage in READ_ONLY else Array)

    # -- to the host ------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """Return the elements as a read-only NumPy array.

        The array is evaluated. Large arrays on the CPU device are not copied, unless other code shares their memory.
        """
        VALUE_READS[0] += 1
        if self._device is not None or self._storage.host is not None:
            values = values_of(self).copy("K")  # type: ignore[union-attr]
            values.flags.writeable = False
            return values
        storage = self._storage
        values = storage.device.download(realise(storage), storage.dtype, storage.shape)
        if self._view is None:
            return values
        shape, strides, offset = self._view
        if not prod(shape):
            return np.empty(shape, storage.dtype)
        return as_strided(values.reshape(-1)[offset:], shape, [s * values.itemsize for s in strides], writeable=False)

    def item(self, *index: int) -> Any:
        """Return one element of the array as a Python scalar."""
        return self._number().item(*index)

    def _number(self) -> Any:
        """Evaluate the array, and return its elements as a NumPy array or scalar."""
        VALUE_READS[0] += 1
        if type(self) is Scalar and (number := read_number(self)) is not None:
            return number
        if (values := values_of(self)) is None:
            realise(self._storage)
            values = values_of(self)
        return self.numpy() if values is None else values

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python scalars, or as one scalar if the array is 0-d."""
        return self._number().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the bytes of the elements, by default in C order."""
        return self._number().tobytes(order)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._real_number())

    def __int__(self) -> int:
        return int(self._real_number())

    def __float__(self) -> float:
        return float(self._real_number())

    def _real_number(self) -> Any:
        # (NumPy warns about the imaginary part of a scalar, and rejects that of an array)
        return self._number()[()] if self.dtype.kind == "c" and type(self) is Scalar else self._number()

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if self.shape:  # (NumPy calls this method for each weft array in an index of a NumPy array)
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self._number())

    def __len__(self) -> int:
        if not (shape := self.shape):
            raise TypeError("len() of unsized object")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not (shape := self.shape):
            raise TypeError("iteration over a 0-d array")
        has_rows = len(shape) > 1 and type(self) is Array and not recording.held
        if has_rows and self.device.name == "cpu" and is_library(2):
            return iter(np.asarray(self))  # (a library gives each item to NumPy or to compiled code)
        if self._values is None and prod(shape[1:]) <= IMMEDIATE[0] and self._storage.device.small_on_host:
            realise(self._storage)  # (operations on items in memory are executed immediately; others are recorded)
        return (self[k] for k in range(shape[0]))

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        return repr(self.numpy())

    def __str__(self) -> str:
        return str(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(self.numpy()[()], spec)

    def __copy__(self, memo: object = None) -> Any:
        seen = self._values
        # (`copy` has native code for C order)
        made = self.copy() if seen is not None and seen.flags.c_contiguous else self.copy("K")
        # (a library gets NumPy arrays instead of new small weft arrays)
        return made._values if made._device is not None and is_library(2, "copy") else made

    __deepcopy__ = __copy__

    def _after_write(self) -> None:
        """Do nothing after a write to this array; `Part` overrides this method."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Scalar(Array):
    """An immutable, hashable 0-d array, which recorded operations return in place of a NumPy scalar."""

    __slots__ = ()

    def __new__(cls, value: Any = 0) -> Any:
        """Return a NumPy float64. If its data are `Scalar` objects, `statistics.mean` calls ``Scalar(mean)``, which must not return a `Scalar`."""
        return np.float64(value)

    __len__ = __iter__ = None  # type: ignore[assignment]  # (so that a scalar is neither `Sized` nor `Iterable`)
    # (a scalar is immutable)
    copy = __copy__ = __deepcopy__ = lambda self, order=None: self  # type: ignore[assignment]
    __class__ = property(lambda self: self.dtype.type if sees_numpy(2) else Scalar)  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.item())

    def __repr__(self) -> str:
        return repr(self.numpy()[()])

    def _count(self) -> int:
        """Return this scalar as an int for ``[0] * scalar``, or raise TypeError if it is not an integer."""
        if self.dtype.kind not in "iu":
            raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{self.dtype.name}'")
        return operator.index(self)

    def _sympy_(self) -> Any:  # called by sympy
        return fusion.as_symbol(self.numpy()[()])

    def __getattr__(self, name: str) -> Any:
        # attributes that only NumPy's scalars have: is_integer, bit_length, hex, ...
        if name.startswith("_"):
            return super().__getattr__(name)
        if not hasattr(self.dtype.type, name):
            raise AttributeError(f"numpy.{self.dtype.name} has no attribute {name!r}", name=name, obj=self)
        return getattr(self.numpy()[()], name)


class ReadOnly(Array):
    """A read-only array whose views are read-only, too. Other arrays may write to its storage."""

    __slots__ = ()


# ``case [a, b]`` matches instances of registered classes, as it matches NumPy's arrays since NumPy 2.5.
_Matched = ABCMeta("_Matched", (), {"__abc_tpflags__": np.ndarray.__flags__ & (1 << 5)})  # (Py_TPFLAGS_SEQUENCE)
_Matched.register(Array)


# -- between arrays and expressions --------------------------------------------------------

_new = object.__new__


def wrap(storage: Storage, window: View | None = None, kind: type[Array] = Array) -> Array:
    """Return an array over all of `storage`, or over the part that the view `window` selects."""
    array = _new(kind)
    array._device = array._values = None
    array._storage = storage
    array._view = window
    return array


def wrap_view(storage: Storage, window: View, kind: type[Array] = Array) -> Array:
    """Return an array over the part of a storage that a view selects.

    If the view covers the whole storage in C order and has its shape, the array's `_view` is None.
    """
    is_whole = not window[2] and window[0] == storage.shape and window == whole(storage)
    return wrap(storage, None if is_whole else window, kind)


def adopt_new(values: np.ndarray, device: Device) -> Array:
    """Return a weft array over the memory of `values`, a donated NumPy array in C or Fortran order."""
    array = _new(Array)
    array._values, array._device = values, device
    if values.flags.c_contiguous:  # (otherwise the view is created when it is first needed)
        array._view = None
    return array


def record(found: Any) -> Array:
    """Return a new pending array for an expression, or for a pair of an expression and a view of it."""
    expr, view = found if type(found) is tuple else (found, None)
    epoch = recording.epoch or current_epoch()
    taken, operands = epoch.taken, expr.operands
    if expr not in taken:
        if operands and taken.issuperset(operands):
            taken.add(expr)
        else:
            epoch.check(expr)
    storage = _new(Storage)
    storage.shape = shape = expr.shape
    storage.dtype = expr.dtype
    storage.device = epoch.device
    storage.buffer = storage.host = None
    storage.expr, storage.epoch = expr, epoch
    epoch.pending.append(storage)
    if not shape:
        return scalar(storage)
    array = _new(Array)
    array._device = array._values = None
    array._storage, array._view = storage, view
    return array


def record_array(expr: Expr) -> Array:
    """Return a new pending array, as `record` does, but never a `Scalar`."""
    made = record(expr)
    return made if expr.shape else wrap(made._storage)


def scalar(storage: Storage) -> Scalar:
    """Return a `Scalar` that contains the element of a 0-d storage."""
    return wrap(storage, None, Scalar)  # type: ignore[return-value]


def storages_of(values: Iterable[Any], *, only_arrays: bool = True) -> list[Storage]:
    """Return the storages of the arrays in `values`.

    Lists, tuples and the values of dicts are searched, too. Arrays that have no storage yet are skipped. Raises
    TypeError for a value of another type. If `only_arrays` is false, values of other types are ignored.
    """
    found: list[Storage] = []
    for value in values:
        if isinstance(value, Array):
            if value._device is None:
                found.append(value._storage)
        elif isinstance(value, (list, tuple, dict)):
            found += storages_of(value.values() if isinstance(value, dict) else value, only_arrays=only_arrays)
        elif only_arrays:
            raise TypeError(f"expected weft arrays, or lists, tuples and dicts of them, not {type(value).__name__}")
    return found


def evaluate(*arrays: Any) -> Any:
    """Evaluate the given arrays together.

    Parameters
    ----------
    *arrays : Array, or list, tuple or dict of arrays
        Other values, such as numbers, are ignored.

    Returns
    -------
    Array or tuple
        The argument, or a tuple of the arguments.

    Examples
    --------
    >>> x = wf.evaluate(wf.ones(100_000) + 1)
    >>> x[:2]
    array([2., 2.])
    """
    if len(arrays) == 1:
        only = arrays[0]
        if type(only) is not Array or only._device is None:
            evaluate_storages([only._storage] if isinstance(only, Array) else storages_of(arrays, only_arrays=False))
        return only
    evaluate_storages(storages_of(arrays, only_arrays=False))
    return arrays


def expr_of(array: Array) -> Expr:
    """Convert an array or another operand to an expression in the current recording."""
    if not isinstance(array, Array):
        return as_operand(array)[0]
    if type(array) is Scalar and SEVERAL_DEVICES[0] and array.device is not current_epoch().device:
        return as_operand(array.numpy()[()])[0]  # (a number)
    node, window = operand(array._storage), array._view
    return node if window is None else view(node, *window)


def as_operand(value: Any) -> tuple[Expr, type | None]:
    """Return an operand's expression and type. The type is `int`, `float` or `complex`, or None for all other operands.

    Raises TypeError if the value cannot become an array, and OverflowError for an integer beyond 64 bits.
    """
    if isinstance(value, Array):
        return expr_of(value), None
    kind = type(value)
    if kind is bool:
        return constant(value, np.bool_), None
    if kind is int:  # (later, `map_` casts the constant to the dtype of the operation's loop)
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"Python integer {value} out of bounds for int64")
        return constant(value, np.int64 if value < 2**63 else np.uint64), int
    if kind is float:
        return constant(value, np.float64), float
    if kind is complex:
        return constant(value, np.complex128), complex
    if kind in SLOT_TYPES:
        return current_epoch().bind_scalar(value, value.dtype), None
    return expr_of(convert(value)), None


def convert(value: Any, device: Device | None = None) -> Array:
    """Convert an array-like object to a weft array, by default on the current device.

    An object with ``__cuda_array_interface__`` stays on its device, and its memory is used without a copy.
    """
    if hasattr(value, "__cuda_array_interface__"):
        return value if isinstance(value, Array) else wrap(*storage_of_interface(value.__cuda_array_interface__, value))
    check_unmasked(value)
    from_host = without_sharing(from_protocol(value))
    if not is_supported(from_host.dtype):
        raise UnsupportedDtypeError(from_host.dtype)
    device = device or current_epoch().device
    if from_host.size <= limit_on(device.name) and device.small_on_host:
        return adopt_new(np.array(from_host, native_dtype(from_host.dtype), order="C"), device)
    dtype = native_dtype(from_host.dtype)
    native = np.ascontiguousarray(from_host, dtype).reshape(from_host.shape)
    buffer = device.upload(native)
    buffer.origin = user_location()
    return wrap(Storage(native.shape, dtype, device, buffer))


def without_sharing(value: object, dtype: np.dtype | None = None) -> np.ndarray:
    """Convert a value to a NumPy array that does not share memory with weft arrays.

    If the memory were shared, later operations on these arrays could not be recorded.
    """
    if type(value) in (list, tuple):
        # Evaluate the arrays together, before NumPy requests the elements of each.
        evaluate_storages([v._storage for v in value if isinstance(v, Array) and v._device is None])  # type: ignore[attr-defined]
    before, recording.held = recording.held, True
    try:
        return np.asarray(value, dtype)
    finally:
        recording.held = before


def from_protocol(value: Any) -> Any:
    """Return the result of `value.__array__()` if it is a weft array, otherwise return `value`."""
    kind = type(value)
    if not hasattr(kind, "__array__") or hasattr(kind, "__array_ufunc__"):
        return value  # (``__array__`` of a type that implements ufuncs returns a NumPy array, and may compute it)
    lazy = getattr(kind.__array__, "lazy", None)  # (``__array__`` of a class of the program)
    found = value.__array__() if lazy is None else lazy(value)
    return found if isinstance(found, Array) else value


def write(array: Array, value: Expr) -> tuple[Expr, Expr]:
    """Assign `value` to the elements of `array`, with a cast and broadcasting as needed.

    All arrays over the same storage see the change. Returns the expressions of the previous and the new version of the
    storage, or `value` twice for shared memory. Raises ValueError if the array is read-only or its elements overlap.
    """
    check_writable(array)
    storage = array._storage
    window = array._view or whole(storage)
    if storage.host is not None and (owner := find_shared(storage)) is not None:
        write_view(storage, owner, value, window)
        array._after_write()
        return value, value
    versions = write_anew(storage, current_epoch(storage.device), lambda previous: update(previous, value, *window))
    array._after_write()
    return versions


def check_writable(array: Array) -> None:
    """Raise NumPy's ValueError if an array is read-only."""
    if not is_writable(array):
        raise ValueError("assignment destination is read-only")


def is_writable(array: Array) -> bool:
    """Return whether an array is writable; scalars and views with overlapping elements are not."""
    return not isinstance(array, (ReadOnly, Scalar)) and (array._view is None or not overlaps(*array._view[:2]))


def whole(storage: Storage) -> View:
    """Return the view of an entire storage in C order, with the storage's shape."""
    return storage.shape, contiguous_strides(storage.shape), 0


def layout(array: Array) -> View:
    """Return an array's shape, and its strides and storage offset in elements."""
    return array._view or whole(array._storage)


def start() -> Location:
    """Start recording an operation: if much work is pending, evaluate it first. Return the user's call site."""
    where = user_location(3)
    cut(recording.epoch or current_epoch(), where)
    return where


def user_location(depth: int = 2) -> tuple[CodeType, int]:
    """Return the code object and instruction offset of the innermost frame outside weft."""
    frame = sys._getframe(depth)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("weft."):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def operator_location() -> Location:
    """Return the call site of an operator, followed by the user's call site if the operator is in weft's code."""
    frame = sys._getframe(2)
    where = frame.f_code, frame.f_lasti
    return (*where, *user_location(3)) if frame.f_globals.get("__name__", "").startswith("weft.") else where
