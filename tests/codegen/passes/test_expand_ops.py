"""Tests that expanded ops have the same results when compiled and interpreted."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.runtime import override

pytestmark = pytest.mark.cpu

IMMEDIATE = 0


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_extremes_of_zeros_select_the_second_operand(name: str, dtype: str) -> None:
    """Test that the maximum or minimum of two zeros has the sign of the second zero, in compiled and in interpreted programs."""
    x = np.tile(np.array([-0.0, 0.0, 1, -1, np.nan], dtype), 40)
    for zero in (0.0, -0.0):
        for swapped in (False, True):
            found = []
            for mode in ("never", "always"):
                with override(interpret=mode):
                    array = wf.asarray(x)
                    pair = (array, zero) if swapped else (zero, array)
                    found.append(np.asarray(getattr(wf, name)(*pair)))
            assert found[0].tobytes() == found[1].tobytes()
            assert np.signbit(found[0][:2]).tolist() == ([np.signbit(zero)] * 2 if swapped else [True, False])
