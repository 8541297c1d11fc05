"""NumPy's functions that join, split and roll arrays.

Each input is written to a rectangular region of a new array. The new array gets no memory if only computations read it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft import fusion
from weft.dsl.arrays.array import Array, View, convert, record, start, whole
from weft.dsl.arrays.indexing import assign_recorded
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import memory_order, permuted, unpermuted
from weft.dsl.arrays.results import array_output, to_python
from weft.dsl.arrays.validation import as_dtype, normalize_axis
from weft.dsl.arrays.windows import is_c_ordered
from weft.dsl.functions.creation import asarray, empty, set_stack
from weft.dsl.functions.manipulation import expand_dims, ravel, reshape
from weft.dsl.immediate.host_values import values_of
from weft.fusion import Expr, contiguous_strides, evaluate, operand, update, view
from weft.runtime import warn_user

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike

# Maximum number of arrays that one plan concatenates.
MANY = 64
# Maximum number of elements per index of the concatenation axis for which this axis is merged with the later axes.
SHORT = 32
# The same for rolls, for example of the coordinates of points. A sum of rolls along two axes, as in a stencil, takes
# longer if the axes are merged: 1.3 times as long for 4 elements, and 3 times for 10.
ROLLED = 4


@memoized
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Array:
    """Join arrays along an existing axis.

    Examples
    --------
    >>> wf.concatenate([[1, 2], [3]])
    array([1, 2, 3])
    """
    start()
    if not hasattr(arrays, "__getitem__"):
        raise TypeError("The first input argument needs to be a sequence")
    arrays = list(arrays)
    found = [asarray(a) for a in arrays]
    if not found:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        found, axis = [ravel(a) for a in found], 0
    if any(a.ndim == 0 for a in found):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis_number = normalize_axis(axis, found[0].ndim)
    _check_alike(found, axis_number)
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    # (Without an axis, some of the arrays may be Python scalars, which are weak.)
    kinds = [a if type(a) in (int, float, complex) else b.dtype for a, b in zip(arrays, found, strict=True)]
    kind = np.result_type(*kinds) if dtype is None else as_dtype(dtype)
    kind = kind if out is None else array_output(out, "'out' must be an array").dtype
    for own in dict.fromkeys(b.dtype for a, b in zip(arrays, found, strict=True) if type(a) is not int):
        if not np.can_cast(own, kind, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {own!r} to {kind!r} according to the rule {casting!r}")
    if out is None and (order := memory_order(found)) is not None:
        return unpermuted(concatenate([permuted(a, order) for a in found], order.index(axis_number), dtype=kind), order)
    shape = list(found[0].shape)
    shape[axis_number] = sum(a.shape[axis_number] for a in found)
    if out is None and _has_short_rows(found, axis_number):
        flat = [reshape(a, (*a.shape[:axis_number], -1)) for a in found]
        return reshape(concatenate(flat, axis_number, dtype=kind), tuple(shape))
    if out is not None and tuple(shape) != out.shape:
        raise ValueError("Output array is the wrong shape")
    if isinstance(out, np.ndarray):
        out[...] = concatenate(found, axis_number, dtype=kind, casting=casting).numpy()
        return out  # type: ignore[return-value]
    if len(found) > MANY:
        joined = _join_many(found, axis_number, kind)
        if out is None:
            return joined
        out[...] = joined
        return out
    result: Any = empty(tuple(shape), kind) if out is None else out
    at = 0
    for a in found:
        index = (slice(None),) * axis_number + (slice(at, at + a.shape[axis_number]),)
        assign_recorded(result, index, a)
        at += a.shape[axis_number]
    return result


def _has_short_rows(found: Sequence[Array], axis_number: int, most: int = SHORT) -> bool:
    """Return whether the axes after a given axis form contiguous rows in host memory, of at least 2 and at most `most`
    elements.

    A kernel would copy such a row in an inner loop, which takes three times as long as one loop over a merged axis.
    """
    if not 1 < prod(found[0].shape[axis_number + 1 :]) <= most:
        return False
    arrays = [values_of(a) for a in found]
    return all(
        values is not None and values[(0,) * axis_number].flags.c_contiguous
        for values in arrays
        if values is None or values.size
    )


def _join_many(found: Sequence[Array], axis_number: int, kind: np.dtype) -> Array:
    """Concatenate more than `MANY` arrays without recording all of them in one plan.

    NumPy joins them on the CPU. On a GPU, they are joined in groups.
    """
    found = [a if a.dtype == kind else a.astype(kind) for a in found]
    evaluate([a._storage for a in found if a._device is None])
    device = found[0].device
    if device.name == "cpu":
        values = [a.numpy() if (seen := values_of(a)) is None else seen for a in found]
        return convert(np.concatenate(values, axis_number), device)
    while len(found) > MANY:
        groups = [concatenate(found[k : k + MANY], axis_number) for k in range(0, len(found), MANY)]
        for group in groups:
            evaluate([group._storage])  # groups of equal size reuse the plan
        found = groups
    return concatenate(found, axis_number)


def _check_alike(found: Sequence[Array], axis_number: int) -> None:
    first = found[0]
    if len({(*a.shape[:axis_number], ..., *a.shape[axis_number + 1 :]) for a in found}) == 1:
        return
    for number, a in enumerate(found[1:], 1):
        if a.ndim != first.ndim:
            raise ValueError(
                f"all the input arrays must have same number of dimensions, but the array at index 0 has {first.ndim} dimension(s) and the array at index {number} has {a.ndim} dimension(s)"
            )
        for k in range(a.ndim):
            if k != axis_number and a.shape[k] != first.shape[k]:
                raise ValueError(
                    f"all the input array dimensions except for the concatenation axis must match exactly, but along dimension {k}, the array at index 0 has size {first.shape[k]} and the array at index {number} has size {a.shape[k]}"
                )


def as_sequence(arrays: Any) -> Any:
    """Return `arrays` unchanged, or raise NumPy's TypeError if it is not a sequence."""
    if not hasattr(arrays, "__getitem__"):
        raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
    return arrays


@memoized
def stack(
    arrays: Sequence[ArrayLike],
    axis: int = 0,
    out: Output | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:
    """Join arrays of the same shape along a new axis.

    Examples
    --------
    >>> wf.stack([[1, 2], [3, 4]], axis=1)
    array([[1, 3],
           [2, 4]])
    """
    found = [asarray(a) for a in as_sequence(arrays)]
    if not found:
        raise ValueError("need at least one array to stack")
    if len({a.shape for a in found}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis_number = normalize_axis(axis, found[0].ndim + 1)
    return concatenate([expand_dims(a, axis_number) for a in found], axis_number, out, dtype=dtype, casting=casting)


set_stack(stack)


def row_stack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array:
    """Join arrays vertically (row-wise), like `vstack`. This alias is deprecated.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     wf.row_stack([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]])
    """
    warn_user("`row_stack` alias is deprecated. Use `np.vstack` directly.", DeprecationWarning)
    return np.vstack([asarray(a) for a in tup], dtype=dtype, casting=casting)  # type: ignore


def array_split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]:
    """Split an array into views of nearly equal length, or at the given indices.

    Examples
    --------
    >>> wf.array_split(wf.arange(5), 2)
    [array([0, 1, 2]), array([3, 4])]
    """
    array, sections = asarray(ary), to_python(indices_or_sections)
    axis_number = normalize_axis(axis, array.ndim)
    length = array.shape[axis_number]
    if np.ndim(sections):
        edges = [0, *sections, length]
    else:
        if (count := int(sections)) <= 0:
            raise ValueError("number sections must be larger than 0.")
        each, more = divmod(length, count)
        edges = [k * each + min(k, more) for k in range(count + 1)]
    return [array[(slice(None),) * axis_number + (slice(lo, hi),)] for lo, hi in itertools.pairwise(edges)]


def split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]:
    """Split an array into views of equal length, or at the given indices.

    Examples
    --------
    >>> wf.split(wf.arange(6), [2, 3])
    [array([0, 1]), array([2]), array([3, 4, 5])]
    """
    array, sections = asarray(ary), to_python(indices_or_sections)
    if not np.ndim(sections) and array.shape[axis] % sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(array, sections, axis)


@memoized
def roll(a: ArrayLike, shift: Any, axis: ShapeLike | None = None) -> Array:
    """Shift elements cyclically along axes, by default in the flattened array.

    Examples
    --------
    >>> wf.roll([1, 2, 3, 4], 1)
    array([4, 1, 2, 3])
    """
    array = asarray(a)
    if axis is None:
        in_rows = array.ndim > 1 and array.size and memory_order([array]) is None
        if in_rows and not is_c_ordered(array) and np.ndim(shift) == 0:
            return _roll_flat(array, int(shift) % array.size, array.ndim)
        return reshape(roll(ravel(array), shift, 0), array.shape)
    start()
    axes = list(normalize_axis_tuple(axis, array.ndim, allow_duplicate=True))
    shift = shift.tolist() if isinstance(shift, (Array, np.ndarray)) else shift
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    axes = axes * len(shifts) if len(axes) == 1 else axes
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ValueError(
            "shape mismatch: objects cannot be broadcast to a single shape.  Mismatch is between arg 0 with shape "
            f"({len(shifts)},) and arg 1 with shape ({len(axes)},)."
        )
    if (order := memory_order([array])) is not None:
        return unpermuted(roll(permuted(array, order), shifts, [order.index(k) for k in axes]), order)
    if len(axes) == 1 and _has_short_rows([array], axes[0], ROLLED):
        rows = prod(array.shape[axes[0] + 1 :])
        flat = reshape(array, (*array.shape[: axes[0]], -1))
        return reshape(roll(flat, int(shifts[0]) * rows, axes[0]), array.shape)
    node = operand(array._storage)
    seen, rolled = array._view or whole(array._storage), False
    for amount, k in zip(shifts, axes, strict=True):
        length = array.shape[k]
        if by := int(amount) % length if length else 0:
            node, rolled = _roll_axis(node, seen, by, k), True
            seen = array.shape, contiguous_strides(array.shape), 0
    if rolled:
        return record(node)
    return array if array is not a else array.copy()


def _roll_flat(array: Array, shift: int, ndim: int) -> Array:
    """Roll an array like `numpy.roll` without an axis, but flatten only the first `ndim` axes.

    Each axis is rolled separately, so that kernels divide no index.
    """
    if ndim == 1:
        return roll(array, shift, 0)
    length = array.shape[ndim - 1]
    rows, columns = divmod(shift, length)
    leading = (slice(None),) * (ndim - 1)
    first = _roll_flat(array[(*leading, slice(length - columns, None))], rows + 1, ndim - 1) if columns else None
    rest = _roll_flat(array[(*leading, slice(length - columns))], rows, ndim - 1)
    return rest if first is None else concatenate((first, rest), ndim - 1)


def _roll_axis(node: Expr, seen: View, by: int, axis: int) -> Expr:
    """Roll a view of `node` along an axis by `by` elements. The tuple `seen` contains the view's shape, strides and offset."""
    shape, steps, start_at = seen
    strides = contiguous_strides(shape)
    made = fusion.empty(shape, node.dtype)
    split = shape[axis] - by
    for length, begin, target in ((by, split, 0), (split, 0, by)):
        part = (*shape[:axis], length, *shape[axis + 1 :])
        moved = view(node, part, steps, start_at + begin * steps[axis])
        made = update(made, moved, part, strides, target * strides[axis])
    return made
