"""Tests of immediate operations on arrays that exceed the usual limit of immediate execution.

Most of these operations have their operands in memory, and no other operation could be fused with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import weft as wf
from tests.dsl.native_recording import recording_in_native_code
from tests.dsl.special_values import same, values
from weft.dsl.arrays.array import expr_of
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.immediate import native_immediate
from weft.fusion.record.unfused_sites import CALLS
from weft.fusion.run import reduce_arrays
from weft.runtime import override

IMMEDIATE = 16384


@pytest.mark.parametrize("code", ["d", "D", "q", "?"])
def test_larger_arrays_in_memory_are_destinations_at_the_call(code: str) -> None:
    size = 2 * IMMEDIATE
    given = np.resize(values(code), size), np.resize(values(code)[::-1], size)
    x, y = (wf.evaluate(wf.asarray(each.copy())) for each in given)
    for name in ("multiply", "logical_or") if code == "?" else ("multiply", "add"):
        with np.errstate(all="ignore"):
            with override(immediate=0):
                wanted = wf.evaluate(getattr(wf, name)(x, y))
            before = wf.statistics()["kernels"]
            assert getattr(np, name)(x, y, x) is x
        assert x._storage.buffer is not None and wf.statistics()["kernels"] == before and same(x, wanted)
    wf.add(x, y, out=x, casting="no")  # (not the default casting rule)
    later = x + y  # pending, and needs the current contents of memory
    old = np.asarray(x).copy()
    wf.add(x, x, out=x)
    assert same(later, wf.asarray(old) + y) and same(x, wf.asarray(old) + wf.asarray(old))
    with pytest.raises(TypeError):
        wf.add(x, 1j, out=wf.evaluate(wf.asarray(np.zeros(size))))


def test_outer_results_of_parts_of_a_pending_array_are_recorded() -> None:
    """Test that outer sums of a column and a row of a pending array are recorded."""
    x = np.random.default_rng(0).random((200, 200))
    array = wf.asarray(x)
    for k in range(3):
        array[:] = np.minimum(array[:], np.add.outer(array[:, k], array[k, :]))
        x[:] = np.minimum(x, np.add.outer(x[:, k], x[k, :]))
        assert array._storage.buffer is None
    assert same(array, x)


@pytest.mark.parametrize("given", [0.25, "values"])
def test_masked_assignments_of_a_block_are_done_at_the_call(given: Any) -> None:
    """Test which masked assignments run immediately.

    They are immediate if the mask is in memory, and the array is new or no recorded operation reads it. The results of
    earlier operations do not change.
    """
    x = np.random.default_rng(0).random((200, 300))
    mask, value = x > 0.5, given
    if given == "values":
        given, value = x[mask] * 2, wf.asarray(x[mask]) * 2
    wanted = x.copy()
    wanted[mask] = given
    array, new, found = wf.asarray(x), wf.zeros((200, 300)), wf.asarray(mask)
    new[found] = value
    assert new._storage.buffer is not None and same(new, np.where(mask, wanted, 0.0))
    doubled = array * 2
    array[array > 0.5] = value
    assert same(array, wanted) and same(doubled, x * 2)
    array[wf.evaluate(array > 0.9)] = 1
    assert array._storage.buffer is not None and same(array, np.where(wanted > 0.9, 1, wanted))
    array[array > 0.9] = 2
    assert array._storage.buffer is None and same(array, np.where(wanted > 0.9, 2, wanted))
    with pytest.raises(ValueError, match="boolean"):
        array[mask] = wf.zeros(5)


def test_logic_of_many_bools_is_done_at_the_call() -> None:
    source = np.random.default_rng(4)
    for size, there in ((4 * IMMEDIATE, True), (4 * IMMEDIATE + 1, False)):
        first, second = source.random(size) > 0.5, source.random(size) > 0.2
        a, b = wf.asarray(first), wf.asarray(second)
        pending = wf.asarray(np.arange(float(size))) * a
        before = wf.statistics()
        found = [a & ~b, a ^ b, wf.logical_or(a, b)]
        a &= ~b
        assert (wf.statistics() == before and all(each._values is not None for each in found)) == there
        whole = first & ~second
        for mine, theirs in zip(found, (whole, first ^ second, first | second), strict=True):
            np.testing.assert_array_equal(np.asarray(mine), theirs, strict=True)
        np.testing.assert_array_equal(np.asarray(a), whole, strict=True)
        np.testing.assert_array_equal(np.asarray(pending), np.arange(float(size)) * first)  # (the old values)


def test_memory_that_was_only_looked_up_is_written_to_at_the_call() -> None:
    """Test that ``x[indices] = 5`` writes to memory immediately if x is an input of the recording but no recorded
    operation reads x.
    """
    x = wf.asarray(np.zeros(60_000))
    expr_of(x)
    x[wf.asarray([1, 2])] = 5
    assert x._storage.buffer is not None and float(x[2]) == 5
    y = x + 1
    x[wf.asarray([1, 2])] = 7
    assert same(y[:4], [1.0, 6.0, 6.0, 1.0]) and same(x[:4], [0.0, 7.0, 7.0, 0.0])


@pytest.mark.parametrize("native", [False, True])
def test_destinations_of_ufuncs_are_written_to_at_the_call(native: bool) -> None:
    """Test immediate writes to `out` arrays: views, errors, and pending expressions."""
    if native:
        native_immediate.install_native_code()
    a = np.arange(6.0)
    x = wf.asarray(a)
    seen = x[1:]
    assert wf.add(x, 1, x) is x and same(seen, a[1:] + 1)
    assert wf.exp(x, x) is x and same(x, wf.exp(wf.asarray(a + 1)))
    flags = wf.asarray(a > 2)
    assert wf.logical_not(flags, flags) is flags and same(flags, a <= 2)
    assert wf.less(x, 3, flags) is flags and same(flags, np.asarray(x) < 3)
    whole = wf.asarray(np.arange(6))
    with pytest.raises(TypeError, match="same_kind"):
        wf.add(x, 1.5, whole)
    with pytest.raises(ValueError, match="broadcast"):
        wf.add(x, 1.5, wf.asarray(np.arange(4.0)))
    with pytest.raises(ValueError, match="read-only"):
        wf.add(x, 1.5, wf.broadcast_to(wf.asarray(1.0), (6,)))
    with override(immediate=0):
        later = whole + 1
    assert wf.multiply(whole, 3, whole) is whole
    assert same(later, np.arange(6) + 1) and same(whole, np.arange(6) * 3)


def test_pairs_of_index_arrays_write_to_large_arrays_at_the_call() -> None:
    x = wf.asarray(np.zeros((300, 300)))
    rows, columns = wf.asarray([1, 2]), wf.asarray([5, 6])
    x[rows, columns] = 4
    x[rows[:, None], columns] += 1
    assert x._storage.buffer is not None and float(x[1, 5] + x[2, 6] + x[1, 6] + x[2, 5]) == 12
    with pytest.raises(IndexError, match="broadcast"):
        x[rows, wf.asarray([1, 2, 3])] = 1
    with pytest.raises(IndexError, match="out of bounds"):
        x[rows, wf.asarray([1, 300])] = 1


@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
@pytest.mark.parametrize("name", ["all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "ptp"])
def test_searches_of_four_mebibytes_of_integers_are_done_at_the_call(name: str, dtype: str) -> None:
    native_immediate.install_native_code()
    size = (1 << 22) // np.dtype(dtype).itemsize
    numbers = np.random.default_rng(0).integers(0, 100, size).astype(dtype)
    x, longer = wf.asarray(numbers), wf.asarray(np.append(numbers, numbers[:1]))
    wf.evaluate(x, longer)
    before = wf.statistics()
    found = getattr(wf, name)(x)
    assert not isinstance(found, wf.Array)
    assert wf.statistics() == before
    assert found == getattr(np, name)(numbers)
    assert getattr(wf, name)(x, axis=0) == getattr(wf, name)(x, -1) == found
    assert wf.statistics() == before
    assert isinstance(getattr(wf, name)(longer), wf.Array)
    assert isinstance(getattr(wf, name)(x.reshape(1 << 10, -1), axis=0), wf.Array)


def smoothed(xp: Any, image: np.ndarray, rows: int) -> Any:
    """Compute the first rows of an array one after another, and return the array.

    A row depends on a pending array and on the previous row.
    """
    given = xp.asarray(image)
    sharp = (given + given) * 0.25
    made = xp.empty_like(given)
    made[0] = sharp[0]
    for k in range(1, rows):
        made[k] = sharp[k] * 0.5 + sharp[k - 1] * 0.25 + made[k - 1] * 0.125
    return made


def test_small_work_beside_large_pending_arrays_is_done_at_the_call() -> None:
    image = np.random.default_rng(0).normal(size=(300, 200))
    made = smoothed(wf, image, 300)
    assert made._storage.buffer is not None  # (nothing is pending any more)
    assert np.array_equal(np.asarray(made), smoothed(np, image, 300))
    with override(immediate=0):
        assert np.array_equal(np.asarray(smoothed(wf, image, 300)), np.asarray(made))


@pytest.mark.parametrize("turned", [False, True])
def test_small_work_begins_at_once_where_it_came_before_and_behind_copies(turned: bool) -> None:
    def lines(xp: Any, rounds: int) -> Any:
        x = xp.asarray(np.arange(90_000.0).reshape(300, 300))
        for _ in range(rounds):
            given = (x + 1) * 0.5
            if turned and type(given) is wf.Array:
                wf.evaluate(given)
            x = (given.T if turned else given).copy()
            for k in range(1, 300):
                x[k] -= x[k - 1] * 0.25
            wf.evaluate(*[each for each in (x, given) if type(each) is wf.Array])
            x += given
        return x

    assert np.array_equal(np.asarray(lines(wf, 3)), lines(np, 3))
    before = wf.statistics()
    made = lines(wf, 1)
    after = wf.statistics()
    assert after["kernels"] - before["kernels"] <= 3
    assert np.array_equal(np.asarray(made), lines(np, 1))


@pytest.mark.parametrize("walls", [2, 8])
def test_few_small_writes_between_large_operations_stay_recorded(walls: int) -> None:
    def steps(xp: Any) -> Any:
        x = xp.asarray(np.arange(40_000.0).reshape(200, 200))
        for _ in range(6):
            x = (x + 1) * 0.5 - x * 0.25
            for k in range(walls):
                x[k] = k
        return x

    made = steps(wf)
    assert made._storage.buffer is None
    assert np.array_equal(np.asarray(made), steps(np))


def test_few_elements_of_a_large_array_in_memory_are_taken_and_set_at_once() -> None:
    values = np.arange(60_000.0).reshape(300, 200)
    x, plain = wf.asarray(values), values.copy()
    wf.evaluate(x)
    before = wf.statistics()
    rows, columns = np.array([3, 299, 3]), np.array([[0], [1], [199]])
    for key in (
        rows,
        (rows, 5),
        (rows, slice(2, 9)),
        (rows[:, None], columns.T),
        (..., rows % 200),
        wf.asarray(rows),
        [7, 8],
    ):
        own = key if not isinstance(key, wf.Array) else rows
        taken = x[key]
        assert taken._device is not None or taken._storage.buffer is not None
        assert np.array_equal(np.asarray(taken), plain[own]) and taken.strides == plain[own].strides
        x[key] = 2.5
        plain[own] = 2.5
    assert x._storage.buffer is not None and np.array_equal(np.asarray(x), plain)
    assert wf.statistics() == before
    assert x[np.arange(300)]._device is None  # (as many indices as elements, so it is recorded)
    with pytest.raises(IndexError, match="out of bounds"):
        x[np.array([300])]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize(("rows", "columns"), [(300, 0), (0, 300), (300, 200)])
def test_products_of_large_matrices_in_memory_are_done_at_the_call(
    code: str, rows: int, columns: int, native: bool
) -> None:
    """Test that products of strided parts of a large matrix are computed at the call. The bits are the same as those of recorded products."""
    if native:
        native_immediate.install_native_code()
    matrix = wf.asarray(values(code, 300 * 300).reshape(300, 300)[::-1])
    wf.evaluate(matrix)
    other = matrix.T[:, :columns] if columns else matrix[:, 7]
    first = matrix[:rows, ::2] if rows else matrix[3, ::2]
    other = other[::2]
    with override(immediate=0):
        wanted = np.asarray(first @ other)
    for found in (first @ other, wf.dot(first, other)):
        assert found._device is not None or found._storage.buffer is not None
        assert same(found, wanted)
    pending = (matrix[:, ::2] * 2) @ other
    assert (pending._storage.buffer is None) == (pending.size > IMMEDIATE)


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "concatenate": lambda xp, x: xp.concatenate([x]),
    "ravel": lambda xp, x: x.reshape(-1, 4).T.ravel(),
    "take": lambda xp, x: xp.take(x, [3, 1]),
    "rows": lambda xp, x: x.reshape(-1, 4)[[5, 0, 5]],
    "copy": lambda xp, x: x[::-1].copy(),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", ["bool", "int16", "float64"])
def test_elements_are_moved_at_the_call_where_that_is_few_bytes(name: str, dtype: str) -> None:
    given = (np.arange(30_000) % 7).astype(dtype)
    x, y = wf.asarray(given), wf.zeros(30_000, dtype)
    wf.evaluate(x)
    before = wf.statistics()["plans"]
    for _ in range(2):
        found = MOVES[name](wf, x)
        assert same(found, MOVES[name](np, given))
    assert wf.statistics()["plans"] == before
    found[...] = 0  # (does not write to x)
    assert same(x, given)
    y += x  # a pending operand is not evaluated for a move
    moved = MOVES[name](wf, y)
    assert y._storage.buffer is None and same(moved, MOVES[name](np, given))


def test_neighbours_that_are_added_up_are_one_kernel() -> None:
    given = np.arange(30_000.0) % 251
    x = wf.asarray(given)
    wf.evaluate(x)
    before = wf.statistics()["kernels"]
    found = wf.evaluate(wf.roll(x, 1) + wf.roll(x, -1) - x)
    assert wf.statistics()["kernels"] == before + 1 and same(found, np.roll(given, 1) + np.roll(given, -1) - given)


def test_a_large_move_is_recorded() -> None:
    given = np.arange(40_000.0)
    x = wf.asarray(given)
    wf.evaluate(x)
    before = wf.statistics()["plans"]
    assert same(wf.roll(x, 3), np.roll(given, 3)) and wf.statistics()["plans"] > before


def test_a_move_that_stands_alone_is_done_at_the_call_next_time() -> None:
    given = np.arange(500_000, dtype="uint8")
    x = wf.asarray(given)
    wf.evaluate(x)

    def move(alone: bool) -> bool:
        found = wf.roll(x, 7)
        at_once = found._storage.buffer is not None
        if alone:
            wf.evaluate(found)
        else:
            assert same(found + 1, np.roll(given, 7) + 1)
        assert same(found, np.roll(given, 7))
        return at_once

    assert [move(True) for _ in range(3)] == [False, True, True]
    assert True in [not move(False) for _ in range(40)]  # together with other operations, the move is recorded again
    assert not any(move(False) for _ in range(3))


def test_reductions_along_the_only_axis_are_done_at_the_call() -> None:
    given = np.arange(100_000) % 251 == 250
    x = wf.asarray(given)
    wf.evaluate(x)
    before = wf.statistics()["plans"]
    for call in (lambda v: v.argmax(axis=0), lambda v: v.argmax(0), lambda v: v.max(-1), lambda v: v.any(axis=-1)):
        assert same(call(x), call(given))
    rows = np.ascontiguousarray((np.arange(120_000) * 7919 % 251).astype("uint8").reshape(-1, 3).T)
    y, turned = wf.asarray(rows), wf.asarray(rows).T
    wf.evaluate(y)
    for call in (lambda v: np.ptp(v, 1), lambda v: v.max(-1), lambda v: v.argmin(axis=1)):
        assert same(call(y), call(rows))
    assert wf.statistics()["plans"] == before
    assert same(turned.max(0), rows.max(1)) and same(y.max(0), rows.max(0)) and same(y.min((0, 1)), rows.min())
    assert same(wf.count_nonzero(y, 1), np.count_nonzero(rows, 1)) and same(
        y.max(1, keepdims=True), rows.max(1)[:, None]
    )
    with pytest.raises(np.exceptions.AxisError):
        x.argmax(axis=3)


def test_what_is_the_same_for_all_elements_is_cached_at_the_call_site() -> None:
    x = wf.asarray(np.arange(100_000))
    made = []
    with override(immediate=0):
        for _ in range(4):
            flags = wf.isnan(x)
            made.append(expr_of(flags))
            wf.evaluate(flags)
            assert not np.asarray(flags).any()
    assert all(node is made[-1] for node in made)


def test_pending_statistics_are_set_at_the_call_and_evaluated_together() -> None:
    """Test that reductions of a large array are evaluated in one go when a tuple of them is assigned to a row of a
    table.
    """
    x = np.random.default_rng(0).random((5, 2 * IMMEDIATE))
    table = wf.asarray(np.zeros((5, 3)))
    with recording_in_native_code():
        for k in range(5):
            row = wf.evaluate(wf.asarray(x[k]))
            before = wf.statistics()["kernels"]
            table[k] = (row + 1).sum(), (row - 1).sum(), (row * 2).max()
            if k == 0:
                first = wf.statistics()["kernels"] - before
            assert wf.statistics()["kernels"] - before == first
            assert table._storage.epoch is None  # (nothing was recorded with it)
    wanted = np.array([[(row + 1).sum(), (row - 1).sum(), (row * 2).max()] for row in x])
    np.testing.assert_allclose(np.asarray(table), wanted, rtol=1e-12)


@pytest.mark.parametrize(("left", "right"), [("f", "d"), ("d", "e"), ("B", "d"), ("f", "i"), ("D", "f"), ("B", "b")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_of_medium_sized_matrices_of_different_dtypes_are_done_at_the_call(
    left: str, right: str, order: Any
) -> None:
    numbers = np.random.default_rng(1).integers(0, 9, (2, 250, 250))
    x, y = numbers[0].astype(left, order=order), numbers[1].astype(right)
    a, b, wanted = wf.evaluate(wf.asarray(x)), wf.evaluate(wf.asarray(y)), x @ y
    counted = wf.statistics()
    for found in (a @ b, wf.dot(a, b), a.dot(b)):
        assert same(found, wanted)
    # (BLAS does not multiply integers)
    assert (wf.statistics()["kernels"] == counted["kernels"]) == (wanted.dtype.kind in "fc")


def test_operands_of_products_with_few_elements_are_evaluated_at_the_call() -> None:
    """Test that a product with a small result evaluates its operands, and is computed immediately."""
    matrix = wf.asarray(np.random.default_rng(0).random((2000, 20)))
    first, second = wf.evaluate(matrix - 0.5, matrix * 2)
    wanted = first.T @ second
    found = (matrix - 0.5).T @ (matrix * 2)
    assert found._device is not None and same(found, wanted)
    assert ((matrix - 0.5) @ (matrix * 2).T)._storage.buffer is None


def test_what_numpys_functions_make_is_taken_over_where_nobody_else_has_it() -> None:
    a, b = np.random.default_rng(0).random((2, 300, 300))
    kept = np.zeros((300, 300))
    x = wf.asarray(a)
    made = call_numpy(np.linalg.solve, (x, wf.asarray(b)), {})
    assert made._device is not None and same(made, wf.asarray(np.linalg.solve(a, b)))
    made += 1
    assert same(made, wf.asarray(np.linalg.solve(a, b) + 1))
    theirs = call_numpy(lambda _: kept, (x,), {})
    theirs += 1
    assert not kept.any() and np.asarray(theirs).all()
    parts = call_numpy(lambda _: kept[1:], (x,), {})
    parts += 1
    assert not kept.any()


@pytest.mark.parametrize("code", "dfiB?")
@pytest.mark.parametrize("size", [IMMEDIATE + 1, 2 * IMMEDIATE, 2 * IMMEDIATE + 1, 5 * IMMEDIATE + 3, 8 * IMMEDIATE])
def test_reductions_of_whole_arrays_in_memory_are_done_at_the_call(code: str, size: int) -> None:
    """Test that immediate reductions have the types and bits of recorded reductions.

    Neither they nor a later write run a kernel.
    """
    rng = np.random.default_rng(size)
    given = (rng.standard_normal(size) * 1e3 if code in "df" else rng.integers(0, 2, size)).astype(code)
    x = wf.evaluate(wf.asarray(given))
    names = ["sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin"]
    names += ["std", "var"] if code in "df" and size <= 2 * IMMEDIATE else []
    with np.errstate(all="ignore"), override(immediate=0):
        wanted = [np.asarray(getattr(x, name)())[()] for name in names]
    before = wf.statistics()["kernels"]
    with recording_in_native_code(), mock.patch.object(reduce_arrays, "OFTEN", 0):
        for _ in range(2):
            found = [getattr(x, name)() for name in names]
        assert x._storage.epoch is None or x._storage.buffer is not None
        x[:3] = 1
    assert wf.statistics()["kernels"] == before
    assert [type(each) for each in found] == [type(each) for each in wanted]
    assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]


@pytest.mark.parametrize("code", "dfi?")
@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_reductions_of_permuted_arrays_in_memory_are_done_at_the_call(code: str, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    given = (rng.standard_normal((37, 29, 41)) * 1e3 if code in "df" else rng.integers(0, 2, (37, 29, 41))).astype(code)
    x = wf.evaluate(wf.asarray(given)).transpose(axes)
    names = ["sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin"]
    with np.errstate(all="ignore"), override(immediate=0):
        wanted = [np.asarray(getattr(x, name)())[()] for name in names]
    before = wf.statistics()["kernels"]
    found = [np.asarray(getattr(x, name)()).tobytes() for name in names[:7]]
    assert wf.statistics()["kernels"] == before
    found += [np.asarray(getattr(x, name)()).tobytes() for name in names[7:]]
    assert found == [each.tobytes() for each in wanted]


def test_reductions_of_what_kernels_alone_know_are_recorded() -> None:
    zeros = np.zeros(2 * IMMEDIATE)
    zeros[7] = -0.0
    x, y = wf.evaluate(wf.asarray(zeros), wf.asarray(zeros * 1j))
    longer = wf.evaluate(wf.asarray(np.ones(16 * IMMEDIATE + 1)))
    for pending in (
        x.max(),
        x.min(),
        y.sum(),
        longer.sum(),
        (x + 1).sum(),
        longer.std(),
        longer[::2].sum(),
    ):
        assert isinstance(pending, wf.Array)
    assert float(longer.sum()) == longer.size and float(longer.std()) == 0


@pytest.mark.parametrize("code", "fd")
def test_products_of_vectors_in_memory_are_done_at_the_call(code: str) -> None:
    """Test that immediate products of vectors have the same bits as recorded products."""
    for size in (IMMEDIATE + 1, 3 * IMMEDIATE + 5):
        x, y = (
            wf.evaluate(wf.asarray(each.astype(code))) for each in np.random.default_rng(1).standard_normal((2, size))
        )
        with override(immediate=0):
            wanted = np.asarray(x @ y)[()]
        before = wf.statistics()["kernels"]
        for found in (x @ y, wf.dot(x, y), x.dot(y), np.asarray(x).copy() @ y):
            assert type(found) is type(wanted) and found.tobytes() == wanted.tobytes()
        assert wf.statistics()["kernels"] == before
        assert isinstance(x[::-1] @ y, wf.Array) and isinstance(wf.sin(x) @ y, wf.Array)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: -x,
        lambda m, x: x * 2,
        lambda m, x: m.equal(x, 4),
        lambda m, x: x.astype(np.float32),
        lambda m, x: m.tile(x, 2),
        lambda m, x: m.repeat(x, 3),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_operations_that_were_evaluated_alone_are_done_at_the_call(function: Callable[..., Any], dtype: type) -> None:
    given = np.random.default_rng(0).integers(0, 9, 480_000 // np.dtype(dtype).itemsize).astype(dtype)
    x, wanted = wf.evaluate(wf.asarray(given)), function(np, given)
    larger = wf.evaluate(wf.asarray(np.resize(given, 40 * given.size)))
    for _ in range(20):  # (Python 3.11 changes the offset of a call of a builtin when it specializes the call)
        function(wf, x[:4])
    kernels = []
    for _ in range(CALLS + 2):
        before = wf.statistics()["kernels"]
        with override(threads=1):  # (several threads would be faster than NumPy)
            found = function(wf, x)
            assert same(found, wanted)
        kernels.append(wf.statistics()["kernels"] - before)
    assert kernels == [1, *[0] * CALLS, 1]  # (then fusion is tried again)
    for _ in range(2):
        before = wf.statistics()["kernels"]
        wf.evaluate(function(wf, larger))
        assert wf.statistics()["kernels"] == before + 1


def test_operations_that_were_fused_stay_recorded() -> None:
    x = wf.evaluate(wf.asarray(np.arange(60_000.0)))
    for _ in range(3):
        doubled = x * 2
        assert doubled._device is None
        assert same(doubled + 1, np.arange(60_000.0) * 2 + 1)
