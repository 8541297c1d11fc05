"""Tests of small operations on host memory, which run immediately.

They have NumPy's values, aliases and errors, and need no plans.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import CODES, same, values
from weft.codegen import OPS, find_op
from weft.dsl.arrays.array import expr_of, record, start
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.immediate import native_immediate
from weft.dsl.immediate.at_call import MISSED, attempt, implementation_of
from weft.dsl.immediate.host_values import is_free
from weft.fusion import current_epoch, recording, uncut
from weft.runtime import IMMEDIATE as LIMIT
from weft.runtime import override

IMMEDIATE = 16384


NAMES = [
    definition.name for definition in OPS.values() if not definition.name.startswith("_") and definition.name != "power"
]


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_kernels(name: str) -> None:
    """Test operations that are executed at the call, in native code and in Python code. The results have the same bits as those of kernels."""
    native_immediate.install_native_code()
    function = getattr(wf, name)
    ways = [function]
    if isinstance(function, UFunc):
        ways.append(partial(native_immediate.INSTALLED[UFunc, "__call__"][1], function))
    given: list[tuple[str, list[Any], Any]] = []
    with override(immediate=0):
        for code in CODES:
            operands = [wf.asarray(np.roll(values(code), 5 * k)) for k in range(find_op(name).arity)]
            with suppress(TypeError):  # (the op has no loop for this dtype)
                given.append((code, operands, function(*operands)))
        wf.evaluate(*[array for *_, array in given])  # one plan
    for code, operands, array in given:
        wanted = np.asarray(array)
        before = wf.statistics()["plans"]
        with np.errstate(all="ignore"):
            found = [way(*operands) for way in ways for _ in range(2)]
        assert all(same(each, wanted) for each in found), code
        if code in "ilfd" and find_op(name).ufunc:  # (other loops are compiled once that pays off)
            assert wf.statistics()["plans"] == before, code


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
    """Test that pending expressions keep the old values of their operands after an immediate write."""
    large, small = wf.asarray(np.arange(50_000.0)), wf.asarray(np.arange(5.0))
    total = large[:5] + 0.0
    pending = large * 2 + large[1]
    scaled = (large.reshape(5, -1) * small[:, None]).sum(axis=1)
    large[3], small[1] = -1.0, -100.0
    large[5:9] = 0.0
    assert float(pending[3]) == 7.0 and float(scaled[1]) == float(np.arange(10_000.0, 20_000.0).sum())
    assert float(large[3]) == -1.0 and float(small[1]) == -100.0 and float(total[3]) == 3.0
    copied = large.numpy()
    large[3] = 9.0
    assert copied[3] == -1.0 and float(large[3]) == 9.0


def test_nothing_is_planned_and_large_work_is_recorded() -> None:
    x, y = wf.asarray(np.arange(100.0)), wf.asarray(np.ones(100))
    before = wf.statistics()["plans"]
    z = wf.where(x > y, x, y) @ y + wf.concatenate([x, y])[:100].sum() - wf.sort(x)[::-1].cumsum()[3]
    assert float(z) == float(np.where(np.arange(100.0) > 1, np.arange(100.0), 1).sum() + 4950 - (99 + 98 + 97 + 96))
    assert wf.statistics()["plans"] == before
    grid = x[:, None] * wf.arange(1000.0)
    assert grid._device is None and grid._storage.buffer is None  # 100,000 elements
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
        assert LIMIT[0] == 3 and attempt(implementation_of(find_op("add")), (x, x)) is MISSED
        assert (x + x)._device is None
    assert (x + x)._device is not None


def test_small_results_go_into_other_arrays_at_the_call() -> None:
    """Test immediate writes of small results to `out` arrays, and to elements of a large array."""
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


def test_orders_in_memory() -> None:
    x = wf.asarray(np.arange(6.0).reshape(2, 3))
    assert x.T.flags["F_CONTIGUOUS"] and (x.T + 1).flags["F_CONTIGUOUS"]
    assert x.copy("F").flags["F_CONTIGUOUS"] and x.ravel("F").tolist() == [0, 3, 1, 4, 2, 5]
    assert x.strides == (24, 8) and x[:, 1].strides == (24,)


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


@pytest.mark.parametrize("code", "fdFD")
def test_bits_beside_numpys_scalars_are_those_of_kernels(code: str) -> None:
    """Test operations on an array and a scalar. Immediate execution, at the call, must compute the same bits as a kernel."""
    native_immediate.install_native_code()
    array = wf.asarray(values(code))
    with np.errstate(all="ignore"):
        for number in (*(values(each)[-1] for each in "ifdFD"), 2, 0.5):
            for calculate in (lambda a, b: a * b, lambda a, b: b / a, lambda a, b: wf.hypot(abs(a), abs(b))):
                with override(immediate=0):
                    wanted = np.asarray(calculate(array, number))
                for _ in range(3):  # (the first call compiles the loop)
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
            assert not isinstance(own, wf.Array) or own._device is not None  # (before NumPy shares its memory)
            assert same(own, theirs)
    assert type(wf.linalg.qr(x)).__name__ == "QRResult"
    assert same(wf.fft.fft(y[:, 0]), np.fft.fft(b[:, 0]))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        wf.linalg.inv(wf.zeros((2, 2)))


def test_memory_is_free_once_a_recording_has_no_more_to_do() -> None:
    """Test that an array's memory is free to be overwritten once no pending operation of the recording reads the array."""
    rows, centres = wf.asarray(np.arange(40_000.0).reshape(20_000, 2)), wf.asarray(np.arange(8.0).reshape(4, 2))

    def assign() -> tuple[Any, Any]:
        distances = ((rows[:, None] - centres) ** 2).sum(axis=2)
        return distances.argmin(axis=1), distances.min(axis=1).sum()

    centres[0] = 0.5  # (immediately)
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
    """Test that results of native code share memory with their views. Deleted views leave no objects behind."""
    native_immediate.install_native_code()
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
                other = object()
                held = [other]  # (a name and a holder, as for the buffer)
                assert sys.getrefcount(buffer) == sys.getrefcount(other)
                del buffer, held
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


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_what_is_made_like_a_small_array_has_its_order(name: str) -> None:
    a = np.arange(24.0).reshape(4, 6)
    x = wf.asarray(a)
    for own, theirs in ((x, a), (x.T, a.T), (x[::2], a[::2]), (x[:, 0], a[:, 0]), (x[0], a[0]), (x + 1, a + 1)):
        made, wanted = getattr(wf, name)(own), getattr(np, name)(theirs)
        assert made.shape == wanted.shape
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            assert made.flags[flag] == wanted.flags[flag], flag


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.int64, bool, np.complex128])
def test_small_arrays_are_cast_at_the_call(kind: Any) -> None:
    given = values("d").reshape(4, 6)
    for x in (wf.asarray(given), wf.asarray(given).T):
        found = x.astype(kind)
        assert found._storage.buffer is not None
        with override(immediate=0):
            wanted = wf.evaluate(wf.asarray(np.asarray(x)).astype(kind))
        assert same(found, wanted) and found.strides == x.numpy().astype(kind).strides


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
        native_immediate.install_native_code()
    whole = wf.asarray(np.random.default_rng(0).integers(1, 1000, 4000))
    for name in ("power", "floor_divide", "remainder", "multiply", "maximum"):
        for number in (2.5, 0.1, np.float64(0.7)):
            for operands in ((whole, number), (number, whole)):
                with override(immediate=0):
                    wanted = np.asarray(getattr(wf, name)(*operands))
                assert same(getattr(wf, name)(*operands), wanted)
    assert same(whole**3, np.asarray(whole) ** 3) and same(wf.power(whole, 2), np.asarray(whole) ** 2)


def test_axes_are_tuples() -> None:
    native_immediate.install_native_code()
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


def test_outer_products_are_made_at_the_call_where_they_are_small() -> None:
    v, w = np.arange(1.0, 201.0), np.arange(50.0)
    x, y = wf.asarray(v), wf.asarray(w)
    found = wf.outer(x, y)
    assert found._device is not None and same(found, np.outer(v, w))
    assert wf.outer(x, w)._device is not None and wf.outer(x, [1.0, 2.0]).shape == (200, 2)
    large = wf.outer(x, x)
    assert large._device is None and large._storage.buffer is None
    assert same(large, np.outer(v, v))


def test_products_by_subscripts_are_recorded_if_there_are_many() -> None:
    x = wf.asarray(np.random.default_rng(1).normal(size=(40, 40)))
    for subscripts in ("ij,ij->ij", "ij,ij->i"):
        assert wf.einsum(subscripts, x, x)._values is not None
    for subscripts in ("ij,kl->ijkl", "ij,jk->ik"):
        assert wf.einsum(subscripts, x, x)._values is None


@pytest.mark.parametrize("axes", [1, 2, ([1], [1]), (0, 1), ([0, 1], [1, 0])])
def test_products_by_tensordot_are_done_at_the_call_if_blas_computes_few(axes: Any) -> None:
    first, second = np.random.default_rng(1).normal(size=(2, 40, 40))
    x, y = wf.asarray(first), wf.asarray(second)
    expected = np.tensordot(first, second, axes)
    for found in (wf.tensordot(x, y, axes), wf.tensordot(x, second, axes=axes)):
        assert (found.ndim == 0 or found._values is not None) and same(found, expected)
    assert wf.tensordot(x, y, 0)._values is None
    with pytest.raises(ValueError):
        wf.tensordot(x, y[:3, :3], axes)


@pytest.mark.parametrize("subscripts", ["ij,ijk->ijk", "ki,ij->kij", "i,j->ji", "ij->ji", "ii->i"])
def test_small_products_by_subscripts_are_done_at_the_call(subscripts: str) -> None:
    source = np.random.default_rng(1)
    sizes = dict(zip("kij", (6, 4, 4), strict=True))
    arrays = [source.normal(size=[sizes[c] for c in term]) for term in subscripts.partition("->")[0].split(",")]
    small = wf.einsum(subscripts, *map(wf.asarray, arrays))
    assert isinstance(small, np.generic) or small._values is not None
    with override(immediate=0):
        recorded = np.asarray(wf.einsum(subscripts, *map(wf.asarray, arrays)))
    assert np.asarray(small).tobytes() == recorded.tobytes()
    np.testing.assert_allclose(small, np.einsum(subscripts, *arrays), rtol=1e-12)
