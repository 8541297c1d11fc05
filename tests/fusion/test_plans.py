"""Tests of plans: the number of kernels, in-place updates, and compilation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fusion import explain_storages
from weft.runtime import override


def launches(array: wf.Array) -> int:
    return len(explain_storages([array._storage]).kernels)


N = 64
A = np.random.default_rng(0).random((N, N))


def polynomial() -> wf.Array:
    x = wf.asarray(A)
    y = x
    for k in range(30):
        y = y * x + k
    return y


def jacobi_step() -> wf.Array:
    x, new = wf.asarray(A), wf.zeros((N, N))
    new[1:-1, 1:-1] = 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])
    return new


PROGRAMS: dict[str, tuple[Callable[[], wf.Array], int]] = {
    "axpy chain": (lambda: (lambda x: 2.0 * x + 3.0 * x * x - 1.0)(wf.asarray(A)), 1),
    "polynomial": (polynomial, 1),
    "transpose and add": (lambda: (lambda x: x + x.T)(wf.asarray(A)), 1),
    "sum of squared differences": (lambda: ((wf.asarray(A) - wf.asarray(A.T.copy())) ** 2).sum(), 1),
    "row means": (lambda: wf.exp(wf.asarray(A)).mean(axis=1), 1),
    "pairwise distances": (
        lambda: (lambda p: wf.sqrt(((p[:, None, :] - p[None, :, :]) ** 2).sum(-1)))(wf.asarray(A[:, :3].copy())),
        1,
    ),
    "softmax": (
        lambda: (lambda e: e / e.sum(1, keepdims=True))(wf.exp(wf.asarray(A) - wf.asarray(A).max(1, keepdims=True))),
        3,
    ),
    "one Jacobi step (fill, stencil)": (jacobi_step, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_programs(name: str) -> None:
    build, wanted = PROGRAMS[name]
    assert launches(build()) <= wanted


def test_several_outputs_share_a_kernel() -> None:
    x = wf.asarray(A)
    y = x * 2
    z = y + 1
    total = z.sum()
    wf.reset_statistics()
    wf.evaluate(y, z, total)
    assert wf.statistics()["kernels"] == 1
    np.testing.assert_array_equal(z, A * 2 + 1)


@pytest.mark.usefixtures("cold_cache")
def test_a_new_size_compiles_nothing() -> None:
    def program(n: int) -> float:
        x = wf.arange(float(n))
        return float((wf.sqrt(x) * 2 + x[::-1]).sum())

    program(1000)
    program(1001)  # the reversed view may or may not begin at a multiple of 16 bytes
    wf.reset_statistics()
    for n in range(1002, 1060):
        assert program(n) == pytest.approx(float((np.sqrt(np.arange(n)) * 2 + np.arange(n)).sum()))
    assert wf.statistics()["compilations"] == 0


@pytest.mark.usefixtures("cold_cache")
def test_changing_constants_compile_a_general_kernel_once() -> None:
    x = wf.asarray(A)
    for k in range(3):
        wf.evaluate(x * (k + 0.5))
    wf.reset_statistics()
    for k in range(3, 20):
        np.testing.assert_array_equal(wf.evaluate(x * (k + 0.5)), A * (k + 0.5))
    assert wf.statistics()["compilations"] == 0


def test_updates_run_in_place_unless_the_old_version_is_needed() -> None:
    x = wf.asarray(np.arange(10.0))
    wf.evaluate(x)
    before = x._storage.buffer.address  # type: ignore[union-attr]
    x[2:5] = 0
    wf.evaluate(x)
    assert x._storage.buffer.address == before  # type: ignore[union-attr]
    old = x * 1
    kept = x.numpy()
    x[0] = 50
    wf.evaluate(x)
    assert kept[0] == 0
    assert float(old[0]) == 0
    assert float(x[0]) == 50


@pytest.mark.cpu
def test_explain_says_what_runs_and_runs_nothing() -> None:
    x = wf.asarray(A)
    y = wf.exp(x) / wf.exp(x).sum()
    wf.reset_statistics()
    text = repr(wf.explain(y))
    assert wf.statistics()["kernels"] == 0
    assert "2 kernels" in text
    assert "exp(x0)" in text
    assert "test_plans.py" in text
    assert "boundary: it needs the complete reduction" in text or "different loops" in text


def test_threads_share_arrays() -> None:
    x = wf.asarray(A)
    shared = x * 2 + 1
    found: list[np.ndarray] = []

    def work(k: int) -> None:
        for _ in range(20):
            found.append(np.array((shared + k).sum()) - k * A.size)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(found, (A * 2 + 1).sum())


@pytest.mark.parametrize("shape", [(4, 4), (9, 20), (64, 65), (5, 6, 7)])
def test_a_step_in_place_is_one_kernel_into_new_memory(shape: tuple[int, ...]) -> None:
    start = np.random.default_rng(1).random(shape).astype(np.float32)
    inside = (slice(1, -1),) * len(shape)

    def step(u: np.ndarray) -> np.ndarray:
        total = u[inside] * 1
        for axis in range(len(shape)):
            for to in (slice(None, -2), slice(2, None)):
                total = total + u[(*inside[:axis], to, *inside[axis + 1 :])]
        u[inside] = total * np.float32(0.25)
        return u

    u = wf.asarray(start)
    wf.evaluate(u)
    wf.reset_statistics()
    for _ in range(3):
        step(u)  # type: ignore[arg-type]
    wf.evaluate(u)
    large_part = np.prod(shape) <= 1.5 * np.prod([n - 2 for n in shape])
    assert wf.statistics()["kernels"] == (3 if large_part else 6)
    wanted = start.copy()
    for _ in range(3):
        step(wanted)
    np.testing.assert_array_equal(u.numpy(), wanted)


def test_a_step_that_would_read_outside_of_a_smaller_array_is_two_kernels() -> None:
    force = np.random.default_rng(2).random((30, 30))
    start = np.random.default_rng(3).random((32, 32))

    def step(u: np.ndarray, f: np.ndarray) -> np.ndarray:
        u[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] - f
        return u

    u, f = wf.asarray(start), wf.asarray(force)
    step(u, f)  # type: ignore[arg-type]
    assert launches(u) == 2
    np.testing.assert_array_equal(u.numpy(), step(start.copy(), force))


def test_a_factor_of_each_row_does_not_turn_the_loops() -> None:
    """Test that a factor for each row does not cause a loop interchange. The loops follow the memory order of the array."""
    x, f = wf.asarray(np.ones((9, 8, 70))), wf.asarray(np.ones(8))
    (kernel,) = wf.compile(x[:, :, 1:] * (f * f)[None, :, None])
    (outermost,) = (o for o in kernel.kernel.body.operations if o.opcode == "for")
    assert not any(o.opcode == "load" for o in outermost.regions[0].operations)


def test_updates_of_different_elements_share_a_kernel() -> None:
    a = np.random.default_rng(4).random((20, 30))

    def fill(xp: Any, x: Any, out: Any) -> Any:
        out[:, :, 0] = x * 2
        out[:, :, 1] = xp.exp(x) + out[:, :, 0]
        out[:, :, 2] = x[::-1]
        return out

    x, out = wf.asarray(a), wf.asarray(np.zeros((20, 30, 3)))
    wf.evaluate(x, out)
    fill(wf, x, out)
    assert launches(out) == 1
    np.testing.assert_allclose(out, fill(np, a, np.zeros((20, 30, 3))), rtol=1e-15)


def test_updates_of_overlapping_elements_stay_in_order() -> None:
    def fill(x: Any, out: Any) -> Any:
        out[1:40] = x[1:40]
        out[:39] = x[:39] * 2
        out[3:42] = x[3:42] + out[3:42]
        out[10:49:3] = 7
        return out

    a = np.arange(50.0)
    x, out = wf.asarray(a), wf.asarray(np.zeros(50))
    wf.evaluate(x, out)
    np.testing.assert_array_equal(fill(x, out), fill(a, np.zeros(50)))


def test_folds_that_compute_the_same_are_one() -> None:
    """Test that a mean and the mean inside a standard deviation are one reduction."""
    a = np.random.default_rng(5).random((1000, 64))
    x = wf.asarray(a)
    found = (x - x.mean(axis=0)) / x.std(axis=0)
    folds = [line for kernel in wf.explain(found).kernels for line in kernel.formulas if "reduce_add" in line]
    assert len(folds) == 2
    np.testing.assert_allclose(found, (a - a.mean(axis=0)) / a.std(axis=0), rtol=1e-10)


def test_folds_that_somebody_asks_for_stay_their_own() -> None:
    x = wf.asarray(A)
    first = x.sum(axis=1)
    second = x.sum(axis=1)
    other = x.sum(axis=1) + x.sum(axis=1)
    first_again = first + 0
    second[0] = 7
    wf.evaluate(first, second, other, first_again)
    np.testing.assert_array_equal(np.asarray(other), np.asarray(first) * 2)
    np.testing.assert_array_equal(np.asarray(first_again), np.asarray(first))
    assert float(second[0]) == 7
    np.testing.assert_array_equal(np.asarray(second)[1:], np.asarray(first)[1:])


def test_a_plan_finds_results_in_the_slots_of_its_own_epoch() -> None:
    def rest_of(values: np.ndarray, between: bool) -> np.ndarray:
        x = wf.asarray(values)
        doubled = x * 2
        if between:
            wf.asarray(values + 100) * 3  # takes a slot, and is dropped
        kept = doubled + 1
        wf.evaluate(doubled)  # the remaining pending operation reads this result from memory
        return np.asarray(kept)

    values = np.arange(5.0)
    for between in (False, True, False):
        np.testing.assert_array_equal(rest_of(values, between), values * 2 + 1)


@pytest.mark.parametrize("make", [lambda x: (x * x).sum(), lambda x: wf.cumsum(x)])
def test_blocks_count_their_own_elements(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Test the reported size of kernels that compute one partial result per block. It is the number of input elements, not of blocks.

    The number of threads depends on the reported number.
    """
    n = 300_000
    with wf.device("cpu"), override(debug=("launch",)):
        wf.evaluate(make(wf.asarray(np.ones(n, np.float32))))
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("launch partial")]
    assert told and all(line.endswith(f", {n} elements") for line in told)


def test_an_update_that_joins_an_older_kernel_waits_for_who_reads_what_it_overwrites() -> None:
    a, b = wf.arange(10.0).copy(), wf.arange(10.0) + 3
    wf.evaluate(a, b)
    doubled = b[1:7] * 2
    table = a[1:7, None] * b[2:]
    a[1:7] += doubled
    wf.evaluate(a, doubled, table)
    assert np.array_equal(table, np.arange(1.0, 7)[:, None] * np.arange(5.0, 13))
    assert np.array_equal(a[1:7], np.arange(1.0, 7) + 2 * np.arange(4.0, 10))
