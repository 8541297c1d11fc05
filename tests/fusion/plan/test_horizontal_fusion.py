"""Tests of values that are computed in the same kernels as the requested values.

The bits of a sum do not depend on the other results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

A = np.random.default_rng(5).standard_normal((150, 70)).astype(np.float32)


def kernels() -> int:
    return wf.statistics()["kernels"]


def test_reading_one_value_evaluates_its_siblings() -> None:
    x = wf.asarray(A)
    top, mean, squares = x.max(), x.mean(), (x * x).sum()
    wf.reset_statistics()
    assert float(top) == A.max()
    assert kernels() == 1
    assert float(mean) == pytest.approx(A.mean(), rel=1e-5, abs=1e-7)
    assert float(squares) == pytest.approx((A * A).sum(), rel=1e-5)
    assert kernels() == 1


def test_what_costs_more_is_left_alone() -> None:
    x, y = wf.asarray(A), wf.asarray(A + 1)
    asked, large, other, columns = x.sum(), x * 2, y.sum(), x.sum(axis=0)
    wf.reset_statistics()
    float(asked)
    assert kernels() == 1
    assert wf.statistics()["bytes"] == A.nbytes + 4
    assert float(other) == pytest.approx((A + 1).sum(), rel=1e-5)
    np.testing.assert_array_equal(large, A * 2)
    np.testing.assert_allclose(columns, A.sum(axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.cpu
def test_folds_around_a_mean_come_with_it() -> None:
    x = wf.asarray(np.tile(A, (10, 1)))
    mean, spread, distances = x.mean(), x.std(), ((x - x.mean()) ** 2).sum()
    wf.reset_statistics()
    assert float(mean) == pytest.approx(A.mean(), rel=1e-5, abs=1e-6)
    assert float(spread) == pytest.approx(A.std(), rel=1e-5)
    assert float(distances) == pytest.approx(A.var() * A.size * 10, rel=1e-5)
    assert kernels() == 2  # one for partial results, and one that combines them


def test_what_goes_on_from_an_update_is_evaluated_with_it() -> None:
    def step(e: Any, h: Any, fading: Any) -> tuple[Any, Any]:
        h[:, :-1] -= 0.5 * (e[:, 1:] - e[:, :-1])
        e[:, 1:-1] += 0.5 * (h[:, 1:-1] - h[:, :-2])
        e *= fading
        h *= fading
        return e, h

    x, y, z = (A.astype(np.float64) + k for k in range(3))
    e, h = step(wf.asarray(x), wf.asarray(y), wf.asarray(z))
    wf.evaluate(wf.asarray(A))
    wf.reset_statistics()
    first = float(e[7, 5])
    moved, made = wf.statistics()["bytes"], kernels()
    mine = np.asarray(h)  # (already computed)
    assert (wf.statistics()["bytes"], kernels()) == (moved, made)
    theirs, wanted = step(x.copy(), y.copy(), z)
    assert first == theirs[7, 5] and np.array_equal(mine, wanted) and np.array_equal(e, theirs)


def test_donating_writes_are_evaluated_with_a_number() -> None:
    def descend(x: Any, r: Any, p: Any, ap: Any, steps: int) -> list[float]:
        found = []
        for _ in range(steps):
            x += 0.5 * p
            r -= 0.25 * ap
            found.append(float((r * r).sum()))
            p = r + 0.125 * p
        return found

    given = [A.astype(np.float64) + k for k in range(4)]
    x, r, p, ap = wf.evaluate(*[wf.asarray(each) for each in given])
    other = x * 2  # (x shares its memory with a pending expression)
    descend(x, r, p, ap, 2)
    wf.evaluate(x, other)
    found = descend(x, r, p, ap, 3)
    assert x._storage.buffer is not None  # (if it were pending, it would need another plan later)
    wanted = [each.copy() for each in given]
    descend(*wanted, 2)
    assert found == pytest.approx(descend(*wanted, 3), rel=1e-12)
    np.testing.assert_array_equal(x, wanted[0])
    np.testing.assert_array_equal(other, given[0] * 2)


def test_parts_that_write_as_much_as_there_is_share_a_kernel() -> None:
    def apply(u: Any, east: Any, north: Any, diagonal: Any) -> Any:
        found = diagonal * u
        found[1:] -= east * u[:-1]
        found[:-1] -= east * u[1:]
        found[:, 1:] -= north * u[:, :-1]
        found[:, :-1] -= north * u[:, 1:]
        return found

    rng = np.random.default_rng(7)
    shapes = (260, 250), (259, 250), (260, 249), (260, 250)  # (too large to count as a small result)
    given = [rng.standard_normal(shape) for shape in shapes]
    wf.reset_statistics()
    found = np.asarray(apply(*map(wf.asarray, given)))
    assert kernels() == 1 and np.array_equal(found, apply(*given))


def test_siblings_of_an_overwritten_version_keep_its_values() -> None:
    x = wf.asarray(A)
    low, high = x.min(), x.max()
    x[:] = 0
    total = x.sum()
    assert float(low) == A.min()
    assert float(total) == 0
    assert float(high) == A.max()


COMPANY: dict[str, Callable[[wf.Array], list[wf.Array]]] = {
    "an index": lambda x: [x.argmax()],
    "a wide type": lambda x: [x.astype(np.float64).sum()],
    "rows": lambda x: [x.sum(axis=1)],
    "a broadcast row": lambda x: [(x + wf.arange(70, dtype=np.float32)).max()],
    "a transposed read": lambda x: [(x.T * wf.asarray(A.T.copy())).sum()],
    "a result beside it": lambda x: [x + wf.arange(70, dtype=np.float32)],
}


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", COMPANY)
def test_a_sum_has_the_same_bits_in_any_company(name: str, axis: int | None) -> None:
    alone = wf.evaluate(wf.asarray(A).sum(axis=axis))
    x = wf.asarray(A)
    total, *_ = wf.evaluate(x.sum(axis=axis), *COMPANY[name](x))
    np.testing.assert_array_equal(np.asarray(total), np.asarray(alone))
