"""Detection of CUDA on this machine, with advice on broken installations.

The probe runs once, on first use. The driver is initialized only after its library has been found.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from weft.runtime.settings import setting

# Needed by cuda-bindings 13 and by the generated PTX.
NEEDED_DRIVER = (12, 0)
# Minimum compute capability of generated code.
NEEDED_CAPABILITY = (7, 0)
# Remedies for errors of cuInit.
REMEDIES = {
    34: "the library found is a stub of the CUDA toolkit's: install NVIDIA's driver, or mend LD_LIBRARY_PATH",
    46: "another process has the GPU for itself: nvidia-smi -q -d COMPUTE",
    802: "start NVIDIA's fabric manager (nvidia-fabricmanager)",
    803: "restart the machine: the driver was updated while it ran",
    804: "take the CUDA compatibility package out of LD_LIBRARY_PATH: it does not support this GPU",
}

Status = Literal[
    "ok", "no driver", "driver too old", "no device", "hidden", "no bindings", "driver error", "GPU too old"
]


@dataclass(frozen=True, slots=True)
class GpuNote:
    """A GPU's name, compute capability and memory size in bytes."""

    name: str
    capability: tuple[int, int]
    memory: int


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of the detection of CUDA on this machine.

    If `status` is not "ok", `remedy` states how to repair CUDA, or is empty if no remedy is known.
    """

    status: Status
    message: str
    remedy: str = ""
    driver: tuple[int, int] | None = None
    devices: tuple[GpuNote, ...] = field(default=())

    @property
    def first(self) -> int:
        """The number of the first supported GPU."""
        return next(k for k, gpu in enumerate(self.devices) if gpu.capability >= NEEDED_CAPABILITY)


def _driver_library() -> bool:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@lru_cache(maxsize=1)
def probe() -> Probe:
    """Detect CUDA on this machine."""
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
    """Detect CUDA by calls to the functions of `driver`."""
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
        remedy = REMEDIES.get(int(code), "restart the machine, or reinstall the driver")
        return Probe("driver error", f"cuInit failed with {code}", remedy, have)
    found = []
    for k in range(int(driver.cuDeviceGetCount()[1])):
        handle = driver.cuDeviceGet(k)[1]
        name = driver.cuDeviceGetName(128, handle)[1].split(b"\0")[0].decode()
        kinds = driver.CUdevice_attribute
        major = driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle)[1]
        minor = driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle)[1]
        found.append(GpuNote(name, (major, minor), int(driver.cuDeviceTotalMem(handle)[1])))
    if all(gpu.capability < NEEDED_CAPABILITY for gpu in found):
        newest = max(found, key=lambda gpu: gpu.capability)
        has, needs = (".".join(map(str, number)) for number in (newest.capability, NEEDED_CAPABILITY))
        message = f"{newest.name} has compute capability {has}, needed is {needs}"
        return Probe("GPU too old", message, "", have, tuple(found))
    return Probe("ok", f"{len(found)} GPU(s)", "", have, tuple(found))
