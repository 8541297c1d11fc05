"""Histograms, `bincount`, `searchsorted` and `digitize`.

In: arrays on a device. Out: recorded arrays on the same device. Only minima and maxima that determine a shape or bin
edges are evaluated. NumPy processes small arrays in host memory, and rare dtypes and options. Invariant: counts equal
NumPy's, including elements on an edge. Sums of weights do not depend on the order of the threads (`scatter.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, as_operand, convert, expr_of, record, start
from weft.dsl.arrays.on_host import to_host
from weft.dsl.arrays.positions import element_at, extremes, rank
from weft.dsl.arrays.scatter import is_gpu, scatter_reduce, sum_in_any_order
from weft.dsl.functions.selection import take
from weft.dsl.functions.sorting import on_host
from weft.fusion import (
    Expr,
    broadcast_to,
    cast,
    constant,
    current_epoch,
    map_,
    range_of,
    reshape,
    scatter,
    view,
)
from weft.runtime import Device, device

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike

# Number of values in host memory up to which NumPy is faster than a kernel.
FEW = 1 << 13
# Maximum number of bins of equal width for which the relative position of a value gives the value's bin or an adjacent
# bin despite rounding.
MOST_EVEN = 1 << 20
_INT32, _INT64, _FLOAT64 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)


def _weft_computes(values: Any, kinds: str) -> bool:
    """Return whether weft computes a histogram of `values` itself, instead of calling NumPy.

    weft computes histograms of more than `FEW` values (on a GPU, of any number) of a dtype whose kind is in `kinds`,
    except uint64 and float16.
    """
    if not isinstance(values, Array) or values.dtype.kind not in kinds or values.dtype in (np.uint64, np.float16):
        return False
    return values.size > FEW or (values.size > 0 and is_gpu(values.device))


# -- counting ---------------------------------------------------------------------------------


def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """Count the occurrences of each integer in `x`, like `numpy.bincount`.

    If `weights` is given, sum the weights of each integer instead.

    Examples
    --------
    >>> wf.bincount([0, 2, 2, 3], minlength=5)
    array([1, 0, 2, 1, 0])
    """
    if isinstance(minlength, Array) and not minlength.ndim and minlength.dtype.kind in "iu":
        minlength = int(minlength)
    fits = _weft_computes(x, "iu") and x.ndim == 1 and isinstance(minlength, (int, np.integer))
    if not fits or isinstance(minlength, bool) or minlength < 0 or not _are_weights(weights, x):
        return on_host(np.bincount, x, weights=weights, minlength=minlength)
    start()
    low, high = range_of(expr_of(x)) if x._storage.expr is not None else (-1, 0)
    if low < 0 or high >= minlength:  # otherwise the number of bins is known
        low, high = map(int, extremes(x))
        start()
    if low < 0:
        raise ValueError(f"the numbers that are counted may not be negative: {low}")
    length = max(high + 1, int(minlength))
    with device(x.device):
        # Clipping changes no value. It bounds the range of the indices.
        bounds = [constant(n, x.dtype) for n in (0, high)]
        index = map_("clip", [expr_of(x), *bounds])
        return record(_count(index, weights, length, _FLOAT64, x.device))


def _are_weights(weights: Any, x: Array) -> bool:
    return weights is None or (
        isinstance(weights, (Array, np.ndarray)) and weights.shape == x.shape and weights.dtype.kind in "biuf"
    )


def _count(index: Expr, weights: Any, length: int, kind: np.dtype, where: Device) -> Expr:
    """Count the occurrences of each index below `length`, or sum the weights at each index."""
    index = reshape(index, (index.size,))
    if weights is None:
        value = broadcast_to(constant(1, _INT64), index.shape)
    else:
        value = reshape(as_operand(weights)[0], index.shape)
        # (NumPy adds floats. Sums of 64-bit integers may be rounded, or too large for an integer.)
        if value.dtype.kind in "biu":
            value = cast(value, _INT64 if value.dtype.itemsize < 8 else _FLOAT64)
    if value.dtype.kind == "f":
        if is_gpu(where):
            return cast(sum_in_any_order(value, index, length, fine=True), kind)
        value = cast(value, _FLOAT64)
    none = broadcast_to(constant(0, value.dtype), (length,))
    found = scatter_reduce("add", none, value, index, where)
    if found is None:
        found = scatter(none, value, [index], ((0, (), 0),), index.shape, "add")
    return found if weights is None else cast(found, kind)


def histogram(
    a: Any, bins: ArrayLike | str = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> Any:
    """Return the number of values in each bin, and the bin edges, like `numpy.histogram`.

    Examples
    --------
    >>> counts, edges = wf.histogram([1, 2, 1, 4], bins=3)
    >>> counts
    array([2, 1, 1])
    >>> edges
    array([1., 2., 3., 4.])
    """
    bins, range = to_host(bins), to_host(range)
    several = np.ndim(bins) == 1 if not isinstance(bins, str) else None
    if several is None or not _weft_computes(a, "iuf") or not _are_weights(weights, a):
        return on_host(np.histogram, a, bins=bins, range=range, density=density, weights=weights)
    like: Any = np.empty(0, a.dtype)
    if not several and range is None:
        like = np.array(extremes(a), a.dtype)
    edges = np.histogram_bin_edges(like, bins, range)
    if len(edges) < 2:  # no bins
        return on_host(np.histogram, a, bins=bins, range=range, density=density, weights=weights)
    start()
    with device(a.device):
        count = len(edges) - 1
        inside, index = _bin_of(expr_of(a), edges, even=not several)
        index = map_("where", [inside, index, constant(count, _INT32)])
        kind = _INT64 if weights is None else weights.dtype
        counts = record(view(_count(index, weights, count + 1, kind, a.device), (count,), (1,), 0))
        if density:
            widths = np.array(np.diff(edges), float)
            counts = counts / widths / counts.sum()
        return counts, convert(edges)


def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Return a 2-D histogram and the bin edges of both axes, like `numpy.histogram2d`.

    Examples
    --------
    >>> counts, x_edges, y_edges = wf.histogram2d([0, 0, 1], [0, 1, 1], bins=2)
    >>> counts
    array([[1., 1.],
           [0., 1.]])
    """
    bins, range = to_host(bins), to_host(range)
    known = _weft_computes(x, "iuf") and _weft_computes(y, "iuf")
    alike = known and x.ndim == 1 and x.shape == y.shape and x.device is y.device
    if not alike or not _are_weights(weights, x):
        return on_host(np.histogram2d, x, y, bins=bins, range=range, density=density, weights=weights)
    pair = isinstance(bins, (list, tuple, np.ndarray)) and len(bins) == 2
    each = list(bins) if pair else [bins, bins]
    bounds = extremes(x, y)
    kind = np.result_type(x.dtype, y.dtype)
    _, *edges = np.histogram2d(np.array(bounds[:2], kind), np.array(bounds[2:], kind), bins, range)
    rows, columns = (len(e) - 1 for e in edges)
    if rows < 1 or columns < 1:  # no bins
        return on_host(np.histogram2d, x, y, bins=bins, range=range, density=density, weights=weights)
    start()
    with device(x.device):
        found = [
            _bin_of(cast(expr_of(v), kind), e, even=np.ndim(b) == 0)
            for v, e, b in zip((x, y), edges, each, strict=True)
        ]
        (inside, row), (also, column) = found
        index = map_("add", [map_("multiply", [row, constant(columns, _INT32)]), column])
        inside = map_("logical_and", [inside, also])
        index = map_("where", [inside, index, constant(rows * columns, _INT32)])
        counts = _count(index, weights, rows * columns + 1, _FLOAT64, x.device)
        result = record(cast(view(counts, (rows, columns), (columns, 1), 0), _FLOAT64))
        if density:
            area = np.diff(edges[0])[:, None] * np.diff(edges[1])
            result = result / area / result.sum()
        return result, *map(convert, edges)


def _bin_of(values: Expr, edges: np.ndarray, *, even: bool) -> tuple[Expr, Expr]:
    """Return a mask of the values between the first and the last edge, and the bin index of each value.

    A bin includes its lower edge. The last bin also includes its upper edge. `even` states that all bins have the same
    width.
    """
    marks = expr_of(convert(edges))
    last = len(edges) - 1
    epoch = current_epoch()
    first, end = (epoch.bind_scalar(edges[k], edges.dtype) for k in (0, -1))
    inside = map_("logical_and", [map_("greater_equal", [values, first]), map_("less_equal", [values, end])])
    most = constant(last - 1, _INT32)
    kind = np.result_type(edges.dtype, values.dtype)
    with np.errstate(all="ignore"):
        scale = last / (edges[-1].astype(kind) - edges[0].astype(kind))
    if not even or last > MOST_EVEN or not 0 < scale < np.inf:
        found = map_("subtract", [rank(marks, values, "right", _INT32), constant(1, _INT32)])
        return inside, map_("clip", [found, constant(0, _INT32), most])
    # The relative position of a value gives the value's bin or an adjacent bin.
    way = map_("subtract", [cast(values, kind), cast(first, kind)])
    share = map_("multiply", [way, epoch.bind_scalar(scale, kind)])
    guess = map_("clip", [cast(share, _INT32), constant(0, _INT32), most])
    lower, upper = (_edge(edges, marks, guess, k) for k in (0, 1))
    below = cast(map_("less", [values, lower]), _INT32)
    above = map_("logical_and", [map_("greater_equal", [values, upper]), map_("less", [guess, most])])
    return inside, map_("add", [map_("subtract", [guess, below]), cast(above, _INT32)])


def _edge(edges: np.ndarray, marks: Expr, position: Expr, offset: int) -> Expr:
    """Return the bin edges at the indices ``position + offset``.

    The edges are computed if the formula for bins of equal width reproduces all edges exactly, and otherwise loaded.
    """
    kind, last = edges.dtype, len(edges) - 1
    step = (edges[-1] - edges[0]) / kind.type(last)
    if kind.kind != "f" or not np.array_equal(np.arange(last, dtype=kind) * step + edges[0], edges[:-1]):
        return element_at(marks, position, offset)
    number = cast(position, kind)
    if offset:
        number = map_("add", [number, constant(offset, kind)])
    epoch = current_epoch()
    factor, first = (epoch.bind_scalar(v, kind) for v in (step, edges[0]))
    return map_("add", [map_("multiply", [number, factor]), first])


# -- among sorted values ------------------------------------------------------------------------


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the indices at which to insert values into a sorted array, like `numpy.searchsorted`.

    Examples
    --------
    >>> wf.searchsorted([1, 3, 5], [0, 3, 9], side='right')
    array([0, 2, 3])
    """
    marks_here = isinstance(a, Array) and is_gpu(a.device)
    given, v = v, convert(v, a.device) if marks_here and not isinstance(v, Array) else v
    ours = isinstance(v, Array) and (v.size > FEW or is_gpu(v.device)) and side in ("left", "right")
    if not ours or np.ndim(a) != 1 or (isinstance(a, Array) and a.device is not v.device):
        return on_host(np.searchsorted, a, given, side=side, sorter=sorter)
    with device(v.device):
        marks_of = a if isinstance(a, Array) else convert(a)
        kind = np.result_type(marks_of.dtype, v.dtype)
        if not marks_of.size or not v.size or kind.kind not in "iuf":
            return on_host(np.searchsorted, a, given, side=side, sorter=sorter)
        if sorter is not None:
            marks_of = take(marks_of, _checked_sorter(sorter, marks_of.size))
        start()
        marks = expr_of(marks_of)
        index = _INT32 if marks.size < 2**31 else _INT64
        return record(cast(rank(cast(marks, kind), cast(expr_of(v), kind), side, index), _INT64))


def _checked_sorter(sorter: Any, n: int) -> Any:
    """Return `sorter` as an array, or raise ValueError unless it consists of `n` indices from 0 to ``n - 1``."""
    if np.size(sorter) != n:
        raise ValueError("sorter.size must equal a.size")
    which = sorter if isinstance(sorter, Array) else np.asarray(sorter)
    if which.dtype.kind in "iu" and bool(((which < 0) | (which >= n)).any()):  # (`take` rejects other dtypes)
        raise ValueError("Sorter index out of range.")
    return which


def digitize(x: ArrayLike, bins: ArrayLike | str, right: bool = False) -> Any:
    """Return the bin index of each value, like `numpy.digitize`.

    Examples
    --------
    >>> wf.digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0])
    array([1, 4, 3])
    """
    if not isinstance(x, Array) or x.dtype.kind not in "iuf" or not (x.size > FEW or is_gpu(x.device)):
        return on_host(np.digitize, x, bins, right=right)
    edges = np.asarray(bins)
    np.digitize(np.empty(0), edges, right)  # raises NumPy's error for bins that are not monotonic
    side = "left" if right else "right"
    if not edges.size or edges[0] <= edges[-1]:
        return searchsorted(edges, x, side)
    return len(edges) - searchsorted(edges[::-1], x, side)
