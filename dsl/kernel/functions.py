"""Functions of Python, math, cmath, operator and NumPy inside kernels.

In: a call and its arguments as values. Out: a value. `find_function` finds the handler of a Python object; rows of the
op table need none.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import enum
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.kernel import arrays, methods
from weft.dsl.kernel.compiler import Compiler
from weft.dsl.kernel.expressions import binary, bind, compare, componentwise, evaluate, negate, subscript, unpack, wrap
from weft.dsl.kernel.invocation import Call
from weft.dsl.kernel.iteration import length_of, make_range
from weft.dsl.kernel.library import LibraryFunction
from weft.dsl.kernel.members import attribute
from weft.dsl.kernel.types import Type, as_type
from weft.dsl.kernel.values import (
    INT,
    Array,
    Closure,
    Constant,
    Record,
    Reversed,
    Scalar,
    Text,
    Tuple,
    Zipped,
    describe,
    is_number,
)

Handler = Callable[..., Any]
_TABLE: dict[Any, Handler] = {}


def handles(*objects: Any) -> Callable[[Handler], Handler]:
    """Register the handler of Python objects."""

    def register(handler: Handler) -> Handler:
        for item in objects:
            _TABLE[item] = handler
        return handler

    return register


def find_function(held: Any) -> Handler | None:
    """The handler of a Python object, or None."""
    try:
        return _TABLE.get(held)
    except TypeError:
        return None


# -- numbers -------------------------------------------------------------------------------------


def dtype_of(c: Compiler, value: Any) -> np.dtype:
    """A dtype that is named in a kernel. Raises KernelTypeError for what is none."""
    held = value.value if isinstance(value, Constant) else value
    if held in (int, float, complex, bool):
        return np.dtype(held)
    try:
        dtype = held if isinstance(held, np.dtype) else getattr(as_type(held), "dtype", None)
    except TypeError:
        dtype = None
    if not isinstance(dtype, np.dtype):
        c.fail(f"{describe(value) if not isinstance(value, np.dtype) else value} is no dtype: write one such as np.float32")
    if dtype.kind not in "biufcV" or (dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16)):
        c.fail(f"{dtype} is not part of the kernel language: use bool, integers, float16 to float64 or complex numbers")
    return dtype


def convert(call: Call, dtype: np.dtype, arguments: list[Any]) -> Any:
    """``np.float32(x)``."""
    if len(arguments) > 1:
        call.c.fail(f"{dtype} takes one number, not {len(arguments)}")
    value = arguments[0] if arguments else Constant(0)
    if isinstance(value, Array) and value.ndim == 0:
        value = arrays.element(call.c, value)
    value = call.c.number(value)
    if isinstance(value, Constant) and isinstance(value.value, int) and dtype.kind in "iu":
        # a cast wraps, also of a Python int
        bits = 8 * dtype.itemsize
        return Constant(np.array(value.value & ((1 << bits) - 1), f"u{dtype.itemsize}").view(dtype)[()])
    return call.c.cast(value, dtype)


def elementwise(call: Call, row: str, *operands: Any) -> Any:
    """A row of the op table; on vectors component by component."""
    c = call.c
    operands = tuple(arrays.element(c, o) if isinstance(o, Array) and o.ndim == 0 else o for o in operands)
    if any(isinstance(o, Array) for o in operands):
        c.fail(f"{row} of a whole array is not part of the kernel language: loop over its elements, or compute outside")
    if any(isinstance(o, Tuple) and getattr(o.maker, "lanes", 0) for o in operands):
        return componentwise(c, lambda *parts: c.apply(row, *parts), *operands)
    return c.apply(row, *operands)


def _rows(module: Any, names: dict[str, str]) -> None:
    for name, row in names.items():
        function = getattr(module, name, None)
        if function is not None:
            _TABLE[function] = lambda call, *operands, _row=row: _floating(call, _row, operands)


def _floating(call: Call, row: str, operands: tuple[Any, ...]) -> Any:
    """A function of module math: constants are folded by Python where it can."""
    c = call.c
    arity = len(operands)
    from weft.codegen import find_op

    if arity != find_op(row).arity:
        c.fail(f"{row}() takes {find_op(row).arity} arguments, but {arity} were given")
    return elementwise(call, row, *operands)


_MATH = {
    name: name
    for name in (
        "sqrt exp exp2 expm1 log2 log10 log1p sin cos tan sinh cosh tanh fmod hypot copysign erf erfc gamma lgamma "
        "isnan isinf isfinite fabs gcd lcm ldexp nextafter cbrt fma"
    ).split()
}
_MATH |= {"pow": "power", "acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2", "acosh": "arccosh"}
_MATH |= {"asinh": "arcsinh", "atanh": "arctanh", "degrees": "rad2deg", "radians": "deg2rad"}
_rows(math, _MATH)
_CMATH = "sqrt exp log10 sin cos tan sinh cosh tanh isnan isinf isfinite".split()
_rows(cmath, {name: name for name in _CMATH} | {k: v for k, v in _MATH.items() if k.startswith("a") and k != "atan2"})


def _complex(call: Call, value: Any) -> Any:
    number = call.c.number(value)
    kind = call.c.kind(number)
    if kind is complex or (isinstance(kind, np.dtype) and kind.kind == "c"):
        return number
    return call.c.cast(number, np.complex64 if kind == np.dtype(np.float32) else np.complex128, isinstance(kind, type))


for _name in _CMATH + [k for k in _MATH if k.startswith("a") and k != "atan2"]:
    _function = getattr(cmath, _name, None)
    if _function is not None:
        _TABLE[_function] = lambda call, z, _row=_MATH.get(_name, _name): call.c.apply(_row, _complex(call, z))


@handles(math.log)
def _log(call: Call, x: Any, base: Any = None) -> Any:
    c = call.c
    if base is None:
        return elementwise(call, "log", x)
    return c.apply("divide", elementwise(call, "log", x), elementwise(call, "log", base))


@handles(cmath.log)
def _complex_log(call: Call, z: Any, base: Any = None) -> Any:
    found = call.c.apply("log", _complex(call, z))
    return found if base is None else call.c.apply("divide", found, call.c.apply("log", _complex(call, base)))


@handles(cmath.phase, np.angle)
def _phase(call: Call, z: Any) -> Any:
    z = _complex(call, z)
    return call.c.apply("arctan2", attribute(call.c, z, "imag"), attribute(call.c, z, "real"))


@handles(cmath.polar)
def _polar(call: Call, z: Any) -> Any:
    return Tuple((call.c.apply("absolute", _complex(call, z)), _phase(call, z)))


@handles(cmath.rect)
def _rect(call: Call, r: Any, phi: Any) -> Any:
    c = call.c
    return make_complex(call, c.apply("multiply", r, c.apply("cos", phi)), c.apply("multiply", r, c.apply("sin", phi)))


def make_complex(call: Call, real: Any, imag: Any) -> Any:
    """A complex number of its parts."""
    c = call.c
    if isinstance(real, Constant) and isinstance(imag, Constant):
        return Constant(complex(real.value, imag.value))
    kinds = [c.kind(c.number(v)) for v in (real, imag)]
    small = all(k == np.dtype(np.float32) or k in (int, float, bool) for k in kinds) and np.dtype(np.float32) in kinds
    dtype = np.dtype(np.complex64 if small else np.complex128)
    part = np.dtype(f"f{dtype.itemsize // 2}")
    joined = c.builder.op("_complex", c.ir(real, part), c.ir(imag, part), dtype=dtype)
    return Scalar(joined, all(isinstance(k, type) for k in kinds))


@handles(complex)
def _python_complex(call: Call, real: Any = None, imag: Any = None) -> Any:
    real = Constant(0.0) if real is None else real
    if imag is None:
        return call.c.cast(call.c.number(real), np.complex128, weak=True)
    return make_complex(call, real, imag)


def _to_integer(call: Call, row: str, x: Any) -> Any:
    c = call.c
    x = c.number(x)
    if isinstance(x, Constant):
        return Constant(int({"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round}[row](x.value)))
    if x.dtype.kind in "biu":
        return c.cast(x, INT, weak=True)
    return c.cast(c.apply(row, x), INT, weak=True)


@handles(math.floor)
def _floor(call: Call, x: Any) -> Any:
    return _to_integer(call, "floor", x)


@handles(math.ceil)
def _ceil(call: Call, x: Any) -> Any:
    return _to_integer(call, "ceil", x)


@handles(math.trunc)
def _trunc(call: Call, x: Any) -> Any:
    return _to_integer(call, "trunc", x)


@handles(round, np.round, np.around)
def _round(call: Call, x: Any, ndigits: Any = None, decimals: Any = None) -> Any:
    c = call.c
    digits = decimals if ndigits is None else ndigits
    if digits is None or (isinstance(digits, Constant) and digits.value is None):
        return _to_integer(call, "rint", x)
    if not isinstance(digits, Constant):
        c.fail("round() takes a number of digits that is known when compiling")
    scale = Constant(10.0 ** digits.value)
    return c.apply("divide", c.apply("rint", c.apply("multiply", x, scale)), scale)


@handles(math.isqrt)
def _isqrt(call: Call, x: Any) -> Any:
    return _to_integer(call, "floor", call.c.apply("sqrt", call.c.cast(call.c.number(x), np.float64)))


@handles(math.modf)
def _modf(call: Call, x: Any) -> Any:
    c = call.c
    x = c.scalar(x)
    x = x if x.dtype.kind == "f" else c.scalar(c.cast(x, np.float64, weak=True))
    whole = c.apply("trunc", x)
    infinite = c.apply("isinf", x)
    rest = c.apply("where", infinite, c.cast(Constant(0.0), x.dtype), c.apply("subtract", x, whole))
    return Tuple((c.apply("copysign", rest, x), whole))


@handles(math.frexp)
def _frexp(call: Call, x: Any) -> Any:
    c = call.c
    x = c.scalar(c.cast(c.number(x), np.float64))
    # numbers below the normal range are scaled up first
    small = c.apply("less", c.apply("absolute", x), Constant(2.0**-1022))
    scaled = c.apply("where", small, c.apply("multiply", x, Constant(2.0**54)), x)
    bits = methods.bit_cast(c, c.scalar(scaled), np.dtype(np.int64))
    field = c.apply("bitwise_and", c.apply("right_shift", bits, Constant(52)), Constant(0x7FF))
    still = c.apply("bitwise_or", c.apply("equal", field, Constant(0x7FF)), c.apply("equal", x, Constant(0.0)))
    exponent = c.apply("subtract", field, c.apply("where", small, Constant(1022 + 54), Constant(1022)))
    mantissa = c.apply("bitwise_or", c.apply("bitwise_and", bits, Constant(~(0x7FF << 52))), Constant(1022 << 52))
    value = methods.bit_cast(c, c.scalar(mantissa), np.dtype(np.float64))
    return Tuple((c.apply("where", still, x, value), c.apply("where", still, Constant(0), exponent)))


@handles(math.remainder)
def _ieee_remainder(call: Call, x: Any, y: Any) -> Any:
    c = call.c
    return c.call(call.frame, call.node, Constant(_exact_remainder), [c.number(x), c.number(y)], {})


def _exact_remainder(x: float, y: float) -> float:
    """Compiled into kernels: IEEE 754's remainder; as FreeBSD's msun, by fmod and at most two subtractions."""
    size = abs(y)
    rest = math.fmod(abs(x), size + size)
    if rest + rest > size:
        rest -= size
        if rest + rest >= size:
            rest -= size
    return math.copysign(1.0, x) * rest


@handles(math.dist)
def _dist(call: Call, p: Any, q: Any) -> Any:
    c = call.c
    total: Any = Constant(0.0)
    for a, b in zip(unpack(call.frame, p), unpack(call.frame, q), strict=True):
        far = c.apply("subtract", a, b)
        total = c.apply("add", total, c.apply("multiply", far, far))
    return c.apply("sqrt", total)


@handles(math.comb)
def _comb(call: Call, n: Any, k: Any) -> Any:
    if isinstance(n, Constant) and isinstance(k, Constant):
        return Constant(math.comb(n.value, k.value))
    call.c.fail("math.comb of numbers that are not known when compiling is not part of the kernel language: write the loop")


@handles(math.factorial)
def _factorial(call: Call, n: Any) -> Any:
    if isinstance(n, Constant):
        return Constant(math.factorial(n.value))
    call.c.fail("math.factorial of a number that is not known when compiling: write the loop")


@handles(abs)
def _abs(call: Call, x: Any) -> Any:
    return elementwise(call, "absolute", x)


@handles(int)
def _int(call: Call, x: Any = None) -> Any:
    c = call.c
    if x is None:
        return Constant(0)
    x = c.number(x)
    return Constant(int(x.value)) if isinstance(x, Constant) else c.cast(x, INT, weak=True)


@handles(float)
def _float(call: Call, x: Any = None) -> Any:
    c = call.c
    if isinstance(x, Constant) and isinstance(x.value, str):
        return Constant(float(x.value))
    x = Constant(0.0) if x is None else c.number(x)
    return Constant(float(x.value)) if isinstance(x, Constant) else c.cast(x, np.float64, weak=True)


@handles(bool)
def _bool(call: Call, x: Any = None) -> Any:
    truth = call.c.truth(Constant(False) if x is None else x)
    return Constant(truth) if isinstance(truth, bool) else Scalar(truth, True)


@handles(divmod, np.divmod)
def _divmod(call: Call, x: Any, y: Any) -> Any:
    return Tuple((call.c.apply("floor_divide", x, y), call.c.apply("remainder", x, y)))


@handles(pow)
def _pow(call: Call, base: Any, exponent: Any, mod: Any = None) -> Any:
    if mod is None:
        return binary(call.c, ast.Pow, base, exponent)
    values = (base, exponent, mod)
    if all(isinstance(v, Constant) for v in values):
        return Constant(pow(*(v.value for v in values)))
    return call.c.call(call.frame, call.node, Constant(_modular_power), list(values), {})


def _modular_power(base: int, exponent: int, mod: int) -> int:
    """Compiled into kernels: ``pow(base, exponent, mod)`` for numbers below 2**31."""
    result = 1 % mod
    square = base % mod
    while exponent > 0:
        if exponent & 1:
            result = result * square % mod
        square = square * square % mod
        exponent >>= 1
    return result


def _lesser(row: str, strict: str) -> Handler:
    def handler(call: Call, *values: Any) -> Any:
        c = call.c
        if len(values) == 1:
            if isinstance(values[0], Array):
                return methods.call_method(call, values[0], "min" if row == "minimum" else "max", [], {})
            values = unpack(call.frame, values[0])
            if not values:
                c.fail("min and max of nothing")
        best = c.number(values[0])
        for value in values[1:]:
            value = c.number(value)
            if isinstance(best, Constant) and isinstance(value, Constant):
                best = Constant((min if row == "minimum" else max)(best.value, value.value))
                continue
            if all(_is_integer(c, v) for v in (best, value)):
                best = c.apply(row, best, value)
            else:
                # as Python: the first unless the other is strictly beyond it
                best = c.apply("where", c.apply(strict, value, best), value, best)
        return best

    return handler


def _is_integer(c: Compiler, value: Any) -> bool:
    kind = c.kind(value)
    return kind is int or (isinstance(kind, np.dtype) and kind.kind in "iu")


_TABLE[min] = _lesser("minimum", "less")
_TABLE[max] = _lesser("maximum", "greater")


@handles(np.where)
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    truth = call.c.truth(condition)
    if isinstance(truth, bool):
        return x if truth else y
    return elementwise(call, "where", Scalar(truth, True), x, y)


@handles(np.clip)
def _clip(call: Call, a: Any, a_min: Any, a_max: Any) -> Any:
    c = call.c
    low = isinstance(a_min, Constant) and a_min.value is None
    high = isinstance(a_max, Constant) and a_max.value is None
    a = a if low else c.apply("maximum", a, a_min)
    return a if high else c.apply("minimum", a, a_max)


@handles(np.modf)
def _np_modf(call: Call, x: Any) -> Any:
    return _modf(call, x)


@handles(np.real)
def _real(call: Call, z: Any) -> Any:
    return attribute(call.c, z, "real")


@handles(np.imag)
def _imag(call: Call, z: Any) -> Any:
    return attribute(call.c, z, "imag")


# -- collections ---------------------------------------------------------------------------------


@handles(len)
def _len(call: Call, value: Any) -> Any:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return Constant(len(value.value))
    if isinstance(value, (Scalar, Record)) or (isinstance(value, Array) and not value.ndim):
        call.c.fail(f"{describe(value)} has no length")
    return length_of(call.c, value)


@handles(range)
def _range(call: Call, *arguments: Any) -> Any:
    return make_range(call.c, list(arguments))


@handles(zip)
def _zip(call: Call, *parts: Any, strict: Any = None) -> Any:
    if not parts:
        return Tuple(())
    return Zipped(tuple(parts))


@handles(enumerate)
def _enumerate(call: Call, value: Any, start: Any = None) -> Any:
    if start is None or (isinstance(start, Constant) and start.value == 0):
        return Zipped((None, value))
    stop = call.c.apply("add", start, length_of(call.c, value))
    return Zipped((make_range(call.c, [start, stop]), value))


@handles(reversed)
def _reversed(call: Call, value: Any) -> Any:
    length_of(call.c, value)
    return Reversed(value)


@handles(tuple, list)
def _tuple(call: Call, value: Any = None) -> Any:
    return Tuple(()) if value is None else Tuple(unpack(call.frame, value))


@handles(sum)
def _sum(call: Call, value: Any, start: Any = None) -> Any:
    c = call.c
    total = Constant(0) if start is None else start
    if isinstance(value, Array):
        return c.apply("add", total, methods.call_method(call, value, "sum", [], {}))
    for item in unpack(call.frame, value):
        total = binary(c, ast.Add, total, item)
    return total


@handles(any)
def _any(call: Call, value: Any) -> Any:
    return _quantified(call, value, "any")


@handles(all)
def _all(call: Call, value: Any) -> Any:
    return _quantified(call, value, "all")


def _quantified(call: Call, value: Any, name: str) -> Any:
    c = call.c
    if isinstance(value, Array):
        return methods.call_method(call, value, name, [], {})
    found: Any = Constant(name == "all")
    for item in unpack(call.frame, value):
        truth = c.truth(item)
        if isinstance(truth, bool):
            if truth == (name == "any"):
                return Constant(truth)
            continue
        one = Scalar(truth, True)
        found = one if isinstance(found, Constant) else c.apply("bitwise_and" if name == "all" else "bitwise_or", found, one)
    return found


@handles(isinstance)
def _isinstance(call: Call, value: Any, classes: Any) -> Any:
    wanted = [item.value for item in classes.items] if isinstance(classes, Tuple) else [classes.value]
    return Constant(any(_is_instance(call.c, value, w) for w in wanted))


def _is_instance(c: Compiler, value: Any, wanted: Any) -> bool:
    match value:
        case Array():
            return wanted is np.ndarray
        case Tuple(maker=maker):
            return wanted is tuple and not getattr(maker, "lanes", 0) if maker is None or wanted is tuple else maker is wanted
        case Scalar() | Constant() if isinstance(value, Scalar) or is_number(value.value):
            kind = c.kind(value)
            if isinstance(kind, type):
                return wanted is kind or (wanted is int and kind is bool)
            if isinstance(wanted, Type):
                return getattr(wanted, "dtype", None) == kind
            groups = {int: "iu", float: "f", complex: "c", bool: "b"}
            if wanted in groups:
                return kind.kind in groups[wanted]
            return isinstance(wanted, type) and issubclass(kind.type, wanted)
        case Constant(value=held):
            return isinstance(wanted, type) and isinstance(held, wanted)
    return False


@handles(getattr)
def _getattr(call: Call, value: Any, name: Any, default: Any = None) -> Any:
    return attribute(call.c, value, name.value)


@handles(type)
def _type(call: Call, value: Any) -> Any:
    number = call.c.number(value)
    kind = call.c.kind(number)
    return Constant(kind if isinstance(kind, type) else kind.type)


@handles(print)
def _print(call: Call, *values: Any, sep: Any = None, end: Any = None) -> Any:
    c = call.c
    space = " " if sep is None else str(sep.value)
    tail = "\n" if end is None else str(end.value)
    pieces, shown = [""], []

    def show(value: Any) -> None:
        match value:
            case Text(pieces=texts, values=inner):
                pieces[-1] += texts[0]
                for text, part in zip(texts[1:], inner, strict=True):
                    show(part)
                    pieces[-1] += text
            case Tuple(items=items):
                pieces[-1] += "("
                for k, item in enumerate(items):
                    pieces[-1] += ", " if k else ""
                    show(item)
                pieces[-1] += ",)" if len(items) == 1 else ")"
            case Constant(value=held):
                pieces[-1] += str(held)
            case _:
                shown.append(c.ir(c.number(value, "a number or text to print")))
                pieces.append("")

    for k, value in enumerate(values):
        pieces[-1] += space if k else ""
        show(value)
    pieces[-1] += tail
    c.builder.emit("print", shown, (), pieces=tuple(pieces))
    return Constant(None)


def _operators() -> None:
    names = {
        "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
        "pow": ast.Pow, "lshift": ast.LShift, "rshift": ast.RShift, "and_": ast.BitAnd, "or_": ast.BitOr, "xor": ast.BitXor,
    }  # fmt: skip
    for name, kind in names.items():
        _TABLE[getattr(operator, name)] = lambda call, x, y, _kind=kind: binary(call.c, _kind, x, y)
        _TABLE[getattr(operator, "i" + name.rstrip("_"))] = lambda call, x, y, _kind=kind: binary(call.c, _kind, x, y)
    comparisons = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}
    for name, test in comparisons.items():
        _TABLE[getattr(operator, name)] = lambda call, x, y, _t=test: compare(call.frame, call.node, _t(), x, y)
    for name, row in {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}.items():
        _TABLE[getattr(operator, name)] = lambda call, x, _row=row: elementwise(call, _row, x)
    _TABLE[operator.not_] = lambda call, x: negate(call.c, call.c.truth(x))
    _TABLE[operator.getitem] = lambda call, x, k: subscript(call.frame, call.node, x, k)


_operators()


# -- arrays --------------------------------------------------------------------------------------


def local_array(c: Compiler, shape: Any, dtype: Any, what: str) -> Array:
    """An array of the thread's own."""
    known = arrays.known_shape(shape)
    if known is None:
        c.fail(f"the shape of {what} has to be known when the kernel is compiled: a constant, or an argument's default")
    if any(n < 0 for n in known):
        c.fail(f"the shape of {what} cannot be negative: {known}")
    kind = dtype_of(c, dtype)
    return place_array(c, "local", known, kind, what)


def place_array(c: Compiler, space: str, shape: tuple[int, ...], dtype: np.dtype, what: str) -> Array:
    """Memory of the thread or the block."""
    count = max(math.prod(shape), 1)
    with c.at_top():
        if dtype.names is not None:
            unit = max(dtype.alignment, 1)
            raw = np.dtype(f"u{unit}") if unit in (1, 2, 4, 8) else np.dtype(np.uint64)
            words = -(-count * dtype.itemsize // raw.itemsize)
            pointer = getattr(c.builder, space)(raw, words)
            pointer = c.builder.reinterpret(pointer, np.uint8) if raw.itemsize > 1 else pointer
        else:
            pointer = getattr(c.builder, space)(dtype, count)
    return Array(pointer, dtype, shape, arrays.contiguous(c, shape, arrays.unit(dtype)), space, True, what, True)


def _filled(value: Any) -> Handler:
    def handler(call: Call, shape: Any, dtype: Any = None) -> Any:
        c = call.c
        made = local_array(c, shape, Constant(np.float64) if dtype is None else dtype, "an array made in a kernel")
        if value is not None:
            arrays.assign_view(c, made, Constant(value))
        return made

    return handler


_TABLE[np.zeros] = _filled(0)
_TABLE[np.ones] = _filled(1)
_TABLE[np.empty] = _filled(None)


def _reductions() -> None:
    for name in ("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax", "amin", "amax"):
        method = {"amin": "min", "amax": "max"}.get(name, name)
        _TABLE[getattr(np, name)] = lambda call, a, _m=method: methods.call_method(call, a, _m, [], {})
    _TABLE[np.dot] = lambda call, a, b: methods.call_method(call, a, "dot", [b], {})
    _TABLE[np.ravel] = lambda call, a: methods.call_method(call, a, "ravel", [], {})
    _TABLE[np.transpose] = lambda call, a: attribute(call.c, a, "T")
    _TABLE[np.size] = lambda call, a: attribute(call.c, a, "size")
    _TABLE[np.shape] = lambda call, a: attribute(call.c, a, "shape")
    _TABLE[np.ndim] = lambda call, a: attribute(call.c, a, "ndim")


_reductions()


# -- libraries and vectors -----------------------------------------------------------------------


def call_library(call: Call, function: LibraryFunction, arguments: list[Any]) -> Any:
    """A function of libdevice or of float16 and bfloat16."""
    c = call.c
    if len(arguments) != len(function.arguments):
        c.fail(f"{function.name} takes {len(function.arguments)} arguments, but {len(arguments)} were given")
    values = [c.cast(c.number(a), d) for a, d in zip(arguments, function.arguments, strict=True)]
    if function.symbol and c.target is not None and c.target.kind == "cuda":
        return _external(c, function, values)
    if isinstance(function.host, str):
        found = c.apply(function.host, *values)
    else:
        found = c.call(call.frame, call.node, Constant(function.host), values, {})
    items = found.items if isinstance(found, Tuple) else (found,)
    made = tuple(c.cast(item, d) for item, d in zip(items, function.results, strict=True))
    return made[0] if len(made) == 1 else Tuple(made)


def _external(c: Compiler, function: LibraryFunction, values: list[Any]) -> Any:
    operands = [c.ir(v, d) for v, d in zip(values, function.arguments, strict=True)]
    written = function.results if function.by_pointer else function.results[1:]
    with c.at_top():
        places = [c.builder.local(d) for d in written]
    given = [] if function.by_pointer else [function.results[0]]
    results = list(c.builder.emit("external", [*operands, *places], given, symbol=function.symbol))
    results += [c.builder.load(place, c.builder.constant(0)) for place in places]
    made = tuple(Scalar(v) for v in results)
    return made[0] if len(made) == 1 else Tuple(made)


def make_vector(call: Call, maker: Any, arguments: list[Any]) -> Tuple:
    """``float4(x, y, z, w)``, also of shorter vectors."""
    c = call.c
    parts: list[Any] = []
    for argument in arguments:
        parts.extend(argument.items if isinstance(argument, Tuple) else (argument,))
    if len(parts) != maker.lanes:
        c.fail(f"{maker.__name__} takes {maker.lanes} components, not {len(parts)}")
    return Tuple(tuple(c.cast(p, maker.dtype) for p in parts), maker, ("x", "y", "z", "w")[: maker.lanes])


__all__ = ["bind", "builtins", "convert", "dtype_of", "enum", "evaluate", "find_function", "wrap", "Closure"]
