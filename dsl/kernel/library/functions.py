"""Compilation of calls in kernels to built-in and library functions.

In: a call and its arguments as values. Out: a value.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable
from functools import partial
from types import UnionType
from typing import Any

import numpy as np

from weft.codegen import dtype_kind, is_bfloat16
from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language import value_methods as methods
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.date_values import NAT, as_date
from weft.dsl.kernel.language.expressions import read_attribute, subscript, unpack
from weft.dsl.kernel.language.generators import each_item
from weft.dsl.kernel.language.handlers import TABLE, dtype_of, elementwise, handles, truth_value
from weft.dsl.kernel.language.invocation import Invocation
from weft.dsl.kernel.language.iteration import length_of, make_range
from weft.dsl.kernel.language.kernel_errors import KernelAttributeError
from weft.dsl.kernel.language.known import compute, known
from weft.dsl.kernel.language.members import attribute, is_instance, python_class, thread_number
from weft.dsl.kernel.language.names import ThreadNumbers
from weft.dsl.kernel.language.patterns import combine_tests
from weft.dsl.kernel.language.text_values import is_text, text_length
from weft.dsl.kernel.language.types import ScalarType
from weft.dsl.kernel.language.value_operators import binary, compare, negate
from weft.dsl.kernel.language.values import (
    ArrayValue,
    Constant,
    DateValue,
    Generator,
    Indices,
    RecordValue,
    Reversed,
    ScalarValue,
    TextValue,
    TupleValue,
    Zipped,
    beside,
    describe,
    make_slice,
)
from weft.dsl.kernel.library import array_functions, number_functions
from weft.dsl.kernel.library.library_functions import LibraryFunction
from weft.runtime import counted

_registered = (array_functions, number_functions)  # whose handlers are in the same table


# -- collections ---------------------------------------------------------------------------------


@handles(len)
def _len(call: Invocation, value: Any) -> Any:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return Constant(len(value.value))
    if is_text(value):
        return text_length(call.c, value)
    if isinstance(value, (ScalarValue, RecordValue)) or (isinstance(value, ArrayValue) and not value.ndim):
        call.c.fail(f"{describe(value)} has no length")
    return length_of(call.c, value)


@handles(range)
def _range(call: Invocation, *arguments: Any) -> Any:
    return make_range(call.c, list(arguments))


@handles(slice)
def _slice(call: Invocation, *parts: Any) -> Any:
    if not 1 <= len(parts) <= 3:
        call.c.fail(f"slice takes 1 to 3 arguments, not {len(parts)}")
    start, stop, step = (None, *parts, None) if len(parts) == 1 else (*parts, None)[:3]
    return make_slice(start, stop, step)


@handles(np.ndindex)
def _ndindex(call: Invocation, *shape: Any) -> Any:
    lengths = shape[0].items if len(shape) == 1 and isinstance(shape[0], TupleValue) else shape
    return Indices(tuple(length_of(call.c, make_range(call.c, [length])) for length in lengths))


@handles(np.ndenumerate)
def _ndenumerate(call: Invocation, array: Any) -> Any:
    if not isinstance(array, ArrayValue):
        call.c.fail(f"np.ndenumerate takes an array, not {describe(array)}")
    return Indices(tuple(arrays.length(call.c, n) for n in array.shape), array)


@handles(zip)
def _zip(call: Invocation, *parts: Any, strict: Any = None) -> Any:
    c = call.c
    if strict is not None and known(c, strict, "strict"):
        first, *others = [length_of(c, part) for part in parts]
        for other in others:
            different = c.truth(c.apply("not_equal", first, other))
            if different is True:
                c.fail("the arguments of zip() have different lengths")
            if different is not False:
                c.report(different, ValueError, "the arguments of zip() have different lengths")
    return Zipped(tuple(parts)) if parts else TupleValue(())


@handles(enumerate)
def _enumerate(call: Invocation, value: object, start: Any = None) -> Any:
    if start is None or (isinstance(start, Constant) and start.value == 0):
        return Zipped((None, value))
    stop = call.c.apply("add", start, length_of(call.c, value))
    return Zipped((make_range(call.c, [start, stop]), value))


@handles(reversed)
def _reversed(call: Invocation, value: object) -> Any:
    length_of(call.c, value)
    return Reversed(value)


@handles(tuple, list)
def _tuple(call: Invocation, value: object = None) -> Any:
    return TupleValue(()) if value is None else TupleValue(unpack(call.frame, value))


@handles(sum)
def _sum(call: Invocation, value: object, start: Any = None) -> Any:
    c = call.c
    total = Constant(0) if start is None else start
    if isinstance(value, ArrayValue):
        return c.apply("add", total, methods.call_method(call, value, "sum", [], {}))
    if isinstance(value, Generator):
        return _accumulated(call, value, total, lambda old, item: binary(c, ast.Add, old, item))
    for item in unpack(call.frame, value):
        total = binary(c, ast.Add, total, item)
    return total


def _accumulated(call: Invocation, generator: Generator, start: Any, step: Callable[[Any, Any], Any]) -> Any:
    """Compile a loop that executes ``total = step(total, item)`` for each item of a generator expression."""
    c = call.c
    total = c.result((*call.frame.path, "reduction"), call.node, "the result")
    c.assign(total, start)
    each_item(generator, lambda item: c.assign(total, step(c.load(total), item)))
    return c.load(total)


TABLE[any] = lambda call, value: _quantified(call, value, "any")
TABLE[all] = lambda call, value: _quantified(call, value, "all")


def _quantified(call: Invocation, value: object, name: str) -> Any:
    c = call.c
    if isinstance(value, ArrayValue):
        return methods.call_method(call, value, name, [], {})
    op = "bitwise_and" if name == "all" else "bitwise_or"
    if isinstance(value, Generator):

        def step(old: Any, item: object) -> Any:
            return c.apply(op, old, ScalarValue(truth_value(c, item), True))

        return _accumulated(call, value, c.scalar(Constant(name == "all")), step)
    tests = [partial(c.truth, item) for item in unpack(call.frame, value)]
    truth = combine_tests(c, op, tests, name == "any")
    return Constant(truth) if isinstance(truth, bool) else ScalarValue(truth, True)


@handles(np.iinfo, np.finfo)
def _limits(call: Invocation, kind: type) -> Any:
    dtype = dtype_of(call.c, kind)
    return compute(call.c, f"the limits of {dtype}", np.iinfo if dtype.kind in "iu" else np.finfo, dtype)


@handles(dataclasses.replace)
def _replace(call: Invocation, value: object, **changes: Any) -> Any:
    if not isinstance(value, TupleValue) or not value.names:
        call.c.fail(f"replace takes a dataclass, not {describe(value)}")
    return methods.replaced(call.c, value, changes)


@handles(isinstance)
def _isinstance(call: Invocation, value: object, classes: Any) -> Any:
    return Constant(any(is_instance(call.c, value, wanted) for wanted in _classes(call.c, classes)))


def _classes(c: Compiler, classes: object) -> list[Any]:
    """Return the classes in the second argument of `isinstance`."""
    if isinstance(classes, TupleValue):
        return [wanted for item in classes.items for wanted in _classes(c, item)]
    held = known(c, classes, "a class")
    return list(held.__args__) if isinstance(held, UnionType) else [held]


@handles(np.timedelta64)
def _duration(call: Invocation, value: object, unit: Any = None) -> Any:
    if isinstance(value, Constant):
        parts = [value.value] if unit is None else [value.value, known(call.c, unit, "a unit")]
        return compute(call.c, "timedelta64()", np.timedelta64, *parts)
    dtype = np.dtype(f"m8[{known(call.c, unit or Constant(None), 'a unit')}]")
    return DateValue(call.c.cast(call.c.number(value), np.int64), dtype)


@handles(np.datetime64)
def _date(call: Invocation, *parts: Any) -> Any:
    values = [known(call.c, part, "a part of a date") for part in parts]
    return compute(call.c, "datetime64()", np.datetime64, *values)


@handles(np.isnat)
def _isnat(call: Invocation, value: object) -> Any:
    date = as_date(call.c, value)
    if date is None:
        call.c.fail(f"isnat takes a datetime64 or timedelta64, not {describe(value)}")
    return call.c.apply("equal", date.number, NAT)


@handles(getattr)
def _getattr(call: Invocation, value: object, name: object, default: Any = None) -> Any:
    word = known(call.c, name, "the name of an attribute")
    if not isinstance(word, str):
        call.c.fail(f"the name of an attribute is a text, not {describe(name)}")
    try:
        return read_attribute(call.frame, call.node, value, word)
    except KernelAttributeError:
        if default is None or hasattr(
            value.value if isinstance(value, Constant) else python_class(call.c, value), word
        ):
            raise
        return default


@handles(type)
def _type(call: Invocation, value: object) -> Any:
    return Constant(python_class(call.c, call.c.number(value)))


@handles(print)
def _print(call: Invocation, *values: Any, sep: Any = None, end: Any = None) -> Any:
    c = call.c
    space, tail = (
        usual if given is None or (found := known(c, given, name)) is None else found
        for given, usual, name in ((sep, " ", "sep"), (end, "\n", "end"))
    )
    for name, text in (("sep", space), ("end", tail)):
        if not isinstance(text, str):
            c.fail(f"{name} of print() is a text, not {describe(Constant(text))}")
    pieces, shown, formats = [""], [], []

    def show(value: object, spec: str = "") -> None:
        match value:
            case TextValue(pieces=texts, values=inner):
                pieces[-1] += texts[0]
                for text, part, own in zip(texts[1:], inner, value.formats, strict=True):
                    show(part, own)
                    pieces[-1] += text
            case TupleValue(items=items):
                pieces[-1] += "("
                for k, item in enumerate(items):
                    pieces[-1] += ", " if k else ""
                    show(item)
                pieces[-1] += ",)" if len(items) == 1 else ")"
            case Constant(value=ThreadNumbers(path=path)):
                show(TupleValue(tuple(thread_number(c, path, axis) for axis in range(3))))
            case Constant(value=held):
                pieces[-1] += str(held)
            case _:
                number = c.scalar(c.number(value, "a number or text to print"))
                shown.append(number.ir)
                formats.append(_conversion(c, number, spec))
                pieces.append("")

    for k, value in enumerate(values):
        pieces[-1] += space if k else ""
        show(value)
    pieces[-1] += tail
    given: dict[str, Any] = {"formats": tuple(formats)} if any(formats) else {}
    c.builder.emit("print", shown, (), pieces=tuple(pieces), **given)
    return Constant(None)


def _conversion(c: Compiler, number: ScalarValue, spec: str) -> str:
    """Convert a Python format of a scalar to a printf conversion without the percent sign.

    The result "" stands for the default format.
    """
    spec = spec.removeprefix("-")  # the default in Python, but alignment in C
    if not spec and c.numba and dtype_kind(number.dtype) == "f":
        return "f"  # as in Numba's CUDA target
    if not spec:
        return ""
    return spec if spec[-1].isalpha() else spec + ("g" if dtype_kind(number.dtype) in "fc" else "d")


def _operators() -> None:
    names = {
        "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
        "pow": ast.Pow, "lshift": ast.LShift, "rshift": ast.RShift, "and_": ast.BitAnd, "or_": ast.BitOr, "xor": ast.BitXor,
    }  # fmt: skip
    for name, kind in names.items():
        TABLE[getattr(operator, name)] = lambda call, x, y, _kind=kind: binary(call.c, _kind, x, y)
        TABLE[getattr(operator, "i" + name.rstrip("_"))] = lambda call, x, y, _kind=kind: binary(call.c, _kind, x, y)
    comparisons = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}
    for name, test in comparisons.items():
        TABLE[getattr(operator, name)] = lambda call, x, y, _t=test: compare(call.frame, call.node, _t(), x, y)
    for name, op in {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}.items():
        TABLE[getattr(operator, name)] = lambda call, x, _op=op: elementwise(call, _op, x)
    TABLE[operator.not_] = lambda call, x: negate(call.c, call.c.truth(x))
    TABLE[operator.getitem] = lambda call, x, k: subscript(call.frame, call.node, x, k)


_operators()


# -- arrays --------------------------------------------------------------------------------------


@handles(np.dtype)
def _np_dtype(call: Invocation, dtype: Any) -> Any:
    held = dtype.value if isinstance(dtype, Constant) else None
    return compute(call.c, "np.dtype()", np.dtype, held.dtype if isinstance(held, ScalarType) else held)


def _reductions() -> None:
    for name in ("sum", "prod", "min", "max", "mean", "any", "all", "argmin", "argmax", "amin", "amax"):
        method = {"amin": "min", "amax": "max"}.get(name, name)
        TABLE[getattr(np, name)] = lambda call, a, _m=method: methods.call_method(call, a, _m, [], {})
    TABLE[np.dot] = lambda call, a, b: methods.call_method(call, a, "dot", [b], {})
    TABLE[np.ravel] = lambda call, a: methods.call_method(call, a, "ravel", [], {})
    for name, member in {"transpose": "T", "size": "size", "shape": "shape", "ndim": "ndim"}.items():
        TABLE[getattr(np, name)] = lambda call, a, _m=member: attribute(call.c, a, _m)


_reductions()


# -- libraries and vectors -----------------------------------------------------------------------


def call_library(call: Invocation, function: LibraryFunction, arguments: list[Any]) -> Any:
    """Compile a call to a libdevice, float16 or bfloat16 function."""
    c = call.c
    if len(arguments) != len(function.arguments):
        c.fail(f"{function.name} takes {counted(len(function.arguments), 'argument')}, but {len(arguments)} were given")
    numbers = [c.number(a) for a in arguments]
    brain = next((k for n in numbers if isinstance(k := c.kind(n), np.dtype) and is_bfloat16(k)), None)
    if brain is not None and function.name.startswith("bf16."):
        return _on_brains(call, function, numbers, brain)
    values = [c.cast(n, d) for n, d in zip(numbers, function.arguments, strict=True)]
    if function.symbol and c.target is not None and c.target.kind == "cuda":
        return _external(c, function, values)
    values = [c.cast(v, d) for v, d in zip(values, function.host_arguments, strict=True)]
    if isinstance(function.host, str):
        found = c.apply(function.host, *values)
    else:
        found = c.call(call.frame, call.node, Constant(function.host), values, {})
    items = found.items if isinstance(found, TupleValue) else (found,)
    made = tuple(c.cast(item, d) for item, d in zip(items, function.results, strict=True))
    return made[0] if len(made) == 1 else TupleValue(made)


def _on_brains(call: Invocation, function: LibraryFunction, numbers: list[Any], brain: np.dtype) -> Any:
    """Compile a library call with bfloat16 (brain float) arguments. The function takes each such number as its bits."""
    c = call.c
    bits = []
    for number, dtype in zip(numbers, function.arguments, strict=True):
        (kind,) = beside([brain, c.kind(number)])[1:]
        same = dtype == np.uint16 and kind == brain
        bits.append(methods.bit_cast(c, c.scalar(c.cast(number, brain)), dtype) if same else number)
    found = call_library(call, function, bits)
    return methods.bit_cast(c, c.scalar(found), brain) if function.results[0] == np.uint16 else found


def _external(c: Compiler, function: LibraryFunction, values: list[Any]) -> Any:
    operands = [c.ir(v, d) for v, d in zip(values, function.arguments, strict=True)]
    written = function.results if function.by_pointer else function.results[1:]
    with c.at_top():
        pointers = [c.builder.local(d) for d in written]
    given = [] if function.by_pointer else [function.results[0]]
    results = list(c.builder.emit("external", [*operands, *pointers], given, symbol=function.symbol))
    results += [c.builder.load(pointer, c.builder.constant(0)) for pointer in pointers]
    made = tuple(ScalarValue(v) for v in results)
    return made[0] if len(made) == 1 else TupleValue(made)


def make_vector(call: Invocation, maker: Any, arguments: list[Any]) -> TupleValue:
    """Compile a call such as ``float4(x, y, z, w)``. A vector or tuple argument stands for its components."""
    c = call.c
    parts: list[Any] = []
    for argument in arguments:
        parts.extend(argument.items if isinstance(argument, TupleValue) else (argument,))
    if len(parts) != maker.lanes:
        c.fail(f"{maker.__name__} takes {counted(maker.lanes, 'component')}, not {len(parts)}")
    return TupleValue(tuple(c.cast(p, maker.dtype) for p in parts), maker, ("x", "y", "z", "w")[: maker.lanes])
