"""Tests of the larger limits of immediate execution for small dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.codegen import OPS
from weft.dsl.arrays.array import Array
from weft.dsl.immediate import native_immediate
from weft.dsl.immediate.at_call import implementation_of, limit_of_operands
from weft.runtime import IMMEDIATE as LIMIT
from weft.runtime import override

IMMEDIATE = 16384
SOURCE = np.random.default_rng(9)
# Limits on the number of elements by dtype, relative to the limit for float64.
SIZES = {"?": 4, "b": 4, "B": 4, "h": 4, "H": 4, "i": 2, "I": 2, "f": 2}


@pytest.fixture(params=["python", "native"])
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "native":
        native_immediate.install_native_code()
    yield request.param


def _values(code: str) -> np.ndarray:
    return SOURCE.integers(0, 2 if code == "?" else 100, SIZES[code] * IMMEDIATE).astype(code)


def _is_immediate(array: Any) -> bool:
    return type(array) is not Array or array._values is not None


FORMS: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "x + y": lambda x, y: x + y,
    "x > y": lambda x, y: x > y,
    "x * 1": lambda x, y: x * x.dtype.type(1),
    "1 + x": lambda x, y: x.dtype.type(1) + x,
    "abs(x)": lambda x, y: abs(x),
    "maximum": lambda x, y: wf.maximum(x, y),
    "diff": lambda x, y: wf.diff(x[::1]) if x.dtype != bool else x,
    "roll": lambda x, y: wf.roll(x, 3),
    "copy": lambda x, y: x.copy(),
    "astype": lambda x, y: x.astype(np.uint8),
    "astype itself": lambda x, y: x.astype(x.dtype),
    "column": lambda x, y: x[:128, None] + y[None, :128] if x.dtype.itemsize == 1 else x,
}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("code", SIZES)
def test_small_dtypes_are_computed_immediately_with_the_bits_of_recorded_operations(code: str) -> None:
    x, y = _values(code), _values(code)
    for form, function in FORMS.items():
        given = [wf.evaluate(wf.asarray(each)) for each in (x, y)]
        found = function(*given)
        assert found is given[0] or _is_immediate(found) or form in ("astype", "maximum"), form
        with override(immediate=0):
            recorded = function(*[wf.evaluate(wf.asarray(each)) for each in (x, y)])
            assert not _is_immediate(recorded), form
            wanted = np.asarray(recorded)
        assert (np.asarray(found).dtype, np.asarray(found).tobytes()) == (wanted.dtype, wanted.tobytes()), form


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("code", ["B", "f"])
def test_larger_or_wider_results_are_recorded(code: str) -> None:
    x = wf.evaluate(wf.asarray(_values(code)))
    beyond = wf.evaluate(wf.asarray(np.ones(SIZES[code] * IMMEDIATE + 1, code)))
    double = wf.evaluate(wf.ones(()))
    wide: list[Any] = [beyond + 1, beyond + beyond, x + np.float64(0.5), x * double, x.astype(np.float64)]
    wide += [x + 0.5, x / 2] if code == "B" else [wf.sin(x)]
    for k, each in enumerate(wide):
        assert not _is_immediate(each), k
        np.asarray(each)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("written", [operator.iadd, operator.imul, operator.isub])
def test_writes_in_place_keep_the_memory(written: Callable[[Any, Any], Any]) -> None:
    values = _values("B")
    for other in (3, values[::-1].copy()):
        x = wf.evaluate(wf.asarray(values))
        view, wanted = x[::2], values.copy()
        found = written(x, wf.asarray(other) if isinstance(other, np.ndarray) else other)
        assert found is x
        written(wanted, other)
        np.testing.assert_array_equal(view, wanted[::2])
        with pytest.raises(OverflowError):
            x += 256


def test_only_cheap_operations_have_larger_limits() -> None:
    x = np.ones(3, np.uint8)
    for op in OPS.values():
        way = implementation_of(op)
        operands = (x,) * op.arity
        any_size = op.name in ("isfinite", "isinf", "isnan")
        assert bool(limit_of_operands(way, operands) > IMMEDIATE) == (op.cost == 1 or any_size)
        assert bool(limit_of_operands(way, operands) > 1000 * IMMEDIATE) == any_size
    way = implementation_of(next(op for op in OPS.values() if op.name == "add"))
    same: list[tuple[Any, Any]] = [(x, x), (x, 1), (True, x), (x.astype("f"), 0.5)]
    mixed: list[tuple[Any, Any]] = [(x, 0.5), (x, x.astype("f")), (x, np.float32(1)), (x, 1j), (1, 2)]
    assert all(limit_of_operands(way, each) > IMMEDIATE for each in same)
    assert not any(limit_of_operands(way, each) > IMMEDIATE for each in mixed)
    assert LIMIT[0] == IMMEDIATE
