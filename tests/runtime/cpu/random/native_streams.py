"""Native code of random streams for tests, which otherwise is loaded only after many draws."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from weft.runtime.cpu import native
from weft.runtime.cpu.random import random_streams


@cache
def code() -> Any:
    """Return the native code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "disk_cache", lambda: None)  # (so that this thread compiles)
        return random_streams._obtain(True)


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the native code."""
    monkeypatch.setattr(random_streams._code, "loaded", code())
