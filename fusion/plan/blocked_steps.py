"""Groups of time steps that one kernel computes block by block.

In: the tasks of groups. Out: statements (tasks in terms of the axes of the array that they write), steps (groups of
statements), and blocked steps (groups of steps, see `time_steps.py`). Invariant: a statement computes a box of its
array, and the rest is copied from the previous version. Points of different steps are compared by their coordinates in
the arrays that they update.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.fusion.graph.expr import Expr, contiguous_strides
from weft.fusion.graph.index_map import Affine
from weft.fusion.plan.body import all_instructions
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.task import Task

MOST_AXES = 3

IntVector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A task that writes a box: a rectangular part of an array."""

    placed: Placed
    start: IntVector  # first point of the box
    extents: IntVector

    @property
    def task(self) -> Task:
        """The task from which the statement was made."""
        return self.placed.task

    @property
    def updates(self) -> bool:
        """Whether the statement writes only part of its array."""
        return self.task.kind == "update"

    @property
    def previous(self) -> Expr | None:
        """The previous version of the array, from which elements outside the box are copied, or None."""
        previous = self.task.previous
        return None if previous is None or previous.kind == "empty" else previous


@dataclass(slots=True)
class Step:
    """One time step: statements that are computed in order at each point of a box."""

    statements: list[Statement]
    # first point and extents of the box that the step computes
    origin: IntVector
    extents: IntVector
    last: IntVector  # extents of all points of the step, from index 0; those outside the box are copied
    # number of points along each axis that the step computes below and above the block of the last step
    low: list[int] = field(default_factory=list)
    high: list[int] = field(default_factory=list)
    lag: int = 0  # number of rows by which the step lags behind the first step


@dataclass(frozen=True, slots=True)
class Rolled:
    """Consecutive time steps with a periodic structure, which the kernel executes in a loop.

    The loop has `iterations` iterations of `period` steps, beginning with step `first`. `low`, `high` and `lag` are the
    changes of these step attributes from one iteration to the next.
    """

    first: int
    period: int
    iterations: int
    low: IntVector
    high: IntVector
    lag: int


@dataclass(slots=True)
class BlockedSteps(Group):
    """A group of time steps that one kernel computes."""

    members: int = 0  # bit set of the numbers of the original groups
    steps: list[Step] = field(default_factory=list)
    # value that a step computes -> the step's number, and the coordinates of the box's first point in the value
    boxes: dict[Expr, tuple[int, IntVector]] = field(default_factory=dict)
    # value that later steps read -> the number of each such step, and the offset of its read
    readers: dict[Expr, list[tuple[int, IntVector]]] = field(default_factory=dict)
    # value that later steps read -> the shape of its ring buffer: number of rows, and lengths along the other axes
    rings: dict[Expr, IntVector] = field(default_factory=dict)
    width: IntVector = ()  # points of a block along each axis
    # on a GPU: as `readers`, for values from outside the kernel that also have ring buffers
    outside: dict[Expr, list[tuple[int, IntVector]]] = field(default_factory=dict)
    # value that is written in place -> the value whose ring buffer it overwrites
    owner: dict[Expr, Expr] = field(default_factory=dict)
    # on a GPU: points of a tile along the axes of ring buffers, and number of these points before the block
    tile: IntVector = ()
    margin: IntVector = ()
    rolled: Rolled | None = None

    @property
    def axes(self) -> int:
        """Number of axes, which is the same for all steps."""
        return len(self.steps[0].extents)

    @property
    def rows(self) -> int:
        """Number of axes that index rows: 1 (the first axis) for arrays of two or more axes, 0 for one-dimensional arrays."""
        return int(self.axes > 1)

    @property
    def counts(self) -> IntVector:
        """Number of blocks along each axis."""
        return tuple(-(-n // w) for n, w in zip(self.steps[-1].last, self.width, strict=True))

    def has_outputs_beyond_blocks(self, axis: int) -> bool:
        """Return whether an output array of some step extends beyond the last block and its halo along the given axis."""
        end = self.steps[-1].last[axis]
        kept = (k for k in self.steps if any(s.task.node not in self.private for s in k.statements))
        return any(k.last[axis] > end + k.high[axis] for k in kept)

    def points_beyond_blocks(self, step: Step, axis: int) -> int:
        """Return how many points of a time step lie beyond the last block and its halo, along one axis. If no output has such points, return 0."""
        if not self.has_outputs_beyond_blocks(axis):
            return 0
        return max(0, step.last[axis] - self.steps[-1].last[axis] - step.high[axis])


def unflatten(flat: int, shape: IntVector) -> IntVector:
    """Return the coordinates of the element at a flat index."""
    found = []
    for step in contiguous_strides(shape):
        whole, flat = divmod(flat, step)
        found.append(whole)
    return tuple(found)


def read_statement(placed: Placed) -> Statement | None:
    """If a task computes a box of an array elementwise, convert the task to a `Statement`. For other tasks, return None."""
    task = placed.task.window or placed.task
    shape = task.node.shape
    plain = task.kind in ("map", "update") and all(loop.role == "parallel" for loop in task.loops)
    if not plain or placed.stage or not 1 <= len(shape) <= MOST_AXES or task.target[0] < 0:
        return None
    axes: dict[int, int] = {}
    strides = contiguous_strides(shape)
    for loop, c in task.target[1]:
        axis = next((a for a, n in enumerate(shape) if n > 1 and strides[a] == c), None)
        if axis is None or axis in axes.values():
            return None
        axes[loop] = axis
    extents = [1] * len(shape)
    for loop, axis in axes.items():
        extents[axis] = task.loops[loop].extent
    start = unflatten(task.target[0], shape)
    inside = all(s + e <= n for s, e, n in zip(start, extents, shape, strict=True))
    if len(axes) != len(task.loops) or not inside or 0 in shape:
        return None
    return Statement(Placed(task, axes, 0), start, tuple(extents))


def read_offset(statement: Statement, node: Expr, form: Affine | None) -> IntVector | None:
    """Return the coordinates of the first element of `node` that a statement reads.

    Return None unless the statement reads, at each point, the element of `node` at a constant offset from the point.
    """
    if form is None or len(node.shape) != len(statement.extents) or form[0] < 0:
        return None
    strides = contiguous_strides(node.shape)
    walked = {statement.placed.loops[loop]: c for loop, c in form[1]}
    for axis, extent in enumerate(statement.extents):
        if (extent > 1 or axis in walked) and (walked.get(axis) != strides[axis] or node.shape[axis] == 1):
            return None
    offset = unflatten(form[0], node.shape)
    fits = all(o + e <= n for o, e, n in zip(offset, statement.extents, node.shape, strict=True))
    return offset if fits else None


def reads_of(statement: Statement) -> list[tuple[Expr, Affine | None, bool]]:
    """Return all reads of a statement as tuples (value, index, whether a branch contains the read).

    The index of a gather is None.
    """
    outside = {id(i) for i in statement.task.body}
    return [
        (i.node, i.index if i.kind == "read" else None, id(i) not in outside)
        for i in all_instructions(statement.task.body)
        if i.kind in ("read", "gather")
    ]


def find_owners(blocked: BlockedSteps, *, once: bool) -> dict[Expr, Expr]:
    """Find the updates that can overwrite an existing ring buffer.

    Return a dict that maps each update to the value that owns this ring buffer.

    No other statement may read the overwritten elements, and both boxes must be at the same coordinates. With `once`,
    each point is computed exactly once, so that an update may read the element that it overwrites.
    """
    found: dict[Expr, Expr] = {}
    for number, step in enumerate(blocked.steps):
        statement = step.statements[0]
        node, previous = statement.task.node, statement.previous
        if len(step.statements) > 1 or previous not in blocked.boxes or node not in blocked.readers:
            continue
        writer, start = blocked.boxes[previous]
        origins = zip(statement.start, start, blocked.steps[writer].origin, step.origin, strict=True)
        if any(o - s + a - b for o, s, a, b in origins):
            continue
        if not blocked.private.issuperset((node, previous)) or any(i.kind == "choose" for i in statement.task.body):
            continue
        if not once and any(
            read is previous and read_offset(statement, read, form) == statement.start
            for read, form, _ in reads_of(statement)
        ):
            continue
        readers = blocked.readers[previous]
        apart = all(not any(d) or any(abs(x) >= n for x, n in zip(d, step.extents, strict=True)) for _, d in readers)
        if apart and all(reader == number for reader, _ in readers):
            found[node] = found.get(previous, previous)
    return found
