"""Tests of GPU kernels that compute random numbers from element positions.

The numbers are bit-identical to NumPy's.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.runtime.cpu.random import native_streams
from tests.stand_in.ptx.driver import PtxStandIn, make_ptx_device
from weft.dsl.immediate.host_values import values_of
from weft.fusion.graph.expr import is_draw
from weft.runtime import override

KINDS = [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox]
N = 20_003
DRAWS: dict[str, Callable[[Any], Any]] = {
    "random": lambda rng: rng.random(N),
    "uniform": lambda rng: rng.uniform(-2.0, 5.5, (3, N)),
    "triangular": lambda rng: rng.triangular(-1.0, 0.25, 3.0, N),
    "triangular to its mode": lambda rng: rng.triangular(-1.0, 3.0, 3.0, N),
    "random float32": lambda rng: rng.random(N, np.float32),
    "all uint64": lambda rng: rng.integers(0, 1 << 64, N, np.uint64),
    "all int64": lambda rng: rng.integers(-(1 << 63), (1 << 63) - 1, N, endpoint=True),
    "forty bits": lambda rng: rng.integers(-5, (1 << 40) - 5, N),
    "all of half a step": lambda rng: rng.integers(0, 1 << 32, N),
    "bits": lambda rng: rng.integers(2, size=N),
    "all uint32": lambda rng: rng.integers(0, 1 << 32, N, np.uint32),
    "int32": lambda rng: rng.integers(-8, 8, N, np.int32),
    "all int16": lambda rng: rng.integers(-(1 << 15), 1 << 15, N, np.int16),
    "uint16": lambda rng: rng.integers(9, 9 + 64, N, np.uint16),
    "all uint8": lambda rng: rng.integers(0, 256, N, np.uint8),
    "int8": lambda rng: rng.integers(-2, 2, N, np.int8),
    "choice": lambda rng: rng.choice(1000, N),
    "dice": lambda rng: rng.integers(1, 7, N),
    "a few rejected": lambda rng: rng.integers(0, 3 << 16, N, np.int32),  # (1 of 65,536 words is rejected)
    "a few rejected of 64 bits": lambda rng: rng.integers(0, 3 << 48, N),
}


loaded = native_streams.loaded  # a fixture of every test


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    """Compute on the device `simt`. A fallback to the host raises an error."""
    with wf.device("simt"), override(host_fallback="raise"):
        yield


def pair(kind: Any, seed: int) -> tuple[Any, np.random.Generator]:
    return wf.random.Generator(kind(seed)), np.random.Generator(kind(seed))


def same_state(ours: Any, theirs: Any) -> bool:
    return str(ours.bit_generator.state) == str(theirs.bit_generator.state)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DRAWS)
def test_bits_and_state(name: str, kind: Any) -> None:
    ours, theirs = pair(kind, 4)
    for _ in range(3):
        found, expected = DRAWS[name](ours), DRAWS[name](theirs)
        assert same_state(ours, theirs)
        np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
        twin = np.random.Generator(ours.bit_generator)  # NumPy's own draws use half of a generator step
        assert twin.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)


@pytest.mark.parametrize("kind", KINDS)
def test_many_numbers(kind: Any) -> None:
    ours, theirs = pair(kind, 4)
    np.testing.assert_array_equal(np.asarray(ours.random(3_000_003)), theirs.random(3_000_003))
    assert same_state(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 6 << 14, np.uint32), (-3, 6 << 14, np.int64), (5, 3 << 47, np.int64), (0, 3, np.int16)],
)
def test_rejected_words(low: int, high: int, dtype: Any, kind: Any) -> None:
    ours, theirs = pair(kind, 4)
    count = 1_000 if dtype is np.int16 else 200_000
    native = 0
    for turn in range(6):
        for _ in range(turn % 3):  # half of a step may be left
            assert np.random.Generator(ours.bit_generator).integers(9, dtype=np.int32) == theirs.integers(
                9, dtype=np.int32
            )
        with override(host_fallback="ignore"):  # (if more words are rejected than a kernel can skip)
            found = ours.integers(low, high, count, dtype)
        expected = theirs.integers(low, high, count, dtype)
        native += is_draw(found._storage.expr) if found._storage.expr is not None else 0
        assert same_state(ours, theirs)
        np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
    assert native or dtype is np.int16


def pi(m: Any, rng: Any, n: int) -> float:
    x, y = rng.random(n), rng.random(n)
    return float((x * x + y * y <= 1.0).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_pi_is_one_kernel(kind: Any) -> None:
    ours, theirs = pair(kind, 4)
    assert pi(wf, ours, 400_000) == pi(np, theirs, 400_000)
    before = wf.statistics()
    with wf.profile() as profile:
        assert pi(wf, ours, 400_000) == pi(np, theirs, 400_000)
    found = {name: count - before[name] for name, count in wf.statistics().items()}
    # another state needs no other plan, and no numbers are in memory, to which the host would copy them
    assert (found["kernels"], found["plans"], found["compilations"], found["uploaded"]) == (1, 0, 0, 0)
    assert found["bytes"] < 400_000 * 8
    assert not any("random" in launch.note.name for launch in profile.launches)


def test_a_name_for_numbers_keeps_no_other_memory() -> None:
    ours, theirs = pair(np.random.PCG64, 3)
    held: list[int] = []
    gc.disable()  # (an epoch and its pending values refer to each other)
    try:
        for _ in range(6):
            x, expected = ours.random(N), theirs.random(N)
            y = wf.asarray(np.ones(N)) * wf.sqrt(x)
            wf.evaluate(y)
            np.testing.assert_array_equal(np.asarray(y), np.sqrt(expected))
            held.append(wf.memory.info().held)
    finally:
        gc.enable()
    assert max(held[2:]) == held[1]
    assert float((x * 2).max()) == (expected * 2).max()
    np.testing.assert_array_equal(np.asarray(x), expected)
    x += 1
    np.testing.assert_array_equal(np.asarray(x), expected + 1)


def test_the_state_does_not_wait_for_the_numbers() -> None:
    ours, theirs = pair(np.random.Philox, 3)
    first, second = ours.random(N), ours.integers(0, 16, N)
    a, b = theirs.random(N), theirs.integers(0, 16, N)
    assert same_state(ours, theirs)
    np.testing.assert_array_equal(np.asarray(second), b)
    np.testing.assert_array_equal(np.asarray(first), a)


@pytest.mark.parametrize("name", ["random", "triangular", "random float32", "int8"])
def test_ptx(name: str) -> None:
    ours, theirs = pair(np.random.PCG64, 3)
    with wf.device(make_ptx_device(PtxStandIn(1 << 28))):
        for _ in range(2):  # the second time with another state
            np.testing.assert_array_equal(np.asarray(DRAWS[name](ours) * 2), DRAWS[name](theirs) * 2)


def test_the_end_of_a_process_is_silent() -> None:
    program = (
        "import weft as wf\nfrom tests.stand_in.ptx.driver import PtxStandIn, make_ptx_device\n"
        "with wf.device(make_ptx_device(PtxStandIn(1 << 28))):\n"
        "    print(float(wf.random.default_rng(3).random(30_001)[5]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(np.random.default_rng(3).random(30_001)[5]) and not ended.stderr


HOST: dict[str, Callable[[Any], Any]] = {
    "standard_normal": lambda rng: rng.standard_normal(N),
    "laplace": lambda rng: rng.laplace(0.0, 1.0, N),
    "integers": lambda rng: rng.integers(0, 100, N, np.uint8),
    "gamma": lambda rng: rng.gamma(2.0, 1.0, N),
    "permutation": lambda rng: rng.permutation(N),
}


@pytest.mark.parametrize("name", HOST)
def test_what_the_host_draws_is_reported(name: str) -> None:
    ours, theirs = pair(np.random.PCG64, 3)
    with pytest.raises(wf.HostFallbackWarning, match=rf"random\.{name} draws these numbers on the host: [\d,]+ bytes"):
        HOST[name](ours)
    ours, theirs = pair(np.random.PCG64, 3)
    with override(host_fallback="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [HOST[name](ours) for _ in range(2)]
    for each in found:
        np.testing.assert_array_equal(np.asarray(each), HOST[name](theirs))
    messages = [str(each.message) for each in caught if issubclass(each.category, wf.HostFallbackWarning)]
    assert len(messages) <= 1 and all(f"random.{name}" in message for message in messages)


def test_the_older_functions_are_reported() -> None:
    with pytest.raises(wf.HostFallbackWarning, match=r"random\.rand "):
        wf.random.rand(N)


@pytest.mark.parametrize("name", ["random", "standard_normal", "integers", "gamma"])
def test_small_arrays_stay_on_the_host(name: str) -> None:
    ours, theirs = pair(np.random.PCG64, 3)
    arguments: tuple[Any, ...] = {"integers": (0, 9), "gamma": (2.0, 1.0)}.get(name, ())
    with override(immediate=16384):
        for size in (100, 5000, 16384):
            found = getattr(ours, name)(*arguments, size)
            assert values_of(found) is not None
            np.testing.assert_array_equal(np.asarray(found), getattr(theirs, name)(*arguments, size))
        assert values_of(ours.random(16385)) is None
