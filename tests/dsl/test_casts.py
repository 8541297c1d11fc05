"""Casts of floats to narrow integers truncate and saturate, and NaN becomes 0, in vectors and for single elements."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

VALUES = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, -1.5, 127, 127.9, 128, 128.5, -128, -128.9, -129]
    + [255, 255.9, 256, 32767, 32767.5, 32768, -32768.5, -32769, 65504, 65535.9, 65536, 1e10, -1e10, 5e-324]
)


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_saturate(source: str, target: str) -> None:
    with np.errstate(all="ignore"):
        values = VALUES.astype(source)
    limits = np.iinfo(target)
    bounded = np.clip(np.nan_to_num(values.astype(np.float64), posinf=1e300, neginf=-1e300), limits.min, limits.max)
    wanted = np.trunc(bounded).astype(target)
    for repeated in (1, 9):
        found = wf.asarray(np.tile(values, repeated)).astype(target)
        np.testing.assert_array_equal(np.asarray(found), np.tile(wanted, repeated), strict=True)
    single = [int(wf.asarray(values)[k : k + 1].astype(target)[0]) for k in range(len(values))]
    np.testing.assert_array_equal(single, wanted)
