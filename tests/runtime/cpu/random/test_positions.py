"""Tests that random numbers computed from their positions equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.runtime.cpu.random import native_streams
from weft.runtime.cpu.random.bit_generators import engines
from weft.runtime.cpu.random.positions import (
    MOST_REJECTED,
    STRIDE,
    Position,
    position_tables,
    take_integers,
    take_position,
)

loaded = native_streams.loaded  # a fixture of every test
KINDS = [engine.kind for engine in engines()]
DTYPES = {64: np.uint64, 32: np.uint32, 16: np.uint16, 8: np.uint8}


def word(position: Position, index: int, width: int) -> int:
    """Return element `index` of a sequence of random words. The sequence begins at the position `position` of a bit generator.

    The word has `width` bits. It is computed with the algorithm of the bit generator.
    """
    engine = engines()[position.engine]
    a, b, c, d = position.words
    step, piece = divmod(index + position.offset, 64 // width)
    if step == 0 and position.half is not None:
        bits = position.half
    else:
        state, second = b << 64 | a, d << 64 | c
        if engine.kind is np.random.Philox:
            bits = engine.output(state + step, second)
        else:
            increment = (second + state - state * engine.multiplier) % (1 << 128)  # type: ignore[attr-defined]
            bits = engine.output(engine.jump(state, increment, step), increment)
    return bits >> piece * width & (1 << width) - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", DTYPES)
def test_words_and_states_are_numpys(kind: Any, width: int) -> None:
    ours, theirs = kind(3), kind(3)
    numpys = np.random.Generator(theirs)
    for turn, count in enumerate((1, 2, 3, 5, 7, 8, 64, 200, 201)):
        for _ in range(turn % 3):
            assert np.random.Generator(ours).integers(9, dtype=np.int32) == numpys.integers(9, dtype=np.int32)
        position = take_position(ours, count, width)
        expected = numpys.integers(0, 1 << width, count, DTYPES[width])
        assert position is not None
        assert [word(position, k, width) for k in range(count)] == expected.tolist()
        assert np.random.Generator(ours).random() == numpys.random()
        assert str(ours.state) == str(theirs.state)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("width", "most", "count"), [(64, (3 << 48) - 1, 60_001), (32, (3 << 17) - 1, 20_001), (32, 999, 20_001)]
)
def test_integers_skip_rejected_words(kind: Any, width: int, most: int, count: int) -> None:
    ours, theirs = kind(3), kind(3)
    numpys, name = np.random.Generator(theirs), f"integers {width}/64"
    skipped = 0
    for turn in range(8):
        for _ in range(turn % 3):
            assert np.random.Generator(ours).integers(9, dtype=np.int32) == numpys.integers(9, dtype=np.int32)
        position = take_integers(ours, name, count, most, 5)
        expected = numpys.integers(5, 5 + most, count, endpoint=True)
        assert str(ours.state) == str(theirs.state)
        assert position is not None and len(position.rejected) <= MOST_REJECTED
        skipped += sum(first < count for first in position.rejected)
        around = [k + d for k in position.rejected for d in (-1, 0, 1)]
        for k in (0, 1, 2, 5000, count - 1, *(k for k in around if 0 <= k < count)):
            behind = k + sum(k >= first for first in position.rejected)
            assert 5 + (word(position, behind, width) * (most + 1) >> width) == expected[k]
    assert skipped or most == 999


def test_many_rejected_words(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.PCG64(1)
    before = generator.state
    assert take_integers(generator, "integers 8/8", 10_000, 99, 0) is None
    monkeypatch.setattr("weft.runtime.cpu.random.positions._rejected_words", lambda *given: range(100))
    assert take_integers(generator, "integers 32/64", 10_000, 99, 0) is None
    assert generator.state == before
    assert take_integers(np.random.SFC64(1), "integers 32/64", 10_000, 99, 0) is None
    native_streams.unload(monkeypatch)
    assert take_integers(generator, "integers 32/64", 10_000, 99, 0) is None
    assert generator.state == before


@pytest.mark.parametrize("number", [0, 1])
def test_tables_give_any_state(number: int) -> None:
    engine: Any = engines()[number]
    table = position_tables(number).tolist()
    near, power, far = ([high << 64 | low for low, high in zip(*table[k : k + 2], strict=True)] for k in (0, 2, 4))
    begin = engine.load(engine.kind(5))
    difference = engine.jump(begin.state, begin.increment, 1) - begin.state
    for step in (0, 1, 2, STRIDE - 1, STRIDE, 12_345_678, STRIDE**2 - 1):
        distance = far[step // STRIDE] + power[step // STRIDE] * near[step % STRIDE]
        state = (begin.state + distance * difference) % (1 << 128)
        assert state == engine.jump(begin.state, begin.increment, step)
    assert position_tables(2).size == 0


def test_what_numpy_draws() -> None:
    assert take_position(np.random.SFC64(1), 100, 64) is None
    generator = np.random.PCG64(1)
    before = generator.state
    assert take_position(generator, STRIDE**2, 64) is None
    assert generator.state == before
    assert take_position(generator, STRIDE**2, 32) is not None
    assert take_position(np.random.Philox(1).jumped(), 100, 64) is None
