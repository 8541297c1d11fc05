"""Branch-free elementary functions of complex numbers.

A complex number is a (real, imaginary) pair. Most formulas are Kahan's ("Branch cuts for complex elementary functions",
1987), scaled where squares would overflow or underflow. Except in `expm1`, `log1p` and `power`, infinities, NaNs and
signed zeros follow Annex G of the C standard, as in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.codegen.ops import pairs
from weft.codegen.ops.pairs import Pair

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder

LN2 = math.log(2.0)


def operator_methods(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return a method for an operator and its reflected method, such as ``__add__`` and ``__radd__``."""
    return lambda x, y: x.of(op, y), lambda y, x: y.like(x).of(op, y)


class Real:
    """A real value in a kernel, with Python's arithmetic operators."""

    __slots__ = ("b", "value")

    def __init__(self, b: Any, value: Any) -> None:
        self.b = b
        self.value = value

    def of(self, name: str, *others: Self | float) -> Self:
        """Apply the op `name` to this number and `others`."""
        return type(self)(self.b, self.b.op(name, self.value, *(self.like(o).value for o in others)))

    def like(self, number: Self | float) -> Self:
        """Convert a Python number to a kernel constant with the dtype of `self`. Return a `Real` (a kernel value) unchanged."""
        return number if isinstance(number, Real) else type(self)(self.b, self.b.constant(number, self.value.type))

    __add__, __radd__ = operator_methods("add")
    __sub__, __rsub__ = operator_methods("subtract")
    __mul__, __rmul__ = operator_methods("multiply")
    __truediv__, __rtruediv__ = operator_methods("divide")
    __and__, __rand__ = operator_methods("bitwise_and")
    __or__, __ror__ = operator_methods("bitwise_or")
    __lt__ = operator_methods("less")[0]
    __gt__ = operator_methods("greater")[0]

    def __neg__(self) -> Self:
        return self.of("negative")

    def __abs__(self) -> Self:
        return self.of("absolute")

    def __invert__(self) -> Real:
        return Real(self.b, self.b.op("bitwise_xor", self.value, self.b.constant(True, np.bool_)))

    def is_(self, number: float) -> Real:
        """Return whether this number equals the constant `number`."""
        return self.of("equal", number)

    @property
    def nan(self) -> Real:
        """Return whether the number is NaN."""
        return self.of("not_equal", self)

    @property
    def infinite(self) -> Real:
        """Return whether the number is infinite."""
        return abs(self).is_(math.inf)

    @property
    def not_finite(self) -> Real:
        """Return whether the number is infinite or NaN."""
        return ~(abs(self) < math.inf)

    def choose(self, yes: Real | float, no: Real | float) -> Real:
        """Return the argument `yes` if this bool is true, else the argument `no`. At least one must be a `Real`."""
        like = yes if isinstance(yes, Real) else no
        assert isinstance(like, Real)
        return Real(self.b, self.b.op("where", self.value, like.like(yes).value, like.like(no).value))

    def signed(self, other: Real | float) -> Real:
        """Return the magnitude of this number with the sign of `other`."""
        return self.of("copysign", other)

    @property
    def limits(self) -> np.finfo:
        """Return the machine limits of the number's dtype (`numpy.finfo`)."""
        return np.finfo(self.value.type)  # type: ignore[arg-type]


Parts = tuple[Real, Real]


def on_pairs(function: Callable[..., Parts]) -> Callable[..., Pair]:
    """Convert a function of this module to the signature of `OpDef.on_pairs`."""

    def run(b: KernelBuilder, *operands: Pair) -> Pair:
        real, imag = function(*((Real(b, x[0]), Real(b, x[1])) for x in operands))
        return real.value, imag.value

    return run


def _apply(function: Callable[..., Pair], *operands: Parts) -> Parts:
    """Apply a function of `pairs.py` to complex numbers."""
    b = operands[0][0].b
    real, imag = function(b, *((x[0].value, x[1].value) for x in operands))
    return Real(b, real), Real(b, imag)


def _times_i(z: Parts) -> Parts:
    return -z[1], z[0]


def _times_minus_i(z: Parts) -> Parts:
    return z[1], -z[0]


# -- exponentials and logarithms --------------------------------------------------------------


def _overflow_bound(x: Real) -> float:
    """Return a bound c: for x > c, exp(x) is computed as exp(x - c) * exp(c).

    c is a whole number, 8 to 9 less than the x at which exp(x) overflows.
    """
    return float(math.floor(math.log(x.limits.max))) - 8


def exp(z: Parts) -> Parts:
    """Compute e to the power z."""
    x, y = z
    far = x > _overflow_bound(x)
    size = (x - far.choose(x.like(_overflow_bound(x)), 0.0)).of("exp")
    scale = far.choose(x.like(math.exp(_overflow_bound(x))), 1.0)
    real, imag = size * (y.of("cos") * scale), y.is_(0).choose(y, size * (y.of("sin") * scale))
    # an infinite real part determines the result
    lost = x.infinite & y.not_finite
    nothing = x < 0
    return lost.choose(nothing.choose(0.0, abs(x)), real), (lost & nothing).choose(0.0, imag)


def exp2(z: Parts) -> Parts:
    """Compute 2 to the power z."""
    return exp((z[0] * LN2, z[1] * LN2))


def expm1(z: Parts) -> Parts:
    """Compute exp(z) - 1, accurately even for z near 0, by NumPy's formula.

    Infinities follow the array API standard where NumPy's formula gives NaN.
    """
    re, im = z
    half, grown = (im * 0.5).of("sin"), re.of("expm1")
    real = im.is_(0).choose(grown, grown * im.of("cos") - 2 * (half * half))
    imag = im.is_(0).choose(im, re.of("exp") * im.of("sin"))
    lost, nothing = re.infinite & im.not_finite, re.is_(-math.inf)
    return nothing.choose(-1.0, lost.choose(abs(re), real)), (lost & nothing).choose(0.0, imag)


def _log_size(z: Parts) -> Real:
    """Return log |z|, without overflow or underflow, and without cancellation where |z| is near 1."""
    x, y = z
    big, small = abs(x).of("maximum", abs(y)), abs(x).of("minimum", abs(y))
    high, low = big > float(x.limits.max) / 4, big < float(x.limits.tiny) * 2.0**60
    down, up = 2.0**-2, 2.0**60  # (a small number stays below 0.5 in every dtype)
    scale = high.choose(x.like(down), low.choose(x.like(up), 1.0))
    back = high.choose(x.like(2 * LN2), low.choose(x.like(-60 * LN2), 0.0))
    size = (big * scale).of("hypot", small * scale)
    near = (size > 0.5) & (size < 2.0)
    # near 1, the rounded squares cancel without a further error, and the sum consists of their rounding errors
    square, other = big * big, small * small
    errors = big.of("fma", big, -square) + small.of("fma", small, -other)
    close = 0.5 * (((square - 1) + other) + errors).of("log1p")
    return (x.infinite | y.infinite).choose(math.inf, near.choose(close, size.of("log") + back))


def log(z: Parts) -> Parts:
    """Compute the principal branch of the natural logarithm."""
    return _log_size(z), z[1].of("arctan2", z[0])


def log1p(z: Parts) -> Parts:
    """Compute log(1 + z), by NumPy's formula."""
    re, im = z
    return (re + 1).of("hypot", im).of("log"), im.of("arctan2", re + 1)


def _log_to(base: float, z: Parts) -> Parts:
    real, imag = log(z)
    return real * (1 / math.log(base)), imag * (1 / math.log(base))


log2 = partial(_log_to, 2.0)
log10 = partial(_log_to, 10.0)


# -- powers -----------------------------------------------------------------------------------


def sqrt(z: Parts) -> Parts:
    """Compute the square root with a non-negative real part."""
    x, y = z
    big = abs(x).of("maximum", abs(y))
    high, low = big > float(x.limits.max) / 8, big < float(x.limits.tiny) * 2.0**60
    scale = high.choose(x.like(2.0**-4), low.choose(x.like(2.0**80), 1.0))
    back = high.choose(x.like(2.0**2), low.choose(x.like(2.0**-40), 1.0))
    x, y = x * scale, y * scale
    large = (0.5 * (x.of("hypot", y) + abs(x))).of("sqrt")
    none = large.is_(0)
    small = abs(y) / none.choose(1.0, 2 * large)
    right = x.of("greater_equal", 0.0)
    real, imag = right.choose(large, small) * back, (right.choose(small, large) * back).signed(y)
    # an infinite imaginary part determines the result; a NaN real part makes both parts NaN
    lost = y.infinite
    return lost.choose(abs(y), real), lost.choose(y, (x.nan | y.nan & ~x.infinite).choose(x + y, imag))


def power(base: Parts, exponent: Parts) -> Parts:
    """Compute a power as NumPy does.

    Integer exponents of magnitude less than 100 use products, and all others exp(exponent * log(base)). If a part of an
    operand is infinite or NaN, the exponential may be NaN, whereas the C library that NumPy calls returns infinity or
    0.
    """
    general = exp(_apply(pairs.multiply, exponent, log(base)))
    count = abs(exponent[0])
    whole = exponent[1].is_(0) & count.of("equal", count.of("floor")) & (count < 100.0)
    product, factor = (base[0].like(1.0), base[0].like(0.0)), base
    squared = _apply(pairs.square, base)
    cubed = _apply(pairs.multiply, base, squared)
    left = whole.choose(count, 0.0)
    for bit in range(7):
        half = (left * 0.5).of("floor")
        odd = left.of("not_equal", half * 2)
        more = _apply(pairs.multiply, product, factor)
        product = odd.choose(more[0], product[0]), odd.choose(more[1], product[1])
        left = half
        if bit < 6:
            factor = squared if bit == 0 else _apply(pairs.square, factor)
    inverse = _apply(pairs.divide, (product[0].like(1.0), product[0].like(0.0)), product)
    below = exponent[0] < 0
    raised = below.choose(inverse[0], product[0]), below.choose(inverse[1], product[1])
    real, imag = whole.choose(raised[0], general[0]), whole.choose(raised[1], general[1])
    # a product that begins with 1 is NaN where its first factor has an infinite part
    for number, direct in ((1.0, base), (2.0, squared), (3.0, cubed)):
        fits = exponent[0].is_(number) & exponent[1].is_(0)
        real, imag = fits.choose(direct[0], real), fits.choose(direct[1], imag)
    # 0 to the power 0 is 1. 0 to a power with a positive real part is 0, and to any other power undefined.
    nought = base[0].is_(0) & base[1].is_(0)
    never = exponent[0].is_(0) & exponent[1].is_(0)
    at_zero = (exponent[0] > 0).choose(0.0, real.like(math.nan))
    real, imag = nought.choose(at_zero, real), nought.choose(at_zero, imag)
    return never.choose(1.0, real), never.choose(0.0, imag)


# -- trigonometric and hyperbolic -------------------------------------------------------------


def _scaled_hyperbolic(x: Real) -> tuple[Real, Real, Real]:
    """Return sinh(x) / scale, cosh(x) / scale and scale. The scale is 1 except near overflow."""
    far = abs(x) > _overflow_bound(x)
    large = 0.5 * (abs(x) - _overflow_bound(x)).of("exp")
    scale = far.choose(x.like(math.exp(_overflow_bound(x))), 1.0)
    return far.choose(large.signed(x), x.of("sinh")), far.choose(large, x.of("cosh")), scale


def sinh(z: Parts) -> Parts:
    """Compute the hyperbolic sine."""
    x, y = z
    s, c, scale = _scaled_hyperbolic(x)
    real, imag = s * (y.of("cos") * scale), c * (y.of("sin") * scale)
    kept = y.not_finite & (x.is_(0) | x.infinite)
    return (kept | y.is_(0) & x.nan).choose(x, real), y.is_(0).choose(y, imag)


def cosh(z: Parts) -> Parts:
    """Compute the hyperbolic cosine."""
    x, y = z
    s, c, scale = _scaled_hyperbolic(x)
    real, imag = c * (y.of("cos") * scale), s * (y.of("sin") * scale)
    zero = x.like(0.0).signed(x) * y.like(0.0).signed(y)
    gone = y.is_(0) | x.is_(0) & y.not_finite
    return (x.infinite & y.not_finite).choose(abs(x), real), gone.choose(zero, imag)


def tanh(z: Parts) -> Parts:
    """Compute the hyperbolic tangent."""
    x, y = z
    t = y.of("tan")
    beta = 1 + t * t
    s = x.of("sinh")
    below = 1 + beta * (s * s)
    real, imag = beta * ((1 + s * s).of("sqrt") * s) / below, t / below
    # far: 1 is negligible compared with the square of sinh; steep: the tangent is at a pole
    far = abs(x) > (abs(float(np.log(x.limits.eps))) + 4) / 2
    tail = 4 * y.of("sin") * y.of("cos") * (-2 * abs(x)).of("exp")
    steep = t.infinite
    real = far.choose(x.like(1.0).signed(x), steep.choose(1 / x.of("tanh"), real))
    imag = far.choose((x.infinite & y.not_finite).choose(y.like(0.0).signed(y), tail), imag)
    real = (y.not_finite & ~x.infinite).choose(x.is_(0).choose(x, t), real)
    return real, y.is_(0).choose(y, imag)


def sin(z: Parts) -> Parts:
    """Compute the sine as -i sinh(i z)."""
    return _times_minus_i(sinh(_times_i(z)))


def cos(z: Parts) -> Parts:
    """Compute the cosine as cosh(i z)."""
    return cosh(_times_i(z))


def tan(z: Parts) -> Parts:
    """Compute the tangent as -i tanh(i z)."""
    return _times_minus_i(tanh(_times_i(z)))


# -- their inverses ---------------------------------------------------------------------------


def _is_big(z: Parts) -> Real:
    """Return whether a number is so large that adding 1 to its square has no effect."""
    limit = float(z[0].limits.max) ** 0.5 / 4
    return (abs(z[0]) > limit) | (abs(z[1]) > limit)


def _log_big(z: Parts) -> Real:
    """Return log |2 z| for a large number z."""
    return (z[0] * 0.5).of("hypot", z[1] * 0.5).of("log") + 2 * LN2


def _roots(z: Parts) -> tuple[Parts, Parts]:
    """Return sqrt(1 - z) and sqrt(1 + z)."""
    return sqrt((1 - z[0], -z[1])), sqrt((1 + z[0], z[1]))


def arcsin(z: Parts) -> Parts:
    """Compute the inverse sine."""
    x, y = z
    below, above = _roots(z)
    real = x.of("arctan2", below[0] * above[0] - below[1] * above[1])
    imag = (below[0] * above[1] - below[1] * above[0]).of("arcsinh")
    big = _is_big(z)
    real = (x.is_(0) & y.nan).choose(x, big.choose(x.of("arctan2", abs(y)), real))
    return real, big.choose(_log_big(z), imag).signed(y)


def arccos(z: Parts) -> Parts:
    """Compute the inverse cosine."""
    x, y = z
    below, above = _roots(z)
    real = 2 * below[0].of("arctan2", above[0])
    imag = (above[0] * below[1] - above[1] * below[0]).of("arcsinh")
    big = _is_big(z)
    real = big.choose(abs(y).of("arctan2", x), (x.is_(0) & y.nan).choose(math.pi / 2 + x, real))
    return real, big.choose(-_log_big(z).signed(y), imag)


def arctanh(z: Parts) -> Parts:
    """Compute the inverse hyperbolic tangent."""
    x, y = abs(z[0]), z[1]
    gap = 1 - x
    real = 0.25 * (4 * x / (gap * gap + y * y)).of("log1p")
    imag = 0.5 * (2 * y).of("arctan2", gap * (1 + x) - y * y)
    # near the pole, where the square of y underflows
    beside = x.is_(1) & (abs(y) < float(x.limits.tiny) ** 0.5) & ~y.is_(0)
    real = beside.choose(0.5 * (LN2 - abs(y).of("log")), real)
    imag = beside.choose(abs(y).like(math.pi / 4).signed(y), imag)
    big = _is_big(z)
    half = (x * 0.5).of("hypot", y * 0.5)
    far = (x.infinite | y.infinite).choose(0.0, x / 4 / half / half)
    real = big.choose(far, x.is_(0).choose(0.0, real))
    imag = big.choose((y.nan | x.nan & ~y.infinite).choose(x + y, y.like(math.pi / 2).signed(y)), imag)
    return real.signed(z[0]), imag


def arctan(z: Parts) -> Parts:
    """Compute the inverse tangent as -i arctanh(i z)."""
    return _times_minus_i(arctanh(_times_i(z)))


def arcsinh(z: Parts) -> Parts:
    """Compute the inverse hyperbolic sine as -i arcsin(i z)."""
    return _times_minus_i(arcsin(_times_i(z)))


def arccosh(z: Parts) -> Parts:
    """Compute the inverse hyperbolic cosine, with a non-negative real part. It is i arccos(z) or -i arccos(z)."""
    real, imag = arccos(z)
    return abs(imag), real.signed(z[1])
