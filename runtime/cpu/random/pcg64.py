"""PCG64 by closed formulas: the LLVM text that all draws share, and jumps of its state.

In: a state and a number of steps. Out: the state after these steps. Invariant: the text and the Python functions use
the same constants.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from weft.runtime.llvm_files import read_llvm

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_MASK, _WORD = (1 << 128) - 1, (1 << 64) - 1
# Steps of a block that native code computes at once, and number of steps in one vector.
BLOCK, LANES = 1 << 10, 8


def pcg64_text() -> str:
    """Return the LLVM text of PCG64."""
    return read_llvm(__file__, "pcg64", MULTIPLIER=_MULTIPLIER, LANES=LANES, DISTANCES=BLOCK + LANES)


@cache
def distances() -> np.ndarray:
    """Return the low and the high words of 1 + a + ... + a**(n - 1), for the multiplier a and n up to `BLOCK + LANES`."""
    words = np.empty((2, BLOCK + LANES), np.uint64)
    distance = 0
    for n in range(BLOCK + LANES):
        distance = (distance * _MULTIPLIER + 1) & _MASK
        words[0, n], words[1, n] = distance & _WORD, distance >> 64
    return words


def jump(state: int, increment: int, steps: int) -> int:
    """Return the state `steps` steps later (Brown 1994, "Random number generation with arbitrary strides")."""
    product, total, factor, term = 1, 0, _MULTIPLIER, increment
    while steps:
        if steps & 1:
            product, total = product * factor & _MASK, (total * factor + term) & _MASK
        factor, term, steps = factor * factor & _MASK, (factor + 1) * term & _MASK, steps >> 1
    return (product * state + total) & _MASK


def output(state: int) -> int:
    """Return the 64 bits of the step that ends in a state."""
    bits, turns = (state >> 64 ^ state) & _WORD, state >> 122
    return (bits >> turns | bits << (64 - turns)) & _WORD


def state_address(generator: Any) -> int:
    """Return the address of a PCG64 generator's state and increment. Both are 128-bit integers."""
    return ctypes.c_int64.from_address(generator.ctypes.state_address).value


def half_of(generator: Any) -> Any:
    """Return the words of a generator's state that say whether half of a step is still to be used, and this half."""
    address = generator.ctypes.state_address + ctypes.sizeof(ctypes.c_void_p)
    return (ctypes.c_uint32 * 2).from_address(address)


@cache
def has_known_layout() -> bool:
    """Return whether NumPy keeps the state and the increment where `state_address` and `half_of` say."""
    generator = np.random.PCG64(1)
    state, increment = (generator.state["state"][key] for key in ("state", "inc"))
    expected: bytes = state.to_bytes(16, "little") + increment.to_bytes(16, "little")
    same = ctypes.string_at(state_address(generator), 32) == expected
    np.random.Generator(generator).integers(9, dtype=np.int32)
    half = generator.state["has_uint32"], generator.state["uinteger"]
    return same and (*half_of(generator),) == half
