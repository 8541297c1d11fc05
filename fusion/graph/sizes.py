"""Traced sizes: integers that record the computations that use them.

In: the numbers of a plan, as `Size` objects of a `Trace`. Out: a function that computes every number of the plan from
other values of these sizes. Invariant: until the trace is closed, every inspection of a `Size` (a comparison, a test, a
conversion to int) records a condition. If all conditions hold for other sizes, planning would take the same path, so
that the recorded arithmetic yields the numbers of their plan. A `Size` is not an int, so every access to its value is
recorded.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

_numbers = count()

# Operations that a trace records: operators on two numbers, as Python writes them, and functions.
_OPERATORS: dict[str, Callable[[int, int], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "gcd": math.gcd,
    "min": min,
    "max": max,
    "isqrt": lambda value, _: math.isqrt(value),
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
    "!=": operator.ne,
}
for _kind in (np.float32, np.float64):
    _OPERATORS[_kind.__name__] = lambda value, _, kind=_kind: from_bytes(kind(value).tobytes())  # type: ignore[misc]
_OPPOSITE = {"<": ">=", "<=": ">", "==": "!="}


def _operator_methods(op: str) -> tuple[Callable[[Size, Any], Any], Callable[[Size, Any], Any]]:
    """Return the two methods of `Size` for an operator, with the size on the left or right."""

    def left(self: Size, other: int | Size) -> Any:
        return self.trace.compute(op, self, other)

    def right(self: Size, other: int | Size) -> Any:
        return self.trace.compute(op, other, self)

    return left, right


class Size:
    """An object that behaves like an int, and records each operation on it in a trace."""

    __slots__ = ("name", "trace", "value")

    def __init__(self, trace: Trace, name: str, value: int) -> None:
        self.trace = trace
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return f"{self.name}={self.value}"

    def __format__(self, spec: str) -> str:
        return format(self.__index__(), spec)

    def __hash__(self) -> int:
        # specific to the trace, so that keys with ints or with sizes of other traces do not match
        return self.trace.salt

    def __index__(self) -> int:
        self.trace.decide("==", self, self.value)
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return not self.trace.decide("==", self, 0)

    __add__, __radd__ = _operator_methods("+")
    __sub__, __rsub__ = _operator_methods("-")
    __mul__, __rmul__ = _operator_methods("*")
    __floordiv__, __rfloordiv__ = _operator_methods("//")
    __mod__, __rmod__ = _operator_methods("%")

    def __divmod__(self, other: int | Size) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: int | Size) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self.trace.compute("-", 0, self)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __lt__(self, other: int | Size) -> bool:
        return self.trace.decide("<", self, other)

    def __gt__(self, other: int | Size) -> bool:
        return self.trace.decide("<", other, self)

    def __le__(self, other: int | Size) -> bool:
        return self.trace.decide("<=", self, other)

    def __ge__(self, other: int | Size) -> bool:
        return self.trace.decide("<=", other, self)

    def __eq__(self, other: object) -> bool:
        if type(other) is Size and other.trace is not self.trace:
            return False
        if type(other) is not Size and not hasattr(other, "__index__"):
            return False
        return self.trace.decide("==", self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


class Trace:
    """A record of the arithmetic on traced sizes, and of the results of comparisons."""

    def __init__(self, values: Sequence[int]) -> None:
        self.number = next(_numbers)
        self.salt = hash(("size", self.number))
        self.sizes = [Size(self, f"x{k}", value) for k, value in enumerate(values)]
        self.open = True
        self.alone = False  # whether values computed from the sizes are valid for these sizes only
        self._made: dict[tuple[str, Any, Any], Any] = {}  # (operator, names or values of the operands) -> result
        self._decided: dict[tuple[str, Any, Any], int] = {}  # the same for comparisons -> line
        self._lines: list[Line] = []

    def compute(self, op: str, a: Any, b: Any) -> Any:
        """Return the result of an arithmetic operation of `_OPERATORS`, and record the operation.

        The result is a `Size`, or a number if the trace is closed or if the result does not depend on the sizes, as in
        ``x * 0``.
        """
        x, y = _value(a), _value(b)
        if not self.open:
            return _OPERATORS[op](x, y)
        if type(b) is int:
            if b == 0 and op in ("+", "-"):
                return a
            if b == 1 and op in ("*", "//"):
                return a
            if (b == 0 and op == "*") or (b == 1 and op == "%"):
                return 0
        elif type(a) is int:
            if (a == 0 and op == "+") or (a == 1 and op == "*"):
                return b
            if a == 0 and op == "*":
                return 0
        elif a is b and op == "-":
            return 0
        left, right = _name(a), _name(b)
        if op in ("+", "*", "gcd", "min", "max") and str(right) < str(left):
            left, right = right, left
        key = (op, left, right)
        found = self._made.get(key)
        if found is None:
            name = f"t{len(self._made)}"
            found = self._made[key] = Size(self, name, _OPERATORS[op](x, y))
            self._lines.append((name, op, left, right))
        return found

    def decide(self, op: str, a: Any, b: Any) -> bool:
        """Return the result of a comparison, and record the comparison as a condition."""
        holds: bool = _OPERATORS[op](_value(a), _value(b))
        if not self.open or a is b:
            return holds
        left, right = _name(a), _name(b)
        if op == "==" and str(right) < str(left):
            left, right = right, left
        key = (op, left, right)
        if key not in self._decided:
            self._decided[key] = len(self._lines)
            self._lines.append(("", op if holds else _OPPOSITE[op], left, right))
        return holds

    def mark(self) -> int:
        """Return a number that marks the current end of the recorded size operations. ``forget(number)`` drops the conditions recorded after it."""
        return len(self._lines)

    def forget(self, mark: int) -> None:
        """Drop all conditions that were recorded since `mark`.

        The conditions are not needed if the results of the comparisons are not used.
        """
        self._lines[mark:] = [line for line in self._lines[mark:] if line[0]]
        conditions = [key for key, line in self._decided.items() if line >= mark]
        for key in conditions:
            del self._decided[key]

    def finish(self, results: Sequence[Any]) -> Computation:
        """End the recording of arithmetic on sizes. Return a `Computation` that repeats the arithmetic for other sizes and yields the `results`."""
        self.open = False
        names = [_name(result) for result in results]
        needed = set(names)
        kept: list[Line] = []
        for line in reversed(self._lines):
            if not line[0] or line[0] in needed:
                needed.update(line[2:])
                kept.append(line)
        self._made.clear()
        self._decided.clear()
        self._lines.clear()
        return Computation(len(self.sizes), kept[::-1], names)


_NAME = re.compile("[xt][0-9]+")  # name of a size or of a result
# (result, operator, operands), or a condition if there is no result. An operand is the name of a size, or a number.
Line = tuple[str, str, Any, Any]
# Number of the call that compiles a computation to a function. Compiling takes as long as 12 to 18 interpreted calls.
FEW = 16


class Computation:
    """A computation of numbers from sizes, with the conditions under which it is valid."""

    def __init__(self, inputs: int, lines: Sequence[Line], results: Sequence[Any]) -> None:
        self.inputs = inputs  # number of sizes, whose names are x0, x1, ...
        self.lines = lines
        self.results = results
        self._calls = 0
        self._function: Callable[[Sequence[int]], tuple[int, ...] | None] = self._interpret

    def __call__(self, values: Sequence[int]) -> tuple[int, ...] | None:
        """Return the results of the recorded computation for new sizes, or None if a recorded condition is false."""
        self._calls += 1
        if self._calls == FEW:
            self._function = self._compiled()
        return self._function(values)

    def _interpret(self, values: Sequence[int]) -> tuple[int, ...] | None:
        known: dict[Any, Any] = {f"x{k}": value for k, value in enumerate(values)}
        for name, op, left, right in self.lines:
            a, b = [known[x] if type(x) is str else x for x in (left, right)]
            found = _OPERATORS[op](a, b)
            if name:
                known[name] = found
            elif not found:
                return None
        return tuple([known[result] if type(result) is str else result for result in self.results])

    def _compiled(self) -> Callable[[Sequence[int]], tuple[int, ...] | None]:
        names = "".join(f"x{k}, " for k in range(self.inputs))
        text = ["def compute(x):", f"    {names}= x" if names else ""]
        for name, op, left, right in self.lines:
            term = f"{op}({left}, {right})" if op.isidentifier() else f"{left} {op} {right}"
            text.append(f"    {name} = {term}" if name else f"    if not {term}: return None")
        text.append(f"    return ({''.join(f'{result}, ' for result in self.results)})")
        space: dict[str, Any] = {name: function for name, function in _OPERATORS.items() if name.isidentifier()}
        exec("\n".join(text), space)
        compute: Callable[[Sequence[int]], tuple[int, ...] | None] = space["compute"]
        return compute

    def as_data(self) -> list[Any]:
        """Return the computation as nested lists of strings and numbers."""
        return [self.inputs, [list(line) for line in self.lines], list(self.results)]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Computation:
        """Create a computation from the lists that `as_data` returned.

        Raises ValueError or TypeError for other data.
        """
        inputs, lines, results = data
        lines = [tuple(line) for line in lines]
        made, operators, left, right = zip(*lines, strict=True) if lines else ((), (), (), ())
        used = [*results, *left, *right]
        if (
            not {str, int, float} >= set(map(type, (*used, *made, *operators)))
            or not _OPERATORS.keys() >= set(operators)
            or not all(map(_NAME.fullmatch, {each for each in (*used, *made) if type(each) is str and each}))
        ):
            raise ValueError("this is no computation")
        return cls(inputs, lines, results)


def _value(number: Any) -> int:
    return number.value if type(number) is Size else number  # type: ignore[no-any-return]


def _name(number: Any) -> Any:
    kind = type(number)
    return number.name if kind is Size else number if kind is float else operator.index(number)


def from_bytes(bits: bytes) -> int:
    """Return the bits of a scalar as an int, the form in which kernels receive scalars."""
    return int.from_bytes(bits, "little", signed=len(bits) == 8)


def to_bytes(bits: Any, length: int) -> bytes:
    """Return the bytes of a scalar whose bits are given as an int."""
    return int(bits).to_bytes(length, "little", signed=length == 8)


def convert(value: Any, dtype: np.dtype) -> Any:
    """Cast an integer to `dtype`, and return the bits of the result as an int.

    The bits of a `Size` that is cast to float32 or float64 are a `Size`.
    """
    if type(value) is Size and dtype.name in _OPERATORS:
        return value.trace.compute(dtype.name, value, 0)
    return from_bytes(dtype.type(int(value)).tobytes())


def common_divisor(*numbers: Any) -> Any:
    """Return the greatest common divisor of numbers that may be traced sizes."""
    return _reduce_numbers("gcd", math.gcd, numbers)


def square_root(number: Any) -> Any:
    """Return the integer square root of a number that may be a traced size."""
    return number.trace.compute("isqrt", number, 0) if type(number) is Size else math.isqrt(number)


def least(*numbers: Any) -> Any:
    """Return the minimum of numbers or traced sizes (`Size` objects). For sizes, record one minimum; Python's `min` would record comparisons."""
    return _reduce_numbers("min", min, numbers)


def greatest(*numbers: Any) -> Any:
    """Return the maximum of numbers that may be traced sizes, without recording a condition in the trace."""
    return _reduce_numbers("max", max, numbers)


def _reduce_numbers(op: str, plain: Callable[..., Any], numbers: Sequence[Any]) -> Any:
    traced = next((number for number in numbers if type(number) is Size), None)
    if traced is None:
        return plain(*numbers)
    total = numbers[0]
    for number in numbers[1:]:
        total = traced.trace.compute(op, total, number)
    return total
