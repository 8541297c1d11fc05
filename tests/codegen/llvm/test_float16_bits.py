"""Tests of conversions from and to float16 on old x86 processors.

These processors have no instructions for the conversions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen.llvm.grids import device, pack
from weft.codegen import KernelBuilder, Target, compile_kernel, resolve_target

HOST = resolve_target("host")
OLD = Target("host", "cpu", HOST.triple, "x86-64", "+sse2", 16, 1)
pytestmark = pytest.mark.skipif(not HOST.triple.startswith("x86_64"), reason="the code is for x86-64")
EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Cast an array to `dtype` in a kernel that is compiled for the target `OLD`."""
    b = KernelBuilder("converted")
    source, out = b.pointer("x", x.dtype, noalias=True), b.pointer("out", dtype, writable=True, noalias=True)
    n = b.scalar("n")
    with b.loop(n, "parallel") as i:
        b.store(out, i.index, b.cast(b.load(source, i.index), dtype))
    kernel, found = b.finish(), np.zeros(x.size, dtype)
    slots = pack(kernel, [x, found, x.size])
    device().load(compile_kernel(kernel, OLD)).call(slots.buffer_info()[0], 0, x.size)
    return found


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_float16_becomes_a_wider_float(dtype: type) -> None:
    assert_same(converted(EVERY[:-1], dtype), EVERY[:-1].astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wider_floats_are_rounded_to_nearest_even(dtype: type) -> None:
    """Test casts of all float16 values, of their midpoints, and of floats next to the midpoints."""
    exact = EVERY.astype(dtype)
    with np.errstate(all="ignore"):
        midpoints = (exact[:-1] + exact[1:]) / 2
        values = [exact, midpoints, np.nextafter(midpoints, dtype(np.inf)), np.nextafter(midpoints, dtype(-np.inf))]
        x = np.concatenate([*values, np.array([65519.99, 65520, 1e30, -1e30, 1e-30], dtype)])
        assert_same(converted(x, np.float16), x.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int32, np.uint16])
def test_integers(dtype: type) -> None:
    x = np.arange(100).astype(dtype)
    np.testing.assert_array_equal(converted(x, np.float16), x.astype(np.float16))
    np.testing.assert_array_equal(converted(x.astype(np.float16), dtype), x)
