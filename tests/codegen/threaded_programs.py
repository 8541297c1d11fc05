"""A command that tests random array programs. It maps their kernels to GPU threads, and interprets these threads on the CPU.

The command is ``python -m tests.codegen.threaded_programs --programs 25 --seed 0``.

The programs are those of `tests.fuzz`. Each kernel is printed, parsed and verified, also after passes for the CPU and
for GPUs. In place of compiled code, the interpreter runs the form that is mapped to GPU threads, with checked accesses.
The command needs its own process, since it replaces functions of the CPU device.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
from array import array
from collections import Counter
from math import prod
from typing import Any

import numpy as np

import weft.fusion.lower.kernels
from tests.codegen.kernels import GPU, HOST
from tests.fuzz import programs
from tests.oracle.interpret import interpret_kernel
from tests.oracle.parse import parse_kernel
from weft.codegen import Kernel, print_kernel, verify_kernel
from weft.codegen.kernel_ir.operation import Pointer
from weft.codegen.passes.choose_lanes import choose_lanes
from weft.codegen.passes.expand_complex import expand_complex
from weft.codegen.passes.expand_ops import expand_ops
from weft.codegen.passes.map_axes import map_axes
from weft.dsl.immediate import host_values
from weft.fusion import Storage
from weft.runtime.cpu.host_device import CpuDevice
from weft.runtime.device import Buffer

PADDING = 1 << 12  # bytes around a buffer: a pointer may begin this far before its buffer, if it is not accessed there
BLOCKS = 3  # limit of a grid, so that most kernels loop with a grid stride

_functions: dict[str, Kernel] = {}
_sizes: dict[int, int] = {}  # address of every buffer so far -> bytes
_schemes: Counter[str] = Counter()
_allocate = CpuDevice.allocate
_adopt = host_values.adopt


def checked(kernel: Kernel) -> Kernel:
    """Verify a kernel, print it, and return the kernel that is parsed from the text."""
    verify_kernel(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    verify_kernel(again)
    assert print_kernel(again) == text
    return again


def obtain_function(device: Any, kernel: Kernel, digest: str = "") -> Kernel:
    """Map a logical kernel to GPU threads, and return the mapped kernel.

    `launch` interprets this kernel in place of code.
    """
    text = print_kernel(kernel)
    if text not in _functions:
        kernel = checked(kernel)
        checked(expand_ops(checked(expand_complex(checked(choose_lanes(kernel, HOST))))))
        threaded = checked(map_axes(kernel, GPU))
        checked(expand_ops(checked(expand_complex(threaded))))
        _schemes[threaded.attributes["scheme"]] += 1
        _functions[text] = threaded
    return _functions[text]


def allocate(device: CpuDevice, nbytes: int) -> Buffer:
    """Allocate a buffer and record its size.

    The buffer is so far from all other buffers that out-of-range addresses are recognized.
    """
    whole = _allocate(device, nbytes + 2 * PADDING)
    address = whole.address + PADDING
    _sizes[address] = nbytes
    return Buffer(device, address, nbytes, whole)


def adopt(values: np.ndarray, device: Any) -> Storage:
    """Return a storage with a copy of a NumPy array. This function replaces `host_values.adopt`, which shares the array's memory."""
    return Storage(values.shape, values.dtype, device, device.upload(values))


def memory(address: int, dtype: np.dtype) -> tuple[np.ndarray, int]:
    """Return the buffer that contains an address, and the index of the element there.

    The buffer is returned as an array of the given dtype.
    """
    start = max((a for a in _sizes if a <= address + PADDING), default=0)
    offset, size = address - start, _sizes.get(start, 0)
    assert offset % dtype.itemsize == 0
    count = size // dtype.itemsize
    elements = np.frombuffer((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(start), dtype)
    # operations before an empty loop may read from a buffer without elements
    return (elements, offset // dtype.itemsize) if count else (np.zeros(1, dtype), 0)


def launch(device: CpuDevice, kernel: Kernel, parallel: tuple[int, ...], work: int, slots: array[int]) -> None:
    """Interpret a threaded kernel on a small grid."""
    arguments: list[Any] = []
    for parameter, slot in zip(kernel.parameters, slots, strict=True):
        kind = parameter.value.type
        if isinstance(kind, Pointer):
            arguments.append(memory(slot, kind.dtype))
        else:
            arguments.append(np.array([slot], np.int64).view(np.uint8)[: kind.itemsize].view(kind)[0])
    blocks = -(-prod(parallel) // kernel.attributes["per_block"])
    if kernel.attributes["most_blocks"]:
        blocks = min(BLOCKS, blocks)
    if blocks:
        interpret_kernel(kernel, arguments, grid=(blocks,), backwards=bool(random.getrandbits(1)))


def main() -> int:
    """Run the programs, and return the number of wrong programs, at most 100."""
    parser = argparse.ArgumentParser(prog="tests.codegen.threaded_programs")
    parser.add_argument("--programs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    weft.fusion.lower.kernels.obtain_function = obtain_function  # type: ignore[assignment]
    CpuDevice.launch = launch  # type: ignore[assignment, method-assign]
    CpuDevice.allocate = allocate  # type: ignore[method-assign]
    for module in list(sys.modules.values()):
        if getattr(module, "adopt", None) is _adopt:
            module.adopt = adopt  # type: ignore[attr-defined]
    CpuDevice.prepare = lambda device, launches: None  # type: ignore[method-assign]  # launches stay launches
    bad = 0
    for seed in range(options.seed, options.seed + options.programs):
        trouble = programs.check(seed)
        if trouble:
            bad += 1
            print(trouble, flush=True)
    print(f"{options.programs} programs, {bad} differ;", ", ".join(f"{n} {s}" for s, n in sorted(_schemes.items())))
    return min(bad, 100)


if __name__ == "__main__":
    raise SystemExit(main())
