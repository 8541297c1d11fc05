"""Arithmetic of single numbers that are known, at once.

In: 0-d results whose value lies in the host's memory, and Python numbers. Out: 0-d results that are known again. Always true:
a value has the bits that recording the operation would give it; what is not known is left to recording.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.array import Array, Scalar
from weft.fusion import NUMBERS, of_numbers
from weft.runtime import Device, default_device

_COMPARISONS: dict[str, Callable[..., Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
    "absolute": abs,
    **_COMPARISONS,
}
# What Python computes with the same bits; where it raises, or an integer has more than 64 bits, the row's kernel is asked.
OF_FLOATS: dict[str, Callable[..., Any]] = {
    **_ARITHMETIC,
    "divide": operator.truediv,
    "sqrt": math.sqrt,
    "square": lambda x: x * x,
}
_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    **_ARITHMETIC,
    "divide": lambda x, y: float(x) / float(y),
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}
_OF_BOOLS: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
}

_BOUND = 2**63
# How the dtypes that are known lie in memory.
NUMBER_OF = {np.dtype(kind): made for kind, made in NUMBERS.items()}
_new = object.__new__


def known(value: Any, device: Device) -> Scalar:
    """A 0-d result with this value: a float, an integer of 64 bits or a bool."""
    made = _new(Scalar)
    made._view = None
    made._value = value
    made._home = device
    return made


def read(scalar: Scalar) -> Any:
    """The value of a 0-d result as a Python number; None where it is not known, or of another dtype."""
    value = scalar._value
    if value is None:
        storage = scalar._storage
        buffer = storage.buffer
        kind = NUMBER_OF.get(storage.dtype)
        if buffer is None or kind is None or storage.device.name != "cpu" or scalar._view is not None:
            return None
        value = scalar._value = kind.from_address(buffer.address).value
        scalar._home = storage.device
    return value


def home_of(array: Array) -> Device:
    """The device of an array, whose value may be known without memory."""
    return array._home if type(array) is Scalar and array._value is not None else array._storage.device


def is_number(value: Any) -> bool:
    """Whether this is a Python number or a 0-d result that is known."""
    return not isinstance(value, Array) or (type(value) is Scalar and read(value) is not None)


def compute(op: str, *operands: Any) -> Scalar | None:
    """Row `op` of `Scalar`s and Python numbers; None where one is not known, or they belong to another device."""
    home, numbers = None, []
    for operand in operands:
        number, kind = operand, type(operand)
        if kind is Scalar:
            number = operand._value
            if number is None:
                number = read(operand)
            if number is None or (home is not None and operand._home is not home):
                return None
            home = operand._home
        elif kind is np.float64 or kind is np.int64 or kind is np.bool_:
            number = operand.item()
        elif kind is int:
            if not -_BOUND <= operand < _BOUND:
                return None
        elif kind is not float and kind is not bool:
            return None
        numbers.append(number)
    if home is None:
        home = default_device()
        if home.name != "cpu":
            return None
    value = _compute_python(op, numbers)
    if value is None:
        value = of_numbers(op, tuple(numbers), home)
    if value is None:
        return None
    return known(value, home)


def _compute_python(op: str, numbers: list[Any]) -> Any:
    """What Python finds, where that has the bits; else None."""
    kinds = {*map(type, numbers)}
    if float in kinds:
        function = OF_FLOATS.get(op)
        if len(kinds) > 1:
            numbers = [float(number) for number in numbers]
    else:
        function = (_OF_INTEGERS if int in kinds else _OF_BOOLS).get(op)
    if function is None:
        return None
    try:
        found = function(*numbers)
    except (ArithmeticError, ValueError):  # division by zero, roots of what is negative: what the row makes of them
        return None
    return found if type(found) is not int or -_BOUND <= found < _BOUND else None


__all__ = ["NUMBER_OF", "OF_FLOATS", "compute", "home_of", "is_number", "known", "read"]
