"""Tests that streams have NumPy's numbers and final states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.cpu.random import native_streams
from tests.runtime.cpu.random.native_streams import KINDS
from weft.runtime import override
from weft.runtime.cpu.random import generators, random_streams
from weft.runtime.cpu.random.bit_generators import engines
from weft.runtime.cpu.random.methods import FUNCTIONS, METHODS, integers_of

SIMPLE = ["random", "standard_normal", "standard_exponential"]

loaded = native_streams.loaded  # a fixture of every test


def pair(kind: Any, seed: int) -> tuple[Any, Any]:
    return np.random.Generator(kind(seed)), np.random.Generator(kind(seed))


def same_state(ours: Any, theirs: Any) -> bool:
    return str(ours.bit_generator.state) == str(theirs.bit_generator.state)


def draw(method: str, generator: Any, count: int, *given: Any) -> np.ndarray:
    words = random_streams.take_stream(method, generator, count, *given)
    assert words is not None
    values = np.empty(count, METHODS[FUNCTIONS[method].method if method in FUNCTIONS else method].dtype)
    random_streams.fill_from_stream(values, words)
    return values


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", SIMPLE)
def test_numbers_and_state_are_numpys(method: str, kind: Any, threads: int) -> None:
    ours, theirs = pair(kind, 11)
    with override(threads=threads):
        for count in (8192, 8193, 50_000, 300_001):
            values = draw(method, ours.bit_generator, count)
            np.testing.assert_array_equal(values, getattr(theirs, method)(count))
            assert same_state(ours, theirs)
            # also alternate with NumPy's own draws, which use half of a generator step
            assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [name for name in METHODS if name != "positive"])
def test_any_part_of_a_stream(method: str, kind: Any) -> None:
    """Test that any part of a random stream can be computed alone. The stream begins with half of a generator output, left over by an earlier draw.

    For integers, some words of the stream are rejected.
    """
    ours, theirs = pair(kind, 5)
    ours.integers(9), theirs.integers(9)
    count, most = 200_000, {8: 200, 64: 3 << 62}.get(METHODS[method].bits, 40_000)
    scaling = (most, 0) if METHODS[method].dtype.kind == "i" else ()
    words = random_streams.take_stream(method, ours.bit_generator, count, *scaling)
    assert words is not None
    expected = np.empty(count, METHODS[method].dtype)
    random_streams._draw_by_numpy(expected, words, theirs)
    assert same_state(ours, theirs)
    values = np.zeros(count, expected.dtype)
    number = KINDS.index(kind)
    tables = random_streams.ziggurats().ctypes.data, engines()[number].distances.ctypes.data
    slots = np.array([values.ctypes.data, words.ctypes.data, *tables], np.int64)
    rng = np.random.default_rng(1)
    for first in (0, 1, 2, 3, 1023, 1024, count - 1, *rng.integers(0, count, 40).tolist()):
        last = min(count, first + int(rng.integers(1, 6000)))
        values[:] = 0
        native_streams.code(number).fill.call(slots.ctypes.data, first, last)
        np.testing.assert_array_equal(values[first:last], expected[first:last])
        assert not values[:first].any() and not values[last:].any()


RANGES = [
    *((np.int64, most) for most in (1, 2, 99, (1 << 16) - 1, 2_999_999_999, (1 << 32) - 2, (1 << 32) - 1)),
    *((np.int64, most) for most in (1 << 32, 3 << 61, (1 << 63) - 1, (1 << 64) - 1)),
    *((np.int32, most) for most in (1, 5, 3 << 29, (1 << 32) - 1)),
    *((np.int16, most) for most in (1, 5, 40_000, (1 << 16) - 1)),
    *((np.int8, most) for most in (1, 5, 150, 255)),
]


@pytest.mark.parametrize(("dtype", "most"), RANGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("signed", [True, False])
def test_bounded_integers(dtype: Any, most: int, kind: Any, signed: bool) -> None:
    wanted = np.dtype(dtype) if signed else np.dtype(f"u{np.dtype(dtype).itemsize}")
    low = int(np.iinfo(wanted).max) - most
    ours, theirs = pair(kind, most % 10)
    for turn, count in enumerate((8192, 8193, 50_001, 100_003, 40_000)):
        with override(threads=1 + turn % 3):
            found = generators.draw_many(ours, "integers", (low, low + most, count, wanted), {"endpoint": True})
        assert found is not None
        expected = theirs.integers(low, low + most, count, wanted, endpoint=True)
        np.testing.assert_array_equal(found, expected, strict=True)
        assert same_state(ours, theirs)
        for _ in range(turn):  # half of a step may be left, and may be of an earlier step
            assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)
            assert ours.random() == theirs.random()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["integers", "random"])
def test_halves_without_native_code(name: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pair(kind, 5)
    ours.integers(9), theirs.integers(9)
    for bits, dtype in ((64, "i8"), (32, "i8"), (32, "i4"), (16, "i2"), (8, "i1")):
        method = integers_of(bits, np.dtype(dtype)) if name == "integers" else "random float32"
        scaling = ((99, 3 << 60)[bits == 64], -3) if name == "integers" else ()
        words = random_streams.take_stream(method, ours.bit_generator, 30_000, *scaling)
        assert words is not None
        native, values = (np.empty(30_000, METHODS[method].dtype) for _ in range(2))
        random_streams.fill_from_stream(native, words)
        with monkeypatch.context() as patch:
            native_streams.unload(patch)
            random_streams.fill_from_stream(values.reshape(100, 300), words)
        np.testing.assert_array_equal(values, native)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["standard_normal", "standard_exponential"])
@pytest.mark.parametrize("threads", [1, 2])
def test_ziggurats_of_float32(name: str, kind: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pair(kind, 8)
    with override(threads=threads):
        for turn, count in enumerate((8192, 8193, 50_001, 1_000_003, 40_000, 30_001)):
            for _ in range(turn % 3):  # half of a step may be left
                assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)
            found = generators.draw_many(ours, name, (count, np.float32), {})
            assert found is not None
            np.testing.assert_array_equal(found, getattr(theirs, name)(count, dtype=np.float32), strict=True)
            assert same_state(ours, theirs)
    ours.integers(9)
    monkeypatch.setattr(random_streams, "MOST_IN_FRONT", 0)
    before = str(ours.bit_generator.state)
    if ours.bit_generator.state["has_uint32"]:
        assert random_streams.take_stream(f"{name} float32", ours.bit_generator, 10_000) is None
        assert str(ours.bit_generator.state) == before


def test_tables_of_float32() -> None:
    """Compare the limits and scale factors of ziggurat layers with NumPy's.

    NumPy draws float32 numbers from chosen 32-bit words.
    """
    tables = random_streams.ziggurats()[2048:].view(np.uint32).reshape(2, 3, 256)
    generator = np.random.PCG64(1)
    base, numpys = generator.state, np.random.Generator(generator)

    def drawn(method: Any, half: int) -> tuple[Any, bool]:
        generator.state = {**base, "has_uint32": 1, "uinteger": half}
        return method(dtype=np.float32), generator.state["state"] == base["state"]

    for which, method in enumerate((numpys.standard_normal, numpys.standard_exponential)):
        for layer in range(256):
            limit, low = int(tables[which, 0, layer]), layer << which
            if limit < 1 << 23:
                assert not drawn(method, limit << 9 | low)[1]
            if limit:
                value, inside = drawn(method, limit - 1 << 9 | low)
                unit = tables[which, 1].view(np.float32)[layer]
                assert inside and abs(value) == np.float32(limit - 1) * unit


def test_an_index_with_too_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    short = METHODS["standard_normal"]._replace(steps=0.8)
    monkeypatch.setitem(METHODS, "standard_normal", short)
    ours, theirs = pair(np.random.PCG64, 5)
    for _ in range(3):
        values = draw("standard_normal", ours.bit_generator, 200_000)
        np.testing.assert_array_equal(values, theirs.standard_normal(200_000))
        assert same_state(ours, theirs)


@pytest.mark.parametrize("method", SIMPLE)
def test_the_length_of_the_words_does_not_depend_on_the_numbers(method: str) -> None:
    found = [random_streams.take_stream(method, np.random.PCG64(seed), 100_000) for seed in range(50)]
    assert len({len(words) for words in found if words is not None}) == 1


def test_scale_and_loc() -> None:
    ours, theirs = pair(np.random.PCG64, 2)
    values = draw("standard_normal", ours.bit_generator, 20_000, 3.0, -7.0)
    np.testing.assert_array_equal(values, theirs.normal(-7.0, 3.0, 20_000))


def test_what_numpy_draws() -> None:
    for kind in (np.random.MT19937, np.random.SFC64):
        assert random_streams.take_stream("standard_normal", kind(1), 100_000) is None
    far = np.random.Philox(1).jumped()  # (the position has more than 128 bits)
    assert random_streams.take_stream("random", far, 100_000) is None
    generator = np.random.PCG64(1)
    assert random_streams.take_stream("standard_normal", generator, 100) is None
    assert generator.state == np.random.PCG64(1).state


def test_a_buffer_that_a_program_has_set() -> None:
    ours, theirs = pair(np.random.Philox, 3)
    assert ours.random() == theirs.random()
    state = ours.bit_generator.state
    state["buffer"] = state["buffer"] ^ np.uint64(1 << 40)
    ours.bit_generator.state = state
    assert random_streams.take_stream("random", ours.bit_generator, 100_000) is None
    assert ours.random() != theirs.random()


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_code_that_draws_other_numbers_is_recognised(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, code = engines()[number], native_streams.code(number)
    assert random_streams.draws_as_numpy(engine, code)
    other = native_streams.code((number + 1) % len(KINDS))
    assert not random_streams._is_numpys(engine, other, "random")
    for table in range(2):
        wrong = random_streams.ziggurats().copy()
        wrong[1024 * table + 256 + 77] += np.uint64(1)  # changes the last bit of a table entry
        monkeypatch.setattr(random_streams, "ziggurats", lambda wrong=wrong: wrong)
        assert not random_streams.draws_as_numpy(engine, code)


@pytest.mark.parametrize("method", SIMPLE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_without_native_code(method: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = random_streams.take_stream(method, kind(5), 30_000, 2.5, 1.0)
    native_streams.unload(monkeypatch)
    values = np.empty(30_000)
    random_streams.fill_from_stream(values, words)
    expected = getattr(np.random.Generator(kind(5)), method)(30_000)
    np.testing.assert_array_equal(values, 1.0 + 2.5 * expected)


def test_a_profile_shows_draws_of_native_code() -> None:
    with wf.profile() as profile:
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 50_000), {})
        generators.draw_many(np.random.default_rng(1), "normal", (3.0, 2.0, 5), {})  # NumPy draws
    (launch,) = profile.launches
    assert (launch.note.name, launch.note.nbytes) == ("random.normal", 400_000)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_without_native_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scaling = (2.5, 1.0) if name == "lognormal" else (1.0, -0.0, FUNCTIONS[name].example)
    words = random_streams.take_stream(name, np.random.PCG64(5), 30_000, *scaling)
    assert words is not None
    native_values, values = np.empty(30_000), np.empty(30_000)
    random_streams.fill_from_stream(native_values, words)
    native_streams.unload(monkeypatch)
    random_streams.fill_from_stream(values, words)
    np.testing.assert_array_equal(values, native_values)


@pytest.mark.parametrize("word", [0, 1 << 10])
def test_a_word_that_gives_zero_is_drawn_again(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that `laplace`, `gumbel` and `logistic` skip uniform numbers that are 0.0."""
    engine = engines()[0]
    zero = word << 64  # (the output is the rotated exclusive or of both halves; the upper six bits are 0)
    generator = np.random.PCG64(1)
    begin = engine.load(generator)
    assert begin is not None
    before = engine.jump(zero, begin.increment, (1 << 128) - 5000)  # 5000 steps earlier
    engine.store(generator, begin._replace(state=before))
    ours, theirs = np.random.Generator(generator), np.random.Generator(np.random.PCG64(1))
    theirs.bit_generator.state = generator.state
    for name in ("laplace", "gumbel", "logistic"):
        engine.store(generator, begin._replace(state=before))
        theirs.bit_generator.state = generator.state
        found = generators.draw_many(ours, name, (0.5, 2.0, 20_000), {})
        expected = getattr(theirs, name)(0.5, 2.0, 20_000)
        assert found is not None
        np.testing.assert_array_equal(found, expected)
        assert same_state(ours, theirs)
        assert ours.bit_generator.state["state"]["state"] == engine.jump(before, begin.increment, 20_001)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 1, 40_000, 40_001, 40_003])
def test_bytes(kind: Any, length: int) -> None:
    ours, theirs = pair(kind, 4)
    for _ in range(2):
        assert generators.draw_bytes(ours, length) == theirs.bytes(length)
        assert same_state(ours, theirs)
