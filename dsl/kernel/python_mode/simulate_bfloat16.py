"""bfloat16 scalars for kernels in Python mode.

With ml_dtypes, an operation on a bfloat16 scalar and a Python float gives float32. In kernels it gives bfloat16, as
NumPy's own floats keep their dtype. Invariant: a `Brain` holds an ml_dtypes scalar. Its operations are NumPy's on that
scalar, after Python ints and floats have been converted to bfloat16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from weft.codegen import is_bfloat16


class Brain(NDArrayOperatorsMixin):
    """A bfloat16 scalar for kernels in Python mode. Its operations return the same dtypes as in compiled kernels."""

    __slots__ = ("held",)
    __array_priority__ = 2000.0

    def __init__(self, held: Any) -> None:
        self.held = held

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        options.pop("out", None)  # of `+=`: scalars are immutable
        found = getattr(ufunc, method)(*beside_brains(operands), **options)
        return tuple(map(seen, found)) if isinstance(found, tuple) else seen(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.held, dtype)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.held, name)
        return (lambda *a: seen(found(*a))) if callable(found) and not isinstance(found, type) else seen(found)

    def __float__(self) -> float:
        return float(self.held)

    def __int__(self) -> int:
        return int(float(self.held))

    def __bool__(self) -> bool:
        return bool(self.held)

    def __hash__(self) -> int:
        return hash(float(self.held))

    def __round__(self, digits: int | None = None) -> Any:
        found = round(float(self.held), digits)
        return found if digits is None else seen(self.held.dtype.type(found))

    def __format__(self, spec: str) -> str:
        return format(self.held, spec)

    def __repr__(self) -> str:
        return str(self.held)


def seen(value: object) -> Any:
    """Convert a bfloat16 scalar to a `Brain`, and return other values unchanged."""
    return Brain(value) if isinstance(value, np.generic) and is_bfloat16(value.dtype) else value


def plain(value: object) -> Any:
    """Convert a `Brain` to an ml_dtypes scalar, and return other values unchanged."""
    return value.held if isinstance(value, Brain) else value


def wide(value: object) -> Any:
    """Convert a bfloat16 scalar to float32, and return other values unchanged."""
    value = plain(value)
    return np.float32(value) if isinstance(value, np.generic) and is_bfloat16(value.dtype) else value


def beside_brains(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """If one of several values is a bfloat16 (brain float), convert the Python ints and floats beside it to bfloat16.

    `Brain` operands, which simulate bfloat16 scalars, become the scalars that they contain.
    """
    held = tuple(map(plain, values))
    brain = next((v.dtype for v in held if isinstance(v, (np.generic, np.ndarray)) and is_bfloat16(v.dtype)), None)
    return held if brain is None else tuple(brain.type(v) if type(v) in (int, float) else v for v in held)
