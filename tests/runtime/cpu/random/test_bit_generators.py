"""Tests of the states of bit generators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.runtime.cpu.random.bit_generators import Engine, engine_of, engines


@pytest.mark.parametrize("steps", [0, 1, 2, 1000, 12_345_678_901])
@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.kind.__name__)
def test_jumps_are_numpys(engine: Engine, steps: int) -> None:
    made: Any = engine.kind
    ours, theirs = made(3), made(3)
    begin = engine.load(ours)
    assert begin is not None
    engine.store(ours, begin._replace(state=engine.jump(begin.state, begin.increment, steps)))
    outputs = 4 if engine.kind is np.random.Philox else 1  # per step of NumPy's `advance`
    theirs.advance(steps // outputs)
    theirs.random_raw(steps % outputs)
    np.testing.assert_array_equal(ours.random_raw(5), theirs.random_raw(5))
    assert str(ours.state) == str(theirs.state)


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.kind.__name__)
def test_a_state_that_is_loaded_and_stored(engine: Engine) -> None:
    made: Any = engine.kind
    generator = made(9)
    for count in (0, 1, 2, 3, 4, 5):
        np.random.Generator(generator).random(count)
        np.random.Generator(generator).integers(9, size=count, dtype=np.int32)
        found, before = engine.load(generator), str(generator.state)
        assert found is not None
        if count:  # (NumPy has not filled the buffer of a new Philox generator)
            engine.store(generator, found)
            assert str(generator.state) == before
        assert found.half == (generator.state["has_uint32"], generator.state["uinteger"])


def test_generators_of_known_algorithms() -> None:
    for k, engine in enumerate(engines()):
        made: Any = engine.kind
        assert engine_of(made(1)) == (k, engine)
    assert engine_of(np.random.SFC64(1)) is None


def test_counters_of_more_than_126_bits() -> None:
    (engine,) = (engine for engine in engines() if engine.kind is np.random.Philox)
    assert engine.load(np.random.Philox(1)) is not None
    assert engine.load(np.random.Philox(1).jumped()) is None
    assert engine.load(np.random.Philox(key=1, counter=1 << 126)) is None
