"""Tests that complex64 values are moved as 64-bit integers if a kernel does not compute with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, KernelBuilder, verify_kernel
from weft.codegen.kernel_ir.operation import Pointer
from weft.codegen.passes.move_complex import move_complex

C8 = np.dtype(np.complex64)
# Values with special bits: signed zeros, NaNs with payloads, infinities.
SPECIAL = np.array([0x8000000000000000, 0x7FC0123400000001, 0xFF8000007F800000, 0x3F80000040000000], np.uint64).view(C8)


def padded(computes: bool = False) -> Kernel:
    """Return the kernel ``out[i] = x[i - 1] if i >= 1 else 1 - 2j``. If `computes` is true, the kernel adds 1 to each result."""
    b = KernelBuilder("padded")
    length = b.scalar("length")
    x = b.pointer("x", np.complex64, noalias=True)
    out = b.pointer("out", np.complex64, writable=True, noalias=True)
    with b.loop(length, "parallel") as i:
        with b.if_(b.op("greater_equal", i.index, b.constant(1), dtype=np.bool_), [C8], True) as one:
            one.yield_(b.load(x, b.op("subtract", i.index, b.constant(1))))
        with b.else_() as other:
            other.yield_(b.constant(1 - 2j, np.complex64))
        value = one.results[0]
        b.store(out, i.index, b.op("add", value, b.constant(1, np.complex64)) if computes else value)
    return b.finish()


def types_of(kernel: Kernel) -> set[np.dtype]:
    found = [v.type for o in kernel.walk() for v in (*o.operands, *o.results)]
    return {each.dtype if isinstance(each, Pointer) else each for each in found}


def test_moves_become_integers_with_the_same_bits() -> None:
    kernel = move_complex(padded())
    verify_kernel(kernel)
    assert C8 not in types_of(kernel) and np.dtype(np.uint64) in types_of(kernel)
    out = np.zeros(5, np.uint64)
    interpret_kernel(kernel, [5, SPECIAL.view(np.uint64), out])
    wanted = np.concatenate([np.array([1 - 2j], C8), SPECIAL])
    np.testing.assert_array_equal(out, wanted.view(np.uint64))


def test_kernels_that_compute_are_kept() -> None:
    kernel = padded(computes=True)
    assert move_complex(kernel) is kernel


def test_kernels_without_complex_numbers_are_kept() -> None:
    b = KernelBuilder("copy")
    length = b.scalar("length")
    x, out = b.pointer("x", np.complex128, noalias=True), b.pointer("out", np.complex128, writable=True)
    with b.loop(length, "parallel") as i:
        b.store(out, i.index, b.load(x, i.index))
    kernel = b.finish()
    assert move_complex(kernel) is kernel


@pytest.mark.parametrize(
    "move",
    [
        lambda m, x: m.roll(x, 3),
        lambda m, x: m.concatenate([x, x[::-1], x[::3]]),
        lambda m, x: m.pad(x, 2, constant_values=1 - 2j),
        lambda m, x: m.repeat(x, 2),
        lambda m, x: m.stack([x, x], -1),
        lambda m, x: x.reshape(4, -1).T.copy(),
        lambda m, x: m.where(x.real > 0, x, x[::-1]),
        lambda m, x: m.tile(x, 2)[1:],
    ],
)
def test_programs_keep_the_bits(move: Callable[[Any, Any], Any]) -> None:
    x = np.tile(SPECIAL, 25)
    for offset in (0, 1):  # (complex64 arrays may begin at a multiple of 4 bytes)
        memory = np.zeros(x.size * 2 + 1, np.float32)
        values = memory[offset : offset + 2 * x.size].view(C8)
        values[:] = x
        found = np.asarray(move(wf, wf.from_dlpack(values) if offset else wf.asarray(values)))
        np.testing.assert_array_equal(found.view(np.uint64), move(np, x).view(np.uint64))
