"""Explicit kernels: the kernel language, its compiler, launches."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LAZY = {
    "DeviceFunction": "device_function",
    "Kernel": "dispatcher",
    "compile": "ahead",
    "compile_all": "ahead",
    "compile_for_current_device": "ahead",
    "compile_ptx": "ahead",
    "compile_ptx_for_current_device": "ahead",
    "GeneralizedFunction": "generalized",
    "Reduce": "reduction",
    "VectorFunction": "vectorized",
    "declare_device": "decorators",
    "device": "device_function",
    "guvectorize": "generalized",
    "jit": "decorators",
    "kernel": "dispatcher",
    "reduce": "reduction",
    "vectorize": "vectorized",
    "literal_unroll": "decorators",
    "KernelAttributeError": "errors",
    "KernelError": "errors",
    "KernelNameError": "errors",
    "KernelSyntaxError": "errors",
    "KernelTypeError": "errors",
    "LaunchError": "errors",
    "SanitizerError": "sanitizer",
    "WatchedLaunch": "sanitizer",
    "run_python": "simulate",
    "sanitize": "sanitizer",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"weft.dsl.kernel.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Face(ModuleType):
    """Names win over files: once ``jit.py`` is imported, `jit` is still the decorator."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _LAZY or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
