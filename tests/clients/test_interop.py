"""Tests that the document about other packages lists the outcome of every case.

No case that the document lists may have a wrong result.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.__main__ import DOCUMENT, SECTION, results_of, section_of
from tests.clients.interop import PACKAGES, first_line

pytestmark = pytest.mark.clients


def statuses(section: str) -> dict[str, str]:
    """Return the outcome of each case in a section of the document."""
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {name.strip().strip("`"): status.strip() for name, status in rows}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("package", PACKAGES)
def test_the_document_is_right(package: str) -> None:
    found: Any = results_of(package)
    if found is None:
        pytest.skip(f"not installed: {package}")
    written = next(m[0] for m in SECTION.finditer(DOCUMENT.read_text()) if m[1] == package)
    assert statuses(written) == statuses(section_of(package, *found))
    assert "another result" not in written


def test_reasons_are_the_same_on_each_machine() -> None:
    message = "Several: {<module 'weft' from '/a/b.py'>, <module 'numpy' from '/c.py'>}.\nMore"
    assert first_line(TypeError(message)) == "Several: {<module 'numpy'>, <module 'weft'>}."
    assert first_line(TypeError()) == ""
