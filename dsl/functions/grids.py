"""NumPy's `indices`, `fromfunction` and `meshgrid`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.dsl.arrays.array import Array, record
from weft.dsl.arrays.array import start as begin
from weft.dsl.arrays.validation import NUMPY_VERSION, as_dtype, as_shape
from weft.dsl.functions.creation import asarray, empty
from weft.dsl.functions.joining import stack
from weft.dsl.functions.manipulation import broadcast_arrays
from weft.fusion import current_epoch, iota, reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dsl.arrays.annotations import DTypeLike


def indices(dimensions: Sequence[int], dtype: DTypeLike = int, sparse: bool = False) -> Any:
    """Return arrays of the indices along each axis, like `numpy.indices`.

    Examples
    --------
    >>> i, j = wf.indices((2, 3))
    >>> i + j
    array([[0, 1, 2],
           [1, 2, 3]])
    """
    shape = as_shape(dimensions)
    if as_dtype(dtype).kind == "b" and max(shape, default=0) > 2:
        raise TypeError("indices of more than 2 elements along an axis cannot be booleans")
    begin()
    current_epoch()
    if sparse:
        return tuple(
            record(reshape(iota((n,), 0, as_dtype(dtype)), tuple(n if k == axis else 1 for k in range(len(shape)))))
            for axis, n in enumerate(shape)
        )
    if not shape:
        return empty((0,), dtype)
    return stack([record(iota(shape, axis, as_dtype(dtype))) for axis in range(len(shape))])


def fromfunction(function: Any, shape: Sequence[int], *, dtype: DTypeLike = float, **options: Any) -> Any:
    """Create an array by calling a function on its indices, like `numpy.fromfunction`.

    Examples
    --------
    >>> wf.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=np.int64)
    array([[ 0,  1,  2],
           [10, 11, 12]])
    """
    grid = indices(shape, dtype=dtype)
    return function(*(grid[k] for k in range(len(as_shape(shape)))), **options)


def meshgrid(*vectors: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Return coordinate arrays from coordinate vectors, like `numpy.meshgrid`.

    Examples
    --------
    >>> x, y = wf.meshgrid([1, 2, 3], [10, 20])
    >>> x + y
    array([[11, 12, 13],
           [21, 22, 23]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(vectors)
    arrays = []
    for k, vector in enumerate(vectors):
        axis = 1 - k if indexing == "xy" and count > 1 and k < 2 else k
        arrays.append(asarray(vector).reshape(tuple(-1 if a == axis else 1 for a in range(count))))
    if not sparse:
        arrays = [a.copy() if copy else a for a in broadcast_arrays(*arrays)]
    if sparse and not copy and NUMPY_VERSION < (2, 5):
        return arrays  # type: ignore[return-value]  # (a list, as NumPy's)
    return tuple(arrays)
