"""Tests that `counted` uses the singular or the plural of a noun, as the count requires."""

from __future__ import annotations

from weft.runtime import counted


def test_counts_agree_with_their_nouns() -> None:
    assert [counted(n, "kernel") for n in (0, 1, 2000)] == ["0 kernels", "1 kernel", "2,000 kernels"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
