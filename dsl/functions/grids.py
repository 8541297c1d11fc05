"""NumPy's `indices`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.dsl.arrays.array import record
from weft.dsl.arrays.array import start as begin
from weft.dsl.arrays.validation import as_dtype, as_shape
from weft.dsl.functions.creation import empty
from weft.dsl.functions.joining import stack
from weft.fusion import current_epoch, iota, reshape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dsl.arrays.annotations import DTypeLike


def indices(dimensions: Sequence[int], dtype: DTypeLike = int, sparse: bool = False) -> Any:
    """Return the indices of a grid, as one array per axis, like `numpy.indices`.

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
