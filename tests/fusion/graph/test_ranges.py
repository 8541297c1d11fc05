"""Tests of static ranges of integer expressions."""

from __future__ import annotations

import numpy as np
import pytest

from weft.fusion import constant, iota, map_, range_of
from weft.fusion.graph import ranges


def test_constants_that_wrap_in_the_loop() -> None:
    index = iota((11,), 0, np.int8)
    for value in (257, 3):
        found = range_of(map_("floor_divide", [index, constant(value, np.int64)], dtype=np.dtype(np.int8)))
        assert found == ((-128, 127) if value == 257 else (0, 3))


def test_operations_that_occur_many_times_are_analyzed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found, calls = iota((11,), 0, np.int64), []
    for _ in range(ranges._DEPTH - 1):
        found = map_("maximum", [found, map_("negative", [found])])
    narrower = ranges._narrower_range
    monkeypatch.setattr(ranges, "_narrower_range", lambda *given: (calls.append(given), narrower(*given))[1])
    assert range_of(found)[1] == np.iinfo(np.int64).max
    assert len(calls) <= ranges._DEPTH**2
