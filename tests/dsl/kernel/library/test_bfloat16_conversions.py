"""Tests of the conversions of bfloat16 under Numba CUDA's names."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.runtime import override

ml_dtypes = pytest.importorskip("ml_dtypes")
BRAIN = np.dtype(ml_dtypes.bfloat16)
bf16 = cuda.bf16
WAYS = ("rn", "rz", "rd", "ru")
WHOLE = np.array(
    [0, 1, -1, 3, 257, -257, 259, 2**40 + 1, -(2**40) - 1, 2**62 + 1, -(2**62) - 2**53 - 1, 2**54 + 2**46]
    + [2**54 + 2**46 + 1, 2**53 + 2**45 + 1, 123456789, -(2**63), 2**63 - 1],
    np.int64,
)
PYTHON = pytest.mark.parametrize("python", [False, True], ids=["compiled", "python"])


def _rounded(value: int, way: str) -> float:
    """Round an integer to eight significant bits, in the direction `way`."""
    size = max(0, abs(value).bit_length() - 8)
    below = Fraction(value, 1 << size)
    near = {"rn": round(below), "rz": int(below), "rd": below.__floor__(), "ru": below.__ceil__()}[way]
    return float(near * (1 << size))


@PYTHON
@pytest.mark.parametrize("way", WAYS)
def test_integers_are_rounded_once(way: str, python: bool) -> None:
    to_brain = getattr(bf16, f"int64_to_bfloat16_{way}")

    @cuda.jit
    def convert(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = to_brain(x[i])

    out = np.zeros(len(WHOLE), BRAIN)
    with override(kernel_python=python):
        convert[1, len(WHOLE)](WHOLE, out)
    assert out.astype(float).tolist() == [_rounded(int(v), way) for v in WHOLE]


@PYTHON
def test_floats_and_integers_by_direction(python: bool) -> None:
    from_float = tuple(getattr(bf16, f"float32_to_bfloat16_{way}") for way in WAYS)
    to_integer = tuple(
        getattr(bf16, f"bfloat16_to_uint8_{way}" if way == "rz" else f"bfloat16_to_int16_{way}") for way in WAYS
    )

    @cuda.jit
    def convert(x: Any, narrow: Any, whole: Any) -> None:
        i = cuda.grid(1)
        for k, function in enumerate(from_float):
            narrow[k, i] = function(x[i])
        for k, function in enumerate(to_integer):
            whole[k, i] = function(x[i])

    x = np.array([1.5, -2.5, 1.01, -1.01, 300.0, 3e38, np.inf, -0.0, np.nan], np.float32)
    narrow, whole = np.zeros((4, len(x)), BRAIN), np.zeros((4, len(x)), np.int32)
    with override(kernel_python=python):
        convert[1, len(x)](x, narrow, whole)
    values, finite = narrow.astype(np.float32), np.isfinite(x)
    np.testing.assert_array_equal(narrow[0].view(np.uint16)[:-1], x.astype(BRAIN).view(np.uint16)[:-1])
    assert (
        (abs(values[1]) <= abs(x))[finite].all() and (values[2] <= x)[finite].all() and (values[3] >= x)[finite].all()
    )
    assert values[2, 2] < x[2] < values[3, 2] and np.isnan(values[:, -1]).all()
    assert whole[:, 0].tolist() == [2, 1, 1, 2] and whole[:, 1].tolist() == [-2, 0, -3, -2]
    assert whole[0, 6] == 32767 and whole[1, 4] == 255 and not whole[:, -1].any()


@PYTHON
def test_functions_that_saturate_or_ask(python: bool) -> None:
    @cuda.jit
    def ask(out: Any) -> None:
        one, none = bf16.bfloat16(1.5), bf16.bfloat16(float("nan"))
        out[0] = bf16.hadd_sat(one, 0.75)
        out[1] = bf16.hsub_sat(0.75, one)
        out[2] = bf16.hfma_relu(one, -2.0, 0.0)
        out[3] = bf16.hfma_sat(none, one, one)
        out[4] = bf16.hmax_nan(one, none)
        out[5] = bf16.hmax(one, none)
        out[6] = bf16.hisinf(one / bf16.bfloat16(-0.0))
        out[7] = bf16.hequ(one, none)
        out[8] = bf16.heq(one, none)
        out[9] = bf16.bfloat16_as_int16(one)
        out[10] = bf16.uint16_as_bfloat16(0x3FC0)

    out = np.zeros(11, np.float32)
    with override(kernel_python=python):
        ask[1, 1](out)
    np.testing.assert_array_equal(out, np.float32([1, 0, 0, 0, np.nan, 1.5, -1, 1, 0, 0x3FC0, 1.5]))


@pytest.mark.parametrize("value", [-2.5, 300.0, np.float32(-1), np.nan, -1, 257, np.inf, 1 + 2j, True, 3])
def test_types_cast_numbers_as_kernels_do(value: Any) -> None:
    @cuda.jit
    def cast(x: Any, out: Any) -> None:
        out[0] = cuda.types.uint8(x)
        out[1] = cuda.types.float32(x)

    found = np.zeros(2)
    cast[1, 1](value, found)
    np.testing.assert_array_equal(found, [float(cuda.types.uint8(value)), float(cuda.types.float32(value))])
