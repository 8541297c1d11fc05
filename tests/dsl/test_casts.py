"""Tests that casts of floats to integers truncate and saturate, and that NaN becomes 0.

The tests cover arrays, single elements and explicit kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.runtime import override

POWERS = 2.0 ** np.array([31, 32, 53, 63, 64])
LARGE = np.concatenate([[p, -p, np.nextafter(p, 0), -np.nextafter(p, np.inf)] for p in POWERS])
LARGE = np.concatenate([LARGE, LARGE.astype(np.float32), np.nextafter(POWERS.astype(np.float32), np.float32(0))])
VALUES = np.concatenate(
    [
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, -1.5, 127, 127.9, 128, 128.5, -128, -128.9],
        [-129, 255, 255.9, 256, 32767, 32767.5, 32768, -32768.5, -32769, 65504, 65535.9, 65536, 1e10, -1e10, 5e-324],
        LARGE,
    ]
)


def saturated(value: float, target: str) -> int:
    limits = np.iinfo(target)
    if np.isnan(value):
        return 0
    return limits.max if value >= limits.max else limits.min if value <= limits.min else int(value)


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_saturate(source: str, target: str) -> None:
    with np.errstate(all="ignore"):
        values = VALUES.astype(source)
    wanted = np.array([saturated(float(value), target) for value in values], target)
    for repeated in (1, 9):
        with override(immediate=0, interpret="never"):
            found = wf.asarray(np.tile(values, repeated)).astype(target)
            np.testing.assert_array_equal(np.asarray(found), np.tile(wanted, repeated), strict=True)
    single = [int(wf.asarray(values)[k : k + 1].astype(target)[0]) for k in range(len(values))]
    np.testing.assert_array_equal(single, wanted)


@pytest.mark.parametrize("target", ["uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_saturate_in_kernels(source: str, target: str) -> None:
    @cuda.jit
    def convert(x: Any, out: Any) -> None:
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[i] = x[i]

    with np.errstate(all="ignore"):
        values = VALUES.astype(source)
    out = np.zeros(values.size, target)
    convert[1, 32](values, out)
    np.testing.assert_array_equal(out, [saturated(float(value), target) for value in values])
