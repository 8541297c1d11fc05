"""Tests of the native launcher and of CUDA graphs.

They use the native stand-in for the driver.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from tests.stand_in import RunningStandIn, StandIn, make_device
from weft.runtime import CompileError, CudaError, DeviceLostError, ObjectCode, OptimizerWarning, failures, override
from weft.runtime.cuda import launcher as launcher_module
from weft.runtime.cuda.cuda_device import CudaDevice
from weft.runtime.cuda.graphs import LEAST, MOST_BYTES
from weft.runtime.cuda.launcher import CudaLaunches
from weft.runtime.cuda.records import RecordedLaunch

PTX = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry fused(.param .u64 a, .param .u64 b, .param .u64 c)\n{\nret;\n}\n"
CODE = ObjectCode("ptx", "fused", PTX, "sm_90", ("pointer",) * 3, (), {"block": 256, "per_block": 1024})
TOGETHER = ObjectCode("ptx", "fused", PTX, "sm_90", ("pointer",) * 3, (), {"cooperative": True})


def buffer_at(address: int) -> Any:
    """Return a table entry with the given address."""
    return SimpleNamespace(address=address)


@pytest.fixture(autouse=True)
def _ptx_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make weft load PTX instead of machine code. These tests replace the CUDA driver by a simulated driver, which reads only PTX."""

    def missing(code: ObjectCode, arch: str) -> ObjectCode:
        raise CompileError("not here")

    monkeypatch.setattr("weft.runtime.cuda.modules.obtain_cubin", missing)


@pytest.fixture
def device(driver: RunningStandIn) -> CudaDevice:
    return make_device(driver)  # type: ignore[no-any-return]


def starts(device: CudaDevice, count: int, **more: Any) -> list[RecordedLaunch]:
    """Return launches with three arguments each.

    The arguments are an address from the table, a constant, and a scalar from the table.
    """
    function = device.load(CODE)
    return [
        RecordedLaunch(
            function, (5 + k, 6, 7), (32, 2, 1), 128, array("q", [0, 70 + k, 0]), [(0, 0, 8 * k)], [(2, 1)], **more
        )
        for k in range(count)
    ]


def finish(device: CudaDevice, driver: RunningStandIn) -> list[Any]:
    """Wait for all work, and return the launches since the previous call."""
    device.synchronize()
    found = driver.launched[:]
    driver.launched.clear()
    return found


# -- launches -----------------------------------------------------------------------------------------


def test_what_the_driver_is_given(device: CudaDevice, driver: RunningStandIn) -> None:
    assert device._launcher.native
    prepared = CudaLaunches(device._launcher, starts(device, 2))
    driver.forget()
    prepared.run([buffer_at(4096), 99])
    assert [call.name for call in driver.calls] == [
        "cuCtxPushCurrent",
        "cuLaunchKernelEx",
        "cuLaunchKernelEx",
        "cuCtxPopCurrent",
    ]
    first, second = finish(device, driver)
    assert (first.grid, first.block, first.shared_bytes) == ((5, 6, 7), (32, 2, 1), 128)
    assert first.stream == int(device._order.main)
    assert first.arguments == (4096, 70, 99)
    assert (second.grid, second.arguments) == ((6, 6, 7), (4104, 71, 99))


def test_arguments_change_from_run_to_run(device: CudaDevice, driver: RunningStandIn) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 1))
    for k in range(4):
        prepared.run([buffer_at(4096 * k), -k])
    assert [one.arguments for one in finish(device, driver)] == [(4096 * k, 70, -k) for k in range(4)]


def test_one_kernel_without_a_plan(device: CudaDevice, driver: RunningStandIn) -> None:
    function, together = device.load(CODE), device.load(TOGETHER)
    stream = device.create_stream()
    device.launch(function, (5000,), 5000, array("q", [1, 2, 3]))
    device.launch_grid(function, (2**31 - 1, 65535, 3), (1, 2, 64), 1 << 16, array("q", [-1, 2**62, 7]), stream)
    device.launch_grid(together, (4, 1, 1), (32, 1, 1), 0, array("q", [1, 2, 3]))
    # streams are not ordered, so launches may complete in any order
    one, other, last = sorted(finish(device, driver), key=lambda launched: launched.grid[1:] + launched.block)
    assert (one.grid, one.block, one.arguments) == ((4, 1, 1), (32, 1, 1), (1, 2, 3))
    assert one.cooperative
    assert (other.grid, other.block, other.arguments) == ((5, 1, 1), (256, 1, 1), (1, 2, 3))
    assert not other.cooperative
    assert (last.grid, last.block, last.shared_bytes) == ((2**31 - 1, 65535, 3), (1, 2, 64), 1 << 16)
    assert last.arguments == (-1, 2**62, 7)
    assert last.stream == stream.handle


def test_what_cannot_be_passed_starts_nothing(device: CudaDevice, driver: RunningStandIn) -> None:
    assert device._launcher.native
    prepared = CudaLaunches(device._launcher, starts(device, 2))
    driver.forget()
    for table, error in (([buffer_at(1)], IndexError), ([7, 7], AttributeError), ([buffer_at(1), "x"], TypeError)):
        with pytest.raises(error):
            prepared.run(table)
    with pytest.raises(OverflowError):
        prepared.run([buffer_at(1), 2**64])
    assert not driver.calls
    prepared.run([buffer_at(1), 2])
    assert len(finish(device, driver)) == 2


def test_the_table_of_the_driver_does_the_same(driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(driver: Any) -> Any:
        raise CompileError("no memory may be executed")

    found = []
    for native in (True, False):
        device = make_device(driver)
        if not native:
            monkeypatch.setattr(launcher_module, "native_launcher", cannot)
            monkeypatch.setattr(failures, "_reported", set())
            with override(strict=False), pytest.warns(OptimizerWarning, match="no memory may be executed"):
                assert device._launcher.native is None
        prepared = CudaLaunches(device._launcher, starts(device, 3))
        prepared.run([buffer_at(4096), 99])
        prepared.run([buffer_at(8192), 98])
        device.launch_grid(device.load(TOGETHER), (4, 1, 1), (32, 1, 1), 0, array("q", [1, 2, 3]))
        found.append([(k.grid, k.block, k.shared_bytes, k.arguments, k.cooperative) for k in finish(device, driver)])
        assert bool(device._launcher.native) is native
    assert found[0] == found[1]
    assert len(found[0]) == 7


def test_threads_share_what_is_prepared(device: CudaDevice, driver: RunningStandIn) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 2, nbytes=MOST_BYTES))

    def run(number: int) -> None:
        for k in range(50):
            prepared.run([buffer_at(number << 20), number * 1000 + k])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = finish(device, driver)
    assert len(found) == 400
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert first.arguments[2] == second.arguments[2]
        assert first.arguments[0] == first.arguments[2] // 1000 << 20


# -- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cuLaunchKernelEx", "cuCtxPushCurrent"])
@pytest.mark.parametrize("code", [1, 201, 400, 700, 701, 716, 719, 999])
def test_a_failing_launch(device: CudaDevice, driver: RunningStandIn, name: str, code: int) -> None:
    def here() -> None: ...

    prepared = CudaLaunches(device._launcher, starts(device, 3, origin=(here.__code__, 0)))
    prepared.run([buffer_at(4096), 99])
    driver.forget()
    driver.fail(name, code, after=1 if name == "cuLaunchKernelEx" else 0)
    lost = code in (700, 716, 719)
    with pytest.raises(DeviceLostError if lost else CudaError) as caught:
        prepared.run([buffer_at(4096), 99])
    assert str(code) in str(caught.value)
    if lost:
        assert "fused (test_cuda_launcher.py:" in str(caught.value)
    assert driver.count("cuCtxPopCurrent") == (driver.count("cuCtxPushCurrent") if name == "cuLaunchKernelEx" else 0)
    driver.mend()
    driver.forget()
    if lost:
        for _ in range(2):
            with pytest.raises(DeviceLostError, match="restart the process"):
                prepared.run([buffer_at(4096), 99])
        del prepared
        gc.collect()
        assert not driver.calls
    else:
        prepared.run([buffer_at(4096), 99])
        assert driver.count("cuLaunchKernelEx") == 3


def test_an_error_of_work_that_was_started_earlier(device: CudaDevice, driver: RunningStandIn) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 1))
    prepared.run([buffer_at(4096), 99])
    driver.queues.error = 700
    with pytest.raises(DeviceLostError, match="in or after kernel fused"):
        prepared.run([buffer_at(4096), 99])
    with pytest.raises(DeviceLostError, match="in or after kernel fused"):
        device.synchronize()


# -- graphs ---------------------------------------------------------------------------------------------


def run_often(prepared: CudaLaunches, times: int) -> None:
    for k in range(times):
        prepared.run([buffer_at(4096), 99 + k])


def test_a_plan_that_comes_back_becomes_a_graph(device: CudaDevice, driver: RunningStandIn) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 4))
    run_often(prepared, 3)
    assert driver.count("cuGraphInstantiateWithFlags") == 1
    expected = finish(device, driver)[:4]
    driver.forget()
    prepared.run([buffer_at(4096), 101])
    assert [call.name for call in driver.calls] == ["cuCtxPushCurrent", "cuGraphLaunch", "cuCtxPopCurrent"]
    assert driver.calls[1].arguments[1] == int(device._order.main)
    for before, now in zip(expected, finish(device, driver), strict=True):
        assert (now.grid, now.block, now.shared_bytes, now.arguments[:2]) == (
            before.grid,
            before.block,
            before.shared_bytes,
            before.arguments[:2],
        )
        assert now.arguments[2] == 101


def test_a_graph_gets_new_arguments_where_they_changed(device: CudaDevice, driver: RunningStandIn) -> None:
    function = device.load(CODE)
    own = [
        RecordedLaunch(function, (1, 1, 1), (32, 1, 1), 0, array("q", [0, k, 0]), [(0, k, 0), (2, 3, 0)])
        for k in range(3)
    ]
    prepared = CudaLaunches(device._launcher, own)
    table = [buffer_at(1000), buffer_at(2000), buffer_at(3000), buffer_at(4000)]
    for _ in range(4):
        prepared.run(table)
    finish(device, driver)
    driver.forget()
    table[1] = buffer_at(5000)
    prepared.run(table)
    assert driver.count("cuGraphExecKernelNodeSetParams") == 1
    prepared.run(table)
    assert driver.count("cuGraphExecKernelNodeSetParams") == 1
    table[3] = buffer_at(6000)
    prepared.run(table)
    assert driver.count("cuGraphExecKernelNodeSetParams") == 4
    assert driver.count("cuLaunchKernelEx") == 0
    found = [one.arguments for one in finish(device, driver)]
    once = [(1000, 0, 4000), (5000, 1, 4000), (3000, 2, 4000)]
    assert found == [*once, *once, (1000, 0, 6000), (5000, 1, 6000), (3000, 2, 6000)]


@pytest.mark.parametrize("why", ["few", "large", "together", "off"])
def test_no_graph(device: CudaDevice, driver: RunningStandIn, why: str) -> None:
    own = starts(device, LEAST - 1 if why == "few" else 5, nbytes=MOST_BYTES if why == "large" else 0)
    if why == "together":
        own[2].function = device.load(TOGETHER)
    with override(graphs=0 if why == "off" else 3):
        run_often(CudaLaunches(device._launcher, own), 6)
    assert driver.count("cuGraphCreate") == 0
    assert len(finish(device, driver)) == 6 * len(own)


def test_graphs_go_with_their_plan(device: CudaDevice, driver: RunningStandIn) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 4))
    run_often(prepared, 5)
    assert device._driver.graphs == 1
    del prepared
    gc.collect()
    assert device._driver.graphs == 0
    assert driver.count("cuGraphExecDestroy") == driver.count("cuGraphDestroy") == 1


def test_graphs_have_a_bound(device: CudaDevice, driver: RunningStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.runtime.cuda.graphs.LIMIT", 2)
    own = [CudaLaunches(device._launcher, starts(device, 3)) for _ in range(4)]
    for prepared in own:
        run_often(prepared, 5)
    assert device._driver.graphs == 2
    assert len(finish(device, driver)) == 4 * 5 * 3


@pytest.mark.parametrize("name", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"])
@pytest.mark.parametrize("code", [1, 2, 801, 700])
def test_a_graph_that_cannot_be_made(device: CudaDevice, driver: RunningStandIn, name: str, code: int) -> None:
    driver.fail(name, code)
    prepared = CudaLaunches(device._launcher, starts(device, 4))
    if code == 700:
        with pytest.raises(DeviceLostError):
            run_often(prepared, 5)
        return
    run_often(prepared, 6)
    assert driver.count(name) == 1, "it is tried once"
    assert len(finish(device, driver)) == 24
    gc.collect()
    made = sum(not call.code for call in driver.named("cuGraphCreate"))
    assert driver.count("cuGraphDestroy") == made
    assert device._driver.graphs == 0


@pytest.mark.parametrize("name", ["cuGraphLaunch", "cuGraphExecKernelNodeSetParams"])
@pytest.mark.parametrize("code", [1, 910, 700])
def test_a_graph_that_cannot_be_replayed(device: CudaDevice, driver: RunningStandIn, name: str, code: int) -> None:
    prepared = CudaLaunches(device._launcher, starts(device, 4))
    run_often(prepared, 4)
    driver.fail(name, code)
    if code == 700:
        with pytest.raises(DeviceLostError, match="in or after kernel fused"):
            prepared.run([buffer_at(8192), 5])
        return
    finish(device, driver)
    prepared.run([buffer_at(8192), 5])
    assert [one.arguments for one in finish(device, driver)] == [(8192 + 8 * k, 70 + k, 5) for k in range(4)]
    gc.collect()
    assert device._driver.graphs == 0


# -- loading -------------------------------------------------------------------------------------------


def test_the_function_comes_from_the_cache_without_a_compiler(tmp_path: Any) -> None:
    code = (
        "import sys\n"
        "from weft.runtime.cpu.native import obtain_native\n"
        "from weft.runtime.cuda.cuda_launch_code import ENTRY, launcher_text\n"
        "assert obtain_native(ENTRY, launcher_text()).address\n"
        "print('llvmlite' in sys.modules)\n"
    )
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path), "WEFT_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["True", "False"]


def test_calls_stay_native() -> None:
    driver = StandIn()
    device = make_device(driver)
    prepared = CudaLaunches(device._launcher, starts(device, 200, nbytes=MOST_BYTES))
    prepared.run([buffer_at(1), 2])
    driver.forget()
    prepared.run([buffer_at(1), 2])
    assert driver.count("cuLaunchKernelEx") == 200
    assert driver.count("cuCtxPushCurrent") == driver.count("cuCtxPopCurrent") == 1
