"""The module `weft.cuda.libdevice`: the functions of NVIDIA's libdevice, for kernels on every device.

Each function has one entry, which contains its name, dtypes, host implementation and description. On a GPU, a kernel
calls the function of libdevice. On other devices, it calls the host form: an op, or a function in the kernel language
(host_forms/). Invariant: names, arguments and result dtypes are the same as in Numba CUDA. Unsigned integers are
represented by signed integers with the same bits, and output pointers are replaced by a tuple.

On the host, integer functions, conversions, bit patterns and directed roundings are exact. Other functions have the
error bound of their op or host form (by default, 1 unit in the last place), relative to the scalar functions of the C
library. The vector variants of the C library may add up to 3 ulp. On the host, the fast_ functions are the same as the
normal functions, so they are more accurate than on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.dsl.cuda.host_forms import bessel, conversion, elementary, error_functions, integers
from weft.dsl.cuda.host_forms import directed_rounding as rounding
from weft.dsl.cuda.host_forms.integers import with_operands_as
from weft.dsl.kernel.library.library_functions import LibraryFunction

Host = str | Callable[..., Any]

FUNCTIONS: dict[str, LibraryFunction] = {}


def _add(name: str, signature: str, host: Host, doc: str, **options: Any) -> None:
    FUNCTIONS[name] = LibraryFunction(name, signature, host, f"__nv_{name}", doc=doc, **options)


def _add_both(name: str, signature: str, host: Host, doc: str, **options: Any) -> None:
    """Add a float64 function, and a float32 version with an f appended to the name."""
    _add(name, signature, host, doc, **options)
    _add(f"{name}f", signature.replace("d", "f"), host, doc, **options)


# -- float64 functions, and float32 functions with an f appended to the name --------------------

# name, number of arguments, host form of both versions, description
_BOTH: tuple[tuple[str, int, Host, str], ...] = (
    ("acos", 1, "arccos", "arc cosine"),
    ("acosh", 1, "arccosh", "inverse hyperbolic cosine"),
    ("asin", 1, "arcsin", "arc sine"),
    ("asinh", 1, "arcsinh", "inverse hyperbolic sine"),
    ("atan", 1, "arctan", "arc tangent"),
    ("atan2", 2, "arctan2", "arc tangent of y / x, in the correct quadrant"),
    ("atanh", 1, "arctanh", "inverse hyperbolic tangent"),
    ("cbrt", 1, "cbrt", "cube root"),
    ("ceil", 1, "ceil", "smallest integer that is not less than x"),
    ("copysign", 2, "copysign", "x with the sign of y"),
    ("cos", 1, "cos", "cosine"),
    ("cosh", 1, "cosh", "hyperbolic cosine"),
    ("erf", 1, "erf", "error function"),
    ("erfc", 1, "erfc", "1 - erf(x)"),
    ("exp", 1, "exp", "e**x"),
    ("exp10", 1, "exp10", "10**x"),
    ("exp2", 1, "exp2", "2**x"),
    ("expm1", 1, "expm1", "e**x - 1"),
    ("fabs", 1, "fabs", "absolute value"),
    ("fdim", 2, conversion.positive_difference, "x - y if it is positive, otherwise 0"),
    ("floor", 1, "floor", "largest integer that is not greater than x"),
    ("fmax", 2, "fmax", "larger operand; if one operand is NaN, the other"),
    ("fmin", 2, "fmin", "smaller operand; if one operand is NaN, the other"),
    ("fmod", 2, "fmod", "exact remainder with the sign of x"),
    ("hypot", 2, "hypot", "sqrt(x*x + y*y) without overflow"),
    ("log", 1, "log", "natural logarithm"),
    ("log10", 1, "log10", "base-10 logarithm"),
    ("log1p", 1, "log1p", "log(1 + x)"),
    ("log2", 1, "log2", "base-2 logarithm"),
    ("lgamma", 1, "lgamma", "logarithm of the absolute value of the gamma function; 8 ulp"),
    ("logb", 1, conversion.float_exponent, "exponent of 2 as a float; exact"),
    ("nearbyint", 1, "rint", "nearest integer, ties to even"),
    ("nextafter", 2, "nextafter", "next float after x in the direction of y"),
    ("norm3d", 3, elementary.length_3, "sqrt(x*x + y*y + z*z) without overflow; 2 ulp"),
    ("norm4d", 4, elementary.length_4, "length of four numbers without overflow; 3 ulp"),
    ("pow", 2, "power", "x**y"),
    ("rcbrt", 1, elementary.reciprocal_cbrt, "1 / cbrt(x); 2 ulp"),
    ("rhypot", 2, elementary.reciprocal_of(np.hypot), "1 / hypot(x, y); 2 ulp"),
    ("rint", 1, "rint", "nearest integer, ties to even"),
    ("rnorm3d", 3, elementary.reciprocal_of(elementary.length_3), "1 / norm3d(x, y, z); 3 ulp"),
    ("rnorm4d", 4, elementary.reciprocal_of(elementary.length_4), "1 / norm4d(x, y, z, w); 4 ulp"),
    ("round", 1, conversion.round_half_away, "nearest integer, ties away from 0"),
    ("rsqrt", 1, "rsqrt", "1 / sqrt(x); 2 ulp"),
    ("sin", 1, "sin", "sine"),
    ("sinh", 1, "sinh", "hyperbolic sine"),
    ("sqrt", 1, "sqrt", "square root; exact"),
    ("tan", 1, "tan", "tangent"),
    ("tanh", 1, "tanh", "hyperbolic tangent"),
    ("tgamma", 1, "gamma", "gamma function; 8 ulp"),
    ("trunc", 1, "trunc", "integer part"),
)
# name, signature of the float64 version, float64 host form of both versions, description
_IN_DOUBLE: tuple[tuple[str, str, Callable[..., Any], str], ...] = (
    ("cospi", "d->d", elementary.part_of(elementary.sin_cos_pi, 1), "cos(pi*x); 2 ulp"),
    ("erfcinv", "d->d", error_functions.inverse_erfc, "inverse of erfc; 4 ulp"),
    ("erfcx", "d->d", error_functions.scaled_erfc, "exp(x*x) * erfc(x); 5 ulp"),
    ("erfinv", "d->d", error_functions.inverse_erf, "inverse of erf; 4 ulp"),
    ("frexp", "d->di", math.frexp, "fraction in [0.5, 1) and exponent of 2; exact"),
    ("j0", "d->d", bessel.j0, "Bessel function of the first kind, order 0; error within 1e-15 of its amplitude"),
    ("j1", "d->d", bessel.j1, "Bessel function of the first kind, order 1; error within 1e-15 of its amplitude"),
    ("jn", "id->d", bessel.jn, "Bessel function of the first kind, order n; NaN for n < 0"),
    ("ldexp", "di->d", conversion.scale, "x * 2**n; exact"),
    ("normcdf", "d->d", error_functions.normal_cdf, "standard normal distribution function; 5 ulp"),
    ("normcdfinv", "d->d", error_functions.inverse_normal_cdf, "inverse of normcdf; 5 ulp"),
    ("powi", "di->d", elementary.integer_power, "x**n for an integer n"),
    (
        "remainder",
        "dd->d",
        elementary.part_of(conversion.remainder_quotient, 0),
        "x - n*y, where n is the integer nearest to x / y; exact",
    ),
    (
        "remquo",
        "dd->di",
        conversion.remainder_quotient,
        "remainder(x, y), and the last 3 bits of the quotient with its sign; exact",
    ),
    ("scalbn", "di->d", conversion.scale, "x * 2**n; exact"),
    ("sinpi", "d->d", elementary.part_of(elementary.sin_cos_pi, 0), "sin(pi*x); 2 ulp"),
    ("y0", "d->d", bessel.y0, "Bessel function of the second kind, order 0; error within 1e-15 of its amplitude"),
    ("y1", "d->d", bessel.y1, "Bessel function of the second kind, order 1; error within 1e-15 of its amplitude"),
    ("yn", "id->d", bessel.yn, "Bessel function of the second kind, order n; NaN for n < 0"),
)


def _floats() -> None:
    for name, count, host, doc in _BOTH:
        _add_both(name, "d" * count + "->d", host, doc)
    for name, signature, form, doc in _IN_DOUBLE:
        _add_both(name, signature, form, doc, wide=True)
    _add_both("modf", "d->dd", math.modf, "fractional part and integer part; exact")
    _add_both("sincos", "d->dd", elementary.sin_cos, "sine and cosine", by_pointer=True)
    sin_cos_pi = "sin(pi*x) and cos(pi*x); 2 ulp"
    _add_both("sincospi", "d->dd", elementary.sin_cos_pi, sin_cos_pi, by_pointer=True, wide=True)
    _add("fast_sincosf", "f->ff", elementary.sin_cos, "sine and cosine, faster on a GPU", by_pointer=True)


# -- directions of rounding ----------------------------------------------------------------------

_DIRECTIONS: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("rd", rounding.down, "rounded down"),
    ("ru", rounding.up, "rounded up"),
    ("rz", rounding.towards_zero, "rounded toward 0"),
)


# name, number of arguments, op rounded to nearest, description
_ARITHMETIC = (
    ("mul", 2, "multiply", "x * y"),
    ("div", 2, "divide", "x / y"),
    ("rcp", 1, "reciprocal", "1 / x"),
    ("sqrt", 1, "sqrt", "square root"),
)


def _add_directions(name: str, signature: str, nearest: Host, form: Callable[[Any], Host], doc: str) -> None:
    """Add a version of a function for each rounding direction.

    `nearest` is the host form of the version that rounds to nearest. `form` returns the host form of another version,
    given a function that rounds in its direction.
    """
    _add(f"{name}_rn", signature, nearest, f"{doc}, rounded to nearest")
    for direction, choose, words in _DIRECTIONS:
        _add(f"{name}_{direction}", signature, form(choose), f"{doc}, {words}")


def _arithmetic() -> None:
    for letter, suffix, fused_names in (("d", "", ("fma",)), ("f", "_single", ("fmaf", "fmaf_ieee"))):
        for name, count, row, doc in _ARITHMETIC:
            form = partial(rounding.rounded, getattr(rounding, f"{row}_error{suffix}"))
            _add_directions(f"{letter}{name}", f"{letter * count}->{letter}", row, form, doc)
        add = partial(rounding.sum_of, rounding.add_error)
        _add_directions(f"{letter}add", f"{letter}{letter}->{letter}", "add", add, "x + y")
        _add_directions(f"{letter}sub", f"{letter}{letter}->{letter}", "subtract", partial(add, sign=-1), "x - y")
        fused = partial(rounding.fused_of, getattr(rounding, f"fma_error{suffix}"))
        for name in fused_names:
            _add_directions(name, f"{letter * 3}->{letter}", "fma", fused, "x * y + z")
    _add_both("fma", "ddd->d", "fma", "x * y + z, rounded once")
    _add("frsqrt_rn", "f->f", "rsqrt", "1 / sqrt(x), rounded to nearest", wide=True)


# -- conversions ---------------------------------------------------------------------------------

_ROUNDED = (("rn", np.rint), ("rd", np.floor), ("ru", np.ceil), ("rz", np.trunc))
# name, character, integer type
_INTEGERS = (("int", "i", np.int32), ("uint", "i", np.uint32), ("ll", "q", np.int64), ("ull", "q", np.uint64))


def _float_to_integer() -> None:
    for source, letter in (("double", "d"), ("float", "f")):
        for name, char, kind in _INTEGERS:
            for ending, function in _ROUNDED:
                form = conversion.to_integer(function, kind, nan_is_zero=(letter, char) == ("f", "i"))
                _add(f"{source}2{name}_{ending}", f"{letter}->{char}", form, f"{source} to {name}, {ending}; saturates")
    away = conversion.to_integer(conversion.round_half_away, np.int64)
    _add_both("llrint", "d->q", conversion.to_integer(np.rint, np.int64), "nearest integer, ties to even")
    _add_both("llround", "d->q", away, "nearest integer, ties away from 0")
    _add_both("ilogb", "d->i", conversion.exponent_of, "exponent of 2")


def _rounded_integer(kind: Any, error: Any, choose: Any) -> Callable[..., Any]:
    return with_operands_as(kind, rounding.rounded(error, choose))


def _integer_to_float() -> None:
    for name, char, kind in _INTEGERS:
        nearest, error = with_operands_as(kind, np.float32), rounding.wide_integer_single
        form = partial(_rounded_integer, kind, rounding.narrow_one if char == "i" else error)
        _add_directions(f"{name}2float", f"{char}->f", nearest, form, f"{name} to float")
        nearest, form = with_operands_as(kind, np.float64), partial(_rounded_integer, kind, rounding.wide_integer)
        if char == "i":  # always exact
            _add(f"{name}2double_rn", "i->d", nearest, f"{name} to double")
        else:
            _add_directions(f"{name}2double", "q->d", nearest, form, f"{name} to double")
    form = partial(rounding.rounded, rounding.narrow_one)
    _add_directions("double2float", "d->f", "positive", form, "double to float")


def _bits() -> None:
    for name, signature, kind in (
        ("float_as_int", "f->i", np.int32),
        ("float_as_uint", "f->i", np.int32),
        ("int_as_float", "i->f", np.float32),
        ("uint_as_float", "i->f", np.float32),
        ("double_as_longlong", "d->q", np.int64),
        ("longlong_as_double", "q->d", np.float64),
    ):
        _add(name, signature, conversion.view_as(kind), "value of the other type with the same bits")
    _add("double2hiint", "d->i", conversion.high_word, "upper 32 bits")
    _add("double2loint", "d->i", conversion.view_as(np.int64), "lower 32 bits")
    _add("hiloint2double", "ii->d", conversion.from_words, "float64 with the given upper and lower 32 bits")
    _add("float2half_rn", "f->h", conversion.to_half, "bits of the nearest float16")
    _add("half2float", "h->f", conversion.view_as(np.float16), "the float16 with these bits")
    for row, double, single in (
        ("isfinite", "isfinited", "finitef"),
        ("isinf", "isinfd", "isinff"),
        ("isnan", "isnand", "isnanf"),
        ("signbit", "signbitd", "signbitf"),
    ):
        _add(double, "d->i", row, "1 if the condition is true, otherwise 0")
        _add(single, "f->i", row, "1 if the condition is true, otherwise 0")
    _add("saturatef", "f->f", conversion.saturate, "x limited to the interval [0, 1], or 0 if x is NaN")


# -- integers and fast functions -----------------------------------------------------------------


# name, signature, function of signed integers, description
_INTEGER: tuple[tuple[str, str, Host, str], ...] = (
    ("abs", "i->i", "absolute", "absolute value"),
    ("llabs", "q->q", "absolute", "absolute value"),
    ("brev", "i->i", "brev", "bits in reverse order"),
    ("brevll", "q->q", "brev", "bits in reverse order"),
    ("clz", "i->i", "clz", "number of 0 bits above the highest 1 bit"),
    ("clzll", "q->i", "clz", "number of 0 bits above the highest 1 bit"),
    ("ffs", "i->i", "ffs", "position of the lowest 1 bit, counted from 1, or 0"),
    ("ffsll", "q->i", "ffs", "position of the lowest 1 bit, counted from 1, or 0"),
    ("popc", "i->i", with_operands_as(np.uint32, np.bitwise_count), "number of 1 bits"),
    ("popcll", "q->i", with_operands_as(np.uint64, np.bitwise_count), "number of 1 bits"),
    ("byte_perm", "iii->i", integers.select_bytes, "four bytes, selected from the eight bytes of x and y"),
    ("mul64hi", "qq->q", integers.multiply_high_wide, "upper half of the product"),
    ("umul64hi", "qq->q", with_operands_as(np.uint64, integers.upper_half), "upper half of the product, unsigned"),
)
# name, signature, function of signed and of unsigned integers, description
_SIGNED_AND_UNSIGNED: tuple[tuple[str, str, Callable[..., Any], str], ...] = (
    ("sad", "iii->i", integers.absolute_difference, "abs(x - y) + z"),
    ("hadd", "ii->i", integers.halved_sum, "(x + y) >> 1"),
    ("rhadd", "ii->i", integers.halved_sum_rounded, "(x + y + 1) >> 1"),
    ("max", "ii->i", np.maximum, "larger operand"),
    ("min", "ii->i", np.minimum, "smaller operand"),
    ("llmax", "qq->q", np.maximum, "larger operand"),
    ("llmin", "qq->q", np.minimum, "smaller operand"),
    ("mul24", "ii->i", integers.multiply_24, "product of the lower 24 bits"),
    ("mulhi", "ii->i", integers.multiply_high, "upper half of the product"),
)


def _integer_functions() -> None:
    for row in _INTEGER:
        _add(*row)
    for name, signature, function, doc in _SIGNED_AND_UNSIGNED:
        _add(name, signature, function, doc)
        kind = np.uint64 if signature[0] == "q" else np.uint32
        _add(f"u{name}", signature, with_operands_as(kind, function), f"{doc}, unsigned")


def _fast() -> None:
    for name in ("cos", "exp", "exp10", "log", "log10", "log2", "pow", "sin", "tan", "tanh"):
        signature = "ff->f" if name == "pow" else "f->f"
        _add(f"fast_{name}f", signature, FUNCTIONS[f"{name}f"].host, f"{name}, faster on a GPU")
    _add("fast_fdividef", "ff->f", "divide", "x / y, faster on a GPU")


_floats()
_arithmetic()
_float_to_integer()
_integer_to_float()
_bits()
_integer_functions()
_fast()

__all__ = sorted(FUNCTIONS)
globals().update(FUNCTIONS)
