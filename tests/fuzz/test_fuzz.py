"""Tests of a sample of the random programs.

``python -m tests.fuzz`` runs many more programs.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.fuzz import disturbed, graphs, lengths, loops, orders, row_columns, rows, sizes
from tests.fuzz.programs import check, differences, run_numpy, run_program, short_program
from weft.fusion.graph.sizes import Trace
from weft.runtime import override


def seeds(start: int, stop: int, step: int) -> list[Any]:
    """Return the first seed of each group of `step` consecutive seeds.

    The second half of the groups is tested with ``-m slow``.
    """
    groups = range(start, stop, step)
    everyday = (len(groups) + 1) // 2
    return [*groups[:everyday], *(pytest.param(seed, marks=pytest.mark.slow) for seed in groups[everyday:])]


@pytest.mark.parametrize("seed", seeds(0, 80, 10))
def test_random_programs(seed: int) -> None:
    for k in range(seed, seed + 10):
        assert check(k) == ""


@pytest.mark.parametrize("seed", seeds(1000, 1030, 10))
def test_random_programs_with_a_gpus_schedules(seed: int) -> None:
    for k in range(seed, seed + 10):
        generator, start = short_program(k)
        found = run_program(generator.lines, start, device="simt::sanitized")
        wrong = differences(found, run_numpy(generator.lines, start), bool(generator.inexact))
        assert wrong == "", "\n".join([f"seed {k}", *generator.lines])


def test_random_programs_with_small_arrays_on_the_host_of_a_gpu() -> None:
    """Test programs on a stand-in for a GPU that keeps small arrays in host memory."""
    command = [sys.executable, "-m", "tests.fuzz", "--programs", "12", "--device", "stand-in", "--immediate", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "12 programs, 0 differ\n", done.stdout + done.stderr


@pytest.mark.parametrize("seed", seeds(4, 12, 2))
def test_random_rows_on_every_device(seed: int) -> None:
    for k in range(seed, seed + 2):
        assert rows.check(k, most=3000) == ""


def test_what_a_row_wrote_is_read_back_behind_it() -> None:
    """Test that a GPU thread with several elements of a row reads them back only after it has stored them."""
    assert rows.check(51160, ("simt",)) == ""


@pytest.mark.parametrize("seed", seeds(0, 24, 6))
def test_random_mixtures(seed: int) -> None:
    for k in range(seed, seed + 6):
        assert graphs.check(k, ("cpu",)) == ""


@pytest.mark.parametrize("seed", seeds(0, 24, 6))
def test_random_programs_evaluated_in_any_order(seed: int) -> None:
    for k in range(seed, seed + 6):
        assert orders.check(k) == ""


@pytest.mark.parametrize("seed", [1300165, 1300731])
def test_sums_of_rows_have_one_order_where_their_kernel_reads_columns(seed: int) -> None:
    with override(verify=True):
        assert orders.check(seed) == ""


@pytest.mark.parametrize("seed", [1410342, 1372182])
def test_nothing_is_read_where_nothing_is_computed(seed: int) -> None:
    """Test programs that reduce empty arrays or index with empty arrays. An earlier version of weft read an element that does not exist."""
    assert orders.check(seed) == ""


@pytest.mark.parametrize("seed", seeds(100, 106, 3))
def test_random_programs_evaluated_in_any_order_by_a_gpus_schedules(seed: int) -> None:
    for k in range(seed, seed + 3):
        assert orders.check(k, "simt") == ""


@pytest.mark.parametrize("seed", [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (103, 106))])
@pytest.mark.parametrize("device", ["simt", "simt::backward", "simt::sanitized"])
def test_random_mixtures_with_a_gpus_schedules(device: str, seed: int) -> None:
    # (each device has a separate program)
    k = seed + ("backward" in device) + 2 * ("sanitized" in device)
    assert graphs.check(k, (device,)) == ""


@pytest.mark.parametrize("seed", [0, 1, 2, 9111])
def test_random_folds_of_rows_and_columns(seed: int) -> None:
    assert row_columns.check(seed) == ""


def test_sums_of_columns_keep_their_bits_beside_those_that_read_rows_too() -> None:
    """Test that the bits of a column sum do not change if other sums are computed at the same time."""
    assert row_columns.check(2026294, ("simt",)) == ""


def test_random_loops() -> None:
    for k in range(6):
        assert loops.check(k) == ""


@pytest.mark.parametrize("seed", seeds(0, 8, 2))
def test_random_loops_over_lengths(seed: int) -> None:
    for k in range(seed, seed + 2):
        assert lengths.check(k) == ""


def test_random_loops_over_lengths_find_plans_used_where_they_are_not_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that `lengths.check` detects plans that are wrongly reused.

    The test drops all recorded conditions except equalities.
    """

    def decide(trace: Trace, op: str, a: object, b: object) -> bool:
        kept = len(trace._lines)
        holds = decided(trace, op, a, b)
        if op != "==":
            del trace._lines[kept:]
        return holds

    decided = Trace.decide
    monkeypatch.setattr(Trace, "decide", decide)
    assert any(lengths.check(k) for k in range(6))


def test_random_programs_at_many_sizes() -> None:
    for k in range(5):
        assert sizes.check(k) == ""


def test_disturbed_programs() -> None:
    for k in range(3):
        assert disturbed.check(k) == ""


def test_the_mixtures_hold_what_they_should() -> None:
    """Test that the random programs contain statements of all important kinds. A kind would be missing if NumPy rejected all its statements."""
    text = "\n".join("\n".join(graphs.Generator(seed).world.lines) for seed in range(150))
    for word in (
        "evaluate(",
        "see(",
        "out=",
        ".at(",
        "roll(",
        "pad(",
        "cumsum",
        "argmax",
        "take",
        "einsum",
        "xp.nan",
        "[j",
        "for _ in",
    ):
        assert word in text, word


def test_mixtures_keep_to_what_does_not_depend_on_the_machine() -> None:
    x = np.zeros((2, 5, 3))
    picked, turned = graphs.own(x[:, np.arange(2)], [x]), x.T  # (NumPy's result is a view of a hidden array)
    assert picked.flags.c_contiguous and graphs.own(turned, [x]) is turned
    assert not graphs.own(np.diag(np.ones((2, 2))), []).flags.writeable
    back = np.ones((4, 2))[:, ::-1]
    assert graphs.own(back, []) is back
    world = graphs.World({"x": np.ones(4, "uint64"), "y": -np.ones(4), "z": np.ones(4)}, {})
    assert not world.accept("for i in range(3): x[i] = x[i - 1] + y[i]")
    assert world.accept("for i in range(3): z[i] = z[i - 1] + y[i]")
