"""Complex arithmetic on (real, imaginary) pairs, by NumPy's formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from weft.codegen.kernel_ir.builder import KernelBuilder
    from weft.codegen.kernel_ir.operation import Value


Pair: TypeAlias = "tuple[Value, Value]"


def _c(b: KernelBuilder, value: float, like: Value) -> Value:
    return b.constant(value, like.type)


def by_parts(name: str) -> Callable[..., Pair]:
    """Return a function that applies the op `name` to the real parts and to the imaginary parts."""
    return lambda b, *operands: (b.op(name, *(x[0] for x in operands)), b.op(name, *(x[1] for x in operands)))


def multiply(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """Compute x * y, without fused multiply-adds."""
    real = b.op("subtract", b.op("multiply", x[0], y[0]), b.op("multiply", x[1], y[1]))
    return real, b.op("add", b.op("multiply", x[0], y[1]), b.op("multiply", x[1], y[0]))


def divide(b: KernelBuilder, x: Pair, y: Pair) -> Pair:
    """Compute x / y by Smith's algorithm (CACM 5, 435, 1962), as NumPy does."""
    big = b.op("greater_equal", b.op("absolute", y[0]), b.op("absolute", y[1]))

    def pick(p: Value, q: Value) -> Value:
        return b.op("where", big, p, q)

    major, minor = pick(y[0], y[1]), pick(y[1], y[0])
    both_zero = b.op("bitwise_and", b.op("equal", y[0], _c(b, 0, y[0])), b.op("equal", y[1], _c(b, 0, y[0])))
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


def conjugate(b: KernelBuilder, x: Pair) -> Pair:
    """Return x with the sign of its imaginary part reversed."""
    return x[0], b.op("negative", x[1])


def absolute(b: KernelBuilder, x: Pair) -> Value:
    """Compute the magnitude."""
    return b.op("hypot", x[0], x[1])


def square(b: KernelBuilder, x: Pair) -> Pair:
    """Compute x * x."""
    product = b.op("multiply", x[0], x[1])
    real = b.op("subtract", b.op("multiply", x[0], x[0]), b.op("multiply", x[1], x[1]))
    return real, b.op("add", product, product)


def reciprocal(b: KernelBuilder, x: Pair) -> Pair:
    """Compute 1 / x, by NumPy's formula."""
    big = b.op("less_equal", b.op("absolute", x[1]), b.op("absolute", x[0]))
    major, minor = b.op("where", big, x[0], x[1]), b.op("where", big, x[1], x[0])
    ratio = b.op("divide", minor, major)
    below = b.op("add", major, b.op("multiply", minor, ratio))
    unit = b.op("divide", _c(b, 1, below), below)
    real, imag = b.op("where", big, unit, b.op("divide", ratio, below)), b.op("negative", ratio)
    return real, b.op("where", big, b.op("divide", imag, below), b.op("negative", unit))


def sign(b: KernelBuilder, x: Pair) -> Pair:
    """Compute x / |x|, or 0 if x is 0, as in NumPy 2.

    One infinite part determines the result. Two infinite parts give NaN.
    """
    size = absolute(b, x)
    nought, unit = _c(b, 0, size), _c(b, 1, size)
    none, endless = b.op("equal", size, nought), b.op("isinf", size)
    safe = b.op("where", none, unit, size)

    def part(p: Value, other: Value) -> Value:
        infinite, beside = b.op("isinf", p), b.op("isinf", other)
        one = b.op("where", infinite, b.op("copysign", unit, p), nought)
        both = b.op("where", b.op("bitwise_and", infinite, beside), b.op("subtract", p, p), one)
        finite = b.op("where", none, nought, b.op("divide", p, safe))
        return b.op("where", endless, both, finite)

    return part(x[0], x[1]), part(x[1], x[0])


def compare(name: str, b: KernelBuilder, x: Pair, y: Pair) -> Value:
    """Compare x and y by the comparison op `name`, in lexicographic order."""
    if name in ("equal", "not_equal"):
        joined = "bitwise_and" if name == "equal" else "bitwise_or"
        return b.op(joined, b.op(name, x[0], y[0]), b.op(name, x[1], y[1]))
    # a number with a NaN part is neither less nor greater than another number, whatever its other part is
    numbers = b.op("bitwise_or", b.op("less_equal", x[1], y[1]), b.op("greater", x[1], y[1]))
    return b.op(
        "bitwise_or",
        b.op("bitwise_and", b.op(name.removesuffix("_equal"), x[0], y[0]), numbers),
        b.op("bitwise_and", b.op("equal", x[0], y[0]), b.op(name, x[1], y[1])),
    )


def isnan(b: KernelBuilder, x: Pair) -> Value:
    """Return whether either part of x is NaN."""
    return b.op("bitwise_or", b.op("not_equal", x[0], x[0]), b.op("not_equal", x[1], x[1]))


def isinf(b: KernelBuilder, x: Pair) -> Value:
    """Return whether either part of x is infinite."""
    return b.op("bitwise_or", b.op("isinf", x[0]), b.op("isinf", x[1]))


def isfinite(b: KernelBuilder, x: Pair) -> Value:
    """Return whether both parts of x are finite."""
    return b.op("bitwise_and", b.op("isfinite", x[0]), b.op("isfinite", x[1]))


def extreme(order: str, b: KernelBuilder, x: Pair, y: Pair, *, ignores_nan: bool = False) -> Pair:
    """Return x if the comparison op `order` holds for x and y, otherwise y.

    If one number is NaN, the result is NaN or, with `ignores_nan`, the other number.
    """
    return where(b, b.op("bitwise_or", compare(order, b, x, y), isnan(b, y if ignores_nan else x)), x, y)


def where(b: KernelBuilder, condition: Value, x: Pair, y: Pair) -> Pair:
    """Return x if the condition holds, otherwise y."""
    return b.op("where", condition, x[0], y[0]), b.op("where", condition, x[1], y[1])


def nonzero(b: KernelBuilder, x: Pair) -> Value:
    """Return whether the real or the imaginary part of x is not 0."""
    zero = _c(b, 0, x[0])
    return b.op("bitwise_or", b.op("not_equal", x[0], zero), b.op("not_equal", x[1], zero))
