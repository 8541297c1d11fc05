"""Iterables of `for` loops in kernels, such as ranges, arrays and `zip`.

Every iterable has a length, and an item for each index. Loops over tuples are unrolled, so the length must be known at
compile time.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.values import (
    INT,
    ArrayValue,
    Constant,
    Indices,
    Range,
    Reversed,
    ScalarValue,
    TupleValue,
    Zipped,
    describe,
)
from weft.runtime import counted


def make_range(c: Compiler, arguments: list[Any]) -> Range:
    """Compile ``range(...)``. The arguments are integers or, with Numba's types, floats whose fractions are ignored."""
    if not 1 <= len(arguments) <= 3:
        c.fail(f"range takes 1 to 3 arguments, not {len(arguments)}")
    for k, argument in enumerate(arguments):
        kind = np.dtype(c.kind(c.number(argument, "an integer for range"))).kind
        if kind not in ("biuf" if c.numba else "biu"):  # (as in Numba, the fraction is ignored)
            c.fail(f"range takes integers, not {describe(argument)}: write int(...) around it")
        arguments[k] = c.cast(argument, INT, weak=True)
    start, stop = (Constant(0), arguments[0]) if len(arguments) == 1 else arguments[:2]
    step = arguments[2] if len(arguments) == 3 else Constant(1)
    if isinstance(step, Constant) and step.value == 0:
        c.fail("range() arg 3 must not be zero")
    if isinstance(step, ScalarValue) and c.checked:
        c.report(c.ir(c.apply("equal", step, Constant(0))), ValueError, "range() arg 3 must not be zero")
    return Range(start, stop, step)


def known_range(value: Range) -> range | None:
    """Convert a `range` call in a kernel to a Python range if all arguments of the call are compile-time constants. Otherwise, return None."""
    ends = (value.start, value.stop, value.step)
    if not all(isinstance(e, Constant) for e in ends):
        return None
    return range(*(int(e.value) for e in ends))


def length_of(c: Compiler, value: object) -> Constant | ScalarValue:
    """Return the number of items of an iterable."""
    match value:
        case TupleValue(items=items):
            return Constant(len(items))
        case ArrayValue() if value.ndim:
            return arrays.length(c, value.shape[0])
        case Range():
            known = known_range(value)
            return _range_length(c, value) if known is None else Constant(len(known))
        case Zipped(parts=parts):
            lengths = [length_of(c, part) for part in parts if part is not None]
            shortest = lengths[0]
            for other in lengths[1:]:
                if isinstance(shortest, Constant) and isinstance(other, Constant):
                    shortest = min(shortest, other, key=lambda k: k.value)
                else:
                    shortest = c.apply("minimum", shortest, other)
            return shortest
        case Reversed(part=part):
            return length_of(c, part)
        case Indices(shape=shape):
            count: Constant | ScalarValue = Constant(1)
            for length in shape:
                count = c.apply("multiply", count, length)
            return count
        case Constant(value=held) if isinstance(held, type) and issubclass(held, enum.Enum):
            return Constant(len(held))
    c.fail(
        f"{describe(value)} is not iterable: loops and unpacking take ranges, tuples, arrays, zip, enumerate and reversed"
    )


def longest(c: Compiler, value: object) -> int | None:
    """Return an upper bound on the length of an iterable, or None if none is known at compile time."""
    if isinstance(value, Zipped):
        limits = [longest(c, part) for part in value.parts if part is not None]
        return min((limit for limit in limits if limit is not None), default=None)
    count = length_of(c, value)
    return count.value if isinstance(count, Constant) else None


def _range_length(c: Compiler, value: Range) -> ScalarValue:
    if isinstance(value.step, Constant):
        step = int(value.step.value)
        far = c.apply("subtract", value.stop, value.start) if step > 0 else c.apply("subtract", value.start, value.stop)
        if abs(step) > 1:
            far = c.apply("floor_divide", c.apply("add", far, Constant(abs(step) - 1)), Constant(abs(step)))
    else:
        counts = []
        for rounding in ("subtract", "add"):  # (to round up: for a positive, and for a negative step)
            far = c.apply("subtract", value.stop, value.start)
            far = c.apply("add", far, c.apply(rounding, value.step, Constant(1)))
            counts.append(c.apply("floor_divide", far, value.step))
        far = c.apply("where", c.apply("greater", value.step, Constant(0)), *counts)
    return ScalarValue(c.ir(c.apply("maximum", far, Constant(0))), True, True)


def item_of(c: Compiler, value: object, k: Any) -> Any:
    """Return the item at position `k` of an iterable, without a bounds check."""
    match value:
        case TupleValue(items=items):
            if isinstance(k, Constant):
                return items[k.value]
            c.fail(
                "a loop over the items of a tuple needs a number of iterations that is known when the kernel is compiled"
            )
        case ArrayValue():
            return arrays.select(c, value, k)
        case Range():
            known = known_range(value)
            if known is not None and isinstance(k, Constant):
                return Constant(known[k.value])
            return c.apply("add", value.start, c.apply("multiply", k, value.step))
        case Zipped(parts=parts):
            return TupleValue(tuple(k if part is None else item_of(c, part, k) for part in parts))
        case Reversed(part=part):
            last = c.apply("subtract", c.apply("subtract", length_of(c, part), Constant(1)), k)
            if isinstance(last, ScalarValue) and not isinstance(k, Constant):  # (a constant may be too large)
                last = ScalarValue(last.ir, last.weak, True)
            return item_of(c, part, last)
        case Indices(shape=shape, array=array):
            index = _index_at(c, shape, k)
            return index if array is None else TupleValue((index, arrays.select(c, array, index)))
        case Constant(value=held):
            return Constant(list(held)[k.value])
    raise AssertionError(value)


def _index_at(c: Compiler, shape: tuple[Any, ...], k: Any) -> TupleValue:
    """Return the index of the element at position `k` of an array of the given shape, in C order."""
    places: list[Any] = []
    for length in reversed(shape[1:]):
        places.insert(0, c.apply("remainder", k, length))
        k = c.apply("floor_divide", k, length)
    places = [k, *places] if shape else []
    return TupleValue(tuple(ScalarValue(p.ir, True, True) if isinstance(p, ScalarValue) else p for p in places))


def has_tuple(value: object) -> bool:
    """Return whether loops over an iterable must be unrolled, because it is or contains a tuple or a Python object."""
    match value:
        case Zipped(parts=parts):
            return any(map(has_tuple, parts))
        case Reversed(part=part):
            return has_tuple(part)
    return isinstance(value, (TupleValue, Constant))


def items_of(c: Compiler, value: object, expected: int | None = None) -> tuple[Any, ...]:
    """Return all items of an iterable.

    If the length is not known at compile time, it must be `expected`. In kernels with `debug` or the `checked` setting,
    the length is compared with `expected` at run time.
    """
    if isinstance(value, TupleValue):
        return value.items
    count = length_of(c, value)
    if not isinstance(count, Constant):
        if expected is None:
            c.fail("how many items there are has to be known when the kernel is compiled: write a loop", "syntax")
        if c.checked:
            wrong = c.apply("not_equal", count, Constant(expected))
            message = f"{{}} values cannot be unpacked into {counted(expected, 'name')}"
            c.report(c.ir(wrong), ValueError, message, (c.ir(count, INT),))
        return tuple(item_of(c, value, Constant(k)) for k in range(expected))
    if count.value > 1024:
        c.fail(f"{count.value} items are too many to be compiled one by one: write a loop", "syntax")
    return tuple(item_of(c, value, Constant(k)) for k in range(count.value))
