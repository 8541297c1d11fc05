"""Tests that the pictures of the architecture and of the results are current."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from docs.draw_speed import draw

DOCS = Path(__file__).parents[2] / "docs"


def test_picture_has_all_folders() -> None:
    made = runpy.run_path(str(DOCS / "draw_imports.py"))
    drawn = re.findall(r'font-size="14"[^>]*>([^<]+)<', (DOCS / "architecture.svg").read_text(encoding="utf-8"))
    folders = {made["folder_of"](path) for path in made["modules"]().values()}
    assert sorted(drawn) == sorted(folder.partition("/")[2] or "(top level)" for folder in folders)


def test_the_picture_of_the_readme_is_that_of_the_results() -> None:
    assert (DOCS / "speed.svg").read_text(encoding="utf-8") == draw()
