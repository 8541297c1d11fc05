"""Write all generated pages."""

from __future__ import annotations

from pathlib import Path

from docs.site.gallery import draw_pictures, gallery_pages
from docs.site.measured import measured_page
from docs.site.reference import reference_pages


def write_pages(folder: Path) -> None:
    """Write the generated pages to a folder and its subfolders. Pages that have not changed are not rewritten."""
    for name, text in reference_pages().items():
        write(folder / "reference" / f"{name}.rst", text)
    for name, text in gallery_pages().items():
        write(folder / "gallery" / f"{name}.md", text)
    draw_pictures(folder / "gallery")
    write(folder / "measured.md", measured_page())


def write(path: Path, text: str) -> None:
    """Write a file unless it has this text already, so that Sphinx reads only what has changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
