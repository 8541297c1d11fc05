"""NumPy's `astype` and `copyto`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays import methods
from weft.dsl.arrays.array import Array
from weft.dsl.functions import selection
from weft.dsl.functions.creation import asarray, to_device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output
    from weft.runtime import Device


def astype(a: Any, dtype: Any, /, *, copy: bool = True, device: Device | str | None = None) -> Array:
    """Cast an array to a dtype, like `numpy.astype`.

    In casts to integers, out-of-range floats saturate and NaN becomes 0.

    Examples
    --------
    >>> wf.astype(wf.asarray([1.7, -2.7, np.nan]), np.int32)
    array([ 1, -2,  0], dtype=int32)
    """
    found = methods.astype(asarray(a) if isinstance(a, np.ndarray | np.generic) else a, dtype, copy=copy)
    return found if device is None else to_device(found, device)


def copyto(dst: Output, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Copy values to the array `dst`, like `numpy.copyto`.

    Examples
    --------
    >>> x = wf.zeros(4)
    >>> wf.copyto(x, [1, 2, 3, 4], where=[True, False, True, False])
    >>> x
    array([1., 0., 3., 0.])
    """
    if not isinstance(where, (Array, np.ndarray)):
        where = True if where is True else np.asarray(where, bool)
    elif where.ndim and not np.can_cast(kind := where.dtype, np.bool_):
        raise TypeError(f"Cannot cast array data from {kind!r} to dtype('bool') according to the rule 'safe'")
    if isinstance(src, (bool, int, float, complex, np.generic)) and not isinstance(src, Array):
        number = np.empty((), dst.dtype)
        np.copyto(number, src, casting)  # type: ignore[arg-type]
        source = asarray(number)
    else:
        source = asarray(src)
    if not np.can_cast(source.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {source.dtype!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    # (cast first, because the common dtype of two integer dtypes may be a float)
    dst[...] = source if where is True else selection.where(where, source.astype(dst.dtype), dst)
