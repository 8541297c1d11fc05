"""A sample of the random loops over stencils."""

from __future__ import annotations

import pytest

from tests.fuzz import steps


@pytest.mark.parametrize("seed", [0, 46, 47, 50])
def test_random_steps(seed: int) -> None:
    assert steps.check(seed) == ""


def test_random_steps_are_joined() -> None:
    assert steps.joined(47) > 1
