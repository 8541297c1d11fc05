"""Small work on host memory is done at the call: values, aliases and errors are NumPy's, nothing is planned."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS, find_op
from weft.dsl import immediate, indexing, native_immediate
from weft.dsl.array import expr_of, record, start
from weft.dsl.host_values import is_free
from weft.dsl.immediate import MISSED, attempt, way_of
from weft.fusion import current_epoch, recording, uncut
from weft.runtime import IMMEDIATE as LIMIT
from weft.runtime import CompileError, override

IMMEDIATE = 16384
CODES = "?bBhHiIqQfdFD"


def values(code: str, count: int = 24) -> np.ndarray:
    dtype = np.dtype(code)
    rng = np.random.default_rng(ord(code))
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 9, count).astype(dtype)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5]
    real = np.concatenate([special, rng.normal(size=count - len(special)) * 8])
    return (real + 1j * rng.permutation(real) if dtype.kind == "c" else real).astype(dtype)


def same(found: Any, wanted: Any) -> bool:
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))


NAMES = [row.name for row in OPS.values() if row.ufunc and not row.name.startswith("_") and row.name != "power"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_kernels(name: str, native: bool) -> None:
    if native:
        native_immediate._install()
    for code in CODES:
        operands = [wf.asarray(np.roll(values(code), 5 * k)) for k in range(find_op(name).arity)]
        with override(immediate=0):
            try:
                wanted = np.asarray(getattr(wf, name)(*operands))
            except TypeError:
                continue
        before = wf.statistics()["plans"]
        with np.errstate(all="ignore"):
            found = [getattr(wf, name)(*operands) for _ in range(2)]
        assert all(same(each, wanted) for each in found), code
        if code in "ilfd":
            assert wf.statistics()["plans"] == before, code


def test_native_code_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate._install()
    assert not hasattr(vars(wf.Array)["__add__"], "__code__")
    monkeypatch.setattr(native_immediate, "_install", None)
    native_immediate.quicken()  # (once is enough)


ALIASES: dict[str, Callable[[Any, Any], Any]] = {
    "a slice written": lambda x, y: x[1:3].__setitem__(slice(None), 7),
    "a view in place": lambda x, y: x[::2].__iadd__(y[:2, :]) if x.ndim > 1 else None,
    "augmented": lambda x, y: _augmented(x),
    "transposed": lambda x, y: x.T.__setitem__(0, 5),
    "reshaped": lambda x, y: x.reshape(-1)[2:6].__imul__(2),
    "masked": lambda x, y: x.__setitem__(x > 4, -1),
    "by numbers": lambda x, y: x.__setitem__(([0, 1], [1, 2]), [50, 60]),
    "broadcast": lambda x, y: x.__setitem__(slice(1, None), y[0]),
    "overlapping": lambda x, y: x.__setitem__(slice(1, None), x[:-1]),
    "an element": lambda x, y: x.__setitem__((1, 2), x[0, 1] * 2),
    "by a large one": lambda x, y: x.__iadd__(float(y.sum())),
}


def _augmented(x: Any) -> None:
    x[1:] += x[:-1]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("name", ALIASES)
def test_writes_are_seen_by_all_views(name: str, pending: bool) -> None:
    a, b = np.arange(16.0).reshape(4, 4), np.arange(16.0)[::-1].reshape(4, 4)
    x, y = wf.asarray(a), wf.asarray(b)
    if pending:
        with override(immediate=0):
            x, y = x * 1, y + 0
    views = [x, x[1:], x.T, x[:, 2], x.reshape(16)]
    wanted = [a, a[1:], a.T, a[:, 2], a.reshape(16)]
    kept, kept_wanted = x + 0, a + 0
    for _ in range(3):
        ALIASES[name](x, y)
        ALIASES[name](a, b)
        for found, each in zip(views, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), each)
    np.testing.assert_array_equal(np.asarray(kept), kept_wanted)


def test_what_is_recorded_keeps_the_old_values() -> None:
    """A write at the call does not change what a pending expression has read."""
    large, small = wf.asarray(np.arange(50_000.0)), wf.asarray(np.arange(5.0))
    total = large[:5] + 0.0
    pending = large * 2 + large[1]
    scaled = (large.reshape(5, -1) * small[:, None]).sum(axis=1)
    large[3], small[1] = -1.0, -100.0
    large[5:9] = 0.0
    assert float(pending[3]) == 7.0 and float(scaled[1]) == float(np.arange(10_000.0, 20_000.0).sum())
    assert float(large[3]) == -1.0 and float(small[1]) == -100.0 and float(total[3]) == 3.0
    exported = np.asarray(large)
    large[3] = 9.0
    assert exported[3] == -1.0 and float(large[3]) == 9.0


def test_nothing_is_planned_and_large_work_is_recorded() -> None:
    x, y = wf.asarray(np.arange(100.0)), wf.asarray(np.ones(100))
    before = wf.statistics()["plans"]
    z = wf.where(x > y, x, y) @ y + wf.concatenate([x, y])[:100].sum() - wf.sort(x)[::-1].cumsum()[3]
    assert float(z) == float(np.where(np.arange(100.0) > 1, np.arange(100.0), 1).sum() + 4950 - (99 + 98 + 97 + 96))
    assert wf.statistics()["plans"] == before
    grid = x[:, None] * wf.arange(1000.0)
    assert grid._home is None and grid._storage.buffer is None  # 100,000 elements
    np.testing.assert_array_equal(np.asarray(grid), np.arange(100.0)[:, None] * np.arange(1000.0))


def test_numpy_beside_weft() -> None:
    x, a = wf.asarray(np.arange(6.0)), np.ones(6)
    for found in (x + a, a + x, np.add(a, x), np.multiply(x, 2.0) - x + a, np.float64(1) + x):
        assert type(found) is wf.Array
        np.testing.assert_array_equal(np.asarray(found), np.arange(6.0) + 1)
    a += np.asarray(x)
    x += a
    np.testing.assert_array_equal(np.asarray(x), 2 * np.arange(6.0) + 1)


def test_errors_are_numpys() -> None:
    x = wf.asarray(np.arange(6.0))
    with pytest.raises(ValueError, match="broadcast"):
        x + x[:4]
    with pytest.raises(IndexError, match="out of bounds"):
        x[6]
    with pytest.raises(ValueError, match="read-only"):
        wf.broadcast_to(x, (2, 6))[0] = 1
    with pytest.raises(TypeError):
        wf.arange(4).__itruediv__(2)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = x.nothing


def test_the_limit_is_a_setting() -> None:
    x = wf.asarray(np.arange(6.0))
    with override(immediate=3):
        assert LIMIT[0] == 3 and attempt(way_of(find_op("add")), (x, x)) is MISSED
        assert (x + x)._home is None
    assert (x + x)._home is not None


def test_small_results_go_into_other_arrays_at_the_call() -> None:
    """By `out`, with NumPy's rules for casts, and by positions into a new array of many elements."""
    x, whole = wf.asarray(values("d")), wf.asarray(np.arange(24))
    wanted = values("d") * values("d") + 1
    before = wf.statistics()
    assert np.multiply(x, x, x) is x and wf.add(x, 1, out=x) is x
    assert same(x, wanted)
    with pytest.raises(TypeError, match="same_kind"):
        wf.add(x, 1, out=whole)
    grid = wf.zeros((300, 300), dtype=np.int64)
    rows = wf.asarray(np.array([3, 5, 3]))
    grid[rows, rows + 1] = 7
    assert grid._storage.buffer is not None and int(grid[3, 4]) + int(grid[5, 6]) == 14
    assert wf.statistics() == before
    with pytest.raises(IndexError):
        wf.zeros((300, 300))[rows + 297, rows] = 1


def test_a_function_that_holds_expressions_is_not_cut_by_masks_and_products() -> None:
    x, y = wf.asarray(np.arange(60_000.0)), wf.asarray(np.ones(60_000))
    other = wf.zeros(60_000)

    @uncut
    def held() -> Any:
        start()
        node = expr_of(y - x)
        (x + 1)[x > 5]
        other[x > 7] = 2
        wf.ones((9, 60_000)) @ x
        return record(node)

    assert same(held(), 1 - np.arange(60_000.0))
    assert same(other, np.where(np.arange(60_000) > 7, 2.0, 0.0))


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
    wf.add(x, y, out=x, casting="no")  # (another rule than the usual one)
    later = x + y  # pending: needs what is in memory now
    old = np.asarray(x).copy()
    wf.add(x, x, out=x)
    assert same(later, wf.asarray(old) + y) and same(x, wf.asarray(old) + wf.asarray(old))
    with pytest.raises(TypeError):
        wf.add(x, 1j, out=wf.evaluate(wf.asarray(np.zeros(size))))


def test_outer_results_of_parts_of_a_pending_array_are_recorded() -> None:
    """Each iteration of a loop over the rows and columns of a large array."""
    x = np.random.default_rng(0).random((200, 200))
    array = wf.asarray(x)
    for k in range(3):
        array[:] = np.minimum(array[:], np.add.outer(array[:, k], array[k, :]))
        x[:] = np.minimum(x, np.add.outer(x[:, k], x[k, :]))
        assert array._storage.buffer is None
    assert same(array, x)


@pytest.mark.parametrize("given", [0.25, "values"])
def test_masked_assignments_of_a_block_are_done_at_the_call(given: Any) -> None:
    """Into new arrays and into memory that no recorded operation reads; other arrays keep what they saw."""
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


def test_memory_that_was_only_looked_up_is_written_to_at_the_call() -> None:
    """A recording that knows it, and has nothing pending, does not read it."""
    x = wf.asarray(np.zeros(60_000))
    expr_of(x)
    x[wf.asarray([1, 2])] = 5
    assert x._storage.buffer is not None and float(x[2]) == 5
    y = x + 1
    x[wf.asarray([1, 2])] = 7
    assert same(y[:4], [1.0, 6.0, 6.0, 1.0]) and same(x[:4], [0.0, 7.0, 7.0, 0.0])


@pytest.mark.parametrize("native", [False, True])
def test_destinations_of_ufuncs_are_written_to_at_the_call(native: bool) -> None:
    """As NumPy does: through views, with its errors, and not under what is recorded."""
    if native:
        native_immediate._install()
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


def test_orders_in_memory() -> None:
    x = wf.asarray(np.arange(6.0).reshape(2, 3))
    assert x.T.flags["F_CONTIGUOUS"] and (x.T + 1).flags["C_CONTIGUOUS"]
    assert x.copy("F").flags["F_CONTIGUOUS"] and x.ravel("F").tolist() == [0, 3, 1, 4, 2, 5]
    assert x.strides == (24, 8) and x[:, 1].strides == (24,)


@pytest.mark.parametrize("name", ["all", "any", "argmax", "argmin", "count_nonzero", "max", "min", "ptp"])
def test_searches_of_a_mebibyte_of_integers_are_done_at_the_call(name: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 100, 1 << 20).astype(np.uint8)
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


def test_writes_of_no_element_record_nothing() -> None:
    a = np.random.default_rng(0).random((200, 200))
    recording.epoch = None
    x = wf.asarray(a) * 2.0
    epoch = current_epoch()
    before = len(epoch.pending)
    for k in range(10):
        x[:0, k] = 3.0
        x[:0] = a[:0]
    with pytest.raises(ValueError, match="broadcast"):
        x[:0] = np.ones(3)
    assert current_epoch() is epoch
    assert len(epoch.pending) == before
    np.testing.assert_array_equal(x, a * 2.0)


def test_parts_of_a_recorded_function_are_recorded_however_small() -> None:
    x = wf.asarray(np.random.default_rng(0).random((200, 200)))
    wf.evaluate(x)
    made = wf.roll(x, (1, -1), (0, 1)) + wf.concatenate([x[:1], x[1:]])
    assert len(wf.explain(made).kernels) == 1
    np.testing.assert_array_equal(made, np.roll(np.asarray(x), (1, -1), (0, 1)) + np.asarray(x))


def smoothed(xp: Any, image: np.ndarray, rows: int) -> Any:
    """Rows of a new array, each of rows of a large pending one."""
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


def test_small_work_begins_at_once_where_it_came_before_and_behind_copies() -> None:
    def lines(xp: Any, rounds: int) -> Any:
        x = xp.asarray(np.arange(90_000.0).reshape(300, 300))
        for _ in range(rounds):
            given = (x + 1) * 0.5
            x = given.copy()
            for k in range(1, 300):
                x[k] -= x[k - 1] * 0.25
            wf.evaluate(*[each for each in (x, given) if type(each) is wf.Array])
            x += given
        return x

    assert np.array_equal(np.asarray(lines(wf, 3)), lines(np, 3))
    before = wf.statistics()
    made = lines(wf, 1)
    after = wf.statistics()
    assert after["kernels"] - before["kernels"] <= 2
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
        assert taken._home is not None and np.array_equal(np.asarray(taken), plain[own])
        x[key] = 2.5
        plain[own] = 2.5
    assert x._storage.buffer is not None and np.array_equal(np.asarray(x), plain)
    assert wf.statistics() == before
    assert x[np.arange(300)]._home is None  # (as many as there are)
    with pytest.raises(IndexError, match="out of bounds"):
        x[np.array([300])]


def test_values_that_a_mask_takes_are_set_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate._install()
    x = wf.asarray(np.arange(2500.0).reshape(50, 50))
    mask, own = x != 7, np.arange(2500.0).reshape(50, 50)
    found = x[mask] * 2
    monkeypatch.setattr(indexing, "put", None)
    x[mask] = found
    own[own != 7] *= 2
    assert same(x, own)


@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize(("rows", "columns"), [(300, 0), (0, 300), (300, 200)])
def test_products_of_large_matrices_in_memory_are_done_at_the_call(code: str, rows: int, columns: int) -> None:
    """With the bits of the recorded ones, also of parts of a matrix."""
    matrix = wf.asarray(values(code, 300 * 300).reshape(300, 300)[::-1])
    wf.evaluate(matrix)
    other = matrix.T[:, :columns] if columns else matrix[:, 7]
    first = matrix[:rows, ::2] if rows else matrix[3, ::2]
    other = other[::2]
    with override(immediate=0):
        wanted = np.asarray(first @ other)
    for found in (first @ other, wf.dot(first, other)):
        assert found._home is not None or found._storage.buffer is not None
        assert same(found, wanted)
    pending = matrix[:, ::2] * 2
    assert (pending @ other)._storage.buffer is None


@pytest.mark.parametrize(
    "fold",
    [
        lambda xp, x: xp.minimum.accumulate(xp.arange(9)[::-1]),
        lambda xp, x: xp.add.reduce(x, axis=1),
        lambda xp, x: xp.multiply.reduceat(x, [0, 2], axis=0),
        lambda xp, x: xp.logical_or.reduce(x > 1, axis=None),
    ],
)
def test_folds_by_ufuncs_are_done_at_the_call(fold: Any) -> None:
    x = np.random.default_rng(0).random((5, 7))
    before = wf.statistics()
    found = fold(wf, wf.asarray(x))
    np.testing.assert_array_equal(np.asarray(found), fold(np, x))
    assert wf.statistics() == before


def test_numpy_arrays_take_small_results_at_the_call() -> None:
    weights, whole, step = np.arange(3.0), np.arange(3), wf.asarray(np.full(3, 0.5))
    before, same = wf.statistics(), weights
    weights -= step
    np.testing.assert_array_equal(weights, [-0.5, 0.5, 1.5])
    assert same is weights
    assert np.add(step, 1, out=weights) is weights
    np.testing.assert_array_equal(weights, [1.5, 1.5, 1.5])
    with pytest.raises(TypeError, match="Cannot cast ufunc"):
        whole += step
    assert wf.statistics() == before


@pytest.mark.parametrize("code", "fdFD")
def test_bits_beside_numpys_scalars_are_those_of_kernels(code: str) -> None:
    """Of the array's dtype, for which native code takes the compiled loop, and of others."""
    native_immediate._install()
    array = wf.asarray(values(code))
    with np.errstate(all="ignore"):
        for number in (*(values(each)[-1] for each in "ifdFD"), 2, 0.5):
            for calculate in (lambda a, b: a * b, lambda a, b: b / a, lambda a, b: wf.hypot(abs(a), abs(b))):
                with override(immediate=0):
                    wanted = np.asarray(calculate(array, number))
                for _ in range(3):  # (the first makes the loop)
                    assert same(calculate(array, number), wanted)


def test_linear_algebra_of_small_arrays_copies_nothing() -> None:
    source = np.random.default_rng(0)
    a, b = source.random((9, 9)) + 9 * np.eye(9), source.random((9, 3))
    x, y = wf.asarray(a), wf.asarray(b)
    for name, given in (("solve", (x, y)), ("inv", (x,)), ("qr", (x,)), ("norm", (y,)), ("det", (x,))):
        before = wf.statistics()
        found, wanted = getattr(wf.linalg, name)(*given), getattr(np.linalg, name)(*map(np.asarray, given))
        assert wf.statistics() == before
        for own, theirs in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, wanted)), strict=True):
            assert same(own, theirs) and (not isinstance(own, wf.Array) or own._home is not None)
    assert type(wf.linalg.qr(x)).__name__ == "QRResult"
    assert same(wf.fft.fft(y[:, 0]), np.fft.fft(b[:, 0]))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        wf.linalg.inv(wf.zeros((2, 2)))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(2, 8),
    "reshape by a tuple": lambda x: x.reshape((8, -1)),
    "ravel": lambda x: x.ravel(),
    "ravel of a column": lambda x: x[:, 1].ravel(),
    "a copy that is reshaped": lambda x: x.T.reshape(16),
    "T": lambda x: x.T,
    "T of one axis": lambda x: x[0].T,
    "transpose": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x[1:2].squeeze(),
    "squeeze of nothing": lambda x: x.squeeze(),
    "flip": lambda x: _same_function("flip", x),
    "flip of a part": lambda x: _same_function("flip", x[1:], 0),
    "expand_dims": lambda x: _same_function("expand_dims", x, 1),
}
GATHERED: dict[str, Callable[[Any, Any], Any]] = {
    "integers": lambda x, pick: x[pick([3, 0, 3, -1])],
    "two axes of integers": lambda x, pick: x[0][pick([[1, 0], [2, 3]])],
    "a mask": lambda x, pick: x[x > 5],
    "a mask of rows": lambda x, pick: x[pick([True, False, True, False])],
    "of columns": lambda x, pick: x.T[pick([1, 1])],
}


def _same_function(name: str, x: Any, *arguments: Any) -> Any:
    return getattr(wf if isinstance(x, wf.Array) else np, name)(x, *arguments)


def test_memory_is_free_once_a_recording_has_no_more_to_do() -> None:
    """One that was left with something pending, which is evaluated later, or which nobody holds any more."""
    rows, centres = wf.asarray(np.arange(40_000.0).reshape(20_000, 2)), wf.asarray(np.arange(8.0).reshape(4, 2))

    def assign() -> tuple[Any, Any]:
        distances = ((rows[:, None] - centres) ** 2).sum(axis=2)
        return distances.argmin(axis=1), distances.min(axis=1).sum()

    centres[0] = 0.5  # (at the call)
    for evaluated in (True, False):
        labels, loss = assign()
        assert float(loss) > 0 and not is_free(centres)
        if evaluated:
            assert labels.shape == (20_000,) and int(labels[0]) == 0
        del labels
        assert is_free(centres)
        before = recording.epoch.number  # type: ignore[union-attr]
        centres[1] = 3.0
        assert centres._storage.buffer is not None and recording.epoch.number == before  # type: ignore[union-attr]
        assert same(centres, [[0.5, 0.5], [3, 3], [4, 5], [6, 7]])


@pytest.mark.parametrize("device", ["cpu", "simt"])
def test_views_of_what_was_made_at_the_call_share_its_memory(device: str) -> None:
    """Native code gives such arrays the storage that Python would."""
    native_immediate._install()
    with wf.device(device):
        x = wf.asarray(np.arange(12.0).reshape(3, 4))
        for view in (lambda y: y[1:], lambda y: y.T, lambda y: y.reshape(12)):
            shown, plain = x + 1, x + 1
            part = view(shown)
            assert part.base is not None and part._storage is shown._storage and part.device is x.device
            for name in ("shape", "dtype", "device", "expr", "epoch", "host", "value"):
                found, wanted = getattr(shown._storage, name), getattr(plain._storage, name)
                assert type(found) is type(wanted)
                assert found is wanted or name == "host" or found == wanted
            if device == "cpu":
                buffer = shown._storage.buffer
                assert buffer is not None and buffer.nbytes == 96 and buffer.address == shown.numpy().ctypes.data
                assert sys.getrefcount(buffer) == 3
                del buffer
            part[0] = 50
            shown[2] += part.max()
            expected = np.arange(12.0).reshape(3, 4) + 1
            view(expected)[0] = 50
            expected[2] += view(expected).max()
            assert same(shown, expected) and same(part, view(expected))
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(200):
            (x * 2)[1:]
        assert len(gc.get_objects()) <= before + 20


@pytest.mark.parametrize("name", VIEWS)
def test_views_by_functions_in_native_code(name: str) -> None:
    native_immediate._install()
    a = np.arange(16.0).reshape(4, 4)
    x = wf.asarray(a)
    for source, theirs in ((x, a), (x + 0, a + 0)):
        found, wanted = VIEWS[name](source), VIEWS[name](theirs)
        found += 10
        wanted += 10
        source[0] *= 2
        theirs[0] *= 2
        assert same(found, wanted)
        assert same(source, theirs)


@pytest.mark.parametrize("name", GATHERED)
def test_indexing_by_arrays_in_native_code(name: str) -> None:
    native_immediate._install()
    a = np.arange(16.0).reshape(4, 4)
    x = wf.asarray(a)
    before = wf.statistics()["plans"]
    found, wanted = GATHERED[name](x, wf.asarray), GATHERED[name](a, np.asarray)
    found[...] = -1
    assert same(x, a)
    assert found.shape == wanted.shape
    assert same(GATHERED[name](x, wf.asarray), wanted)
    assert wf.statistics()["plans"] == before
    with pytest.raises(IndexError):
        x[wf.asarray([4])]
    with pytest.raises(IndexError):
        x[wf.asarray([0.5])]


@pytest.mark.parametrize("code", CODES)
def test_squares_in_native_code(code: str) -> None:
    native_immediate._install()
    x = wf.asarray(values(code))
    with np.errstate(all="ignore"), override(immediate=0):
        wanted = np.asarray(x**2)
    with np.errstate(all="ignore"):
        assert all(same(found, wanted) for found in (x**2, x**2, x.__pow__(2)))
        assert code not in "ilfd" or (x[::3] ** 2)._home is not None
    with pytest.raises(ValueError, match="negative"):
        wf.asarray(values("l")) ** -2


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_what_is_made_like_a_small_array_has_its_order(name: str) -> None:
    a = np.arange(24.0).reshape(4, 6)
    x = wf.asarray(a)
    for own, theirs in ((x, a), (x.T, a.T), (x[::2], a[::2]), (x[:, 0], a[:, 0]), (x[0], a[0]), (x + 1, a + 1)):
        made, wanted = getattr(wf, name)(own), getattr(np, name)(theirs)
        assert made.shape == wanted.shape
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            assert made.flags[flag] == wanted.flags[flag], flag


@pytest.mark.parametrize("shape", [(70_000,), (300, 400)])
def test_few_elements_of_a_large_array_are_taken_in_native_code(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_immediate._install()
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x, mask, before = wf.asarray(a), wf.asarray(a > a.mean()), wf.statistics()["plans"]
    keys = [np.array([1, 0, -1]), np.zeros((3, 2), np.uint32), np.zeros(0, int)]
    assert same(x[wf.asarray([0])], a[[0]])
    with monkeypatch.context() as patched:
        patched.setattr(indexing, "pick", None)
        assert all(same(x[wf.asarray(key)], a[key]) for key in keys)
        with pytest.raises(IndexError):
            x[wf.asarray([len(a)])]
    with pytest.raises(IndexError):
        x[wf.asarray([0.5])]
    assert wf.statistics()["plans"] == before
    assert same(x[mask], a[a > a.mean()])
    assert same(x[wf.asarray(np.zeros(IMMEDIATE, int))], a[np.zeros(IMMEDIATE, int)])


INDICES: dict[str, Callable[[Any], Any]] = {
    "an array": lambda take: take([3, 0, 299, -1]),
    "rows": lambda take: take([[1, 5], [2, 2]]),
    "two axes": lambda take: (take([1, 2, 3]), take([7, 0, -1])),
    "outer": lambda take: (take([[1], [2]]), take([0, 7, 9])),
    "a number beside": lambda take: (5, take([7, 0, -1])),
    "short integers": lambda take: (take(np.array([1, 2], np.int8)), take([1, 2])),
    "NumPy's": lambda take: (np.array([1, 2]), take([3, 4])),
    "a mask": lambda take: take([True] * 3 + [False] * 297),
    "a mask of columns": lambda take: (3, take([True, False] * 150)),
    "none": lambda take: (take([1])[:0],),
}


@pytest.mark.parametrize("name", INDICES)
def test_arrays_that_index_large_ones_in_native_code(name: str) -> None:
    native_immediate._install()
    a = np.arange(90_000.0).reshape(300, 300)
    x = wf.asarray(a)
    key, theirs = INDICES[name](wf.asarray), INDICES[name](np.asarray)
    before = wf.statistics()["plans"]
    found, wanted = x[key], a[theirs]
    assert same(found, wanted)
    found += 1
    assert same(x, a)
    a = a.copy()
    for value, numpys in ((-1, -1), (2.5, 2.5), (found, wanted + 1)):
        x[key], a[theirs] = value, numpys
        assert same(x, a)
    assert wf.statistics()["plans"] == before
    with override(immediate=0):
        pending = x + 1
    x[key] = 7
    assert same(pending, a + 1)
    with pytest.raises(IndexError):
        x[wf.asarray([300]), wf.asarray([0])]
    with pytest.raises(IndexError):
        x[wf.asarray([0]), wf.asarray([0]), wf.asarray([0])]


def test_numpys_matrices_times_small_arrays_in_native_code() -> None:
    native_immediate._install()
    a, b = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    product = a @ wf.asarray(b)
    assert type(product) is wf.Array and same(product, a @ b)
    assert same(a @ wf.asarray(a.T), a @ a.T) and same(b @ wf.asarray(b), b @ b)
    with pytest.raises(ValueError, match="core dimension"):
        a @ wf.asarray(a)
    assert [type(each) for each in wf.where(wf.asarray(b > 1))] == [wf.Array]
    assert same(wf.where(wf.asarray(b > 1), 2, -1), np.where(b > 1, 2, -1))


def test_an_operand_more_is_written_to() -> None:
    native_immediate._install()
    x, y = wf.asarray([1.0, 4.0]), wf.asarray([0.0, 0.0])
    with override(immediate=0):
        pending = y + 1
    view = y[:]
    assert wf.sqrt(x, y) is y
    assert same(view, np.array([1.0, 2.0]))
    assert same(pending, np.array([1.0, 1.0]))


def test_destinations_with_a_name_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.quicken(compiling=True)
    x, target = wf.asarray(values("d")), wf.asarray(np.zeros(24))
    python: list[Any] = []
    monkeypatch.setattr(immediate, "_note", lambda: python.append(1))
    whole = target[:]
    assert wf.add(x, 1, out=target) is target and same(whole, values("d") + 1) and not python
    assert wf.negative(x, out=target) is target and same(whole, -values("d")) and not python
    for wrong in ({"out": target}, {"where": target}):
        with pytest.raises(TypeError, match="positional|takes"):
            wf.add(x, **wrong)
    with pytest.raises(TypeError):
        wf.add(x, x, target, out=target, dtype=int)
    assert same(wf.add(x, x, out=(target,)), values("d") * 2) and same(whole, values("d") * 2)
    assert same(wf.add(x, x, out=None), values("d") * 2)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
def test_folds_by_ufuncs_in_native_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.quicken(compiling=True)
    given = values("q").reshape(4, 6)
    x, ours, theirs = wf.asarray(given), getattr(wf, name), getattr(np, name)
    python: list[Any] = []
    monkeypatch.setattr(immediate, "_note", lambda: python.append(1))
    for axis in (0, 1, -1):
        for found, wanted in (
            (ours.accumulate(x, axis), theirs.accumulate(given, axis)),
            (ours.reduce(x, axis=axis), theirs.reduce(given, axis=axis)),
        ):
            assert type(found) is type(x) and same(found, wanted) and not python
    assert same(ours.reduce(x, axis=None), theirs.reduce(given, axis=None))
    large = wf.asarray(np.resize(given, 2 * IMMEDIATE))
    assert same(ours.accumulate(large), theirs.accumulate(np.resize(given, 2 * IMMEDIATE)))
    assert same(ours.reduce(x, 0, where=given > 0, initial=1), theirs.reduce(given, 0, where=given > 0, initial=1))
    with pytest.raises(np.exceptions.AxisError):
        ours.accumulate(x, 2)


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.int64, bool, np.complex128])
def test_small_arrays_are_cast_at_the_call(kind: Any) -> None:
    given = values("d").reshape(4, 6)
    for x in (wf.asarray(given), wf.asarray(given).T):
        found = x.astype(kind)
        assert found._storage.buffer is not None
        with override(immediate=0):
            wanted = wf.evaluate(wf.asarray(np.asarray(x)).astype(kind))
        assert same(found, wanted) and found.numpy().flags.c_contiguous


@pytest.mark.parametrize("name", ["zeros_like", "ones_like"])
def test_what_is_made_like_a_small_array_is_made_at_the_call(name: str) -> None:
    for x in (wf.asarray(values("f")), wf.asarray(values("q").reshape(4, 6))):
        found = getattr(wf, name)(x)
        assert found._storage.buffer is not None and type(found) is type(x)
        assert same(found, getattr(np, name)(x.numpy()))
        found[0] = 7
        assert x.numpy()[0].ravel()[0] == values(x.dtype.char)[0]


def test_what_a_function_has_begun_to_record_is_not_evaluated_within() -> None:
    x = wf.asarray(np.arange(4100.0).reshape(4100, 1))
    before = wf.statistics()
    made = wf.pad(x.mT, 2, mode="edge")
    assert wf.statistics() == before
    np.testing.assert_array_equal(made, np.pad(np.arange(4100.0).reshape(1, 4100), 2, mode="edge"))


@pytest.mark.parametrize("native", [False, True])
def test_numbers_of_another_kind_beside_integers(native: bool) -> None:
    if native:
        native_immediate._install()
    whole = wf.asarray(np.random.default_rng(0).integers(1, 1000, 4000))
    for name in ("power", "floor_divide", "remainder", "multiply", "maximum"):
        for number in (2.5, 0.1, np.float64(0.7)):
            for operands in ((whole, number), (number, whole)):
                with override(immediate=0):
                    wanted = np.asarray(getattr(wf, name)(*operands))
                assert same(getattr(wf, name)(*operands), wanted)
    assert same(whole**3, np.asarray(whole) ** 3) and same(wf.power(whole, 2), np.asarray(whole) ** 2)


def test_axes_are_tuples() -> None:
    native_immediate._install()
    x = wf.asarray(np.arange(24.0).reshape(2, 3, 4))
    assert same(wf.sum(x, axis=(0, 2)), np.sum(np.asarray(x), axis=(0, 2))) and same(
        x.max((1, 2)), np.asarray(x).max((1, 2))
    )
    assert same(x + (1, 2, 3, 4), np.asarray(x) + (1, 2, 3, 4)) and same((0.5,) * 4 - x, (0.5,) * 4 - np.asarray(x))
    assert same(x[0, 0] * (x[0, 0], x[1, 1]), np.asarray(x)[0, 0] * (np.asarray(x)[0, 0], np.asarray(x)[1, 1]))
    with pytest.raises(ValueError, match="duplicate"):
        x.sum((0, 0))
    with pytest.raises(TypeError):
        x * ("a", "b", "c", "d")


@pytest.mark.parametrize("strict", [False, True])
def test_native_code_that_cannot_be_compiled_is_told_of_once(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise CompileError("no room")

    monkeypatch.setattr(native_immediate, "INSTALLED", {})
    monkeypatch.setattr(native_immediate, "_failed", [])
    monkeypatch.setattr(native_immediate, "make_immediate", fails)
    with override(strict=strict):
        with (
            pytest.raises(CompileError, match="no room")
            if strict
            else pytest.warns(wf.OptimizerWarning, match="no room")
        ):
            native_immediate.quicken(compiling=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            native_immediate.quicken(compiling=True)


class Foreign:
    """What answers operators itself."""

    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "their sum"

    def __add__(self, other: Any) -> str:
        return "their own sum"


def test_operators_that_python_calls_at_once() -> None:
    native_immediate._install()
    assert type(vars(wf.Array)["__getitem__"]) is type(vars(np.ndarray)["__getitem__"])
    assert type(vars(wf.Array)["__sub__"]) is type(vars(np.ndarray)["__sub__"])
    a = np.arange(6.0)
    x = wf.asarray(a)
    for each in (2, 2.5, np.float64(3), a, [1.0] * 6):
        for one, other, plain in ((x, each, a - each), (each, x, each - a)):
            assert same(one - other, plain)
    assert same(x.__rsub__(2.0), 2.0 - a)
    assert same(x.__sub__(2.0), a - 2.0)
    assert same(wf.Array.__sub__(x, x), a - a)
    assert x + Foreign() == "their sum"
    assert Foreign() + x == "their own sum"
    for wrong in (lambda: x - "text", lambda: None - x, lambda: x - {}, lambda: x.__setitem__(99, 1), lambda: x[99]):
        with pytest.raises((TypeError, IndexError, np.exceptions.DTypePromotionError)):
            wrong()
    whole = wf.asarray([1, 2])
    assert same(~whole, np.array([-2, -3]))
    assert same(3 >> whole, np.array([1, 0]))
    assert same(whole >> 1, np.array([0, 1]))
    before = x
    x -= 1
    x[1] = 7
    assert before is x
    a -= 1
    a[1] = 7
    assert same(x, a)
    with pytest.raises(ValueError, match="cannot delete array elements"):
        del x[0]
    total = x.sum() - x[0]
    assert same(total, a.sum() - a[0])
    with override(immediate=0):
        scalar = x.sum()
        assert same(scalar - x, a.sum() - a)
        assert same(x - scalar, a - a.sum())


def test_an_operator_put_in_the_place_of_a_native_one(monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate._install()
    x = wf.asarray([1.0, 2.0])
    monkeypatch.setattr(wf.Array, "__sub__", lambda self, other: "mine")
    assert x - 1 == "mine"
    assert same(1 - x, np.array([0.0, -1.0]))
    monkeypatch.undo()
    assert same(x - 1, np.array([0.0, 1.0]))


def test_native_code_leaves_nothing_behind() -> None:
    native_immediate._install()
    x, y = wf.asarray(np.arange(6.0)), wf.asarray(np.arange(6.0))
    picks, key, big = wf.asarray([1, 2]), slice(1, 3), 10**9 + 7

    def go() -> None:
        for _ in range(200):
            x + y, 2.5 - x, x[1:] - y[:-1], x.reshape(2, 3), wf.flip(x), x[picks], x[y > 2], x.T, -x, wf.sqrt(x), x[key]
            x[key] = y[key]
            x[0] = big
            z = x * 1.0
            z += y
            for wrong in (lambda: x - "text", lambda: x[99], lambda: x.__setitem__(99, 1), lambda: x.__delitem__(key)):
                with pytest.raises((TypeError, IndexError, ValueError)):
                    wrong()

    def referred() -> list[int]:
        gc.collect()
        things = (x, y, picks, key, big, x._values, y._values, x._storage, go.__code__)
        return list(map(sys.getrefcount, things))

    go()
    before, made = referred(), sys.getrefcount(wf.Array)
    go()
    assert referred() == before
    # (what is made native or found again meanwhile refers to the class as well, a few times in all, not each turn)
    assert sys.getrefcount(wf.Array) - made < 200


def test_what_is_called_where_work_is_not_small_is_exchanged() -> None:
    calls: list[str] = []

    def total(self: Any) -> None:
        calls.append("first")

    def other(self: Any) -> None:
        calls.append("second")

    made = native_immediate.make_immediate(native_immediate.Mode.CALL, native_immediate.plainly(np.ndarray.sum), total)
    small, large = wf.asarray(np.ones(3)), wf.asarray(np.ones(100_000))
    made.call(large)
    made.exchange(total, other)
    made.call(large)
    assert calls == ["first", "second"]
    assert made.call(small) == 3 and calls == ["first", "second"]


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda xp, x, y: xp.where(x > 1, x, y),
    "where of flags alone": lambda xp, x, y: xp.where(x > 1),
    "concatenate a list": lambda xp, x, y: xp.concatenate([x, y, x]),
    "concatenate a tuple by name": lambda xp, x, y: xp.concatenate((x, y), axis=0),
    "a list of arrays and numbers": lambda xp, x, y: xp.hstack([x, 3.0, y]),
    "stack": lambda xp, x, y: xp.stack((x, y), axis=1),
    "split": lambda xp, x, y: xp.split(x, 2),
    "clip": lambda xp, x, y: xp.clip(x, 1, y),
    "sort": lambda xp, x, y: xp.sort(x),
    "argsort": lambda xp, x, y: x.argsort(),
    "take": lambda xp, x, y: x.take([0, 2]),
    "diff": lambda xp, x, y: xp.diff(x, n=2),
    "round": lambda xp, x, y: x.round(1),
    "allclose": lambda xp, x, y: xp.allclose(x, y),
    "norm": lambda xp, x, y: xp.linalg.norm(x),
    "norm by axis": lambda xp, x, y: xp.linalg.norm(x.reshape(3, 2), axis=1),
    "solve": lambda xp, x, y: xp.linalg.solve(x[:4].reshape(2, 2), y[:2]),
    "svd": lambda xp, x, y: tuple(xp.linalg.svd(x[:4].reshape(2, 2))),
    "fft": lambda xp, x, y: xp.fft.fft(x, axis=0),
    "an array that NumPy returns itself": lambda xp, x, y: xp.atleast_1d(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_any_operands_in_native_code(name: str) -> None:
    native_immediate._install()
    given = [np.array([2.55, 0.1, 3.0, -1.0, 5.5, 0.25]), np.array([1.0, 2.0, -0.0, 4.0, 3.0, 6.0])]
    x, y = map(wf.asarray, given)
    wf.evaluate(x, y)
    before = wf.statistics()
    found, wanted = CALLS[name](wf, x, y), CALLS[name](np, *given)
    assert wf.statistics() == before
    assert type(found) is type(wanted) or isinstance(found, wf.Array)
    parts = [(found, wanted)] if not isinstance(wanted, (list, tuple)) else zip(found, wanted, strict=True)
    assert all(same(ours, theirs) for ours, theirs in parts)


def test_results_of_native_code_that_are_parts_of_operands() -> None:
    native_immediate._install()
    x = wf.asarray(np.arange(6.0))
    wf.evaluate(x)
    first, second = wf.split(x, 2)
    second[0] = -1.0
    x[0] = 7.0
    assert wf.atleast_1d(x) is x and x[3] == -1.0 and first[0] == 7.0


def test_native_code_leaves_what_is_not_small_or_not_usual_to_python() -> None:
    native_immediate._install()
    column, row = wf.asarray(np.arange(9000.0)).reshape(-1, 1), wf.asarray(np.arange(9000.0))
    wf.evaluate(column, row)
    assert wf.where(column > row, column, row).shape == (9000, 9000)  # (recorded: never computed here)
    x = wf.asarray(np.arange(6.0))
    assert same(wf.sort(x, descending=True), np.arange(6.0)[::-1])
    assert same(wf.concatenate([x, [1, 2]]), np.concatenate([np.arange(6.0), [1, 2]]))
    assert same(wf.block([[x], [x]]), np.block([[np.arange(6.0)], [np.arange(6.0)]]))
    with pytest.raises(ValueError, match="dimension"):
        wf.concatenate([x, x.reshape(2, 3)])
    with pytest.raises(ValueError, match="dimension"):
        wf.concatenate([x, object()])
    with pytest.raises(np.linalg.LinAlgError):
        wf.linalg.inv(wf.zeros((2, 2)))


def test_native_code_of_any_operands_leaves_nothing_behind() -> None:
    native_immediate._install()
    x, y = wf.asarray(np.arange(6.0)), wf.asarray(np.arange(6.0))
    pair, wrong = [x, y], [x, y.reshape(2, 3)]
    wf.evaluate(x, y)

    def go() -> None:
        for _ in range(200):
            wf.concatenate(pair)
            wf.split(x, 2)
            wf.linalg.norm(x)
            wf.where(x > 1, x, y)
            with pytest.raises(ValueError, match="dimension"):
                wf.concatenate(wrong)

    def referred() -> list[int]:
        gc.collect()
        return list(map(sys.getrefcount, (x, y, pair, wrong, x._values, y._values)))

    go()
    before = referred()
    go()
    assert referred() == before


def test_ufuncs_are_called_as_functions_in_c() -> None:
    native_immediate._install()
    x = wf.asarray(np.arange(4.0))
    wf.evaluate(x)
    target = x.copy()
    assert wf.exp(x, out=target) is target and same(target, wf.exp(x))
    assert wf.add(x, x, dtype=np.float32).dtype == np.float32 and same(wf.exp.__call__(x), wf.exp(x))
    before = sys.getrefcount(x), sys.getrefcount(wf.exp)
    for call in (lambda: wf.exp(), lambda: wf.exp(*[x] * 40), lambda: wf.exp(x, wrong=1), lambda: wf.linalg.norm()):
        with pytest.raises(TypeError):
            call()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(wf.exp)) == before
    with pytest.raises(TypeError, match="30"):
        wf.linalg.norm(*[x] * 30)

    class Mine(type(wf.exp)):  # type: ignore[misc]
        def __call__(self, *operands: Any) -> str:  # type: ignore[override]
            return "mine"

    assert object.__new__(Mine)(x) == "mine"


MADE = (
    "arange(0) arange(5) arange(2,7) arange(7,2) arange(5.0) arange(3,np.float32) arange(5,0) zeros(3,int) zeros((2,3),'f4') zeros(()) "
    "zeros((2,0)) ones(3,np.float16) ones(3,'U3') full((2,2),1) full(3,2.5) full(2,True) full(2,[1,2]) zeros(-1) full((2,-1),0) zeros(2.5)"
)


@pytest.mark.parametrize("call", MADE.split())
def test_small_arrays_of_numbers_are_made_by_numpy(call: str) -> None:
    found: list[Any] = []
    for xp in (np, wf):
        try:
            found.append(eval(f"xp.{call}", {"xp": xp, "np": np}))
        except (TypeError, ValueError) as error:
            found.append(type(error))
    assert found[0] is found[1] if isinstance(found[0], type) else np.array_equal(*found)
    assert isinstance(found[0], type) or found[0].dtype == found[1].dtype


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "roll": lambda xp, x: xp.roll(x, 5),
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
    found[...] = 0  # (a new array)
    assert same(x, given)
    y += x  # what is pending is not evaluated for that
    moved = MOVES[name](wf, y)
    assert y._storage.buffer is None and same(moved, MOVES[name](np, given))


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
    assert True in [not move(False) for _ in range(40)]  # in company it is recorded again
    assert not any(move(False) for _ in range(3))


def test_reductions_along_the_only_axis_are_done_at_the_call() -> None:
    given = np.arange(100_000) % 251 == 250
    x = wf.asarray(given)
    wf.evaluate(x)
    before = wf.statistics()["plans"]
    for call in (lambda v: v.argmax(axis=0), lambda v: v.argmax(0), lambda v: v.max(-1), lambda v: v.any(axis=-1)):
        assert same(call(x), call(given))
    rows = (np.arange(120_000) * 7919 % 251).astype("uint8").reshape(-1, 3).T.reshape(3, 40_000)
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
