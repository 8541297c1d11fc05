"""Tests of thread indices and addresses in explicit kernels on the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import cuda
from weft.codegen import resolve_target
from weft.codegen.llvm.host_threads import emit_threads


def by_threads(x: Any, y: Any, o: Any) -> None:
    part = cuda.shared.array(64, np.int16)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    o[t] = part[(t + 5) % 8] + y[(t + 7) % 64]


def by_threads_with_masks(x: Any, y: Any, o: Any) -> None:
    t = cuda.grid(1)
    o[t] = x[(t + 5) & 7] + y[(t + 7) & 63]


def by_narrow_integers(x: Any, y: Any, o: Any) -> None:
    t = cuda.grid(1)
    o[t] = x[np.uint8(np.uint8(t + 253) + np.uint8(8)) % 8] + y[np.uint16(t + 7) % 64]


def in_a_loop(x: Any, y: Any, o: Any) -> None:
    for t in range(o.size):
        o[t] = x[(t + 5) % 8] + y[(t + 7) % 64]


@pytest.mark.parametrize("device", ["cpu", "simt::backward"])
@pytest.mark.parametrize("size", [8, 16, 61])
@pytest.mark.parametrize("kernel", [by_threads, by_threads_with_masks, by_narrow_integers, in_a_loop])
def test_indices_wrap_around(kernel: Any, size: int, device: str) -> None:
    """Test the results of kernels whose array indices wrap around, such as ``x[(t + 5) % 8]``.

    LLVM 22 vectorizes loops with such indices of different widths wrongly if it knows the ranges of the indices.
    """
    x, y = np.arange(64, dtype=np.int16), np.arange(64, dtype=np.int16) * 100
    out = np.zeros(size, np.int16)
    with wf.device(device):
        wf.kernel(kernel)[1, 1 if kernel is in_a_loop else size](cuda.In(x), cuda.In(y), cuda.InOut(out))
    t = np.arange(size)
    np.testing.assert_array_equal(out, x[(t + 5) % 8] + y[(t + 7) % 64])


def product_in_32_bits(o: Any) -> None:
    t = np.int32(cuda.grid(1))
    if t < o.size:
        o[t] = t * t + np.int32(t * t < 0)


def product_in_64_bits(o: Any) -> None:
    t = cuda.grid(1)
    if t < o.size:
        o[t] = (t * t) * (t * t) >> 3


@pytest.mark.parametrize("kernel", [product_in_32_bits, product_in_64_bits])
def test_products_of_indices_wrap_around(kernel: Any) -> None:
    """Test products of thread indices, which overflow although the indices themselves do not."""
    out = np.zeros(100_000, np.int64)
    wf.kernel(kernel)[400, 256](out)
    t = np.arange(out.size, dtype=np.int32 if kernel is product_in_32_bits else np.int64)
    np.testing.assert_array_equal(out, t * t + (t * t < 0) if t.itemsize == 4 else (t * t) * (t * t) >> 3)


def test_addresses_are_computed_from_64_bit_indices() -> None:
    """Test that no address is computed from an index that was narrowed to 32 bits."""

    @cuda.jit
    def copy(x: Any, out: Any) -> None:
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[i] = x[i]

    x, out = np.arange(1000.0), np.zeros(1000)
    copy[3, 64](x, out)
    np.testing.assert_array_equal(out, x)
    (compiled,) = copy.compiled(cc="host").values()
    text, _, _ = emit_threads(compiled.kernel, resolve_target("host"))
    narrowed = re.findall(r"(%v\d+) = trunc nsw i64", text)
    assert narrowed
    assert not any(f"sext i32 {name} " in text for name in narrowed)
