"""Tests of writes to small arrays, which NumPy's functions perform in place."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.dsl.special_values import same
from weft.dsl.arrays import indexing, on_host
from weft.dsl.arrays.array import ReadOnly
from weft.dsl.immediate import index_at_call
from weft.fusion import recording

IMMEDIATE = 16384

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "put": lambda m, x: m.put(x, [0, 3], [7, 8]),
    "put_clip": lambda m, x: m.put(x, [0, 99], 5, mode="clip"),
    "place": lambda m, x: m.place(x, x > 2, [7, 8]),
    "putmask": lambda m, x: m.putmask(x, x > 2, x * x),
    "copyto": lambda m, x: m.copyto(x, x[::-1]),
    "copyto_where": lambda m, x: m.copyto(x, 9, where=x > 2),
    "copyto_overlap": lambda m, x: m.copyto(x[1:], x[:-1]),
    "fill_diagonal": lambda m, x: m.fill_diagonal(x.reshape(3, 4), 6),
    "put_along_axis": lambda m, x: m.put_along_axis(x, m.argsort(x), 1, 0),
    "add.at": lambda m, x: m.add.at(x, [0, 0, 5], 2),
    "add.at_array": lambda m, x: m.add.at(x, x[:3].astype(int), x[:3]),
    "negative.at": lambda m, x: m.negative.at(x, [1, 1, 2]),
    "subtract.at_slice": lambda m, x: m.subtract.at(x, slice(2, 5), 1),
    "fill": lambda m, x: x.fill(3),
    "shuffle": lambda m, x: np.random.default_rng(1).shuffle(x) if m is np else m.random.default_rng(1).shuffle(x),
}


@pytest.mark.parametrize("code", "ifd")
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("state", ["alone", "shared", "read", "view"])
def test_writes_to_small_arrays(name: str, code: str, state: str) -> None:
    given = np.arange(12).astype(code)
    x = wf.asarray(given)
    held, expected = x, given
    later, kept = None, given.copy()
    if state == "shared":
        later = np.asarray(x)
    elif state == "read":
        later = recorded_copy(x)
    elif state == "view":
        x, given = wf.asarray(np.arange(24).astype(code)), np.arange(24).astype(code)
        held, expected = x[::2], given[::2]
    WRITES[name](np, expected)
    WRITES[name](wf, held)
    assert same(held, expected) and same(x, given)
    if state == "shared":
        assert same(later, given)
    elif state == "read":
        assert same(later, kept)


def recorded_copy(x: Any) -> Any:
    """Return a pending array that reads `x`."""
    large = wf.zeros(100_000) + 1
    return (large[: x.size] * x).astype(x.dtype)


def test_small_writes_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.asarray(np.arange(12.0))
    monkeypatch.setattr(on_host, "convert", None)
    for name in WRITES:
        WRITES[name](wf, x)
        assert x._values is not None, name


def test_large_python_integers_are_written_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.zeros(20)
    x[0] = 1  # (the memory of the array is then filled)
    if x._storage.device.name == "cpu":
        monkeypatch.setattr(indexing, "assign_recorded", None)
    x[3], x[4:6] = 12**24, -(10**30)
    assert x[3] == 12**24 and x[5] == -1e30
    with pytest.raises(OverflowError):
        x[0] = 10**400


def test_floats_are_cast_to_integers_as_in_recorded_writes() -> None:
    values = np.array([np.nan, 3e9, -3e9, 1.5])
    x = wf.zeros(4, "i4")
    wf.copyto(x, values, casting="unsafe")
    assert x.tolist() == [0, 2**31 - 1, -(2**31), 1]


@pytest.mark.parametrize("code", ["i1", "u1", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("size", [100, 40_000])
def test_elements_of_integers_are_set_to_floats(code: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, expected = wf.zeros(size, code), np.zeros(size, code)
    least, most = np.iinfo(code).min, np.iinfo(code).max
    x[0] = 1  # (the memory of the array is then filled)
    whole = [2.5, -0.5, 0.0, float(most // 2), least / 2, np.nextafter(most + 1.0, 0), 100.9]
    for number in (*whole, *map(np.float64, whole), *map(np.float32, [2.5, 100.75]), np.float16(7.5)):
        x[3] = number
        expected[3] = int(number)
        assert x[3] == expected[3], number
        x[-1] = number
        assert x[size - 1] == int(number)
    for number, saturated in (
        (np.nan, 0),
        (np.inf, most),
        (-np.inf, least),
        (most + 1.0, most),
        (2.0 * least - 1, least),
    ):
        x[3] = np.float64(number)
        assert x[3] == saturated, number
    if x._storage.device.name == "cpu":
        monkeypatch.setattr(indexing, "assign_recorded", None)
        x[5] = 7.5
        assert x[5] == 7


@pytest.mark.parametrize("code", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_elements_of_integers_are_set_to_arrays_of_floats(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, at = wf.zeros(40_000, code), np.array([3, 39_999])
    least, most = np.iinfo(code).min, np.iinfo(code).max
    x[0] = 1  # (the memory of the array is then filled)
    x[at] = wf.array([np.nan, most + 1.0])
    assert x[at].tolist() == [0, most]
    x[at] = np.array([2.0 * least - 1, np.inf])
    assert x[at].tolist() == [least, most]
    if x._storage.device.name == "cpu":
        monkeypatch.setattr(indexing, "assign_recorded", None)
    x[at] = np.array([-0.5, np.nextafter(most + 1.0, 0)])
    assert x[at].tolist() == [0, int(np.nextafter(most + 1.0, 0))]
    x[3], x[at] = 0, (7.5, 2)
    assert x[at].tolist() == [7, 2]


@pytest.mark.cpu
def test_index_operations_are_counted_until_native_code_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(index_at_call, "note_call", lambda: counted.append(1))
    x, at = wf.zeros(40), np.array([3, 4])
    x[0] = 1  # (the memory of the array is then filled)
    counted.clear()
    assert index_at_call.put(x, at, 2.5) and index_at_call.put(x, slice(5, 7), np.ones(2))
    assert index_at_call.pick(x, at).tolist() == [2.5, 2.5]
    assert len(counted) == 3


@pytest.mark.cpu
@pytest.mark.parametrize("size", [100, 40_000])
def test_elements_of_floats_are_set_to_complex_numbers(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.zeros(size)
    x[0] = 1  # (the memory of the array is then filled)
    monkeypatch.setattr(indexing, "assign_recorded", None)
    for key in (3, slice(5, 7)):
        with pytest.warns(np.exceptions.ComplexWarning) as caught:
            x[key] = np.complex128(2.5 + 1j)
        assert len(caught) == 1 and caught[0].filename == __file__
    monkeypatch.undo()
    assert x[3] == 2.5 and x[5:7].tolist() == [2.5, 2.5]
    with pytest.raises(TypeError):
        x[3] = 1j


def test_invalid_writes_raise_numpys_errors() -> None:
    x = wf.zeros(4)
    with pytest.raises(IndexError):
        wf.put(x, [9], 1)
    with pytest.raises(TypeError, match="Cannot cast"):
        wf.copyto(x, 1j)
    with pytest.raises(ValueError, match="broadcast"):
        wf.copyto(x, [1, 2, 3])
    with pytest.raises((TypeError, ValueError)):
        x.fill([1, 2])
    with pytest.raises(ValueError, match="read-only"):
        wf.copyto(wf.broadcast_to(x[0], (3,)), 1)
    with pytest.raises(IndexError):
        wf.add.at(x, [9], 1)


def test_a_write_after_a_small_recorded_operation_ends_the_recording() -> None:
    """Test that later writes are immediate. Recording them would take 10 times as long."""
    x, y = wf.asarray(np.ones((20, 20))), wf.asarray(np.ones((20, 20)))
    pending = wf.tensordot(x, y, 1)
    for _ in range(100):
        x[0, 0] = 5.0
    assert recording.epoch is None or not recording.epoch.pending
    assert same(pending, np.full((20, 20), 20.0))


@pytest.mark.parametrize("subscripts", ["ij,j->i", "ij,ij->", "ij,jk->ik", "ii->i", "ij->ji", "ij->j"])
@pytest.mark.parametrize("code", "fdiF")
def test_small_einsum_is_numpys(subscripts: str, code: str) -> None:
    rng = np.random.default_rng(3)
    operands = [
        (9 * rng.random((20, 20)[: len(term)])).astype(code) for term in subscripts.partition("->")[0].split(",")
    ]
    found = wf.einsum(subscripts, *map(wf.asarray, operands))
    assert same(found, np.einsum(subscripts, *operands))


PARTS = [slice(None), slice(1, 4), slice(None, None, -2), slice(9, 2), np.arange(3), np.array([[0], [1]]), 2, None, ...]


@pytest.mark.parametrize("rest", [(), (np.array([True] * 7),), (np.zeros((4, 0), int),)])
def test_selected_elements_are_counted_as_numpy_counts_them(rest: tuple[Any, ...]) -> None:
    values = np.zeros((7, 5, 6))
    for key in [rest + each for n in (1, 2, 3) for each in itertools.product(PARTS, repeat=n)]:
        try:
            expected = values[key].size
        except IndexError:
            with pytest.raises(IndexError):
                index_at_call._picked(values.shape, key)
        else:
            assert index_at_call._picked(values.shape, key) == expected


@pytest.mark.parametrize("rows", [range(5), range(4, -1, -1), range(1, 5, 2), range(0), range(-3, 2), [0, 2, True]])
def test_ranges_and_lists_select_elements_immediately(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.arange(15.0).reshape(5, 3)
    x = wf.asarray(given.copy())
    if x.device.name == "cpu":
        monkeypatch.setattr(indexing, "_resolve_and_index", None)
        monkeypatch.setattr(indexing, "assign_recorded", None)
    columns = np.arange(len(rows)) % 3
    keys = [rows, (rows, wf.asarray(columns)), (slice(None), [0, 2])]
    hosts = [rows, (rows, columns), (slice(None), [0, 2])]
    for key, host in zip(keys, hosts, strict=True):
        assert same(x[key], given[host])
        x[key] -= 1
        given[host] -= 1
        assert same(x, given)
    x[: len(rows), 0] = rows
    given[: len(rows), 0] = rows
    assert same(x, given)


def test_ranges_select_elements_of_large_arrays() -> None:
    given = np.arange(120_000.0).reshape(40_000, 3)
    x, columns = wf.asarray(given), np.arange(40_000) % 3
    assert same(x[range(40_000), columns], given[range(40_000), columns])
    assert same(x[range(39_999, 0, -2), 1], given[range(39_999, 0, -2), 1])
    with pytest.raises(IndexError):
        x[range(40_001), 0]


@pytest.mark.parametrize("kind", ["masked", "recarray", "memmap"])
def test_arrays_of_subclasses_are_written_immediately(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = np.array([[1.5, 2.5, 3.5]])
    if kind == "masked":
        value = np.ma.masked_array(value, mask=[[False, True, False]])
    else:
        value = value.view(getattr(np, kind))
    given, x = np.zeros((4, 3)), wf.zeros((4, 3))
    x[0, 0] = given[0, 0] = 1  # (the memory of the array is then filled)
    if x._storage.device.name == "cpu":
        monkeypatch.setattr(indexing, "assign_recorded", None)
    for key in (1, slice(1, 3), (slice(2, 3), slice(None)), [0, 3], (0, slice(None))):
        x[key], given[key] = value, value
        assert same(x, given)
    x[1], given[1] = value[0], value[0]
    assert same(x, given)


def test_read_only_arrays_are_small_operands() -> None:
    given = np.arange(40_000.0).reshape(200, 200)
    x = wf.asarray(given)
    part = np.diagonal(x[:90, :90])
    assert type(part) is ReadOnly
    expected = np.diagonal(given[:90, :90])
    if x.device.name == "cpu":
        assert type(part.sum()) is np.float64 and type(wf.mean(part)) is np.float64
    for function in ("sum", "mean", "max", "argmax", "cumsum", "sort", "reshape"):
        arguments = ((9, 10),) if function == "reshape" else ()
        assert same(getattr(wf, function)(part, *arguments), getattr(np, function)(expected, *arguments)), function
    with pytest.raises(ValueError, match="read-only"):
        part.reshape(9, 10)[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        wf.reshape(part, (90, 1))[0] = 1
    wide = wf.broadcast_to(x[0, :100], (100, 100))
    assert same(wf.sum(wide, axis=0), np.sum(np.broadcast_to(given[0, :100], (100, 100)), axis=0))
