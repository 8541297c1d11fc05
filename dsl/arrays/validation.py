"""Checks of dtypes, shapes, axes, memory orders and masks, with NumPy's errors and warnings."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from weft.codegen import is_supported
from weft.runtime import public_error, warn_user

# The major and minor version of the installed NumPy. If NumPy's versions differ, weft behaves like this one.
NUMPY_VERSION = tuple(int(part) for part in np.__version__.split(".")[:2])


@public_error
class UnsupportedDtypeError(TypeError):
    """Raised for dtypes that weft does not support, such as text, objects, dates and records.

    Examples
    --------
    >>> wf.vectorize(lambda x: x)(np.array(["a"]))
    Traceback (most recent call last):
        ...
    weft.UnsupportedDtypeError: weft arrays hold bool, integers, floats (bfloat16 too) and complex numbers, not <U1
    """

    def __init__(self, dtype: Any) -> None:
        super().__init__(f"weft arrays hold bool, integers, floats (bfloat16 too) and complex numbers, not {dtype}")


class ForeignOperandError(UnsupportedDtypeError):
    """Raised for an operand of another library's type, so that NumPy calls that library."""

    def __init__(self) -> None:
        TypeError.__init__(self, "this operand is of another library: NumPy's function asks it")


@public_error
class MaskedArrayError(UnsupportedDtypeError):
    """Raised for a masked array, because a conversion to a weft array would lose the mask.

    Examples
    --------
    >>> wf.vectorize(lambda x: x)(np.ma.array([1.0, 2.0], mask=[False, True]))
    Traceback (most recent call last):
        ...
    weft.MaskedArrayError: weft arrays have no masks: fill the gaps first (x.filled(0)), or use numpy.ma's functions
    """

    def __init__(self) -> None:
        TypeError.__init__(
            self, "weft arrays have no masks: fill the gaps first (x.filled(0)), or use numpy.ma's functions"
        )


# NumPy's error for an assignment to `shape` that would need a copy.
NO_VIEW = "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the desired shape."


def warn_of_lost_parts(source: np.dtype, target: np.dtype) -> None:
    """Emit NumPy's warning for a cast from complex to real, which discards the imaginary part."""
    if source.kind == "c" and target.kind not in "cb":
        warn_user("Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning)


def warn_deprecation(since: tuple[int, int], message: str) -> None:
    """Emit a DeprecationWarning at the user's line if NumPy is at least version `since`."""
    if since <= NUMPY_VERSION:
        warn_user(message, DeprecationWarning)


def warn_of_uninitialized(where: Any) -> None:
    """Warn, as NumPy 2.4 and later do, if a ufunc is called with the argument `where` (a mask) but without `out`."""
    if where is not True and NUMPY_VERSION >= (2, 4):
        warn_user(
            "'where' used without 'out', expect uninitialized memory in output. If this is intentional, use out=None."
        )


def check_unmasked(value: object) -> None:
    """Raise MaskedArrayError for a `numpy.ma` array that has a mask."""
    if type(value) is not np.ndarray and isinstance(value, np.ndarray) and hasattr(value, "_sharedmask"):
        if np.ma.getmask(value) is not np.ma.nomask:
            raise MaskedArrayError


MOST_ELEMENTS = 1 << 59  # of up to 16 bytes each, so that sizes in bytes fit into 64 bits
MOST_AXES = 64  # NumPy's limit: results are converted to NumPy arrays


def check_order(order: Any) -> str:
    """Return a memory order in upper case ("C" for None), or raise NumPy's ValueError for an unknown order."""
    if order not in (None, "C", "F", "A", "K", "c", "f", "a", "k"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return "C" if order is None else str(order).upper()


def check_new_order(order: Any) -> str:
    """Return the memory order of a new array, "C" or "F", or raise NumPy's ValueError for any other order."""
    order = check_order(order)
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    return order


def as_shape(shape: Any, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
    """Convert an int or a sequence of ints to a shape.

    Raises ValueError for negative lengths and for more than `most` elements.
    """
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    elif shape is None:
        raise TypeError("Use () not None as shape arguments")
    elif hasattr(shape, "tolist"):  # an array of lengths
        shape = shape.tolist()
        shape = shape if isinstance(shape, list) else (shape,)
    elif not hasattr(shape, "__iter__"):
        raise TypeError(f"expected a sequence of integers or a single integer, got {shape!r}")
    result = tuple(map(operator.index, shape))
    if bool in map(type, shape):
        raise TypeError("an integer is required")
    if min(result, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    if prod(result) > most:
        raise ValueError(
            f"array is too big: {' x '.join(map(str, result))} elements are more than memory can be addressed"
        )
    check_axes(len(result))
    return result


def check_axes(count: int) -> None:
    """Raise NumPy's ValueError if an array would have too many axes."""
    if count > MOST_AXES:
        raise ValueError(f"maximum supported dimension for an ndarray is currently {MOST_AXES}, found {count}")


def as_dtype(dtype: Any, default: Any = np.float64) -> np.dtype:
    """Convert `dtype` (`default` for None) to a NumPy dtype, or raise TypeError if weft does not support it."""
    found = np.dtype(default if dtype is None else dtype)
    if not found.isnative or not is_supported(found):
        raise UnsupportedDtypeError(found)
    return found


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Convert axes to a tuple of non-negative integers, or raise AxisError for an axis out of bounds.

    As in NumPy's compiled functions, axes are an integer, a tuple of integers, or None for all axes. Lists and bools
    raise a TypeError, and duplicate axes raise a ValueError.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    if any(isinstance(a, (bool, np.bool)) for a in given):
        raise TypeError("an integer is required for the axis")
    found = tuple(normalize_axis(a, ndim) for a in given)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def normalize_axis(axis: Any, ndim: int) -> int:
    """Convert an axis to a non-negative integer, or raise AxisError if it is out of bounds."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return int(number % ndim)
