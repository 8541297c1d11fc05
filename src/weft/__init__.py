"""weft: write NumPy, get fused kernels for GPUs and CPUs.

Write ``import weft as wf``, and use NumPy's names. Operations on large arrays are recorded. When a value is needed, the
operations are fused into a few kernels, which are compiled and run. If weft has no kernel for a function, NumPy executes
the function on the host.
"""

from __future__ import annotations

import gc
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

# platform -> alternative
_ELSEWHERE = {"win32": "use the Windows Subsystem for Linux (WSL 2)", "darwin": "use a Linux container or machine"}


def _check_platform() -> None:
    """Raise ImportError on systems other than Linux, and in Python without a global interpreter lock.

    The thread pool, the loader of machine code and interrupts use Linux's C library. Native code relies on the lock.
    """
    if not sys.platform.startswith("linux"):
        remedy = _ELSEWHERE.get(sys.platform, "use a Linux machine")
        raise ImportError(f"weft runs on Linux, and this is {sys.platform}: {remedy}")
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("weft needs Python's global interpreter lock: start this Python with PYTHON_GIL=1")
    if sys.implementation.name != "cpython":
        raise ImportError(f"weft needs CPython, and this is {sys.implementation.name}")


_check_platform()
_collects = gc.isenabled()
gc.disable()  # (collections during the imports would visit all modules and take 5 ms)
try:
    from weft.dsl import OWN, Array, UFunc, evaluate, find_name
finally:
    if _collects:
        # (otherwise the next two collections would visit these objects and take 3 ms; Python itself freezes some hundred)
        if gc.get_freeze_count() < 1000:
            gc.freeze()
            gc.unfreeze()  # moves all objects to the oldest generation
        gc.enable()
from weft.dsl.arrays.validation import MaskedArrayError, UnsupportedDtypeError
from weft.dsl.import_hooks import install as install_registrations
from weft.fusion import reset_statistics, statistics
from weft.runtime import (
    CacheWarning,
    CompileError,
    CudaError,
    DeviceLostError,
    DeviceMismatchError,
    DeviceNotFoundError,
    HostFallbackWarning,
    KernelFault,
    MissingAssemblerError,
    OptimizerWarning,
    OutOfMemoryError,
    PerformanceWarning,
    SettingError,
    VerificationError,
    WeftError,
    default_device,
    devices,
    set_default_device,
)
from weft.runtime.lazy_names import lazy_names, unquote_annotations

if TYPE_CHECKING:  # the names that __getattr__ finds, for type checkers and editors
    from weft import cuda as cuda
    from weft.dsl import compile, explain, lambdify
    from weft.dsl import memory as memory
    from weft.dsl.cuda.streams import stream as stream
    from weft.dsl.kernel import guvectorize as guvectorize
    from weft.dsl.kernel import kernel as kernel
    from weft.dsl.kernel import reduce as reduce
    from weft.dsl.kernel import sanitize as sanitize
    from weft.dsl.kernel import texture as texture
    from weft.dsl.kernel import vectorize as vectorize
    from weft.dsl.kernel.language.device_function import device as device
    from weft.dsl.kernel.language.kernel_errors import (
        DivergenceError,
        KernelAttributeError,
        KernelError,
        KernelNameError,
        KernelSyntaxError,
        KernelTypeError,
        LaunchError,
    )
    from weft.dsl.notebook import load_ipython_extension as load_ipython_extension
    from weft.dsl.profile import profile as profile
    from weft.fusion import Explanation
    from weft.numpy_names import *  # noqa: F403

__version__ = "0.1.0"

_MODULES = {"cuda": "weft.cuda", "memory": "weft.dsl.memory"}
_LAZY = {
    "weft.dsl.functions.symbolic": "lambdify",
    "weft.dsl.plans": "compile explain",
    "weft.dsl.cuda.streams": "stream",
    "weft.dsl.kernel": "guvectorize kernel reduce sanitize texture vectorize SanitizerError",
    "weft.dsl.kernel.language.device_function": "device",
    "weft.dsl.kernel.language.kernel_errors": (
        "DivergenceError KernelAttributeError KernelError KernelNameError KernelSyntaxError KernelTypeError LaunchError"
    ),
    "weft.dsl.notebook": "load_ipython_extension",
    "weft.dsl.profile": "profile",
    "weft.fusion": "Explanation",
}
_NAMES = frozenset(" ".join(_LAZY.values()).split())
_find_lazy = lazy_names(globals(), _LAZY)
for _function in (default_device, devices, evaluate, reset_statistics, set_default_device, statistics):
    unquote_annotations(_function)

install_registrations()
if sys.excepthook is sys.__excepthook__:  # (the hooks of other packages are kept)
    sys.excepthook = lambda *error: import_module("weft.dsl.tracebacks").show_uncaught(*error)
# `show_warning` issues the warnings of weft's frames again for the calling module, whose filters then apply.
warnings.filterwarnings("always", module=r"weft\.")
_show: Any = warnings._showwarnmsg  # type: ignore[attr-defined]  # (a hook of Python's)
warnings._showwarnmsg = lambda message: import_module("weft.dsl.tracebacks").show_warning(message, _show)  # type: ignore[attr-defined]
if hasattr(sys.modules.get("IPython"), "get_ipython"):
    import_module("weft.dsl.tracebacks").hide_in_ipython()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _find_lazy(name)
    if name in OWN:
        found = unquote_annotations(OWN[name])
    elif name in _MODULES:
        found = import_module(_MODULES[name])
    else:
        return find_name(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    import numpy

    found = {*globals(), *_MODULES, *_NAMES, *OWN}
    return sorted({*found, *(n for n in dir(numpy) if not n.startswith("_"))})


__all__ = [
    "Array",
    "CacheWarning",
    "CompileError",
    "CudaError",
    "DeviceLostError",
    "DeviceMismatchError",
    "DeviceNotFoundError",
    "DivergenceError",
    "Explanation",
    "HostFallbackWarning",
    "KernelAttributeError",
    "KernelError",
    "KernelFault",
    "KernelNameError",
    "KernelSyntaxError",
    "KernelTypeError",
    "LaunchError",
    "MaskedArrayError",
    "MissingAssemblerError",
    "OptimizerWarning",
    "OutOfMemoryError",
    "PerformanceWarning",
    "SettingError",
    "UFunc",
    "UnsupportedDtypeError",
    "VerificationError",
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
