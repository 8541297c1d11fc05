"""Tests of some randomly generated loops. The fixed seeds select stencil loops, and loops over arrays of different shapes."""

from __future__ import annotations

import pytest

from tests.fuzz import block_steps, fields, steps


@pytest.mark.parametrize("seed", [0, 46, 47, 50])
def test_random_steps(seed: int) -> None:
    assert steps.check(seed) == ""


@pytest.mark.parametrize("seed", [0, 46, 50, 61, 995050, 997110])
def test_random_steps_on_blocks(seed: int) -> None:
    assert block_steps.check(seed) == ""


@pytest.mark.parametrize("seed", [2002])
def test_random_fields(seed: int) -> None:
    assert fields.check(seed) == ""


@pytest.mark.parametrize(("seed", "device"), [(47, "cpu"), (52, "simt")])
def test_random_steps_are_joined(seed: int, device: str) -> None:
    assert steps.merged(seed, device) > 1
