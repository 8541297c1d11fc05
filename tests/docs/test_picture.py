"""The picture of the architecture shows every existing folder, and no other folder."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_picture_has_all_rooms() -> None:
    made = runpy.run_path(str(DOCS / "draw_imports.py"))
    drawn = re.findall(r'font-size="14"[^>]*>([^<]+)<', (DOCS / "architecture.svg").read_text(encoding="utf-8"))
    rooms = {made["room_of"](path) for path in made["modules"]().values()}
    assert sorted(drawn) == sorted(room.partition("/")[2] or "(face)" for room in rooms)
