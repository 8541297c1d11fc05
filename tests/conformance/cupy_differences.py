"""The tests of CuPy that NumPy passes in CuPy's place and weft does not, and why.

`cupy_suite` reports them as "differs". A name is ``folder/file::class::test``, or the beginning of it.
"""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {}


def reason_for(test: str) -> str | None:
    """Return why a test differs, or None."""
    return next((why for name, why in DIFFERENCES.items() if test.startswith(name)), None)
