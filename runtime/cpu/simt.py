"""Device `simt`: the GPU schedules of fused kernels on the CPU.

In: kernels whose loops were mapped to a GPU's threads, compiled for this machine. Out: the results of a GPU, block by
block. Memory and explicit kernels are those of the CPU device. Invariant: a launch has the grid that it has on a GPU.
Shared memory contains NaN, or the largest integers, at the start of each block.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from weft.runtime.cpu.host_device import CpuDevice
from weft.runtime.cpu.loader import HostFunction
from weft.runtime.cpu.watching import watching
from weft.runtime.device import Registered
from weft.runtime.launches import Launch
from weft.runtime.object_code import MAX_BLOCKS


class SimtDevice(CpuDevice):
    """A device that emulates `CudaDevice` on the CPU.

    Parameters
    ----------
    name : str
        "simt", or "simt:sm_80" for the schedules of that architecture. "simt:sm_80:backward" and "simt::backward" let
        the last warps and lanes go first: what differs then is a barrier that is missing. "simt::watched" watches
        every access and meeting of fused kernels, and raises `SanitizerError` for races, barriers that not all threads
        come to, shared memory that is read before it is written, and vectors that are not aligned.

    Attributes
    ----------
    most_blocks : int
        Blocks of a grid at most, where a schedule allows for that. Any number gives the same bits; few make every block
        go on by the size of the grid.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.small_on_host = not name.endswith((":backward", ":watched"))  # (there kernels are to be tested)
        super().__init__()
        self.most_blocks = MAX_BLOCKS

    @property
    def target(self) -> Any:
        """Return the target: this machine with a GPU's schedules."""
        return Registered.resolve_target(self.name)

    def prepare(self, launches: Sequence[Launch]) -> None:
        """Return None, so that kernels run one by one, since each may be watched."""

    def launch(self, function: HostFunction, parallel: tuple[int, ...], work: int, slots: array[int]) -> None:
        """Run a kernel to its end, with one block for every `per_block` items of its launch domain."""
        blocks = function.schedule.blocks(parallel, work)
        grid = (min(blocks, self.most_blocks) if function.schedule.repeats else blocks, 1, 1)
        block = (function.schedule.threads, 1, 1)
        if not function.watch:
            self.launch_grid(function, grid, block, 0, slots)
            return
        with Registered.judge(function) as reader, watching(function.watch, reader):
            self.launch_grid(function, grid, block, 0, slots)
