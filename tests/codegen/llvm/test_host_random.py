"""Tests that random explicit kernels on the host match the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.codegen.llvm.grids import run
from tests.codegen.llvm.random_kernels import Program
from tests.oracle.interpret import interpret_kernel
from weft.codegen import Kernel, verify_kernel
from weft.codegen.llvm import host_threads
from weft.codegen.passes.split_at_barriers import BarrierSplit

SEEDS = [*range(5), 120, *(pytest.param(k, marks=pytest.mark.slow) for k in range(5, 100))]


def check(seed: int) -> int:
    """Compare the results of a random kernel with those of the interpreter.

    The kernel is compiled to loops, if possible, and to coroutines. Return 1 if the kernel was compiled to loops,
    otherwise 0.
    """
    threads = random.Random(seed).choice([32, 40, 64, 7])
    kernel = Program(seed, threads).build()
    verify_kernel(kernel)
    blocks = 2
    x = np.random.default_rng(seed).integers(-50, 50, blocks * threads).astype(np.int32)
    expected = [np.zeros(blocks * threads, np.int32) for _ in range(2)]
    for backwards in (False, True):
        interpret_kernel(
            kernel, [x, expected[backwards], np.int32(5)], grid=(blocks,), block=(threads,), backwards=backwards
        )
    np.testing.assert_array_equal(expected[0], expected[1])
    splits = 0
    split = host_threads.split_at_barriers

    def counted(kernel: Kernel) -> BarrierSplit | None:
        nonlocal splits
        made = split(kernel)
        splits += made is not None
        return made

    for form in ("loops", "coroutines"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host_threads, "split_at_barriers", counted if form == "loops" else lambda kernel: None)
            found = np.zeros(blocks * threads, np.int32)
            run(kernel, [x, found, 5], (blocks,), (threads,))
            np.testing.assert_array_equal(found, expected[0], err_msg=f"seed {seed}, {form}")
    return splits


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels(seed: int) -> None:
    check(seed)
