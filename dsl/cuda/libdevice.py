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
from typing import Any

import numpy as np

from weft.dsl.cuda.host_forms import bessel, conversion, elementary, error_functions, integers
from weft.dsl.cuda.host_forms import directed_rounding as rounding
from weft.dsl.kernel.library.library_functions import LibraryFunction
from weft.dsl.kernel.python_mode.argument_conversion import fused_multiply_add

Host = str | Callable[..., Any]

FUNCTIONS: dict[str, LibraryFunction] = {}


def _add(name: str, signature: str, host: Host, doc: str, **options: Any) -> None:
    FUNCTIONS[name] = LibraryFunction(name, signature, host, f"__nv_{name}", doc=doc, **options)


def _gamma(x: Any) -> float:
    """Compute the gamma function, with NaN or infinity instead of an error at a pole or on overflow."""
    if x == 0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def _log_gamma(x: Any) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


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
    ("exp10", 1, elementary.exp10, "10**x"),
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
    ("logb", 1, conversion.float_exponent, "exponent of 2 as a float; exact"),
    ("nearbyint", 1, "rint", "nearest integer, ties to even"),
    ("nextafter", 2, "nextafter", "next float after x in the direction of y"),
    ("norm3d", 3, elementary.length_3, "sqrt(x*x + y*y + z*z) without overflow; 2 ulp"),
    ("norm4d", 4, elementary.length_4, "length of four numbers without overflow; 3 ulp"),
    ("pow", 2, "power", "x**y"),
    ("rcbrt", 1, elementary.reciprocal_cbrt, "1 / cbrt(x); 2 ulp"),
    ("remainder", 2, conversion.nearest_remainder, "x - n*y, where n is the integer nearest to x / y; exact"),
    ("rhypot", 2, elementary.reciprocal_hypot, "1 / hypot(x, y); 2 ulp"),
    ("rint", 1, "rint", "nearest integer, ties to even"),
    ("rnorm3d", 3, elementary.reciprocal_length_3, "1 / norm3d(x, y, z); 3 ulp"),
    ("rnorm4d", 4, elementary.reciprocal_length_4, "1 / norm4d(x, y, z, w); 4 ulp"),
    ("round", 1, conversion.round_half_away, "nearest integer, ties away from 0"),
    ("rsqrt", 1, elementary.reciprocal_sqrt, "1 / sqrt(x); 2 ulp"),
    ("sin", 1, "sin", "sine"),
    ("sinh", 1, "sinh", "hyperbolic sine"),
    ("sqrt", 1, "sqrt", "square root; exact"),
    ("tan", 1, "tan", "tangent"),
    ("tanh", 1, "tanh", "hyperbolic tangent"),
    ("trunc", 1, "trunc", "integer part"),
)
# float64 host forms that the float32 versions also use, rounded once at the end
_IN_DOUBLE: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("cospi", elementary.cos_pi, "cos(pi*x); 2 ulp"),
    ("erfcinv", error_functions.inverse_erfc, "inverse of erfc; 4 ulp"),
    ("erfcx", error_functions.scaled_erfc, "exp(x*x) * erfc(x); 5 ulp"),
    ("erfinv", error_functions.inverse_erf, "inverse of erf; 4 ulp"),
    ("j0", bessel.j0, "Bessel function of the first kind, order 0; error within 1e-15 of its amplitude"),
    ("j1", bessel.j1, "Bessel function of the first kind, order 1; error within 1e-15 of its amplitude"),
    ("normcdf", error_functions.normal_cdf, "standard normal distribution function; 5 ulp"),
    ("normcdfinv", error_functions.inverse_normal_cdf, "inverse of normcdf; 5 ulp"),
    ("sinpi", elementary.sin_pi, "sin(pi*x); 2 ulp"),
    ("y0", bessel.y0, "Bessel function of the second kind, order 0; error within 1e-15 of its amplitude"),
    ("y1", bessel.y1, "Bessel function of the second kind, order 1; error within 1e-15 of its amplitude"),
)


def _floats() -> None:
    for name, count, host, doc in _BOTH:
        _add(name, "d" * count + "->d", host, doc)
        _add(name + "f", "f" * count + "->f", host, doc)
    for name, form, doc in _IN_DOUBLE:
        _add(name, "d->d", form, doc)
        _add(name + "f", "f->f", elementary.in_double(form), doc)
    for name, row, python, doc in (
        ("tgamma", "gamma", _gamma, "gamma function; 8 ulp"),
        ("lgamma", "lgamma", _log_gamma, "logarithm of the absolute value of the gamma function; 8 ulp"),
    ):
        _add(name, "d->d", row, doc, python=python)
        _add(name + "f", "f->f", row, doc, python=python)
    for name in ("ldexp", "scalbn"):
        _add(name, "di->d", conversion.scale, "x * 2**n; exact")
        _add(name + "f", "fi->f", conversion.scale_single, "x * 2**n; exact")
    _add("powi", "di->d", elementary.integer_power, "x**n for an integer n")
    _add("powif", "fi->f", elementary.integer_power_single, "x**n for an integer n")
    for name, form in (("jn", bessel.jn), ("yn", bessel.yn)):
        kind = "first" if name == "jn" else "second"
        _add(name, "id->d", form, f"Bessel function of the {kind} kind, order n; NaN for n < 0")
        _add(name + "f", "if->f", bessel.order_in_double(form), f"Bessel function of the {kind} kind, order n")


def _several_results() -> None:
    pair, single = elementary.pair_in_double, conversion
    for name, form, doc in (
        ("sincos", elementary.sin_cos, "sine and cosine"),
        ("sincospi", elementary.sin_cos_pi, "sin(pi*x) and cos(pi*x); 2 ulp"),
    ):
        _add(name, "d->dd", form, doc, by_pointer=True)
        single_form = form if name == "sincos" else pair(form)
        _add(name + "f", "f->ff", single_form, doc, by_pointer=True)
    _add("fast_sincosf", "f->ff", elementary.sin_cos, "sine and cosine, faster on a GPU", by_pointer=True)
    _add("frexp", "d->di", conversion.split_exponent, "fraction in [0.5, 1) and exponent of 2; exact")
    _add("frexpf", "f->fi", single.split_exponent_single, "fraction in [0.5, 1) and exponent of 2; exact")
    _add("modf", "d->dd", conversion.split_whole, "fractional part and integer part; exact")
    _add("modff", "f->ff", conversion.split_whole, "fractional part and integer part; exact")
    doc = "remainder(x, y), and the last 3 bits of the quotient with its sign; exact"
    _add("remquo", "dd->di", conversion.remainder_quotient, doc)
    _add("remquof", "ff->fi", single.remainder_quotient_single, doc)


# -- directions of rounding ----------------------------------------------------------------------

_DIRECTIONS: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("rd", rounding.down, "rounded down"),
    ("ru", rounding.up, "rounded up"),
    ("rz", rounding.towards_zero, "rounded toward 0"),
)


def _arithmetic() -> None:
    for letter, suffix in (("d", ""), ("f", "_single")):
        one = np.float64(1) if letter == "d" else np.float32(1)
        add, multiply, divide, sqrt, fused = (
            getattr(rounding, f"{name}_error{suffix}") for name in ("add", "multiply", "divide", "sqrt", "fma")
        )
        unary, binary, ternary = f"{letter}->{letter}", f"{letter * 2}->{letter}", f"{letter * 3}->{letter}"
        fused_name = "fma" if letter == "d" else "fmaf"
        exactly: dict[str, Any] = {"python": fused_multiply_add}
        names = (fused_name,) if letter == "d" else (fused_name, "fmaf_ieee")
        _add(fused_name, ternary, "fma", "x * y + z, rounded once", **exactly)
        for name, signature, row in (
            ("add", binary, "add"),
            ("sub", binary, "subtract"),
            ("mul", binary, "multiply"),
            ("div", binary, "divide"),
            ("rcp", unary, "reciprocal"),
            ("sqrt", unary, "sqrt"),
        ):
            _add(f"{letter}{name}_rn", signature, row, f"{row}, rounded to nearest")
        for name in names:
            _add(f"{name}_rn", ternary, "fma", "x * y + z, rounded to nearest", **exactly)
        for direction, choose, words in _DIRECTIONS:
            _add(f"{letter}add_{direction}", binary, rounding.sum_of(add, choose), f"x + y, {words}")
            _add(f"{letter}sub_{direction}", binary, rounding.sum_of(add, choose, -1), f"x - y, {words}")
            _add(f"{letter}mul_{direction}", binary, rounding.two_operands(multiply, choose), f"x * y, {words}")
            _add(f"{letter}div_{direction}", binary, rounding.two_operands(divide, choose), f"x / y, {words}")
            _add(f"{letter}rcp_{direction}", unary, rounding.reciprocal_of(divide, choose, one), f"1 / x, {words}")
            _add(f"{letter}sqrt_{direction}", unary, rounding.one_operand(sqrt, choose), f"square root, {words}")
            for name in names:
                _add(f"{name}_{direction}", ternary, rounding.fused_of(fused, choose), f"x * y + z, {words}")
    _add("frsqrt_rn", "f->f", elementary.in_double(elementary.reciprocal_sqrt), "1 / sqrt(x), rounded to nearest")


# -- conversions ---------------------------------------------------------------------------------

_ROUNDED = (("rn", np.rint), ("rd", np.floor), ("ru", np.ceil), ("rz", np.trunc))
# name, character, dtype of the result, integer type
_INTEGERS = (
    ("int", "i", np.int32, np.int32),
    ("uint", "i", np.int32, np.uint32),
    ("ll", "q", np.int64, np.int64),
    ("ull", "q", np.int64, np.uint64),
)


def _float_to_integer() -> None:
    for source, letter in (("double", "d"), ("float", "f")):
        for name, char, held, kind in _INTEGERS:
            least, greatest = kind(np.iinfo(kind).min), kind(np.iinfo(kind).max)
            at_nan = 0 if (letter, char) == ("f", "i") else int(np.iinfo(held).min)
            for ending, function in _ROUNDED:
                form = conversion.to_integer(function, held, least, greatest, at_nan)
                _add(f"{source}2{name}_{ending}", f"{letter}->{char}", form, f"{source} to {name}, {ending}; saturates")
    wide = (np.int64, np.int64(-(2**63)), np.int64(2**63 - 1), -(2**63))
    for ending, letter in (("", "d"), ("f", "f")):
        _add(f"llrint{ending}", f"{letter}->q", conversion.to_integer(np.rint, *wide), "nearest integer, ties to even")
        away = conversion.to_integer(conversion.round_half_away, *wide)
        _add(f"llround{ending}", f"{letter}->q", away, "nearest integer, ties away from 0")
        _add(f"ilogb{ending}", f"{letter}->i", conversion.exponent_of, "exponent of 2")


def _integer_to_float() -> None:
    for name, char, _, kind in _INTEGERS:
        to_double, to_float = conversion.unsigned_float(kind, np.float64), conversion.unsigned_float(kind, np.float32)
        _add(f"{name}2double_rn", f"{char}->d", to_double, f"{name} to double, to nearest")
        _add(f"{name}2float_rn", f"{char}->f", to_float, f"{name} to float, to nearest")
        single = rounding.integer_single if char == "i" else rounding.wide_integer_single
        for ending, choose, words in _DIRECTIONS:
            form = conversion.rounded_from(single, kind, choose)
            _add(f"{name}2float_{ending}", f"{char}->f", form, f"{name} to float, {words}")
            if char == "q":
                form = conversion.rounded_from(rounding.wide_integer, kind, choose)
                _add(f"{name}2double_{ending}", "q->d", form, f"{name} to double, {words}")
    _add("double2float_rn", "d->f", "positive", "double to float, to nearest")
    for ending, choose, words in _DIRECTIONS:
        form = rounding.one_operand(rounding.narrow_one, choose)
        _add(f"double2float_{ending}", "d->f", form, f"double to float, {words}")


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
    _add("double2loint", "d->i", conversion.low_word, "lower 32 bits")
    _add("hiloint2double", "ii->d", conversion.from_words, "float64 with the given upper and lower 32 bits")
    _add("float2half_rn", "f->h", conversion.to_half, "bits of the nearest float16")
    _add("half2float", "h->f", conversion.from_half, "the float16 with these bits")
    for name, row in (("isinf", "isinf"), ("isnan", "isnan"), ("signbit", "signbit")):
        _add(f"{name}d", "d->i", row, "1 if the condition is true, otherwise 0")
        _add(f"{name}f", "f->i", row, "1 if the condition is true, otherwise 0")
    _add("isfinited", "d->i", "isfinite", "1 if the condition is true, otherwise 0")
    _add("finitef", "f->i", "isfinite", "1 if the condition is true, otherwise 0")
    _add("saturatef", "f->f", conversion.saturate, "x limited to the interval [0, 1], or 0 if x is NaN")


# -- integers and fast functions -----------------------------------------------------------------


def _integer_functions() -> None:
    least, greatest = integers.extreme_unsigned, integers.extreme_unsigned
    rows: tuple[tuple[str, str, Host, str], ...] = (
        ("abs", "i->i", "absolute", "absolute value"),
        ("llabs", "q->q", "absolute", "absolute value"),
        ("brev", "i->i", integers.reverse_bits, "bits in reverse order"),
        ("brevll", "q->q", integers.reverse_bits_wide, "bits in reverse order"),
        ("clz", "i->i", integers.leading_zeros, "number of 0 bits above the highest 1 bit"),
        ("clzll", "q->i", integers.leading_zeros_wide, "number of 0 bits above the highest 1 bit"),
        ("ffs", "i->i", integers.first_set, "position of the lowest 1 bit, counted from 1, or 0"),
        ("ffsll", "q->i", integers.first_set_wide, "position of the lowest 1 bit, counted from 1, or 0"),
        ("popc", "i->i", integers.count_bits, "number of 1 bits"),
        ("popcll", "q->i", integers.count_bits_wide, "number of 1 bits"),
        ("byte_perm", "iii->i", integers.select_bytes, "four bytes, selected from the eight bytes of x and y"),
        ("sad", "iii->i", integers.absolute_difference, "abs(x - y) + z"),
        ("usad", "iii->i", integers.absolute_difference_unsigned, "abs(x - y) + z, unsigned"),
        ("hadd", "ii->i", integers.halved_sum, "(x + y) >> 1"),
        ("rhadd", "ii->i", integers.halved_sum_rounded, "(x + y + 1) >> 1"),
        ("uhadd", "ii->i", integers.halved_sum_unsigned, "(x + y) >> 1, unsigned"),
        ("urhadd", "ii->i", integers.halved_sum_rounded_unsigned, "(x + y + 1) >> 1, unsigned"),
        ("max", "ii->i", "maximum", "larger operand"),
        ("min", "ii->i", "minimum", "smaller operand"),
        ("llmax", "qq->q", "maximum", "larger operand"),
        ("llmin", "qq->q", "minimum", "smaller operand"),
        ("umax", "ii->i", greatest(np.maximum, np.uint32, np.int32), "larger operand, unsigned"),
        ("umin", "ii->i", least(np.minimum, np.uint32, np.int32), "smaller operand, unsigned"),
        ("ullmax", "qq->q", greatest(np.maximum, np.uint64, np.int64), "larger operand, unsigned"),
        ("ullmin", "qq->q", least(np.minimum, np.uint64, np.int64), "smaller operand, unsigned"),
        ("mul24", "ii->i", integers.multiply_24, "product of the lower 24 bits"),
        ("umul24", "ii->i", integers.multiply_24_unsigned, "product of the lower 24 bits, unsigned"),
        ("mulhi", "ii->i", integers.multiply_high, "upper half of the product"),
        ("umulhi", "ii->i", integers.multiply_high_unsigned, "upper half of the product, unsigned"),
        ("mul64hi", "qq->q", integers.multiply_high_wide, "upper half of the product"),
        ("umul64hi", "qq->q", integers.multiply_high_wide_unsigned, "upper half of the product, unsigned"),
    )
    for name, signature, host, doc in rows:
        _add(name, signature, host, doc)


def _fast() -> None:
    rows: tuple[tuple[str, str, Host], ...] = (
        ("cos", "f->f", "cos"),
        ("exp10", "f->f", elementary.exp10),
        ("exp", "f->f", "exp"),
        ("fdivide", "ff->f", "divide"),
        ("log10", "f->f", "log10"),
        ("log2", "f->f", "log2"),
        ("log", "f->f", "log"),
        ("pow", "ff->f", "power"),
        ("sin", "f->f", "sin"),
        ("tan", "f->f", "tan"),
        ("tanh", "f->f", "tanh"),
    )
    for name, signature, host in rows:
        _add(f"fast_{name}f", signature, host, f"{name}, faster on a GPU")


for _family in (
    _floats,
    _several_results,
    _arithmetic,
    _float_to_integer,
    _integer_to_float,
    _bits,
    _integer_functions,
    _fast,
):
    _family()

__all__ = sorted(FUNCTIONS)
globals().update(FUNCTIONS)
