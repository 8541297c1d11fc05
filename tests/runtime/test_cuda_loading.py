"""Tests of the loading of kernels on a GPU: targets, machine code, PTX, and unloading."""

from __future__ import annotations

import ctypes
import gc
from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.test_cuda import CODE, PTX
from tests.stand_in import StandIn, make_device
from weft.codegen import resolve_target
from weft.runtime import CompileError, CudaError, ObjectCode, override
from weft.runtime.cuda import linker
from weft.runtime.cuda.linker import newest_ptx, obtain_cubin
from weft.runtime.cuda.modules import RETIRED_LIMIT


@pytest.mark.parametrize(
    ("gpu", "driver", "wanted"),
    [
        ("sm_90", (13, 0), "sm_90"),
        ("sm_90", (12, 0), "sm_90"),
        ("sm_89", (12, 0), "sm_89"),
        ("sm_130", (13, 5), "sm_121"),
        ("sm_121", (12, 8), "sm_120"),
        ("sm_103", (12, 7), "sm_100"),
        ("sm_110", (12, 9), "sm_103"),
        ("sm_100", (12, 4), "sm_90"),
        ("sm_87", (12, 0), "sm_87"),
    ],
)
def test_the_target_of_a_gpu_and_its_driver(gpu: str, driver: tuple[int, int], wanted: str) -> None:
    assert resolve_target(gpu, newest_ptx(driver)).name == wanted


def test_a_gpu_that_is_too_old() -> None:
    with pytest.raises(CompileError, match="sm_61 is older"):
        resolve_target("sm_61", newest_ptx((12, 9)))
    with pytest.raises(CompileError, match=r"up to version 6.2, but 6.3 is needed"):
        resolve_target("sm_90", 62)
    with pytest.raises(CompileError, match="no target"):
        resolve_target("sm_130")


def test_a_cubin_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def assemble(ptx: bytes, arch: str, links: tuple[str, ...]) -> ObjectCode:
        made.append(arch)
        return ObjectCode("cubin", "fused", b"\x7fELF" + arch.encode(), arch, ())

    monkeypatch.setattr(linker, "assemble", assemble)
    with override(cache_dir=str(tmp_path), cache=True):
        first = obtain_cubin(CODE, "sm_90")
        assert obtain_cubin(CODE, "sm_90") == first
        assert obtain_cubin(CODE, "sm_80") != first
        other = ObjectCode("ptx", "fused", PTX + b"\n", "sm_90", ())
        obtain_cubin(other, "sm_90")
    assert made == ["sm_90", "sm_80", "sm_90"]


def images(monkeypatch: pytest.MonkeyPatch, driver: StandIn) -> list[bytes]:
    """Return a list. Each module image that the driver receives is appended to it."""
    found: list[bytes] = []
    load = driver.table.cuModuleLoadData
    monkeypatch.setattr(driver.table, "cuModuleLoadData", lambda image: (found.append(image), load(image))[1])
    return found


def test_machine_code_where_it_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    driver = StandIn()
    found = images(monkeypatch, driver)
    make_device(driver).load(CODE)
    assert found[0][:4] == b"\x7fELF"


@pytest.mark.parametrize("why", ["no nvJitLink", "unknown architecture", "refused"])
def test_otherwise_the_driver_gets_ptx(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    driver = StandIn()
    found = images(monkeypatch, driver)
    device = make_device(driver)
    code = CODE
    if why == "no nvJitLink":

        def missing() -> Any:
            raise CompileError("nvJitLink is not installed")

        monkeypatch.setattr(linker, "load_nvjitlink", missing)
    else:
        pytest.importorskip("cuda.bindings.nvjitlink")
    if why == "unknown architecture":
        device.capability = (19, 9)
    if why == "refused":
        code = ObjectCode("ptx", "fused", PTX.replace(b"ret", b"nonsense"), "sm_90", ())
    with override(cache=False):
        device.load(code)
    assert found == [code.code + b"\0"]
    driver.fail("cuModuleLoadData", 222)
    with override(cache=False), pytest.raises(CudaError) as caught:
        device.load(code)
    assert "the driver compiled fused itself" in caught.value.__notes__[0]


def test_machine_code_that_the_driver_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StandIn()
    found: list[bytes] = []
    load = driver.table.cuModuleLoadData

    def older(image: bytes) -> Any:
        found.append(image)
        return (200, None) if image[:4] == b"\x7fELF" else load(image)

    monkeypatch.setattr(driver.table, "cuModuleLoadData", older)
    monkeypatch.setattr(
        "weft.runtime.cuda.modules.obtain_cubin", lambda code, arch: ObjectCode("cubin", "fused", b"\x7fELF", arch, ())
    )
    device = make_device(driver)
    for _ in range(2):
        device.load(CODE)
    assert found == [b"\x7fELF", PTX + b"\0", PTX + b"\0"], "machine code is offered once"


def test_the_log_of_the_drivers_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StandIn()

    def refuse(a: Any) -> int:
        options = (ctypes.c_int32 * a[2]).from_address(a[3])
        values = (ctypes.c_int64 * a[2]).from_address(a[4])
        given = dict(zip(options, values, strict=True))
        assert ctypes.string_at(a[1]) == PTX
        assert given[6] > 100, "the size of the buffer"
        ctypes.memmove(given[5], b"line 7: nonsense\0", 17)
        return 218

    def missing() -> Any:
        raise CompileError("nvJitLink is not installed")

    monkeypatch.setattr(linker, "load_nvjitlink", missing)
    monkeypatch.setitem(driver.native.bodies, "cuModuleLoadDataEx", refuse)
    driver.fail("cuModuleLoadData", 218)
    with override(cache=False), pytest.raises(CudaError) as caught:
        make_device(driver).load(CODE)
    assert any("line 7: nonsense" in note for note in caught.value.__notes__)


def test_a_module_without_its_function_is_unloaded() -> None:
    driver = StandIn()
    device = make_device(driver)
    driver.fail("cuModuleGetFunction", 500)
    with pytest.raises(CudaError, match="cuModuleGetFunction"):
        device.load(CODE)
    assert driver.count("cuModuleUnload") == 1


def test_modules_go_with_their_functions() -> None:
    driver = StandIn()
    device = make_device(driver)
    function = device.load(CODE)
    device.launch_grid(function, (1, 1, 1), (32, 1, 1), 0, array("q"))
    device.reset()
    assert driver.count("cuModuleUnload") == 0
    del function
    gc.collect()
    assert driver.count("cuModuleUnload") == 0, "it may still run"
    driver.forget()
    device.reset()
    names = [call.name for call in driver.calls]
    assert names.index("cuEventQuery") < names.index("cuModuleUnload")


def test_modules_that_wait_to_be_unloaded_have_a_bound() -> None:
    driver = StandIn()
    device = make_device(driver)
    for _ in range(3 * RETIRED_LIMIT):
        device.load(CODE)
    assert driver.count("cuModuleLoadData") - driver.count("cuModuleUnload") <= RETIRED_LIMIT
