"""Tests of Python scalars as operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.native_recording import recording_in_native_code
from weft.dsl.arrays.native_operators import install_native_code
from weft.fusion.graph.expr import topological
from weft.runtime import override

STATEMENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda xp, x, k: x * k,
    "reflected": lambda xp, x, k: k - x,
    "with a constant": lambda xp, x, k: (x + 1.5) / k + 2,
    "comparison": lambda xp, x, k: xp.where(x > k, x, -x),
    "function": lambda xp, x, k: xp.maximum(x, k),
    "view": lambda xp, x, k: x[1:] * k + x[:-1],
    "twice": lambda xp, x, k: (x * k) + (x * (k + 1)),
    "folded": lambda xp, x, k: (x * k).sum(),
}


def in_place(xp: Any, x: Any, k: Any) -> Any:
    """Update a copy of `x`, and then a part of the copy."""
    y = x.copy()
    y += k
    y[1:-1] *= k
    return y


STATEMENTS["in place"] = in_place


def check(statement: Callable[[Any, Any, Any], Any], dtype: str, numbers: list[Any]) -> None:
    """Run the statement with each scalar, and compare the results with NumPy's."""
    source = (np.arange(40) % 7 + 1).astype(dtype)
    x = wf.asarray(source)
    for number in numbers:
        with np.errstate(divide="ignore"):
            found, wanted = np.asarray(statement(wf, x, number)), statement(np, source, number)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_numbers_that_change(name: str, dtype: str) -> None:
    check(
        STATEMENTS[name], dtype, [0.5, 2.0, 0.0, -0.0, 3, 1e-3, np.inf, 7.25, 0.5, 100, np.float64(2.5), np.float32(3)]
    )


@pytest.mark.parametrize("name", ["product", "comparison", "twice", "in place"])
def test_integers_that_change(name: str) -> None:
    check(STATEMENTS[name], "int16", [1, 2, 3, 4, 5, 0, 6, 7])


def test_an_integer_that_the_dtype_cannot_hold_compares_by_its_value() -> None:
    x = wf.asarray(np.arange(5, dtype=np.int8))
    assert [int((x < k).sum()) for k in (1, 2, 3, 4, 1000, -1000, 2)] == [1, 2, 3, 4, 5, 0, 2]


def test_an_integer_that_does_not_fit_is_refused_as_before() -> None:
    x = wf.asarray(np.arange(5, dtype=np.int8))
    for k in (1, 2, 3, 4):
        wf.evaluate(x + k)
    for k in (1, 300, 300):
        if k == 300:
            with pytest.raises(OverflowError):
                x + k
    np.testing.assert_array_equal(np.asarray(x + 5), np.arange(5, 10))


@pytest.mark.usefixtures("cold_cache")
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_plan_is_found_again(name: str) -> None:
    x = wf.asarray(np.arange(40.0))
    statement = STATEMENTS[name]
    for k in range(6):
        wf.evaluate(statement(wf, x, 1.5 + k))
    before = wf.statistics()
    for k in range(20):
        wf.evaluate(statement(wf, x, 50.25 + k))
    after = wf.statistics()
    assert after["plans"] == before["plans"]
    assert after["compilations"] == before["compilations"]


def test_numpys_scalars_are_arguments_at_once() -> None:
    x = wf.asarray(np.arange(40.0))
    wf.evaluate(x * np.float64(0.5))
    before = wf.statistics()["plans"]
    found = [float((x * np.float64(k)).sum()) for k in (1.0, 2.0)]
    assert found == [780.0, 1560.0]
    assert wf.statistics()["plans"] <= before + 1  # for the sum, if no earlier test has planned it


def test_numbers_of_a_program_that_stays_the_same_are_constants() -> None:
    x = wf.asarray(np.arange(40.0))
    for _ in range(4):
        r = x
        for k in range(1, 9):
            r = r * x + 0.125 * k
        kinds = {node.kind for node in topological([r._storage.expr], lambda node: False)}
        assert kinds == {"leaf", "map", "constant"}
        wf.evaluate(r)


def test_loops_that_begin_behind_other_statements_are_cut_turn_by_turn() -> None:
    def program(xp: Any) -> float:
        x, total = xp.arange(30.0), xp.zeros(30)
        scale = xp.ones(30) * 2.0
        for k in range(400):
            total += x * k
            total = total * 0.5 + scale
            total = xp.where(total > 20.0 * k, total - k, total)
        return float(total.sum())

    for _ in range(5):
        assert program(wf) == pytest.approx(program(np), rel=1e-12)
    before = wf.statistics()["plans"]
    assert program(wf) == pytest.approx(program(np), rel=1e-12)
    assert wf.statistics()["plans"] == before


@pytest.mark.parametrize("compare", [operator.gt, operator.le, operator.eq, operator.ne], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_integers_that_are_compared_leave_the_dtype(compare: Callable[[Any, Any], Any], dtype: str) -> None:
    """Test comparisons with integers within and beyond the dtype's range.

    Integers beyond the range need another comparison, so one kernel with the integer as an argument is not enough.
    """
    source = np.arange(40).astype(dtype)
    x = wf.asarray(source)
    for number in (1, 2, 3, 4, 255, 256, -1, -200, 2**40, 2**63, 5):
        assert np.array_equal(np.asarray(compare(x, number)), compare(source, number)), number


def test_numbers_that_were_constants_before_their_call_site_changed_are_arguments() -> None:
    x = wf.asarray(np.arange(40) % 5)
    random = np.random.default_rng(3)

    def count(letters: list[int]) -> int:
        total = x * 0
        for letter in letters:
            total = total + (x != letter) * 2
        return int(total.sum())

    for letter in (0, 1, 2, 3, 0, 1):
        count([letter] * 8)
    before = wf.statistics()["plans"]
    for _ in range(8):
        letters = random.integers(0, 4, 8).tolist()
        assert count(letters) == sum(2 * 32 for _ in letters)
    assert wf.statistics()["plans"] == before


def test_an_integer_that_does_not_fit_compares_behind_many_that_did() -> None:
    x = wf.asarray(np.arange(5, dtype=np.int8))
    found = [int((x < k).sum()) for k in (1, 2, 3, 4, 2, 300, 2**40, -(2**40), 2**70, 3)]
    assert found == [1, 2, 3, 4, 2, 5, 5, 0, 5, 3]


def test_an_operation_on_a_number_may_be_folded() -> None:
    for number in (20, 2**40, True):
        for name in ("isfinite", "isnan", "isinf"):
            for _ in range(3):
                assert bool(getattr(wf, name)(number)) == bool(getattr(np, name)(number))


@pytest.mark.parametrize("device", ["cpu", "simt"])
@pytest.mark.parametrize("how", ["always", "never"])
def test_float64_is_rounded_to_float16_once(device: str, how: str) -> None:
    halves = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(float)
    middles = (halves[:-1] + halves[1:]) / 2
    near = np.concatenate(
        [halves, middles, np.nextafter(middles, 9e9), np.nextafter(middles, -1), middles * (1 + 1e-12)]
    )
    x = np.concatenate([near, -near, [65520 - 1e-9, 65520, 1e39, -1e300, np.inf, np.nan, 1e-300, -5e-324]])
    with override(interpret=how), np.errstate(over="ignore"):
        found = np.asarray(wf.asarray(x, device=device).astype(np.float16))
        np.testing.assert_array_equal(found.view(np.uint16), x.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [3, 3.0])
def test_a_cube_is_computed_by_products(dtype: type, exponent: float) -> None:
    rng = np.random.default_rng(5)
    limits = np.finfo(dtype)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        limits.max,
        -limits.max,
        limits.tiny,
        limits.smallest_subnormal,
    ]
    magnitudes = 10.0 ** rng.uniform(np.log10(limits.tiny) / 3, np.log10(limits.max) / 3, 40_000)
    values = np.array([*edges, *magnitudes, *-magnitudes], dtype)
    cubes = wf.asarray(values) ** exponent
    assert "square" in str(wf.explain(cubes)) and "power" not in str(wf.explain(cubes))
    with np.errstate(all="ignore"):
        exact = values.astype(np.longdouble) ** 3
        expected = exact.astype(dtype)
    found = np.asarray(cubes)
    in_place = wf.asarray(values)
    in_place **= exponent
    np.testing.assert_array_equal(in_place, found)
    np.testing.assert_array_equal(found[: len(edges)], expected[: len(edges)])
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    finite = np.isfinite(expected) & (np.abs(expected) >= limits.tiny)
    errors = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(expected[finite]))
    assert errors.max() < 2


def test_exponents_may_alternate_at_one_line() -> None:
    values = np.linspace(0.5, 2, 40_000)
    x = wf.asarray(values)
    for exponent in [4, 3, 2, 3, 5, 3, 3.0, 4.0, 1, 3, 0, 3]:
        np.testing.assert_allclose(x**exponent, values**exponent, rtol=1e-14)


@pytest.mark.parametrize("exponent", [3, 3.0])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_cubes_of_small_arrays_have_the_same_bits(exponent: float, kind: type) -> None:
    a = np.random.default_rng(5).standard_normal(1000).astype(kind)
    wanted = (wf.asarray(a) ** exponent).numpy().tobytes()
    with override(immediate=1 << 14):
        assert np.asarray(wf.asarray(a) ** exponent).tobytes() == wanted
        x = wf.asarray(a.copy())
        x **= exponent
        assert np.asarray(x).tobytes() == wanted


def test_large_ints_in_place_are_floats_beside_floats() -> None:
    x = wf.asarray(np.ones(5)) + 0
    x -= 2**64
    np.testing.assert_array_equal(x.numpy(), np.ones(5) - 2.0**64)


OVERFLOWING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda xp, x, k: x * k,
    "comparison": lambda xp, x, k: x < k,
    "function": lambda xp, x, k: xp.maximum(x, k),
    "where": lambda xp, x, k: xp.where(x > 3, x, k),
    "clip": lambda xp, x, k: x.clip(0, k),
    "in place": in_place,
}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("name", OVERFLOWING)
def test_a_handler_of_an_overflow_may_evaluate(name: str, native: bool) -> None:
    """Test operations during which an overflow handler evaluates arrays. The results must equal NumPy's.

    The conversion of a number calls the handler. The evaluation ends the recording.
    """
    with recording_in_native_code() if native else nullcontext():
        if native:
            install_native_code()
        check_with_handler(OVERFLOWING[name])


def check_with_handler(statement: Callable[[Any, Any, Any], Any]) -> None:
    """Run a statement that overflows. NumPy's error handler is a function that itself executes weft operations."""
    source = np.arange(40_000, dtype=np.float32) % 7
    other, calls, kept = wf.asarray(source[::-1].copy()), [], []

    def handler(kind: str, flag: int) -> None:
        calls.append(kind)
        float((other + len(calls)).sum())
        kept.append(other * 3)  # (pending in the slots of a new recording)

    before = np.seterrcall(handler)
    try:
        with np.errstate(over="call"):
            for k in range(12):
                number = 1e300 if k % 3 == 2 else 1.5 + k
                x, doubled = wf.asarray(source) + 1, other * 2
                found = statement(wf, x, number) + doubled
                with np.errstate(over="ignore"):
                    wanted = statement(np, source + 1, number) + source[::-1] * 2
                np.testing.assert_array_equal(found, wanted)
    finally:
        np.seterrcall(before)
    assert calls
    np.testing.assert_array_equal(kept[-1], source[::-1] * 3)


HUGE = (2**63 - 1, 2**63, 2**64, 2**128, -(2**63), -(2**63) - 1, 10**400)
WITH_HUGE: dict[str, Callable[[Any, Any, int], Any]] = {
    "add": lambda xp, x, k: x + k,
    "divide": lambda xp, x, k: x / k,
    "and": lambda xp, x, k: x & k,
    "less": lambda xp, x, k: x < k,
    "equal": lambda xp, x, k: k == x,
    "copysign": lambda xp, x, k: xp.copysign(x, k),
    "hypot": lambda xp, x, k: xp.hypot(x, k),
    "clip": lambda xp, x, k: xp.clip(x, 0, k),
    "clip below": lambda xp, x, k: xp.clip(x, k, None),
    "where": lambda xp, x, k: xp.where(x > 0, x, k),
    "in place": lambda xp, x, k: operator.iadd(x.copy(), k),
    "fill": lambda xp, x, k: (y := x.copy(), y.fill(k))[0],
    "item": lambda xp, x, k: (y := x.copy(), y.__setitem__(slice(1, 3), k))[0],
}


def outcome(statement: Callable[[Any, Any, int], Any], xp: Any, x: Any, number: int) -> Any:
    """Return the dtype and the first elements of a result, or the name of the exception class."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(statement(xp, x, number))
        return found.dtype.name, [repr(value) for value in found[:5].tolist()]
    except (ArithmeticError, TypeError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("name", WITH_HUGE)
def test_huge_integers(name: str, dtype: str) -> None:
    source = np.resize(np.array([1, 0, 1, 1]).astype(dtype), 20_000)
    for _ in range(3):
        for number in HUGE:
            found = outcome(WITH_HUGE[name], wf, wf.asarray(source.copy()), number)
            assert found == outcome(WITH_HUGE[name], np, source.copy(), number) or (
                name in ("and", "item") and number == 10**400 and "Error" in found
            )


@pytest.mark.parametrize("native", [False, True])
def test_negative_exponents_are_errors_after_many_other_exponents(native: bool) -> None:
    x = wf.asarray(np.resize(np.arange(5), 20_000)) + 0
    with recording_in_native_code() if native else nullcontext():
        if native:
            install_native_code()
        for power in (lambda k: wf.power(x, k), lambda k: x**k, lambda k: operator.ipow(x.copy(), k)):
            for k in range(4, 20):
                np.testing.assert_array_equal(power(k)[:5], np.arange(5) ** k)
            for exponent in (-1, -(2**63)):
                with pytest.raises(ValueError, match="negative integer powers"):
                    power(exponent)
