"""A fixture that loads the native code of random streams before the first draw."""

from __future__ import annotations

from functools import cache

import pytest

from weft.runtime.cpu import native
from weft.runtime.cpu.random.bit_generators import engines
from weft.runtime.cpu.random.native_draws import Code, obtain_code
from weft.runtime.cpu.random.random_streams import readiness

KINDS = [engine.kind for engine in engines()]


@cache
def code(number: int = 0) -> Code:
    """Return the native code for the bit generator with the given number in `engines()`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "disk_cache", lambda: None)  # (so that this thread compiles)
        found = obtain_code(engines()[number], True)
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the native code."""
    for number in range(len(KINDS)):
        monkeypatch.setattr(readiness(number), "loaded", code(number))


def unload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the native code, so that NumPy draws the numbers."""
    for number in range(len(KINDS)):
        monkeypatch.setattr(readiness(number), "loaded", None)
        monkeypatch.setattr(readiness(number), "_failed", True)
