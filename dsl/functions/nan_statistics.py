"""Reductions, scans and statistics that ignore NaNs.

In: arrays. Out: recorded arrays, which fuse with the operations that compute their inputs. NumPy computes uncommon
dtypes and options. Invariant: if all elements are NaN and there is no initial value, then the maximum, the minimum, the
mean, the variance and the standard deviation are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import dtype_kind, is_half
from weft.dsl.arrays.array import Array, expr_of, record, start
from weft.dsl.arrays.docstrings import named
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.results import as_array, single_output, to_python
from weft.dsl.arrays.validation import normalize_axes
from weft.dsl.functions.reductions import make_reduction, make_scan, mean, reduce, std, var
from weft.dsl.functions.reductions import sum as sum_
from weft.dsl.functions.selection import where
from weft.dsl.functions.sorting import on_host
from weft.dsl.immediate.host_values import values_of
from weft.fusion import constant, map_
from weft.runtime import IMMEDIATE, warn_user

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, DTypeLike, Output, ShapeLike

_ANY = np._NoValue  # type: ignore[attr-defined]


def _weft_computes(values: Array, dtype: DTypeLike | None, out: Output | None, where_: Any) -> bool:
    """Return whether weft, rather than NumPy, computes a statistic of elements that may be NaN.

    True for real floats of at least 32 bits, if `dtype`, `out` and `where_` have their defaults.
    """
    return values.dtype.kind == "f" and not is_half(values.dtype) and dtype is None and out is None and where_ is _ANY


@memoized
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _ANY, *, where: Any = _ANY
) -> Any:
    """Return the mean of the elements that are not NaN, like `numpy.nanmean`.

    Examples
    --------
    >>> wf.nanmean([2.0, np.nan, 4.0])
    np.float64(3.0)
    """
    values = as_array(a)
    if values.dtype.kind in "biu" and out is None and where is _ANY:
        return mean(values, axis, dtype, None, keepdims)
    if not _weft_computes(values, dtype, out, where):
        return on_host(np.nanmean, a, axis, dtype, out, **_given(keepdims=keepdims, where=where))
    _warn_if_few(values, axis, 0, "Mean of empty slice")
    return _mean(values, axis, keepdims)


def _warn_if_few(values: Array, axis: ShapeLike | None, ddof: float, text: str) -> None:
    """Issue a RuntimeWarning with the message `text` if each result is computed from at most `ddof` elements.

    NaNs count as elements. Never warn for a 0-d array or an empty result.
    """
    if not values.ndim:
        return
    axes = normalize_axes(to_python(axis), values.ndim)
    lengths = [n for k, n in enumerate(values.shape) if k not in axes]
    if prod(values.shape[k] for k in axes) <= ddof and 0 not in lengths:
        warn_user(text, RuntimeWarning)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not _ANY}


def _numbers(values: Array) -> tuple[Array, Array]:
    """Return the elements with NaN replaced by 0, and a mask of the elements that are not NaN."""
    there = values == values
    return where(there, values, values.dtype.type(0)), there  # type: ignore[return-value]


def _mean(values: Array, axis: ShapeLike | None, keepdims: bool) -> Any:
    axis = to_python(axis)
    numbers, there = _numbers(values)
    total = sum_(numbers, axis, None, None, keepdims)
    return (total / sum_(there, axis, np.int64, None, keepdims)).astype(values.dtype)


def _variance(values: Array, axis: ShapeLike | None, ddof: Any, keepdims: bool) -> Any:
    axis, ddof = to_python(axis), to_python(ddof)
    centre = _mean(values, axis, True)
    numbers, there = _numbers(values)
    distance = where(there, numbers - centre, values.dtype.type(0))
    total = sum_(distance * distance, axis, None, None, keepdims)  # type: ignore[operator]
    rest = sum_(there, axis, np.int64, None, keepdims) - ddof
    return where(rest > 0, (total / rest).astype(values.dtype), values.dtype.type(np.nan))


def _spread(name: str, of_whole: Callable[..., Any], finish: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return an implementation of `nanvar` or `nanstd`, whichever `name` specifies.

    `finish` computes the statistic from the variance. `of_whole` computes the statistic of bools and integers.
    """

    def found(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: Any = 0,
        keepdims: Any = _ANY,
        *,
        where: Any = _ANY,
        mean: Any = _ANY,
        correction: Any = _ANY,
    ) -> Any:
        values = as_array(a)
        plain = mean is _ANY and correction is _ANY
        if values.dtype.kind in "biu" and out is None and where is _ANY and plain:
            return of_whole(values, axis, dtype, None, ddof, keepdims)
        if not plain or not _weft_computes(values, dtype, out, where):
            rare = _given(keepdims=keepdims, where=where, mean=mean, correction=correction)
            return on_host(getattr(np, name), a, axis, dtype, out, ddof, **rare)
        _warn_if_few(values, axis, to_python(ddof), "Degrees of freedom <= 0 for slice.")
        return finish(_variance(values, axis, ddof, keepdims))

    return memoized(named(name, found))


nanvar = _spread("nanvar", var, lambda variance: variance)
nanstd = _spread("nanstd", std, np.sqrt)


def _without_nan(neutral: float, a: ArrayLike) -> Array:
    """Return the elements with NaN replaced by `neutral`."""
    start()
    node = expr_of(as_array(a))
    if dtype_kind(node.dtype) in "fc":
        node = map_("where", [map_("isnan", [node]), constant(neutral, node.dtype), node])
    return record(node)


nansum = make_reduction("add", "nansum", partial(_without_nan, 0.0))
nanprod = make_reduction("multiply", "nanprod", partial(_without_nan, 1.0))
nancumsum = make_scan("add", "nancumsum", partial(_without_nan, 0.0))
nancumprod = make_scan("multiply", "nancumprod", partial(_without_nan, 1.0))


def _make_nan_extreme(op: str, name: str) -> Any:
    def function(
        a: ArrayLike,
        axis: ShapeLike | None = None,
        out: Output | None = None,
        keepdims: bool = False,
        initial: complex | None = None,
        where: ArrayLike = True,
    ) -> Any:
        # (NumPy warns if all elements of a small array of 16-bit floats are NaN)
        if isinstance(a, Array) and a.dtype.char == "e" and a.size <= IMMEDIATE[0] and values_of(a) is not None:
            rare = _given(initial=_ANY if initial is None else initial, where=_ANY if where is True else where)
            return on_host(getattr(np, name), a, axis, out, keepdims, **rare)
        return reduce(op, a, axis, None, single_output(out, True), keepdims, initial, where)

    return memoized(named(name, function))


nanmax = _make_nan_extreme("fmax", "nanmax")
nanmin = _make_nan_extreme("fmin", "nanmin")
