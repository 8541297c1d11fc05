"""Operations on the compile-time constants of kernels.

In: values that are constants. Out: Python objects, or constants. Invariant: an exception in Python becomes a
`KernelError` with a source location. Powers and left shifts of integers have at most `MOST_BITS` bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.codegen import find_op
from weft.dsl.kernel.language.values import Constant, beside, describe

if TYPE_CHECKING:
    from weft.dsl.kernel.language.compiler import Compiler

MOST_BITS = 4096
NO_TEXT = "operations on strings are not part of the kernel language: print takes several values, and f-strings"
# Errors that Python raises for unsuitable values.
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def known(c: Compiler, value: object, what: str) -> Any:
    """Return the Python object of a compile-time constant, or raise KernelTypeError for other values."""
    if not isinstance(value, Constant):
        c.fail(f"{what} has to be known when the kernel is compiled, but it is {describe(value)}")
    return value.value


def compute(c: Compiler, what: str, function: Callable[..., Any], *objects: Any) -> Constant:
    """Apply a Python function to constants at compile time, and return a constant."""
    try:
        with np.errstate(all="ignore"):
            return Constant(function(*objects))
    except _FAULTS as error:
        c.fail(f"{what}: {error}")


def fold(c: Compiler, name: str, objects: list[Any]) -> Constant:
    """Compute an op on constants at compile time, by a Python operator."""
    kinds = [o.dtype if isinstance(o, np.generic) else type(o) for o in objects]
    objects = [k.type(o) if isinstance(k, np.dtype) else o for k, o in zip(beside(kinds), objects, strict=True)]
    shown = " and ".join(map(repr, objects))
    if name in ("power", "left_shift") and all(isinstance(o, int) for o in objects):
        base, exponent = objects
        bits = base.bit_length() + exponent if name == "left_shift" else base.bit_length() * exponent
        if abs(base) > (name == "power") and bits > MOST_BITS:
            c.fail(f"{name} of {shown} has more than {MOST_BITS} bits")
    function = getattr(operator, f"__{find_op(name).dunder}__")
    found = compute(c, f"{name} of {shown}", function, *objects).value
    return Constant(bool(found) if isinstance(found, np.bool_) else found)
