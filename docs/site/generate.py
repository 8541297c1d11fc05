"""Write all generated pages."""

from __future__ import annotations

from pathlib import Path


def write_pages(folder: Path) -> None:
    """Write the generated pages below a folder, and leave pages alone that have not changed."""
