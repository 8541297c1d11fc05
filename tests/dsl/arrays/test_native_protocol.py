"""Tests that ``number op array`` has the same results in native code as in Python code.

For this operation, NumPy's scalars call the array's ``__array_ufunc__``.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.native_recording import recording_in_native_code
from weft.dsl.arrays.array import Array
from weft.dsl.arrays.native_operators import install_native_code
from weft.fusion import Epoch, recording


@pytest.fixture(autouse=True, scope="module")
def _for_these_tests_alone() -> Iterator[None]:
    with recording_in_native_code():
        install_native_code()
        assert type(vars(Array)["__array_ufunc__"]) is not FunctionType
        yield


SIZES = [4, 40_000]
NUMBERS = [
    np.float64(2.5), np.float32(2.5), np.float16(1.5), np.int64(3), np.int8(3), np.uint8(7), np.bool_(True),
    np.complex128(1 + 2j), np.array(2.5), np.array(3, "u1"),
]  # fmt: skip
UFUNCS = [
    np.add, np.subtract, np.multiply, np.divide, np.floor_divide, np.remainder, np.less, np.less_equal, np.greater,
    np.greater_equal, np.equal, np.not_equal, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift,
    np.right_shift, np.maximum,
]  # fmt: skip


def outcome(call: Callable[[], Any]) -> Any:
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(call())
        except TypeError as error:
            return type(error)
    return found.dtype, found.shape, found.tobytes()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("code", "?bHild")
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: str(ufunc.__name__))
def test_results(ufunc: np.ufunc, code: str, size: int) -> None:
    values = (np.arange(size) % 7 + 1).astype(code)
    x = wf.asarray(values)
    for number in NUMBERS:
        wanted = outcome(lambda number=number: ufunc(number, values))  # type: ignore[misc]
        for _ in range(3):
            assert outcome(lambda number=number: ufunc(number, x)) == wanted, number  # type: ignore[misc]


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ge, operator.eq]


@pytest.mark.parametrize("operate", OPERATORS)
def test_operations_at_one_call_site_reuse_their_expression(operate: Callable[[Any, Any], Any]) -> None:
    x, number = wf.asarray(np.arange(40_000.0)), np.float64(0.5)
    found = []
    for _ in range(3):
        recording.epoch = Epoch(x.device)
        found.append(operate(number, x)._storage.expr)
    assert found[1] is found[2]


def test_other_calls_are_left_to_python() -> None:
    x = wf.asarray(np.arange(40_000.0))
    out = wf.empty(40_000)
    number = np.float64(0.5)
    assert np.add(number, x, out=out) is out and float(out[3]) == 3.5
    assert float(np.add.reduce(x)) == x.size * (x.size - 1) / 2
    assert np.asarray(np.multiply.outer(number, x)).tolist()[:3] == [0, 0.5, 1]
    assert np.asarray(np.add(np.arange(3.0)[:, None], x)).shape == (3, 40_000)
    assert np.asarray(number**x)[2] == 0.25
    with pytest.raises(TypeError):
        np.add("text", x)


def test_an_array_of_another_device() -> None:
    with wf.device("simt"):
        x = wf.asarray(np.arange(40_000.0))
    assert (np.float64(2) * x).device is x.device and float((np.float64(2) < x).sum()) == 39_997


def test_nothing_is_leaked() -> None:
    x, number, alone = wf.asarray(np.arange(40_000.0)), np.float64(0.5), np.array(0.5)
    counts = []
    for _ in range(3):
        for _ in range(100):
            for operate in OPERATORS:
                operate(number, x)
                operate(alone, x)
        wf.evaluate(x)
        gc.collect()
        counts.append([sys.getrefcount(each) for each in (x, number, alone, operator.add)])
    assert counts[1] == counts[2]
