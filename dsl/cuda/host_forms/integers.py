"""Integer functions of libdevice, in the kernel language.

The results are exact, and overflow wraps around.

In and out: int32 and int64. libdevice's unsigned functions interpret their bits as unsigned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def count_bits(x: int) -> np.int32:
    """Count the set bits of a 32-bit integer."""
    return np.int32(np.bitwise_count(np.uint32(x)))


def count_bits_wide(x: int) -> np.int32:
    """Count the set bits of a 64-bit integer."""
    return np.int32(np.bitwise_count(np.uint64(x)))


def leading_zeros(x: int) -> np.int32:
    """Count the leading zero bits of a 32-bit integer."""
    u = np.uint32(x)
    u |= u >> 1
    u |= u >> 2
    u |= u >> 4
    u |= u >> 8
    u |= u >> 16
    return np.int32(32) - np.int32(np.bitwise_count(u))


def leading_zeros_wide(x: int) -> np.int32:
    """Count the leading zero bits of a 64-bit integer."""
    u = np.uint64(x)
    u |= u >> 1
    u |= u >> 2
    u |= u >> 4
    u |= u >> 8
    u |= u >> 16
    u |= u >> 32
    return np.int32(64) - np.int32(np.bitwise_count(u))


def first_set(x: int) -> np.int32:
    """Return the 1-based position of the lowest set bit of a 32-bit integer, or 0 if x is 0."""
    u = np.uint32(x)
    position = np.int32(np.bitwise_count(u ^ (u - 1)))
    return position if u != 0 else np.int32(0)


def first_set_wide(x: int) -> np.int32:
    """Return the 1-based position of the lowest set bit of a 64-bit integer, or 0 if `x` is 0."""
    u = np.uint64(x)
    position = np.int32(np.bitwise_count(u ^ (u - 1)))
    return position if u != 0 else np.int32(0)


def reverse_bits(x: int | np.signedinteger) -> np.int32:
    """Reverse the bits of a 32-bit integer."""
    u = np.uint32(x)
    u = ((u >> 1) & 0x55555555) | ((u & 0x55555555) << 1)
    u = ((u >> 2) & 0x33333333) | ((u & 0x33333333) << 2)
    u = ((u >> 4) & 0x0F0F0F0F) | ((u & 0x0F0F0F0F) << 4)
    u = ((u >> 8) & 0x00FF00FF) | ((u & 0x00FF00FF) << 8)
    return np.int32((u >> 16) | (u << 16))


def reverse_bits_wide(x: int) -> np.int64:
    """Reverse the bits of a 64-bit integer."""
    low = np.uint32(reverse_bits(np.int32(x)))
    high = np.uint32(reverse_bits(np.int32(x >> 32)))
    return np.int64((np.uint64(low) << 32) | np.uint64(high))


def select_bytes(x: int, y: int, selector: int) -> np.int32:
    """Select four of the eight bytes of `x` and `y`, like PTX's `prmt` instruction.

    The low 3 bits of each nibble of the selector number a byte.
    """
    pool = (np.uint64(np.uint32(y)) << 32) | np.uint64(np.uint32(x))
    wanted = np.uint64(np.uint32(selector))
    result = np.uint64(0)
    for k in (0, 1, 2, 3):
        shift = ((wanted >> (4 * k)) & 7) * 8
        result |= ((pool >> shift) & 255) << (8 * k)
    return np.int32(np.uint32(result))


def multiply_24(x: int, y: int) -> int:
    """Return the product of the lower 24 bits of two signed integers."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def multiply_24_unsigned(x: int, y: int) -> np.int32:
    """Return the product of the lower 24 bits of two unsigned integers."""
    return np.int32((np.uint32(x) & 0xFFFFFF) * (np.uint32(y) & 0xFFFFFF))


def multiply_high(x: int, y: int) -> np.int32:
    """Return the upper 32 bits of the product of two signed 32-bit integers."""
    return np.int32((np.int64(x) * np.int64(y)) >> 32)


def multiply_high_unsigned(x: int, y: int) -> np.int32:
    """Return the upper 32 bits of the product of two unsigned 32-bit integers."""
    return np.int32(np.uint32((np.uint64(np.uint32(x)) * np.uint64(np.uint32(y))) >> 32))


def _upper_half(a: np.unsignedinteger, b: np.unsignedinteger) -> np.unsignedinteger:
    """Return the upper 64 bits of the product of two uint64 numbers.

    The product is computed from four products of 32-bit halves.
    """
    a_low, a_high, b_low, b_high = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    middle = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (middle & 0xFFFFFFFF)
    return a_high * b_high + (middle >> 32) + (other >> 32)


def multiply_high_wide_unsigned(x: int, y: int) -> np.int64:
    """Return the upper 64 bits of the product of two unsigned 64-bit integers."""
    return np.int64(_upper_half(np.uint64(x), np.uint64(y)))


def multiply_high_wide(x: int, y: int) -> Any:
    """Return the upper 64 bits of the product of two signed 64-bit integers."""
    high = np.int64(_upper_half(np.uint64(x), np.uint64(y)))
    return high - ((x >> 63) & y) - ((y >> 63) & x)


def halved_sum(x: int, y: int) -> np.int32:
    """Compute (x + y) >> 1 of signed integers without overflow."""
    return np.int32((np.int64(x) + np.int64(y)) >> 1)


def halved_sum_rounded(x: int, y: int) -> np.int32:
    """Compute (x + y + 1) >> 1 of signed integers without overflow."""
    return np.int32((np.int64(x) + np.int64(y) + 1) >> 1)


def halved_sum_unsigned(x: int, y: int) -> np.int32:
    """Compute (x + y) >> 1 of unsigned integers without overflow."""
    return np.int32((np.int64(np.uint32(x)) + np.int64(np.uint32(y))) >> 1)


def halved_sum_rounded_unsigned(x: int, y: int) -> np.int32:
    """Compute (x + y + 1) >> 1 of unsigned integers without overflow."""
    return np.int32((np.int64(np.uint32(x)) + np.int64(np.uint32(y)) + 1) >> 1)


def absolute_difference(x: int, y: int, z: int) -> int:
    """Compute abs(x - y) + z of signed integers."""
    return (x - y if x > y else y - x) + z


def absolute_difference_unsigned(x: int, y: int, z: int) -> int:
    """Compute abs(x - y) + z of unsigned integers."""
    return (x - y if np.uint32(x) > np.uint32(y) else y - x) + z


def extreme_unsigned(choose: Callable[..., Any], unsigned: Any, signed: Any) -> Callable[..., Any]:
    """Return a function that computes the unsigned minimum or maximum of two integers.

    `choose` is the minimum or maximum function.
    """

    def apply(x: int, y: int) -> Any:
        return signed(choose(unsigned(x), unsigned(y)))

    return apply
