"""The module `weft.cuda.random`: random numbers in kernels, with one generator per thread.

In: an array of generator states, and an index. Out: the next number and the advanced state. Invariant: the generator
is xoroshiro128+ (Blackman and Vigna, 2016), seeded by splitmix64. States, streams (2**64 numbers apart), integers and
uniform numbers are bit-identical to Numba CUDA's. Normal numbers use the Box-Muller transform. float64 normal numbers
use float64 uniform numbers, while Numba uses float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.dsl.cuda.array_creation import device_array
from weft.dsl.kernel.language.device_function import device
from weft.dsl.kernel.language.types import from_dtype

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)
xoroshiro128p_type = from_dtype(xoroshiro128p_dtype)

# The polynomial that advances a state by 2**64 numbers, lowest coefficient first.
XOROSHIRO128P_JUMP = (np.uint64(0xBEAC0467EBA5FACB), np.uint64(0xD86B048B86AA9922))
TWO_PI_FLOAT32, TWO_PI_FLOAT64 = np.float32(2 * math.pi), np.float64(2 * math.pi)
_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53


# -- in kernels ----------------------------------------------------------------------------------


@device
def rotl(x: Any, k: Any) -> Any:
    """Rotate a uint64 left by k bits."""
    return (x << k) | (x >> (64 - k))


@device
def init_xoroshiro128p_state(states: Any, index: Any, seed: Any) -> None:
    """Initialize the generator state at `index` from a 64-bit seed, using splitmix64."""
    z = np.uint64(seed) + _STEP
    z = (z ^ (z >> 30)) * _FIRST
    z = (z ^ (z >> 27)) * _SECOND
    z ^= z >> 31
    states[index]["s0"] = z
    states[index]["s1"] = z


@device
def xoroshiro128p_next(states: Any, index: Any) -> Any:
    """Return the next random uint64 of a generator, and advance its state.

    Parameters
    ----------
    states : array of xoroshiro128p_dtype, one axis
    index : int
    """
    s0 = states[index]["s0"]
    s1 = states[index]["s1"]
    result = s0 + s1
    s1 ^= s0
    states[index]["s0"] = rotl(s0, 55) ^ s1 ^ (s1 << 14)
    states[index]["s1"] = rotl(s1, 36)
    return result


@device
def xoroshiro128p_jump(states: Any, index: Any) -> None:
    """Advance the generator state at `index` by 2**64 steps."""
    s0 = np.uint64(0)
    s1 = np.uint64(0)
    for word in XOROSHIRO128P_JUMP:
        for bit in range(64):
            if (word >> bit) & 1 != 0:
                s0 ^= states[index]["s0"]
                s1 ^= states[index]["s1"]
            xoroshiro128p_next(states, index)
    states[index]["s0"] = s0
    states[index]["s1"] = s1


@device
def uint64_to_unit_float64(x: Any) -> Any:
    """Convert the upper 53 bits of a uint64 to a float64 in the interval [0, 1)."""
    return np.float64(x >> 11) * _UNIT


@device
def uint64_to_unit_float32(x: Any) -> Any:
    """Convert the upper 53 bits of a uint64 to a float64 in [0, 1), and round the result to float32.

    The rounded number can be 1.
    """
    return np.float32(np.float64(x >> 11) * _UNIT)


@device
def xoroshiro128p_uniform_float32(states: Any, index: Any) -> Any:
    """Return a uniformly distributed float32 in [0, 1], and advance the generator."""
    return uint64_to_unit_float32(xoroshiro128p_next(states, index))


@device
def xoroshiro128p_uniform_float64(states: Any, index: Any) -> Any:
    """Return a uniformly distributed float64 in [0, 1), and advance the generator."""
    return uint64_to_unit_float64(xoroshiro128p_next(states, index))


@device
def xoroshiro128p_normal_float32(states: Any, index: Any) -> Any:
    """Return a normally distributed float32, and advance the generator by two steps."""
    u1 = xoroshiro128p_uniform_float32(states, index)
    u2 = xoroshiro128p_uniform_float32(states, index)
    return np.sqrt(np.float32(-2) * np.log(u1)) * np.cos(TWO_PI_FLOAT32 * u2)


@device
def xoroshiro128p_normal_float64(states: Any, index: Any) -> Any:
    """Return a normally distributed float64, and advance the generator by two steps."""
    u1 = xoroshiro128p_uniform_float64(states, index)
    u2 = xoroshiro128p_uniform_float64(states, index)
    return np.sqrt(np.float64(-2) * np.log(u1)) * np.cos(TWO_PI_FLOAT64 * u2)


# -- on the host ---------------------------------------------------------------------------------


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: object = 0) -> Any:
    """Return a device array with the states of `n` generators.

    Parameters
    ----------
    n : int
    seed : int
        The seed, which is reduced modulo 2**64.
    subsequence_start : int
        Generator k starts (`subsequence_start` + k) * 2**64 numbers into the sequence.
    stream : stream
    """
    states = device_array(n, dtype=xoroshiro128p_dtype, stream=stream)
    init_xoroshiro128p_states(states, seed, subsequence_start, stream)
    return states


def init_xoroshiro128p_states(states: Any, seed: int, subsequence_start: int = 0, stream: object = 0) -> None:
    """Initialize a device array or NumPy array of generator states, like `create_xoroshiro128p_states`."""
    if isinstance(states, np.ndarray):
        init_xoroshiro128p_states_cpu(states, seed, subsequence_start)
        return
    made = np.empty(states.shape, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(made, seed, subsequence_start)
    states.copy_to_device(made, stream=stream)


def init_xoroshiro128p_states_cpu(states: np.ndarray, seed: int, subsequence_start: int = 0) -> None:
    """Initialize a NumPy array of generator states.

    A jump by 2**64 numbers is a linear function of the bits of a state. The k-th power of this function maps the first
    k states to the next k states. Each iteration squares the power.
    """
    if states.dtype != xoroshiro128p_dtype:
        raise TypeError(f"states have the dtype xoroshiro128p_dtype (uint64 s0 and s1), not {states.dtype}")
    if states.ndim != 1:
        raise ValueError(f"states are an array with one axis, not with {states.ndim}")
    if subsequence_start < 0:
        raise ValueError(f"subsequence_start is not negative: {subsequence_start}")
    if states.size == 0:
        return
    words = np.empty((states.size, 2), np.uint64)
    with np.errstate(over="ignore"):
        init_xoroshiro128p_state(states, 0, int(seed) % 2**64)
    words[0] = states["s0"][0], states["s1"][0]
    jump = _jump_images()
    power, left = jump, int(subsequence_start)
    while left:
        if left & 1:
            words[:1] = _map(power, words[:1])
        power, left = _map(power, power), left >> 1
    power, known = jump, 1
    while known < len(words):
        words[known : 2 * known] = _map(power, words[: min(known, len(words) - known)])
        power, known = _map(power, power), 2 * known
    states["s0"], states["s1"] = words[:, 0], words[:, 1]


def _jump_images() -> np.ndarray:
    """Take each generator state that has exactly one bit set, and advance it by 2**64 steps. Return the 128 new states.

    The result has shape (128, 2). The first 64 states have a bit of s0 set, the others a bit of s1.
    """
    states = np.zeros(128, xoroshiro128p_dtype)
    words = states.view(np.uint64).reshape(128, 2)
    words[np.arange(128), np.arange(128) // 64] = np.left_shift(np.uint64(1), np.arange(128, dtype=np.uint64) % 64)
    xoroshiro128p_jump(states, slice(None))  # (called in Python, the function advances all states of a slice)
    return words


def _map(images: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Apply a linear function, which maps 128 bits to 128 bits, to each generator state in the array `words`.

    The array `images` contains the results of the function for the 128 states that have a single set bit. One table
    lookup maps each byte of a state.
    """
    result = np.zeros_like(words)
    for position in range(16):
        table = np.zeros((1, 2), np.uint64)
        for image in images[8 * position : 8 * position + 8]:
            table = np.concatenate((table, table ^ image))
        byte = (words[:, position // 8] >> np.uint64(8 * (position % 8))) & np.uint64(255)
        result ^= table[byte]
    return result


# the names of Numba's module
__all__ = sorted(name for name in globals() if "xoroshiro128p" in name.lower() or name.startswith("uint64_to_unit"))
