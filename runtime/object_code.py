"""Object code, which code generation passes to the runtime and the disk cache stores."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

Kind = Literal["object", "ptx", "cubin", "bitcode", "facts", "plan", "lost"]
# A line of PTX says which limits of registers to try in turn until nothing spills: this, and the numbers. It is written with
# the first of them.
REGISTER_AIMS = "// registers: "


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Compiled code of one kernel.

    Attributes
    ----------
    kind : {"object", "ptx", "cubin", "bitcode", "facts", "plan", "lost"}
        Host object file, PTX text (UTF-8), cubin or LLVM's bitcode; or no code, but something found out about a target, in `launch`, plans, or
        seconds lost by interpreting a form.
    entry : str
        The symbol of the kernel.
    code : bytes
    target : str
        Which target it was made for (`Target.name`: "host" or "sm_90").
    parameters : tuple of str
        One a kernel parameter, in order: "pointer", the dtype's name ("int32", "float64"), or "value 64": so many bytes that the
        launch copies; its argument is where they lie on the host.
    symbols : tuple of str
        Outside symbols that host code refers to (each checked before linking).
    launch : dict
        How to launch it, plain JSON data. CPU: ``{"scheme": "chunks", "parallel": bool}``.
        GPU, and GPU schedules on the CPU: ``{"scheme": "elements"|"rows"|..., "block": threads, "per_block": items of
        the launch domain that one block does, "most_blocks": blocks that find something to do, or 0 where each has to
        run}``; where its threads are watched also ``{"watch": words of an event, "watched": [what is known of each
        site]}``.
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
FEW_BLOCKS = 256  # that would leave much of a GPU without work


@dataclass(frozen=True, slots=True)
class BlockSchedule:
    """The mapping of a fused kernel's launch domain to thread blocks, the same on a GPU and on device `simt`.

    Attributes
    ----------
    threads : int
        Of a block.
    per_block : int
        Items of the launch domain that a block does before it goes on by the size of the grid.
    most : int
        Blocks that find something to do.
    repeats : bool
        Whether fewer blocks do as well, since each goes on by the size of the grid.
    row_limits : tuple of int
        Of items that are rows: how many are many, how long few and many rows may be to get no more than a warp of threads, and
        how long to get no more than eight, from which length on they get a warp, and how many elements of shorter ones a thread
        has. A block does several such rows.
    column_lanes : int
        Of items that are columns, neighbours along the last extent: how many a thread has. A block has as many threads side by
        side as there are vectors of columns, at most a warp, and no more than a quarter of one where blocks would be few.
    """

    threads: int
    per_block: int
    most: int
    repeats: bool
    row_limits: tuple[int, ...] = ()
    column_lanes: int = 0

    @classmethod
    def of(cls, code: ObjectCode) -> BlockSchedule:
        """Return the schedule that object code was generated for. It has no meaning for explicit kernels."""
        launch = code.launch
        most = launch.get("most_blocks", 0)
        limits = tuple(launch.get("row_limits", ()))
        return cls(
            launch.get("block", 0),
            launch.get("per_block", 1),
            most or MAX_BLOCKS,
            bool(most),
            limits,
            launch.get("column_lanes", 0),
        )

    def blocks(self, parallel: tuple[int, ...], work: int) -> int:
        """Return the number of blocks for a launch over these extents and `work` elements, 0 if there is nothing to
        do.
        """
        items, per_block = prod(parallel), self.per_block
        if self.row_limits and items:
            many, few_length, many_length, block_length, warp_length, elements = self.row_limits
            length = work // items
            if length < warp_length:
                per_block = self.threads // max(1, (1 << max(0, length - 1).bit_length()) // elements)
            elif length <= (few_length if items < many else many_length):
                per_block = self.threads // WARP
            elif length <= block_length:
                per_block = self.threads // (8 * WARP)
        if self.column_lanes and items:
            per_block, columns = self.column_lanes, parallel[-1]
            while per_block < min(columns, WARP * self.column_lanes):
                per_block *= 2
            while per_block > 8 * self.column_lanes and items < FEW_BLOCKS * per_block:
                per_block //= 2
            return min(items // columns * -(-columns // per_block), self.most)
        return min(-(-items // per_block), self.most)
