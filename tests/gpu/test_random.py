"""Tests that random numbers computed on a real GPU are bit-identical to NumPy's (``pytest -m gpu``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error::weft.HostFallbackWarning")]
KINDS = [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox]
N = 3_000_003
DRAWS: dict[str, Callable[[Any], Any]] = {
    "random": lambda rng: rng.random(N),
    "uniform": lambda rng: rng.uniform(-2.0, 5.5, N),
    "random float32": lambda rng: rng.random(N, np.float32),
    "int64": lambda rng: rng.integers(-(1 << 63), (1 << 63) - 1, N, endpoint=True),
    "uint8": lambda rng: rng.integers(0, 256, N, np.uint8),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DRAWS)
def test_bits_and_state(name: str, kind: Any) -> None:
    ours, theirs = wf.random.Generator(kind(4)), np.random.Generator(kind(4))
    for _ in range(2):
        found, expected = DRAWS[name](ours), DRAWS[name](theirs)
        assert found.device.name.startswith("cuda")
        np.testing.assert_array_equal(np.asarray(found), expected, strict=True)
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)


def pi(m: Any, rng: Any) -> float:
    x, y = rng.random(10_000_000), rng.random(10_000_000)
    return float((x * x + y * y <= 1.0).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_pi_is_one_kernel(kind: Any) -> None:
    ours, theirs = wf.random.Generator(kind(4)), np.random.Generator(kind(4))
    assert pi(wf, ours) == pi(np, theirs)
    before = wf.statistics()
    assert pi(wf, ours) == pi(np, theirs)
    found = {name: count - before[name] for name, count in wf.statistics().items()}
    assert (found["kernels"], found["plans"], found["compilations"], found["uploaded"]) == (1, 0, 0, 0)
    assert found["bytes"] < 2_000_000  # (the tables)
