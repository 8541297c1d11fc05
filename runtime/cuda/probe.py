"""The probe: what CUDA offers on this machine, and the command that mends it where it does not work.

Runs once, when somebody asks. It initialises the driver only after its library was found.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from weft.runtime.settings import setting

# What cuda-bindings 13 and the PTX that is generated need.
NEEDED_DRIVER = (12, 0)

Status = Literal["ok", "no driver", "driver too old", "no device", "hidden", "no bindings", "driver error"]


@dataclass(frozen=True, slots=True)
class GpuNote:
    """One GPU: its name, compute capability and bytes of memory."""

    name: str
    capability: tuple[int, int]
    memory: int


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found; `remedy` is a command or a step where `status` is not ok."""

    status: Status
    message: str
    remedy: str = ""
    driver: tuple[int, int] | None = None
    devices: tuple[GpuNote, ...] = field(default=())


def _driver_library() -> bool:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def probe() -> Probe:
    """What CUDA offers here."""
    if not _driver_library():
        return Probe(
            "no driver",
            "no NVIDIA driver library was found",
            "install NVIDIA's driver (on most systems the package nvidia-driver)",
        )
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return Probe("no bindings", f"cuda-bindings cannot be imported: {error}", "pip install cuda-bindings cuda-core")
    return probe_driver(driver)


def probe_driver(driver: Any) -> Probe:
    """The same through a given driver table."""
    code, version = driver.cuDriverGetVersion()
    if int(code):
        return Probe(
            "driver error", f"cuDriverGetVersion failed with {code}", "restart the machine, or reinstall the driver"
        )
    have = (version // 1000, version % 1000 // 10)
    if have < NEEDED_DRIVER:
        need = ".".join(map(str, NEEDED_DRIVER))
        return Probe(
            "driver too old",
            f"the driver supports CUDA {have[0]}.{have[1]}, needed is {need}",
            "update NVIDIA's driver",
            have,
        )
    (code,) = driver.cuInit(0)
    hidden = setting("cuda_visible")
    if int(code) == 100 or (not int(code) and not int(driver.cuDeviceGetCount()[1])):
        if hidden is not None:
            return Probe(
                "hidden", f"CUDA_VISIBLE_DEVICES={hidden!r} hides every GPU", "unset CUDA_VISIBLE_DEVICES", have
            )
        return Probe("no device", "the driver works, but the machine has no GPU", "", have)
    if int(code):
        return Probe("driver error", f"cuInit failed with {code}", "restart the machine, or reinstall the driver", have)
    found = []
    for k in range(int(driver.cuDeviceGetCount()[1])):
        handle = driver.cuDeviceGet(k)[1]
        name = driver.cuDeviceGetName(128, handle)[1].split(b"\0")[0].decode()
        kinds = driver.CUdevice_attribute
        major = driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle)[1]
        minor = driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle)[1]
        found.append(GpuNote(name, (major, minor), int(driver.cuDeviceTotalMem(handle)[1])))
    return Probe("ok", f"{len(found)} GPU(s)", "", have, tuple(found))
