"""Tests of calls that are executed immediately."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.dsl.immediate import at_call, host_values, native_immediate
from weft.dsl.script import script_namespace
from weft.runtime import override

IMMEDIATE = 16384
LARGE = np.random.default_rng(7).normal(size=(300, 200))
WHOLE = np.random.default_rng(8).integers(-9, 9, (300, 200))
Program = Callable[..., Any]


def _arrays(convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return a row of floats, a row of integers, and two non-contiguous matrices. All are views of large arrays."""
    floats, integers = convert(LARGE.copy()), convert(WHOLE.copy())
    return floats[4], integers[5], floats[:12, :9], integers[3:7, 2:5].T


def _check(program: Program, xp: Any = wf) -> None:
    wanted = program(np, *_arrays(np.array))
    arrays = _arrays(wf.asarray)
    before = wf.statistics()
    found = program(xp, *arrays)
    assert wf.statistics() == before, "something was evaluated"
    found, wanted = ([*each] if isinstance(each, (tuple, list)) else [each] for each in (found, wanted))
    assert len(found) == len(wanted)
    for own, theirs in zip(found, wanted, strict=True):
        assert not isinstance(own, wf.Array) or own._values is not None, "something was recorded"
        assert same(own, theirs)
        assert np.asarray(own).flags.fnc == np.asarray(theirs).flags.fnc


IN_NATIVE_CODE: list[Program] = [
    lambda xp, x, i, m, t: xp.concatenate([[0.5], x]),
    lambda xp, x, i, m, t: xp.concatenate((x, [1, 2], (3.0,))),
    lambda xp, x, i, m, t: xp.concatenate([[], i]),
    lambda xp, x, i, m, t: xp.convolve(x, [1.0, 2.0], "same"),
    lambda xp, x, i, m, t: xp.searchsorted(xp.sort(x), x, side="right"),
    lambda xp, x, i, m, t: xp.unique(i, return_counts=True),
    lambda xp, x, i, m, t: x[[1, -2, 1]],
    lambda xp, x, i, m, t: m[[0, 3]],
    lambda xp, x, i, m, t: m[:, [1, 1, 2]],
    lambda xp, x, i, m, t: m[2:5, [1, 2]],
    lambda xp, x, i, m, t: m[[1, 2], [3, 4]],
    lambda xp, x, i, m, t: m[[[1], [2]], [3, 4]],
    lambda xp, x, i, m, t: t[[1, 2], 1:3],
    lambda xp, x, i, m, t: xp.sqrt(xp.absolute(i)),
    lambda xp, x, i, m, t: i / 3,
    lambda xp, x, i, m, t: i / x[:200],
    lambda xp, x, i, m, t: xp.copysign(i, 2.5),
    lambda xp, x, i, m, t: xp.lcm(i, i[::-1]),
]
AT_THE_CALL: list[Program] = [
    *IN_NATIVE_CODE,
    lambda xp, x, i, m, t: xp.asarray([x, x]),
    lambda xp, x, i, m, t: xp.asarray([m, m], dtype=np.float32),
    lambda xp, x, i, m, t: xp.ascontiguousarray(t),
    lambda xp, x, i, m, t: xp.nan_to_num(x / i.astype(float) * 0, nan=2.0),
    lambda xp, x, i, m, t: xp.zeros_like(t),
    lambda xp, x, i, m, t: xp.ones_like(m),
    lambda xp, x, i, m, t: xp.full_like(m, 2),
    lambda xp, x, i, m, t: xp.nonzero(t),
    lambda xp, x, i, m, t: [xp.isfortran(t), xp.size(m), xp.size(m, 1), xp.iscomplexobj(i), xp.iterable(x)],
    *(
        lambda xp, x, i, m, t, mode=mode: xp.pad(m, ((1, 2), (0, 3)), mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "mean", "linear_ramp")
    ),
    lambda xp, x, i, m, t: xp.pad(i, 3, constant_values=7),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", AT_THE_CALL)
def test_nothing_is_recorded(program: Program) -> None:
    _check(program)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", IN_NATIVE_CODE)
def test_native_code_executes_them(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    native_immediate.install_native_code()
    program(wf, *_arrays(wf.asarray))  # (the first call compiles loops)
    for python in ("call_small", "attempt"):
        monkeypatch.setattr(at_call, python, None)
    _check(program)


WRITES: list[Program] = [
    lambda xp, x, i, m, t: x.sort(),
    lambda xp, x, i, m, t: m.sort(axis=0, kind="stable"),
    lambda xp, x, i, m, t: i.partition(7),
    lambda xp, x, i, m, t: x.__setitem__([1, 2], 5),
    lambda xp, x, i, m, t: m.__setitem__((slice(None), [0, 2]), 5),
    lambda xp, x, i, m, t: m.__setitem__((slice(1, 4), [0, 2]), m[:3, :2].copy()),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("program", WRITES)
def test_writes_are_executed(program: Program, native: bool) -> None:
    if native:
        native_immediate.install_native_code()

    def writes(xp: Any, *arrays: Any) -> list[Any]:
        program(xp, *arrays)
        return list(arrays)

    _check(writes)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("key", [[1, 300], [[1, 2], [3]], [1.5], [None], [True, 3]])
def test_lists_that_are_no_index(key: list[Any], native: bool) -> None:
    if native:
        native_immediate.install_native_code()
    own, theirs = wf.asarray(LARGE)[4], LARGE[4]
    for array in (own, theirs):
        array.sum()
    try:
        wanted: Any = theirs[key]
    except Exception as error:
        with pytest.raises(type(error)):
            own[key]
    else:
        assert same(own[key], wanted)


@pytest.mark.parametrize("code", "bhilBHIL")
def test_integers_have_the_bits_of_recorded_operations(code: str) -> None:
    bounds, source = np.iinfo(code), np.random.default_rng(3)
    x = source.integers(bounds.min, bounds.max, 300, code, endpoint=True)
    y = source.integers(-1 if code.islower() else 0, 5, 300).astype(code)
    programs: list[Callable[[Any, Any], Any]] = [
        lambda x, y: wf.divide(x, y),
        lambda x, y: wf.divide(x, 3),
        lambda x, y: wf.sqrt(x),
        lambda x, y: wf.exp(y),
        lambda x, y: wf.copysign(x, y),
        lambda x, y: wf.copysign(x, 0.5),
        lambda x, y: wf.lcm(x, y),
        lambda x, y: wf.lcm(x, x[::-1]),
    ]
    with np.errstate(all="ignore"):
        for _ in range(2):
            for program in programs:
                found = program(wf.asarray(x), wf.asarray(y))
                with override(immediate=0):
                    recorded = program(wf.asarray(x), wf.asarray(y))
                assert same(found, recorded)
            native_immediate.install_native_code()


SCRIPTS: list[Program] = [
    lambda xp, x, i, m, t: xp.r_[0.5, x, 1],
    lambda xp, x, i, m, t: xp.c_[x, x],
    lambda xp, x, i, m, t: xp.asanyarray([x, x]),
    lambda xp, x, i, m, t: xp.random.default_rng(3).permutation(x),
    lambda xp, x, i, m, t: xp.random.default_rng(3).choice(x, 5),
]


@pytest.mark.parametrize("program", SCRIPTS)
def test_scripts_record_nothing(program: Program) -> None:
    _check(program, script_namespace.script_module("numpy"))


ALONE: list[Callable[..., Any]] = [
    lambda xp, x, f, m: m.sum(axis=1),
    lambda xp, x, f, m: m.sum(0),
    lambda xp, x, f, m: xp.mean(m, axis=-1, keepdims=True),
    lambda xp, x, f, m: m.max(axis=0),
    lambda xp, x, f, m: m.std(axis=1),
    lambda xp, x, f, m: xp.var(m, 0),
    lambda xp, x, f, m: xp.concatenate([[0.0], x]),
    lambda xp, x, f, m: xp.concatenate([x, x]),
    lambda xp, x, f, m: m.T + 1,
    lambda xp, x, f, m: x * x,
]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("program", ALONE)
def test_medium_operations_alone_are_executed_at_the_next_call(program: Callable[..., Any], read: bool) -> None:
    """Test medium-size operations with no other operation to fuse with. The first call is recorded, and the next calls run immediately.

    The results have the same bits. If `read`, only one element of each result is read.
    """
    source = np.random.default_rng(3)
    x, f, m = (wf.asarray(source.normal(size=shape)) for shape in (50_000, 50_000, (224, 224)))
    wf.evaluate(x, f, m)
    results: list[Any] = []
    for k in range(3):
        found = program(wf, x, f, m)
        assert (found._values is None) == (k == 0)
        if read:
            float(found[(0,) * found.ndim])
        else:
            results.append(np.asarray(found))
    assert all(same(each, results[0]) for each in results)


ASSIGNED_ALONE: list[Callable[[Any, Any], None]] = [
    lambda x, y: operator.setitem(x, slice(None), y),
    lambda x, y: operator.setitem(x, (slice(1, -1), slice(1, -1)), y[1:-1, 1:-1]),
    lambda x, y: operator.setitem(x, slice(2, None), 0.5),
    lambda x, y: x.clip(-0.5, 0.5, out=x),
]


@pytest.mark.parametrize("assign", ASSIGNED_ALONE)
def test_medium_assignments_alone_are_executed_at_the_next_call(assign: Callable[[Any, Any], None]) -> None:
    """Test a lone assignment to a medium-size array. The first time, weft delays it. From the second time on, weft executes it immediately.

    The assignment cannot be fused, because no other operation is recorded.
    """
    values = np.random.default_rng(3).normal(size=(2, 224, 224))
    for k in range(3):
        x, y = (wf.asarray(each) for each in values)
        wf.evaluate(x, y)
        assign(x, y)
        assert (host_values.values_of(x) is None) == (k == 0)
        wf.evaluate(x)
        wanted = values[0].copy()
        assign(wanted, values[1])
        assert same(np.asarray(x), wanted)


@pytest.mark.parametrize("code", "fd")
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "std", "var"])
@pytest.mark.parametrize(
    "shape", [(224, 224), (600, 100), (100, 600), (30, 40, 50), (20_000, 3), (3, 20_000), (2, 2, 9001)]
)
def test_medium_reductions_have_the_bits_of_kernels(shape: tuple[int, ...], name: str, code: str) -> None:
    values = np.random.default_rng(5).uniform(0.99, 1.01, shape).astype(code)
    for axis in range(values.ndim):
        array = wf.evaluate(wf.asarray(values))
        with override(interpret="never"):
            wanted = np.asarray(getattr(array, name)(axis=axis))
        for _ in range(2):
            assert same(np.asarray(getattr(array, name)(axis=axis)), wanted)


@pytest.mark.parametrize("code", "fd")
@pytest.mark.parametrize("shape", [(224, 224), (600, 100), (30, 40, 50), (20_000, 3), (3, 20_000)])
def test_medium_norms_have_the_bits_of_kernels(shape: tuple[int, ...], code: str) -> None:
    """Test that norms of rows and columns are bit-identical in kernels and in immediate execution."""
    values = np.random.default_rng(5).normal(size=shape).astype(code)
    array = wf.evaluate(wf.asarray(values))
    for axis in range(values.ndim):
        with override(interpret="never"):
            wanted = np.asarray(wf.linalg.norm(array + 0, axis=axis))
        for _ in range(3):
            assert same(np.asarray(wf.linalg.norm(array, axis=axis)), wanted)


@pytest.mark.parametrize("name", ["max", "min"])
def test_rows_that_broadcasting_repeats_are_reduced_once(name: str) -> None:
    """Test `max` and `min` of arrays in which broadcasting repeats a row or column. Reducing it once gives the same bits as in NumPy.

    The first call is recorded. Later calls at the same call site reduce one of the equal rows or columns immediately.
    """
    row = np.random.default_rng(5).normal(size=(1, 20_000))
    for values in (np.broadcast_to(row, (9, 20_000)), np.broadcast_to(row.T, (20_000, 9))):
        array = wf.evaluate(wf.broadcast_to(wf.asarray(row if len(values) == 9 else row.T), values.shape))
        for axis in (0, 1):
            for keepdims in (False, True):
                wanted = getattr(values, name)(axis=axis, keepdims=keepdims)
                found = [wf.evaluate(getattr(array, name)(axis=axis, keepdims=keepdims)) for _ in range(3)]
                assert all(same(np.asarray(each), wanted) and each.flags.owndata for each in found)


def test_a_fused_reduction_stays_recorded() -> None:
    m = wf.evaluate(wf.asarray(np.random.default_rng(3).normal(size=(224, 224))))
    for _ in range(3):
        mean = m.mean(axis=0)
        assert mean._values is None
        wf.evaluate(m - mean)


def test_few_elements_of_large_arrays() -> None:
    values = np.random.default_rng(3).normal(size=(300, 400))
    own, x = values.copy(), wf.evaluate(wf.asarray(values))
    flat = x.reshape(-1)
    before = wf.statistics()
    for xp, array, row in ((np, own, own.reshape(-1)), (wf, x, flat)):
        xp.add.at(row, [1, 5, 1], 1.0)
        xp.put(row, [3, 4], 7.0)
        xp.fill_diagonal(array, 2.0)
    assert same(x.diagonal(), own.diagonal()) and not x.diagonal().flags.writeable
    assert flat.take(5) == own.reshape(-1).take(5)
    assert wf.atleast_3d(x).shape == (300, 400, 1) and wf.moveaxis(x, 0, 1).shape == (400, 300)
    assert wf.statistics() == before and same(x, own)


def test_products_of_einsum_are_computed_at_the_call() -> None:
    source = np.random.default_rng(3)
    m, n, v = (source.normal(size=shape) for shape in ((224, 200), (200, 300), 200))
    own = [wf.evaluate(wf.asarray(each)) for each in (m, n, v)]
    for subscripts, k in (("ij,j->i", 2), ("ij,jk->ik", 1), ("ij,jk->ki", 1), ("ji,kj->ik", None)):
        pair, theirs = (own[0], own[k or 0]), (m, n if k == 1 else v if k else m)
        if k is None:
            pair, theirs = (own[1], own[0]), (n, m)
        found = wf.einsum(subscripts, *pair)
        with override(immediate=0):
            wanted = np.asarray(wf.einsum(subscripts, *pair))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, np.einsum(subscripts, *theirs), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [300, 200_000])
@pytest.mark.parametrize("name", ["power", "arctan2", "hypot", "logaddexp", "add", "divide", "maximum"])
def test_in_place_operations_at_indices_have_the_bits_of_kernels(name: str, size: int) -> None:
    values, indices = np.random.default_rng(0).uniform(1, 2, size), np.arange(250)
    found = []
    for limit in (IMMEDIATE, 0):
        x = wf.evaluate(wf.asarray(values))
        with override(immediate=limit):
            getattr(wf, name).at(x, indices, 1.7)
            found.append(np.asarray(x))
    assert same(*found)


def test_operations_at_many_elements_of_large_arrays_are_recorded() -> None:
    x = wf.evaluate(wf.asarray(np.zeros((1000, 400))))
    for key in (slice(None), ..., [1, 2, 3] * 50):
        wf.add.at(x, key, 1.0)
        assert x._storage.expr is not None
    assert x.sum() == 2 * 400_000 + 150 * 400


def test_random_numbers_are_written_to_weft_arrays_behind_pending_work() -> None:
    numpy = script_namespace.script_module("numpy")
    for name, arguments in (("random", ((5,), np.float64)), ("standard_gamma", (2.0, (5,), np.float64))):
        base = wf.evaluate(wf.asarray(np.arange(400_000.0)))
        doubled, part = base * 2, base[:5]
        result = getattr(numpy.random.default_rng(3), name)(*arguments, part)
        assert result is part
        np.testing.assert_array_equal(doubled[:5], [0, 2, 4, 6, 8])
        np.testing.assert_array_equal(part, getattr(np.random.default_rng(3), name)(*arguments))


def test_views_of_numpy_arrays_beside_small_weft_arrays() -> None:
    own = np.arange(5.0)
    _, view = wf.atleast_1d(wf.asarray([1.0, 2.0]), own)
    own[0] = 99
    assert view[0] == 99


def test_widths_of_padding_are_checked() -> None:
    with pytest.raises(TypeError, match="integral"):
        wf.pad(wf.asarray(LARGE)[0], [10**400])


@pytest.mark.parametrize("name", ["add", "sin", "maximum", "greater"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_small_arrays_are_stacked_for_ufuncs_without_evaluation(name: str, kind: type) -> None:
    values = np.arange(12.0).reshape(2, 6)
    rows = [wf.asarray(row) for row in values]
    for given, plain in (((kind(rows), 2.0), (values, 2.0)), ((rows[1], kind(rows)), (values[1], values))):
        given, plain = (given[:1], plain[:1]) if name == "sin" else (given, plain)
        before = wf.statistics()
        result = getattr(wf, name)(*given)
        after = wf.statistics()
        assert after["interpreted"] == before["interpreted"] and after["kernels"] == before["kernels"]
        assert type(result) is wf.Array
        assert same(np.asarray(result), np.asarray(getattr(wf, name)(*map(wf.asarray, plain))))


@pytest.mark.parametrize("listed", [[], (), [np.ones(2), np.ones(2)], [[], []]])
def test_lists_without_weft_arrays_are_operands(listed: Any) -> None:
    x = wf.ones((2, 1))
    for result in (x + listed, listed + x, wf.add(x, listed)):
        assert same(np.asarray(result), np.ones((2, 1)) + listed)


@pytest.mark.cpu
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_large_arrays_of_integers_are_tested_for_nan_without_a_recording(name: str, native: bool) -> None:
    if native:
        native_immediate.install_native_code()
    for dtype in (bool, np.uint8, np.int64):
        x = wf.asarray(np.ones(300_000, dtype))
        result = getattr(wf, name)(x)
        assert result._storage is None or result._storage.expr is None
        assert same(np.asarray(result), getattr(np, name)(np.ones(300_000, dtype)))
    assert getattr(wf, name)(wf.asarray(np.ones(300_000)))._storage.expr is not None
