"""Memory traffic of kernels, and a lower bound on the traffic of an evaluation.

In: groups and schedules. Out: byte counts. Invariant: a kernel is never said to read more bytes of an array than the
array has.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from weft.fusion.graph.expr import Expr, value_bytes
from weft.fusion.graph.index_map import Affine, reach
from weft.fusion.graph.sizes import greatest, least
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.group import Group
from weft.fusion.plan.materialized_values import base_of
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.steps import LARGE
from weft.fusion.plan.task import Task

# Maximum bytes that a kernel takes by value: two kernels may be merged, and other parameters also need space.
KERNEL_BYTES = 1536


def traffic(group: Group) -> tuple[int, int]:
    """Return the numbers of bytes that a group reads and writes if it accesses each element once."""
    read = sum(bytes_read(group).values())
    kept = [p.task for p in group.placed if p.task.node not in group.private]
    written = sum(task.node.nbytes if isinstance(group, BlockedSteps) else bytes_written(task) for task in kept)
    return read, written


def bytes_read(group: Group) -> dict[Expr, int]:
    """Return, for each value that a group reads from memory, the number of bytes read."""
    if group.opaque is not None:
        taken: dict[Expr, int] = {}
        for child in group.opaque.operands:
            base = base_of(child)
            taken[base] = least(base.nbytes, taken.get(base, 0) + child.nbytes)
        return taken
    forms: dict[Expr, set[Affine | None]] = {}
    own = {p.task.node for p in group.placed}
    for p in group.placed:
        for node, index in p.task.reads():
            if node not in own:
                forms.setdefault(node, set()).add(None if index is None else p.flat(index))
    extents = [loop.extent for loop in group.loops]
    read = {node: _elements(node, found, extents) * node.dtype.itemsize for node, found in forms.items()}
    for p in group.placed:
        previous = p.task.previous
        if previous is None:
            continue
        if p.task.kind == "rebuild":
            read[previous] = least(previous.nbytes, read.get(previous, 0) + copied_bytes(p.task))
        elif isinstance(group, BlockedSteps) and previous not in own and previous.kind != "empty":
            read[previous] = previous.nbytes  # unchanged elements are copied too
    return read


def taken_by_value(group: Group) -> list[Expr]:
    """Return the small host arrays that a group's kernels take by value, in the order of use.

    A launch that accesses much memory takes no arrays by value: lanes read adjacent elements of memory at once, but
    elements of parameters one by one.
    """
    if not any(map(value_bytes, group.read)) or isinstance(group, BlockedSteps) or sum(traffic(group)) >= LARGE:
        return []
    found, room = [], KERNEL_BYTES
    for node in bytes_read(group):
        nbytes = value_bytes(node)
        if 0 < nbytes <= room:
            room -= nbytes
            found.append(node)
    return found


def _elements(node: Expr, forms: set[Affine | None], extents: list[int]) -> int:
    """Return an upper bound on the number of elements of `node` that a group reads.

    The bound is at most the number of elements from the first index to the last.
    """
    total, low, high = 0, node.size, 0
    for form in forms:
        if form is None:
            return node.size
        first, last = reach(form, extents)
        total += prod(extents[k] for k, _ in form[1])
        low, high = least(low, first), greatest(high, last)
    return greatest(0, least(node.size, total, high - low + 1))


def bytes_written(task: Task) -> int:
    """Return the number of bytes that a task writes."""
    loops = range(len(task.loops)) if task.kind == "scatter" else (loop for loop, _ in task.target[1])
    beside = copied_bytes(task) if task.kind == "rebuild" else 0
    return prod(task.loops[k].extent for k in set(loops)) * task.node.dtype.itemsize + beside


def copied_bytes(task: Task) -> int:
    """Return how many bytes a task copies from an array's previous version if the task does not update the array in place."""
    start, stop = task.written_range()
    return task.node.nbytes - (stop - start) * task.node.dtype.itemsize


def least_bytes(schedule: Schedule, drawn: Collection[Expr] = ()) -> int:
    """Return a lower bound on a schedule's memory traffic, in bytes.

    Each needed input and each result is accessed once. A library call accesses its whole operands and result, and the
    kernels that compute or read them access them again. `drawn` are results that are never in memory.
    """
    made: dict[Expr, Task | None] = {}
    calls = [group for group in schedule.groups if group.opaque is not None]
    handed = {node for group in calls for node in (*bytes_read(group), group.opaque) if node is not None}
    handed.difference_update(drawn)
    for group in schedule.groups:
        made |= {p.task.node: p.task for p in group.placed}
        if group.opaque is not None:
            made[group.opaque] = None
    read: dict[Expr, int] = {}
    for group in schedule.groups:
        for node, count in bytes_read(group).items():
            if group.opaque is not None or node.kind == "empty" or node in drawn:
                continue
            if node not in made or made[node] is None:
                read[node] = max(read.get(node, 0), count)
    taken = sum(child.nbytes for group in calls if group.opaque is not None for child in group.opaque.operands)
    written = dict.fromkeys([*schedule.outputs, *(node for node in handed if node in made)])
    return taken + sum(read.values()) + sum(_result_bytes(node, made, schedule.in_place) for node in written)


def _result_bytes(node: Expr, made: dict[Expr, Task | None], in_place: set[Expr]) -> int:
    """Return the minimum number of bytes that must be written for a result."""
    written = 0
    current = node
    while current in in_place:
        task = made[current]
        assert task is not None
        written += bytes_written(task)
        current = current.operands[0]
    if current in made or current.kind == "empty":
        return node.nbytes
    return written
