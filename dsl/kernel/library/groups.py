"""Cooperative groups: the grid, thread blocks, and groups of lanes of a warp.

In: the intrinsics. Out: plain objects with numeric fields and methods, written in the kernel language, so that the same
code runs as Python and compiles. Ranks count from the group's first thread. In the bit masks that `ballot` and the
`match` methods return, each bit stands for a rank. In those of `mask`, each bit stands for a lane of the warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.dsl.kernel.language import names as cuda

# The barrier of the whole grid. Kernels call it as `cg.this_grid().sync()`.
grid_sync = cuda.NAMES["cg.grid_sync"]


@dataclass(frozen=True, slots=True)
class GridGroup:
    """The group of all threads of the grid."""

    def sync(self) -> None:
        """Wait for all threads of the grid. All blocks must run concurrently on the device."""
        grid_sync()

    def is_valid(self) -> bool:
        """Return True: weft always uses a cooperative launch for kernels with grid barriers."""
        return True

    def size(self) -> int:
        """Return the number of threads of the grid."""
        return self.num_blocks() * ThreadBlock().size()

    def thread_rank(self) -> int:
        """Return the rank of the thread in the grid. The threads of a block have consecutive ranks."""
        block = ThreadBlock()
        return block.thread_rank() + self.block_rank() * block.size()

    def num_blocks(self) -> int:
        """Return the number of blocks of the grid."""
        return cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z

    def block_rank(self) -> int:
        """Return the rank of the block in the grid. The x index varies fastest."""
        return cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """The group of the threads of a block."""

    def sync(self) -> None:
        """Wait for all threads of the block."""
        cuda.syncthreads()

    def size(self) -> int:
        """Return the number of threads of the block."""
        return cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z

    def thread_rank(self) -> int:
        """Return the rank of the thread in its block. The x index varies fastest."""
        return cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)

    def group_index(self) -> tuple[int, int, int]:
        """Return the block's index in the grid."""
        return cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z

    def thread_index(self) -> tuple[int, int, int]:
        """Return the thread's index in the block."""
        return cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z

    def dim_threads(self) -> tuple[int, int, int]:
        """Return the number of threads of the block along each axis."""
        return cuda.blockDim.x, cuda.blockDim.y, cuda.blockDim.z


def _reduction(name: str, result: str) -> Callable[..., Any]:
    reduce_lanes = cuda.NAMES[f"reduce_{name}_sync"]

    def reduce(self: LaneGroup, value: object) -> Any:
        return reduce_lanes(self.mask(), value)

    reduce.__doc__ = f"Return the {result} of `value` over the group."
    return reduce


class LaneGroup:
    """Base class of groups of lanes of one warp."""

    __slots__ = ()
    mask: Callable[[], int]  # returns a bit mask of the lanes

    def sync(self) -> None:
        """Wait for all threads of the group."""
        cuda.syncwarp(self.mask())

    def any(self, predicate: Any) -> bool:
        """Return whether `predicate` is true in any thread of the group."""
        return cuda.any_sync(self.mask(), predicate)

    def all(self, predicate: Any) -> bool:
        """Return whether `predicate` is true in every thread of the group."""
        return cuda.all_sync(self.mask(), predicate)

    reduce_add = _reduction("add", "sum")
    reduce_min = _reduction("min", "minimum")
    reduce_max = _reduction("max", "maximum")
    reduce_and = _reduction("and", "bitwise AND")
    reduce_or = _reduction("or", "bitwise OR")
    reduce_xor = _reduction("xor", "bitwise XOR")


@dataclass(frozen=True, slots=True)
class Tile(LaneGroup):
    """A group of `width` adjacent lanes of a warp, where `width` is a power of two."""

    width: int

    def start(self) -> int:
        """Return the lane number of the tile's first thread."""
        return cuda.laneid & ~(self.width - 1)

    def mask(self) -> int:
        """Return a bit mask of the tile's lanes in the warp."""
        return ((1 << self.width) - 1) << self.start()

    def size(self) -> int:
        """Return the number of lanes of the tile."""
        return self.width

    def thread_rank(self) -> int:
        """Return the thread's rank in the tile."""
        return cuda.laneid & (self.width - 1)

    def meta_group_size(self) -> int:
        """Return the number of tiles into which the block is divided."""
        return (ThreadBlock().size() + self.width - 1) // self.width

    def meta_group_rank(self) -> int:
        """Return the tile's rank in the block."""
        return ThreadBlock().thread_rank() // self.width

    def shfl(self, value: object, rank: int) -> Any:
        """Return the `value` of the thread whose rank is `rank` modulo the tile's size."""
        return cuda.shfl_sync(self.mask(), value, rank, self.width)

    def shfl_up(self, value: object, delta: int) -> Any:
        """Return `value` from the thread whose rank is lower by `delta`, or this thread's `value` if there is none."""
        return cuda.shfl_up_sync(self.mask(), value, delta, self.width)

    def shfl_down(self, value: object, delta: int) -> Any:
        """Return the `value` of the thread whose rank is `delta` higher. If no such thread exists, return this thread's own `value`."""
        return cuda.shfl_down_sync(self.mask(), value, delta, self.width)

    def shfl_xor(self, value: object, mask: int) -> Any:
        """Return the `value` of the thread whose rank is this thread's rank XOR `mask`.

        `mask` must be less than the tile's size.
        """
        return cuda.shfl_xor_sync(self.mask(), value, mask, self.width)

    def ballot(self, predicate: Any) -> int:
        """Return a bit mask of the ranks at which `predicate` is true."""
        return cuda.ballot_sync(self.mask(), predicate) >> self.start()

    def match_any(self, value: object) -> int:
        """Return a bit mask of the ranks of all threads whose `value` equals this thread's `value`."""
        return cuda.match_any_sync(self.mask(), value) >> self.start()

    def match_all(self, value: object) -> tuple[int, bool]:
        """Return the pair (mask of all ranks, True) if `value` is equal in all threads, otherwise (0, False)."""
        found, same = cuda.match_all_sync(self.mask(), value)
        return found >> self.start(), same


@dataclass(frozen=True, slots=True)
class CoalescedGroup(LaneGroup):
    """The lanes of a warp that are active when the group is created."""

    members: int

    def mask(self) -> int:
        """Return a bit mask of the group's lanes in the warp."""
        return self.members

    def size(self) -> int:
        """Return the number of threads of the group."""
        return cuda.popc(self.members)

    def thread_rank(self) -> int:
        """Return the thread's rank in the group."""
        return cuda.popc(self.members & cuda.lanemask_lt())

    def lane(self, rank: int) -> int:
        """Return the lane number of the thread with rank `rank` in the group."""
        rest = self.members
        lane_number = 0
        left = rank
        while lane_number < 31 and (rest & 1 == 0 or left > 0):
            left -= int(rest & 1)
            rest >>= 1
            lane_number += 1
        return lane_number

    def shfl(self, value: object, rank: int) -> Any:
        """Return the `value` of the thread with rank `rank` in the group."""
        return cuda.shfl_sync(self.members, value, self.lane(rank))


def coalesced_threads() -> CoalescedGroup:
    """Return the group of the lanes that are active at this point of the kernel."""
    return CoalescedGroup(cuda.activemask())


def tiled_partition(group: Any, size: int) -> Tile:
    """Divide a block or a tile into tiles of `size` lanes, and return this thread's tile."""
    if not isinstance(group, (ThreadBlock, Tile)):
        raise TypeError(f"cg.tiled_partition divides a block or a tile, not {type(group).__name__}")
    if size not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"a tile has 1, 2, 4, 8, 16 or 32 lanes, not {size}")
    if isinstance(group, Tile) and size > group.width:
        raise ValueError(f"a tile of {size} lanes is wider than the one of {group.width} that it divides")
    return Tile(size)


# path -> the class, or the function in the kernel language, that creates the group
MAKERS: dict[str, Callable[..., Any]] = {
    "cg.this_grid": GridGroup,
    "cg.this_thread_block": ThreadBlock,
    "cg.this_block": ThreadBlock,
    "cg.tiled_partition": tiled_partition,
    "cg.coalesced_threads": coalesced_threads,
}
