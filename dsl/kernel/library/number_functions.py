"""Compilation of kernels that call scalar functions of Python and NumPy, such as `math.log`."""

from __future__ import annotations

import ast
import cmath
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, find_op
from weft.dsl.kernel.language import value_methods as methods
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.expressions import unpack
from weft.dsl.kernel.language.generators import each_item
from weft.dsl.kernel.language.handlers import TABLE, elementwise, handles
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.known import compute
from weft.dsl.kernel.language.members import attribute
from weft.dsl.kernel.language.value_operators import binary
from weft.dsl.kernel.language.values import INT, ArrayValue, Constant, Generator, ScalarValue, TupleValue, describe
from weft.dsl.kernel.language.variables import Restart
from weft.runtime import counted


def _floating(call: Invocation, op: str, operands: tuple[Any, ...]) -> Any:
    """Compile a call to a function of the `math` module as an op."""
    c = call.c
    arity = len(operands)
    if arity != find_op(op).arity:
        c.fail(f"{op}() takes {counted(find_op(op).arity, 'argument')}, but {arity} were given")
    if op in ("power", "fmod"):
        operands = _as_floats(c, operands)
    if op == "power" and all(isinstance(o, Constant) and isinstance(c.kind(o), type) for o in operands):
        # Unlike `**`, `math.pow` raises no errors and has no complex results.
        return Constant(compute(c, "math.pow()", np.power, *(o.value for o in operands)).value.item())
    return elementwise(call, op, *operands)


def _as_floats(c: Compiler, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cast numbers to float64 if all are integers or bools."""
    if all(np.dtype(c.kind(c.number(n))).kind in "biu" for n in numbers):
        return tuple(c.cast(n, np.float64, isinstance(c.kind(c.number(n)), type)) for n in numbers)
    return numbers


# name of a `math` function -> the op that computes it
OPS = {
    **{
        name: name
        for name in (
            "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh fmod hypot copysign erf erfc gamma lgamma "
            "fabs ldexp cbrt nextafter"
        ).split()
    },
    "pow": "power", "acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2", "acosh": "arccosh",
    "asinh": "arcsinh", "atanh": "arctanh", "degrees": "rad2deg", "radians": "deg2rad", "remainder": "remainder",
}  # fmt: skip
_MATH = OPS | {name: name for name in ("isnan", "isinf", "isfinite", "gcd", "lcm", "fma")}
for _name, _op in _MATH.items():
    if hasattr(math, _name):
        TABLE[getattr(math, _name)] = lambda call, *operands, _op=_op: _floating(call, _op, operands)
# functions of `cmath` that an op computes
COMPLEX_FUNCTIONS = [
    name
    for name in "sqrt exp log10 sin cos tan sinh cosh tanh isnan isinf isfinite".split()
    + [name for name in _MATH if name.startswith("a")]
    if hasattr(cmath, name)
]


def _complex(call: Invocation, value: object) -> Any:
    number = call.c.number(value)
    kind = call.c.kind(number)
    if kind is complex or (isinstance(kind, np.dtype) and kind.kind == "c"):
        return number
    return call.c.cast(number, np.complex64 if kind == np.dtype(np.float32) else np.complex128, isinstance(kind, type))


def _complex_op(op: str, call: Invocation, z: Any) -> Any:
    return call.c.apply(op, _complex(call, z))


for _name in COMPLEX_FUNCTIONS:
    TABLE[getattr(cmath, _name)] = partial(_complex_op, _MATH.get(_name, _name))


def _log(natural: Callable[[Invocation, Any], Any], call: Invocation, x: Any, base: Any = None) -> Any:
    found = natural(call, x)
    return found if base is None else call.c.apply("divide", found, natural(call, base))


TABLE[math.log] = partial(_log, lambda call, x: elementwise(call, "log", x))
TABLE[cmath.log] = partial(_log, partial(_complex_op, "log"))


@handles(cmath.phase, np.angle)
def _phase(call: Invocation, z: Any) -> Any:
    z = _complex(call, z)
    return call.c.apply("arctan2", attribute(call.c, z, "imag"), attribute(call.c, z, "real"))


@handles(cmath.rect)
def _rect(call: Invocation, r: Any, phi: Any) -> Any:
    numbers = [call.c.number(v) for v in (r, phi)]
    kinds = [call.c.kind(n) for n in numbers]
    if any(k is int or (isinstance(k, np.dtype) and k.kind in "biu") for k in kinds):
        numbers = [call.c.cast(n, np.float64, isinstance(k, type)) for n, k in zip(numbers, kinds, strict=True)]
    parts = call.c.call(call.frame, call.node, Constant(rect_parts), numbers, {}).items
    if all(isinstance(k, type) for k in kinds):
        parts = (call.c.cast(part, np.float64, weak=True) for part in parts)
    return make_complex(call, *parts)


def rect_parts(r: Any, phi: Any) -> Any:
    """Compute the real and the imaginary part of ``cmath.rect(r, phi)`` in a kernel."""
    real, imag = r * np.cos(phi), r * np.sin(phi)
    if r == 0 and not np.isfinite(phi):
        real, imag = abs(r), abs(r)
    elif not np.isfinite(r):
        if phi == 0:
            real = r
            imag = np.copysign(phi, phi * np.copysign(1.0, r)) if r == r else abs(phi)
        elif phi != phi and r == r:
            real = abs(r)
    return real, imag


def make_complex(call: Invocation, real: Any, imag: Any) -> Any:
    """Compile ``complex(real, imag)``."""
    c = call.c
    if isinstance(real, Constant) and isinstance(imag, Constant):
        return compute(c, "complex()", complex, real.value, imag.value)
    kinds = [c.kind(c.number(v)) for v in (real, imag)]
    if any(np.dtype(kind).kind == "c" for kind in kinds):
        return c.apply("add", real, c.apply("multiply", imag, Constant(1j)))
    small = all(k == np.dtype(np.float32) or k in (int, float, bool) for k in kinds) and np.dtype(np.float32) in kinds
    dtype = np.dtype(np.complex64 if small else np.complex128)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    joined = c.builder.op("_complex", c.ir(real, part), c.ir(imag, part), dtype=dtype)
    return ScalarValue(joined, all(isinstance(k, type) for k in kinds))


@handles(complex)
def _python_complex(call: Invocation, real: Any = None, imag: Any = None) -> Any:
    real = Constant(0.0) if real is None else real
    if imag is None:
        return call.c.cast(call.c.number(real), np.complex128, weak=True)
    return make_complex(call, real, imag)


_WHOLE: dict[str, Any] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round}


def _to_integer(call: Invocation, op: str, x: Any) -> Any:
    c = call.c
    x = c.number(x)
    if isinstance(x, Constant):
        return compute(c, f"{op} of {x.value!r}", lambda: int(_WHOLE[op](x.value)))
    if x.dtype.kind in "biu":
        return c.cast(x, INT, weak=True)
    return c.cast(c.apply(op, x), INT, weak=True)


@handles(np.round, np.around)
def _numpy_round(call: Invocation, a: Any, decimals: Any = None) -> Any:
    return _round(call, a, Constant(0) if decimals is None else decimals)


@handles(round)
def _round(call: Invocation, number: Any, ndigits: Any = None) -> Any:
    c = call.c
    number = c.number(number)
    if ndigits is None or (isinstance(ndigits, Constant) and ndigits.value is None):
        return _to_integer(call, "rint", number)
    dtype = np.dtype(c.kind(number))
    if dtype.kind in "biu":
        if not isinstance(ndigits, Constant):
            c.fail("round() of an integer takes a number of digits that is known when compiling")
        unit = compute(c, "the number of digits", operator.pow, 10, max(-ndigits.value, 0))
        number = number if dtype.kind != "b" else c.cast(number, INT, weak=True)
        if unit.value == 1:
            return number
        rounded = c.call(call.frame, call.node, Constant(_round_integer), [c.cast(number, INT, weak=True), unit], {})
        return rounded if isinstance(c.kind(number), type) else c.cast(rounded, c.kind(number))
    if not isinstance(ndigits, Constant):
        wide = c.cast(number, np.float64)
        rounded = c.call(call.frame, call.node, Constant(_round_digits), [wide, ndigits], {})
        return c.cast(rounded, c.kind(number), weak=isinstance(c.kind(number), type))
    scale = compute(c, "the number of digits", operator.pow, 10.0, abs(ndigits.value))
    there, back = ("multiply", "divide") if ndigits.value >= 0 else ("divide", "multiply")
    return c.apply(back, c.apply("rint", c.apply(there, number, scale)), scale)


def _round_integer(x: int, unit: int) -> int:
    """Round an integer to a multiple of `unit` in a kernel, with ties to the even multiple."""
    whole, rest = x // unit, 2 * (x % unit)
    return (whole + (rest > unit or (rest == unit and whole % 2 == 1))) * unit


def _round_digits(x: float, digits: int) -> float:
    """Compute ``round(x, digits)`` in a kernel, where `digits` may be known only at run time."""
    up = 10.0 ** min(max(digits, 0), 22)
    beyond = 10.0 ** max(digits - 22, 0)
    down = 10.0 ** max(-digits, 0)
    scaled = x * up * beyond / down
    if not abs(scaled) < 2.0**52:
        return x
    return np.rint(scaled) * down / up / beyond


@handles(math.isqrt)
def _isqrt(call: Invocation, n: Any) -> Any:
    number = call.c.number(n)
    dtype = np.dtype(call.c.kind(number))
    if dtype.kind not in "biu":
        call.c.fail(f"math.isqrt takes an integer, not {describe(number)}")
    kind = np.uint64 if dtype == np.uint64 else np.int64
    operands = [call.c.cast(number, kind), Constant(kind), Constant(math.isqrt(np.iinfo(kind).max))]
    return call.c.cast(call.c.call(call.frame, call.node, Constant(_integer_root), operands, {}), INT, weak=True)


def _integer_root(n: Any, kind: Any, largest: int) -> Any:
    """Compute `math.isqrt` in a kernel."""
    root = kind(min(int(np.sqrt(float(n))), largest))
    return root - (root * root > n)  # (the rounded root is never too small, but may be too large by 1)


@handles(math.modf, np.modf)
def _modf(call: Invocation, x: Any) -> Any:
    c = call.c
    x = c.scalar(x)
    x = x if dtype_kind(x.dtype) == "f" else c.scalar(c.cast(x, np.float64, weak=True))
    whole = c.apply("trunc", x)
    infinite = c.apply("isinf", x)
    rest = c.apply("where", infinite, c.cast(Constant(0.0), x.dtype), c.apply("subtract", x, whole))
    return TupleValue((c.apply("copysign", rest, x), whole))


@handles(math.frexp)
def _frexp(call: Invocation, x: Any) -> Any:
    x = call.c.scalar(call.c.cast(call.c.number(x), np.float64))
    return call.c.call(call.frame, call.node, Constant(_fraction_and_exponent), [x], {})


def _fraction_and_exponent(x: Any) -> Any:
    """Compute `math.frexp` of a float64 in a kernel."""
    small = abs(x) < 2.0**-1022  # (subnormal numbers are scaled up first)
    bits = np.where(small, x * 2.0**54, x).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    unchanged = (x == 0) | (exponent == 0x7FF)
    fraction = ((bits & ~(0x7FF << 52)) | (1022 << 52)).view(np.float64)
    return np.where(unchanged, x, fraction), np.where(unchanged, 0, exponent - np.where(small, 1022 + 54, 1022))


@handles(math.remainder)
def _ieee_remainder(call: Invocation, x: Any, y: Any) -> Any:
    c = call.c
    return c.call(call.frame, call.node, Constant(_exact_remainder), list(_as_floats(c, (x, y))), {})


def _exact_remainder(x: float, y: float) -> float:
    """Compute `math.remainder` in a kernel, by fmod and up to two subtractions."""
    size = abs(y)
    rest = math.fmod(abs(x), size + size)
    if rest + rest > size:
        rest -= size
        if rest + rest >= size:
            rest -= size
    return math.copysign(1.0, x) * rest


@handles(math.dist)
def _dist(call: Invocation, p: Any, q: Any) -> Any:
    c = call.c
    points = unpack(call.frame, p), unpack(call.frame, q)
    if len(points[0]) != len(points[1]):
        c.fail("both points of math.dist need the same number of coordinates")
    total: Any = Constant(0.0)
    for a, b in zip(*points, strict=True):
        total = c.apply("hypot", total, c.apply("subtract", a, b))  # squares could overflow
    return total


@handles(math.comb)
def _comb(call: Invocation, n: Any, k: Any) -> Any:
    if isinstance(n, Constant) and isinstance(k, Constant):
        return compute(call.c, "math.comb()", math.comb, n.value, k.value)
    call.c.fail(
        "math.comb of numbers that are not known when compiling is not part of the kernel language: write the loop"
    )


@handles(math.factorial)
def _factorial(call: Invocation, n: Any) -> Any:
    if isinstance(n, Constant):
        if isinstance(n.value, int) and n.value > 1000:
            call.c.fail(f"math.factorial({n.value}) is too large for a number of a kernel")
        return compute(call.c, "math.factorial()", math.factorial, n.value)
    call.c.fail("math.factorial of a number that is not known when compiling: write the loop")


@handles(int)
def _int(call: Invocation, x: Any = None) -> Any:
    c = call.c
    if x is None:
        return Constant(0)
    x = c.number(x)
    return compute(c, "int()", int, x.value) if isinstance(x, Constant) else c.cast(x, INT, weak=True)


@handles(float)
def _float(call: Invocation, x: Any = None) -> Any:
    c = call.c
    if isinstance(x, Constant) and isinstance(x.value, str):
        return compute(c, "float()", float, x.value)
    x = Constant(0.0) if x is None else c.number(x)
    if isinstance(x, Constant):
        return compute(c, "float()", float, x.value)
    return x if c.numba and x.dtype == np.float32 else c.cast(x, np.float64, weak=True)


@handles(bool)
def _bool(call: Invocation, x: Any = None) -> Any:
    truth = call.c.truth(Constant(False) if x is None else x)
    return Constant(truth) if isinstance(truth, bool) else ScalarValue(truth, True)


@handles(divmod, np.divmod)
def _divmod(call: Invocation, x: Any, y: Any) -> Any:
    return TupleValue((binary(call.c, ast.FloorDiv, x, y), binary(call.c, ast.Mod, x, y)))


@handles(pow)
def _pow(call: Invocation, base: Any, exponent: Any, mod: Any = None) -> Any:
    if mod is None:
        return binary(call.c, ast.Pow, base, exponent)
    values = (base, exponent, mod)
    if all(isinstance(v, Constant) for v in values):
        return compute(call.c, "pow()", pow, *(v.value for v in values))
    return call.c.call(call.frame, call.node, Constant(_modular_power), list(values), {})


def _modular_power(base: int, exponent: int, mod: int) -> int:
    """Compute ``pow(base, exponent, mod)`` in a kernel, for a modulus whose square fits into int64."""
    assert exponent >= 0, "pow() with a modulus takes no negative exponent in a kernel"
    assert abs(mod) <= 3037000499, "pow() in a kernel takes a modulus of at most 3037000499"
    mod = int(mod)
    result = 1 % mod
    square = int(base) % mod
    while exponent > 0:
        if exponent & 1:
            result = result * square % mod
        square = square * square % mod
        exponent >>= 1
    return result


def _extreme_item(call: Invocation, generator: Generator, strict: str) -> Any:
    """Compile `min` or `max` of the items of a generator expression."""
    c = call.c
    best, begun = (c.result((*call.frame.path, "reduction", k), call.node, "the result") for k in range(2))
    c.assign(begun, ScalarValue(c.builder.constant(False, np.bool_), True))

    def step(item: object) -> None:
        item = c.scalar(item)
        if best.kind is None:
            c.assign(best, item)
            raise Restart
        better = c.apply(strict, item, c.load(best))
        first = c.apply("bitwise_xor", c.load(begun), Constant(True))
        with c.builder.if_(c.ir(c.apply("bitwise_or", first, better))):
            c.assign(best, item)
        c.assign(begun, ScalarValue(c.builder.constant(True, np.bool_), True))

    each_item(generator, step)
    if best.kind is None:
        c.fail("min and max of nothing")
    return c.load(best)


def _lesser(op: str, strict: str, call: Invocation, *values: Any) -> Any:
    c = call.c
    name = "min" if op == "minimum" else "max"
    if not values:
        c.fail(f"{name}() takes at least 1 argument, but 0 were given")
    if len(values) == 1:
        if isinstance(values[0], ArrayValue):
            return methods.call_method(call, values[0], name, [], {})
        if isinstance(values[0], Generator):
            return _extreme_item(call, values[0], strict)
        values = unpack(call.frame, values[0])
        if not values:
            c.fail("min and max of nothing")
    best = c.number(values[0])
    for value in values[1:]:
        value = c.number(value)
        if isinstance(best, Constant) and isinstance(value, Constant):
            best = compute(c, op, min if op == "minimum" else max, best.value, value.value)
            continue
        if all(np.dtype(c.kind(v)).kind in "iu" for v in (best, value)):
            best = c.apply(op, best, value)
        elif c.numba:  # as Numba's CUDA target: of a number and NaN, the number
            best = c.apply({"minimum": "fmin", "maximum": "fmax"}[op], best, value)
        else:
            # As in Python, the first item is kept unless another is strictly beyond it.
            best = c.apply("where", c.apply(strict, value, best), value, best)
    return best


TABLE[min] = partial(_lesser, "minimum", "less")
TABLE[max] = partial(_lesser, "maximum", "greater")


@handles(np.where)
def _where(call: Invocation, condition: Any, x: Any, y: Any) -> Any:
    truth = call.c.truth(condition)
    if isinstance(truth, bool):
        return x if truth else y
    return elementwise(call, "where", ScalarValue(truth, True), x, y)


@handles(np.clip)
def _clip(call: Invocation, a: Any, a_min: Any, a_max: Any) -> Any:
    c = call.c
    low = isinstance(a_min, Constant) and a_min.value is None
    high = isinstance(a_max, Constant) and a_max.value is None
    a = a if low else c.apply("maximum", a, a_min)
    return a if high else c.apply("minimum", a, a_max)


TABLE.update(
    {
        math.floor: lambda call, x: _to_integer(call, "floor", x),
        math.ceil: lambda call, x: _to_integer(call, "ceil", x),
        math.trunc: lambda call, x: _to_integer(call, "trunc", x),
        abs: lambda call, x: elementwise(call, "absolute", x),
        np.real: lambda call, z: attribute(call.c, z, "real"),
        np.imag: lambda call, z: attribute(call.c, z, "imag"),
        cmath.polar: lambda call, z: TupleValue((call.c.apply("absolute", _complex(call, z)), _phase(call, z))),
    }
)
