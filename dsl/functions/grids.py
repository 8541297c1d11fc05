"""NumPy's `linspace` and `indices`, recorded as functions of the positions of the elements."""

from __future__ import annotations

import operator
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, convert, record
from weft.dsl.arrays.array import start as begin
from weft.dsl.arrays.validation import as_dtype, as_shape
from weft.dsl.functions.creation import device_context, empty
from weft.dsl.functions.joining import stack
from weft.dsl.immediate.at_call import NUMBERS
from weft.dsl.immediate.small_work import make_small
from weft.fusion import cast, constant, current_epoch, iota, map_, reshape
from weft.runtime import default_device, limit_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers over an interval, like `numpy.linspace`.

    Examples
    --------
    >>> wf.linspace(0, 1, 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    count = operator.index(num)
    with device_context(device):
        if _is_double(start) and _is_double(stop):
            spaced = _record_spaced(float(start), float(stop), count, endpoint, dtype)  # type: ignore[arg-type]
            if spaced is not None:
                return spaced if retstep else spaced[0]
        first, last = (v if type(v) in NUMBERS else np.asarray(v) for v in (start, stop))
        made: Any = np.linspace
        values = made(first, last, count, endpoint, retstep, dtype, axis)
        return (convert(values[0]), values[1]) if retstep else convert(values)


def _is_double(value: object) -> bool:
    """Return whether a bound of `linspace` is a float64, or an int of at most 2^53 in magnitude."""
    return type(value) in (float, np.float64) or (type(value) is int and abs(value) <= 1 << 53)


def _record_spaced(
    start: float, stop: float, count: int, endpoint: bool, dtype: DTypeLike
) -> tuple[Array, np.float64] | None:
    """Record NumPy's `linspace` formula, and return the array and the step.

    Return None if the result would be small or of a 16-bit float dtype, or if NumPy uses another formula or warns.
    """
    device = default_device()
    if count < 2 or (count <= limit_on(device.name) and device.small_on_host):
        return None
    step = (stop - start) / (count - 1 if endpoint else count)
    if not step or not isfinite(step):
        return None
    kind = as_dtype(dtype)
    if kind.itemsize == 2 and kind.kind not in "iu":  # (casts from float64 to 16-bit floats round twice)
        return None
    where = begin()
    current_epoch()
    double = np.dtype(np.float64)
    node = map_("multiply", [iota((count,), 0, double), constant(step, double)])
    node = map_("add", [node, constant(start, double)], location=None if endpoint else where)
    if endpoint:
        last = map_("equal", [iota((count,), 0, np.int64), constant(count - 1, np.int64)])
        node = map_("where", [last, constant(stop, double), node], location=where)
    if kind.kind in "iu":
        node = map_("floor", [node])
    return record(cast(node, kind)), np.float64(step)


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
    if not sparse:
        made = make_small(np.indices, prod(shape) * len(shape), shape, as_dtype(dtype))
        if made is not None:
            return made
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
