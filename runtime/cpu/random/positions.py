"""Random numbers at a position, for devices whose kernels compute each number by itself.

In: a bit generator and the number of draws. Out: the words from which the numbers follow, and the generator in the state
after the draws. Invariant: these draws reject nothing, so that the position of each number is known.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.random.bit_generators import Congruential, State, engine_of, engines

_WORD = (1 << 64) - 1
# Steps between the entries of the second table: the tables are for fewer than ``STRIDE ** 2`` steps.
STRIDE = 1 << 14


class Position(NamedTuple):
    """The positions of draws.

    Number i reads a word of `width` bits: word ``i + offset`` of the outputs, the first of which precedes the draws. In
    its place is `half`, if half of a step was left.

    Attributes
    ----------
    engine : int
        Position of the algorithm in `engines`.
    words : tuple of int
        Two words each: the state, and the difference to the next state; or the key of Philox instead of a difference.
    offset : int
    half : int or None
    """

    engine: int
    words: tuple[int, int, int, int]
    offset: int
    half: int | None


def take_position(generator: Any, count: int, width: int) -> Position | None:
    """Return the positions of `count` draws of words of `width` bits, and advance the generator.

    Return None if NumPy has to draw.
    """
    found = engine_of(generator)
    if found is None or count * width >= 64 * (STRIDE**2 - 2):
        return None
    number, engine = found
    with generator.lock:
        begin = engine.load(generator)
        if begin is None:
            return None
        (has, half), offset, steps = begin.half, 64 // width, count
        left = begin.half
        if width < 64:
            halves = -(-count * width // 32) - has
            steps = (halves + 1) // 2
            offset -= has * (32 // width)
        state = engine.jump(begin.state, begin.increment, steps)
        if width < 64:
            left = halves % 2, engine.output(state, begin.increment) >> 32
        engine.store(generator, State(state, begin.increment, left))
    second = begin.increment
    if isinstance(engine, Congruential):
        second = (engine.jump(begin.state, begin.increment, 1) - begin.state) & (1 << 128) - 1
    words = begin.state & _WORD, begin.state >> 64, second & _WORD, second >> 64
    return Position(number, words, offset, half << 32 if has and width < 64 else None)


@cache
def position_tables(number: int) -> np.ndarray:
    """Return the tables with which kernels compute states, or an empty array if they need none.

    With the multiplier a, state(n) = state + distance(n) * difference, where distance(n) = 1 + a + ... + a**(n - 1). And
    distance(n + k) = distance(n) + a**n * distance(k). The rows are the low and the high words of distance(k) for k less
    than `STRIDE`, and of a**n and of distance(n) for multiples n of `STRIDE`.
    """
    engine = engines()[number]
    if not isinstance(engine, Congruential):
        return np.empty(0, np.uint64)
    modulus = 1 << 128
    near, powers, far = [0], [1], [0]
    for _ in range(STRIDE):
        near.append((near[-1] * engine.multiplier + 1) % modulus)
    step, distance = pow(engine.multiplier, STRIDE, modulus), near.pop()
    for _ in range(STRIDE - 1):
        far.append((far[-1] + powers[-1] * distance) % modulus)
        powers.append(powers[-1] * step % modulus)
    rows = [[word(x) for x in column] for column in (near, powers, far) for word in (_low, _high)]
    return np.array(rows, np.uint64)


def _low(x: int) -> int:
    return x & _WORD


def _high(x: int) -> int:
    return x >> 64
