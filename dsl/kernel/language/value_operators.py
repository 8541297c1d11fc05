"""Compilation of Python's binary operators, comparisons and `not` in kernels."""

from __future__ import annotations

import ast
import enum
from types import UnionType
from typing import Any

import numpy as np

from weft.dsl.kernel.language import array_values as arrays
from weft.dsl.kernel.language.compiler import Compiler, FunctionFrame
from weft.dsl.kernel.language.date_values import compare_dates, date_operator
from weft.dsl.kernel.language.known import NO_TEXT, fold
from weft.dsl.kernel.language.text_values import compare_text
from weft.dsl.kernel.language.values import (
    BOOL,
    INT,
    ArrayValue,
    Constant,
    OptionalValue,
    Range,
    ScalarValue,
    TextValue,
    TupleValue,
    describe,
)
from weft.dsl.kernel.library.vector_types import Vector, vector_type

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "power",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
}
_FOLDED = (enum.Flag, type, UnionType)  # constants other than numbers that have operators
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def binary(c: Compiler, operator: type[ast.operator], left: Any, right: Any) -> Any:
    """Compile a binary operator such as ``left + right``."""
    name = _BINARY.get(operator)
    if name is None:
        c.fail(
            "the operator @ is not part of the kernel language: write the loops, or multiply the arrays outside",
            "syntax",
        )
    sides = left, right = c.unwrap(left), c.unwrap(right)
    date = date_operator(c, name, left, right)
    if date is not None:
        return date
    if any(isinstance(s, TupleValue) and s.maker is None for s in sides):
        return _tuple_operator(c, name, left, right)
    if any(map(is_vector, sides)):
        return componentwise(c, name, left, right)
    texts = [s for s in sides if isinstance(s, TextValue) or (isinstance(s, Constant) and isinstance(s.value, str))]
    if texts:
        if len(texts) == 2 and all(isinstance(s, Constant) for s in texts) and name == "add":
            return Constant(left.value + right.value)
        c.fail(NO_TEXT, "syntax")
    if any(isinstance(s, ArrayValue) and s.ndim for s in sides):
        c.fail(
            f"{name} of {describe(left)} and {describe(right)}: operators work on numbers inside a kernel; "
            "index the arrays, or compute with them outside, where whole arrays are fused"
        )
    if all(isinstance(s, Constant) for s in sides) and any(isinstance(s.value, _FOLDED) for s in sides):
        return fold(c, name, [left.value, right.value])
    left, right = (arrays.element(c, s) if isinstance(s, ArrayValue) else s for s in sides)
    if name in c.checked_divisions:
        zero = c.apply("equal", right, Constant(0))
        if not (isinstance(zero, Constant) and not zero.value):
            c.report(c.ir(zero), ZeroDivisionError, "division by zero")
    return c.apply(name, left, right)


def _tuple_operator(c: Compiler, name: str, left: Any, right: Any) -> Any:
    if name == "add" and isinstance(left, TupleValue) and isinstance(right, TupleValue):
        return TupleValue(left.items + right.items)
    count = right if isinstance(left, TupleValue) else left
    whole = left if isinstance(left, TupleValue) else right
    if name == "multiply" and isinstance(count, Constant) and isinstance(count.value, int):
        return TupleValue(whole.items * count.value)
    c.fail(f"{name} of {describe(left)} and {describe(right)} is not part of the kernel language")


def is_vector(value: object) -> bool:
    """Return whether a value is a vector such as float4."""
    return isinstance(value, TupleValue) and isinstance(value.maker, type) and issubclass(value.maker, Vector)


def componentwise(c: Compiler, name: str, *operands: Any) -> TupleValue:
    """Apply the op `name` to the operands, component by component. Scalars are broadcast."""
    vectors = [o for o in operands if isinstance(o, TupleValue)]
    count = len(vectors[0].items)
    if any(len(v.items) != count for v in vectors):
        c.fail(f"vectors of {' and '.join(str(len(v.items)) for v in vectors)} components do not fit")
    parts = [
        c.scalar(c.apply(name, *(o.items[k] if isinstance(o, TupleValue) else o for o in operands)))
        for k in range(count)
    ]
    try:
        maker = vector_type(parts[0].dtype, count)
    except TypeError as error:
        c.fail(str(error))
    return TupleValue(tuple(parts), maker, vectors[0].names)


def negate(c: Compiler, truth: Any) -> Constant | ScalarValue:
    """Compile ``not truth`` for a Python bool or a run-time bool."""
    if isinstance(truth, bool):
        return Constant(not truth)
    return ScalarValue(c.builder.op("bitwise_xor", truth, c.builder.constant(True, np.bool_)), True)


def compare(frame: FunctionFrame, node: ast.AST, operator: ast.cmpop, left: Any, right: Any) -> Any:
    """Compile a comparison such as ``left < right``, ``left is right`` or ``left in right``."""
    c = frame.compiler
    if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, OptionalValue) and isinstance(other, Constant) and other.value is None:
                present = ScalarValue(one.present, True)
                return present if isinstance(operator, (ast.IsNot, ast.NotEq)) else negate(c, one.present)
    left, right = c.unwrap(left), c.unwrap(right)
    if isinstance(operator, (ast.Is, ast.IsNot)):
        same = _is_same(c, left, right)
        return same if isinstance(operator, ast.Is) else negate(c, c.truth(same))
    if isinstance(operator, (ast.In, ast.NotIn)):
        found = _contains(frame, node, left, right)
        return found if isinstance(operator, ast.In) else negate(c, c.truth(found))
    name = _COMPARE[type(operator)]
    if isinstance(left, TupleValue) and isinstance(right, TupleValue):
        return _compare_tuples(frame, node, name, left, right)
    if name in ("equal", "not_equal") and all(isinstance(s, Constant) for s in (left, right)):
        return Constant(bool((left.value == right.value) == (name == "equal")))
    if any(isinstance(s, Constant) and s.value is None for s in (left, right)) and name in ("equal", "not_equal"):
        return Constant(name == "not_equal")
    sides = [arrays.element(c, s) if isinstance(s, ArrayValue) and not s.ndim else s for s in (left, right)]
    for special in (compare_dates, compare_text):
        found = special(c, name, *sides)
        if found is not None:
            return found
    if name not in ("equal", "not_equal"):
        kinds = [np.dtype(c.kind(c.number(s, "a number to compare"))).kind for s in sides]
        if "c" in kinds:
            c.fail("complex numbers have no order: compare their parts or abs()")
    if not c.numba:
        sides = [_within(s, other) for s, other in zip(sides, reversed(sides), strict=True)]
    return c.apply(name, *sides)


def _is_same(c: Compiler, left: Any, right: Any) -> Constant | ScalarValue:
    """Compile ``left is right``."""
    if isinstance(left, Constant) and isinstance(right, Constant) and left.value is right.value:
        return Constant(True)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant) and (one.value is None or isinstance(one.value, (bool, enum.Enum, type))):
            if isinstance(other, ScalarValue) and isinstance(one.value, (enum.Enum, bool)):
                if isinstance(one.value, enum.Enum) or other.dtype == BOOL:
                    return c.apply("equal", other, one)  # run-time bools and enumeration members are numbers
            return Constant(False)
    c.fail("`is` compares with None, True, False or enumeration members; use == for numbers")


def _within(value: Any, other: Any) -> Any:
    """Prepare `value` for a comparison with `other`. If `other` is an int out of range for the dtype of `value`, return a constant instead.

    All numbers of the dtype compare alike with such an int. The constant is the least of them, so the comparison has the same result.
    """
    if isinstance(value, ScalarValue) and value.dtype.kind in "iu" and isinstance(other, Constant):
        limits = np.iinfo(value.dtype)
        if type(other.value) is int and not limits.min <= other.value <= limits.max:
            return Constant(int(limits.min))
    return value


def _compare_tuples(frame: FunctionFrame, node: ast.AST, name: str, left: TupleValue, right: TupleValue) -> Any:
    c = frame.compiler
    if name in ("equal", "not_equal"):
        if len(left.items) != len(right.items):
            return Constant(name == "not_equal")
        truth: Any = Constant(True)
        for a, b in zip(left.items, right.items, strict=True):
            equal = compare(frame, node, ast.Eq(), a, b)
            truth = (
                equal if isinstance(truth, Constant) and truth.value is True else c.apply("bitwise_and", truth, equal)
            )
        return truth if name == "equal" else negate(c, c.truth(truth))
    strict = {"less": ast.Lt, "less_equal": ast.Lt, "greater": ast.Gt, "greater_equal": ast.Gt}[name]
    result: Any = Constant(
        name.endswith("equal")
        if len(left.items) == len(right.items)
        else (len(left.items) < len(right.items)) == name.startswith("less")
    )
    for a, b in reversed(list(zip(left.items, right.items, strict=False))):
        before = compare(frame, node, strict(), a, b)
        same = compare(frame, node, ast.Eq(), a, b)
        result = c.apply("bitwise_or", before, c.apply("bitwise_and", same, result))
    return result


def _in_range(c: Compiler, item: object, collection: Range) -> Any:
    start, stop, step = collection.start, collection.stop, collection.step
    if not isinstance(step, Constant):
        c.fail("`in` looks into a range whose step is known when compiling")
    kind = c.kind(c.number(item))
    if isinstance(kind, np.dtype) and kind.kind in "iu":
        item = c.cast(item, INT, weak=True)
    low, high = ("greater_equal", "less") if step.value > 0 else ("less_equal", "greater")
    inside = c.apply("bitwise_and", c.apply(low, item, start), c.apply(high, item, stop))
    fits = c.apply("equal", c.apply("remainder", c.apply("subtract", item, start), step), Constant(0))
    return c.apply("bitwise_and", inside, fits)


def _contains(frame: FunctionFrame, node: ast.AST, item: object, collection: Any) -> Any:
    c = frame.compiler
    if isinstance(collection, Constant) and isinstance(item, Constant):
        try:
            return Constant(item.value in collection.value)
        except TypeError:
            c.fail(f"`in` cannot look into {describe(collection)}")
    if isinstance(collection, Range):
        return _in_range(c, item, collection)
    if not isinstance(collection, TupleValue):
        c.fail(f"`in` looks into tuples, not into {describe(collection)}")
    found: Any = Constant(False)
    for part in collection.items:
        equal = compare(frame, node, ast.Eq(), item, part)
        found = equal if isinstance(found, Constant) and not found.value else c.apply("bitwise_or", found, equal)
    return found
