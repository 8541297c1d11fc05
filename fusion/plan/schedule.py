"""Schedules of kernels: groups of tasks in launch order.

In: the versions to evaluate, and the other live versions. Out: a `Schedule`: groups, and for each update and scatter
whether it overwrites its previous version or copies it first. Invariant: no value is overwritten before its readers
have run.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.codegen import Machine
from weft.fusion.graph.expr import Expr, is_stream, topological
from weft.fusion.graph.index_map import Affine
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.group import Group, Placed, needed_values
from weft.fusion.plan.grouping import Grouping
from weft.fusion.plan.live_graph import reduction_of
from weft.fusion.plan.materialized_values import base_of, choose_materialized, find_short
from weft.fusion.plan.shifted_moments import find_shifted_moment
from weft.fusion.plan.task import Task, make_task


@dataclass(slots=True)
class Schedule:
    """The groups of tasks that an evaluation runs, in launch order."""

    outputs: list[Expr]
    groups: list[Group]
    in_place: set[Expr]  # updates and scatters that overwrite their previous version; others start from a copy of it
    last_use: dict[Expr, int]  # materialized value -> position of the last group that reads or writes it


def make_schedule(
    outputs: Sequence[Expr], kept: Collection[Expr], origins: Mapping[Expr, Expr], machine: Machine
) -> Schedule:
    """Return a schedule that evaluates `outputs` on a machine.

    `kept` are other live expressions that will be evaluated later from the same leaves. `origins` is
    `LiveGraph.origins`.
    """
    order = topological(outputs)
    stored = choose_materialized(order, outputs)
    steps = _make_steps(order, stored, set(outputs), origins)
    kept_leaves = {n for n in topological(kept) if n.kind == "leaf"}
    sequence, in_place = _order(steps, set(outputs) | kept_leaves)
    groups = _group(sequence, set(outputs), in_place, machine)
    groups.sort(key=lambda g: (g.before.bit_count(), g.number))
    return finish_schedule(outputs, groups, in_place)


def finish_schedule(outputs: Sequence[Expr], groups: list[Group], in_place: set[Expr]) -> Schedule:
    """Return a schedule of `groups` in the given order, with memory donated between kernels."""
    last_use = _last_uses(groups)
    made = {node for group in groups for node in (group.made if group.opaque is None else (group.opaque,))}
    for position, group in enumerate(groups):
        group.over.clear()
        if isinstance(group, BlockedSteps):
            continue  # its steps read values that other steps write
        ending = {n for n in group.read if n in made and last_use.get(n) == position and not is_stream(n)}
        _donate(group, ending - set(outputs))
    return Schedule(list(outputs), groups, in_place, last_use)


def find_donors(schedule: Schedule, kept: Collection[Expr]) -> None:
    """For each result, record the inputs whose memory the result may reuse.

    An input is reused only if nothing else refers to it when the plan runs.

    An assignment of a whole array (``x += y``) then runs in place, as in NumPy, in two thirds of the time that it takes
    with new memory. `kept` are other live expressions that will be evaluated later from the same leaves.
    """
    if any(group.opaque is not None for group in schedule.groups):
        return  # (if a call fails, the plan runs again)
    needed = {*topological(kept), *schedule.outputs}
    for position, group in enumerate(schedule.groups):
        if type(group) is not Group:
            continue
        ending = {n for n in group.read - needed if n.kind == "leaf" and schedule.last_use[n] == position}
        reads = _reads_of(group, ending)
        for writer in group.placed:
            if found := [taken for taken, accesses in reads.items() if _can_donate(writer, group, taken, accesses)]:
                group.donors[writer.task.node] = found


Step = tuple[Expr, Task | None]  # without a task: an opaque call


def _make_steps(order: list[Expr], stored: set[Expr], outputs: set[Expr], origins: Mapping[Expr, Expr]) -> list[Step]:
    needed = set(order)
    steps: list[Step] = []
    short = find_short(order, outputs)
    # values that must be in memory as a whole: operands of host calls, and arrays that are updated
    lasting = outputs | {base_of(child) for node in order if node.kind == "opaque" for child in node.operands}
    lasting |= {node.operands[0] for node in order if node.kind in ("update", "scatter")}
    first_reductions: dict[object, Expr] = {}  # signature of a reduction -> the first reduction with this signature
    alias: dict[Expr, Expr] = {}  # reductions that compute the same value as another reduction
    tasks: dict[Expr, Task] = {}

    def find(node: Expr) -> Task | None:
        """Return the task of a node, or None if there is none.

        If the node is a reduction of a needed value, or such a reduction divided by a constant, create a missing task.
        """
        node = origins.get(node, node)
        reduction = reduction_of(node)
        if node not in tasks and reduction is not None and reduction.operands[0] in needed:
            tasks[node] = make_task(node, stored | {reduction}, [])
        return tasks.get(node)

    for node in order:
        if node not in stored or node.kind in ("leaf", "empty"):
            continue
        if node.kind == "opaque":
            steps.append((node, None))
            continue
        first: list[Expr] = []
        task = make_task(node, stored, first, short).renamed(alias)
        tasks[node] = task
        if task.kind == "reduce":
            same = first_reductions.setdefault(task.signature(), node)
            if same is not node and node not in lasting:
                alias[node] = same
                continue
            task.shifted = find_shifted_moment(task, find)
        steps.extend((value, make_task(value, stored, []).renamed(alias)) for value in first)
        steps.append((node, task))
    return _without_unread(steps, short) if short else steps


def _without_unread(steps: list[Step], short: set[Expr]) -> list[Step]:
    """Return the steps, except short reductions whose results no remaining step reads."""
    kept: list[Step] = []
    read: set[Expr] = set()
    for step in reversed(steps):
        if step[0] not in short or step[0] in read:
            kept.append(step)
            read.update(_reads(step))
    return kept[::-1]


def _reads(step: Step) -> list[Expr]:
    node, task = step
    if task is None:
        return [base_of(child) for child in node.operands]
    return needed_values(task)


def _order(steps: list[Step], precious: Collection[Expr]) -> tuple[list[tuple[Step, set[Expr]]], set[Expr]]:
    """Order tasks so that values are read before they are overwritten.

    Return the ordered tasks, each with the readers after which it must run, and the values written in place.
    """
    number = {node: k for k, (node, _) in enumerate(steps)}
    reads = [set(_reads(step)) for step in steps]
    readers: defaultdict[Expr, set[int]] = defaultdict(set)
    for k, found in enumerate(reads):
        for read in found:
            readers[read].add(k)
    in_place = {
        node
        for node, task in steps
        if task is not None
        and task.kind in ("update", "scatter")
        and node.operands[0] not in precious
        and task.can_run_in_place()
    }
    others = {number[node]: readers[node.operands[0]] - {number[node]} for node in in_place}
    sequence: list[tuple[Step, set[Expr]]] = []
    for k, copies in _sequence([{number[r] for r in found if r in number} for found in reads], others):
        if copies:
            in_place.discard(steps[k][0])
        waits = {steps[r][0] for r in others[k]} if steps[k][0] in in_place else set()
        sequence.append((steps[k], waits))
    return sequence, in_place


def _sequence(needs: list[set[int]], readers: Mapping[int, set[int]]) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of tasks in topological order, and whether each task must copy its array.

    A task also follows the readers of the value that it overwrites, unless such a reader itself depends on the task. In
    this case both versions are needed, and the task must start from a copy.
    """
    users: list[list[int]] = [[] for _ in needs]
    for k, wanted in enumerate(needs):
        for other in wanted:
            users[other].append(k)
    blockers = {k: set(others) for k, others in readers.items()}
    blocking: defaultdict[int, list[int]] = defaultdict(list)
    for k, others in readers.items():
        for other in others:
            blocking[other].append(k)
    waiting = [len(wanted) for wanted in needs]
    ready = [k for k, count in enumerate(waiting) if not count and not blockers.get(k)]
    blocked = {k for k, count in enumerate(waiting) if not count and blockers.get(k)}
    done: set[int] = set()

    def on_cycle(k: int) -> int:
        """Return a task on a cycle of waiting tasks: starting at task `k`, follow the waits until a task is reached twice."""
        seen: set[int] = set()
        while k not in seen:
            seen.add(k)
            k = min(blockers[k])
            while left := needs[k] - done:
                k = min(left)
        return k

    while ready or blocked:
        k = heapq.heappop(ready) if ready else on_cycle(min(blocked))
        blocked.discard(k)
        done.add(k)
        yield k, bool(blockers.get(k))
        for user in users[k]:
            waiting[user] -= 1
            if waiting[user]:
                continue
            if blockers.get(user):
                blocked.add(user)
            else:
                heapq.heappush(ready, user)
        for held in blocking[k]:
            blockers[held].discard(k)
            if not blockers[held] and held in blocked:
                blocked.remove(held)
                heapq.heappush(ready, held)
    assert len(done) == len(needs)


def _group(
    sequence: list[tuple[Step, set[Expr]]], outputs: set[Expr], in_place: set[Expr], machine: Machine
) -> list[Group]:
    grouping = Grouping(in_place, machine)
    for (node, task), waits in sequence:
        if task is None:
            grouping.add_opaque(node)
        else:
            grouping.add(task, {grouping.group_of[w] for w in waits})
    for group in grouping.groups:
        if group.opaque is None:
            group.private = _register_values(group, grouping, outputs)
    return grouping.groups


def _register_values(group: Group, grouping: Grouping, outputs: set[Expr]) -> set[Expr]:
    """Return the results of a group that stay in registers instead of memory.

    No other kernel reads these results, and this kernel reads each element only in the iteration that computes it.
    """
    made = {p.task.node: p for p in group.placed if p.task.kind in ("map", "reduce", "scan")}
    private = {node for node in made if node not in outputs and grouping.readers.get(node, set()) <= {group.number}}
    for p in group.placed:
        private.discard(p.task.previous)
        for node, index in p.task.reads():
            producer = made.get(node)
            if producer is None:
                continue
            kept = not producer.inner or producer.task.kind == "reduce" or p.stage == producer.stage
            if index is None or not kept or p.flat(index) != producer.flat(producer.task.target):
                private.discard(node)
    return private


def _donate(group: Group, ending: set[Expr]) -> None:
    """Let results of a kernel reuse the memory of its operands. The set `ending` contains the operands that no later kernel reads.

    An operation on the result of a library call or of another kernel then runs in the memory of that result.
    """
    reads = _reads_of(group, ending)
    for writer in group.placed:
        for taken, accesses in reads.items():
            if _can_donate(writer, group, taken, accesses):
                group.over[writer.task.node] = taken
                del reads[taken]
                break


Reads = list[tuple[Placed, Affine | None]]


def _reads_of(group: Group, values: set[Expr]) -> dict[Expr, Reads]:
    """Return, for each value in `values`, its reads by the tasks of a group. Leave out values that the group itself computes or updates."""
    reads: dict[Expr, Reads] = {}
    for p in group.placed:
        for node, index in p.task.reads():
            if node in values and node not in group.made:
                reads.setdefault(node, []).append((p, index))
    for p in group.placed:
        if p.task.previous is not None:
            reads.pop(p.task.previous, None)
    return reads


def _can_donate(writer: Placed, group: Group, taken: Expr, accesses: Reads) -> bool:
    """Return whether an elementwise result can use the memory of the operand `taken`.

    Both must have the same size, and each element of `taken` may be read only in the iteration that overwrites it.
    """
    node = writer.task.node
    if writer.task.kind != "map" or node in group.private or node in group.over:
        return False
    if (taken.size, taken.dtype.itemsize) != (node.size, node.dtype.itemsize):
        return False
    target = writer.flat(writer.task.target)
    return all(index is not None and p.flat(index) == target and p.stage <= writer.stage for p, index in accesses)


def _last_uses(groups: list[Group]) -> dict[Expr, int]:
    last: dict[Expr, int] = {}
    for position, group in enumerate(groups):
        if group.opaque is not None:
            used = {group.opaque, *(base_of(child) for child in group.opaque.operands)}
        else:
            used = group.buffers() | {p.task.previous for p in group.placed if p.task.previous is not None}
        for node in used:
            last[node] = position
    return last
