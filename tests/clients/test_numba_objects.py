"""Tests of Numba's types, signatures and functions in weft's kernels.

Opt-in: ``pytest -m clients``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.dsl.kernel.language import types
from weft.dsl.kernel.language.numba_objects import from_numba

pytestmark = pytest.mark.clients
numba = pytest.importorskip("numba")

RECORD = np.dtype([("a", np.int32), ("b", np.float64, (3,)), ("c", np.uint8)], align=True)


@numba.njit
def triple(x: Any) -> Any:
    return 3 * x


@numba.vectorize
def increased(x: Any) -> Any:
    return x + 1


def test_types() -> None:
    for name in ("int8", "uint16", "int32", "uint64", "float32", "float64", "complex64", "complex128", "boolean"):
        assert from_numba(getattr(numba, name)) == getattr(types, name)
    assert from_numba(numba.float32[:, ::1]) == types.parse_type("float32[:, ::1]")
    assert from_numba(numba.int8[::1, :]) == types.parse_type("int8[::1, :]")
    assert from_numba(numba.types.UniTuple(numba.int32, 2)) == types.parse_type("UniTuple(int32, 2)")
    assert from_numba(numba.types.CPointer(numba.float32)) == types.parse_type("CPointer(float32)")
    assert from_numba(numba.from_dtype(RECORD)).dtype == RECORD
    assert types.as_signature(numba.void(numba.float64[:], numba.int32)) == types.as_signature(
        "void(float64[:], int32)"
    )


def test_in_kernels() -> None:
    """Test Numba's types, and functions that Numba has decorated, in a kernel."""
    float32 = numba.float32

    @cuda.jit(numba.void(numba.float64[:], numba.int32))
    def kernel(x: Any, n: Any) -> None:
        local = cuda.local.array(2, float32)
        shared = cuda.shared.array(4, dtype=numba.int16)
        i = cuda.grid(1)
        local[0] = float32(1) / numba.int32(3)
        shared[i] = 40_000
        if i < n:
            x[i] = triple(local[0]) + increased(x[i]) + shared[i]

    x = np.arange(4.0)
    kernel[1, 4](x, 3)
    right = np.arange(4.0) + 1 + 3 * np.float64(np.float32(1 / 3)) + np.array(40_000).astype(np.int16)
    assert np.array_equal(x[:3], right[:3]) and x[3] == 3


def test_jitted_functions_become_kernels() -> None:
    @numba.njit
    def scale(x: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            out[i] = fourfold(x[i])

    fourfold = cuda.jit(device=True)(numba.njit(lambda x: 4 * x))
    assert fourfold(2) == cuda.jit(triple, device=True)(2) + 2 == 8
    x, out = np.arange(4.0), np.zeros(4)
    for kernel in (cuda.jit(scale), cuda.jit()(scale)):
        kernel[1, 4](x, out)
        assert np.array_equal(out, 4 * x)
        out[:] = 0


@pytest.mark.parametrize("size", [4, 100_000])
def test_compiled_ufunc_with_the_name_of_a_numpy_ufunc(size: int) -> None:
    @numba.vectorize(["float64(float64)"])
    def square(x: Any) -> Any:
        return x * x + 1

    values = np.arange(float(size))
    found = square(wf.asarray(values))
    assert np.array_equal(np.asarray(found), values * values + 1)
