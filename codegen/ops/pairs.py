"""Complex arithmetic on (real, imaginary) pairs of values, by NumPy's formulas where they show in the result."""

from __future__ import annotations

import numpy as np

from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.kernel_ir.operation import Value

Pair = tuple[Value, Value]


def _c(b: KernelBuilder, value: float, like: Value) -> Value:
    return b.constant(value, like.type)


def _test(b: KernelBuilder, name: str, x: Value, y: Value) -> Value:
    return b.op(name, x, y, dtype=np.bool_)


def add(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """x + y."""
    return b.op("add", x[0], y[0]), b.op("add", x[1], y[1])


def subtract(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """x - y."""
    return b.op("subtract", x[0], y[0]), b.op("subtract", x[1], y[1])


def multiply(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """x * y, without fused operations."""
    real = b.op("subtract", b.op("multiply", x[0], y[0]), b.op("multiply", x[1], y[1]))
    return real, b.op("add", b.op("multiply", x[0], y[1]), b.op("multiply", x[1], y[0]))


def divide(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """x / y by Smith's algorithm (CACM 5, 435, 1962), as NumPy does."""
    big = _test(b, "greater_equal", b.op("absolute", y[0]), b.op("absolute", y[1]))

    def pick(p: Value, q: Value) -> Value:
        return b.op("where", big, p, q)

    major, minor = pick(y[0], y[1]), pick(y[1], y[0])
    both_zero = b.op("bitwise_and", _test(b, "equal", y[0], _c(b, 0, y[0])), _test(b, "equal", y[1], _c(b, 0, y[0])))
    ratio = b.op("divide", minor, major)
    scale = b.op("divide", _c(b, 1, major), b.op("add", major, b.op("multiply", minor, ratio)))
    first, second = pick(x[0], x[1]), pick(x[1], x[0])
    real = b.op("multiply", b.op("add", first, b.op("multiply", second, ratio)), scale)
    # with swapped roles the imaginary part changes its sign
    straight = b.op("subtract", x[1], b.op("multiply", x[0], ratio))
    swapped = b.op("subtract", b.op("multiply", x[1], ratio), x[0])
    imag = b.op("multiply", pick(straight, swapped), scale)
    zero_real, zero_imag = b.op("divide", x[0], b.op("absolute", y[0])), b.op("divide", x[1], b.op("absolute", y[0]))
    return b.op("where", both_zero, zero_real, real), b.op("where", both_zero, zero_imag, imag)


def negative(b: KernelBuilder, x: Pair) -> Pair:
    """-x."""
    return b.op("negative", x[0]), b.op("negative", x[1])


def same(b: KernelBuilder, x: Pair) -> Pair:
    """x."""
    return x


def conjugate(b: KernelBuilder, x: Pair) -> Pair:
    """x with the other imaginary sign."""
    return x[0], b.op("negative", x[1])


def absolute(b: KernelBuilder, x: Pair) -> Value:
    """Magnitude."""
    return b.op("hypot", x[0], x[1])


def square(b: KernelBuilder, x: Pair) -> Pair:
    """x * x."""
    product = b.op("multiply", x[0], x[1])
    real = b.op("subtract", b.op("multiply", x[0], x[0]), b.op("multiply", x[1], x[1]))
    return real, b.op("add", product, product)


def reciprocal(b: KernelBuilder, x: Pair) -> Pair:
    """1 / x."""
    return divide(b, (_c(b, 1, x[0]), _c(b, 0, x[0])), x)


def sign(b: KernelBuilder, x: Pair) -> Pair:
    """x / |x|, 0 at 0 (NumPy 2)."""
    size = absolute(b, x)
    none = _test(b, "equal", size, _c(b, 0, size))
    safe = b.op("where", none, _c(b, 1, size), size)
    return b.op("divide", x[0], safe), b.op("divide", x[1], safe)


def exp(b: KernelBuilder, x: Pair) -> Pair:
    """e to the x."""
    size = b.op("exp", x[0])
    real_only = _test(b, "equal", x[1], _c(b, 0, x[1]))
    sine = b.op("where", real_only, x[1], b.op("multiply", size, b.op("sin", x[1])))
    return b.op("multiply", size, b.op("cos", x[1])), sine


def exp2(b: KernelBuilder, x: Pair) -> Pair:
    """2 to the x."""
    factor = _c(b, float(np.log(2.0)), x[0])
    return exp(b, (b.op("multiply", x[0], factor), b.op("multiply", x[1], factor)))


def expm1(b: KernelBuilder, x: Pair) -> Pair:
    """exp(x) - 1 without loss near 0."""
    half = b.op("sin", b.op("multiply", x[1], _c(b, 0.5, x[1])))
    real = b.op(
        "subtract",
        b.op("multiply", b.op("expm1", x[0]), b.op("cos", x[1])),
        b.op("multiply", _c(b, 2, half), b.op("multiply", half, half)),
    )
    return real, b.op("multiply", b.op("exp", x[0]), b.op("sin", x[1]))


def log(b: KernelBuilder, x: Pair) -> Pair:
    """Natural logarithm, principal branch."""
    return b.op("log", absolute(b, x)), b.op("arctan2", x[1], x[0])


def log1p(b: KernelBuilder, x: Pair) -> Pair:
    """log(1 + x)."""
    return log(b, (b.op("add", x[0], _c(b, 1, x[0])), x[1]))


def _scaled_log(b: KernelBuilder, x: Pair, base: float) -> Pair:
    real, imag = log(b, x)
    factor = _c(b, 1.0 / float(np.log(base)), real)
    return b.op("multiply", real, factor), b.op("multiply", imag, factor)


def log2(b: KernelBuilder, x: Pair) -> Pair:
    """Logarithm to base 2."""
    return _scaled_log(b, x, 2.0)


def log10(b: KernelBuilder, x: Pair) -> Pair:
    """Logarithm to base 10."""
    return _scaled_log(b, x, 10.0)


def sqrt(b: KernelBuilder, x: Pair) -> Pair:
    """Square root with a real part that is not negative."""
    size = absolute(b, x)
    half = _c(b, 0.5, size)
    large = b.op("sqrt", b.op("multiply", half, b.op("add", size, b.op("absolute", x[0]))))
    none = _test(b, "equal", size, _c(b, 0, size))
    safe = b.op("where", none, _c(b, 1, size), large)
    small = b.op("divide", b.op("multiply", half, b.op("absolute", x[1])), safe)
    right = _test(b, "greater_equal", x[0], _c(b, 0, size))
    real = b.op("where", right, large, small)
    return real, b.op("copysign", b.op("where", right, small, large), x[1])


def power(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """x to the y: exp(y log x); 1 where y is 0, 0 where only x is."""
    logged = log(b, x)
    real, imag = exp(b, multiply(b, y, logged))
    nought, unit = _c(b, 0, real), _c(b, 1, real)
    x_zero = b.op("bitwise_and", _test(b, "equal", x[0], nought), _test(b, "equal", x[1], nought))
    y_zero = b.op("bitwise_and", _test(b, "equal", y[0], nought), _test(b, "equal", y[1], nought))
    real = b.op("where", y_zero, unit, b.op("where", x_zero, nought, real))
    return real, b.op("where", b.op("bitwise_or", x_zero, y_zero), nought, imag)


def sin(b: KernelBuilder, x: Pair) -> Pair:
    """Sine."""
    return (
        b.op("multiply", b.op("sin", x[0]), b.op("cosh", x[1])),
        b.op("multiply", b.op("cos", x[0]), b.op("sinh", x[1])),
    )


def cos(b: KernelBuilder, x: Pair) -> Pair:
    """Cosine."""
    return (
        b.op("multiply", b.op("cos", x[0]), b.op("cosh", x[1])),
        b.op("negative", b.op("multiply", b.op("sin", x[0]), b.op("sinh", x[1]))),
    )


def sinh(b: KernelBuilder, x: Pair) -> Pair:
    """Hyperbolic sine."""
    return (
        b.op("multiply", b.op("sinh", x[0]), b.op("cos", x[1])),
        b.op("multiply", b.op("cosh", x[0]), b.op("sin", x[1])),
    )


def cosh(b: KernelBuilder, x: Pair) -> Pair:
    """Hyperbolic cosine."""
    return (
        b.op("multiply", b.op("cosh", x[0]), b.op("cos", x[1])),
        b.op("multiply", b.op("sinh", x[0]), b.op("sin", x[1])),
    )


def tanh(b: KernelBuilder, x: Pair) -> Pair:
    """Hyperbolic tangent: with t = tan(y), s = sinh(x), from Kahan (1987)."""
    t = b.op("tan", x[1])
    beta = b.op("add", _c(b, 1, t), b.op("multiply", t, t))
    s = b.op("sinh", x[0])
    rho = b.op("sqrt", b.op("add", _c(b, 1, s), b.op("multiply", s, s)))
    below = b.op("add", _c(b, 1, s), b.op("multiply", beta, b.op("multiply", s, s)))
    real = b.op("divide", b.op("multiply", beta, b.op("multiply", rho, s)), below)
    far = _test(b, "greater", b.op("absolute", x[0]), _c(b, 20.0, t))
    real = b.op("where", far, b.op("copysign", _c(b, 1, t), x[0]), real)
    return real, b.op("where", far, b.op("copysign", _c(b, 0, t), t), b.op("divide", t, below))


def tan(b: KernelBuilder, x: Pair) -> Pair:
    """Tangent: -i tanh(i x)."""
    real, imag = tanh(b, (b.op("negative", x[1]), x[0]))
    return imag, b.op("negative", real)


def equal(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Both parts equal."""
    return b.op("bitwise_and", _test(b, "equal", x[0], y[0]), _test(b, "equal", x[1], y[1]))


def not_equal(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Some part different."""
    return b.op("bitwise_or", _test(b, "not_equal", x[0], y[0]), _test(b, "not_equal", x[1], y[1]))


def _ordered(b: KernelBuilder, x: Pair, y: Pair, strict: str, last: str) -> Value:
    return b.op(
        "bitwise_or",
        _test(b, strict, x[0], y[0]),
        b.op("bitwise_and", _test(b, "equal", x[0], y[0]), _test(b, last, x[1], y[1])),
    )


def less(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Lexicographic order."""
    return _ordered(b, x, y, "less", "less")


def less_equal(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Lexicographic order."""
    return _ordered(b, x, y, "less", "less_equal")


def greater(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Lexicographic order."""
    return _ordered(b, x, y, "greater", "greater")


def greater_equal(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Lexicographic order."""
    return _ordered(b, x, y, "greater", "greater_equal")


def isnan(b: KernelBuilder, x: Pair) -> Value:
    """Whether a part is NaN."""
    return b.op("bitwise_or", _test(b, "not_equal", x[0], x[0]), _test(b, "not_equal", x[1], x[1]))


def isinf(b: KernelBuilder, x: Pair) -> Value:
    """Whether a part is infinite."""
    return b.op("bitwise_or", b.op("isinf", x[0], dtype=np.bool_), b.op("isinf", x[1], dtype=np.bool_))


def isfinite(b: KernelBuilder, x: Pair) -> Value:
    """Whether both parts are finite."""
    return b.op("bitwise_and", b.op("isfinite", x[0], dtype=np.bool_), b.op("isfinite", x[1], dtype=np.bool_))


def _choose(b: KernelBuilder, x: Pair, y: Pair, first: Value) -> Pair:
    pick = b.op("bitwise_or", first, isnan(b, x))
    return b.op("where", pick, x[0], y[0]), b.op("where", pick, x[1], y[1])


def minimum(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """The lexicographically smaller; NaN wins."""
    return _choose(b, x, y, less_equal(b, x, y))


def maximum(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """The lexicographically larger; NaN wins."""
    return _choose(b, x, y, greater_equal(b, x, y))


def fmin(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """The lexicographically smaller; a number wins over NaN."""
    return where(b, b.op("bitwise_or", less_equal(b, x, y), isnan(b, y)), x, y)


def fmax(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """The lexicographically larger; a number wins over NaN."""
    return where(b, b.op("bitwise_or", greater_equal(b, x, y), isnan(b, y)), x, y)


def where(b: KernelBuilder, condition: Value, x: Pair, y: Pair) -> Pair:
    """x where the condition holds, else y."""
    return b.op("where", condition, x[0], y[0]), b.op("where", condition, x[1], y[1])


def nonzero(b: KernelBuilder, x: Pair) -> Value:
    """Whether a part is not 0."""
    zero = _c(b, 0, x[0])
    return b.op("bitwise_or", _test(b, "not_equal", x[0], zero), _test(b, "not_equal", x[1], zero))


def logical_and(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Both nonzero."""
    return b.op("bitwise_and", nonzero(b, x), nonzero(b, y))


def logical_or(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """One nonzero."""
    return b.op("bitwise_or", nonzero(b, x), nonzero(b, y))


def logical_xor(b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Exactly one nonzero."""
    return b.op("bitwise_xor", nonzero(b, x), nonzero(b, y))


def logical_not(b: KernelBuilder, x: Pair) -> Value:
    """Zero."""
    return b.op("bitwise_xor", nonzero(b, x), b.constant(True, np.bool_))


def rint(b: KernelBuilder, x: Pair) -> Pair:
    """Both parts to the nearest integer."""
    return b.op("rint", x[0]), b.op("rint", x[1])


def real(b: KernelBuilder, x: Pair) -> Value:
    """Real part."""
    return x[0]


def imag(b: KernelBuilder, x: Pair) -> Value:
    """Imaginary part."""
    return x[1]


def arcsinh(b: KernelBuilder, x: Pair) -> Pair:
    """log(x + sqrt(x*x + 1)), mirrored so that nothing cancels."""
    flip = _test(b, "less", x[0], _c(b, 0, x[0]))
    z = where(b, flip, negative(b, x), x)
    inner = square(b, z)
    result = log(b, add(b, z, sqrt(b, (b.op("add", inner[0], _c(b, 1, inner[0])), inner[1]))))
    return where(b, flip, negative(b, result), result)


def arcsin(b: KernelBuilder, x: Pair) -> Pair:
    """-i arcsinh(i x)."""
    real_part, imag_part = arcsinh(b, (b.op("negative", x[1]), x[0]))
    return imag_part, b.op("negative", real_part)


def arccos(b: KernelBuilder, x: Pair) -> Pair:
    """pi/2 - arcsin(x)."""
    real_part, imag_part = arcsin(b, x)
    return b.op("subtract", _c(b, float(np.pi / 2), real_part), real_part), b.op("negative", imag_part)


def arccosh(b: KernelBuilder, x: Pair) -> Pair:
    """log(x + sqrt(x+1) sqrt(x-1))."""
    unit = _c(b, 1, x[0])
    above = sqrt(b, (b.op("add", x[0], unit), x[1]))
    below = sqrt(b, (b.op("subtract", x[0], unit), x[1]))
    return log(b, add(b, x, multiply(b, above, below)))


def arctanh(b: KernelBuilder, x: Pair) -> Pair:
    """(log(1+x) - log(1-x)) / 2."""
    unit, half = _c(b, 1, x[0]), _c(b, 0.5, x[0])
    up = log(b, (b.op("add", unit, x[0]), x[1]))
    down = log(b, (b.op("subtract", unit, x[0]), b.op("negative", x[1])))
    difference = subtract(b, up, down)
    return b.op("multiply", half, difference[0]), b.op("multiply", half, difference[1])


def arctan(b: KernelBuilder, x: Pair) -> Pair:
    """-i arctanh(i x)."""
    real_part, imag_part = arctanh(b, (b.op("negative", x[1]), x[0]))
    return imag_part, b.op("negative", real_part)
