"""Ufuncs that weft implements with functions of whole arrays. Examples are `divmod`, `vecdot` and `spacing`.

In: operands, and outputs by position or as `out`. Out: recorded arrays. Invariant: NumPy handles rare options, and
raises the errors for invalid operands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.dsl.arrays.array import Array, expr_of
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.arrays.foreign import has_foreign
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.results import as_array, return_result
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.arrays.ufunc import ABSENT, UFUNCS
from weft.dsl.arrays.validation import UnsupportedDtypeError, warn_deprecation, warn_of_uninitialized
from weft.dsl.functions.introspection import stand_in
from weft.dsl.functions.linear import matmul
from weft.dsl.functions.manipulation import moveaxis
from weft.dsl.functions.selection import where
from weft.dsl.immediate.at_call import MISSED, call_small

if TYPE_CHECKING:
    from weft.dsl.arrays.annotations import ArrayLike, Output


class ComposedUfunc:
    """A ufunc that computes its results with a function of whole arrays.

    Attributes that are not defined here are those of NumPy's ufunc.
    """

    def __init__(self, compute: Callable[..., Any]) -> None:
        self.__name__ = compute.__name__.strip("_")
        self.__doc__ = compute.__doc__
        self.wrapped: np.ufunc = getattr(np, self.__name__)
        self._compute = compute

    @on_operands_device
    def __call__(self, *operands: Any, out: Output | None = ABSENT, **options: Any) -> Any:
        """Apply the ufunc to its operands. As in NumPy, output arrays may follow the operands, or may be given as `out`."""
        inputs, outputs = self.wrapped.nin, self.wrapped.nout
        if out is ABSENT:
            out = None
            if len(operands) == inputs and "where" in options:
                warn_of_uninitialized(options["where"])
        if options.keys() == {"axis"} and self.wrapped is np.vecdot:
            axis, options = options["axis"], {}
            operands = (*(moveaxis(each, axis, -1) for each in operands[:inputs]), *operands[inputs:])
        given, placed = operands[:inputs], operands[inputs:]
        known = not options or (options.keys() == {"where"} and self.wrapped.signature is None)
        known = known and (out is None or not placed)
        if known and len(given) == inputs and not has_foreign(operands):
            if out is None and not placed and not options:
                found = call_small(self.wrapped, given, {}, self.__name__)
                if found is not MISSED:
                    return found
            outs = (*placed, *[None] * (outputs - len(placed))) if out is None else out
            outs = outs if isinstance(outs, tuple) else (outs,)
            if len(outs) == outputs and all(each is None or isinstance(each, Array) for each in outs):
                try:
                    weak = (int, float, complex) if self.wrapped.signature is None else ()
                    typed = [each if isinstance(each, weak) else as_array(each) for each in given]
                    results = self._compute(*typed)
                except UnsupportedDtypeError:
                    results = NotImplemented
                if results is not NotImplemented:
                    several = results if outputs > 1 else (results,)
                    stored = [
                        r
                        if o is None and not options
                        else return_result("positive", expr_of(as_array(r)), o, **options)
                        for r, o in zip(several, outs, strict=True)
                    ]
                    return tuple(stored) if outputs > 1 else stored[0]
        if out is not None or ("where" in options and not placed):
            options["out"] = out
        return call_numpy(self.wrapped, operands, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __reduce__(self) -> str:
        return self._compute.__name__  # (the name in this module)

    def __repr__(self) -> str:
        return f"<weft ufunc {self.__name__!r}>"


def _as_floats(value: object, ufunc: np.ufunc) -> Any:
    """Cast an operand to the float dtype in which a ufunc computes. Return None if the operand is not real."""
    kind = value.dtype if isinstance(value, Array) else np.asarray(value).dtype
    if kind.kind not in "biuf":
        return None
    loop = ufunc.resolve_dtypes((kind,) + (None,) * ufunc.nout)[0]
    return as_array(value).astype(loop)  # type: ignore[attr-defined]


@ComposedUfunc
def divmod_(x: Any, y: Any) -> Any:
    """Return the quotients and remainders of a floor division, like `numpy.divmod`.

    Examples
    --------
    >>> wf.divmod([7, -7], 3)
    (array([ 2, -3]), array([1, 2]))
    """
    return UFUNCS["floor_divide"](x, y), UFUNCS["remainder"](x, y)


@ComposedUfunc
def modf(x: Any) -> Any:
    """Return the fractional and integral parts of numbers, like `numpy.modf`.

    Both parts have the sign of the number.

    Examples
    --------
    >>> wf.modf([1.5, -2.25])
    (array([ 0.5 , -0.25]), array([ 1., -2.]))
    """
    values = _as_floats(x, np.modf)
    if values is None:
        return NotImplemented
    whole = UFUNCS["trunc"](values)
    zero = values.dtype.type(0)
    part = where(UFUNCS["isinf"](values), zero, values - whole)
    return UFUNCS["copysign"](part, values), whole


@ComposedUfunc
def frexp(x: Any) -> Any:
    """Return the mantissas and the base-2 exponents of numbers, like `numpy.frexp`.

    Examples
    --------
    >>> wf.frexp([6.0, 0.25])
    (array([0.75, 0.5 ]), array([ 3, -1], dtype=int32))
    """
    values = _as_floats(x, np.frexp)
    if values is None or not is_gpu(values.device):
        return NotImplemented
    if values.dtype.itemsize == 2:
        mantissa, exponent = frexp(values.astype(np.float32))
        return mantissa.astype(values.dtype), exponent
    kind, limits = values.dtype.type, np.finfo(values.dtype)
    tiny = UFUNCS["absolute"](values) < limits.tiny
    shift = limits.nmant + 2
    scaled = where(tiny, values * kind(2.0**shift), values)
    regular = UFUNCS["isfinite"](values) & (values != 0)
    # the logarithm may be rounded across a power of two, but halving and doubling are exact
    guess = UFUNCS["floor"](UFUNCS["log2"](UFUNCS["absolute"](where(regular, scaled, kind(1))))).astype(np.int32)
    mantissa = UFUNCS["ldexp"](UFUNCS["ldexp"](scaled, -(guess // 2)), guess // 2 - guess - 1)
    size = UFUNCS["absolute"](mantissa)
    more, less = size >= 1, size < 0.5
    mantissa = where(more, mantissa * kind(0.5), where(less, mantissa * kind(2), mantissa))
    exponent = guess + 1 + more.astype(np.int32) - less.astype(np.int32) - where(tiny, np.int32(shift), np.int32(0))
    return where(regular, mantissa, values), where(regular, exponent, np.int32(0))


@ComposedUfunc
def spacing(x: Any) -> Any:
    """Return the distance from each number to the next number of larger magnitude, like `numpy.spacing`.

    The distance has the sign of the number. It is positive for both zeros.

    Examples
    --------
    >>> wf.spacing([1.0, -4.0])
    array([ 2.22044605e-16, -8.88178420e-16])
    """
    values = _as_floats(x, np.spacing)
    if values is None or not is_gpu(values.device) or values.dtype.itemsize == 2:  # (float16 has other rules)
        return NotImplemented
    kind = values.dtype.type
    beyond = UFUNCS["nextafter"](values, UFUNCS["copysign"](kind(np.inf), values))
    return where(values == 0, np.finfo(kind).smallest_subnormal, beyond - values)


@ComposedUfunc
def vecdot(x1: Any, x2: Any) -> Any:
    """Return the dot products of pairs of vectors, like `numpy.vecdot`.

    The first vector of each pair is conjugated.

    Examples
    --------
    >>> wf.vecdot([[1, 2], [3, 4]], [5, 6])
    array([17, 39])
    """
    if not x1.ndim or not x2.ndim or x1.shape[-1] != x2.shape[-1]:
        return np.vecdot(*stand_in((x1, x2)))  # raises NumPy's error
    return matmul(x1.conj()[..., None, :], x2[..., :, None])[..., 0, 0]


@ComposedUfunc
def matvec(x1: Any, x2: Any) -> Any:
    """Return the products of matrices and vectors, like `numpy.matvec`.

    Examples
    --------
    >>> wf.matvec([[1, 2], [3, 4]], [5, 6])
    array([17, 39])
    """
    if x1.ndim < 2 or not x2.ndim or x1.shape[-1] != x2.shape[-1]:
        return np.matvec(*stand_in((x1, x2)))  # raises NumPy's error
    return matmul(x1, x2[..., :, None])[..., 0]


@ComposedUfunc
def vecmat(x1: Any, x2: Any) -> Any:
    """Multiply conjugated vectors by matrices, like `numpy.vecmat`.

    Examples
    --------
    >>> wf.vecmat([5, 6], [[1, 2], [3, 4]])
    array([23, 34])
    """
    if not x1.ndim or x2.ndim < 2 or x1.shape[-1] != x2.shape[-2]:
        return np.vecmat(*stand_in((x1, x2)))  # raises NumPy's error
    return matmul(x1.conj()[..., None, :], x2)[..., 0, :]


vecdot.__signature__ = inspect.signature(lambda x1, x2, /, out=None, *, axis=-1, **options: None)  # type: ignore[attr-defined]


def fix(x: ArrayLike, out: Output | None = None) -> Array:
    """Round each element to the nearest integer toward zero, like `numpy.fix`.

    Examples
    --------
    >>> wf.fix([-1.5, 1.5])
    array([-1.,  1.])
    """
    text = "numpy.fix is deprecated. Use numpy.trunc instead, which is faster and follows the Array API standard."
    warn_deprecation((2, 5), text)
    return UFUNCS["trunc"](x, out=out)  # type: ignore[no-any-return]
