"""Tests of row-and-column reductions with GPU schedules.

A warp or a block iterates over rows, and keeps the sums of columns in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import weft as wf
from tests.fuzz.row_columns import bits, check, however_small
from weft.codegen import resolve_target
from weft.codegen.schedules.columns import ColumnReduction
from weft.codegen.schedules.rows_and_columns import RowColumnReduction
from weft.fusion import kernels_of

RNG = np.random.default_rng(12)

Program = Callable[[wf.Array], Sequence[wf.Array]]


def sums(x: wf.Array) -> Sequence[wf.Array]:
    return x.sum(axis=0), x.sum(axis=1)


def mixed(x: wf.Array) -> Sequence[wf.Array]:
    return (x * 2 + 1).mean(axis=1) - 1, wf.sqrt((x * x).sum(axis=0)), x.argmax(axis=0), x.max(axis=1)


def check_bits(program: Program, a: np.ndarray, device: str) -> None:
    """Assert that one kernel computes the results, with the same bits as separate kernels."""
    with wf.device(device):
        with however_small():
            together = program(wf.asarray(a))
            assert len(wf.explain(*together).kernels) == 1
            wf.evaluate(*together)
        for k, found in enumerate(together):
            assert bits(found) == bits(wf.evaluate(program(wf.asarray(a))[k])), k


@pytest.mark.parametrize("shape", [(2049, 127), pytest.param((1200, 1200), marks=pytest.mark.slow), (300, 3000)])
def test_one_kernel_has_the_bits_of_two(shape: tuple[int, int]) -> None:
    a = RNG.standard_normal(shape).astype(np.float32)
    check_bits(sums, a, "simt")
    if shape[1] < 3000:
        check_bits(mixed, a, "simt")


@pytest.mark.parametrize("dtype", ["float16", "float64", pytest.param("int32", marks=pytest.mark.slow)])
def test_dtypes(dtype: str) -> None:
    check_bits(sums, (RNG.standard_normal((1500, 130)) * 9).astype(dtype), "simt")


def test_lanes_that_run_last_first_find_the_same() -> None:
    check_bits(sums, RNG.standard_normal((300, 1100)).astype(np.float32), "simt::backward")


@pytest.mark.slow
def test_no_thread_reads_what_another_one_writes() -> None:
    check_bits(sums, RNG.standard_normal((300, 1100)).astype(np.float32), "simt::sanitized")


def test_a_value_that_is_wanted_itself_is_written_on_the_way() -> None:
    def program(x: wf.Array) -> Sequence[wf.Array]:
        y = wf.exp(x) + 1
        return y, y.sum(axis=0), y.sum(axis=1)

    check_bits(program, RNG.standard_normal((1500, 130)).astype(np.float32), "simt")


def test_vectors_on_both_ways() -> None:
    """Test that a block reads each row of 4096 elements only once. It uses vector loads and stores for the rows and the column sums.

    Small arrays fit into the cache, and are not reduced along rows and columns in one kernel.
    """
    with wf.device("simt"):
        large, small = wf.asarray(np.zeros((4096, 4096), np.float32)), wf.asarray(np.zeros((512, 512), np.float32))
        target = resolve_target("sm_90")
        first, second = kernels_of([r._storage for r in sums(large)], target)
        assert (first.attributes["schedule"].threads, first.attributes["schedule"].kept) == (256, 4)
        assert len(first.attributes["schedule"].vectors) == 2
        assert isinstance(second.attributes["schedule"], ColumnReduction)
        assert "1.00 times the least possible" in wf.explain(*sums(large)).summary
        assert not any(
            isinstance(k.attributes["schedule"], RowColumnReduction)
            for k in kernels_of([r._storage for r in sums(small)], target)
        )


def test_sums_of_weighted_rows_are_columns_too() -> None:
    """Test that one kernel computes two sums along axis 0: one of the rows, and one of the rows multiplied by weights.

    The results have the same bits as those of separate kernels.
    """
    a = RNG.standard_normal((1500, 127))
    weights = a[:, :1].copy()

    def program(x: wf.Array) -> Sequence[wf.Array]:
        return x.mean(axis=0), (x * wf.asarray(weights)).sum(axis=0)

    check_bits(program, a, "simt")


def test_random_programs() -> None:
    for seed in (7, 58):
        assert check(seed, ("simt",)) == ""
