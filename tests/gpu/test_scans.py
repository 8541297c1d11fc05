"""Tests of scans along long rows on a GPU.

Concurrent blocks wait for one another.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("length", [4097, 100_000, 4096 * 1024 + 1, 30_000_001])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_running_sums(length: int, dtype: str) -> None:
    x = RNG.integers(0, 3, length).astype(dtype)
    kind = "i8" if dtype == "f8" else "i4"
    # small integers, so that every sum is exact, except long sums in float32
    found = np.asarray(wf.cumsum(wf.asarray(x), dtype=dtype if dtype[0] == "f" else kind))
    wanted = np.cumsum(x, dtype="f8")
    if dtype == "f4":
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


def test_rows_and_complex_numbers() -> None:
    x = RNG.integers(-9, 9, (300, 20_000))
    np.testing.assert_array_equal(np.asarray(wf.cumsum(wf.asarray(x), axis=1)), np.cumsum(x, axis=1))
    z = (x[:2] + 1j * x[2:4]).astype("c16")
    np.testing.assert_array_equal(np.asarray(wf.cumsum(wf.asarray(z), axis=1)), np.cumsum(z, axis=1))


def test_the_same_bits_a_hundred_times(request: pytest.FixtureRequest) -> None:
    length = 200_003 if request.config.getoption("--stand-in") else 20_000_003
    x = wf.asarray(RNG.standard_normal(length).astype("f4"))
    wf.evaluate(x)
    first = wf.cumsum(x)
    wf.evaluate(first)
    for _ in range(100):
        assert bool((wf.cumsum(x) == first).all())


def test_streams_at_once() -> None:
    x = RNG.integers(0, 9, 5_000_000).astype("i4")
    wanted = np.cumsum(x)
    a = wf.asarray(x)
    wf.evaluate(a)
    streams = [wf.stream() for _ in range(4)]
    found = []
    for _ in range(5):
        for stream in streams:
            with stream:
                y = wf.cumsum(a)
                wf.evaluate(y)
                found.append(y)
    for y in found:
        np.testing.assert_array_equal(np.asarray(y), wanted)
