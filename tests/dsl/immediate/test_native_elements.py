"""Tests that native code reads and writes elements with NumPy's scalar types, values and errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import native_elements, native_immediate

IMMEDIATE = 16384

ARRAYS: dict[str, Callable[[], np.ndarray]] = {
    "vector": lambda: np.array([1.5, -0.0, np.nan, 4.0]),
    "integers": lambda: np.array([2**62, -1, 0, 7]),
    "matrix": lambda: np.arange(12.0).reshape(3, 4),
    "reversed": lambda: np.arange(12).reshape(3, 4)[::-1, ::2],
    "transposed": lambda: np.arange(24.0).reshape(2, 3, 4).T,
    **{code: lambda code=code: np.array([1, 100, 3, 0], code) for code in "bBhHiIlLqQ"},  # type: ignore[misc]
    "other order": lambda: np.arange(4.0).astype(">f8"),
    "float32": lambda: np.arange(4, dtype="f4"),
    "bool": lambda: np.array([True, False, True, True]),
    "empty": lambda: np.zeros((0, 3)),
    "number": lambda: np.array(2.5),
}
KEYS: list[Any] = [
    0, 1, -1, 3, -4, 4, -5, 2**63, -(2**63), 2**70, True, np.int64(2), np.int8(1), np.int64(-1), 1.0, None, (), (1,), (0, 1),
    (-1, -1), (2, 3), (3, 0), (1, 2, 1), (np.int64(1), 0), (0, True), (1, slice(2)), ..., slice(1, 2), (0, 0, 0, 0),
]  # fmt: skip
VALUES: list[Any] = [
    3.5, -0.0, -0.5, np.float64(100.9), np.float64(-0.75), float("nan"), 7, -1, 2**53 + 1, 2**63 - 1, 2**63, True, np.float64(0.1), np.float32(0.1), np.int64(9),
    np.uint8(3), np.int32(5), np.uint64(2**63 + 1), 100, 200, 40_000, 2**32 + 1, -129, np.float16(2), np.bool_(True), "text", None, 1j,
]  # fmt: skip


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    native_immediate.install_native_code()
    yield


def outcome(work: Callable[[], Any]) -> Any:
    try:
        found = work()
    except Exception as error:
        return type(error), str(error)
    return (
        (type(found), np.asarray(found).tobytes(), np.shape(found))
        if isinstance(found, np.generic)
        else np.shape(found)
    )


@pytest.mark.parametrize("name", ARRAYS)
def test_elements_are_numpys(name: str) -> None:
    theirs = ARRAYS[name]()
    ours = wf.asarray(theirs.copy(order="K"))
    for key in KEYS:
        assert outcome(lambda: ours[key]) == outcome(lambda: theirs[key]), key  # noqa: B023


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("name", ARRAYS)
def test_elements_are_set_as_numpy_sets_them(name: str) -> None:
    def put(array: Any, key: Any, value: Any) -> None:
        array[key] = value

    for key in KEYS:
        if type(key) is bool or (type(key) is tuple and True in [k for k in key if type(k) is bool]):
            continue  # (masks are tested in test_masks.py)
        for value in VALUES:
            theirs = ARRAYS[name]()
            ours = wf.asarray(theirs.copy(order="K"))
            told = outcome(lambda: put(theirs, key, value))  # noqa: B023
            ours_told = outcome(lambda: put(ours, key, value))  # noqa: B023
            assert (told == ()) == (ours_told == ()), (key, value, told, ours_told)
            assert np.asarray(ours).tobytes() == theirs.astype(theirs.dtype.newbyteorder("=")).tobytes(), (key, value)


def test_views_share_what_is_set_and_read_only_memory_is_left() -> None:
    x = wf.zeros((3, 3))
    row, column = x[1], x[:, 1]
    row[1] = 2
    x[0, 1] = np.float64(3)
    column[-1] = 4.5
    assert np.asarray(x).tolist() == [[0, 3, 0], [0, 2, 0], [0, 4.5, 0]]
    assert isinstance(row[1], np.float64) and type(wf.arange(3)[1]) is np.int64
    shared = np.zeros(3)
    shared.flags.writeable = False
    fixed = wf.asarray(shared)
    before = shared.copy()
    try:
        fixed[0] = 1.0
    except ValueError as error:
        assert "read-only" in str(error)
    assert np.array_equal(shared, before)


def test_what_is_pending_is_read_when_it_is_known() -> None:
    large = wf.arange(100_000.0) + 1
    assert large[7] == 8.0 and large[-1] == 100_000.0
    large[7] = 1
    assert large[7] == 1.0
    with pytest.raises(IndexError):
        large[100_000]


def test_nothing_is_kept() -> None:
    x, key, value = wf.zeros((4, 4)), (1, 2), 1.25
    things = [x, key, value, np.float64, np.int64, None, np.dtype("f8")]

    def go() -> None:
        for _ in range(1000):
            x[key] = value
            x[1, 2]
            x[-1, 3] = 3

    go()
    before = [sys.getrefcount(thing) for thing in things]
    go()
    assert [sys.getrefcount(thing) for thing in things] == before


def test_numpys_whose_scalars_lie_otherwise_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_elements, "HEADER", 8)
    with pytest.raises(wf.CompileError, match="scalars"):
        native_elements.put_elements_first(native_immediate.INSTALLED[wf.Array, "__getitem__"][0])
