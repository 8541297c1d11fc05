"""Streams have the numbers that NumPy draws from PCG64, and leave the generator in the same state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.cpu.random import native_streams
from weft.runtime import override
from weft.runtime.cpu.random import generators, random_streams
from weft.runtime.cpu.random.pcg64 import jump, state_address

METHODS = ["random", "standard_normal", "standard_exponential"]

loaded = native_streams.loaded  # a fixture of every test


def draw(method: str, generator: Any, count: int, *scaling: float) -> np.ndarray:
    words = random_streams.take_stream(method, generator, count, *scaling)
    assert words is not None
    values = np.empty(count)
    random_streams.fill_from_stream(values, words)
    return values


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("method", METHODS)
def test_numbers_and_state_are_numpys(method: str, threads: int) -> None:
    ours, theirs = np.random.default_rng(11), np.random.default_rng(11)
    with override(threads=threads):
        for count in (8192, 8193, 50_000, 300_001):
            values = draw(method, ours.bit_generator, count)
            np.testing.assert_array_equal(values, getattr(theirs, method)(count))
            assert ours.bit_generator.state == theirs.bit_generator.state
            # also alternate with NumPy's own draws, which use half of a generator step
            assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)


@pytest.mark.parametrize("method", METHODS)
def test_any_part_of_a_stream(method: str) -> None:
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    words = random_streams.take_stream(method, ours.bit_generator, 1_000_000)
    expected = getattr(theirs, method)(1_000_000)
    assert words is not None
    values = np.zeros(1_000_000)
    tables = random_streams._ziggurats().ctypes.data, random_streams.distances().ctypes.data
    slots = np.array([values.ctypes.data, words.ctypes.data, *tables], np.int64)
    rng = np.random.default_rng(1)
    for first in (0, 1, 1023, 1024, 999_999, *rng.integers(0, 1_000_000, 50).tolist()):
        last = min(1_000_000, first + int(rng.integers(1, 3000)))
        values[:] = 0
        native_streams.code().fill.call(slots.ctypes.data, first, last)
        np.testing.assert_array_equal(values[first:last], expected[first:last])
        assert not values[:first].any() and not values[last:].any()


@pytest.mark.parametrize("size", [2, 3, 100, 1 << 16, 3_000_000_000, (1 << 32) - 1])
@pytest.mark.parametrize("seed", range(10))
def test_bounded_integers(size: int, seed: int) -> None:
    ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    with override(threads=1 + seed % 3):
        for turn, count in enumerate((8192, 8193, 50_000, 100_001)):
            words = random_streams.take_stream("integers", ours.bit_generator, count, size, -5)
            expected = theirs.integers(-5, size - 5, count)
            assert ours.bit_generator.state == theirs.bit_generator.state
            if words is None:  # (NumPy drew)
                continue
            values = np.empty(count, np.int64)
            random_streams.fill_from_stream(values, words)
            np.testing.assert_array_equal(values, expected)
            for k in range(turn):  # half of a step may be left, and may be of an earlier step
                assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)
                assert ours.random() == theirs.random() and k >= 0


def test_any_part_of_a_stream_of_integers() -> None:
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    ours.integers(9), theirs.integers(9)
    words = random_streams.take_stream("integers", ours.bit_generator, 100_000, 3_000_000_000, 0)
    expected = theirs.integers(0, 3_000_000_000, 100_000)
    assert words is not None and words[9]
    tables = random_streams._ziggurats().ctypes.data, random_streams.distances().ctypes.data
    rng = np.random.default_rng(1)
    for first in (0, 1, 2, 99_999, *rng.integers(0, 100_000, 50).tolist()):
        last = min(100_000, first + int(rng.integers(1, 6000)))
        values = np.zeros(100_000, np.int64)
        slots = np.array([values.ctypes.data, words.ctypes.data, *tables], np.int64)
        native_streams.code().fill.call(slots.ctypes.data, first, last)
        np.testing.assert_array_equal(values[first:last], expected[first:last])
        assert not values[:first].any() and not values[last:].any()


@pytest.mark.parametrize("front", [0, 1])
def test_any_part_of_a_stream_of_float32(front: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(front):
        ours.integers(9), theirs.integers(9)
    words = random_streams.take_stream("random float32", ours.bit_generator, 100_000)
    expected = theirs.random(100_000, np.float32)
    assert words is not None and words[9] == front
    tables = random_streams._ziggurats().ctypes.data, random_streams.distances().ctypes.data
    rng = np.random.default_rng(1)
    for first in (0, 1, 2, 99_999, *rng.integers(0, 100_000, 50).tolist()):
        last = min(100_000, first + int(rng.integers(1, 6000)))
        values = np.full(100_000, -1, np.float32)
        slots = np.array([values.ctypes.data, words.ctypes.data, *tables], np.int64)
        native_streams.code().fill.call(slots.ctypes.data, first, last)
        np.testing.assert_array_equal(values[first:last], expected[first:last])
        assert (values[:first] == -1).all() and (values[last:] == -1).all()
    monkeypatch.setattr(random_streams._code, "loaded", None)
    monkeypatch.setattr(random_streams._code, "_failed", True)
    random_streams.fill_from_stream(values, words)
    np.testing.assert_array_equal(values, expected)


def test_many_rejected_halves_in_front_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_streams, "MOST_IN_FRONT", 0)
    generator = np.random.PCG64(1)
    np.random.Generator(generator).integers(9, dtype=np.int32)
    before = generator.state
    assert random_streams.take_stream("integers", generator, 10_000, 3, 0) is None
    assert generator.state == before


def test_integers_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    ours.integers(9), theirs.integers(9)
    words = random_streams.take_stream("integers", ours.bit_generator, 30_000, 1000, -3)
    monkeypatch.setattr(random_streams._code, "loaded", None)
    monkeypatch.setattr(random_streams._code, "_failed", True)
    values = np.empty((100, 300), np.int64)
    random_streams.fill_from_stream(values, words)
    np.testing.assert_array_equal(values, theirs.integers(-3, 997, (100, 300)))


def test_an_index_with_too_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    short = random_streams.METHODS["standard_normal"]._replace(steps=0.8)
    monkeypatch.setitem(random_streams.METHODS, "standard_normal", short)
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(3):
        values = draw("standard_normal", ours.bit_generator, 200_000)
        np.testing.assert_array_equal(values, theirs.standard_normal(200_000))
        assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("method", METHODS)
def test_the_length_of_the_words_does_not_depend_on_the_numbers(method: str) -> None:
    found = [random_streams.take_stream(method, np.random.PCG64(seed), 100_000) for seed in range(50)]
    assert len({len(words) for words in found if words is not None}) == 1


def test_scale_and_place() -> None:
    ours, theirs = np.random.default_rng(2), np.random.default_rng(2)
    values = draw("standard_normal", ours.bit_generator, 20_000, 3.0, -7.0)
    np.testing.assert_array_equal(values, theirs.normal(-7.0, 3.0, 20_000))


def test_what_numpy_draws() -> None:
    for generator in (np.random.MT19937(1), np.random.PCG64DXSM(1)):
        assert random_streams.take_stream("standard_normal", generator, 100_000) is None
    generator = np.random.PCG64(1)
    assert random_streams.take_stream("standard_normal", generator, 100) is None
    assert generator.state == np.random.PCG64(1).state


def test_code_that_draws_other_numbers_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    assert random_streams._draws_as_numpy(native_streams.code())
    for table in range(2):
        wrong = random_streams._ziggurats().copy()
        wrong[table, 1, 77] += np.uint64(1)  # changes the last bit of a table entry
        monkeypatch.setattr(random_streams, "_ziggurats", lambda wrong=wrong: wrong)
        assert not random_streams._draws_as_numpy(native_streams.code())


@pytest.mark.parametrize("steps", [0, 1, 2, 1000, 12_345_678_901])
def test_jumps_are_numpys(steps: int) -> None:
    generator = np.random.PCG64(3)
    state = generator.state["state"]
    assert jump(state["state"], state["inc"], steps) == generator.advance(steps).state["state"]["state"]
    assert state_address(generator)


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_without_native_code(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = random_streams.take_stream(method, np.random.PCG64(5), 30_000, 2.5, 1.0)
    monkeypatch.setattr(random_streams._code, "loaded", None)
    monkeypatch.setattr(random_streams._code, "_failed", True)
    values = np.empty(30_000)
    random_streams.fill_from_stream(values, words)
    expected = getattr(np.random.Generator(np.random.PCG64(5)), method)(30_000)
    np.testing.assert_array_equal(values, 1.0 + 2.5 * expected)


def test_a_profile_shows_draws_of_native_code() -> None:
    with wf.profile() as profile:
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 50_000), {})
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 5), {})  # NumPy draws
    (launch,) = profile.launches
    assert (launch.note.name, launch.note.nbytes) == ("random.normal", 400_000)


@pytest.mark.parametrize("name", random_streams.FUNCTIONS)
def test_functions_without_native_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scaling = (2.5, 1.0) if name == "lognormal" else (1.0, -0.0, 1.5)
    words = random_streams.take_stream(name, np.random.PCG64(5), 30_000, *scaling)
    assert words is not None
    native_values, values = np.empty(30_000), np.empty(30_000)
    random_streams.fill_from_stream(native_values, words)
    monkeypatch.setattr(random_streams._code, "loaded", None)
    monkeypatch.setattr(random_streams._code, "_failed", True)
    random_streams.fill_from_stream(values, words)
    np.testing.assert_array_equal(values, native_values)
