"""Functions that select, compare and remove elements, composed of other functions.

In: arrays. Out: recorded arrays, which fuse with other operations. Invariant: rare options use NumPy on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of, write
from weft.dsl.arrays.axes import normalize_axis
from weft.dsl.arrays.delivery import as_array
from weft.dsl.arrays.indexing import nonzero
from weft.dsl.arrays.recalled import recalled
from weft.dsl.functions.joining import concatenate, stack
from weft.dsl.functions.manipulation import ravel
from weft.dsl.functions.selecting import where
from weft.dsl.functions.sorting import on_host
from weft.fusion import cast

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output

_WEAK = (int, float, complex)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Take each element from the first choice whose condition holds there, as `numpy.select`.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.select([x < 2, x > 3], [-x, x * 10], default=0)
    array([ 0, -1,  0,  0, 40, 50])
    """
    conditions = [c if isinstance(c, Array) else np.asarray(c) for c in condlist]
    if not conditions or len(conditions) != len(choicelist) or any(c.dtype != np.bool_ for c in conditions):
        return on_host(np.select, condlist, choicelist, default)  # says what is wrong
    choices = [c if type(c) in _WEAK or isinstance(c, Array) else np.asarray(c) for c in (*choicelist, default)]
    kind = np.result_type(*(c.dtype if isinstance(c, Array) else c for c in choices))
    *options, found = (c if isinstance(c, Array) else np.asarray(c) for c in choices)
    if kind.kind not in "biufc" or not all(np.can_cast(c.dtype, kind, "same_kind") for c in options):
        return on_host(np.select, condlist, choicelist, default)  # (or it says so)
    *options, found = (c.astype(kind) for c in (*options, found))
    for condition, option in zip(reversed(conditions), reversed(options), strict=True):
        found = where(condition, option, found)
    return found


def nan_to_num(x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaNs and infinities by numbers, as `numpy.nan_to_num`.

    Examples
    --------
    >>> wf.nan_to_num([1.0, np.nan, np.inf], posinf=9.0)
    array([1., 0., 9.])
    """
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


@recalled
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Any:
    """Test whether elements are equal within a tolerance, as `numpy.isclose`.

    Examples
    --------
    >>> wf.isclose([1.0, 2.0], [1.0, 2.1])
    array([ True, False])
    """
    x, y = as_array(a), as_array(b)
    if y.dtype.kind in "biu":
        y = y.astype(np.result_type(y.dtype, 1.0))  # type: ignore[attr-defined]
    near = abs(x - y) <= atol + rtol * abs(y)  # type: ignore[operator, arg-type]
    found = (near & np.isfinite(y)) | (x == y)  # type: ignore[call-overload]
    return found | ((x != x) & (y != y)) if equal_nan else found


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> bool:
    """Test whether all elements are equal within a tolerance, as `numpy.allclose`.

    Examples
    --------
    >>> wf.allclose([1.0, 2.0], [1.0, 2.0 + 1e-10])
    True
    """
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Test whether two arrays have the same shape and elements, as `numpy.array_equal`.

    Examples
    --------
    >>> wf.array_equal([1, 2], [1, 2])
    True
    """
    if not isinstance(a1, Array) or not isinstance(a2, Array):
        return bool(on_host(np.array_equal, a1, a2, equal_nan))
    if a1.shape != a2.shape:
        return False
    same: Any = a1 == a2
    if equal_nan:
        same = same | ((a1 != a1) & (a2 != a2))
    return bool(same.all())


def extract(condition: ArrayLike, arr: ArrayLike) -> Any:
    """Return the elements where a condition holds, as `numpy.extract`.

    Examples
    --------
    >>> x = wf.arange(6)
    >>> wf.extract(x % 2 == 0, x)
    array([0, 2, 4])
    """
    test = ravel(as_array(condition))
    return ravel(as_array(arr))[_positions(test)]  # type: ignore[index]


def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Output | None = None) -> Any:
    """Return the slices along an axis where a condition holds, as `numpy.compress`.

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
    place = normalize_axis(axis, array.ndim)
    return array[(slice(None),) * place + (_positions(test),)]  # type: ignore[index]


def _positions(test: Any) -> Any:
    """Return the indices where a 1-D condition holds."""
    return nonzero(test)[0]


def flatnonzero(a: ArrayLike) -> Any:
    """Return the indices of nonzero elements in the flat array, as `numpy.flatnonzero`.

    Examples
    --------
    >>> wf.flatnonzero([[0, 7], [8, 0]])
    array([1, 2])
    """
    return nonzero(ravel(as_array(a)))[0]


def argwhere(a: ArrayLike) -> Any:
    """Return the indices of nonzero elements, one row each, as `numpy.argwhere`.

    Examples
    --------
    >>> wf.argwhere([[0, 1], [1, 0]])
    array([[0, 1],
           [1, 0]])
    """
    array = as_array(a)
    return stack(nonzero(array), axis=1) if array.ndim else on_host(np.argwhere, a)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
    """Append values to an array, as `numpy.append`.

    Examples
    --------
    >>> wf.append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    parts = [as_array(arr), as_array(values)]
    return concatenate([ravel(p) for p in parts]) if axis is None else concatenate(parts, axis=axis)


def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Any:
    """Return an array without some slices along an axis, as `numpy.delete`.

    Examples
    --------
    >>> wf.delete([1, 2, 3, 4], 1)
    array([1, 3, 4])
    """
    array = as_array(arr)
    if axis is None:
        array, axis = ravel(array), 0
    place = normalize_axis(axis, array.ndim)
    which = obj if isinstance(obj, slice) else np.asarray(obj) if isinstance(obj, Array) else obj
    kept = np.delete(np.arange(array.shape[place]), which)
    return array[(slice(None),) * place + (kept,)]  # type: ignore[index]


__all__ = [
    "allclose",
    "append",
    "argwhere",
    "array_equal",
    "compress",
    "delete",
    "extract",
    "flatnonzero",
    "isclose",
    "nan_to_num",
    "select",
]
