"""The page about random numbers says where each method draws."""

from __future__ import annotations

from pathlib import Path

from tests.dsl.random_methods import table
from tests.runtime.cpu.random import native_streams

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "random_numbers.md"

loaded = native_streams.loaded  # a fixture of every test


def test_the_table_of_methods() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
