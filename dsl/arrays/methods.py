"""Methods and properties of `Array`, most of which have NumPy's names."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from math import prod
from numbers import Number
from types import FunctionType, GenericAlias
from typing import Any

import numpy as np

from weft.dsl.arrays import indexing, memory_order, shared_arrays, standard
from weft.dsl.arrays.array import (
    Array,
    ReadOnly,
    Scalar,
    UnsupportedDtypeError,
    convert,
    expr_of,
    record,
    record_array,
    scalar,
    start,
    wrap,
    write,
)
from weft.dsl.arrays.array_function import array_function
from weft.dsl.arrays.call_sites import RECORD_PENDING, accepts, on_operands_device
from weft.dsl.arrays.docstrings import describe_members
from weft.dsl.arrays.flat import Flat
from weft.dsl.arrays.foreign import is_foreign
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.on_host import call_numpy, note_fallback, or_numpy, to_host
from weft.dsl.arrays.parts import Part, ReadOnlyPart, take_part
from weft.dsl.arrays.results import array_output, as_array, check_cast, return_result, value_operand
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.arrays.validation import NUMPY_VERSION, check_order, warn_of_lost_parts
from weft.dsl.arrays.windows import Flags, as_read_only, has_views, layout, memoized_view, set_flags, window
from weft.dsl.functions import creation, histograms, joining, linear, manipulation, reductions, selection, sorting
from weft.dsl.functions.own_names import OWN
from weft.dsl.immediate.at_call import NUMBERS, at_once, from_numpy_result, seen
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.small_work import WHOLE, is_cast_immediately
from weft.fusion import (
    Expr,
    Storage,
    cast,
    constant,
    current_epoch,
    exclusive,
    is_ready,
    map_,
    pending,
    primitive,
    realise,
)
from weft.runtime import IMMEDIATE
from weft.runtime.lazy_names import unquote_annotations


def astype(
    self: Array, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Array:
    """Cast the array to a dtype.

    In casts to integers, out-of-range floats saturate and NaN becomes 0. For a dtype that weft does not support, such
    as text, the result is a NumPy array.
    """
    if order == "K" and casting == "unsafe" and type(self) is Array and (values := values_of(self)) is not None:
        function = _immediate_casts.get((values.dtype, dtype)) if type(dtype) is type else None
        if function is not None and copy and is_cast_immediately(values, np.dtype(dtype)):
            return from_numpy_result(function(values), self.device)  # type: ignore[no-any-return]
    if order != "K" and (order := memory_order.resolve_order(check_order(order), self)) == "F" and self.ndim > 1:
        return self.T.astype(dtype, "C", casting, subok, copy).T  # type: ignore[no-any-return]
    try:
        kind = creation.as_dtype(dtype)
    except UnsupportedDtypeError:  # text and objects are left to NumPy
        values = self.numpy()[()] if isinstance(self, Scalar) else self.numpy()
        return values.astype(dtype, order, casting)  # type: ignore[call-overload]
    if casting == "same_value" and kind != self.dtype:  # (whether the cast is possible depends on the elements)
        return creation.asarray(self.numpy().astype(kind, order, casting, copy=copy))  # type: ignore[call-overload]
    if not np.can_cast(self.dtype, kind, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {kind!r} according to the rule {casting!r}")
    values = values_of(self) if type(self) is Array and self.device.small_on_host else None
    if values is not None and not is_cast_immediately(values, kind):
        values = None
    if kind == self.dtype:
        if values is not None and copy:
            return from_numpy_result(values.copy(order), self.device)  # type: ignore[no-any-return, arg-type]
        return self.copy(order) if copy else self if order == "K" else memory_order.in_order(self, order)
    warn_of_lost_parts(self.dtype, kind)
    if values is not None:
        if is_ready("cast", (values.dtype,), kind) and (order == "K" or values.flags.c_contiguous):
            function = primitive("cast", (values.dtype,), kind)
            if type(dtype) is type and self.dtype.kind != "c":  # (a cast to real numbers warns)
                _immediate_casts[values.dtype, dtype] = function
            return from_numpy_result(function(values), self.device)  # type: ignore[no-any-return]
    return _converted(self, kind, order == "K")


# Functions that cast small arrays, by the source's dtype and the requested type.
_immediate_casts: dict[tuple[np.dtype, type], Callable[[np.ndarray], np.ndarray]] = {}


@memoized
def _converted(self: Array, kind: np.dtype, keeping: bool) -> Array:
    location = start()
    if keeping and (order := memory_order.memory_order([self])) is not None:
        return memory_order.unpermuted(record(cast(expr_of(memory_order.permuted(self, order)), kind, location)), order)
    return (record if isinstance(self, Scalar) else record_array)(cast(expr_of(self), kind, location))


def copy_of(self: Array, order: str = "C") -> Array:
    """Return a copy of the array. A copy in C order may share memory with the array until one of them is written."""
    start()
    if (order := check_order(order)) != "C" and self.ndim > 1:
        return memory_order.copy_in_order(self, order)
    epoch = current_epoch(self.device)
    copied = pending(expr_of(self), epoch)
    return scalar(copied) if isinstance(self, Scalar) else wrap(copied)


def fill(self: Array, value: object) -> None:
    """Set every element to `value`."""
    if type(value) in NUMBERS:
        self[...] = value  # type: ignore[assignment]
        return
    if np.ndim(value):  # type: ignore[arg-type]
        raise ValueError("setting an array element with a sequence.")
    start()
    if type(value) is int and not -(2**63) <= value < 2**63:
        value = self.dtype.type(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        np.empty(1, self.dtype).fill(value)  # (raises an error, unlike an assignment of a date to integers)
    node, weak = value_operand(value, self.dtype)
    write(self, constant(value, self.dtype) if weak is not None else node)


def _shape_arguments(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape


@memoized_view
def reshape(self: Array, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
    """Return an array with the same elements and another shape.

    By default, the result is a view if the strides allow it, otherwise a copy.
    """
    wanted = self.shape if len(shape) == 1 and shape[0] is None else _shape_arguments(shape)
    return manipulation.reshape(self, wanted, order, copy=copy)


def matrix_transpose(self: Array) -> Array:
    """Return a view with the last two axes exchanged. Raises ValueError for an array with fewer than two axes."""
    if self.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return manipulation.swapaxes(self, -1, -2)


@memoized_view
def transpose(self: Array, *axes: Any) -> Array:
    """Return a view with permuted axes, by default in reverse order."""
    return manipulation.transpose(self, None if not axes else _shape_arguments(axes))


def flatten(self: Array, order: str = "C") -> Array:
    """Return a 1-D copy of the array."""
    return copy_of(manipulation.ravel(self, order))


def _part(name: str) -> property:
    def get(self: Array) -> Array:
        if self.dtype.kind != "c":
            if name == "real":
                return self
            if type(self) is Scalar:
                return self.dtype.type(0)  # type: ignore[no-any-return]
            return as_read_only(OWN["zeros_like"](self))
        return take_part(self, name)

    def put(self: Array, value: object) -> None:
        if type(self) is Scalar:
            raise AttributeError(f"attribute {name!r} of 'numpy.generic' objects is not writable", name=name, obj=self)
        if type(value) is complex and NUMPY_VERSION < (2, 5):
            value = np.complex128(value)  # (NumPy discards the imaginary part, with a warning)
        if self.dtype.kind == "c":
            getattr(self, name)[...] = value
        elif name == "imag":
            raise TypeError("array does not have imaginary part to set")
        else:
            self[...] = value  # type: ignore[assignment]

    text = {"real": "Real", "imag": "Imaginary"}[name]
    return property(
        get,
        on_operands_device(put),
        doc=f"{text} parts of the elements. For a complex array, a write to the parts changes the array.",
    )


@memoized
def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Round to the given number of decimals, with ties to the nearest even value.

    Examples
    --------
    >>> wf.round([1.26, 2.5, -1.75], 1)
    array([ 1.3,  2.5, -1.8])
    """
    array, decimals = as_array(a), operator.index(decimals)
    start()
    if out is None and (order := memory_order.memory_order([array])) is not None:
        return memory_order.unpermuted(_round(memory_order.permuted(array, order), decimals), order)
    if out is not None and np.shape(array_output(out, "output must be an array")) != array.shape:
        raise ValueError("invalid output shape")
    node = expr_of(array)
    if array.dtype.kind == "b" and decimals:
        raise TypeError("bools have no decimals to round to")
    if array.dtype.kind in "iu" and decimals >= 0:
        return record(node) if out is None else return_result("positive", node, out)
    return return_result("rint", _to_decimals(node, decimals), out)


def _to_decimals(node: Expr, decimals: int) -> Expr:
    """Round the elements of an expression to a number of decimals."""
    if decimals == 0:
        return map_("rint", [node])
    if node.dtype.kind in "iu":  # (an integer dtype may not hold the factor)
        return cast(_to_decimals(cast(node, np.dtype(float)), decimals), node.dtype)
    if node.dtype.kind == "c":
        return map_("_complex", [_to_decimals(map_(part, [node]), decimals) for part in ("real", "imag")])
    factor = constant(10.0 ** abs(decimals) if abs(decimals) < 309 else np.inf, node.dtype)
    first, second = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    rounded = map_(second, [map_("rint", [map_(first, [node, factor])]), factor])
    return cast(rounded, node.dtype)


def _compress(self: Array, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Return the slices along an axis for which a 1-D condition is true, like `numpy.ndarray.compress`."""
    return OWN["compress"](condition, self, axis, out)


def _choose(self: Array, *choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Select elements from `choices` by the indices in this array, like `numpy.choose`."""
    return OWN["choose"](self, choices[0] if len(choices) == 1 else choices, out, mode)


def _put(self: Array, indices: Any, values: Any, mode: Any = "raise") -> None:
    """Assign values at indices of the flat array, like `numpy.put`."""
    which, several = np.asarray(indices), np.ndim(values) > 0
    if mode == "raise" and which.dtype.kind in "iu" and np.size(values) in (1, which.size):
        Flat(self)[which.ravel()] = manipulation.ravel(values) if several else values
        return
    call_numpy(np.put, (self, indices, values, mode), {})


def view(self: Array, dtype: Any = None, type: Any = None) -> Array:
    """Return a view of the array, with its bytes reinterpreted if a dtype is given.

    On a GPU, and where the elements of the other dtype would not be aligned, a view with another dtype is a read-only
    copy. Raises NumPy's ValueError if the last axis does not fit a dtype of another size. If weft does not support the
    dtype, or `type` is a subclass of `numpy.ndarray`, the view is a NumPy array, which shares memory on the CPU.
    """
    if isinstance(dtype, builtins.type) and (dtype == Array or issubclass(dtype, (Array, np.ndarray))):
        dtype, type = None, dtype if type is None else type
    # (the `numpy.ndarray` of a redirected program equals Array)
    if type is not None and type != Array and type is not np.ndarray and not issubclass(type, Array):
        return shared_arrays.exported(self).view(type) if dtype is None else view(self, dtype).view(type=type)
    if dtype is None and isinstance(self, Scalar):
        return self
    if dtype is None:
        return window(self, *layout(self))
    try:
        kind = creation.as_dtype(dtype)
    except UnsupportedDtypeError:  # text, dates and records are left to NumPy
        return shared_arrays.exported(self).view(dtype)  # type: ignore[return-value]
    if kind == self.dtype:
        return view(self)
    old, new, shape = self.itemsize, kind.itemsize, self.shape
    if old != new:
        if not shape:
            raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged")
        if self.strides[-1] != old and shape[-1] != 1 and self.size:
            raise ValueError("To change to a dtype of a different size, the last axis must be contiguous")
        if shape[-1] * old % new:
            raise ValueError(
                "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of the array."
            )
        shape = (*shape[:-1], shape[-1] * old // new)
    if (shown := shared_arrays.view_as(self, lambda values: values.view(kind))) is not None:
        return shown
    storage = copy_of(self)._storage
    exclusive(storage)
    made = Storage(shape, kind, storage.device, realise(storage))
    return scalar(made) if isinstance(self, Scalar) else wrap(made, None, ReadOnly)


def conjugate(self: Array, out: Any = None) -> Any:
    """Return the complex conjugate, or the array itself if it is real and `out` is None."""
    return self if self.dtype.kind != "c" and out is None else UFUNCS["conjugate"](self, out=out)


def getfield(self: Array, dtype: Any, offset: int = 0) -> Array:
    """Return the field at byte `offset` of each element, like `numpy.ndarray.getfield`.

    The result is a view or, if the array cannot share its memory (for example on a GPU), a copy.
    """
    kind = creation.as_dtype(dtype)
    if _is_on_gpu(self, kind):
        np.empty(0, self.dtype).getfield(kind, offset)  # raises NumPy's error for bytes outside of the element
        return _elements(_bytes(self)[:, offset : offset + kind.itemsize], kind, self.shape)
    shown = shared_arrays.view_as(self, lambda values: values.getfield(kind, offset))
    if shown is None:
        note_fallback("getfield", self)
        shown = wrap(convert(self.numpy().getfield(kind, offset))._storage, None, ReadOnly)
    return shown


def setfield(self: Array, value: object, dtype: Any, offset: int = 0) -> None:
    """Assign values to the field at byte `offset` of each element, like `numpy.ndarray.setfield`."""
    kind = creation.as_dtype(dtype)
    if _is_on_gpu(self, kind):
        np.empty(0, self.dtype).setfield(kind.type(), kind, offset)
        rows = _bytes(self).copy()
        given = manipulation.broadcast_to(as_array(value).astype(kind), self.shape)  # type: ignore[attr-defined]
        rows[:, offset : offset + kind.itemsize] = _bytes(given.copy())
        self[...] = _elements(rows, self.dtype, self.shape)  # type: ignore[index]
        return
    values = np.array(self.numpy())
    values.setfield(to_host(value), kind, offset)
    note_fallback("setfield", self)
    self[...] = values  # type: ignore[index]


def byteswap(self: Array, inplace: bool = False) -> Array:
    """Reverse the bytes of each element, in a copy or in place."""
    if _is_on_gpu(self, self.dtype):
        parts = 2 if self.dtype.kind == "c" else 1  # (the two parts of a complex element are reversed separately)
        rows = manipulation.reshape(_bytes(self), (self.size * parts, -1))
        swapped = expr_of(_elements(rows[:, ::-1], self.dtype, self.shape))
    else:
        note_fallback("byteswap", self)
        swapped = expr_of(creation.asarray(self.numpy().byteswap()))
    if inplace:
        write(self, swapped)
    return self if inplace else record_array(swapped)


def _is_on_gpu(values: Array, kind: np.dtype) -> bool:
    """Return whether an array is only in GPU memory. If so, the caller reinterprets the bytes of its elements by a kernel, not by NumPy.

    Return False for scalars, for arrays without elements, and if the array's dtype or the new dtype `kind` is bool.
    """
    plain = type(values) is not Scalar and values.size > 0 and "b" not in (values.dtype.kind, kind.kind)
    return plain and is_gpu(values.device) and values_of(values) is None


def _bytes(values: Any) -> Any:
    """Return the bytes of an array as a 2-D array of uint8 with one row per element, in C order."""
    return manipulation.reshape(view(manipulation.ravel(values), np.uint8), (values.size, -1))


def _elements(rows: Any, kind: np.dtype, shape: tuple[int, ...]) -> Any:
    """Reinterpret the bytes in `rows`, in C order, as the elements of a new array of dtype `kind`."""
    return manipulation.reshape(view(manipulation.ravel(rows), kind), shape).copy()


def resize(self: Array, *shape: Any, refcheck: bool = True) -> None:
    """Change the shape and size in place, and fill new elements with zeros.

    Raises ValueError if the array is a view or, unless `refcheck` is false, has views. A C-contiguous array can always
    get another shape of the same size.
    """
    if isinstance(self, Part):
        raise ValueError("resize only works on single-segment arrays")
    if shape in ((), (None,)):
        return
    wanted = creation.as_shape(_shape_arguments(shape))
    size = prod(wanted)
    if size == self.size and self.flags.c_contiguous:
        changed = manipulation.reshape(self, wanted)
        self._storage, self._view = changed._storage, changed._view
        self._device = self._values = None
        return
    if type(self) is Scalar or (
        self._view is not None and not (self.size == prod(self._storage.shape) and self.flags.c_contiguous)
    ):
        raise ValueError("cannot resize this array: it does not own its data")
    if refcheck and has_views(self):
        raise ValueError(
            "cannot resize an array that is referenced by another array.\nUse the np.resize function to get a new "
            "resized copy or\n set refcheck=False to disable this check"
        )
    flat = manipulation.ravel(self)
    short = max(0, size - self.size)
    if short:
        flat = joining.concatenate([flat, creation.zeros(short, self.dtype)])
    storage = copy_of(manipulation.reshape(flat[:size], wanted))._storage
    # (also drop NumPy's array over the previous elements)
    self._device = self._values = self._view = None
    self._storage = storage


def _on_host(name: str, summary: str) -> Any:
    """Return an array method that evaluates the array and calls the method `name` of `numpy.ndarray`."""

    def method(self: Array, *arguments: Any, **options: Any) -> Any:
        return getattr(self.numpy(), name)(*arguments, **options)

    method.__name__ = name
    method.__doc__ = f"{summary}, like `numpy.ndarray.{name}`."
    return method


def _size_of(self: Array) -> int:
    """Implement `sys.getsizeof`. The size includes the elements if the array owns them and they are in host memory."""
    own = self.base is None and self.device.memory_on_host
    return object.__sizeof__(self) + (self.nbytes if own else 0)


def _no_deletion(self: Array, key: object) -> None:
    raise ValueError("cannot delete array elements")


def _set_part(self: Part, key: object, value: object) -> None:
    indexing.setitem(self, key, value)
    self._after_write()


def _refuse_item_of_scalar(self: Scalar, key: object, value: object) -> None:
    raise TypeError(f"'numpy.{self.dtype.name}' object does not support item assignment")


def _refuse_item(self: Array, key: object, value: object) -> None:
    raise ValueError("assignment destination is read-only")


def _transposed(self: Array) -> Array:
    values = values_of(self) if IMMEDIATE[0] and type(self) is Array else None
    return self.transpose() if values is None else seen(self, values.T)


_product = at_once(or_numpy(on_operands_device(linear.matmul), np.matmul), np.matmul, "matmul")


def to_numpy(self: Array, dtype: Any = None, copy: bool = False, na_value: Any = None) -> np.ndarray:
    """Return the elements as a new, writable NumPy array, like pandas' `to_numpy`.

    `copy` and `na_value` have no effect.
    """
    return np.array(self, dtype)


def _imatmul(self: Array, other: Any) -> Array:
    if not accepts(other):
        return NotImplemented
    product = expr_of(_product(self, other))
    if product.shape != self.shape:
        raise ValueError(f"matmul: a result of shape {product.shape} does not fit the operand of shape {self.shape}")
    check_cast("matmul", product.dtype, self.dtype)
    write(self, product)
    return self


def _dot(self: Array, b: Any, out: Any = None) -> Any:
    """Return the dot product with `b`, like the `dot` function.

    Examples
    --------
    >>> wf.array([1, 2]).dot(wf.array([3, 4]))
    np.int64(11)
    """
    if is_foreign(b):
        return call_numpy(np.dot, (self, b, out), {})
    return linear.dot(self, b) if out is None else linear.dot(self, b, out)


_dot.records = linear.dot.records  # type: ignore[attr-defined]


# Functions that are also methods, under the same names.
_FUNCTIONS = {
    manipulation: "ravel swapaxes squeeze repeat diagonal trace",
    reductions: "sum min max mean var std any all argmin argmax cumsum cumprod",
    selection: "take",
    sorting: "argsort argpartition",
    histograms: "searchsorted",
    indexing: "nonzero",
    standard: "to_device",
}
# Methods that have the names of their functions.
_OWN = (astype, fill, reshape, transpose, flatten, byteswap, getfield, setfield, conjugate, to_numpy, view, resize)

METHODS: dict[str, Any] = {
    **{name: getattr(module, name) for module, names in _FUNCTIONS.items() for name in names.split()},
    **{method.__name__: method for method in _OWN},
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__matmul__": lambda self, other: _product(self, other) if accepts(other) else NotImplemented,
    "__rmatmul__": lambda self, other: _product(other, self) if accepts(other) else NotImplemented,
    "copy": copy_of,
    "round": _round,
    "sort": sorting.sort_in_place,
    "dot": _dot,
    "clip": lambda self, min=None, max=None, out=None, **options: selection.clip(
        self, out=out, min=min, max=max, **options
    ),
    "conj": conjugate,
    "to": creation.to_device,
    "prod": reductions.prod_,
    "compress": _compress,
    "choose": _choose,
    "put": _put,
    "T": property(_transposed),
    "mT": property(matrix_transpose),
    "real": _part("real"),
    "imag": _part("imag"),
    "flat": property(Flat, lambda self, value: Flat(self).__setitem__(..., value)),
    "flags": property(Flags),
    "setflags": set_flags,
    "partition": sorting.partition_in_place,
    "data": property(lambda self: shared_arrays.exported(self).data),
    "ctypes": property(shared_arrays.pointer),
    "tofile": _on_host("tofile", "Write the elements to a file"),
    "dump": _on_host("dump", "Pickle the elements to a file"),
    "dumps": _on_host("dumps", "Return the pickled elements as bytes"),
    "__array__": shared_arrays.as_numpy,
    "__array_interface__": property(shared_arrays.interface),
    "__buffer__": shared_arrays.get_buffer,
    "__release_buffer__": shared_arrays.release_buffer,
    "__dlpack__": shared_arrays.export_dlpack,
    "__array_namespace__": standard.array_namespace,
    "__delitem__": _no_deletion,
    "__sizeof__": _size_of,
    "__class_getitem__": classmethod(GenericAlias),
    "__imatmul__": _imatmul,
    "__array_function__": array_function,
    "__reduce__": memory_order.reduce_array,
}


def _round_number(self: Scalar, ndigits: int | None = None) -> Any:
    """Implement Python's `round` for a scalar."""
    return round(self.item()) if ndigits is None else _round(self, ndigits)


# Methods for which NumPy's method of the same name is called if the arrays are small.
AT_ONCE = frozenset(
    "sum prod min max mean var std any all argmin argmax cumsum cumprod argsort searchsorted nonzero take repeat diagonal "
    "trace dot swapaxes squeeze reshape transpose ravel flatten round clip argpartition compress choose copy".split()
)


def install() -> None:
    """Attach the methods to `Array` and its subclasses."""
    for name, method in METHODS.items():
        if isinstance(method, FunctionType) and name[:2] != "__":
            method = on_operands_device(method, name)
        if name in AT_ONCE:
            records = getattr(method, "records", None)
            method = at_once(or_numpy(method, getattr(np.ndarray, name)), getattr(np.ndarray, name), name)
            if records is not None:
                op, way, does = records
                method.records = op, way, RECORD_PENDING if name in WHOLE else does  # type: ignore[attr-defined]
        setattr(Array, name, unquote_annotations(method))
    setattr(Scalar, "__round__", _round_number)
    setattr(ReadOnly, "__setitem__", _refuse_item)
    setattr(Scalar, "__setitem__", _refuse_item_of_scalar)
    setattr(ReadOnlyPart, "__setitem__", _refuse_item)
    setattr(Part, "__setitem__", _set_part)
    shared_arrays.install_buffer(Array, Part, ReadOnly, ReadOnlyPart, Scalar)
    describe_members(Array)
    Number.register(Scalar)  # `numpy.isscalar` requires it, and `numpy.testing.assert_equal` calls `isscalar`


round_ = _round
install()
