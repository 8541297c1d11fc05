"""Lengths and strides of arrays in kernels, as Python ints or as run-time values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from weft.codegen import Value
from weft.dsl.kernel.language.kernel_errors import KernelTypeError
from weft.dsl.kernel.language.values import Extent

if TYPE_CHECKING:
    from weft.dsl.kernel.language.variables import Variables


def extent_ir(c: Variables, extent: Extent) -> Value:
    """Return a length or stride as a value of kernel IR."""
    if not isinstance(extent, int):
        return extent
    limits = np.iinfo(c.builder.kernel.index_dtype)
    if not limits.min <= extent <= limits.max:
        raise KernelTypeError(f"the index or length {extent} is beyond the {limits.bits} bits that indices have here")
    return c.builder.constant(extent)


def multiply(c: Variables, x: Extent, y: Extent) -> Extent:
    """Return the product of two extents."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if 0 in (x, y):
        return 0
    if isinstance(x, int) and x == 1:
        return y
    if isinstance(y, int) and y == 1:
        return x
    return c.builder.op("multiply", extent_ir(c, x), extent_ir(c, y))


def add(c: Variables, x: Extent, y: Extent) -> Extent:
    """Return the sum of two extents."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(x, int) and x == 0:
        return y
    if isinstance(y, int) and y == 0:
        return x
    return c.builder.op("add", extent_ir(c, x), extent_ir(c, y))


def divide(c: Variables, x: Extent, y: Extent) -> Extent:
    """Return the quotient of two extents, rounded down."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return c.builder.op("floor_divide", extent_ir(c, x), extent_ir(c, y))


def product(c: Variables, extents: Iterable[Extent]) -> Extent:
    """Return the product of extents, which is 1 if there are none."""
    total: Extent = 1
    for extent in extents:
        total = multiply(c, total, extent)
    return total


def contiguous(c: Variables, shape: tuple[Extent, ...], unit: int = 1) -> tuple[Extent, ...]:
    """Return the strides of a contiguous array in C order. The stride of the last axis is `unit`."""
    strides: list[Extent] = []
    step: Extent = unit
    for extent in reversed(shape):
        strides.append(step)
        step = multiply(c, step, extent)
    return tuple(reversed(strides))
