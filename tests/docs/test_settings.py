"""Tests that the page about settings lists all settings with a ``WEFT_`` variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.runtime.settings import TABLE, Setting

TEXT = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", [row for row in TABLE if row.env.startswith("WEFT_")], ids=lambda row: row.name)
def test_every_setting_is_described(row: Setting) -> None:
    assert f"| `{row.env}` | {row.doc}" in TEXT, "write the row of docs/settings.md anew"
