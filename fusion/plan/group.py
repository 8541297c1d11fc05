"""Task groups, each of which usually becomes one kernel.

In: tasks with their loops. Out: the values that the kernel reads and writes, and its loops. At each point of the
parallel loops, a group's kernel runs stage by stage. Stage 0 is computed at the point, stage 1 inside the loops over
the point's row, stage 2 at the point again, stage 3 inside loops over the row again, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from weft.codegen import SHARED_ROW
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.index_map import Affine, rename
from weft.fusion.plan.body import Loop
from weft.fusion.plan.materialized_values import base_of
from weft.fusion.plan.task import Task


@dataclass(slots=True)
class Placed:
    """A task in a group, with a mapping from the task's loops to the group's loops."""

    task: Task
    loops: dict[int, int]
    stage: int  # odd: inside the loops over the row

    @property
    def inner(self) -> bool:
        """Whether a task runs inside the loops over a row, not before or after them."""
        return bool(self.stage & 1)

    def flat(self, form: Affine) -> Affine:
        """Convert an affine index over the task's loops to an index over the group's loops."""
        return rename(form, self.loops)


@dataclass(slots=True)
class Group:
    """A set of tasks that have the same loops and usually become one kernel. Alternatively, a group represents a call of a host function."""

    number: int
    loops: list[Loop] = field(default_factory=list)  # parallel loops first
    placed: list[Placed] = field(default_factory=list)
    made: dict[Expr, Placed] = field(default_factory=dict)  # value -> the task that computes it
    read: set[Expr] = field(default_factory=set)  # materialized values that the group reads, including its own results
    instructions: int = 0
    opaque: Expr | None = None
    before: int = 0  # bit set of the groups that run before this one
    reason: str = ""  # why the group is a separate kernel
    private: set[Expr] = field(default_factory=set)  # values in registers, which only this kernel needs
    over: dict[Expr, Expr] = field(
        default_factory=dict
    )  # value -> value that is read here for the last time, and donates its memory
    donors: dict[Expr, list[Expr]] = field(default_factory=dict)  # value -> leaves, one of which may donate its memory

    def place(self, placed: Placed) -> None:
        """Add a task to the group."""
        self.placed.append(placed)
        self.made[placed.task.node] = placed
        self.read.update(node for node, _ in placed.task.reads())
        self.instructions += placed.task.size()

    def buffers(self) -> set[Expr]:
        """Return the materialized values that the group reads from memory or writes to memory."""
        return (self.read | self.made.keys()) - self.private

    def needs(self) -> set[Expr]:
        """Return the materialized values that the group reads or updates."""
        if self.opaque is not None:
            return {base_of(child) for child in self.opaque.operands}
        return {node for p in self.placed for node in needed_values(p.task)}

    def passes(self) -> int:
        """Return the number of passes of the group's kernel over each row, or 0 if it has no loops over a row."""
        return max((p.stage + 1) // 2 for p in self.placed)


def start_group(group: Group, task: Task) -> None:
    """Make `task` the first task of `group`. The group takes over the task's loops, parallel loops first."""
    order = sorted(range(len(task.loops)), key=lambda k: (task.loops[k].role != "parallel", k))
    group.loops = [task.loops[k] for k in order]
    loops = {own: position for position, own in enumerate(order)}
    alone = task.kind == "reduce" or any(loop.role != "parallel" for loop in task.loops)
    group.place(Placed(task, loops, int(alone)))


def needed_values(task: Task) -> list[Expr]:
    """Return the materialized values that must exist before a task runs."""
    reads = [node for node, _ in task.reads()]
    return reads if task.previous is None else [*reads, task.previous]


def row_size(group: Group) -> int:
    """Return the number of elements per row, which is the product of the iteration counts of the loops over a row."""
    return prod(loop.extent for loop in group.loops if loop.role != "parallel")


def runs_along_shared_rows(group: Group) -> bool:
    """Return whether a group scans rows that are long enough for several GPU blocks to share a row."""
    return row_size(group) > SHARED_ROW and any(p.task.kind == "scan" for p in group.placed)


def row_bytes(group: Group) -> tuple[int, int]:
    """Sum the bytes that a group's kernel accesses for one element of a row. Return two sums: of the contiguous and of the strided accesses."""
    inner = {k for k, loop in enumerate(group.loops) if loop.role != "parallel"}
    along = across = 0
    seen: set[Expr] = set()
    for p in group.placed:
        for node, form in [*p.task.reads(), (p.task.node, p.task.target)]:
            walked = () if form is None or node in seen else p.flat(form)[1]
            if any(loop in inner for loop, _ in walked):
                seen.add(node)
                unit = any(loop in inner and c in (1, -1) for loop, c in walked)
                along += node.dtype.itemsize * unit
                across += node.dtype.itemsize * (not unit)
    return along, across
