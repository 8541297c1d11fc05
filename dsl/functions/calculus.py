"""Differences, gradients, cross products, interpolation and cumulative sums.

In: arrays. Out: recorded arrays, which fuse with other operations. Invariant: except for cumulative sums, the
operations are executed in NumPy's order, so results are bit-identical to NumPy's. Rare options use NumPy on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.memory_order import memory_order, permuted, unpermuted
from weft.dsl.arrays.positions import element_at, rank
from weft.dsl.arrays.results import as_array, single_output
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.validation import normalize_axis
from weft.dsl.functions.histograms import FEW
from weft.dsl.functions.joining import concatenate, stack
from weft.dsl.functions.manipulation import moveaxis, ravel
from weft.dsl.functions.reductions import accumulate
from weft.dsl.functions.selection import where
from weft.dsl.functions.sorting import on_host
from weft.fusion import cast, constant
from weft.runtime import device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output

_INT64 = np.dtype(np.int64)


def gradient(f: Any, *varargs: Any, axis: int | None = None, edge_order: int = 1) -> Any:
    """Compute the gradient by central differences, one-sided at the ends, like `numpy.gradient`.

    Examples
    --------
    >>> wf.gradient([1.0, 4.0, 9.0, 16.0])
    array([3., 4., 6., 7.])
    """
    values = as_array(f)
    axes = normalize_axis_tuple(range(values.ndim) if axis is None else axis, values.ndim)
    steps = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    even = all(np.ndim(h) == 0 and not isinstance(h, Array) for h in steps) and len(steps) == len(axes)
    long = all(values.shape[k] > edge_order for k in axes)
    if not even or not long or edge_order not in (1, 2) or values.dtype.kind not in "iuf":
        return on_host(np.gradient, f, *varargs, axis=axis, edge_order=edge_order)
    if values.dtype.kind != "f":
        values = values.astype(np.float64)  # type: ignore[attr-defined]
    order = memory_order([values])
    if order is None:
        found = tuple(_slope(values, k, h, edge_order) for k, h in zip(axes, steps, strict=True))
    else:
        rows, positions = permuted(values, order), [order.index(k) for k in axes]
        slopes = (_slope(rows, k, h, edge_order) for k, h in zip(positions, steps, strict=True))
        found = tuple(unpermuted(slope, order) for slope in slopes)
    return found[0] if len(axes) == 1 else found


def _slope(values: Array, axis: int, h: Any, edge_order: int) -> Any:
    before = (slice(None),) * axis

    def x(start: int | None, stop: int | None) -> Any:
        return values[(*before, slice(start, stop))]

    inner = (x(2, None) - x(None, -2)) / (2.0 * h)
    if edge_order == 1:
        first, last = (x(1, 2) - x(None, 1)) / h, (x(-1, None) - x(-2, -1)) / h
    else:
        first = (-1.5 / h) * x(None, 1) + (2.0 / h) * x(1, 2) + (-0.5 / h) * x(2, 3)
        last = (0.5 / h) * x(-3, -2) + (-2.0 / h) * x(-2, -1) + (1.5 / h) * x(-1, None)
    return concatenate([first, inner, last], axis).astype(values.dtype)


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Any:
    """Return the differences between consecutive elements, like `numpy.ediff1d`.

    The array is flattened.

    Examples
    --------
    >>> wf.ediff1d([1, 4, 9, 16], to_begin=0)
    array([0, 3, 5, 7])
    """
    if to_end is not None or to_begin is not None:
        return on_host(np.ediff1d, ary, to_end, to_begin)
    flat: Any = ravel(as_array(ary))
    return flat[1:] - flat[:-1]


@memoized
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Any:
    """Compute the cross product of vectors, like `numpy.cross`.

    Examples
    --------
    >>> wf.cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    left, right = as_array(a), as_array(b)
    pair = ((left, axisa), (right, axisb))
    if not all(v.ndim and -v.ndim <= k < v.ndim and v.shape[k] == 3 for v, k in pair):
        return on_host(np.cross, a, b, axisa, axisb, axisc, axis)
    x, y = ([moveaxis(v, k, 0)[n] for n in range(3)] for v, k in pair)  # type: ignore[index]
    parts = [x[k - 2] * y[k - 1] - x[k - 1] * y[k - 2] for k in range(3)]
    return moveaxis(stack(parts, axis=-1), -1, axisc)


def interp(
    x: Any, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: float | None = None
) -> Any:
    """Interpolate linearly between data points at the positions `x`, like `numpy.interp`.

    Examples
    --------
    >>> wf.interp([0.5, 1.5], [0, 1, 2], [0.0, 10.0, 0.0])
    array([5., 5.])
    """
    here = isinstance(x, Array) and x.dtype.kind in "biuf" and (x.size > FEW or is_gpu(x.device))  # type: ignore[attr-defined]
    plain = period is None and all(v is None or type(v) in (int, float) for v in (left, right))
    if not here or not plain or np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp) or np.size(xp) < 2:
        return on_host(np.interp, x, xp, fp, left, right, period)
    # (the slope beyond the last point is 0 / 0, which some operations below compute immediately)
    with device(x.device), np.errstate(all="ignore"):
        points = [as_array(v) for v in (xp, fp)]
        if any(v.dtype.kind == "c" for v in points):
            return on_host(np.interp, x, xp, fp, left, right, period)
        marks, heights = (v.astype(np.float64) for v in points)  # type: ignore[attr-defined]
        values = x.astype(np.float64)  # type: ignore[attr-defined]
        n = marks.shape[0]
        start()
        index = record(cast(rank(expr_of(marks), expr_of(values), "right", _INT64), _INT64)) - 1  # type: ignore[operator]
        ends = [expr_of(as_array(np.clip(index + k, 0, n - 1))) for k in (0, 1)]
        (low, high), (low_value, high_value) = (
            [record(element_at(expr_of(v), end, 0)) for end in ends] for v in (marks, heights)
        )
        slope = (high_value - low_value) / (high - low)
        found = slope * (values - low) + low_value
        found = where(found == found, found, slope * (values - high) + high_value)
        found = where((found != found) & (low_value == high_value), low_value, found)
        found = where((values == low) | (index >= n - 1), low_value, found)
        found = where(values < marks[0], heights[0] if left is None else float(left), found)
        found = where(values > marks[n - 1], heights[n - 1] if right is None else float(right), found)
        return where(values != values, values, found)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Output | None = None,
    include_initial: bool = False,
) -> Any:
    """Return the cumulative sum along an axis, as the array API standard defines it.

    Examples
    --------
    >>> wf.cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    values = as_array(x)
    if axis is None:
        values = values if values.ndim else values.reshape(1)  # type: ignore[attr-defined]
        if values.ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    if not include_initial:
        return accumulate("add", values, axis, dtype, single_output(out, True))
    axis_number = normalize_axis(axis, values.ndim)
    if out is not None:
        lead: tuple[Any, ...] = (slice(None),) * axis_number
        accumulate("add", values, axis_number, dtype, out[(*lead, slice(1, None))])
        out[(*lead, 0)] = 0
        return out
    found = accumulate("add", values, axis_number, dtype)
    first = record(constant(0, found.dtype, (*values.shape[:axis_number], 1, *values.shape[axis_number + 1 :])))
    return concatenate([first, found], axis_number)
