"""Integer functions of libdevice, in the kernel language.

The results are exact, and overflow wraps around.

In and out: int32 and int64. libdevice's unsigned functions interpret their bits as unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def with_operands_as(kind: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `function` that first converts its operands to the dtype `kind`."""

    def apply(*operands: Any) -> Any:
        return function(*[kind(x) for x in operands])

    return apply


def select_bytes(x: int, y: int, selector: int) -> np.int32:
    """Select four of the eight bytes of `x` and `y`, like CUDA's ``__byte_perm``.

    The low 3 bits of each of the selector's four low nibbles select a byte. Byte 0 is the lowest byte of `x`, and byte
    4 is the lowest byte of `y`.
    """
    pool = (np.uint64(np.uint32(y)) << 32) | np.uint64(np.uint32(x))
    wanted = np.uint64(np.uint32(selector))
    result = np.uint64(0)
    for k in (0, 1, 2, 3):
        shift = ((wanted >> (4 * k)) & 7) * 8
        result |= ((pool >> shift) & 255) << (8 * k)
    return np.int32(np.uint32(result))


def multiply_24(x: int, y: int) -> int:
    """Multiply the lower 24 bits of two integers, and return the lower 32 bits of the product."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def multiply_high(x: int, y: int) -> np.int32:
    """Return the upper 32 bits of the product of two 32-bit integers."""
    return np.int32((np.int64(x) * np.int64(y)) >> 32)


def upper_half(a: np.unsignedinteger, b: np.unsignedinteger) -> np.unsignedinteger:
    """Return the upper 64 bits of the product of two uint64 numbers.

    The product is computed from four products of 32-bit halves.
    """
    a_low, a_high, b_low, b_high = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    middle = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (middle & 0xFFFFFFFF)
    return a_high * b_high + (middle >> 32) + (other >> 32)


def multiply_high_wide(x: int, y: int) -> Any:
    """Return the upper 64 bits of the product of two signed 64-bit integers."""
    high = np.int64(upper_half(np.uint64(x), np.uint64(y)))
    return high - ((x >> 63) & y) - ((y >> 63) & x)


def halved_sum(x: int, y: int) -> np.int32:
    """Compute (x + y) >> 1 without overflow."""
    return np.int32((np.int64(x) + np.int64(y)) >> 1)


def halved_sum_rounded(x: int, y: int) -> np.int32:
    """Compute (x + y + 1) >> 1 without overflow."""
    return np.int32((np.int64(x) + np.int64(y) + 1) >> 1)


def absolute_difference(x: int, y: int, z: int) -> int:
    """Return abs(x - y) + z, the sum of an absolute difference and z, like CUDA's function ``__sad``."""
    return (x - y if x > y else y - x) + z
