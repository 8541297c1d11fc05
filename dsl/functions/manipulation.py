"""NumPy's functions that reshape arrays, and rearrange or repeat their elements.

They return views where NumPy does.
"""

from __future__ import annotations

import builtins
import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import memory_order, permuted, resolve_order
from weft.dsl.arrays.parts import Part, owner_of
from weft.dsl.arrays.validation import (
    NUMPY_VERSION,
    as_shape,
    check_axes,
    check_order,
    normalize_axes,
    normalize_axis,
    warn_deprecation,
)
from weft.dsl.arrays.windows import as_read_only, is_c_ordered, layout, window
from weft.dsl.functions.creation import asarray
from weft.fusion import broadcast_shapes, contiguous_strides, shape_text
from weft.fusion import reshape as reshape_expr

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike


def reshape(
    a: ArrayLike,
    /,
    shape: ShapeLike | None = None,
    order: str = "C",
    *,
    newshape: ShapeLike | None = None,
    copy: bool | None = None,
) -> Array:
    """Reshape an array, as a view if the strides allow it, otherwise as a copy.

    Examples
    --------
    >>> wf.reshape(wf.arange(6), (2, -1))
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    order = check_order(order)
    if order == "K":
        raise ValueError("order 'K' is not permitted for reshaping")
    if newshape is not None:
        if NUMPY_VERSION >= (2, 5):
            raise TypeError("reshape() got an unexpected keyword argument 'newshape'")
        if shape is not None:
            raise TypeError("You cannot specify 'newshape' and 'shape' arguments at the same time.")
        warn_deprecation(
            (2, 1),
            "`newshape` keyword argument is deprecated, use `shape=...` or pass shape positionally instead. "
            "(deprecated in NumPy 2.1)",
        )
        shape = newshape
    if shape is None:
        raise TypeError("reshape() missing 1 required positional argument: 'shape'")
    if isinstance(copy, str):
        raise ValueError("strings are not allowed for 'copy' keyword. Use True/False/None instead.")
    array = asarray(a)
    wanted = _infer(shape, array)
    if order in ("A", "F") and resolve_order(order, array) == "F":
        return reshape(array.T, wanted[::-1], copy=copy).T
    strides = _view_strides(array, wanted)
    if strides is not None and not copy:
        return window(array, wanted, strides, layout(array)[2])
    if copy is False:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    start()
    return record(reshape_expr(expr_of(array), wanted))


def _infer(shape: Any, array: Array) -> tuple[int, ...]:
    one = getattr(shape, "ndim", 1) == 0 or not hasattr(shape, "__iter__")  # NumPy's and weft's scalars have no axes
    given = tuple(operator.index(n) for n in ((shape,) if one else shape))
    if not one and builtins.any(isinstance(n, (bool, np.bool_)) for n in shape):
        raise TypeError("an integer is required for the axis")
    size = array.size
    unknown = builtins.sum(n < 0 for n in given)
    if unknown:
        rest = prod(n for n in given if n >= 0)
        if unknown > 1:
            raise ValueError("can only specify one unknown dimension")
        if rest == 0 or size % rest:
            raise ValueError(f"cannot reshape array of size {size} into shape {shape_text(given)}")
        given = tuple(size // rest if n < 0 else n for n in given)
    if prod(given) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape_text(given)}")
    check_axes(len(given))
    return given


def _view_strides(array: Array, wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of a view with the shape `wanted`, or None if the reshape needs a copy.

    Axes that can be merged in memory are merged. Each merged axis must then split into whole axes of the new shape.
    """
    shape, strides, _ = layout(array)
    if strides == contiguous_strides(shape) or not prod(wanted):
        return contiguous_strides(wanted)
    runs: list[list[int]] = []  # [length, stride] of merged axes
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if runs and runs[-1][1] == n * s:
            runs[-1] = [runs[-1][0] * n, s]
        else:
            runs.append([n, s])
    result: list[int] = []
    run = 0
    left = runs[0][0] if runs else 1
    for n in wanted:
        if n == 1:
            result.append(0)
            continue
        while left == 1 and run + 1 < len(runs):
            run += 1
            left = runs[run][0]
        if left % n:
            return None
        left //= n
        result.append(left * runs[run][1])
    return tuple(result)


def transpose(a: ArrayLike, axes: ShapeLike | None = None) -> Array:
    """Return a view with permuted axes, by default in reverse order.

    Examples
    --------
    >>> wf.transpose([[1, 2, 3], [4, 5, 6]])
    array([[1, 4],
           [2, 5],
           [3, 6]])
    """
    array = asarray(a)
    shape, strides, offset = layout(array)
    given = range(array.ndim)[::-1] if axes is None else (axes,) if isinstance(axes, (int, np.integer)) else axes
    order = tuple(normalize_axis(k, array.ndim) for k in given)
    if len(order) != array.ndim:
        raise ValueError("axes don't match array")
    if len(set(order)) != len(order):
        raise ValueError("repeated axis in transpose")
    return window(array, tuple(shape[k] for k in order), tuple(strides[k] for k in order), offset)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return a view with two axes exchanged.

    Examples
    --------
    >>> wf.swapaxes(wf.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    array = asarray(a)
    order = list(range(array.ndim))
    first, second = normalize_axis(axis1, array.ndim), normalize_axis(axis2, array.ndim)
    order[first], order[second] = order[second], order[first]
    return transpose(array, order)


def moveaxis(a: ArrayLike, source: ShapeLike, destination: ShapeLike) -> Array:
    """Return a view with axes moved to other positions.

    Examples
    --------
    >>> wf.moveaxis(wf.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    array = asarray(a)
    origin = normalize_axis_tuple(source, array.ndim, "source")
    goal = normalize_axis_tuple(destination, array.ndim, "destination")
    if len(origin) != len(goal):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [k for k in range(array.ndim) if k not in origin]
    for to, of in sorted(zip(goal, origin, strict=True)):
        order.insert(to, of)
    return transpose(array, order)


def squeeze(a: ArrayLike, axis: ShapeLike | None = None) -> Array:
    """Return a view without the given axes, by default without the axes of length 1.

    Raises ValueError if the length of a given axis is not 1.

    Examples
    --------
    >>> wf.squeeze([[[1], [2]]])
    array([1, 2])
    """
    array = asarray(a)
    shape, strides, offset = layout(array)
    if not shape and axis in (0, -1):  # (NumPy accepts these axes for an array without axes)
        return array
    gone = {k for k, n in enumerate(shape) if n == 1} if axis is None else set(normalize_axes(axis, array.ndim))
    if any(shape[k] != 1 for k in gone):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    kept = [k for k in range(array.ndim) if k not in gone]
    return window(array, tuple(shape[k] for k in kept), tuple(strides[k] for k in kept), offset)


def expand_dims(a: ArrayLike, axis: ShapeLike) -> Array:
    """Return a view with additional axes of length 1.

    Examples
    --------
    >>> wf.expand_dims([1, 2], 1)
    array([[1],
           [2]])
    """
    array = asarray(a)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = array.ndim + len(given)
    check_axes(ndim)
    axes = normalize_axis_tuple(given, ndim)
    shape, strides, offset = layout(array)
    rest = iter(zip(shape, strides, strict=True))
    pairs = [(1, 0) if k in axes else next(rest) for k in range(ndim)]
    return window(array, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), offset)


def broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> Array:
    """Return a read-only view of an array, broadcast to a shape.

    Examples
    --------
    >>> wf.broadcast_to([1, 2, 3], (2, 3))
    array([[1, 2, 3],
           [1, 2, 3]])
    """
    wanted, given = as_shape(shape), asarray(array)
    own, strides, offset = layout(given)
    if len(own) > len(wanted) or broadcast_shapes(own, wanted) != wanted:
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {own}  and requested shape {wanted}"
        )
    lead = len(wanted) - len(own)
    stretched = tuple(0 if n == 1 and w != 1 else s for n, s, w in zip(own, strides, wanted[lead:], strict=True))
    return as_read_only(window(given, wanted, (0,) * lead + stretched, offset))


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Array, ...]:
    """Broadcast arrays against each other, and return the views.

    Examples
    --------
    >>> x, y = wf.broadcast_arrays([1, 2, 3], [[10], [20]])
    >>> y
    array([[10, 10, 10],
           [20, 20, 20]])
    """
    found = [asarray(a) for a in arrays]
    shape = broadcast_shapes(*(a.shape for a in found)) if found else ()
    # (arrays that keep their shape stay writable, as in NumPy)
    return tuple(a[...] if a.shape == shape else broadcast_to(a, shape) for a in found)


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """Flatten an array, as a view if the array is contiguous in the given order, otherwise as a copy.

    Order "A" is "F" for arrays in Fortran order, and "C" for all other arrays. Order "K" is the order of the elements
    in memory, except that broadcast axes keep their positions.

    Examples
    --------
    >>> wf.ravel([[1, 2], [3, 4]])
    array([1, 2, 3, 4])
    """
    array = asarray(a)
    order = resolve_order(check_order(order), array)
    if order == "K":
        found = memory_order([array])
        array = array if found is None else permuted(array, found)
    array = array.T if order == "F" else array
    return reshape(array, (array.size,), copy=not is_c_ordered(array))


def flip(m: ArrayLike, axis: ShapeLike | None = None) -> Array:
    """Return a view with the elements in reverse order along axes, by default all axes.

    Examples
    --------
    >>> wf.flip([1, 2, 3])
    array([3, 2, 1])
    """
    array = asarray(m)
    flipped = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim)
    return array[tuple(slice(None, None, -1) if k in flipped else slice(None) for k in range(array.ndim))]


def rot90(m: ArrayLike, k: int = 1, axes: Any = (0, 1)) -> Array:
    """Rotate an array by multiples of 90 degrees in the plane of two axes.

    Examples
    --------
    >>> wf.rot90([[1, 2], [3, 4]])
    array([[2, 4],
           [1, 3]])
    """
    array = asarray(m)
    try:
        k = operator.index(k) % 4
    except TypeError:
        warn_deprecation(
            (2, 5),
            f"Passing a value for k ({k!r}) that is not an integer type has been deprecated in NumPy 2.5. "
            "The value will be cast to an integer.  In the future this will be an error.",
        )
        k = int(k) % 4
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    first, second = normalize_axis_tuple(axes, array.ndim)
    if k == 0:
        return array[...]
    if k == 2:
        return flip(array, (first, second))
    turned = swapaxes(array, first, second)
    return flip(turned, first if k == 1 else second)


@memoized
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Repeat each element `repeats` times along an axis, by default in the flattened array.

    Examples
    --------
    >>> wf.repeat([1, 2], 3)
    array([1, 1, 1, 2, 2, 2])
    """
    array = asarray(a)
    if axis is None or not array.ndim:
        array, axis = ravel(array), 0 if axis is None else axis
    axis_number = normalize_axis(axis, array.ndim)
    if isinstance(repeats, (int, np.integer)):
        count = int(repeats)
        if count < 0:
            raise ValueError("repeats may not contain negative values.")
        shape = array.shape
        wide = broadcast_to(
            expand_dims(array, axis_number + 1), (*shape[: axis_number + 1], count, *shape[axis_number + 1 :])
        )
        return reshape(wide, (*shape[:axis_number], shape[axis_number] * count, *shape[axis_number + 1 :]), copy=True)
    # (NumPy converts other numbers and lists as `int` does, and arrays only to wider integers.)
    counts = np.asarray(repeats, None if isinstance(repeats, (np.ndarray, Array)) else np.intp)
    which = np.repeat(np.arange(array.shape[axis_number]), counts if counts.size else counts.astype(np.intp))
    return array[(slice(None),) * axis_number + (which,)]


@memoized
def tile(A: Any, reps: Any) -> Array:
    """Repeat an entire array `reps` times along each axis.

    Examples
    --------
    >>> wf.tile([1, 2], (2, 2))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]])
    """
    array = asarray(A)
    counts = tuple(operator.index(r) for r in (reps if np.ndim(reps) else (reps,)))
    ndim = max(len(counts), array.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    shape = (1,) * (ndim - array.ndim) + array.shape
    # the lengths of each axis before and after repetition (without axes of length 1, because there may be 64 axes)
    pairs = [pair for c, n in zip(counts, shape, strict=True) for pair in ((1, c), (n, n)) if pair != (1, 1)]
    wide = broadcast_to(reshape(array, tuple(n for n, _ in pairs)), tuple(n for _, n in pairs))
    return reshape(wide, tuple(c * n for c, n in zip(counts, shape, strict=True)), copy=True)


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return a read-only view of a diagonal in the plane of two axes.

    The diagonal is the last axis of the view.

    Examples
    --------
    >>> wf.diagonal([[1, 2], [3, 4]])
    array([1, 4])
    """
    offset = operator.index(offset)
    array = moveaxis(asarray(a), (axis1, axis2), (-2, -1))
    shape, strides, begin = layout(array)
    rows, columns = shape[-2:]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    begin += offset * strides[-1] if offset >= 0 else -offset * strides[-2]
    steps = (*strides[:-2], strides[-2] + strides[-1])
    return as_read_only(window(array, (*shape[:-2], length), steps, begin if length else 0))


def sliding_window_view(
    x: ArrayLike, window_shape: Any, axis: ShapeLike | None = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """Return a view of all windows of a given shape.

    The last axes of the view are those of the windows. The view is read-only, unless `writeable` is true and the
    windows do not overlap.
    """
    array = asarray(x)
    lengths = as_shape(window_shape)
    if axis is None and len(lengths) != array.ndim:
        raise ValueError(
            f"Since axis is None, must provide window_shape for all dimensions of `x`; got {len(lengths)} "
            f"window_shape elements and `x.ndim` is {array.ndim}."
        )
    axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim, allow_duplicate=True)
    if len(axes) != len(lengths):
        raise ValueError(
            f"Must provide matching length window_shape and axis; got {len(lengths)} window_shape elements and {len(axes)} axes elements."
        )
    shape, strides, begin = layout(array)
    left = list(shape)
    for k, n in zip(axes, lengths, strict=True):
        if n > left[k]:
            raise ValueError("window shape cannot be larger than input array shape")
        left[k] -= n - 1
    found = window(array, (*left, *lengths), (*strides, *(strides[k] for k in axes)), begin)
    return found if writeable else as_read_only(found)


def linalg_trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return the sum of a diagonal of each matrix, like `numpy.linalg.trace`. The matrices are in the last two axes."""
    return trace(x, offset, -2, -1, dtype)


def as_strided(
    x: ArrayLike,
    shape: ShapeLike | None = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    *,
    check_bounds: bool | None = None,
) -> Array:
    """Return a view with the given shape and byte strides.

    Raises ValueError if the view exceeds the array's memory, or if a stride is not a multiple of the item size.
    """
    array = asarray(x)
    if isinstance(array, Part):
        return getattr(as_strided(owner_of(array), shape, strides, subok, writeable), array._name)  # type: ignore[no-any-return]
    own, steps, begin = layout(array)
    wanted = own if shape is None else as_shape(shape)
    width = array.itemsize
    given = tuple(s * width for s in steps) if strides is None else tuple(map(operator.index, strides))
    # (axes of length 1 may have any stride)
    if len(given) != len(wanted) or any(s % width and n > 1 for s, n in zip(given, wanted, strict=True)):
        raise ValueError(f"strides {given} do not fit the shape {wanted} and elements of {width} bytes")
    moved = tuple(s // width for s in given)
    reach = [(n - 1) * s for n, s in zip(wanted, moved, strict=True)]
    low, high = (begin + builtins.sum(r for r in reach if (r < 0) is below) for below in (True, False))
    if prod(wanted) and not 0 <= low <= high < prod(array._storage.shape):
        raise ValueError("as_strided: the view would leave the memory of the array")
    found = window(array, wanted, moved, begin)
    return found if writeable else as_read_only(found)


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
) -> Any:
    """Return the sum of the elements on a diagonal.

    Examples
    --------
    >>> wf.trace([[1, 2], [3, 4]])
    np.int64(5)
    """
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype, out)
