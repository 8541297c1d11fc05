"""Tests of the length of pages, and of the tables of contents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
LONGEST = 1500
REFERENCE = {DOCS / "package_results.md", DOCS / "functions.md"}  # generated tables


@pytest.mark.parametrize("path", [path for path in PAGES if path not in REFERENCE], ids=lambda path: path.name)
def test_pages_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").split()) <= LONGEST


def test_every_page_is_in_a_table_of_contents() -> None:
    listed = set()
    for path in PAGES:
        for entries in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            for entry in entries.splitlines():
                if entry and not entry.startswith(":"):
                    listed.add((path.parent / f"{entry}.md").resolve())
    assert {path.resolve() for path in PAGES} - listed == {DOCS / "index.md"}
