"""Tests of operators and functions in native code.

They have the results of the Python functions that they replace.
"""

from __future__ import annotations

import gc
import inspect
import operator
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.native_recording import recording_in_native_code
from weft.dsl.arrays import call_sites, native_operators, operators
from weft.dsl.arrays.array import Array, Scalar
from weft.dsl.arrays.native_operators import install_native_code
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.functions.own_names import OWN
from weft.fusion import ALONE, INTERNED, Epoch, Storage, end_recording, recording, reset_statistics, statistics
from weft.runtime import CompileError, DeviceMismatchError, failures, override


@pytest.fixture(autouse=True, scope="module")
def _for_these_tests_alone() -> Iterator[None]:
    with recording_in_native_code():
        yield


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    install_native_code()
    with wf.device("cpu"):
        yield


NATIVE = ("__add__", "__rsub__", "__mul__", "__lt__", "__eq__", "__pow__", "__neg__", "__iadd__")
NATIVE += ("sum", "mean", "round", "__getitem__", "__setitem__")


def test_what_looks_up_is_native() -> None:
    assert [name for name in NATIVE if hasattr(vars(Array)[name], "__code__")] == []
    assert not hasattr(vars(UFunc)["__call__"], "__code__")
    assert hasattr(vars(Scalar)["__iadd__"], "__code__") and hasattr(vars(Scalar)["__pow__"], "__code__")


def test_native_methods_are_described_as_before() -> None:
    x = wf.asarray(np.arange(4.0))
    assert Array.mean.__doc__ == wf.mean.__doc__ and Array.mean.__name__ == "mean"
    assert [*inspect.signature(x.sum).parameters] == [*inspect.signature(wf.sum).parameters][1:]
    assert "out" in inspect.signature(wf.sin).parameters
    assert pickle.loads(pickle.dumps(x.sum))() == 6


OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.eq, operator.and_)


@pytest.mark.parametrize("operate", OPERATORS)
def test_what_was_recorded_is_found_again(operate: Callable[[Any, Any], Any]) -> None:
    """Test that an operation repeated at the same call site reuses its expression.

    The same operation at another call site has another expression.
    """
    a, b = np.arange(1, 13).reshape(3, 4), np.arange(3, 15).reshape(3, 4)
    x, y = wf.asarray(a), wf.asarray(b)
    cases: list[Callable[[Any, Any], Any]] = [
        lambda x, y: operate(x, y),
        lambda x, y: operate(x[1:], y[:-1]),
        lambda x, y: operate(x, y[0, 1]),
        lambda x, y: operate(x.sum(), y.max()),
        lambda x, y: operate(x, 3),
        lambda x, y: operate(7, y),
        lambda x, y: operate(x, True),
        lambda x, y: operate(x, 0),
        lambda x, y: operate(x, np.int64(5)),
        lambda x, y: operate(x, [1, 2, 3, 4]),
        lambda x, y: operate(x.T, y.T),
        lambda x, y: operate(5, y.T[1:]),
    ]
    for case in cases:
        found = []
        for _ in range(3):
            recording.epoch = Epoch(x.device)
            made = case(x, y)
            found.append(made._storage.expr)
            with np.errstate(all="ignore"):
                expected = case(a, b)
            assert type(made) is (Scalar if np.ndim(expected) == 0 else Array)
            assert made.shape == np.shape(expected) and made.dtype == np.asarray(expected).dtype
            np.testing.assert_array_equal(made.numpy(), expected)
            assert made.shape == () or np.asarray(made).strides == expected.strides
        assert found[1] is found[2]
    assert (x + y)._storage.expr is not (x + y)._storage.expr, "at two call sites"


FOUND: list[Callable[[Any, Any], Any]] = [
    lambda xp, x: -x[1:],
    lambda xp, x: abs(x[:, None, 2]),
    lambda xp, x: xp.sin(x),
    lambda xp, x: xp.maximum(x, 2),
    lambda xp, x: xp.add(x, x[0]),
    lambda xp, x: x**2,
    lambda xp, x: x**-0.5,
    lambda xp, x: x.sum(),
    lambda xp, x: x.max(axis=(0, 1), keepdims=True),
    lambda xp, x: x.mean(1, "f4"),
    lambda xp, x: x.clip(2, None),
    lambda xp, x: x[..., ::2].std(axis=0),
    lambda xp, x: xp.floor(x) * 0.0,
]


@pytest.mark.parametrize("case", FOUND)
def test_functions_and_methods_are_found_again(case: Callable[[Any, Any], Any]) -> None:
    a = np.arange(1.0, 13).reshape(3, 4)
    x, found = wf.asarray(a), []
    for _ in range(3):
        recording.epoch = Epoch(x.device)
        made, expected = case(wf, x), case(np, a)
        found.append(made._storage.expr)
        assert type(made) is (Scalar if np.ndim(expected) == 0 else Array) and made.dtype == expected.dtype
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-7)
    assert found[1] is found[2]


WRITES: dict[str, Callable[[Any, Any, int], Any]] = {
    "row": lambda x, y, k: x.__setitem__(1, y[2]),
    "column": lambda x, y, k: x.__setitem__((slice(None), -1), y[:, 0] * k),
    "number": lambda x, y, k: x.__setitem__(slice(1, None), 0.0),
    "zero": lambda x, y, k: x.__setitem__((slice(None), slice(1, 3)), -0.0 if k % 2 else 0.0),
    "changing": lambda x, y, k: x.__setitem__(Ellipsis, 0.5 * k),
    "element": lambda x, y, k: x.__setitem__((1, 2), 7.0 * k),
    "first": lambda x, y, k: x.__setitem__(0, x.sum()),
    "own row": lambda x, y, k: x.__setitem__(0, x[1]),
    "in place": lambda x, y, k: operator.iadd(x, y),
    "a part in place": lambda x, y, k: x.__setitem__(slice(1, None), operator.iadd(x[1:], y[:-1])),
    "nothing": lambda x, y, k: x.__setitem__(slice(5, None), y[:0]),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("fresh", [False, True])
def test_writes_are_found_again(name: str, fresh: bool) -> None:
    """Test that repeated writes, whose operations weft may cache, change an array as in NumPy and leave earlier results
    unchanged.
    """
    for _ in range(3):
        b = np.arange(12.0).reshape(3, 4)
        a = b + 0.5
        x, y = wf.asarray(a), wf.asarray(b)
        for k in range(6):
            before, wanted = x * 1, a * 1
            WRITES[name](x, y, k)
            WRITES[name](a, b, k)
            if fresh:
                wf.evaluate(x)
            np.testing.assert_array_equal(before.numpy(), wanted)
            np.testing.assert_array_equal(np.signbit(x.numpy()), np.signbit(a))
            np.testing.assert_array_equal(x.numpy(), a)


def test_who_may_not_be_written_to() -> None:
    x = wf.asarray(np.arange(4.0))
    shown = wf.broadcast_to(x, (3, 4))
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            shown[1:] = x
        with pytest.raises(ValueError, match="broadcast"):
            x[1:] = wf.zeros(7)
        with pytest.raises(IndexError):
            x[7]
        with pytest.raises(TypeError, match="keyword"):
            x.sum(axes=0)
        with pytest.raises(TypeError):
            wf.sin()


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda xp, x, y: xp.where(x > y, x, y),
    "where a number": lambda xp, x, y: xp.where(x > 2, x, 0.5),
    "clip": lambda xp, x, y: xp.clip(x, 1, 2.5),
    "roll": lambda xp, x, y: xp.roll(x, 1, axis=0),
    "sum": lambda xp, x, y: xp.sum(x, axis=1, keepdims=True),
    "concatenate": lambda xp, x, y: xp.concatenate((x, y), axis=1),
    "stack": lambda xp, x, y: xp.stack([x, y]),
    "roll along several axes": lambda xp, x, y: xp.roll(x, [1, 2], axis=[0, 1]),
    "prod of a dtype": lambda xp, x, y: xp.prod(x, axis=1, dtype=np.float64),
    "count_nonzero": lambda xp, x, y: xp.count_nonzero(x > y, axis=0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_found_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, (a, b) = FUNCTIONS[name], np.random.default_rng(3).random((2, 3, 4)) * 4
    assert not hasattr(getattr(wf, name.split()[0]), "__code__")
    x, y = wf.asarray(a), wf.asarray(b)
    pending = x + 0, y + 0
    python: list[bool] = []
    monkeypatch.setattr("weft.dsl.arrays.memoized.count_hit", lambda: python.append(True))
    for given in ((x, y), pending):
        python.clear()
        results = [function(wf, *given) for _ in range(3)]
        assert len({id(result._storage.expr) for result in results}) == 1
    assert not python
    for result in results:
        np.testing.assert_allclose(result.numpy(), function(np, a, b), rtol=1e-15)
    # other lengths, dtypes and values of options at the same call site are other expressions
    for c, d in ((a[:2], b[:2]), (a.astype(np.float32), b.astype(np.float32)), (b, a)):
        np.testing.assert_allclose(function(wf, wf.asarray(c), wf.asarray(d)).numpy(), function(np, c, d), rtol=1e-6)
    for axis in (0, 1, -1, None):
        np.testing.assert_allclose(wf.sum(x, axis=axis).numpy(), a.sum(axis=axis), rtol=1e-15)


@pytest.mark.parametrize(("name", "n"), [("roll", 130), ("sum", 400), ("where", 130), ("clip", 130)])
def test_functions_of_large_arrays_in_memory_are_found_again(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, (a, b) = FUNCTIONS[name], np.random.default_rng(3).random((2, n, n)) * 4
    x, y = wf.asarray(a) + 0, wf.asarray(b) + 0
    wf.evaluate(x, y)
    python: list[bool] = []
    monkeypatch.setattr("weft.dsl.arrays.memoized.count_hit", lambda: python.append(True))
    ALONE.clear()
    with override(immediate=1 << 14):
        results = [function(wf, x, y) for _ in range(3)]
    assert not python
    assert len({id(result._storage.expr) for result in results}) == 1
    for result in results:
        np.testing.assert_allclose(result.numpy(), function(np, a, b), rtol=1e-12)


def test_results_of_immediate_execution_are_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test that native code records operations on a result of immediate execution."""
    a, b = np.random.default_rng(3).random((2, 400, 1000))
    python: list[bool] = []
    monkeypatch.setattr("weft.dsl.arrays.call_sites.count_hit", lambda: python.append(True))
    for k in range(4):
        with override(immediate=1 << 14):
            x, y = wf.asarray(a[0]) + 0, wf.asarray(b) + 0  # (the first one is small)
            wf.evaluate(y)
            recording.epoch = Epoch(y.device)
            python.clear()
            assert x._device is not None
            found = y * x - x, x * y
        assert k < 2 or not python
        np.testing.assert_array_equal(found[0].numpy(), b * a[0] - a[0])
        np.testing.assert_array_equal(found[1].numpy(), b * a[0])


def test_copies_that_were_not_fused_run_immediately() -> None:
    a = np.random.default_rng(3).random((100, 400))
    x = wf.asarray(a) + 0
    wf.evaluate(x)
    end_recording()
    with override(immediate=1 << 14):
        for k in range(3):
            rolled = wf.roll(x, 1)  # (at the same call site)
            assert len(recording.epoch.pending) == (k == 0)  # type: ignore[union-attr]
            np.testing.assert_array_equal(rolled.numpy(), np.roll(a, 1))


def test_public_functions_describe_themselves_as_before() -> None:
    assert wf.where.__name__ == "where" and "x" in inspect.signature(wf.where).parameters
    assert wf.roll.__doc__ and "axis" in inspect.signature(wf.roll).parameters
    with pytest.raises(ValueError, match="broadcast"):
        wf.where(wf.asarray(np.ones(3, bool)), wf.asarray(np.arange(3.0)), wf.asarray(np.arange(4.0)))
    target = wf.asarray(np.zeros(3))
    for _ in range(3):
        assert wf.clip(wf.asarray(np.arange(3.0)), 0, 1, out=target) is target
    np.testing.assert_array_equal(target.numpy(), [0, 1, 1])


def test_zeros_keep_their_signs_and_numbers_their_types() -> None:
    x = wf.asarray(np.array([-0.0, 0.0]))
    for number in (0.0, -0.0, 0, 1, 1.0, True, False, -0.0, 0.0):
        expected = np.array([-0.0, 0.0]) + number
        np.testing.assert_array_equal(np.signbit((x + number).numpy()), np.signbit(expected))
    n = wf.asarray(np.arange(3))
    for number in (1, 1.0, True, 2.5):
        assert (n + number).dtype == (np.arange(3) + number).dtype  # type: ignore[operator]


def test_numbers_that_change_become_slots() -> None:
    x = wf.asarray(np.arange(4.0))
    plans = []
    for k in range(1, 12):
        wf.reset_statistics()
        np.testing.assert_array_equal((x * (0.1 * k)).numpy(), np.arange(4.0) * (0.1 * k))
        plans.append(wf.statistics()["plans"])
    assert plans[-4:] == [0, 0, 0, 0]


OF_TWO: list[Callable[[Any, Any, Any], Any]] = [lambda xp, x, y: x - y, lambda xp, x, y: xp.maximum(x, y)]


@pytest.mark.parametrize("operate", OF_TWO)
def test_results_in_another_memory_order_are_recorded_in_native_code(
    operate: Callable[[Any, Any, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    python: list[Any] = []
    recall = call_sites.look_up
    for module in (call_sites, operators):
        monkeypatch.setattr(module, "look_up", lambda *given: python.append(given) or recall(*given))
    expected = operate(np, a.T, a.T[:, ::-1])
    for turn in range(5):
        python.clear()
        x = wf.asarray(a)
        found = operate(wf, x.T, x.T[:, ::-1])
        assert bool(python) == (not turn) and found.strides == expected.strides
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [float, np.float64, int])
def test_numbers_in_slots_are_found_again(
    kind: Callable[[Any], Any], transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.arange(6.0).reshape(2, 3)
    ordered: Callable[[Any], Any] = (lambda x: x.T) if transposed else (lambda x: x)

    def powers(y: Any, number: Any) -> Any:
        for k in range(3):
            y = y * kind(number + k)
        y += kind(number)
        return y - kind(2 * number)

    python: list[Any] = []
    recall = call_sites.look_up_slotted
    monkeypatch.setattr(call_sites, "look_up_slotted", lambda *given: python.append(given) or recall(*given))
    for number in range(2, 9):
        python.clear()
        found = powers(ordered(wf.asarray(a)) + 1, number)
        slots = [slot for slot in recording.epoch.slots if isinstance(slot, np.generic)]  # type: ignore[union-attr]
        np.testing.assert_array_equal(found.numpy(), powers(ordered(a) + 1, number))
    assert len(slots) == 5
    assert not python


def test_numbers_beyond_the_loop_of_a_slot() -> None:
    a = np.arange(4, dtype=np.int8)
    for number in (2, 3, 4, 5):
        np.testing.assert_array_equal((wf.asarray(a) * number).numpy(), a * number)
    with pytest.raises(OverflowError):
        wf.asarray(a) * 300
    np.testing.assert_array_equal((wf.asarray(a) * 6).numpy(), a * 6)


def test_what_an_operator_does_not_take() -> None:
    x = wf.asarray(np.arange(4.0))
    with pytest.raises(TypeError, match="did not contain a loop"):
        x + "text"
    with pytest.raises(TypeError, match="unsupported operand"):
        None - x  # type: ignore[operator]
    with pytest.raises(ValueError, match="broadcast"):
        x + wf.asarray(np.arange(3.0))
    with pytest.raises(TypeError):
        Array.__add__(x)  # type: ignore[operator]
    with pytest.raises(TypeError):
        Array.__add__(x, x, x)  # type: ignore[operator]
    with pytest.raises((TypeError, AttributeError)):  # (TypeError once Python calls native code, as for NumPy's arrays)
        Array.__add__(5, x)  # type: ignore[operator]
    assert not (x == "text").any()
    with pytest.raises(DeviceMismatchError):
        x + wf.asarray(np.arange(4.0)).to("null")  # type: ignore[attr-defined]


def test_what_was_recorded_in_another_thread() -> None:
    x = wf.asarray(np.arange(5.0))
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(x * 2))
    thread.start()
    thread.join()
    for _ in range(3):
        np.testing.assert_array_equal((made[0] + x).numpy(), np.arange(5.0) * 3)


def test_long_loops_are_cut() -> None:
    x = y = wf.asarray(np.arange(5.0))
    for _ in range(3000):
        y = y * 0.5 + x
    assert len(recording.epoch.pending) < 3000  # type: ignore[union-attr]
    np.testing.assert_allclose(y.numpy(), np.arange(5.0) * 2)


def test_nothing_is_left_behind() -> None:
    x, y = wf.asarray(np.arange(5.0)), wf.asarray(np.arange(5.0))

    def go() -> None:
        for _ in range(500):
            x + y, x + 2.5, x[1:] - y[:-1], 3 * x, -x, wf.sin(x), x.sum(axis=0), x[None, ::2], x**2
        with pytest.raises(TypeError):
            x + "text"
        z = x + y
        for _ in range(100):
            z[1:] = y[:-1]
            z += 1.0
            z[2:] *= y[:3]
            z[:] = 2.0
        wf.evaluate(z)

    def referred() -> list[int]:
        gc.collect()
        storages = sum(type(thing) is Storage for thing in gc.get_objects())
        return [storages, len(INTERNED), *map(sys.getrefcount, (x._storage, y._storage, Array, Scalar, go.__code__))]

    for _ in range(2):  # (once memory is unshared, its replacement is recorded at other positions)
        go()
    before = referred()
    go()
    assert referred() == before


def test_operators_stay_where_native_code_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise CompileError("no compiler")

    monkeypatch.setattr(native_operators, "Builtin", fail)
    function: Any = lambda self, other: "in Python"  # noqa: E731
    function.records = "add", 0, 0
    monkeypatch.setattr(Array, "__add__", function)
    with override(strict=False), pytest.warns(wf.OptimizerWarning, match="no compiler"):
        install_native_code()
    with override(strict=True), pytest.raises(CompileError, match="no compiler"):
        install_native_code()
    assert wf.asarray(np.arange(3)) + 1 == "in Python"


def test_functions_loaded_later_stay_in_python_if_native_code_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("a slot")

    def function() -> None:
        raise AssertionError

    function.records = "add", 0, 0  # type: ignore[attr-defined]
    assert OWN.recorder is not None and OWN.recorder(function) is not function
    monkeypatch.setattr(native_operators, "Builtin", fail)
    monkeypatch.setattr(failures, "_reported", set())
    with (
        override(strict=False),
        pytest.warns(wf.OptimizerWarning, match="KeyError: 'a slot'.*recorded by Python") as caught,
    ):
        assert OWN.recorder(function) is OWN.recorder(function) is function
    assert len(caught) == 1
    with override(strict=True), pytest.raises(KeyError):
        OWN.recorder(function)


def test_arrays_that_are_written_to_by_arrays_of_indices_are_not_bound() -> None:
    """Test that `x[indices] = 2` is executed immediately, without a kernel. The array `x` is not bound: it is no input of the recording."""
    indices = wf.evaluate(wf.asarray([3, 5]))
    with override(immediate=16384):
        for index in (indices, (indices, indices), (slice(None), indices)):
            x = wf.zeros((200, 200))
            wf.evaluate(wf.ones(40_000) + 1)
            reset_statistics()
            x[index] = 2
            assert x._storage.buffer is not None and not statistics()["kernels"]
            assert x[5, 5] == 2 and x[4, 4] == 0
