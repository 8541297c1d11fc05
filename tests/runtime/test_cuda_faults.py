"""Tests of failed driver calls. Each driver call fails in turn.

Errors are clear, nothing is leaked, and the device keeps working, unless it is lost.
"""

from __future__ import annotations

import gc
import signal
import threading
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.runtime.test_cuda import PTX
from tests.stand_in import StandIn, make_device
from weft.runtime import CompileError, CudaError, DeviceLostError, ObjectCode, OutOfMemoryError
from weft.runtime.cuda.driver import STICKY
from weft.runtime.cuda.launcher import CudaLaunches
from weft.runtime.cuda.records import RecordedLaunch

ENTRY = b".visible .entry fused(.param .u64 a, .param .u64 b)\n{\nret;\n}\n"
CODE = ObjectCode("ptx", "fused", PTX[: PTX.index(b".visible")] + ENTRY, "sm_90", ("pointer",) * 2)

# Functions that create a resource -> functions that release it.
PAIRS = {
    "cuStreamCreate": "cuStreamDestroy",
    "cuEventCreate": "cuEventDestroy",
    "cuModuleLoadData": "cuModuleUnload",
    "cuGraphCreate": "cuGraphDestroy",
    "cuGraphInstantiateWithFlags": "cuGraphExecDestroy",
    "cuCtxPushCurrent": "cuCtxPopCurrent",
    "cuMemHostRegister": "cuMemHostUnregister",
}
# Invalid value, no memory, launch failure; no context, not supported, unknown, illegal address, trap.
CODES, MORE_CODES = (1, 2, 719), (201, 801, 999, 700, 717)
# Functions that are called before the device is used.
BEGINNING = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetAttribute", "cuDriverGetVersion")


@pytest.fixture(autouse=True)
def _ptx_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(code: ObjectCode, arch: str) -> ObjectCode:
        raise CompileError("not here")

    monkeypatch.setattr("weft.runtime.cuda.modules.obtain_cubin", missing)


@pytest.fixture(autouse=True)
def _copies_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cuda_device", "device_memory"):
        monkeypatch.setattr(f"weft.runtime.cuda.{module}.ASIDE", 4096)


@pytest.fixture(autouse=True)
def _little_garbage() -> Iterator[None]:
    """Freeze existing objects, so that garbage collections visit only objects of the test."""
    gc.freeze()
    yield
    gc.unfreeze()


def use(device: Any) -> None:
    """Use memory, kernels, streams and events of a device, and release all resources at the end."""
    values = np.arange(1000.0)
    one = device.upload(values)
    other = device.allocate(values.nbytes)
    device.copy(one, other, values.nbytes)
    function = device.load(CODE)
    device.launch(function, (1000,), 1000, array("q", [one.address, other.address]))
    assert np.array_equal(device.download(other, values.dtype, values.shape), values)
    start = RecordedLaunch(function, (1, 1, 1), (32, 1, 1), 0, array("q", [0, 0]), [(0, 0, 0), (1, 1, 0)])
    prepared = CudaLaunches(device._launcher, [start] * 4)
    for k in range(6):
        prepared.run([one, other] if k % 2 else [other, one])
    stream = device.create_stream()
    device.launch_grid(function, (1, 1, 1), (32, 1, 1), 64 << 10, array("q", [1, 2]), stream)
    began, ended = device.create_event(), device.create_event()
    began.record()
    ended.record(stream)
    stream.wait(began)
    ended.synchronize()
    ended.elapsed(began)
    stream.add_callback(lambda: None)
    stream.synchronize()
    pinned = device.host_memory(4096, "pinned")
    device.pin(values)
    device.memory_info()
    del pinned, one, other, function, start, prepared
    device.reset()


def leaks(driver: StandIn) -> dict[str, int]:
    """Return the leaks since the last `forget` as a dict. It maps the name of an allocating function to the number of unreleased resources.

    The item "memory" is the number of leaked bytes.
    """
    good = Counter(call.name for call in driver.calls if not call.code)
    # a failed release is treated as a release, since the caller has done its part
    tried = Counter(call.name for call in driver.calls)
    found = {make: good[make] - tried[take] for make, take in PAIRS.items()}
    return {make: count for make, count in found.items() if count > 0} | (
        {"memory": driver.memory.held} if driver.memory.held else {}
    )


def calls_of(driver: StandIn) -> list[str]:
    """Run the function `use`, and return the name of each driver call that it makes. Calls that initialize the device are left out."""
    device = make_device(driver)
    use(device)
    driver.forget()
    use(device)
    return [call.name for call in driver.calls if call.name not in BEGINNING]


def test_without_faults_nothing_is_leaked() -> None:
    driver = StandIn()
    use(make_device(driver))
    gc.collect()
    assert not driver.memory.wrong
    # (the main stream, its event and the staging memory live as long as the process)
    assert set(leaks(driver)) <= {"cuStreamCreate", "cuEventCreate", "memory"}


@pytest.mark.parametrize("code", CODES)
def test_each_call_failing(code: int) -> None:
    driver = StandIn()
    named = Counter(calls_of(driver))
    assert len(named) > 25
    for name, count in named.items():
        _one_fault(driver, name, code, count // 2)


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES + MORE_CODES)
def test_each_call_failing_at_any_time(code: int) -> None:
    driver = StandIn()
    for name, count in Counter(calls_of(driver)).items():
        for after in range(count):
            _one_fault(driver, name, code, after)


def _one_fault(driver: StandIn, name: str, code: int, after: int) -> None:
    where = f"{name} fails with {code} after {after} calls"
    device = make_device(driver)
    use(device)
    gc.collect()
    before = driver.memory.held
    driver.forget()
    driver.fail(name, code, after, times=1)
    error: Exception | None = None
    try:
        use(device)
    except (CudaError, OutOfMemoryError, DeviceLostError) as caught:
        error = caught.with_traceback(None)
        assert str(caught), where
    driver.mend()
    gc.collect()
    assert not driver.memory.wrong, where
    lost = bool(device._driver.lost)
    if lost:
        assert code in STICKY, where
        assert isinstance(error, DeviceLostError) or error is None, (
            where
        )  # None: the error occurred in a destructor at the end
        driver.forget()
        for _ in range(2):
            with pytest.raises(DeviceLostError, match="restart the process"):
                use(device)
        assert not driver.calls, where
        driver.memory.blocks.clear()
        driver.memory._starts.clear()
        return
    device.reset()  # releases modules, and streams with pending work
    gc.collect()
    found = leaks(driver)
    found.pop("memory", None)
    if name in PAIRS.values():
        found.pop(next(make for make, take in PAIRS.items() if take == name), None)
    # (a destructor that cannot enter the context leaks one resource)
    assert not found or (name == "cuCtxPushCurrent" and error is None and sum(found.values()) == 1), where
    driver.forget()
    use(device)
    gc.collect()
    left = name.startswith("cuMemFree") or (name == "cuCtxPushCurrent" and error is None)
    assert left or driver.memory.held <= before, where


@pytest.mark.parametrize("code", [1, 100, 3, 700, 999])
@pytest.mark.parametrize("name", BEGINNING)
def test_a_device_that_cannot_be_made(name: str, code: int) -> None:
    driver = StandIn()
    driver.fail(name, code)
    with pytest.raises((CudaError, DeviceLostError)) as caught:
        make_device(driver)
    assert str(code) in str(caught.value)
    driver.mend()
    use(make_device(driver))


def test_every_call_is_made_in_the_devices_context() -> None:
    driver = StandIn()
    device = make_device(driver)
    use(device)
    driver.forget()
    use(device)
    gc.collect()
    inside = 0
    for call in driver.calls:
        match call.name:
            case "cuCtxPushCurrent":
                assert call.arguments == (device._driver.context,)
                inside += 1
            case "cuCtxPopCurrent":
                inside -= 1
            case "cuGetProcAddress":
                pass
            case _:
                assert inside == 1, call.name
    assert not inside, "whoever had a context before has it again"


def test_ctrl_c_while_waiting() -> None:
    driver = StandIn()
    device = make_device(driver)
    use(device)
    driver.fail("cuEventQuery", 600)  # not ready
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    timer.join()
    driver.mend()
    use(device)
