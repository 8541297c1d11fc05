"""Machine parameters that the planner and the schedules use.

The parameters describe a class of machines instead of the actual machine, because summation orders and the kernels of
a plan depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from weft.runtime import Device


@dataclass(frozen=True)
class Machine:
    """Parameters of a class of machines.

    Attributes
    ----------
    kind : {"cpu", "gpu"}
    row_length : int
        Longest row that a kernel reads again after reducing it, if there are too few rows for all threads. Longer rows
        are split among CPU threads or GPU blocks.
    pair_bytes, steps_bytes : int
        Minimum number of bytes that two reductions must both read to share a kernel, and minimum traffic of a time step
        for which a kernel computes several steps. Fewer bytes stay in a cache anyway.
    steps : tuple of int
        Maximum numbers of time steps per kernel, in the order in which they are tried. Steps that write borders are
        included.
    warp, block, wide_block : int
        Threads per warp, per block of most kernels, and per block that processes a long row.
    blocks, threads : int
        Blocks that fill the machine, and threads that keep it busy.
    registers, kept_registers : int
        Maximum number of 32-bit registers for all values of a thread, and for the part of a row that it keeps.
    vector_bytes, sector_bytes : int
        Bytes of the widest access of a thread, and of the smallest unit in which memory is read.
    shared_bytes, all_shared_bytes : int
        Shared memory that a block can use by default, and shared memory of a multiprocessor.
    """

    kind: Literal["cpu", "gpu"]
    row_length: int
    pair_bytes: int
    steps_bytes: int
    steps: tuple[int, ...]
    warp: int = 1
    block: int = 1
    wide_block: int = 1
    blocks: int = 0
    threads: int = 0
    registers: int = 0
    kept_registers: int = 0
    vector_bytes: int = 0
    sector_bytes: int = 0
    shared_bytes: int = 0
    all_shared_bytes: int = 0

    @property
    def is_gpu(self) -> bool:
        """Whether the machine is a GPU."""
        return self.kind == "gpu"

    @property
    def warps(self) -> int:
        """Number of warps per block."""
        return self.block // self.warp


CPU = Machine("cpu", row_length=2048, pair_bytes=1 << 18, steps_bytes=4 << 20, steps=(24, 12, 8, 5, 3, 2))
GPU = Machine(
    "gpu",
    row_length=1 << 15,
    pair_bytes=32 << 20,
    steps_bytes=48 << 20,
    steps=(20, 15, 10, 8, 6, 5, 4, 3, 2),
    warp=32,
    block=256,
    wide_block=512,
    blocks=512,
    threads=1 << 16,
    registers=64,
    kept_registers=48,
    vector_bytes=16,
    sector_bytes=32,
    shared_bytes=48 << 10,
    all_shared_bytes=200 << 10,
)


def machine_of(device: Device) -> Machine:
    """Return the parameters of a device's machine class."""
    # (resolving the CPU's target loads the compiler if the machine's description is not cached)
    found: Machine = CPU if device.name == "cpu" else device.target.machine
    return found
