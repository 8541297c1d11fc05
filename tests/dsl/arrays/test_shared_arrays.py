"""Tests of CPU memory that weft shares with other code.

Both sides see each other's writes.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import multiprocessing
import threading
from array import array as python_array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays import shared_arrays
from weft.dsl.script.numpy_face import NUMPY
from weft.fusion import find_shared
from weft.fusion.record import shared_memory
from weft.runtime import override

pytestmark = pytest.mark.skipif("config.getoption('--device') != 'cpu'", reason="memory of the CPU")

SIZES = (5, 1000, 70_000)
EXPORTS: dict[str, Callable[[Any], np.ndarray]] = {
    "asarray": np.asarray,
    "array without copy": lambda x: np.array(x, copy=False),
    "dlpack": np.from_dlpack,
    "memoryview": lambda x: np.asarray(memoryview(x)),
    "frombuffer": lambda x: np.frombuffer(x, x.dtype),
    "interface": lambda x: np.asarray(type("Shown", (), {"__array_interface__": x.__array_interface__, "x": x})()),
    "data": lambda x: np.asarray(x.data),
    "ctypes": lambda x: np.ctypeslib.as_array(ctypes.cast(x.ctypes.data, ctypes.POINTER(ctypes.c_double)), x.shape),
}


@pytest.fixture(params=[0, 16384], autouse=True)
def _tier(request: pytest.FixtureRequest) -> Any:
    with override(immediate=request.param):
        yield


BUFFERS: dict[str, Callable[[int], Any]] = {
    "array": lambda n: python_array("d", [0.0] * n),
    "memory of processes": lambda n: multiprocessing.RawArray("d", n),
    "memoryview": lambda n: memoryview(bytearray(8 * n)).cast("d"),
}
IMPORTS: dict[str, Callable[[Any], Any]] = {
    "frombuffer": lambda buffer: wf.frombuffer(buffer, np.float64),
    "asarray": wf.asarray,
    "as_array": lambda buffer: NUMPY.ctypeslib.as_array(buffer),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("name", IMPORTS)
def test_buffers_are_written(name: str, kind: str, size: int) -> None:
    buffer = BUFFERS[kind](size)
    x, seen = IMPORTS[name](buffer), memoryview(buffer).cast("B").cast("d")
    x[1] = 5
    x[::2] += 2
    assert seen[:3].tolist() == [2, 5, 2]
    seen[2] = 7
    assert (float(x[2]), float((x * 2)[2]), float(x.reshape(-1)[2])) == (7, 14, 7)
    copied = wf.array(x)
    copied[0] = -1
    assert seen[0] == 2


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", ["frombuffer", "ndarray"])
def test_unaligned_buffers_are_written(make: str, size: int) -> None:
    buffer = bytearray(8 * size + 4)
    x = (
        wf.frombuffer(buffer, np.float64, offset=4)
        if make == "frombuffer"
        else NUMPY.ndarray(size, np.float64, buffer, 4)
    )
    x[1] = 5
    x += 1
    assert memoryview(buffer)[4:28].cast("B").tobytes() == np.array([1.0, 6.0, 1.0]).tobytes()


def test_copies_of_buffers() -> None:
    buffer = python_array("d", [0.0] * 70_000)
    for copied in (
        wf.array(buffer),
        wf.asarray(buffer, copy=True),
        wf.asarray(buffer, "f4"),
        wf.zeros(70_000) + buffer,
    ):
        copied[0] = 1
        assert buffer[0] == 0
    assert wf.frombuffer(b"abc", np.uint8).tolist() == [97, 98, 99]


@pytest.mark.parametrize("size", SIZES)
def test_arrays_over_read_only_buffers_are_read_only(size: int) -> None:
    memory = np.arange(float(size)).tobytes()
    found = wf.frombuffer(memory)
    assert not found.flags.writeable and (found * 2).flags.writeable and found.copy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        found += 1
    np.testing.assert_array_equal(np.asarray(found), np.frombuffer(memory))
    shared = wf.from_dlpack(np.frombuffer(memory), device="cpu")
    for each in (shared, shared[1:], shared.view(np.int64)):
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True of this array"):
            each.flags.writeable = True
        assert each.base is None or not each.base.flags.writeable


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", EXPORTS)
def test_both_sides_see_writes(name: str, size: int) -> None:
    x = wf.arange(float(size)) * 2  # pending: evaluated first
    shared, wanted = EXPORTS[name](x), np.arange(float(size)) * 2
    np.testing.assert_array_equal(shared, wanted)
    shared[1] = wanted[1] = -5
    np.testing.assert_array_equal(x + 0, wanted)
    later = x + 1  # uses the current elements
    shared[2] = 77
    np.testing.assert_array_equal(later, wanted + 1)
    wanted[2] = 77
    x[3:] = 9
    wanted[3:] = 9
    x += 1
    wanted += 1
    x[x > 70] = 0
    wanted[wanted > 70] = 0
    wf.multiply(x, 3, out=x)
    x.sort()
    wanted = np.sort(wanted * 3)
    np.testing.assert_array_equal(shared, wanted)
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize("size", SIZES)
def test_memory_is_the_arrays_own_again_when_others_let_go(size: int) -> None:
    x = wf.arange(float(size)) * 2
    shared = np.asarray(x)[1:]
    assert find_shared(x._storage) is not None
    address = np.asarray(x).__array_interface__["data"][0]
    del shared
    gc.collect()
    assert find_shared(x._storage) is None
    y = x.copy()
    x[0] = 5
    assert y[0] == 0 and x[0] == 5
    if not x._storage.device.name == "cpu" or size == SIZES[-1]:
        x += 1
        wf.evaluate(x)
        assert np.asarray(x).__array_interface__["data"][0] in (address, x.ctypes.data)


def test_copies_and_earlier_results_keep_their_values() -> None:
    x = wf.arange(70_000.0)
    before, copied, read = x + 1, x.copy(), x.numpy()
    shared = np.asarray(x)
    shared[:] = 0
    assert before[3] == 4 and copied[3] == 3 and read[3] == 3 and x.sum() == 0
    assert not read.flags.writeable


def test_layouts() -> None:
    values = np.arange(24.0).reshape(4, 6)
    x = wf.asarray(values)
    for view in (lambda a: a.T, lambda a: a[1:, ::2], lambda a: a[::-1], lambda a: a[2], lambda a: a.reshape(2, 12)):
        mine, theirs = np.asarray(view(x)), view(values)
        assert mine.strides == theirs.strides and mine.shape == theirs.shape
        mine[...] += 1
        theirs[...] += 1
        np.testing.assert_array_equal(x, values)
    wide = np.asarray(wf.broadcast_to(x[0], (3, 6)))
    assert not wide.flags.writeable and wide.strides == (0, 8)
    x.flags.writeable = False
    assert not np.asarray(x).flags.writeable


@pytest.mark.parametrize("code", "?bBhHiIlLefdFD")
def test_dtypes(code: str) -> None:
    values = np.arange(6).astype(code)
    for shape in ((6,), (2, 3), (0,), (0, 3)):
        given = values.reshape(shape) if 0 not in shape else np.zeros(shape, code)
        x = wf.asarray(given)
        assert bytes(x) == given.tobytes() == memoryview(x).tobytes()
        for found in (np.asarray(x), np.from_dlpack(x), np.asarray(memoryview(x))):
            assert found.dtype == given.dtype and found.shape == given.shape
            np.testing.assert_array_equal(found, given)
    number = wf.asarray(values[3])
    assert np.asarray(number).shape == () and memoryview(number).format == memoryview(values[3]).format
    assert bytes(wf.asarray(values)[2]) == bytes(values[2])


def test_buffers_are_read_by_pythons_own() -> None:
    values = np.arange(2000, dtype=np.int32).reshape(40, 50)
    x = wf.asarray(values) * 1
    assert hashlib.sha256(x).digest() == hashlib.sha256(values).digest()
    file = io.BytesIO()
    file.write(x)
    assert file.getvalue() == values.tobytes() == b"".join([x])
    assert bytes(x.T) == values.T.tobytes()
    assert io.BytesIO(b"\1\0\0\0" * 50).readinto(x[1]) == 200 and (x[1] == 1).all()
    x.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"1234").readinto(x)
    assert memoryview(x).readonly


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_an_evaluation_that_fails_raises_its_error(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.arange(50_000.0) + 1

    def fail(array: Any) -> Any:
        raise error("in the evaluation")

    with monkeypatch.context() as patch:
        patch.setattr(shared_arrays, "exported", fail)
        for _ in range(2):
            with pytest.raises(error, match="in the evaluation"):
                np.asarray(x)
        with pytest.raises((error, SystemError)):  # (in Python 3.11, a buffer cannot report the cause of a failure)
            memoryview(x)
    assert np.asarray(x)[4] == 5 and memoryview(x)[4] == 5


def test_copy_means_what_numpy_means() -> None:
    x = wf.arange(5.0)
    assert np.shares_memory(np.array(x, copy=False), np.asarray(x))
    assert not np.shares_memory(np.array(x), np.asarray(x)) and np.array(x).flags.writeable
    with pytest.raises(ValueError, match="avoid copy"):
        np.array(x, dtype=np.int32, copy=False)
    with pytest.raises(BufferError):
        x[::2].__dlpack__(dl_device=(2, 0))
    assert np.asarray(x, np.float32).dtype == np.float32
    values = np.arange(5.0)
    shared, copied = wf.asarray(values, copy=False), wf.asarray(values)
    values[0] = 7
    shared[1] = 8
    assert shared[0] == 7 and values[1] == 8 and copied[0] == 0
    with pytest.raises(ValueError, match="avoid copy"):
        wf.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="avoid copy"):
        wf.asarray(values, np.float32, copy=False)
    with pytest.raises(ValueError, match="avoid copy"):
        wf.asarray(values[::-1], copy=False)


@pytest.mark.parametrize("size", SIZES)
def test_memory_of_other_libraries(size: int) -> None:
    values = np.arange(2.0 * size)[1::2]
    x = wf.from_dlpack(values)
    assert isinstance(x, wf.Array) and x.strides == values.strides
    y = x * 2
    values[0] = -1
    assert y[0] == 2 and x[0] == -1
    x[1:3] = 4
    x += 1
    assert values[:4].tolist() == x[:4].tolist() == [0, 5, 5, 8]
    assert wf.from_dlpack(values, copy=True).tolist() == values.tolist()
    with pytest.raises(BufferError, match="cannot be shared with device simt"):
        wf.from_dlpack(x, device="simt", copy=False)
    fixed = np.arange(6.0)
    fixed.flags.writeable = False
    read = wf.from_dlpack(fixed)
    with pytest.raises(ValueError, match="read-only"):
        read[0] = 1
    buffer = np.arange(6.0)
    over = wf.ndarray((2, 2), buffer=buffer, offset=8)
    buffer[1] = 9
    over[1, 1] = 5
    assert over[0, 0] == 9 and buffer[4] == 5


def test_views_of_another_dtype() -> None:
    x, values = wf.zeros((70, 100), "f4"), np.zeros((70, 100), "f4")
    for dtype in ("i4", "u1", "f8", "c8", "i2"):
        mine, theirs = x[::2].view(dtype), values[::2].view(dtype)
        assert mine.shape == theirs.shape and mine.strides == theirs.strides and mine.flags.writeable
        mine[3, 4:9] = theirs[3, 4:9] = 3
        mine += 1
        theirs += 1
        np.testing.assert_array_equal(x, values)
    bits = x.view("i4")
    x[...] = values[...] = 1
    np.testing.assert_array_equal(bits * 2, values.view("i4") * 2)
    del bits, mine
    gc.collect()
    assert find_shared(x._storage) is None


def test_fields_of_elements() -> None:
    x, values = wf.arange(40_000, dtype="i8"), np.arange(40_000, dtype="i8")
    for array in (x, values):
        array.getfield("i4", 4)[1:5] = 3
        array.getfield(np.int16, 2)[...] += 1
        array.setfield(7, np.int8, 1)
    np.testing.assert_array_equal(x, values)


def test_a_number_is_written_to_large_shared_memory_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wf.ones(100_000, dtype=wf.float32)
    words = x.view(np.int32)
    before = x + 1
    with monkeypatch.context() as patch, override(immediate=16384):
        patch.setattr("weft.fusion.record.recording._evaluate_aside", None)
        patch.setattr("weft.dsl.arrays.array.write_view", None)
        words[...] = 7
        words[1:99_000] = 3
    assert words[:2].tolist() == x.view(np.int32)[:2].tolist() == [7, 3] and words[-1] == 7
    assert (np.asarray(before) == 2).all()


def test_kernels_write_to_shared_memory() -> None:
    @wf.kernel
    def double(x: Any) -> None:
        i = wf.cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = wf.arange(1000.0)
    shared = np.asarray(x)
    double[4, 256](x)
    np.testing.assert_array_equal(shared, np.arange(1000.0) * 2)


def test_threads_write_to_the_array_and_to_numpys() -> None:
    x = wf.zeros(40_000)
    shared = np.asarray(x)

    def write(target: Any, part: slice) -> None:
        for _ in range(20):
            target[part] += 1

    halves = [(x, slice(0, 20_000)), (shared, slice(20_000, None))]
    threads = [threading.Thread(target=write, args=each) for each in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (shared == 20).all()


def exported(small: Any) -> tuple[Any, np.ndarray]:
    """Return a small weft array, and a NumPy array that shares its memory."""
    with override(immediate=16384):
        x = wf.asarray(small)
        return x, np.asarray(x)


def test_a_small_array_exports_its_memory_until_no_other_array_has_it() -> None:
    x, seen = exported(np.arange(12.0).reshape(3, 4))
    assert x._storage.host is not None and find_shared(x._storage) is not None
    part = seen[1:]
    del seen
    gc.collect()
    assert find_shared(x._storage) is not None
    part[0] = 9
    assert x[1].tolist() == [9.0] * 4
    address = part.ctypes.data
    del part
    assert find_shared(x._storage) is None and x._storage.host is None
    assert x.tolist()[1] == [9.0] * 4
    with override(immediate=16384):
        assert np.asarray(x)[1:].ctypes.data == address  # (the memory is the same)


def test_recorded_work_reads_exported_memory_as_it_was() -> None:
    x, seen = exported(np.arange(4.0))
    y = wf.ones((300, 4)) + x
    seen[:] = 50
    z = wf.ones((300, 4)) + x
    x[0] = -1.0
    assert seen[0] == -1
    assert y[0].tolist() == [1.0, 2.0, 3.0, 4.0] and z[0].tolist() == [51.0] * 4
    x += 1
    assert seen.tolist() == [0.0, 51.0, 51.0, 51.0]


def test_exported_memory_outlives_its_array() -> None:
    x, seen = exported(np.arange(400.0))
    del x
    gc.collect()
    np.zeros(400)
    np.testing.assert_array_equal(seen, np.arange(400.0))


def test_views_and_read_only_arrays_export_the_same_memory() -> None:
    x, seen = exported(np.arange(12.0).reshape(3, 4))
    with override(immediate=16384):
        turned, row, wide = np.asarray(x.T), np.asarray(x[1]), np.asarray(wf.broadcast_to(x, (2, 3, 4)))
    seen[1, 2] = -7
    assert turned[2, 1] == row[2] == wide[1, 1, 2] == -7
    assert row.flags.writeable and not wide.flags.writeable
    row[0] = 8
    assert float(x[1, 0]) == 8


def test_arrays_in_other_orders_share_memory_too() -> None:
    with override(immediate=16384):
        x = wf.asarray(np.arange(12.0).reshape(3, 4)).T.astype("f4")
        seen = np.asarray(x)
    seen[2, 1] = 33
    assert float(x[2, 1]) == 33


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 3), (0,)])
def test_views_of_an_empty_array_with_another_dtype(shape: tuple[int, ...]) -> None:
    with override(immediate=0):
        assert wf.empty(shape).view(np.uint32).shape == np.empty(shape).view(np.uint32).shape


def test_no_memory_is_taken_back_while_the_interpreter_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    # (The weakref module may have been cleared by then.)
    monkeypatch.setattr(shared_memory, "is_finalizing", lambda: True)
    monkeypatch.setattr(shared_memory, "_take_back", lambda storage, owner: failures.append(storage))
    failures: list[Any] = []
    x = wf.ones(70_000) * 2
    view = memoryview(x)
    assert find_shared(x._storage) is not None
    del view
    gc.collect()
    assert not failures
