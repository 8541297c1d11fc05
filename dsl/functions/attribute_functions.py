"""Functions that return attributes of arrays, such as `shape` and `real`, and functions that test for shared memory."""

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
    return asarray(a).shape


def real(val: ArrayLike) -> Any:
    return val.real if isinstance(val, (int, float, complex)) else asarray(val).real


def imag(val: ArrayLike) -> Any:
    return val.imag if isinstance(val, (int, float, complex)) else asarray(val).imag


def ndim(a: ArrayLike) -> int:
    return asarray(a).ndim


def size(a: ArrayLike, axis: Any = None) -> int:
    found = asarray(a)
    return prod(found.shape[k] for k in reductions.normalize_axes(axis, found.ndim))


def astype(a: Any, dtype: Any, /, *, copy: bool = True, device: Device | str | None = None) -> Array:
    return methods.astype(asarray(a) if isinstance(a, np.ndarray | np.generic) else a, dtype, copy=copy)


def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    if isinstance(a, Array) and isinstance(b, Array):  # (copies may share memory until one of them is written)
        if a._storage is not b._storage:
            return False
    return np.shares_memory(to_host(a), to_host(b), max_work)


def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: Any = None) -> bool:
    # A read-only NumPy array may be made from a weft array, and shares its memory until either is written.
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Array) and isinstance(other, np.ndarray) and not other.flags.writeable:
            return True
    return shares_memory(a, b, max_work)


def copyto(dst: Output, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    source = src if isinstance(src, (bool, int, float, complex)) else asarray(src)
    if not np.can_cast(np.min_scalar_type(source) if source is src else source.dtype, dst.dtype, casting):  # type: ignore[arg-type, union-attr]
        raise TypeError(
            f"Cannot cast from {np.result_type(source)!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    if where is not True:
        # (Cast first: the only common dtype of two integer dtypes may be a float.)
        typed = source.astype(dst.dtype) if isinstance(source, Array) else source
        source = selecting.where(where, typed, dst)
    dst[...] = source
