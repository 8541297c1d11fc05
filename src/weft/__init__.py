"""weft: write NumPy, get fused CUDA kernels; without a GPU, fused and compiled on the CPU.

``import weft as wf`` and use NumPy's names: operations are recorded, planned into few kernels, compiled and
run when a value is needed. What weft has no kernels for is NumPy's own function, called on the host.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.dsl import OWN, Array, UFunc, compile, evaluate, explain, find_name, lambdify, memory
from weft.dsl.kernel.device_function import device
from weft.dsl.kernel.errors import KernelError, KernelSyntaxError, KernelTypeError, LaunchError
from weft.fusion import Explanation, reset_statistics, statistics
from weft.runtime import (
    CacheWarning,
    CompileError,
    CudaError,
    DeviceLostError,
    DeviceMismatchError,
    DeviceNotFoundError,
    OutOfMemoryError,
    PerformanceWarning,
    SettingError,
    WeftError,
    default_device,
    devices,
    set_default_device,
)

if TYPE_CHECKING:  # what __getattr__ finds, for type checkers and editors
    from weft import cuda as cuda
    from weft.dsl.cuda.streams import stream as stream
    from weft.dsl.kernel import guvectorize as guvectorize
    from weft.dsl.kernel import kernel as kernel
    from weft.dsl.kernel import reduce as reduce
    from weft.dsl.kernel import sanitize as sanitize
    from weft.dsl.kernel import vectorize as vectorize
    from weft.dsl.profile import profile as profile
    from weft.numpy_names import *  # noqa: F403

__version__ = "0.1.0"

# loaded with the compiler of explicit kernels
_KERNELS = frozenset({"guvectorize", "kernel", "reduce", "sanitize", "vectorize", "SanitizerError"})

globals().update({name: value for name, value in OWN.items() if name not in ("compile",)})


def __getattr__(name: str) -> Any:
    if name == "cuda":  # explicit kernels load when somebody asks for them
        return import_module("weft.cuda")
    if name == "stream":
        return import_module("weft.dsl.cuda.streams").stream
    if name == "profile":
        return import_module("weft.dsl.profile").profile
    if name in _KERNELS:
        return getattr(import_module("weft.dsl.kernel"), name)
    return find_name(name)


def __dir__() -> list[str]:
    import numpy

    found = {*globals(), *_KERNELS, "cuda", "profile", "stream"}
    return sorted({*found, *(n for n in dir(numpy) if not n.startswith("_"))})


__all__ = [
    "Array",
    "CacheWarning",
    "CompileError",
    "CudaError",
    "DeviceLostError",
    "DeviceMismatchError",
    "DeviceNotFoundError",
    "Explanation",
    "KernelError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LaunchError",
    "OutOfMemoryError",
    "PerformanceWarning",
    "SettingError",
    "UFunc",
    "WeftError",
    "compile",
    "default_device",
    "device",
    "devices",
    "evaluate",
    "explain",
    "lambdify",
    "memory",
    "profile",
    "reset_statistics",
    "set_default_device",
    "statistics",
    "stream",
]
