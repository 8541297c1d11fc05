"""The class with which programs recognize the results of `cuda.jit`.

Programs import it from `numba.cuda.dispatcher`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.dsl.kernel import DeviceFunction, KernelDispatcher, jit


class _Dispatcher(type):
    """Metaclass of `CUDADispatcher`, which makes `isinstance` accept weft's kernels and device functions."""

    def __instancecheck__(cls, value: object) -> bool:
        return type(value) in (KernelDispatcher, DeviceFunction)


class CUDADispatcher(metaclass=_Dispatcher):
    """Numba's class of kernels and device functions.

    All kernels and device functions of weft are instances. A call of the class calls `cuda.jit` with the options in
    `targetoptions`.
    """

    def __new__(cls, py_func: Callable[..., Any], targetoptions: Mapping[str, Any]) -> Any:
        return jit(py_func, **targetoptions)
