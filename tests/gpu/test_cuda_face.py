"""Tests of the host interface of weft.cuda on a GPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft import cuda
from weft.dsl.arrays.array import Array
from weft.runtime import probe

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]
N = 1 << 20


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    found = probe()
    if found.status != "ok":
        pytest.fail(f"no GPU: {found.message}")
    with cuda.gpus[0]:
        yield


@pytest.fixture(scope="module")
def add_one() -> Any:
    @cuda.jit
    def kernel(x):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    return kernel


def test_facts() -> None:
    device = cuda.get_current_device()
    assert device.compute_capability >= (7, 5)
    assert device.uuid.startswith("GPU-")
    assert device.WARP_SIZE == 32
    assert device.MULTIPROCESSOR_COUNT > 1
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total
    assert cuda.detect()


@pytest.mark.parametrize("values", [np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4).T, np.arange(20)[::3]])
def test_there_and_back(values: np.ndarray) -> None:
    stream = cuda.stream()
    array = cuda.to_device(values, stream=stream)
    back = array.copy_to_host(stream=stream)
    stream.synchronize()
    assert np.array_equal(back, values)
    assert np.array_equal((array + 1).copy_to_host(), values + 1)


def test_streams_and_weft_arrays_keep_their_order(add_one: Any) -> None:
    streams = [cuda.stream() for _ in range(4)]
    arrays = [cuda.to_device(np.zeros(N)) for _ in streams]
    for _ in range(5):
        for stream, array in zip(streams, arrays, strict=True):
            add_one[N // 256, 256, stream](array)
        total = (arrays[0] + arrays[1] + arrays[2] + arrays[3]).sum()
    assert float(total) == 20 * N


def test_memory_that_streams_still_use(add_one: Any) -> None:
    streams = [cuda.stream() for _ in range(2)]
    kept = []
    for turn in range(20):
        array = cuda.to_device(np.full(N, float(turn)), stream=streams[turn % 2])
        add_one[N // 256, 256, streams[turn % 2]](array)
        kept.append(array.copy_to_host(stream=streams[turn % 2]))
        del array
    cuda.synchronize()
    assert [values[0] for values in kept] == [turn + 1 for turn in range(20)]
    assert all((values == values[0]).all() for values in kept)


def test_events_and_callbacks(add_one: Any) -> None:
    stream, begin, end = cuda.stream(), cuda.event(), cuda.event()
    array, seen = cuda.to_device(np.zeros(N)), []
    begin.record(stream)
    add_one[N // 256, 256, stream](array)
    end.record(stream)
    stream.add_callback(lambda *given: seen.append(given[1:]), "done")
    end.synchronize()
    stream.synchronize()
    assert seen == [(0, "done")]
    assert 0 < cuda.event_elapsed_time(begin, end) < 1000
    assert end.query()


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_host_memory_that_kernels_see(make: Any, add_one: Any) -> None:
    values = make(1000)
    values[:] = np.arange(1000)
    add_one[4, 256](values)
    cuda.synchronize()
    assert values.tolist() == list(range(1, 1001))
    plain = np.arange(1000.0)
    with cuda.mapped(plain) as array:
        add_one[4, 256](array)
    assert plain.tolist() == list(range(1, 1001))
    with cuda.pinned(plain):
        assert cuda.to_device(plain)[999] == 1000
        with cuda.pinned(plain):
            assert cuda.to_device(plain)[0] == 1
    with pytest.raises(ValueError, match="released at the end of the block"):
        (array + 1).copy_to_host()
    with cuda.mapped(plain) as array:
        later = array * 2
    assert later[999] == 2000


def test_the_cuda_array_interface(add_one: Any) -> None:
    class Other:
        def __init__(self, interface: dict[str, Any]) -> None:
            self.__cuda_array_interface__ = interface

    array = cuda.to_device(np.arange(10.0))
    interface = array.__cuda_array_interface__
    assert interface["shape"] == (10,)
    other: Array = cuda.as_cuda_array(Other(interface))
    add_one[1, 32](other)
    assert np.array_equal(np.asarray(array), np.arange(1.0, 11.0))


def test_another_process_sees_the_memory(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--stand-in"):
        pytest.skip("its memory is this process's")
    array = cuda.to_device(np.arange(1000.0))
    handle = array.get_ipc_handle()
    program = "import pickle, sys\nwith pickle.loads(sys.stdin.buffer.read()) as a:\n    a.copy_to_device(-a.copy_to_host())\n"
    subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(handle),
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert np.array_equal(array.copy_to_host(), -np.arange(1000.0))


def test_much_shared_memory() -> None:
    @cuda.jit
    def fill(out):  # type: ignore[no-untyped-def]
        part = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        for k in range(i, part.size, cuda.blockDim.x):
            part[k] = k
        cuda.syncthreads()
        out[i] = part[part.size - 1 - i]

    out = cuda.device_array(64)
    count = 60 * 1024 // 8
    fill[1, 64, 0, count * 8](out)
    assert out.copy_to_host().tolist() == [count - 1 - i for i in range(64)]
