"""A runner for explicit kernels on the CPU device."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.codegen import Kernel, compile_kernel, print_kernel, resolve_target
from weft.codegen.kernel_ir.operation import Pointer
from weft.codegen.llvm import host_threads
from weft.runtime import CpuDevice


@cache
def device() -> CpuDevice:
    """Return the device that all tests share."""
    return CpuDevice()


def pack(kernel: Kernel, arguments: Sequence[Any]) -> array[int]:
    """Return the argument slots of a launch: the addresses of arrays, and the bits of scalars."""
    slots = array("q")
    for parameter, argument in zip(kernel.parameters, arguments, strict=True):
        kind = parameter.value.type
        if isinstance(kind, Pointer):
            assert argument.dtype == kind.dtype
            slots.append(argument.ctypes.data)
        else:
            word = np.zeros(8, np.uint8)
            word[: kind.itemsize] = np.frombuffer(kind.type(argument).tobytes(), np.uint8)
            slots.append(int(word.view(np.int64)[0]))
    return slots


# The most recently loaded kernel, by its text and by the function that splits it into loops.
_loaded: dict[tuple[str, Any], Any] = {}


def load(kernel: Kernel) -> Any:
    """Compile a kernel for this machine, and return the loaded function."""
    key = print_kernel(kernel), host_threads.split_at_barriers
    if key not in _loaded:
        made = device().load(compile_kernel(kernel, resolve_target("host")))
        _loaded.clear()
        _loaded[key] = made
    return _loaded[key]


def run(
    kernel: Kernel,
    arguments: Sequence[Any],
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (1,),
    shared_bytes: int = 0,
    function: Any = None,
) -> None:
    """Run a kernel on the CPU device. Arrays are written in place.

    The kernel is compiled, unless `function` is the compiled kernel. The most recently compiled kernel is cached.
    """
    sizes = [(*axes, 1, 1)[:3] for axes in (grid, block)]
    device().launch_grid(function or load(kernel), sizes[0], sizes[1], shared_bytes, pack(kernel, arguments))  # type: ignore[arg-type]
