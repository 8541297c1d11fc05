"""Configuration of the tests marked ``gpu``.

The tests run on the first GPU, and fail without a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import weft as wf
from weft.runtime import probe


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    found = probe()
    if found.status != "ok":
        pytest.fail(f"no GPU: {found.message}")
    with wf.device("cuda:0"):
        yield
