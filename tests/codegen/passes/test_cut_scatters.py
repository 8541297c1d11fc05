"""Tests of scatter loops on the host, which a pass splits into blocks.

Vector code computes the values of a block before they are written.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.codegen.kernels import HOST
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.cut_scatters import BLOCK, cut_scatters, serialize_inner_loops


def counts(*, work: int = 8, alone: bool = True, fold: str = "add") -> Kernel:
    """Return the kernel ``value = x[c, i] * (work + 1); out[c, |value| % 7] += value``.

    The reduction `fold` replaces ``+``. Without `fold`, the kernel stores the value.
    """
    b = KernelBuilder("kernel")
    blocks, length = b.scalar("blocks"), b.scalar("length")
    x = b.pointer("x", np.int32, noalias=alone)
    out = b.pointer("out", np.int32, writable=True)
    with b.loop(blocks, "parallel") as c:
        with b.loop(length, "serial") as i:
            first = b.load(x, b.op("add", b.op("multiply", c.index, length), i.index))
            value = first
            for _ in range(work):
                value = b.op("add", value, first)
            index = b.op("remainder", b.op("absolute", value), b.constant(7))
            index = b.op("add", b.op("multiply", c.index, b.constant(7)), index)
            if fold:
                value = b.op(fold, b.load(out, index), value)
            b.store(out, index, value)
    return b.finish()


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 77])
@pytest.mark.parametrize("fold", ["add", ""])
def test_it_writes_the_same_in_the_same_order(length: int, fold: str) -> None:
    x = np.random.default_rng(0).integers(-99, 99, 3 * length).astype(np.int32)
    wanted, found = np.ones(21, np.int32), np.ones(21, np.int32)
    interpret_kernel(counts(fold=fold), [3, length, x, wanted])
    kernel = serialize_inner_loops(cut_scatters(counts(fold=fold)))
    verify_kernel(kernel)
    interpret_kernel(kernel, [3, length, x, found])
    np.testing.assert_array_equal(found, wanted)


def test_work_goes_in_vectors() -> None:
    found = serialize_inner_loops(choose_lanes(cut_scatters(counts()), HOST))
    verify_kernel(found)
    (ahead,) = (o for o in found.walk() if o.opcode == "for" and "lanes" in o.attributes)
    assert ahead.attributes["role"] == "serial"
    assert any(o.opcode == "store" and o.operands[0].type.space == "local" for o in ahead.regions[0].operations)  # type: ignore[union-attr]


def test_nothing_is_cut_in_vain_or_wrongly() -> None:
    for kernel in (counts(work=0), counts(alone=False)):  # too little work, or possible aliasing of input and output
        assert cut_scatters(kernel) is kernel


@pytest.mark.parametrize("size", [1 << 17, 140_003, 300_001])
def test_large_histograms_are_numpys(size: int) -> None:
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    for bins in (10, 256):
        found, edges = np.histogram(wf.asarray(x), bins)
        wanted = np.histogram(x, bins)
        np.testing.assert_array_equal(np.asarray(found), wanted[0])
        np.testing.assert_array_equal(np.asarray(edges), wanted[1])
