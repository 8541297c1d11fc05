"""Tests of static ranges of integer expressions."""

from __future__ import annotations

import numpy as np

from weft.fusion import constant, iota, map_, range_of


def test_constants_that_wrap_in_the_loop() -> None:
    index = iota((11,), 0, np.int8)
    for value in (257, 3):
        found = range_of(map_("floor_divide", [index, constant(value, np.int64)], dtype=np.dtype(np.int8)))
        assert found == ((-128, 127) if value == 257 else (0, 3))
