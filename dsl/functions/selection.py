"""Functions that select, compare, replace, append and remove elements.

In: arrays. Out: recorded arrays, which fuse with other operations. Invariant: rare options use NumPy on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import find_op, is_bfloat16, resolve_dtypes
from weft.dsl.arrays.array import Array, Scalar, as_operand, convert, expr_of, start, write
from weft.dsl.arrays.call_sites import apply
from weft.dsl.arrays.indexing import getitem, nonzero
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import array_output, as_array, return_result, single_output, to_python
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.ufunc import UFUNCS
from weft.dsl.arrays.validation import NUMPY_VERSION, normalize_axis, warn_deprecation
from weft.dsl.functions.creation import arange, asarray
from weft.dsl.functions.joining import concatenate
from weft.dsl.functions.manipulation import broadcast_to, ravel
from weft.dsl.functions.sorting import on_host
from weft.dsl.immediate.at_call import MISSED, call_small
from weft.fusion import cast
from weft.runtime import warn_user

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output


@memoized
def where(condition: ArrayLike, x: Any = ..., y: Any = ..., /) -> Any:
    """Return elements of `x` where the condition is true, and elements of `y` elsewhere.

    If only a condition is given, return the indices of its true elements.

    Examples
    --------
    >>> x = wf.arange(5)
    >>> wf.where(x < 3, x, 10 * x)
    array([ 0,  1,  2, 30, 40])
    """
    if x is ... and y is ...:
        return nonzero(condition)
    if x is ... or y is ...:
        raise ValueError("either both or neither of x and y should be given")
    if x is None or y is None:  # (the result is an array of objects)
        return on_host(np.where, condition, x, y)
    test: Any = asarray(condition)
    if test.dtype.kind != "b":
        test = test != 0
    return apply("where", test, _wrapped(x, y), _wrapped(y, x))


_WEAK = {bool, int, float, complex}


def _wrapped(number: Any, other: Any) -> Any:
    """Wrap a Python int that is out of range for the dtype of `other`, as `numpy.where` does before NumPy 2.5.

    The dtype must be an integer dtype, or bool, which counts as int64. Ints that do not fit in 64 bits, and values that
    are not Python ints, are returned unchanged.
    """
    if NUMPY_VERSION >= (2, 5):
        return number
    kind = getattr(getattr(other, "dtype", None), "kind", "")
    if type(number) is not int or kind not in ("b", "i", "u"):
        return number
    dtype = other.dtype if kind != "b" else np.dtype(np.int64)
    limits = np.iinfo(dtype)
    if limits.min <= number <= limits.max or not -(2**63) <= number < 2**64:
        return number
    return np.asarray(number).astype(dtype)[()]


def _bounds_of_clip(a_min: Any, a_max: Any, min: Any, max: Any) -> tuple[Any, Any]:
    """Return the bounds of `clip` from `a_min` and `a_max`, or from `min` and `max`."""
    if a_min is ... and a_max is ...:
        return (None if min is ... else min), (None if max is ... else max)
    for name, bound in (("a_min", a_min), ("a_max", a_max)):
        if bound is ...:
            raise TypeError(f"clip() missing 1 required positional argument: {name!r}")
    if min is not ... or max is not ...:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    return a_min, a_max


@memoized
def clip(
    a: ArrayLike,
    a_min: Any = ...,
    a_max: Any = ...,
    out: Output | None = None,
    *,
    min: Any = ...,
    max: Any = ...,
    **options: Any,
) -> Any:
    """Limit elements to an interval, like `numpy.clip`.

    The bounds can be passed as `a_min` and `a_max`, or as keyword arguments `min` and `max` (array API standard).

    Examples
    --------
    >>> wf.clip([-2, 0, 5], 0, 3)
    array([0, 0, 3])
    """
    low, high = _bounds_of_clip(a_min, a_max, min, max)
    out = single_output(out)
    if options:
        return call_numpy(np.clip, (a, low, high, out), options)
    result = asarray(a)
    if is_bfloat16(result.dtype):
        result = result.astype(np.float32)  # as in NumPy, which has no bfloat16 loop
    start()
    if low is not None and high is not None and not {type(low), type(high)} <= _WEAK:
        # NumPy promotes all three together: uint8 with a float16 bound and 3.5 gives float16.
        kinds = [type(x) if type(x) in _WEAK else as_array(x).dtype for x in (low, high)]
        result = result.astype(resolve_dtypes(find_op("clip"), (result.dtype, *kinds))[1], copy=False)
    if low is None and high is None:
        return UFUNCS["positive"](result, out=out)  # (raises an error for bools)
    if result.dtype.kind in "iu":  # (a bound that no element exceeds has no effect, and may be out of range)
        limits = np.iinfo(result.dtype)
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is None and high is None and out is None:
        return result.copy()
    scalars = low is not None and high is not None and np.ndim(low) == np.ndim(high) == 0
    for name, bound in (("maximum", low), ("minimum", high)):
        if bound is not None:
            # (of two zeros, the ufuncs return the second, and NumPy's `clip` between scalars keeps the element)
            result = UFUNCS[name](bound, result) if scalars else UFUNCS[name](result, bound)
    return result if out is None else return_result("clip", as_operand(result)[0], out)


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Output | None = None, mode: str = "raise"
) -> Any:
    """Return the elements at the given indices along an axis, by default of the flattened array.

    Examples
    --------
    >>> wf.take([10, 20, 30], [2, 0])
    array([30, 10])
    """
    array = as_array(a)
    if axis is None or not array.ndim:
        array, axis = ravel(array), 0 if axis is None else axis
    axis_number = normalize_axis(axis, array.ndim)
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
    length = array.shape[axis_number]
    if mode != "raise" and not length and which.size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if mode == "wrap":
        which = which.astype(np.int64)  # (a narrow dtype may not hold the length)
        which = which % length if which.size else which
    elif mode == "clip":
        which = clip(which, 0, length - 1) if isinstance(which, Array) else np.clip(which, 0, length - 1)
    if which.ndim == 0:
        which = int(which)
    result = getitem(array, (slice(None),) * axis_number + (which,))
    if isinstance(which, int):
        result = result.copy()
    if out is None:
        return result
    if np.shape(array_output(out, "output must be an array")) != result.shape:
        raise ValueError("output array does not match result of ndarray.take")
    if not np.can_cast(result.dtype, getattr(out, "dtype", result.dtype), "same_kind"):
        warn_deprecation(
            (2, 5),
            "Implicit casting of output to a different kind is deprecated. "
            "In a future version, this will result in an error. (Deprecated NumPy 2.5)",
        )
    return return_result("positive", expr_of(result), out, casting="unsafe")


_PYTHON_NUMBERS = (int, float, complex)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Select each element from the first choice whose condition is true, like `numpy.select`.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.select([x < 2, x > 3], [-x, x * 10], default=0)
    array([ 0, -1,  0,  0, 40, 50])
    """
    conditions = [c if isinstance(c, Array) else np.asarray(c) for c in condlist]
    if not conditions or len(conditions) != len(choicelist) or any(c.dtype != np.bool_ for c in conditions):
        return on_host(np.select, condlist, choicelist, default)  # raises NumPy's error
    choices = [
        c if type(c) in _PYTHON_NUMBERS or isinstance(c, Array) else np.asarray(c) for c in (*choicelist, default)
    ]
    kind = np.result_type(*(c.dtype if isinstance(c, Array) else c for c in choices))
    *options, found = (c if isinstance(c, Array) else np.asarray(c) for c in choices)
    if kind.kind not in "biufc" or not all(np.can_cast(c.dtype, kind, "same_kind") for c in options):
        return on_host(np.select, condlist, choicelist, default)  # (or NumPy raises an error)
    *options, found = (c.astype(kind) for c in (*options, found))
    for condition, option in zip(reversed(conditions), reversed(options), strict=True):
        found = where(condition, option, found)
    return found


def nan_to_num(x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaNs and infinities, by default with finite numbers, like `numpy.nan_to_num`.

    Examples
    --------
    >>> wf.nan_to_num([1.0, np.nan, np.inf], posinf=9.0)
    array([1., 0., 9.])
    """
    if isinstance(x, np.ndarray) and not copy:  # (weft's array would be a copy)
        return np.nan_to_num(x, False, to_python(nan), to_python(posinf), to_python(neginf))
    copy = copy or type(x) is Scalar  # (a scalar is immutable)
    if copy:
        found = call_small(np.nan_to_num, (x,), {"nan": nan, "posinf": posinf, "neginf": neginf})
        if found is not MISSED:
            return found
    values = as_array(x)
    kind = values.dtype
    if kind.kind not in "biuf" or any(np.ndim(v) or isinstance(v, Array) for v in (nan, posinf, neginf)):
        return on_host(np.nan_to_num, x, copy=copy, nan=nan, posinf=posinf, neginf=neginf)
    if kind.kind != "f":
        return values.copy() if copy else values  # type: ignore[attr-defined]
    limits = np.finfo(kind)
    most, least = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    found = where(values == np.inf, kind.type(most), where(values == -np.inf, kind.type(least), values))
    found = where(values != values, kind.type(nan), found)
    if copy or not isinstance(x, Array):
        return found
    write(x, cast(expr_of(found), kind))
    return x


@memoized
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Any:
    """Test whether elements are equal within a tolerance, like `numpy.isclose`.

    Examples
    --------
    >>> wf.isclose([1.0, 2.0], [1.0, 2.1])
    array([ True, False])
    """
    # (as in NumPy, Python numbers are weak in the promotion of dtypes)
    x, y, rtol, atol = (v if isinstance(v, (int, float, complex)) else as_array(v) for v in (a, b, rtol, atol))
    if not isinstance(y, Array):
        x, y = as_array(x), float(y) if isinstance(y, int) else y
    elif y.dtype.kind in "biu":
        y = y.astype(np.result_type(y.dtype, 1.0))
    if not all(isinstance(v, Array) or np.isfinite(v) for v in (rtol, atol)):
        _report_tolerances(rtol, atol)
    near = abs(x - y) <= atol + rtol * abs(y)  # type: ignore[arg-type, operator]
    found = (near & np.isfinite(y)) | (x == y)  # type: ignore[call-overload, operator]
    return found | ((x != x) & (y != y)) if equal_nan else found


def _report_tolerances(rtol: object, atol: object) -> None:
    """Report tolerances that are not finite, as NumPy's error setting `invalid` requests.

    The setting selects a warning, a FloatingPointError, or no report.
    """
    text, rule = f"One of rtol or atol is not valid, atol: {atol}, rtol: {rtol}", np.geterr()["invalid"]
    if rule == "raise":
        raise FloatingPointError(text)
    if rule == "warn":
        warn_user(text, RuntimeWarning)


def extract(condition: ArrayLike, arr: ArrayLike) -> Any:
    """Return the elements for which a condition is true, like `numpy.extract`.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.extract(x % 2 == 0, x)
    array([0, 2, 4])
    """
    test = ravel(as_array(condition))
    return ravel(as_array(arr))[nonzero(test)[0]]  # type: ignore[index]


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Output | None = None) -> Any:
    """Return the slices along an axis for which a 1-D condition is true, like `numpy.compress`.

    Examples
    --------
    >>> wf.compress([True, False, True], [1, 2, 3])
    array([1, 3])
    """
    test = condition if isinstance(condition, Array) else np.asarray(condition)
    array = as_array(a)
    if out is not None or test.ndim != 1:
        return on_host(np.compress, condition, a, axis, out)
    if axis is None:
        array, axis = ravel(array), 0
    axis_number = normalize_axis(axis, array.ndim)
    return array[(slice(None),) * axis_number + (nonzero(test)[0],)]  # type: ignore[index]


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """Return a copy of an array with values appended, like `numpy.append`.

    Examples
    --------
    >>> wf.append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    parts = [as_array(arr), as_array(values)]
    return concatenate([ravel(p) for p in parts]) if axis is None else concatenate(parts, axis=axis)


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Any:
    """Return a copy of an array without the slices at given indices, like `numpy.delete`.

    Examples
    --------
    >>> wf.delete([1, 2, 3, 4], 1)
    array([1, 3, 4])
    """
    array = as_array(arr)
    if axis is None:
        array, axis = ravel(array), 0
    axis_number = normalize_axis(axis, array.ndim)
    which = obj if isinstance(obj, slice) else np.asarray(obj) if isinstance(obj, Array) else obj
    kept = np.delete(np.arange(array.shape[axis_number]), which)
    if array.flags.fnc:  # (the result has the order of the array, as in NumPy)
        return array.T[(slice(None),) * (array.ndim - 1 - axis_number) + (kept,)].T
    return array[(slice(None),) * axis_number + (kept,)]  # type: ignore[index]


def choose(a: ArrayLike, choices: Any, out: Output | None = None, mode: str = "raise") -> Any:
    """Select elements from the arrays in `choices` by index, like `numpy.choose`.

    Examples
    --------
    >>> wf.choose([0, 1, 0], [[1, 2, 3], [10, 20, 30]])
    array([ 1, 20,  3])
    """
    options = list(choices) if isinstance(choices, (Array, np.ndarray)) else choices
    which, given = as_array(a), [as_array(c) for c in options]
    if which.dtype.kind not in "biu" or not given or mode not in ("raise", "wrap", "clip"):
        return on_host(np.choose, a, choices, out, mode)
    count, number = len(given), which.astype(np.int64)  # type: ignore[attr-defined]
    if mode == "raise" and which.size and bool(((number < 0) | (number >= count)).any()):
        raise ValueError("invalid entry in choice array")
    number = number % count if mode == "wrap" else number.clip(0, count - 1)
    kind = np.result_type(*(c if type(c) in _PYTHON_NUMBERS else v.dtype for c, v in zip(options, given, strict=True)))
    shape = np.broadcast_shapes(which.shape, *(c.shape for c in given))
    if out is not None and np.shape(array_output(out, "output must be an array")) != shape:
        raise TypeError("choose: invalid shape for output array.")
    *others, found = (broadcast_to(c.astype(kind), shape) for c in given)  # type: ignore[attr-defined]
    for k in reversed(range(count - 1)):
        found = where(number == k, others[k], found)
    found = found if count > 1 else found.copy()
    return found if out is None else return_result("positive", expr_of(found), out, casting="unsafe")


def _as_stored(values: Any, dtype: np.dtype) -> Array:
    """Convert values to a 1-D array of the given dtype, or raise NumPy's TypeError for an unsafe cast of an array."""
    if not isinstance(values, (Array, np.ndarray, np.generic)):
        return convert(np.asarray(values, dtype).ravel())
    # (NumPy casts scalars by any rule)
    if not isinstance(values, (np.generic, Scalar)) and not np.can_cast(values.dtype, dtype, "safe"):
        raise TypeError(f"Cannot cast array data from {values.dtype!r} to {dtype!r} according to the rule 'safe'")
    return ravel(values).astype(dtype)  # type: ignore[attr-defined, no-any-return]


def place(arr: Array, mask: ArrayLike, vals: ArrayLike) -> None:
    """Assign values in order to the elements that a mask selects, like `numpy.place`.

    The values are repeated as needed.

    Examples
    --------
    >>> x = wf.arange(5)
    >>> wf.place(x, x > 1, [7, 8])
    >>> x
    array([0, 1, 7, 8, 7])
    """
    if not isinstance(arr, Array) or not is_gpu(arr.device):
        on_host(np.place, arr, mask, vals)
        return
    chosen = as_array(mask).astype(bool)  # type: ignore[attr-defined]
    if chosen.size != arr.size:
        raise ValueError("place: mask and data must be the same size")
    values = _as_stored(vals, arr.dtype)
    if not values.size:
        if bool(chosen.any()):
            raise ValueError("Cannot insert from an empty array!")
        return
    # (the number of selected elements before each selected element)
    rank = chosen.reshape(-1).astype(np.int64).cumsum() - 1
    taken = values[rank.clip(0) % values.size].reshape(arr.shape)
    write(arr, cast(expr_of(where(chosen.reshape(arr.shape), taken, arr)), arr.dtype))


def putmask(a: Array, /, mask: ArrayLike, values: ArrayLike) -> None:
    """Replace the elements of an array where a mask is true, like `numpy.putmask`.

    The new elements are those of `values` at the same positions. If `values` is shorter than the array, it is repeated.

    Examples
    --------
    >>> x = wf.arange(5)
    >>> wf.putmask(x, x > 2, x * 10)
    >>> x
    array([ 0,  1,  2, 30, 40])
    """
    if not isinstance(a, Array):
        on_host(np.putmask, a, mask, values)
        return
    chosen = as_array(mask).astype(bool)  # type: ignore[attr-defined]
    if chosen.size != a.size:
        raise ValueError("putmask: mask and data must be the same size")
    given = _as_stored(values, a.dtype)
    if not given.size:
        return
    whole = given if given.size == a.size else given[arange(a.size) % given.size]
    write(a, cast(expr_of(where(chosen.reshape(a.shape), whole.reshape(a.shape), a)), a.dtype))
