"""User-written kernels: the kernel language, the compiler, and launches."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LAZY = {
    "DeviceFunction": "language.device_function",
    "KernelDispatcher": "launch.dispatcher",
    "compile": "launch.ahead",
    "compile_all": "launch.ahead",
    "compile_for_current_device": "launch.ahead",
    "compile_ptx": "launch.ahead",
    "compile_ptx_for_current_device": "launch.ahead",
    "GeneralizedFunction": "library.generalized",
    "Reduce": "library.reduction",
    "VectorFunction": "library.vectorized",
    "declare_device": "library.linking",
    **dict.fromkeys(
        ("Archive", "CUSource", "Cubin", "Fatbin", "LTOIR", "LinkableCode", "Object", "PTXSource"), "library.linking"
    ),
    "device": "language.device_function",
    "guvectorize": "library.generalized",
    "jit": "launch.decorators",
    "kernel": "launch.dispatcher",
    "reduce": "library.reduction",
    "vectorize": "library.vectorized",
    "link_digests": "library.linking",
    "launch_children": "launch.nested",
    "make_queue": "launch.nested",
    "spans_of": "launch.nested",
    "from_numba": "language.numba_objects",
    "literal_unroll": "launch.decorators",
    "KernelAttributeError": "language.kernel_errors",
    "KernelError": "language.kernel_errors",
    "KernelNameError": "language.kernel_errors",
    "KernelSyntaxError": "language.kernel_errors",
    "KernelTypeError": "language.kernel_errors",
    "LaunchError": "language.kernel_errors",
    "SanitizerError": "sanitizer.sanitized_launch",
    "SanitizedLaunch": "sanitizer.sanitized_launch",
    "run_python": "python_mode.simulate",
    "stages_of": "launch.ahead",
    "sanitize": "sanitizer.sanitized_launch",
    "texture": "library.textures",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"weft.dsl.kernel.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Face(ModuleType):
    """Class of this module, which prevents submodule imports from overwriting names such as ``jit``."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _LAZY or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
