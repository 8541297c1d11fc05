"""Tests of the remainders of vectorized loops, which run under a mask.

On machines with masks, one masked vector computes the elements after the last whole vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen.kernel_ir.builder import KernelBuilder
from weft.codegen.llvm.host import emit_host
from weft.codegen.target import Target

LENGTHS = (3, 5, 16, 20, 33)
KINDS = ("float32", "float64", "int8", "bool", "complex128")
MASKS = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+fma"


def rows(length: int, kind: str) -> np.ndarray:
    return (np.arange(3 * length) % 7).reshape(3, length).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_length(kind: str) -> None:
    for length in LENGTHS:
        x = rows(length, kind)
        y = wf.asarray(x)
        np.testing.assert_array_equal(np.array(y + y), x + x)
        np.testing.assert_array_equal(np.array(y[:, ::-1] + y), x[:, ::-1] + x)
        np.testing.assert_array_equal(np.array(abs(y[::-1, ::2])), abs(x[::-1, ::2]))
        np.testing.assert_array_equal(np.array(y.sum(axis=1)), x.sum(axis=1))
        np.testing.assert_array_equal(np.array(y.any(axis=1)), x.any(axis=1))
        if kind != "complex128":
            np.testing.assert_array_equal(np.array(y.max(axis=1)), x.max(axis=1))
            np.testing.assert_array_equal(np.array(y.argmax(axis=1)), x.argmax(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_updates_in_place_touch_nothing_else(kind: str) -> None:
    """Test that an update of a slice leaves adjacent elements unchanged."""
    for length in LENGTHS:
        x = rows(length, kind)
        right = np.ones((3, length + 2, 2), kind)
        found = wf.asarray(right.copy())
        y = wf.asarray(x)
        for array, values in ((right, x), (found, y)):
            array: Any
            array[:, 1:-1, 1] = values
            array[:, 1:-1, 0] += array[:, 1:-1, 1]
        np.testing.assert_array_equal(np.array(found), right)
        line, mine = np.ones((3, length + 2), kind), wf.asarray(np.ones((3, length + 2), kind))
        line[:, 1:-1] += x
        mine[:, 1:-1] += y
        np.testing.assert_array_equal(np.array(mine), line)


def scaled(kind: str, step: int) -> KernelBuilder:
    b = KernelBuilder("scaled", np.int32)
    n = b.scalar("n", np.int32)
    x, out = b.pointer("x", kind, noalias=True), b.pointer("out", kind, writable=True)
    with b.loop(n, "parallel") as loop:
        i = loop.index
        at = b.op("multiply", i, b.constant(step, np.int32))
        b.store(out, at, b.op("add", b.load(x, i), b.load(x, i)))
    return b


@pytest.mark.parametrize(
    ("features", "kind", "step", "masked"),
    [
        (MASKS, "float32", 1, True),
        (MASKS, "int8", 1, True),
        (MASKS, "float64", 3, True),
        (MASKS, "int8", 3, False),  # no machine has scatter instructions for bytes
        ("+avx2,+fma", "float32", 1, False),
    ],
)
def test_where_masks_are_used(features: str, kind: str, step: int, masked: bool) -> None:
    bits = 64 if features == MASKS else 32
    target = Target("host", "cpu", "x86_64-unknown-linux-gnu", "x86-64", features, bits, 1)
    text = emit_host(scaled(kind, step).finish(), target).text
    assert ("@llvm.masked." in text) == masked


@pytest.mark.parametrize(("kind", "outside"), [("float32", "float 1.0"), ("int32", "zeroinitializer")])
def test_lanes_outside_the_mask(kind: str, outside: str) -> None:
    """Test that lanes outside the mask hold 1 for floats, and 0 for integers.

    Zeros for floats made ``hypot`` of short rows ten times slower.
    """
    target = Target("host", "cpu", "x86_64-unknown-linux-gnu", "x86-64", MASKS, 64, 1)
    loads = [line for line in emit_host(scaled(kind, 1).finish(), target).text.splitlines() if "= call" in line]
    loads = [line for line in loads if "@llvm.masked.load" in line]
    assert loads
    assert all(outside in line for line in loads)
