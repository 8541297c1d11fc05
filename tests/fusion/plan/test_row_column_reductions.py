"""Tests of reductions along rows and columns of an array in one kernel.

The results have the same bits as those of two kernels, and the array is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import weft as wf
from weft.codegen import CPU
from weft.fusion import kernels_of
from weft.fusion.plan import time_steps

pytestmark = pytest.mark.cpu

RNG = np.random.default_rng(11)
TALL = RNG.standard_normal((3001, 100)).astype(np.float32)
WIDE = RNG.standard_normal((5, 300_001)).astype(np.float32)
DEEP = RNG.standard_normal((30, 70, 130)).astype(np.float32)

Program = Callable[[wf.Array], Sequence[wf.Array]]


def bits(array: wf.Array) -> bytes:
    return np.asarray(array).tobytes()


def check(program: Program, a: np.ndarray, kernels: int | None = 1) -> None:
    """Assert that results have the same bits, whether they are computed together or one by one.

    `kernels` is the expected number of kernels of the joint computation. If it is None, any number is accepted.
    """
    x = wf.asarray(a)
    together = program(x)
    if kernels is not None:
        assert len(wf.explain(*together).kernels) == kernels
    wf.evaluate(*together)
    for k, found in enumerate(together):
        alone = wf.evaluate(program(wf.asarray(a))[k])
        assert bits(found) == bits(alone), k


@pytest.mark.parametrize("a", [TALL, WIDE], ids=["blocks of rows", "blocks of columns"])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x.sum(axis=0), x.sum(axis=1)),
        lambda x: (x.sum(axis=1), x.sum(axis=0)),
        lambda x: (x.max(axis=0), x.mean(axis=1)),
        lambda x: (x.argmax(axis=0), x.argmin(axis=1)),
        lambda x: (x.argmax(axis=1), x.sum(axis=0), x.min(axis=0), (x * x).sum(axis=1)),
        lambda x: ((x * 2 + 1).sum(axis=0), (x * 2 + 1).mean(axis=1)),
        lambda x: (wf.sqrt((x * x).sum(axis=0)) + 1, 1 / abs(x).max(axis=1), x.mean(axis=0)),
        lambda x: ((x > 0).any(axis=0), (x > 2).sum(axis=1)),
    ],
)
def test_one_kernel_has_the_bits_of_two(program: Program, a: np.ndarray) -> None:
    check(program, a)


def test_the_values_are_right() -> None:
    x = wf.asarray(TALL)
    columns, rows, where = (x * 2).sum(axis=0), x.mean(axis=1), x.argmax(axis=0)
    assert len(wf.explain(columns, rows, where).kernels) == 1
    wf.evaluate(columns, rows, where)
    np.testing.assert_allclose(columns, (TALL * 2.0).sum(axis=0, dtype=np.float64), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(rows, TALL.mean(axis=1, dtype=np.float64), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(where, TALL.argmax(axis=0))


def test_what_both_read_is_made_once_and_handed_on() -> None:
    """Test two sums that read the same elementwise result. One kernel computes this result once, stores it, and sums it along both axes.

    The kernel does not read the elementwise result from memory.
    """

    def program(x: wf.Array) -> Sequence[wf.Array]:
        y = wf.exp(x) + 1
        return y, y.sum(axis=0), y.sum(axis=1)

    check(program, TALL)
    x = wf.asarray(TALL)
    found = wf.explain(*program(x))
    assert "1.00 times the least possible" in found.summary


def test_reductions_wait_for_all_blocked_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a reduction that reads the first time step's result. The reduction must wait for the kernel that computes all three time steps."""
    monkeypatch.setitem(vars(CPU), "steps_bytes", 0)
    monkeypatch.setattr(time_steps, "LEAST_GAIN", -(10**6))

    def program(x: wf.Array) -> Sequence[wf.Array]:
        columns, u = x.sum(axis=0), x * 1
        for turn in range(3):
            u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1]) + columns[1:-1]
            if turn == 0:
                first = u.copy()
        return columns, u, (x + first).sum(axis=1)

    check(program, TALL, 3)


def test_what_nobody_wants_is_never_written() -> None:
    x = wf.asarray(TALL)
    y = wf.tanh(wf.exp(x) / (1 + x * x))
    columns, rows = y.sum(axis=0), y.sum(axis=1)
    del y
    found = wf.explain(columns, rows)
    assert len(found.kernels) == 1
    assert "1.00 times the least possible" in found.summary


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int8", "uint64", "bool", "complex64"])
def test_dtypes(dtype: str) -> None:
    a = (TALL * 10).astype(dtype)
    check(lambda x: (x.sum(axis=0), x.sum(axis=1)), a, None)
    if dtype != "complex64":
        check(lambda x: (x.max(axis=1), x.sum(axis=0), x.argmax(axis=0)), a, None)


@pytest.mark.parametrize(
    ("one", "other", "kernels"),
    [(0, 1, 2), (1, 2, 1), (0, 2, 1), (0, (1, 2), 2), ((0, 1), 2, 1), ((0, 1), (2,), 1), ((0, 1), (1, 2), 2)],
)
def test_three_axes(one: int | tuple[int, ...], other: int | tuple[int, ...], kernels: int) -> None:
    check(lambda x: (x.sum(axis=one), x.sum(axis=other)), DEEP, kernels)
    check(lambda x: (x.max(axis=other), x.mean(axis=one, keepdims=True)), DEEP, kernels)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[1:-1, 3:-2],
        lambda a: a[::3],
        lambda a: a[:, ::2],
        lambda a: a[::-1, ::-1],
        lambda a: a[:, :1],
        lambda a: a[:1],
        lambda a: a[:, :0],
        lambda a: a[:0],
        lambda a: a[:, :33],
        lambda a: a[:700, :40],
    ],
)
def test_views(view: Callable[[np.ndarray], np.ndarray]) -> None:
    def program(x: wf.Array) -> Sequence[wf.Array]:
        return view(x).sum(axis=0), view(x).sum(axis=1), (view(x) - 1).sum(axis=0)

    check(program, TALL, None)


def test_rows_of_another_array_and_columns_of_one() -> None:
    """Combine an array with a broadcast row or column of another array, and test the sums along both axes."""
    weights, scales = wf.asarray(TALL[0] * 2), wf.asarray(TALL[:, 0] * 2)
    check(lambda x: ((x * weights).sum(axis=0), (x * weights).sum(axis=1)), TALL)
    check(lambda x: ((x * scales[:, None]).sum(axis=0), (x * scales[:, None]).sum(axis=1)), TALL)
    check(lambda x: ((x * scales[:, None] + weights).sum(axis=0), x.sum(axis=1)), TALL)


def test_what_needs_the_one_before_the_other_stays_two() -> None:
    check(lambda x: (x.sum(axis=1), (x / x.sum(axis=1, keepdims=True)).sum(axis=0)), TALL, 2)
    check(lambda x: (x.sum(axis=1), (x - x.sum(axis=0)).sum(axis=1)), TALL, 2)


def test_overwriting_what_was_folded() -> None:
    a = TALL.copy()
    x = wf.asarray(a.copy())
    columns = x.sum(axis=0)
    x[:] = x + 1
    rows = x.sum(axis=1)
    wf.evaluate(columns, rows, x)
    np.testing.assert_allclose(columns, a.sum(axis=0), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(x, a + 1)
    np.testing.assert_allclose(rows, (a + 1).sum(axis=1), rtol=1e-4)


@pytest.mark.usefixtures("cold_cache")
def test_other_sizes_find_the_kernels() -> None:
    def both(rows: int, columns: int) -> None:
        a = np.ones((rows, columns), np.float32)
        x = wf.asarray(a)
        found = x.sum(axis=0), x.sum(axis=1)
        wf.evaluate(*found)
        np.testing.assert_array_equal(found[0], a.sum(axis=0))
        np.testing.assert_array_equal(found[1], a.sum(axis=1))

    for rows in (2000, 2001, 2002):
        both(rows, 90)
    before = wf.statistics()["compilations"]
    for rows, columns in ((3000, 90), (3001, 91), (4003, 150), (2777, 333), (40, 90), (700, 10)):
        both(rows, columns)
    assert wf.statistics()["compilations"] - before <= 4


def test_the_kernel_says_what_it_is() -> None:
    x = wf.asarray(TALL)
    found = wf.explain(x.sum(axis=0), x.sum(axis=1))
    assert "of rows and of columns in one pass" in found.kernels[0].title
    assert {line.rsplit(" ", 1)[1] for line in found.kernels[0].formulas} == {"i", "j"}
    r = x.sum(axis=0), x.sum(axis=1)
    assert [kernel.name for kernel in kernels_of([r[0]._storage, r[1]._storage])] == ["partial", "finish"]
