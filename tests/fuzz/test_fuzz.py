"""A sample of the random programs; `python -m tests.fuzz` runs many more."""

from __future__ import annotations

import pytest

from tests.fuzz.programs import check


@pytest.mark.parametrize("seed", range(0, 150, 10))
def test_random_programs(seed: int) -> None:
    for k in range(seed, seed + 10):
        assert check(k) == ""
