"""The `simt` device, which runs the GPU schedules of fused kernels on the CPU.

In: kernels whose loops were mapped to a GPU's threads, compiled for this machine. Out: the results of a GPU, block by
block. Memory and launches of user-written kernels are those of the CPU device. Invariant: a launch has the same grid as
on a GPU. At the start of each block, all bits of shared memory are 1, so that floats are NaN.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from weft.runtime.cpu.host_device import CpuDevice
from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.trace_log import tracing
from weft.runtime.device import Registered
from weft.runtime.launches import Launch
from weft.runtime.object_code import MAX_BLOCKS


class SimtDevice(CpuDevice):
    """A device that emulates a GPU (`CudaDevice`) on the CPU.

    Parameters
    ----------
    name : str
        "simt", or "simt:sm_80" for the schedules of that architecture. "simt:sm_80:backward" and "simt::backward" run
        the last warps and lanes first: a result that differs then reveals a missing barrier. "simt::sanitized" checks
        every access and barrier of fused kernels, and raises `SanitizerError` for races, barriers that not all threads
        reach, shared memory that is read before it is written, and vectors that are not aligned.

    Attributes
    ----------
    most_blocks : int
        The maximum number of blocks of a grid, for schedules with a grid-stride loop. Any number gives the same result.
        A small number makes every block run several iterations.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.small_on_host = not name.endswith((":backward", ":sanitized"))  # (these devices are for testing kernels)
        super().__init__()
        self.most_blocks = MAX_BLOCKS

    @property
    def target(self) -> Any:
        """The code generation target: this machine, with the schedules of a GPU."""
        return Registered.resolve_target(self.name)

    def prepare(self, launches: Sequence[Launch]) -> None:
        """Return None, which means that launches cannot be prepared: kernels are launched one by one, so that they can be checked."""

    def launch(self, function: HostFunction, parallel: tuple[int, ...], work: int, arguments: array[int]) -> None:
        """Run a kernel to completion. The kernel's block schedule determines the number of blocks."""
        blocks = function.schedule.blocks(parallel, work)
        grid = (min(blocks, self.most_blocks) if function.schedule.repeats else blocks, 1, 1)
        block = (function.schedule.threads, 1, 1)
        if not function.trace:
            self.launch_grid(function, grid, block, 0, arguments)
            return
        checker = import_module(Registered.checker_module)
        with checker.check_launch(function) as reader, tracing(function.trace, reader):
            self.launch_grid(function, grid, block, 0, arguments)
