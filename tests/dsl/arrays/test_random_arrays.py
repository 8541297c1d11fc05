"""Tests of random number generators. The random arrays, and the generator's state after drawing them, must be bit-identical to NumPy's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.cpu.random import native_streams
from weft.runtime import override
from weft.runtime.cpu.random import random_streams

LARGE = 300_001
METHODS: dict[str, tuple[Any, ...]] = {
    "random": (),
    "uniform": (-2.0, 5.5),
    "standard_normal": (),
    "normal": (1.5, 0.25),
    "standard_exponential": (),
    "exponential": (3.0,),
    "integers": (-10, 90),
    "lognormal": (0.5, 0.75),
    "weibull": (1.5,),
    "pareto": (3.0,),
    "power": (2.5,),
    "rayleigh": (4.0,),
    "laplace": (1.0, 2.0),
    "gumbel": (1.0, 2.0),
    "logistic": (1.0, 2.0),
    "triangular": (-1.0, 0.5, 3.0),
}
KINDS = [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox]

loaded = native_streams.loaded  # a fixture of every test


def _pair(seed: int, kind: Any = np.random.PCG64) -> tuple[Any, np.random.Generator]:
    return wf.random.Generator(kind(seed)), np.random.Generator(kind(seed))


def _state(generator: Any) -> str:
    return str(generator.bit_generator.state)


# One and two threads, alternately. ``-m slow`` runs more seeds, and arrays of 3,000,003 elements.
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("name", METHODS)
def test_bits_and_state(name: str, kind: Any, device: str, seed: int) -> None:
    ours, theirs = _pair(seed, kind)
    large = 3_000_003 if 2 <= seed < 4 else LARGE if kind is np.random.PCG64 else 40_001
    with wf.device(device), override(threads=1 + seed % 2, host_fallback="ignore"):
        for size in (0, 1, 7, 1000, large):
            arrays = [getattr(ours, name)(*METHODS[name], size) for _ in range(2)]
            expected = [getattr(theirs, name)(*METHODS[name], size) for _ in range(2)]
            assert _state(ours) == _state(theirs)
            for one, other in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(one), other, strict=True)
            # alternate with NumPy's own draws on the same state, which use half of a generator step
            twin = np.random.Generator(ours.bit_generator)
            assert twin.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)
            np.testing.assert_array_equal(
                getattr(twin, name)(*METHODS[name], 3), getattr(theirs, name)(*METHODS[name], 3)
            )


def test_the_state_does_not_wait_for_the_numbers() -> None:
    ours, theirs = _pair(3)
    first = ours.random(50_000)
    state = ours.bit_generator.state
    expected = theirs.random(50_000)
    assert state == theirs.bit_generator.state
    second = ours.random((100, 300))
    np.testing.assert_array_equal(np.asarray(second), theirs.random((100, 300)))
    np.testing.assert_array_equal(np.asarray(first), expected)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "pi": lambda m, rng: ((rng.random(100_003) ** 2 + rng.random(100_003) ** 2) <= 1).mean(),
    "map": lambda m, rng: rng.random(100_003) * 2 + 1,
    "rows": lambda m, rng: (rng.random((301, 257)) * 3 <= 1).sum(1),
    "matrix": lambda m, rng: rng.uniform(2, 3, (301, 257)) * m.arange(257.0),
    "columns": lambda m, rng: (rng.random((301, 257)) <= 0.5).sum(0),
    "shifted": lambda m, rng: m.diff(rng.random(50_000)),
    "reversed": lambda m, rng: rng.random(50_000)[::-1] * 2,
    "transposed": lambda m, rng: rng.random((200, 300)).T + 1,
    "twice": lambda m, rng: (lambda x: (x - 0.5) * (x <= x.max()))(rng.random(70_000)),
    "long rows": lambda m, rng: (rng.random((3, 100_000)) * 2).max(axis=1),
    "mixed": lambda m, rng: rng.random(40_000) + rng.random((3, 40_000)),
    "integers": lambda m, rng: (rng.random(60_000) * 6).astype(np.int64) + 1,
    "normal map": lambda m, rng: rng.normal(3, 2, 100_003) * 2 + rng.standard_normal(100_003),
    "exponential rows": lambda m, rng: (rng.exponential(2.0, (301, 257)) <= 1).sum(1),
    "float32": lambda m, rng: rng.random(100_003, np.float32) * np.float32(2) + rng.random(100_003, dtype=np.float32),
    "float32 normals": lambda m, rng: (
        rng.standard_normal(100_003, dtype=np.float32) * rng.standard_exponential(100_003, np.float32)
    ),
    "both": lambda m, rng: rng.random((301, 257), np.float32) * rng.random((301, 257)),
    "dice": lambda m, rng: (rng.integers(1, 7, 100_003) + rng.integers(1, 7, 100_003) == 7).mean(),
    "bytes": lambda m, rng: rng.integers(0, 100, 100_003, np.uint8) * 2 + rng.integers(0, 256, 100_003, np.uint8),
    "shorts": lambda m, rng: rng.integers(-9, 100, 100_003, np.int16) * rng.random(100_003),
    "wide": lambda m, rng: rng.integers(0, 1 << 63, 100_003) ^ rng.integers(0, 3 << 61, 100_003),
    "gumbel": lambda m, rng: rng.gumbel(0.5, 2.0, 100_003) + rng.triangular(1.0, 2.0, 4.0, 100_003),
    "three": lambda m, rng: (
        rng.standard_normal(90_000) * rng.random(90_000) <= rng.standard_exponential(90_000)
    ).mean(),
    "one long row": lambda m, rng: rng.standard_normal((2, 200_000)) * 2,
    "sorted": lambda m, rng: m.sort(rng.random(60_000) * 2),
}


@pytest.mark.parametrize(("interpreted", "threads"), [("never", 1), ("never", 3), ("always", 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, interpreted: str, threads: int) -> None:
    ours, theirs = _pair(8)
    with wf.device("cpu"), override(interpret=interpreted, threads=threads):
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(PROGRAMS[name](wf, ours)), PROGRAMS[name](np, theirs))
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize(
    "name",
    [
        "pi",
        "map",
        "rows",
        "matrix",
        "normal map",
        "exponential rows",
        "three",
        "dice",
        "float32",
        "both",
        "bytes",
        "shorts",
        "wide",
        "gumbel",
    ],
)
def test_numbers_are_drawn_within_the_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*given: Any) -> None:
        raise AssertionError("random numbers were written to memory")

    ours, theirs = _pair(8)
    with wf.device("cpu"), override(interpret="never"):
        np.asarray(PROGRAMS[name](wf, ours)), PROGRAMS[name](np, theirs)
        monkeypatch.setattr(random_streams, "_fill", fill)
        with wf.profile() as profile:
            found = np.asarray(PROGRAMS[name](wf, ours))
    np.testing.assert_array_equal(found, PROGRAMS[name](np, theirs))
    assert not any("random" in launch.note.name for launch in profile.launches)


def test_names_that_are_still_in_use() -> None:
    ours, theirs = _pair(4)
    with wf.device("cpu"), override(interpret="never"):
        x, y = ours.random(100_000), ours.random(100_000)
        inside = float((x * x + y * y <= 1).mean())
        a, b = theirs.random(100_000), theirs.random(100_000)
        assert inside == (a * a + b * b <= 1).mean()
        x += 1  # the pending numbers are drawn again
        np.testing.assert_array_equal(np.asarray(x), a + 1)
        np.testing.assert_array_equal(np.asarray(y), b)


def test_copies() -> None:
    ours, theirs = _pair(6)
    for made in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)):
        np.testing.assert_array_equal(np.asarray(made.random(20_000)), copy.deepcopy(theirs).random(20_000))
    assert isinstance(ours, np.random.Generator)
    assert isinstance(ours.random(20_000), wf.Array)
    children = zip(ours.spawn(2), theirs.spawn(2), strict=True)
    for one, other in children:
        np.testing.assert_array_equal(np.asarray(one.random(20_000)), other.random(20_000))


@pytest.mark.parametrize("kind", [np.random.SFC64, np.random.MT19937])
@pytest.mark.parametrize("name", METHODS)
def test_other_bit_generators(name: str, kind: Any) -> None:
    ours, theirs = _pair(2, kind)
    for size in (0, 7, 20_000):
        found = getattr(ours, name)(*METHODS[name], size)
        np.testing.assert_array_equal(np.asarray(found), getattr(theirs, name)(*METHODS[name], size), strict=True)
        assert isinstance(found, wf.Array)
        assert _state(ours) == _state(theirs)


def test_a_kernel_that_reads_streams_of_several_bit_generators() -> None:
    pairs = [_pair(2, kind) for kind in (*KINDS, np.random.SFC64)]
    with wf.device("cpu"), override(interpret="never"):
        for _ in range(2):
            a, b, c, d = (ours.random(100_003) for ours, _ in pairs)
            p, q, r, s = (theirs.random(100_003) for _, theirs in pairs)
            with wf.profile() as profile:
                found = np.asarray(a * b - c / d)
            np.testing.assert_array_equal(found, p * q - r / s)
    assert not any("random" in launch.note.name for launch in profile.launches)


def test_a_stream_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native_streams.unload(monkeypatch)
    ours, theirs = _pair(5)
    with wf.device("cpu"), override(interpret="never"):
        np.testing.assert_array_equal(np.asarray(ours.uniform(1, 4, 30_000) * 2), theirs.uniform(1, 4, 30_000) * 2)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_float32(device: str, seed: int) -> None:
    ours, theirs = _pair(seed)
    with wf.device(device), override(threads=1 + seed % 2, host_fallback="ignore"):
        for size in (0, 1, 7, 1000, 40_001, (200, 101), 40_000):
            for _ in range(2):
                found = ours.random(size, np.float32)
                expected = theirs.random(size, dtype=np.float32)
                assert ours.bit_generator.state == theirs.bit_generator.state
                np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
            assert ours.random() == theirs.random()
        for kind in (np.float64, "float32", float, np.dtype("f4")):
            found, expected = ours.random(20_000, dtype=kind), theirs.random(20_000, dtype=kind)
            np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
    with pytest.raises(TypeError):
        ours.random(20_000, dtype=np.int32)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((10, None, 20_000), {}),
        ((10,), {"size": (20, 1000)}),
        ((-5, 5, 20_000), {"endpoint": True}),
        ((0, 2**32 - 1, 20_000), {}),
        ((0, 2**32, 20_000), {}),
        ((0, 2**40, 20_000), {}),
        ((3, 4, 20_000), {}),
        ((2**63 - 10, 2**63 - 1, 20_000), {}),
        ((0, 9, 20_000), {"dtype": np.int32}),
        ((0, 9, 20_000), {"dtype": "int64"}),
        (([1, 5], [9, 90], (10_000, 2)), {}),
    ],
)
def test_integers(arguments: Any, options: Any) -> None:
    ours, theirs = _pair(7)
    for _ in range(2):
        found, expected = ours.integers(*arguments, **options), theirs.integers(*arguments, **options)
        np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
        assert ours.bit_generator.state == theirs.bit_generator.state


def test_wrong_integers() -> None:
    ours, theirs = _pair(7)
    for arguments in ((5, 5, 20_000), (9, 1, 20_000), (0, 2**64, 20_000), ("a", 3, 20_000), ()):
        with pytest.raises((ValueError, TypeError)) as error:
            theirs.integers(*arguments)
        with pytest.raises(error.type):
            ours.integers(*arguments)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("name", ["weibull", "pareto", "power", "rayleigh", "lognormal"])
def test_parameters(name: str) -> None:
    ours, theirs = _pair(7)
    for arguments, options in (
        ((0.0, 1.0, 20_000), {}),
        ((-1.0,), {"size": 20_000}),
        ((np.inf,), {"size": 20_000}),
        ((2,), {"size": (200, 100)}),
        ((), {"a": 2.5, "size": 20_000}),
        ((), {"scale": 2.5, "size": 20_000}),
        ((), {"sigma": 2.5, "size": 20_000}),
        ((), {"size": 20_000}),
        ((np.linspace(1, 2, 20_000),), {}),
        ((2.0, 20_000), {"other": 3}),
    ):
        results = []
        for generator in (ours, theirs):
            try:
                results.append(np.asarray(getattr(generator, name)(*arguments, **options)))
            except (ValueError, TypeError) as error:
                results.append(np.asarray(str(error)))
        np.testing.assert_array_equal(*results, strict=True)
        assert ours.bit_generator.state == theirs.bit_generator.state


HOST: dict[str, tuple[Any, ...]] = {
    "choice": (1000, 20_000),
    "permutation": (20_000,),
    "gamma": (2.0, 1.0, 20_000),
    "poisson": (3.0, 20_000),
    "beta": (2.0, 1.0, 20_000),
    "standard_t": (2.0, 20_000),
}


@pytest.mark.parametrize("name", HOST)
def test_methods_that_numpy_draws(name: str) -> None:
    ours, theirs = _pair(9)
    ours.integers(9), theirs.integers(9)  # (half of a step is left)
    found = getattr(ours, name)(*HOST[name])
    assert isinstance(found, wf.Array)
    np.testing.assert_array_equal(np.asarray(found), getattr(theirs, name)(*HOST[name]), strict=True)
    assert ours.bit_generator.state == theirs.bit_generator.state
    np.testing.assert_array_equal(np.asarray(ours.random(20_000)), theirs.random(20_000))


def test_order_and_bytes() -> None:
    ours, theirs = _pair(9)
    x, expected = wf.arange(20_000), np.arange(20_000)
    ours.shuffle(x), theirs.shuffle(expected)
    np.testing.assert_array_equal(np.asarray(x), expected)
    np.testing.assert_array_equal(np.asarray(ours.permuted(x)), theirs.permuted(expected))
    assert ours.bytes(20_000) == theirs.bytes(20_000)
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("kind", [*KINDS, np.random.SFC64, np.random.MT19937])
def test_orders_choices_and_children(kind: Any, device: str) -> None:
    ours, theirs = _pair(9, kind)
    values = np.arange(20_000.0)
    weights = values / values.sum()
    with wf.device(device), override(host_fallback="ignore"):
        x = wf.asarray(values.copy())
        y = values.copy()
        ours.shuffle(x), theirs.shuffle(y)
        np.testing.assert_array_equal(np.asarray(x), y)
        for draw in (
            lambda rng, a: rng.permutation(a),
            lambda rng, a: rng.permutation(a.reshape(100, 200), axis=1),
            lambda rng, a: rng.permuted(a.reshape(100, 200), axis=0),
            lambda rng, a: rng.choice(a, 3000),
            lambda rng, a: rng.choice(a, (30, 100), replace=False),
            lambda rng, a: rng.choice(a, 3000, p=weights),
            lambda rng, a: rng.choice(20_000, 3000, shuffle=False, replace=False),
        ):
            found = draw(ours, x)
            assert isinstance(found, wf.Array)
            np.testing.assert_array_equal(np.asarray(found), draw(theirs, y), strict=True)
            assert _state(ours) == _state(theirs)
        for one, other in zip(ours.spawn(3), theirs.spawn(3), strict=True):
            np.testing.assert_array_equal(np.asarray(one.random(20_000)), other.random(20_000))
            assert isinstance(one, np.random.Generator) and _state(one) == _state(other)


def test_older_functions() -> None:
    wf.random.seed(5)
    legacy = np.random.RandomState(5)
    for name, arguments in (("rand", (200, 100)), ("randn", (20_000,)), ("randint", (0, 9, 20_000))):
        found = getattr(wf.random, name)(*arguments)
        assert isinstance(found, wf.Array)
        np.testing.assert_array_equal(np.asarray(found), getattr(legacy, name)(*arguments))
    state = wf.random.RandomState(5)
    np.testing.assert_array_equal(np.asarray(state.rand(20_000)), np.random.RandomState(5).rand(20_000))


def test_generators_of_generators() -> None:
    ours = wf.random.default_rng(5)
    again = wf.random.default_rng(ours)
    theirs = np.random.default_rng(5)
    assert again is ours and repr(ours).startswith("Generator(PCG64)")
    np.testing.assert_array_equal(np.asarray(again.random(20_000)), theirs.random(20_000))
    np.testing.assert_array_equal(np.asarray(ours.random(20_000)), theirs.random(20_000))
    over = wf.random.Generator(ours.bit_generator)
    np.testing.assert_array_equal(np.asarray(over.random(20_000)), theirs.random(20_000))
