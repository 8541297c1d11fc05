"""NumPy's functions `take_along_axis` and `put_along_axis`.

In: an array, an index array, and the axis to index. Out: gathered copies, or a new version of the storage. Invariant:
indices are checked immediately (`positions.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.indexing import setitem
from weft.dsl.arrays.positions import positions_of
from weft.dsl.arrays.results import as_array
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.manipulation import ravel, reshape
from weft.fusion import broadcast_shapes, gather

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output


def _checked(arr: Array, indices: Any, axis: int | None) -> tuple[Array, Output, int]:
    """Return the checked arguments of `take_along_axis` or `put_along_axis`, or raise NumPy's errors.

    If `axis` is None, the array is flattened.
    """
    which: Any = indices if isinstance(indices, Array) else np.asarray(indices)
    if axis is None:
        if which.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        arr, axis = ravel(arr), 0
    if which.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    axis_number = normalize_axis(axis, arr.ndim)
    if which.ndim != arr.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return arr, which, axis_number


def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Return the elements at the indices along an axis, like `numpy.take_along_axis`.

    Each 1-D slice along the axis has its own indices.

    Examples
    --------
    >>> x = wf.asarray([[4, 9, 2], [7, 1, 8]])
    >>> wf.take_along_axis(x, wf.argsort(x, axis=1), axis=1)
    array([[2, 4, 9],
           [1, 7, 8]])
    """
    array, which, axis_number = _checked(as_array(arr), indices, axis)
    others = ((*s[:axis_number], 1, *s[axis_number + 1 :]) for s in (array.shape, which.shape))
    try:
        common = broadcast_shapes(*others)
    except ValueError as error:
        raise IndexError(f"shape mismatch: {error}") from None
    shape = (*common[:axis_number], which.shape[axis_number], *common[axis_number + 1 :])
    start()
    node = positions_of(which, axis_number, array.shape[axis_number], 1, 0).expr()
    terms = tuple(
        (0, (), 0) if k == axis_number else (0, ((k, 1),) if n != 1 else (), -1) for k, n in enumerate(array.shape)
    )
    return record(gather(expr_of(array), [node], terms, shape))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    """Assign values to the elements at the indices along an axis, like `numpy.put_along_axis`.

    Each 1-D slice along the axis has its own indices.

    Examples
    --------
    >>> x = wf.asarray([[4, 9, 2], [7, 1, 8]])
    >>> wf.put_along_axis(x, x.argmax(axis=1, keepdims=True), 0, axis=1)
    >>> x
    array([[4, 0, 2],
           [7, 1, 0]])
    """
    if not isinstance(arr, Array):
        np.put_along_axis(arr, np.asarray(indices), np.asarray(values), axis)
        return
    array, which, axis_number = _checked(arr, indices, axis)
    if axis is None:
        arr.flat[which] = values
        return
    # Along each other axis, the indices are 0, 1, 2, and so on.
    open_grid = [
        reshape(as_array(np.arange(n)), (-1,) + (1,) * (array.ndim - 1 - k)) for k, n in enumerate(array.shape)
    ]
    setitem(array, tuple(which if k == axis_number else grid for k, grid in enumerate(open_grid)), values)
