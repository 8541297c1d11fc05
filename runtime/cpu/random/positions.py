"""Positions of random numbers in the output of a generator.

GPU threads compute the numbers from their positions.

In: a bit generator and the number of draws. Out: the words from which the numbers follow, and the generator in the state
after the draws. Invariant: these draws reject few words, so that the position of each number follows from its index.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cpu.random.bit_generators import BLOCK, Congruential, Engine, State, engine_of, engines, generator_at
from weft.runtime.cpu.random.methods import METHODS, Drawing
from weft.runtime.cpu.random.native_draws import HEAD, RECORD
from weft.runtime.cpu.random.random_streams import take_stream

_WORD = (1 << 64) - 1
# Number of steps between the far entries of `position_tables`, which are for fewer than ``STRIDE ** 2`` steps.
STRIDE = 1 << 14
MOST_REJECTED = 8  # maximum number of words that kernels can skip


class Position(NamedTuple):
    """The position at which a sequence of draws begins in the output of a bit generator.

    The outputs, beginning with the last output before the draws, are divided into words. Number i is computed from word
    ``i + offset``.

    Attributes
    ----------
    engine : int
        Index of the algorithm in `engines`.
    words : tuple of int
        Two words for the state, and two for the difference to the next state. For Philox, the key replaces the
        difference.
    offset : int
    half : int or None
        The value that replaces the first of these outputs, if its high half was unused. Otherwise None.
    rejected : tuple of int
        For each rejected word, which is skipped, the index of the first number after it.
    """

    engine: int
    words: tuple[int, int, int, int]
    offset: int
    half: int | None
    rejected: tuple[int, ...] = ()


def take_position(generator: Any, count: int, width: int) -> Position | None:
    """Advance a generator by `count` draws, and return the position of the first draw.

    A draw has `width` bits. Return None, and leave the generator unchanged, if NumPy has to draw.
    """
    found = engine_of(generator)
    if found is None or count * width >= 64 * (STRIDE**2 - 2):
        return None
    number, engine = found
    with generator.lock:
        begin = engine.load(generator)
        if begin is None:
            return None
        steps, left = count, begin.half
        if width < 64:
            halves = -(-count * width // 32) - begin.half[0]
            steps = (halves + 1) // 2
        state = engine.jump(begin.state, begin.increment, steps)
        if width < 64:
            left = halves % 2, engine.output(state, begin.increment) >> 32
        engine.store(generator, State(state, begin.increment, left))
    return _position_of(number, begin, width)


def _position_of(number: int, begin: State, width: int) -> Position:
    """Return the position of the first number that a bit generator in the state `begin` draws, for numbers of `width` bits each."""
    engine, (has, half), second = engines()[number], begin.half, begin.increment
    if isinstance(engine, Congruential):
        second = (engine.jump(begin.state, begin.increment, 1) - begin.state) & (1 << 128) - 1
    words = begin.state & _WORD, begin.state >> 64, second & _WORD, second >> 64
    if width == 64:
        return Position(number, words, 1, None)
    return Position(number, words, (64 - 32 * has) // width, half << 32 if has else None)


def take_integers(generator: Any, name: str, count: int, most: int, loc: int) -> Position | None:
    """Advance a generator past `count` bounded integers, and return the position of the first.

    Parameters
    ----------
    generator : numpy.random.BitGenerator
    name : str
        A method of `METHODS`.
    count : int
    most, loc : int
        The integers are those from `loc` to ``loc + most``.

    Returns
    -------
    Position or None
        None if many words are rejected, or if NumPy has to draw. The generator is then unchanged.
    """
    method, found = METHODS[name], engine_of(generator)
    threshold = (1 << method.bits) % (most + 1)
    if threshold == 0:
        return take_position(generator, count, method.bits)
    few = count * threshold < MOST_REJECTED / 2 * 2.0**method.bits
    if found is None or not few or count * method.bits >= 64 * (STRIDE**2 - 2):
        return None
    number, engine = found
    with generator.lock:
        begin, before = engine.load(generator), generator.state
        words = None if begin is None else take_stream(name, generator, count, most, loc)
        if begin is None or words is None:
            return None
        rejected = _rejected_words(engine, begin, words, method, threshold)
        if len(rejected) > MOST_REJECTED:
            generator.state = before
            return None
    skipped = tuple(word - k for k, word in enumerate(rejected))
    return _position_of(number, begin, method.bits)._replace(rejected=skipped)


def _rejected_words(engine: Engine, begin: State, stream: np.ndarray, method: Drawing, threshold: int) -> list[int]:
    """Return the positions of the words that a draw of bounded integers rejects.

    The records in the index of `stream` show which blocks may contain rejected words. Only these blocks are generated
    again.
    """
    size, limit = np.uint64(int(stream[4]) + 1), np.uint64(threshold)
    kind, per_block, found = np.dtype(f"u{method.bits // 8}"), BLOCK * 64 // method.bits, []
    mask = np.uint64((1 << method.bits) - 1)

    def look(words: np.ndarray, first: int) -> None:
        low = words.view(kind).astype(np.uint64) * size & mask
        found.extend((np.flatnonzero(low < limit) + first).tolist())

    front = 0
    if method.reads_halves and begin.half[0]:
        front = 32 // method.bits
        look(np.array([begin.half[1]], np.uint32), 0)
    firsts = stream[HEAD:].reshape(-1, RECORD)[:, 2].astype(np.int64)
    for block in np.flatnonzero(np.diff(firsts, append=firsts[-1]) < per_block).tolist():
        state = engine.jump(begin.state, begin.increment, block * BLOCK)
        look(generator_at(engine, State(state, begin.increment, (0, 0))).random_raw(BLOCK), front + block * per_block)
    return found


@cache
def position_tables(number: int) -> np.ndarray:
    """Return the tables from which kernels compute a generator's states.

    The array is empty for Philox, which needs no tables. With the multiplier a, state(n) = state + distance(n) *
    difference, where distance(n) = 1 + a + ... + a**(n - 1). And distance(n + k) = distance(n) + a**n * distance(k).
    The rows are the low and the high words of distance(k) for k less than `STRIDE`, and of a**n and of distance(n) for
    multiples n of `STRIDE`.
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
    columns = near, powers, far
    return np.array([[x >> shift & _WORD for x in column] for column in columns for shift in (0, 64)], np.uint64)
