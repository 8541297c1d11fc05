"""Integer functions of libdevice, in the kernel language. Everything is exact; integers wrap.

In and out: int32 and int64, which libdevice's unsigned functions take for the bits they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def count_bits(x: Any) -> Any:
    """Bits that are set, of 32."""
    return np.int32(np.bitwise_count(np.uint32(x)))


def count_bits_wide(x: Any) -> Any:
    """Bits that are set, of 64."""
    return np.int32(np.bitwise_count(np.uint64(x)))


def leading_zeros(x: Any) -> Any:
    """Zero bits above the highest set one, of 32."""
    u = np.uint32(x)
    u |= u >> 1
    u |= u >> 2
    u |= u >> 4
    u |= u >> 8
    u |= u >> 16
    return np.int32(32) - np.int32(np.bitwise_count(u))


def leading_zeros_wide(x: Any) -> Any:
    """Zero bits above the highest set one, of 64."""
    u = np.uint64(x)
    u |= u >> 1
    u |= u >> 2
    u |= u >> 4
    u |= u >> 8
    u |= u >> 16
    u |= u >> 32
    return np.int32(64) - np.int32(np.bitwise_count(u))


def first_set(x: Any) -> Any:
    """The place of the lowest set bit of 32, from 1; 0 where there is none."""
    u = np.uint32(x)
    place = np.int32(np.bitwise_count(u ^ (u - 1)))
    return place if u != 0 else np.int32(0)


def first_set_wide(x: Any) -> Any:
    """The place of the lowest set bit of 64, from 1; 0 where there is none."""
    u = np.uint64(x)
    place = np.int32(np.bitwise_count(u ^ (u - 1)))
    return place if u != 0 else np.int32(0)


def reverse_bits(x: Any) -> Any:
    """32 bits in reverse order."""
    u = np.uint32(x)
    u = ((u >> 1) & 0x55555555) | ((u & 0x55555555) << 1)
    u = ((u >> 2) & 0x33333333) | ((u & 0x33333333) << 2)
    u = ((u >> 4) & 0x0F0F0F0F) | ((u & 0x0F0F0F0F) << 4)
    u = ((u >> 8) & 0x00FF00FF) | ((u & 0x00FF00FF) << 8)
    return np.int32((u >> 16) | (u << 16))


def reverse_bits_wide(x: Any) -> Any:
    """64 bits in reverse order."""
    low = np.uint32(reverse_bits(np.int32(x)))
    high = np.uint32(reverse_bits(np.int32(x >> 32)))
    return np.int64((np.uint64(low) << 32) | np.uint64(high))


def select_bytes(x: Any, y: Any, selector: Any) -> Any:
    """Four of the eight bytes of `y` above `x`: one for each four bits of the selector, of which three count."""
    pool = (np.uint64(np.uint32(y)) << 32) | np.uint64(np.uint32(x))
    wanted = np.uint64(np.uint32(selector))
    result = np.uint64(0)
    for k in (0, 1, 2, 3):
        place = ((wanted >> (4 * k)) & 7) * 8
        result |= ((pool >> place) & 255) << (8 * k)
    return np.int32(np.uint32(result))


def multiply_24(x: Any, y: Any) -> Any:
    """The product of the lower 24 bits, taken with their sign."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


def multiply_24_unsigned(x: Any, y: Any) -> Any:
    """The product of the lower 24 bits."""
    return np.int32((np.uint32(x) & 0xFFFFFF) * (np.uint32(y) & 0xFFFFFF))


def multiply_high(x: Any, y: Any) -> Any:
    """The upper 32 bits of the product."""
    return np.int32((np.int64(x) * np.int64(y)) >> 32)


def multiply_high_unsigned(x: Any, y: Any) -> Any:
    """The upper 32 bits of the product of unsigned numbers."""
    return np.int32(np.uint32((np.uint64(np.uint32(x)) * np.uint64(np.uint32(y))) >> 32))


def _upper_half(a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two uint64: four products of halves."""
    a_low, a_high, b_low, b_high = a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32
    middle = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (middle & 0xFFFFFFFF)
    return a_high * b_high + (middle >> 32) + (other >> 32)


def multiply_high_wide_unsigned(x: Any, y: Any) -> Any:
    """The upper 64 bits of the product of unsigned numbers."""
    return np.int64(_upper_half(np.uint64(x), np.uint64(y)))


def multiply_high_wide(x: Any, y: Any) -> Any:
    """The upper 64 bits of the product: the unsigned ones, less what the signs added."""
    high = np.int64(_upper_half(np.uint64(x), np.uint64(y)))
    return high - ((x >> 63) & y) - ((y >> 63) & x)


def halved_sum(x: Any, y: Any) -> Any:
    """(x + y) >> 1, without overflow."""
    return np.int32((np.int64(x) + np.int64(y)) >> 1)


def halved_sum_rounded(x: Any, y: Any) -> Any:
    """(x + y + 1) >> 1, without overflow."""
    return np.int32((np.int64(x) + np.int64(y) + 1) >> 1)


def halved_sum_unsigned(x: Any, y: Any) -> Any:
    """(x + y) >> 1 of unsigned numbers, without overflow."""
    return np.int32((np.int64(np.uint32(x)) + np.int64(np.uint32(y))) >> 1)


def halved_sum_rounded_unsigned(x: Any, y: Any) -> Any:
    """(x + y + 1) >> 1 of unsigned numbers, without overflow."""
    return np.int32((np.int64(np.uint32(x)) + np.int64(np.uint32(y)) + 1) >> 1)


def absolute_difference(x: Any, y: Any, z: Any) -> Any:
    """abs(x - y) + z."""
    return (x - y if x > y else y - x) + z


def absolute_difference_unsigned(x: Any, y: Any, z: Any) -> Any:
    """abs(x - y) + z of unsigned numbers."""
    return (x - y if np.uint32(x) > np.uint32(y) else y - x) + z


def extreme_unsigned(choose: Callable[..., Any], unsigned: Any, signed: Any) -> Callable[..., Any]:
    """The lesser or greater of two unsigned numbers."""

    def apply(x: Any, y: Any) -> Any:
        return signed(choose(unsigned(x), unsigned(y)))

    return apply
