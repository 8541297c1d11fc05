"""Tests of the documented table of random methods.

The numbers and the final states of generators equal NumPy's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.random_methods import CALLS, table
from tests.runtime.cpu.random import native_streams
from weft.runtime import override

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "random_numbers.md"
KINDS = (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64, np.random.MT19937)

loaded = native_streams.loaded  # a fixture of every test


def test_the_table_of_methods() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def check_draws(name: str, kind: Any, seed: int, size: int) -> None:
    """Draw twice, and compare with NumPy. If the seed is odd, first draw a 32-bit integer."""
    ours, theirs = wf.random.Generator(kind(seed)), np.random.Generator(kind(seed))
    if seed % 2:
        assert ours.integers(9, dtype=np.int32) == theirs.integers(9, dtype=np.int32)
    for n in (size, 5):
        found, wanted = CALLS[name](ours, n), CALLS[name](theirs, n)
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
        np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)
        assert np.asarray(found).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_bits_and_state(name: str, kind: Any, device: str) -> None:
    with wf.device(device), override(host_fallback="ignore"):
        for seed, size in ((0, 1), (1, 7), (2, 1000), (3, 20_000)):
            check_draws(name, kind, seed, size)


@pytest.mark.slow
@pytest.mark.parametrize(("device", "sizes"), [("cpu", (1, 7, 1000, 20_000, 300_001)), ("simt", (1, 7, 1000, 20_000))])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_many_seeds(name: str, kind: Any, device: str, sizes: tuple[int, ...]) -> None:
    with wf.device(device), override(host_fallback="ignore"):
        for seed in range(10):
            for size in sizes:
                if name != "`multivariate_normal`" or size < 20_000:  # (slow in NumPy)
                    check_draws(name, kind, seed, size)
