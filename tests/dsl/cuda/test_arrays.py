"""Tests of the device arrays of weft.cuda."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft import cuda
from weft.dsl.cuda.memory_array import MemoryArray
from weft.dsl.script.redirect import load_program
from weft.fusion import exclusive

ROOT = Path(__file__).resolve().parents[3]
RECORD = np.dtype([("a", np.float32), ("b", np.int64, (2,)), ("c", [("x", np.uint8), ("y", np.float64)])])
DAYS = np.array(["2020-01-01", "2021-05-05"], "M8[D]")
GRID = np.arange(12.0).reshape(3, 4)


def records(count: int = 4) -> np.ndarray:
    values = np.zeros(count, RECORD)
    values["a"] = np.arange(count)
    values["b"][:, 1] = 5
    values["c"]["y"] = 7
    return values


# -- copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [GRID, GRID.T, GRID[::2], GRID[:, 1:3], GRID[:0], np.float32(3), np.ones((1, 3, 1))])
@pytest.mark.parametrize("with_stream", [False, True])
def test_there_and_back(values: Any, with_stream: bool) -> None:
    stream = cuda.stream() if with_stream else 0
    array = cuda.to_device(values, stream=stream)
    assert array.dtype == values.dtype
    back = array.copy_to_host(stream=stream)
    assert np.array_equal(back, values)
    assert back.flags.writeable
    into = np.empty_like(np.asarray(values))
    assert array.copy_to_host(into, stream=stream) is into
    assert np.array_equal(into, values)
    assert isinstance(array, weft.Array)


def test_copies_are_copies() -> None:
    values = GRID.copy()
    array = cuda.to_device(values)
    values[:] = 0
    back = array.copy_to_host()
    back[:] = -1
    assert np.array_equal(array.copy_to_host(), GRID)


def test_order_of_axes_is_kept() -> None:
    array = cuda.to_device(GRID.T)
    assert array.is_f_contiguous()
    assert not array.is_c_contiguous()
    assert array.strides == GRID.T.strides
    assert array.copy_to_host().flags.f_contiguous
    assert cuda.device_array_like(array).strides == array.strides
    cube = np.zeros((2, 3, 4)).transpose(1, 2, 0)
    assert cuda.device_array_like(cube).strides == cube.strides
    assert cuda.device_array((3, 4), order="F").strides == (8, 24)
    assert cuda.device_array((3, 4), np.int16, strides=(16, 2)).strides == (16, 2)
    assert cuda.device_array(5, np.uint8).shape == (5,)
    assert cuda.device_array((0, 3)).copy_to_host().shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((2, -1),), ValueError),
        (((2, 2), np.float64, (8,)), ValueError),
        (((2, 2), np.float64, (12, 8)), ValueError),
        (((2, 2), np.float64, None, "Q"), ValueError),
        ((2, object), TypeError),
    ],
)
def test_arrays_that_cannot_be(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        cuda.device_array(*arguments)


def test_copies_that_do_not_fit() -> None:
    array = cuda.to_device(GRID)
    for copy in (array.copy_to_host, array.copy_to_device):
        with pytest.raises(TypeError, match="incompatible dtype"):
            copy(np.zeros((3, 4), np.float32))
        with pytest.raises(ValueError, match="incompatible shape"):
            copy(np.zeros((4, 3)))


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.T, lambda a: a[1:], lambda a: a[:, ::2], lambda a: a[::-1]])
def test_copying_into_arrays_and_views(make: Any) -> None:
    array, values = cuda.to_device(GRID), GRID.copy()
    for source in (np.arange(12.0, 24.0).reshape(3, 4), cuda.to_device(GRID + 100)):
        make(array).copy_to_device(make(source))
        make(values)[...] = make(np.asarray(source))
        assert np.array_equal(array.copy_to_host(), values)


def test_to_device_into_an_array() -> None:
    array = cuda.to_device(GRID)
    address = array._storage.buffer.address
    assert cuda.to_device(GRID * 2, to=array) is array
    assert np.array_equal(array.copy_to_host(), GRID * 2)
    assert array._storage.buffer.address == address, "the memory stays where it is"
    assert cuda.to_device(array) is array
    assert cuda.to_device(GRID, copy=False).shape == GRID.shape


@pytest.mark.parametrize("size", [5, 100_000])
def test_to_device_copies_the_numpy_arrays_of_a_program_on_weft(size: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import numpy as np\nfrom weft import cuda\nstart = np.zeros({size})\n"
        "old, new = cuda.to_device(start), cuda.to_device(start)\n"
        "@cuda.jit\ndef fill(a, value):\n    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):\n        a[i] = value\n"
        "fill[2, 32](old, 1.0)\nfill[2, 32](new, 2.0)\n"
    )
    left = load_program(script, "script")
    assert [float(np.asarray(left[name]).sum()) for name in ("start", "old", "new")] == [0, size, 2 * size]


def test_arithmetic_is_lazy() -> None:
    array = cuda.to_device(GRID)
    result = (array * 2 + 1).sum(axis=0)
    assert result._storage.buffer is None
    assert np.array_equal(result.copy_to_host(), (GRID * 2 + 1).sum(axis=0))


@pytest.mark.cpu
def test_methods_of_device_arrays() -> None:
    array = cuda.to_device(np.arange(10))
    assert [part.copy_to_host().tolist() for part in array.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(ValueError, match="one axis"):
        cuda.to_device(GRID).split(2)
    array.setitem(3, 33, stream=0)
    assert array.getitem(3) == 33
    bound = array.bind(cuda.stream())
    bound[0] = -1
    assert array[0] == -1
    assert array.alloc_size == 80
    assert array.reshape(2, 5).T.ravel().shape == (10,)
    assert array.view() is not array
    assert not hasattr(array, "__cuda_array_interface__")
    assert cuda.is_cuda_array(array)
    assert not cuda.is_cuda_array(GRID)


# -- writes to arrays ----------------------------------------------------------------------------------


def test_what_was_recorded_before_a_copy_keeps_its_values() -> None:
    array = cuda.to_device(np.arange(5.0))
    twice, same, shown = array * 2, array.copy(), array.numpy()
    array.copy_to_device(np.full(5, -1.0))
    assert array.tolist() == [-1.0] * 5
    assert twice.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert same.tolist() == shown.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_memory_of_its_own_is_not_copied() -> None:
    array = cuda.to_device(np.arange(5.0))
    address = exclusive(array._storage).address
    other = cuda.to_device(np.ones(5))
    for _ in range(3):
        assert (array + other).sum() == 15
        assert exclusive(array._storage).address == address
    kept = array.numpy()
    assert exclusive(array._storage).address != address
    assert kept.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


# -- records -----------------------------------------------------------------------------------------


def test_numbas_array_classes_make_arrays() -> None:
    from weft.cuda.cudadrv.devicearray import DeviceNDArray, DeviceRecord, from_record_like

    array = DeviceNDArray((2, 3), (24, 8), np.float64)
    assert isinstance(array, weft.Array) and array.shape == (2, 3) and isinstance(array, DeviceNDArray)
    assert not isinstance(np.ones(3), DeviceNDArray)
    record, wanted = DeviceRecord(RECORD), records()[2]
    record.copy_to_device(wanted)
    into = np.zeros(1, RECORD)[0]
    assert record.copy_to_host(into) is into and into == wanted and isinstance(record, DeviceRecord)
    assert isinstance(cuda.to_device(records()), DeviceNDArray) and not isinstance(record, DeviceNDArray)
    assert not any(isinstance(x, DeviceRecord) for x in (array, cuda.to_device(records()), cuda.to_device(DAYS)))
    assert from_record_like(record).gpu_data.value != record.gpu_data.value


def test_records_there_and_back() -> None:
    array = cuda.to_device(records())
    assert isinstance(array, MemoryArray)
    assert np.array_equal(array.copy_to_host(), records())
    assert (array.shape, array.ndim, array.size, array.nbytes, len(array)) == ((4,), 1, 4, 4 * 29, 4)
    into = np.zeros(4, RECORD)
    array.copy_to_host(into)
    assert np.array_equal(into, records())
    one = cuda.to_device(records()[2])
    assert one.shape == ()
    assert one["a"] == 2
    like = cuda.device_array_like(array)
    like.copy_to_device(array)
    assert np.array_equal(np.asarray(like.copy()), records())
    with pytest.raises(TypeError, match="incompatible dtype"):
        array.copy_to_device(np.zeros(4))
    with pytest.raises(ValueError, match="incompatible shape"):
        array.copy_to_device(records(3))
    assert cuda.device_array((0,), RECORD).copy_to_host().shape == (0,)


def test_parts_of_records() -> None:
    values = records()
    array = cuda.to_device(values)
    assert array[1]["a"] == 1
    assert array["c"]["y"].copy_to_host().tolist() == [7.0] * 4
    assert array["c"]["y"].strides == (29,)
    assert array[2]["b"].copy_to_host().tolist() == [0, 5]
    assert array[1:3]["a"].copy_to_host().tolist() == [1.0, 2.0]
    assert array[::-1]["a"].copy_to_host().tolist() == [3.0, 2.0, 1.0, 0.0]
    assert [r["a"] for r in array] == [0, 1, 2, 3]
    array[1]["a"] = 42
    array["b"][..., 0] = [9, 8, 7, 6]
    array[3] = values[0]
    values["a"][1] = 42
    values["b"][:, 0] = [9, 8, 7, 6]
    values[3] = records()[0]
    assert np.array_equal(array.copy_to_host(), values)
    for bad in ("none", ["a", "zz"], 9, True, [0, 1], np.array([True] * 4)):
        with pytest.raises((IndexError, KeyError, ValueError, TypeError)):
            array[bad]


def test_shapes_of_records() -> None:
    array = cuda.to_device(records(6))
    square = array.reshape(2, 3)
    assert square[1, 2]["a"] == 5
    assert square.T[2, 1]["a"] == 5
    assert square.ravel().shape == (6,)
    assert array.reshape((6, 1)).squeeze().shape == (6,)
    assert [len(part) for part in array.split(4)] == [4, 2]
    with pytest.raises(ValueError, match="at least 1"):
        array.split(0)
    assert array.is_c_contiguous()
    assert not array[::2].is_c_contiguous()
    with pytest.raises(ValueError, match="without gaps"):
        square.T.reshape(6)


def test_another_dtype_sees_the_same_memory() -> None:
    array = cuda.to_device(np.array([1.0, 2.0], np.float32))
    bits = array.view(np.uint32)
    assert bits.copy_to_host().tolist() == [0x3F800000, 0x40000000]
    bits[0] = 0x40400000
    assert array.tolist() == [3.0, 2.0]
    array[1] = 1.0
    assert bits[1] == 0x3F800000
    assert array.view(np.uint8).shape == (8,)
    assert array.view(">u4").tobytes() == array.tobytes()  # (NumPy handles other byte orders)
    assert isinstance(array.view(np.float32), weft.Array)
    assert (bits.copy() + 1).tolist() == [0x40400001, 0x3F800001]
    assert (bits + 1).tolist() == (1 + bits).tolist() == [0x40400001, 0x3F800001]
    assert (bits >> 23).view(np.int32).copy_to_host().tolist() == [128, 127]
    assert bits.max() == 0x40400000 and (bits != 0).all() and bits.reshape(2, 1).shape == (2, 1)
    with pytest.raises(ValueError):
        cuda.to_device(np.zeros(3, np.float32)).view(np.float64)


# -- mapped host memory ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_shared_arrays(make: Any) -> None:
    shared = make((2, 3), np.float32, order="F")
    assert type(shared).__name__ == "SharedArray"
    assert shared.strides == (4, 8)
    shared[:] = 2
    assert shared.device_view is not None
    assert (shared.device_view + 1).tolist() == [[3.0] * 3] * 2
    shared.device_view.copy_to_device(np.full((2, 3), 9, np.float32))
    assert shared.tolist() == [[9.0] * 3] * 2
    with pytest.raises(ValueError, match="incompatible shape"):
        shared.copy_to_host(np.zeros((4, 2, 3), np.float32))
    with pytest.raises(TypeError, match="incompatible dtype"):
        shared.copy_to_device(np.zeros((2, 3)))
    assert shared[1:].device_view is None
    assert (shared + 1).device_view is None
    view = shared.device_view
    del shared
    assert view.tolist() == [[9.0] * 3] * 2


@pytest.mark.parametrize("values", [np.zeros(5, RECORD), np.zeros(4, "M8[s]"), np.zeros(4, "S3")], ids=str)
def test_shared_arrays_without_arithmetic(values: np.ndarray) -> None:
    other = np.frombuffer(b"\1" * values.itemsize, values.dtype)[0]
    shared = cuda.mapped_array_like(values)
    assert isinstance(shared.device_view, MemoryArray)
    shared.device_view.copy_to_device(values)
    cuda.synchronize()
    assert np.array_equal(shared, values)
    for part in (values, values[1:]):
        with cuda.mapped(part) as array:
            assert isinstance(array, MemoryArray) and array.dtype == part.dtype
            array[-1] = other
        assert part[-1] == other


def test_dates_have_no_arithmetic() -> None:
    days = cuda.to_device(DAYS)
    assert isinstance(days.copy(), MemoryArray) and np.array_equal(days.copy().copy_to_host(), DAYS)
    assert not hasattr(days, "max")
    with pytest.raises(TypeError, match="copy_to_host"):
        days - days
    with pytest.raises(ValueError, match="always a copy"):
        np.array(days, copy=False)


@pytest.mark.parametrize("values", [np.arange(3.0), np.zeros(3, "M8[s]")], ids=str)
def test_copies_between_shapes_that_differ_in_axes_of_length_1(values: np.ndarray) -> None:
    array = cuda.device_array_like(values)
    array.copy_to_device(values.reshape(3, 1))
    column = np.empty((1, 3), values.dtype)
    assert array.copy_to_host(column) is column and np.array_equal(column[0], values)


def test_read_only_destinations() -> None:
    into = np.zeros(3)
    into.flags.writeable = False
    for stream in (0, cuda.stream()):
        with pytest.raises(ValueError, match="read-only"):
            cuda.to_device(np.ones(3)).copy_to_host(into, stream)
    assert not into.any()


def test_pinned_arrays() -> None:
    values = cuda.pinned_array((3, 4))
    values[:] = GRID
    assert np.array_equal(cuda.to_device(values).copy_to_host(), GRID)
    assert cuda.pinned_array_like(GRID.T).strides == GRID.T.strides
    assert cuda.mapped_array_like(GRID.T).strides == GRID.T.strides
    assert cuda.pinned_array(3, RECORD).dtype == RECORD
    with cuda.pinned(values, GRID):
        assert cuda.to_device(GRID)[1, 1] == 5
    with pytest.raises(TypeError, match="without gaps"), cuda.pinned(GRID[:, ::2]):
        pass


@pytest.mark.parametrize("start", [0, 1, 3])
def test_mapping_host_arrays(start: int) -> None:
    values = np.arange(16, dtype=np.float32)
    with cuda.mapped(values[start:]) as array:
        assert (array + 1).tolist() == list(range(start + 1, 17))
        array.copy_to_device(np.zeros(16 - start, np.float32))
    assert values.tolist() == [*range(start), *[0] * (16 - start)]
    with cuda.mapped(values, GRID.T) as arrays:
        assert [a.shape for a in arrays] == [(16,), (4, 3)]
        assert np.array_equal(arrays[1].copy_to_host(), GRID.T)


# -- memory of other libraries --------------------------------------------------------------------------


class Exporter:
    """Host memory with the interface of another library's GPU array.

    The CPU device accepts it. On a GPU, a kernel that read the memory would make the device unusable.
    """

    def __init__(self, values: np.ndarray, **changes: Any) -> None:
        if weft.default_device().name.startswith("cuda"):
            pytest.skip("a GPU does not read host memory")
        self.values = values
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "strides": None if values.flags.c_contiguous else values.strides,
            "typestr": values.dtype.str,
            "data": (values.ctypes.data, False),
            "version": 3,
            **changes,
        }


@pytest.mark.parametrize("values", [GRID, GRID.T, GRID[1:, 1:], np.arange(9, dtype=np.int16)[3:]])
def test_other_libraries_arrays_are_views(values: np.ndarray) -> None:
    values = values.copy(order="K")
    exported = Exporter(values)
    assert cuda.is_cuda_array(exported)
    for make in (cuda.as_cuda_array, cuda.to_device):
        array = make(exported)
        assert np.array_equal(array.copy_to_host(), values)
    array.copy_to_device(np.zeros_like(values))
    assert not values.any()
    assert array.shape == values.shape


def test_other_libraries_arrays_that_cannot_be_used() -> None:
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        cuda.as_cuda_array(GRID)
    with pytest.raises(NotImplementedError, match="mask"):
        cuda.as_cuda_array(Exporter(GRID, mask=GRID))
    with pytest.raises(TypeError):
        cuda.as_cuda_array(Exporter(GRID, typestr="|O8"))
    with pytest.raises(ValueError, match="multiple"):
        cuda.as_cuda_array(Exporter(GRID, data=(GRID.ctypes.data + 1, False)))
    stream = cuda.stream()
    assert cuda.as_cuda_array(Exporter(GRID, stream=int(stream)))[0, 1] == 1


# -- other processes -----------------------------------------------------------------------------------


def test_a_handle_of_the_memory_of_an_array() -> None:
    array = cuda.to_device(np.arange(4.0))
    address = array.gpu_data
    handle = cuda.current_context().get_ipc_handle(address)
    assert handle.size == 32 and handle.handle.reserved == bytes(array.get_ipc_handle().handle)
    with cuda.open_ipc_array(handle.handle.reserved, shape=4, dtype=np.float64) as opened:
        assert opened.copy_to_host().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="gpu_data"):
        cuda.current_context().get_ipc_handle(address.value)


OTHER = """
import pickle, sys
import numpy as np
with pickle.loads(sys.stdin.buffer.read()) as array:
    values = array.copy_to_host()
    print(values.shape, values.ravel()[1])
    values[...] = np.zeros((), values.dtype)
    array.copy_to_device(values)
"""


@pytest.mark.parametrize("values", [GRID, GRID.T, records()], ids=["c", "f", "records"])
def test_another_process_sees_the_memory(values: np.ndarray) -> None:
    array = cuda.to_device(values)
    handle = array.get_ipc_handle()
    assert array.get_ipc_handle().handle == handle.handle, "moved once"
    done = subprocess.run(
        [sys.executable, "-c", OTHER],
        input=pickle.dumps(handle),
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "WEFT_DEVICE": "cpu"},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == f"{values.shape} {values.ravel()[1]}"
    assert np.array_equal(array.copy_to_host(), np.zeros_like(values))


def test_handles_within_a_process() -> None:
    array = cuda.to_device(GRID)
    handle = array[1:].get_ipc_handle()
    with handle as opened:
        assert opened.tolist() == GRID[1:].tolist()
        with pytest.raises(ValueError, match="already opened"):
            handle.open()
    with pytest.raises(ValueError, match="not open"):
        handle.close()
    days = cuda.to_device(DAYS)
    with days.get_ipc_handle() as again:
        assert isinstance(again, MemoryArray) and np.array_equal(again.copy_to_host(), DAYS)
    with cuda.open_ipc_array(handle.handle, (2, 4), np.float64, offset=32) as opened:
        opened.copy_to_device(np.zeros((2, 4)))
    assert array.tolist() == [[0.0, 1.0, 2.0, 3.0], [0.0] * 4, [0.0] * 4]
    del array, opened
    with pytest.raises(ValueError, match="its process has ended"):
        handle.open()


def test_views_as_a_class() -> None:
    x = weft.arange(3)
    assert x.view(np.ndarray).tolist() == [0, 1, 2] and x.view(dtype=None, type=np.ndarray).tolist() == [0, 1, 2]


@pytest.mark.cpu
def test_writes_through_an_address_change_no_copies() -> None:
    x = cuda.to_device(np.arange(100_000.0))
    copied, doubled = weft.copy(x), x * 2
    ctypes.memset(x.device_ctypes_pointer, 0, x.nbytes)
    assert not x.copy_to_host().any()
    assert copied[1] == 1 and doubled[1] == 2
