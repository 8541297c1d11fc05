"""Functions that return attributes of arrays, such as `shape` and `real`, and functions about shared memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays import methods
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.on_host import to_host
from weft.dsl.functions import reductions, selecting
from weft.dsl.functions.creation import asarray

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output
    from weft.runtime import Device


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape, as `numpy.shape`.

    Examples
    --------
    >>> wf.shape([[1, 2, 3], [4, 5, 6]])
    (2, 3)
    """
    return asarray(a).shape


def real(val: ArrayLike) -> Any:
    """Return the real part, as `numpy.real`.

    Examples
    --------
    >>> wf.real([1 + 2j, 3 - 4j])
    array([1., 3.])
    """
    return val.real if isinstance(val, (int, float, complex)) else asarray(val).real


def imag(val: ArrayLike) -> Any:
    """Return the imaginary part, as `numpy.imag`.

    Examples
    --------
    >>> wf.imag([1 + 2j, 3 - 4j])
    array([ 2., -4.])
    """
    return val.imag if isinstance(val, (int, float, complex)) else asarray(val).imag


def ndim(a: ArrayLike) -> int:
    """Return the number of axes, as `numpy.ndim`.

    Examples
    --------
    >>> wf.ndim([[1, 2], [3, 4]])
    2
    """
    return asarray(a).ndim


def size(a: ArrayLike, axis: Any = None) -> int:
    """Return the number of elements, in total or along axes, as `numpy.size`.

    Examples
    --------
    >>> wf.size([[1, 2, 3], [4, 5, 6]])
    6
    >>> wf.size([[1, 2, 3], [4, 5, 6]], axis=1)
    3
    """
    found = asarray(a)
    return prod(found.shape[k] for k in reductions.normalize_axes(axis, found.ndim))


def astype(a: Any, dtype: Any, /, *, copy: bool = True, device: Device | str | None = None) -> Array:
    """Cast an array to a dtype, as `numpy.astype`. Out-of-range floats saturate, and NaN becomes 0.

    Examples
    --------
    >>> wf.astype(wf.asarray([1.7, -2.7, np.nan]), np.int32)
    array([ 1, -2,  0], dtype=int32)
    """
    return methods.astype(asarray(a) if isinstance(a, np.ndarray | np.generic) else a, dtype, copy=copy)


def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    """Return whether two arrays share memory, as `numpy.shares_memory`.

    Examples
    --------
    >>> x = wf.arange(4)
    >>> wf.shares_memory(x[::2], x[1::2])
    False
    """
    if isinstance(a, Array) and isinstance(b, Array):  # (equal arrays may lie at one place as long as nobody writes)
        if a._storage is not b._storage:
            return False
    return np.shares_memory(to_host(a), to_host(b), max_work)


def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    """Return whether two arrays may share memory, as `numpy.may_share_memory`.

    Examples
    --------
    >>> x = wf.arange(4)
    >>> wf.may_share_memory(x, x[1:])
    True
    """
    # NumPy's arrays made from weft's are read-only and hold its memory for as long as neither is written to
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Array) and isinstance(other, np.ndarray) and not other.flags.writeable:
            return True
    return shares_memory(a, b, max_work)


def copyto(dst: Output, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Copy values to an array, as `numpy.copyto`.

    Examples
    --------
    >>> x = wf.zeros(4)
    >>> wf.copyto(x, [1, 2, 3, 4], where=[True, False, True, False])
    >>> x
    array([1., 0., 3., 0.])
    """
    source = src if isinstance(src, (bool, int, float, complex)) else asarray(src)
    if not np.can_cast(np.min_scalar_type(source) if source is src else source.dtype, dst.dtype, casting):  # type: ignore[arg-type, union-attr]
        raise TypeError(
            f"Cannot cast from {np.result_type(source)!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    if where is not True:
        # (cast first: two integer dtypes may have none in common but a float)
        typed = source.astype(dst.dtype) if isinstance(source, Array) else source
        source = selecting.where(where, typed, dst)
    dst[...] = source
