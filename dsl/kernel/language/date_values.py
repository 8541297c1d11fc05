"""Dates and durations in kernels: NumPy's datetime64 and timedelta64.

In: `DateValue`, an int64 with a unit. Out: another `DateValue`, a number, or a bool. Invariant: results equal NumPy's.
The least int64 is NaT, which is unequal to everything. Arithmetic with NaT gives NaT, or NaN or 0 if the result is a
number. Operands of different units are converted to a common unit that represents both exactly. Years and months have
no fixed length, and convert only to each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl.kernel.language.compiler import Compiler
from weft.dsl.kernel.language.values import Constant, DateValue, OptionalValue, ScalarValue, describe, is_date_dtype

NAT = Constant(-(2**63))


def as_date(c: Compiler, value: object) -> DateValue | None:
    """Return `value` as a `DateValue` if it is a date or duration, otherwise None."""
    if isinstance(value, OptionalValue) and isinstance(value.value, DateValue):
        value = c.unwrap(value)
    if isinstance(value, DateValue):
        return value
    if isinstance(value, Constant) and isinstance(value.value, (np.datetime64, np.timedelta64)):
        number = ScalarValue(c.builder.constant(int(value.value.view(np.int64)), np.int64))
        return DateValue(number, value.value.dtype)
    return None


def converted(c: Compiler, value: DateValue, dtype: np.dtype) -> DateValue:
    """Convert a date or duration to the unit of `dtype`."""
    if value.dtype == dtype:
        return value
    factor = _factor(c, value.dtype, dtype)
    number = value.number
    scaled = c.apply("multiply", number, Constant(factor)) if factor != 1 else number
    return DateValue(_unless_nat(c, scaled, number), dtype)


def _factor(c: Compiler, given: np.dtype, wanted: np.dtype) -> int:
    """Return the number of units of the dtype `wanted` in one unit of the dtype `given`."""
    units: list[Any] = [np.datetime_data(dtype) for dtype in (given, wanted)]
    if units[0][0] == "generic":
        return 1
    calendar = [unit in ("Y", "M") for unit, _ in units]
    if calendar[0] != calendar[1]:
        c.fail(f"{given} has no fixed length in {wanted}: convert it outside the kernel")
    one, other = (np.timedelta64(count, unit) for unit, count in units)
    factor = int(one // other)
    if factor * other != one:
        c.fail(f"{given} is not a whole number of {wanted}")
    return factor


def _common(c: Compiler, values: tuple[DateValue, ...]) -> tuple[str, list[Any]]:
    """Return the common unit of dates and durations, such as ``[D]``, and their values in this unit."""
    try:
        common = np.result_type(*(np.dtype(f"m8{value.dtype.str[3:]}") for value in values))
    except TypeError as error:
        c.fail(str(error))
    unit = common.str[3:]
    numbers = [converted(c, value, np.dtype(f"{value.dtype.kind}8{unit}")).number for value in values]
    return unit, numbers


def _unless_nat(c: Compiler, result: object, *numbers: Any) -> Any:
    """Return `result`, or NaT (not a time) if one of the operands is NaT."""
    for number in numbers:
        result = c.apply("where", c.apply("equal", number, NAT), NAT, result)
    return c.scalar(result)


def date_operator(c: Compiler, name: str, left: Any, right: Any) -> Any:
    """Compile an operator with a date or duration as an operand, or return None for other operands."""
    first, second = as_date(c, left), as_date(c, right)
    if first is None and second is None:
        return None
    kinds = "".join(value.dtype.kind if value is not None else "n" for value in (first, second))
    if first is not None and second is not None:
        if name in ("add", "subtract") and kinds in _RESULTS[name]:
            unit, numbers = _common(c, (first, second))
            made = _unless_nat(c, c.apply(name, *numbers), *numbers)
            return DateValue(made, np.dtype(f"{_RESULTS[name][kinds]}8{unit}"))
        if kinds == "mm" and name in ("divide", "floor_divide", "remainder"):
            return _ratio(c, name, first, second)
    elif kinds == "mn" and name in ("multiply", "divide", "floor_divide"):
        assert first is not None
        return _scaled(c, name, first, right)
    elif kinds == "nm" and name == "multiply":
        assert second is not None
        return _scaled(c, name, second, left)
    c.fail(f"{name} of {describe(left)} and {describe(right)} is not part of the kernel language")


def signed_duration(c: Compiler, name: str, value: object) -> DateValue | None:
    """Compile `negative`, `positive` or `absolute` of a duration, or return None for other ops and operands."""
    duration = as_date(c, value) if name in ("negative", "positive", "absolute") else None
    if duration is None or duration.dtype.kind != "m":
        return None
    return DateValue(c.scalar(c.apply(name, duration.number)), duration.dtype)  # (the least int64, NaT, stays)


_RESULTS = {"add": {"Mm": "M", "mM": "M", "mm": "m"}, "subtract": {"MM": "m", "Mm": "M", "mm": "m"}}


def _ratio(c: Compiler, name: str, first: DateValue, second: DateValue) -> Any:
    unit, numbers = _common(c, (first, second))
    missing = c.apply("logical_or", *(c.apply("equal", number, NAT) for number in numbers))
    if name == "divide":
        floats = [c.cast(number, np.float64) for number in numbers]
        return c.apply("where", missing, Constant(float("nan")), c.apply("divide", *floats))
    missing = c.apply("logical_or", missing, c.apply("equal", numbers[1], Constant(0)))
    result = c.apply("where", missing, Constant(0) if name == "floor_divide" else NAT, c.apply(name, *numbers))
    return result if name == "floor_divide" else DateValue(c.scalar(result), np.dtype(f"m8{unit}"))


def _scaled(c: Compiler, name: str, duration: DateValue, number: Any) -> DateValue:
    number = c.number(number)
    kind = np.dtype(c.kind(number)).kind
    operand = duration.number
    if kind == "f":  # (quotients are rounded towards zero)
        name = "multiply" if name == "multiply" else "divide"
        exact = c.apply(name, c.cast(operand, np.float64), number)
        fits = c.apply("less", c.apply("absolute", exact), Constant(2.0**63))
        scaled = c.apply("where", fits, c.cast(exact, np.int64), NAT)
    elif name != "multiply":
        quotient = c.apply("floor_divide", c.apply("absolute", operand), c.apply("absolute", number))
        opposite = c.apply("not_equal", c.apply("less", operand, Constant(0)), c.apply("less", number, Constant(0)))
        scaled = c.apply("where", opposite, c.apply("negative", quotient), quotient)
        scaled = c.apply("where", c.apply("equal", number, Constant(0)), NAT, scaled)
    else:
        scaled = c.apply(name, operand, number)
    return DateValue(_unless_nat(c, c.cast(scaled, np.int64), operand), duration.dtype)


def compare_dates(c: Compiler, name: str, left: Any, right: Any) -> Any:
    """Compile a comparison of dates or durations, or return None for other operands."""
    first, second = as_date(c, left), as_date(c, right)
    if first is None and second is None:
        return None
    if first is None or second is None or first.dtype.kind != second.dtype.kind:
        c.fail(f"{describe(left)} and {describe(right)} cannot be compared")
    _, numbers = _common(c, (first, second))
    result = c.apply(name, *numbers)
    missing = c.apply("logical_or", *(c.apply("equal", number, NAT) for number in numbers))
    return c.apply("where", missing, Constant(name == "not_equal"), result)


def stored_date(c: Compiler, value: object, dtype: np.dtype, label: str) -> Any:
    """Convert a date or duration to an int64 in the unit of `dtype`, the dtype of an array."""
    date = as_date(c, value)
    if date is None or date.dtype.kind != dtype.kind or not is_date_dtype(dtype):
        c.fail(f"{describe(value)} cannot be stored in {label or 'an array'} of {dtype}")
    return converted(c, date, dtype).number
