"""Object code: compiled kernels, which the disk cache stores and devices load."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple

Kind = Literal["object", "ptx", "cubin", "bitcode", "facts", "plan", "lost", "loop"]
# Prefix of the PTX line with the register limits that are tried in turn until there are no spills. The PTX is written
# with the first limit.
REGISTER_AIMS = "// registers: "


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """A compiled kernel, in a form that the disk cache can store. The class is also used for other cache entries, such as plans.

    Attributes
    ----------
    kind : {"object", "ptx", "cubin", "bitcode", "facts", "plan", "lost", "loop"}
        Host object file, PTX text (UTF-8), cubin or LLVM bitcode. The other kinds contain no kernel, but facts such as
        a machine's features, plans, the seconds spent on interpreting a program, or the digest of a loop's kernel.
    entry : str
        The symbol of the kernel.
    code : bytes
    target : str
        The name of the target (`Target.name`, such as "host" or "sm_90").
    parameters : tuple of str
        The type of each kernel parameter: "pointer", a dtype's name ("int32", "float64"), or the number of bytes that
        are passed by value, such as "value 64". In this case, the argument is a host address, and the launch copies the
        bytes from there.
    symbols : tuple of str
        External symbols to which host code refers. Each is checked before linking.
    launch : dict
        The launch parameters, as plain JSON data. Fused kernels on the CPU: ``{"scheme": "chunks", "parallel": bool,
        "grain": int, "cost": int, "spans": [[operand, distance, length], ...]}`` (see `HostFunction`).
        GPU, and GPU schedules on the CPU: ``{"scheme": "elements"|"rows"|..., "block": threads, "per_block": items of
        the launch domain per block, "most_blocks": maximum number of blocks, or 0 if every block has to run}``, and
        optionally ``row_limits`` and ``column_lanes`` (see `BlockSchedule`).
        Instrumented kernels also have ``{"trace": words per event, "traced": [description of each site]}``.
    """

    kind: Kind
    entry: str
    code: bytes
    target: str
    parameters: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    launch: dict[str, Any] = field(default_factory=dict)


MAX_BLOCKS = 2**31 - 1  # of a grid
WARP = 32
FEW_BLOCKS = 256  # number of blocks below which much of a GPU is idle


class RowLimits(NamedTuple):
    """Row lengths that determine the number of threads per row.

    A row shorter than `warp_length` gets a thread per `elements` elements. A row of up to `few_length` elements, or
    `many_length` if there are at least `many` rows, gets a warp. A row of up to `block_length` elements gets eight
    warps. A longer row gets `threads` threads per `per_block` rows (see `BlockSchedule`).
    """

    warp_length: int
    elements: int
    many: int = 0
    few_length: int = 0
    many_length: int = 0
    block_length: int = 0


class BlockSchedule(NamedTuple):
    """The assignment of a fused kernel's work to thread blocks on a GPU.

    The `simt` device uses it too.

    Attributes
    ----------
    threads : int
        Number of threads per block.
    per_block : int
        Number of items of the launch domain per block, in each iteration of its grid-stride loop.
    most : int
        Maximum number of blocks.
    repeats : bool
        Whether fewer blocks give the same result, since each block runs a grid-stride loop.
    row_limits : RowLimits, optional
        For items that are rows.
    column_lanes : int
        For items that are columns, adjacent along the last extent: the number of columns per thread. A block covers at
        most one vector of columns per thread of a warp, or per thread of a quarter warp if there would otherwise be few
        blocks.
    """

    threads: int
    per_block: int
    most: int
    repeats: bool
    row_limits: RowLimits | None = None
    column_lanes: int = 0

    @classmethod
    def of(cls, code: ObjectCode) -> BlockSchedule:
        """Create a block schedule from the launch parameters of a compiled kernel. For a user-written kernel, the schedule's field `threads` is 0."""
        launch = code.launch
        most = launch.get("most_blocks", 0)
        limits = launch.get("row_limits")
        return cls(
            launch.get("block", 0),
            launch.get("per_block", 1),
            most or MAX_BLOCKS,
            bool(most),
            RowLimits(*limits) if limits else None,
            launch.get("column_lanes", 0),
        )

    def blocks(self, parallel: tuple[int, ...], work: int) -> int:
        """Return the number of blocks to launch. `parallel` holds the extents of the parallel loops, and `work` the number of elements to process."""
        items, per_block = prod(parallel), self.per_block
        if self.row_limits and items:
            limits, length = self.row_limits, work // items
            if length < limits.warp_length:
                per_block = self.threads // max(1, (1 << max(0, length - 1).bit_length()) // limits.elements)
            elif length <= (limits.few_length if items < limits.many else limits.many_length):
                per_block = self.threads // WARP
            elif length <= limits.block_length:
                per_block = self.threads // (8 * WARP)
        if self.column_lanes and items:
            per_block, columns = self.column_lanes, parallel[-1]
            while per_block < min(columns, WARP * self.column_lanes):
                per_block *= 2
            while per_block > 8 * self.column_lanes and items < FEW_BLOCKS * per_block:
                per_block //= 2
            return min(items // columns * -(-columns // per_block), self.most)
        return min(-(-items // per_block), self.most)


# The block schedule of functions that are not launched in blocks.
NO_SCHEDULE = BlockSchedule(0, 1, MAX_BLOCKS, False)
