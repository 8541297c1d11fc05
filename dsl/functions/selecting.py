"""Selection by conditions, bounds and indices: `where`, `clip` and `take`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import find_op, is_bfloat16, resolve_dtypes
from weft.dsl.arrays.array import Array, as_operand, expr_of, start
from weft.dsl.arrays.axes import normalize_axis
from weft.dsl.arrays.call_sites import apply
from weft.dsl.arrays.delivery import as_array, deliver
from weft.dsl.arrays.indexing import getitem, nonzero
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.functions.creation import asarray
from weft.dsl.functions.manipulation import ravel

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output


@memoized
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Any:
    """Return `x` where the condition holds and `y` elsewhere.

    With only a condition, return the indices where it holds.

    Examples
    --------
    >>> x = wf.arange(5)
    >>> wf.where(x < 3, x, 10 * x)
    array([ 0,  1,  2, 30, 40])
    """
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    test: Any = asarray(condition)
    if test.dtype.kind != "b":
        test = test != 0
    return apply("where", test, x, y)


_WEAK = {bool, int, float, complex}


def _within(bound: Any, dtype: np.dtype) -> Any:
    """Clip a Python integer bound to the range of an integer dtype. The clipped bound has the same effect."""
    if type(bound) is not int or dtype.kind not in "iu":
        return bound
    limits = np.iinfo(dtype)
    return builtins.max(limits.min, builtins.min(limits.max, bound))


def _bounds_of_clip(a_min: Any, a_max: Any, min: Any, max: Any) -> tuple[Any, Any]:
    """Return the lower and upper bound, which are passed as `a_min` and `a_max` or as `min` and `max`."""
    if a_min is ... and a_max is ...:
        return (None if min is ... else min), (None if max is ... else max)
    if min is not ... or max is not ...:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    for name, bound in (("a_min", a_min), ("a_max", a_max)):
        if bound is ...:
            raise TypeError(f"clip() missing 1 required positional argument: {name!r}")
    return a_min, a_max


@memoized
def clip(
    a: ArrayLike,
    min: Any = ...,
    max: Any = ...,
    out: Output | None = None,
    *,
    a_min: Any = ...,
    a_max: Any = ...,
    **options: Any,
) -> Any:
    """Limit elements to an interval. The bounds have the names of the array API standard, or NumPy's.

    Examples
    --------
    >>> wf.clip([-2, 0, 5], 0, 3)
    array([0, 0, 3])
    """
    low, high = _bounds_of_clip(a_min, a_max, min, max)
    if options:
        return call_numpy(np.clip, (a, low, high, out), options)
    result = asarray(a)
    if is_bfloat16(result.dtype):
        result = result.astype(np.float32)  # as NumPy does, which has no bfloat16 loop
    start()
    if low is None and high is None and out is None:
        return result.copy()
    if low is not None and high is not None and not {type(low), type(high)} <= _WEAK:
        # NumPy promotes all three together: uint8 with a float16 bound and 3.5 gives float16.
        kinds = [type(x) if type(x) in _WEAK else as_array(x).dtype for x in (low, high)]
        result = result.astype(resolve_dtypes(find_op("clip"), (result.dtype, *kinds))[1], copy=False)
    low, high = _within(low, result.dtype), _within(high, result.dtype)
    if low is not None:
        result = UFUNCS["maximum"](result, low)
    if high is not None:
        result = UFUNCS["minimum"](result, high)
    return result if out is None else deliver("clip", as_operand(result)[0], out)


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Output | None = None, mode: str = "raise"
) -> Any:
    """Take elements at indices along an axis.

    Examples
    --------
    >>> wf.take([10, 20, 30], [2, 0])
    array([30, 10])
    """
    array = as_array(a)
    if axis is None or not array.ndim:
        array, axis = ravel(array), 0 if axis is None else axis
    place = normalize_axis(axis, array.ndim)
    given = isinstance(indices, (Array, np.ndarray))
    which: Any = indices if given else np.asarray(indices, np.intp)
    if which.dtype.kind not in "iu":
        if which.dtype.kind != "b":
            raise TypeError(
                f"Cannot cast array data from {which.dtype!r} to dtype('int64') according to the rule 'safe'"
            )
        which = which.astype(np.int64)  # (bools are integers here, not a mask)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    length = array.shape[place]
    if mode != "raise" and not length and which.size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        which = which.astype(np.int64)  # (a narrow dtype may not hold the length)
        which = which % length if which.size else which
    elif mode == "clip":
        which = clip(which, 0, length - 1) if isinstance(which, Array) else np.clip(which, 0, length - 1)
    if which.ndim == 0:
        which = int(which)
    result = getitem(array, (slice(None),) * place + (which,))
    if isinstance(which, int):
        result = result.copy()
    return result if out is None else deliver("positive", expr_of(result), out, casting="unsafe")
