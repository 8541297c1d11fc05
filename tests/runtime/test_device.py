"""Tests of services that only some devices have, and of device names."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft as wf
from tests.stand_in import RunningDevice, RunningStandIn
from weft.runtime import Device, get_device
from weft.runtime.null import NullDevice


def test_defaults_of_optional_services() -> None:
    device = get_device("null:sm_90")
    buffer = device.allocate(16)
    assert not device.memory_on_host and device.solver is None and device.fourier is None
    assert device.prepare([]) is None and device.prepare_grid(None, (1, 1, 1), (1, 1, 1), 0, 0) is None
    matrix = 0, (2, 2), (2, 1)
    assert not device.multiply(buffer, matrix, matrix, np.dtype(np.float32))
    assert device.owner_of(1) is None and device.exported_stream() is None
    with pytest.raises(TypeError, match="cannot access the memory of <device null:sm_90>"):
        device.view_memory(buffer, np.dtype(np.float32), (4,))


@pytest.mark.parametrize("name", ["cpu", "simt"])
def test_the_host_accesses_the_memory_of_host_devices(name: str) -> None:
    with wf.device(name):
        device = get_device(name)
        buffer = device.upload(np.arange(4.0))
        assert device.memory_on_host
        device.view_memory(buffer, np.dtype(float), (4,))[1] = 7
        assert device.download(buffer, np.dtype(float), (4,)).tolist() == [0, 7, 2, 3]


def test_a_forked_child_does_not_remove_a_shared_file() -> None:
    device = get_device("cpu")
    buffer, handle = device.share(16)
    child = os.fork()
    if not child:
        del buffer
        os._exit(0)
    os.waitpid(child, 0)
    assert device.open_shared(handle, 16).nbytes == 16
    del buffer
    with pytest.raises(ValueError, match="no shared array of 16 bytes"):
        device.open_shared(handle, 16)


def test_a_gpu_has_all_services_but_view_memory() -> None:
    device = RunningDevice(RunningStandIn(1 << 20))
    assert not device.memory_on_host
    assert device.solver is not None and device.fourier is not None and device.exported_stream() is not None


@pytest.mark.parametrize("wrong", [3, None, np.float32])
def test_what_names_no_device(wrong: object) -> None:
    with pytest.raises(TypeError, match="a device or its name is expected"):
        get_device(wrong)  # type: ignore[arg-type]
    if wrong is not None:
        with pytest.raises(TypeError, match="a device or its name is expected"):
            wf.set_default_device(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parts", ["nonsense", "", ":", "sm_1", "host", "sm_90:forward", ":backward:", "sm_90:sanitized:x"]
)
@pytest.mark.parametrize("kind", ["simt", "null"])
def test_wrong_forms_of_names_are_rejected_where_they_are_given(kind: str, parts: str) -> None:
    with pytest.raises(
        wf.DeviceNotFoundError, match=f"no device '{kind}:{parts}'.*; valid forms are {kind}, {kind}:sm_90"
    ):
        get_device(f"{kind}:{parts}")


@pytest.mark.parametrize("name", ["cuda:00", "cuda:²", "cuda:0:1", "null:sm_90:backward", "tpu"])
def test_names_of_no_device(name: str) -> None:
    with pytest.raises(wf.DeviceNotFoundError, match=f"no device '{name}'; "):
        get_device(name)


def test_recognizing_a_device_reads_none_of_its_properties() -> None:
    class Failing(NullDevice):
        @property
        def target(self) -> None:
            raise AssertionError("read")

        current_stream = target

    device = Failing("null")
    assert isinstance(device, Device) and get_device(device) is device
