"""Tests of the devices and contexts of weft.cuda on a machine without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft
from weft import cuda
from weft.dsl.kernel.language import specialize


@pytest.mark.cpu
def test_the_cpu_answers_as_a_gpu() -> None:
    assert cuda.is_available()
    assert cuda.is_supported_version()
    device = cuda.get_current_device()
    assert device.name.startswith("CPU")
    assert device.id == 0
    assert device.uuid.startswith("CPU-")
    assert device.compute_capability >= (8, 0)
    assert device.supports_float16
    assert device.supports_bfloat16
    assert cuda.is_float16_supported()
    assert (device.WARP_SIZE, device.MAX_THREADS_PER_BLOCK) == (32, 1024)
    assert device.MULTIPROCESSOR_COUNT >= 1
    assert device.ASYNC_ENGINE_COUNT == 1  # programs divide by these counts
    assert device.COMPUTE_CAPABILITY_MAJOR == device.compute_capability[0]
    assert set(device.get_device_identity()) == {"pci_domain_id", "pci_bus_id", "pci_device_id"}
    with pytest.raises(AttributeError, match="NO_SUCH"):
        _ = device.NO_SUCH
    with pytest.raises(AttributeError, match="nothing"):
        _ = device.nothing


def test_the_list_of_devices() -> None:
    assert len(cuda.gpus) == 1
    assert list(cuda.gpus) == [cuda.get_current_device()] == [*cuda.list_devices()]
    assert [device.id for device in cuda.list_devices()] == [0]
    assert cuda.gpus.current is cuda.gpus[0] is cuda.gpus.lst[-1]
    assert cuda.gpus[:] == [cuda.gpus[0]]
    with pytest.raises(IndexError, match="no device 1"):
        cuda.gpus[1]
    with pytest.raises(TypeError, match="float"):
        cuda.gpus[0.0]
    with pytest.raises(IndexError, match="no device 7"):
        cuda.select_device(7)


def test_a_device_is_current_within_its_with() -> None:
    other = weft.device("null")
    with other:
        assert cuda.get_current_device().name == "null"
        assert [device.name for device in cuda.gpus] == ["null"]
    cpu = cuda.gpus[0]
    with weft.device("null"):
        with cpu as entered:
            assert entered is cpu
            assert cuda.get_current_device() is cpu
            with cpu:
                assert cuda.gpus.current == cpu
        assert cuda.get_current_device() is not cpu


@pytest.mark.cpu
def test_selecting_a_device_and_closing() -> None:
    cpu = cuda.select_device(0)
    weft.set_default_device("null")
    try:
        assert cuda.get_current_device() == cpu
        assert cuda.to_device([1.0]).device.name == "cpu"
        cuda.close()
        assert cuda.get_current_device().name == "null"
    finally:
        weft.set_default_device("cpu")


def test_contexts() -> None:
    context = cuda.current_context()
    assert context == cuda.current_context(0) == cuda.gpus[0].get_primary_context()
    free, total = context.get_memory_info()
    assert 0 < free <= total
    assert context.get_memory_info().free <= total
    with weft.device("null"):
        context.push()
        assert cuda.get_current_device() == context.device
        context.pop()
        assert cuda.get_current_device() != context.device
    context.deallocations.clear()
    context.reset()
    context.synchronize()
    assert context.get_max_potential_block_size(None, None, 0, 128) == (context.device.MULTIPROCESSOR_COUNT, 128)
    assert context.get_active_blocks_per_multiprocessor(None, 128, 0) == 1
    with_function = context.get_max_potential_block_size(None, lambda threads: 8 * threads, 0, 64)
    assert with_function == (context.device.MULTIPROCESSOR_COUNT, 64)


def test_a_kernel_loaded_by_a_query_has_a_source_location(monkeypatch: pytest.MonkeyPatch) -> None:
    @cuda.jit("(float64[:],)")
    def kernel(x: Any) -> None:
        x[0] = 1

    loaded = SimpleNamespace(origin=None)
    monkeypatch.setattr(specialize, "obtain_function", lambda device, kernel: loaded)
    (found,) = kernel.overloads.values()
    cuda.current_context().get_active_blocks_per_multiprocessor(found, 128, 0)
    assert found.function_on(cuda.get_current_device().device) is loaded
    assert loaded.origin == (kernel.py_func.__code__, 0)


def test_recorded_work_runs_within_the_profiled_range(monkeypatch: pytest.MonkeyPatch) -> None:
    before, within, seen = weft.ones(100_000) * 2, None, []

    def profile(on: bool) -> None:
        seen.append((on, *(x._storage.buffer is not None for x in (before, within) if x is not None)))

    monkeypatch.setattr(before.device, "profile", profile)
    with cuda.profiling():
        within = weft.ones(100_000) * 3
        assert within._storage.buffer is None
    assert seen == [(True, True), (False, True, True)]


def test_reset_keeps_arrays() -> None:
    array = cuda.to_device([1.0, 2.0])
    cuda.gpus[0].reset()
    cuda.close()
    assert array.copy_to_host().tolist() == [1.0, 2.0]


def test_detect(capsys: pytest.CaptureFixture[str]) -> None:
    assert cuda.detect() is True
    text = capsys.readouterr().out
    assert "Found 1 CUDA devices" in text
    assert "CPU" in text
    assert "1/1 devices are supported" in text


def test_odds_and_ends() -> None:
    major, minor = cuda.runtime.get_version()
    assert major >= 12
    assert minor >= 0
    assert cuda.runtime.is_supported_version()
    reason = cuda.cuda_error()
    assert reason is None or any(word in reason for word in ("GPU", "driver", "CUDA", "cuda"))
    with cuda.defer_cleanup():
        cuda.to_device([1])
    with pytest.warns(UserWarning, match="GPU"), cuda.profiling():
        cuda.synchronize()

    @cuda.require_context
    def double(x: int) -> int:
        """Return twice `x`."""
        return 2 * x

    assert double(4) == 8
    assert double.__doc__ == "Return twice `x`."
