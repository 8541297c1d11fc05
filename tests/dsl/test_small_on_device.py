"""Tests that small arrays of a GPU device stay in host memory.

Most operations on them run immediately.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.stand_in import RunningDevice, RunningStandIn
from weft.dsl.immediate import native_immediate
from weft.runtime import Device, get_device, override
from weft.runtime import device as on_device

IMMEDIATE = 16384


@pytest.fixture(params=["simt", "cuda"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    where: Device = get_device("simt") if request.param == "simt" else RunningDevice(RunningStandIn(1 << 28))
    with on_device(where):
        yield where


def is_on_host(array: Any) -> bool:
    return array._device is not None or array._storage.host is not None


@pytest.mark.parametrize("native", [False, True])
def test_small_work_takes_no_memory_and_no_plan(device: Any, native: bool) -> None:
    if native:
        native_immediate.install_native_code()
    held, plans = device.memory.held, wf.statistics()["plans"]
    x, y = wf.asarray(np.arange(6.0).reshape(2, 3)), wf.ones(3)
    for _ in range(3):
        z = (x + 2) / y
        z[0] += y
        z[1, 2] = x[0, 1]
        z[z > 4] *= 2
        z = z.T.reshape(2, 3) @ wf.eye(3)
    assert z.device is x.device is device and is_on_host(z) and isinstance(z[0, 0], np.float64)
    a, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    c = (a + 2) / b
    c[0] += b
    c[1, 2] = a[0, 1]
    c[c > 4] *= 2
    np.testing.assert_array_equal(z, c.T.reshape(2, 3))
    assert float(z.sum()) == float(c.sum()) and wf.evaluate(z) is z
    assert device.memory.held == held and wf.statistics()["plans"] == plans


MATH: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: wf.exp(x),
    "a function of two": lambda x: wf.arctan2(x, 2.0),
    "a power": lambda x: x**2.5,
    "angle": lambda x: wf.angle(x + 1j),
}


@pytest.mark.parametrize("name", MATH)
@pytest.mark.parametrize("native", [False, True])
def test_what_a_gpu_computes_with_other_bits_is_recorded(device: Any, name: str, native: bool) -> None:
    if native:
        native_immediate.install_native_code()
    with on_device("cpu"):  # (creates the compiled loops)
        for _ in range(2):
            on_cpu = MATH[name](wf.asarray(np.linspace(0.1, 3, 7)))
    x = wf.asarray(np.linspace(0.1, 3, 7))
    for _ in range(2):
        found = MATH[name](x)
        assert is_on_host(found) is (device.host_math and name != "angle")  # (`angle` is recorded on every device)
    with override(immediate=0):
        recorded = MATH[name](wf.asarray(np.linspace(0.1, 3, 7)))
    assert np.asarray(found).tobytes() == np.asarray(recorded).tobytes()
    if device.host_math:
        assert np.asarray(found).tobytes() == np.asarray(on_cpu).tobytes()


def test_a_kernel_reads_what_an_array_held_when_it_was_recorded(device: Any) -> None:
    large, small = wf.asarray(np.arange(60_000.0).reshape(6, -1)), wf.asarray(np.arange(6.0))
    row = small[1:3]
    with wf.profile() as moved:
        pending = large * small[:, None]
        wf.evaluate(large + 1)
        other = wf.evaluate(large - small[:, None])
    assert ", 1 small array passed by value" in moved.summary and "moved to the device" not in moved.summary
    small[1] = -1.0
    row += 10.0
    after = large * small[:, None]
    np.testing.assert_array_equal(small, [0, 9, 12, 3, 4, 5])
    np.testing.assert_array_equal(row, [9, 12])
    a = np.arange(60_000.0).reshape(6, -1)
    np.testing.assert_array_equal(other, a - np.arange(6.0)[:, None])
    np.testing.assert_array_equal(pending, a * np.arange(6.0)[:, None])
    np.testing.assert_array_equal(after, a * np.array([0, 9, 12, 3, 4, 5.0])[:, None])


def test_a_view_and_its_array_move_together(device: Any) -> None:
    x = wf.asarray(np.arange(12.0).reshape(3, 4))
    part, whole = x[1:, ::2], wf.asarray(np.zeros(70_000))
    assert part.base is not None and is_on_host(x) and is_on_host(part)
    whole[:2] = part[0]  # (copied to memory of the device)
    part *= 2
    x[1] += 1
    a = np.arange(12.0).reshape(3, 4)
    a[1:, ::2] *= 2
    a[1] += 1
    np.testing.assert_array_equal(x, a)
    np.testing.assert_array_equal(part, a[1:, ::2])
    np.testing.assert_array_equal(whole[:3], [4, 6, 0])


def test_copies_and_exports(device: Any) -> None:
    x = wf.asarray(np.arange(5.0))
    kept = x.numpy()
    x[0] = 7.0
    assert kept[0] == 0.0 and not kept.flags.writeable and x.to(device) is x
    moved = x.to("cpu")
    moved[1] = 9.0
    assert moved.device.name == "cpu" and float(x[1]) == 1.0
    assert copy.copy(x).device is device and pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    back = moved.to(device)
    assert back.device is device and back.tolist() == [7, 9, 2, 3, 4]
    assert x.view(np.int64).tolist() == np.array([7.0, 1, 2, 3, 4]).view(np.int64).tolist()
    with pytest.raises(wf.DeviceMismatchError):
        x + moved
    with pytest.raises(wf.DeviceMismatchError):
        x[:] = moved
    with pytest.raises(wf.DeviceMismatchError):
        x += moved
    with pytest.raises(wf.DeviceMismatchError, match="indexing of arrays on"):
        x[(moved * 0).astype("int64")]


@wf.kernel
def double(values: Any) -> None:
    i = wf.cuda.grid(1)
    if i < values.size:
        values[i] *= 2.0


def test_an_explicit_kernel_gets_memory_of_the_device() -> None:
    with on_device("simt"):
        x = wf.asarray(np.arange(5.0))
        part = x[2:]
        double[1, 32](x)
        np.testing.assert_array_equal(part, [4, 6, 8])
        x[3] = 1.0
        np.testing.assert_array_equal(part, [4, 1, 8])
    assert not is_on_host(x)


def test_a_pointer_is_to_memory_of_the_device(device: Any) -> None:
    x = wf.asarray(np.arange(5.0))
    held = device.memory.held
    there = wf.cuda.as_cuda_array(x).__cuda_array_interface__ if device.name.startswith("cuda") else None
    if there is None:
        pytest.skip("only GPUs export pointers")
    assert there["data"][0] == x._storage.buffer.address and device.memory.held > held


def test_sanitized_kernels_run_also_on_few_elements() -> None:
    with on_device("simt::sanitized"):
        x = wf.asarray(np.arange(5.0))
        assert not is_on_host(x + 1) and not is_on_host(x)


def test_larger_operations_that_were_evaluated_alone_run_on_the_device(device: Any) -> None:
    values = np.arange(60_000.0)
    for _ in range(4):
        found = wf.negative(values)
        wf.evaluate(found)
        assert found.device is device and not is_on_host(found)
    np.testing.assert_array_equal(found, -values)
