"""Tests of random statements on parts of one array in kernels.

The command ``python -m tests.fuzz.array_statements`` runs many more statements.
"""

from __future__ import annotations

import pytest

from tests.fuzz.array_statements import Statement, check


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_random_array_statements(seed: int) -> None:
    for k in range(seed, seed + 10):
        assert check(k) == ""


def test_the_sample_contains_parts_that_are_broadcast_and_moved() -> None:
    """Test that the random statements use arrays with 1 to 4 axes, and one or two operands. Some operands have new axes or are transposed."""
    sample = [Statement(seed) for seed in range(60)]
    assert {len(s.shape) for s in sample} == {1, 2, 3, 4} and {s.operands for s in sample} == {1, 2}
    assert any("None" in s.text for s in sample) and any(".T" in s.text for s in sample)
