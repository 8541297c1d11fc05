"""NumPy's functions that create arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import is_supported
from weft.dsl.arrays.array import (
    Array,
    as_operand,
    convert,
    from_protocol,
    record,
    record_array,
    user_location,
    wrap,
)
from weft.dsl.arrays.array import start as begin
from weft.dsl.arrays.call_sites import transposed
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.foreign import types_in
from weft.dsl.arrays.memory_order import copy_in_order, in_order, memory_axes, resolve_order, unpermuted
from weft.dsl.arrays.numpy_results import adopt_result
from weft.dsl.arrays.on_host import to_host
from weft.dsl.arrays.shared_arrays import import_memory, share_buffer
from weft.dsl.arrays.validation import (
    MOST_ELEMENTS,
    as_dtype,
    as_shape,
    check_new_order,
    check_order,
    check_unmasked,
    warn_of_lost_parts,
)
from weft.dsl.arrays.windows import is_c_ordered
from weft.dsl.immediate.at_call import MISSED, NUMBERS, call_small, stack_small
from weft.dsl.immediate.host_values import values_of
from weft.dsl.immediate.small_work import make_small
from weft.fusion import Storage, broadcast_to, cast, constant, copy_buffer, current_epoch, iota, map_, realise
from weft.fusion import empty as empty_expr
from weft.runtime import IMMEDIATE, default_device, get_device, setting
from weft.runtime import device as on_device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, ShapeLike
    from weft.runtime import Device

_HERE = nullcontext()


def device_context(device: Device | str) -> AbstractContextManager[Any]:
    """Return a context manager that makes `device` the current device, or does nothing if `device` is None."""
    return _HERE if device is None else on_device(device)


def asarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Device | str | None = None,
    like: object = None,
) -> Array:
    """Convert the input to an array.

    NumPy arrays are copied, unless `copy` is false. On the CPU, the result shares the memory of other writable buffers
    of the requested dtype, unless `copy` is true. A weft array that has the requested dtype, memory order and device is
    returned unchanged, unless `copy` is true.

    Examples
    --------
    >>> x = np.arange(3)
    >>> y = wf.asarray(x)
    >>> y[0] = 7
    >>> x, y
    (array([0, 1, 2]), array([7, 1, 2]))
    """
    if type(a) is Array and dtype is None and order is None and not copy and device is None:
        return a
    if dtype is not None:
        dtype = as_dtype(dtype)
    values = from_protocol(a)
    order = check_order(order or "K").replace("A", "K")  # ("A" and "K" both allow any order here)
    if copy is False:
        return _without_copy(values, dtype, order, device)
    if isinstance(values, Array):
        result = copy_in_order(values, order) if copy else values
    elif isinstance(values, (list, tuple)) and any(issubclass(kind, Array) for kind in types_in(values)):
        stacked = stack_small(values)
        result = in_order(_stack[0]([asarray(v) for v in values]), "C") if stacked is None else stacked
    elif hasattr(values, "__cuda_array_interface__"):
        result = convert(values)
        if copy:  # (at once, because the owner may write to its memory)
            storage = result._storage
            copied = Storage(storage.shape, storage.dtype, storage.device, copy_buffer(realise(storage)))
            result = copy_in_order(wrap(copied, result._view), order)
    else:
        check_unmasked(values)
        host = np.asarray(values, dtype)
        shared = None if copy or hasattr(values, "__array__") else share_buffer(host)
        result = shared if isinstance(shared, Array) else _converted(host, order)
    if dtype is not None and result.dtype != dtype:
        result = result.astype(dtype)
    result = result if order == "K" else in_order(result, order, a)
    return result if device is None else to_device(result, device)


def _without_copy(values: Any, dtype: DTypeLike | None, order: str, device: Any) -> Array:
    """Return an array over the memory of an array or buffer, or raise ValueError if a copy is necessary."""
    target = default_device() if device is None else get_device(device)
    shared: Array | None = None
    if isinstance(values, Array):
        fits = dtype in (None, values.dtype) and in_order(values, order, values) is values
        shared = values if fits and (device is None or target is values.device) else None
    elif target.name == "cpu":
        shared = import_memory(np.asarray(values, dtype, order, copy=False))  # type: ignore[call-overload]
    if shared is None:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return shared


def _converted(values: np.ndarray, order: str) -> Array:
    """Convert a NumPy array to a weft array with the memory order `order`."""
    axes = memory_axes(values, order)
    return convert(values) if axes is None else unpermuted(convert(values.transpose(axes)), axes)


_stack: list[Callable[[list[Array]], Array]] = []


def set_stack(stack: Callable[[list[Array]], Array]) -> None:
    """Set the function that stacks arrays. This module cannot import the function without an import cycle."""
    _stack[:] = [stack]


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: str | None = None,
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: object = None,
) -> Array:
    """Create an array from `object`, like `numpy.array`.

    Examples
    --------
    >>> wf.array([[1, 2], [3, 4]], dtype=np.float32)
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if type(object) is Array and copy and dtype is None and not (order or ndmin or ndmax):
        return copy_in_order(object, "K")
    given = from_protocol(object)
    if ndmax:  # NumPy determines whether there are more axes, or objects in them
        given = convert(np.array(given, dtype, ndmax=ndmax))
    order = resolve_order(check_order(order or "K"), given)
    result = asarray(given, dtype, order, copy=None if copy and isinstance(given, Array) else copy)
    if result is given and copy:
        result = copy_in_order(result, order)
    if result.ndim < ndmin:
        result = result.reshape((1,) * (ndmin - result.ndim) + result.shape)
    return result


def to_device(values: Array, device: Device | str) -> Array:
    """Copy the array to a device. An array that is already on this device is returned unchanged."""
    target = get_device(device)
    if target is values.device:
        return values
    if values._view is not None:
        values = values.copy()
    if (seen := values_of(values)) is not None and seen.size <= IMMEDIATE[0]:
        return convert(seen, target)
    storage = values._storage
    buffer = target.fetch(realise(storage))
    buffer.origin = user_location()
    return wrap(Storage(storage.shape, storage.dtype, target, buffer))


def full(
    shape: ShapeLike,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    device: Any = None,
    like: object = None,
) -> Array:
    """Return an array filled with one value.

    Examples
    --------
    >>> wf.full((2, 2), 7)
    array([[7, 7],
           [7, 7]])
    """
    begin()
    if check_new_order(order) == "F":
        return in_order(full(shape, fill_value, dtype, device=device), order)
    with device_context(device):
        current_epoch()
        as_dtype(dtype)
        if dtype is not None and type(fill_value) in NUMBERS and type(fill_value) is not complex:
            lengths = as_shape(shape)
            made = make_small(np.full, prod(lengths), lengths, fill_value, as_dtype(dtype))
            if made is not None:
                return made
        if type(fill_value) is int and not -(2**63) <= fill_value < 2**64:
            return asarray(np.full(as_shape(shape), fill_value, dtype))
        node, weak = as_operand(fill_value)
        kind = as_dtype(dtype, np.asarray(fill_value).dtype if weak is not None else node.dtype)
        if weak is complex and kind.kind not in "bc":
            warn_of_lost_parts(node.dtype, kind)
            fill_value = fill_value.real
        if weak in (float, complex) and kind.kind in "iu":  # (saturates like a cast)
            limits = np.iinfo(kind)
            fill_value = 0 if fill_value != fill_value else int(min(max(fill_value, limits.min), limits.max))
        node = constant(fill_value, kind) if weak is not None else cast(node, kind)
        return record_array(broadcast_to(node, as_shape(shape)))


def _make(value: Any, shape: ShapeLike, dtype: DTypeLike | None, order: str | None, device: Any) -> Array:
    """Return an array of zeros, of ones or, if `value` is None, of uninitialized elements."""
    if value is None and setting("verify"):
        value = 0  # (uninitialized elements would differ between a plan and the interpreted program)
    if check_new_order(order) == "F":
        return _make(value, as_shape(shape)[::-1], dtype, None, device).T
    with device_context(device):
        kind, lengths = as_dtype(dtype), as_shape(shape)
        function = np.ones if value else np.zeros if value == 0 else np.empty
        made = make_small(function, prod(lengths), lengths, kind)
        if made is not None:
            return made
        begin()
        current_epoch()
        return record_array(empty_expr(lengths, kind) if value is None else constant(value, kind, lengths))


def _filled(name: str, value: int | None) -> Callable[..., Array]:
    """Return the function `zeros`, `ones` or `empty`. The parameter `value` is 0, 1 or None (no fill value), respectively."""

    def function(
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        order: str | None = None,
        *,
        device: Device | str | None = None,
        like: object = None,
    ) -> Array:
        return _make(value, shape, dtype, order, device)

    return named(name, function)  # type: ignore[no-any-return]


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)
empty = _filled("empty", None)


def _made_like(
    make: Callable[..., Array], prototype: Any, dtype: Any, order: Any, shape: Any, device: Any, *rest: Any
) -> Array:
    """Call a creation function, with arguments from the array `prototype` by default."""
    check_unmasked(prototype)
    source = prototype if isinstance(prototype, Array) else np.asarray(prototype)
    if device is None and isinstance(source, Array):
        device = source.device
    own = source.shape if shape is None else as_shape(shape)
    kind = source.dtype if dtype is None else dtype
    order = check_order(order or "K")
    if len(own) != source.ndim:
        axes = tuple(range(len(own)))[::-1] if resolve_order(order, source) == "F" else None
    else:
        axes = memory_axes(source, order)
    if axes is None:
        return make(own, *rest, kind, device=device)
    rest = tuple(transposed(value, axes) for value in rest)
    return unpermuted(make(tuple(own[k] for k in axes), *rest, kind, device=device), axes)


def _filled_like(name: str, make: Callable[..., Array]) -> Callable[..., Array]:
    """Return the function `zeros_like`, `ones_like` or `empty_like`. It creates arrays with the function `make`."""

    def function(
        a: ArrayLike,
        dtype: DTypeLike | None = None,
        order: str | None = None,
        subok: bool = True,
        shape: ShapeLike | None = None,
        *,
        device: Device | str | None = None,
    ) -> Array:
        return _made_like(make, a, dtype, order, shape, device)

    return named(name, function)  # type: ignore[no-any-return]


zeros_like = _filled_like("zeros_like", zeros)
ones_like = _filled_like("ones_like", ones)
empty_like = _filled_like("empty_like", empty)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    device: Device | str | None = None,
) -> Array:
    """Return an array filled with one value, with the shape and dtype of another array.

    The arguments `dtype`, `order`, `shape` and `device` replace the properties of `a`.

    Examples
    --------
    >>> wf.full_like([1.0, 2.0], 0.5)
    array([0.5, 0.5])
    """
    return _made_like(full, a, dtype, order, shape, device, fill_value)


def arange(
    start_or_stop: Any = ...,
    /,
    stop: Any = ...,
    step: Any = None,
    dtype: DTypeLike | None = None,
    *,
    start: Any = ...,
    device: Any = None,
    like: object = None,
) -> Array:
    """Return evenly spaced numbers in a half-open interval, like `numpy.arange`.

    Examples
    --------
    >>> wf.arange(2, 10, 3)
    array([2, 5, 8])
    """
    if start_or_stop is ...:
        if stop is ...:
            raise TypeError("arange() requires stop to be specified.")
        start_or_stop, stop = (stop, None) if start is ... else (start, stop)
    elif start is not ...:
        raise TypeError("argument for arange() given by name ('start') and position (position 0)")
    given: Any = (start_or_stop, None if stop is ... else stop, step)
    known = given
    if not {int, NoneType}.issuperset(map(type, given)):
        given = [to_host(v) if isinstance(v, Array) else v for v in given]
        # (beside signed integers, an array of uint64 makes the result a float)
        known = [v.item() if isinstance(v, (np.ndarray, np.integer)) and v.dtype != np.uint64 else v for v in given]
    first, last, stride = (0, known[0], known[2]) if known[1] is None else known
    stride = 1 if stride is None else stride
    with device_context(device):
        ours = all(type(n) is int and abs(n) < 2**63 for n in (first, last, stride)) and (
            dtype is None or np.dtype(dtype).kind in "iu"
        )
        if not ours:
            values = np.arange(*given, dtype=dtype)
            return adopt_result(values, current_epoch().device) if is_supported(values.dtype) else convert(values)
        if stride == 0:
            raise ZeroDivisionError("division by zero")
        count = max(0, -(-(last - first) // stride))
        kind = as_dtype(dtype, np.int64)
        made = make_small(np.arange, count, first, last, stride, kind)
        if made is not None:
            return made
        if count > MOST_ELEMENTS:
            as_shape(count)  # raises ValueError
        begin()
        current_epoch()
        node = iota((count,), 0, kind)
        if stride != 1:
            if count > 1:
                kind.type(first + stride)  # (NumPy raises OverflowError if the second element is out of range)
            wrapped = np.asarray(stride % 2 ** (8 * kind.itemsize), np.uint64).astype(kind)[()]
            node = map_("multiply", [node, constant(wrapped, kind)])
        if first:
            node = map_("add", [node, constant(first, kind)])
        return record(node)


def _frequencies(name: str) -> Callable[..., Array]:
    """Return a version of `numpy.fft.fftfreq` or `rfftfreq` with the array API's options."""

    def frequencies(n: int, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None) -> Array:
        found = getattr(np.fft, name)(n, d)
        return asarray(found if dtype is None else found.astype(dtype), device=device)

    frequencies.__name__ = name
    frequencies.__doc__ = f"Return the sample frequencies of a discrete Fourier transform, like `numpy.fft.{name}`."
    return frequencies


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")


def eye(
    N: int,  # (NumPy's names, because they may be passed as keywords)
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike = float,
    order: str = "C",
    *,
    device: Any = None,
    like: object = None,
) -> Array:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Examples
    --------
    >>> wf.eye(2, 3, k=1)
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    order = check_new_order(order)
    shape, k = as_shape((N, N if M is None else M)), operator.index(k)
    with device_context(device):
        if order == "C":
            made = make_small(np.eye, prod(shape), *shape, k, as_dtype(dtype))
            if made is not None:
                return made
        where = begin()
        current_epoch()
        beyond = max(-shape[0], min(shape[1], k))  # (diagonals further out have no elements either)
        row = map_("add", [iota(shape, 0, np.int64), constant(beyond, np.int64)])
        diagonal = map_("equal", [row, iota(shape, 1, np.int64)], location=where)
        return in_order(record(cast(diagonal, as_dtype(dtype))), order)


def identity(n: int, dtype: DTypeLike | None = None, *, like: object = None) -> Array:
    """Return the identity matrix.

    Examples
    --------
    >>> wf.identity(2)
    array([[1., 0.],
           [0., 1.]])
    """
    return eye(n, dtype=float if dtype is None else dtype)


def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array:
    """Return a copy of an array.

    Examples
    --------
    >>> x = wf.arange(3)
    >>> y = wf.copy(x)
    >>> x[0] = 9
    >>> y
    array([0, 1, 2])
    """
    return array(a, order=order, copy=True)


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None) -> Array:
    """Return an array in C order, with at least one axis.

    Examples
    --------
    >>> wf.ascontiguousarray(wf.ones((2, 3)).T).flags.c_contiguous
    True
    """
    result = asarray(a, dtype)
    if not is_c_ordered(result):
        result = result.copy()
    return result if result.ndim else result.reshape((1,))


def asfortranarray(a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None) -> Array:
    """Return an array in Fortran order, with at least one axis.

    Examples
    --------
    >>> wf.asfortranarray([[1, 2], [3, 4]]).flags.f_contiguous
    True
    """
    if dtype is None and (small := call_small(np.asfortranarray, (a,), {})) is not MISSED:
        return small  # type: ignore[no-any-return]
    result = asarray(a, dtype, "F")
    return result if result.ndim else result.reshape((1,))
