"""The choice of the tasks that are computed by the same kernel.

In: tasks in a valid order. Out: groups in launch order. Invariant: inside a group, an element that one task
computes is read by other tasks only in the same iteration of the parallel loops and, in the same stage, of all loops.
The launch order respects every read. Every overwrite follows the other readers of the overwritten value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from weft.codegen import SHARED_ROW, Machine
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.index_map import Affine, disjoint
from weft.fusion.plan.body import Loop, Role
from weft.fusion.plan.group import Group, Placed, needed_values, runs_along_shared_rows, start_group
from weft.fusion.plan.materialized_values import base_of
from weft.fusion.plan.nest import is_contiguous_across, make_nest
from weft.fusion.plan.reduction_splits import block_length, order_alone, reduction_loops, reread_rejection
from weft.fusion.plan.shifted_moments import with_own_shift
from weft.fusion.plan.task import Task

MAX_INSTRUCTIONS = 400
MAX_BUFFERS = 24
# Two of the reasons for starting a new kernel.
ALONE = "nothing before it shares its loops"
NEEDS_CALL = "it needs the result of a library call"
LOOK_BACK = 24  # number of newest groups that are tried for a task, besides the groups that it needs


class Grouping:
    """State of the grouping algorithm, which assigns tasks to groups one after another."""

    def __init__(self, in_place: Collection[Expr], machine: Machine) -> None:
        self.machine = machine
        self.in_place = set(in_place)  # updates that reuse the memory of their previous version
        self.groups: list[Group] = []
        self.group_of: dict[Expr, int] = {}  # materialized value -> its group
        self.readers: dict[Expr, set[int]] = {}  # materialized value -> the groups that read it
        self.followers: list[set[int]] = []  # group -> groups that directly depend on it

    def add_opaque(self, node: Expr) -> None:
        """Add a call of a host function as a separate group."""
        group = Group(len(self.groups), opaque=node, reason="a library function takes whole arrays")
        self._note(group, node, [base_of(child) for child in node.operands], set())

    def add(self, task: Task, waits_for: set[int]) -> None:
        """Assign a task to a group of tasks that run in the same kernel: to an existing group where the task fits, or otherwise to a new group.

        The task runs after the groups in `waits_for`, which read the memory that the task overwrites.
        """
        reads = needed_values(task)
        needs = waits_for | {self.group_of[node] for node in reads if node in self.group_of}
        reason = ALONE
        for number in sorted(needs | set(range(max(0, len(self.groups) - LOOK_BACK), len(self.groups))), reverse=True):
            group = self.groups[number]
            placed, why = self._fit(task, group, number in needs, reads)
            if placed is not None and any(
                other != number and self.groups[other].before >> number & 1 for other in needs
            ):
                placed, why = None, "another kernel must run between the two"
            if placed is not None:
                group.place(placed)
                self._note(group, task.node, reads, needs)
                return
            if number in needs and why:
                reason = why
        new = self._group_with_shift(task, reason) if is_split_moment(task, self.machine) else None
        if new is None:
            new = Group(len(self.groups), reason=reason)
            start_group(new, task)
        else:
            reads = [node for p in new.placed for node in needed_values(p.task)]
            self.group_of[new.placed[0].task.node] = new.number
        self._note(new, task.node, reads, needs)

    def _group_with_shift(self, task: Task, reason: str) -> Group | None:
        """Return a new group for a task that sums differences from a mean or maximum. The group also computes the mean or maximum.

        Return None if one kernel cannot compute both.
        """
        group = Group(len(self.groups), reason=reason)
        centre, own = with_own_shift(task)
        start_group(group, centre)
        placed, _ = self._fit(own, group, True, needed_values(own))
        if placed is None:
            return None
        group.place(placed)
        return group

    def _note(self, group: Group, node: Expr, reads: list[Expr], needs: set[int]) -> None:
        """Record that `group` computes `node` from `reads`, and runs after the groups in `needs`."""
        if group.number == len(self.groups):
            self.groups.append(group)
            self.followers.append(set())
        self.group_of[node] = group.number
        for read in reads:
            self.readers.setdefault(read, set()).add(group.number)
        self._order(group, needs | {self.group_of[r] for r in reads if r in self.group_of})

    def _order(self, group: Group, needs: set[int]) -> None:
        """Make `group`, and all groups that depend on it, run after the groups in `needs`."""
        added = 0
        for number in needs - {group.number}:
            added |= self.groups[number].before | 1 << number
            self.followers[number].add(group.number)
        changed = [group] if added & ~group.before else []
        while changed:
            current = changed.pop()
            current.before |= added
            followers = (self.groups[number] for number in self.followers[current.number])
            changed.extend(other for other in followers if added & ~other.before)

    # -- placement of a task in a group -----------------------------------------------------

    def _fit(self, task: Task, group: Group, related: bool, reads: list[Expr]) -> tuple[Placed | None, str]:
        """Try to place a task in a group. Return the placed task and "", or None and the reason for the failure.

        If the task fits and is the group's first reduction or scan, set the roles of the group's loops.
        """
        kinds = {task.kind, *(p.task.kind for p in group.placed)}
        if group.opaque is not None:
            return None, NEEDS_CALL
        if "scatter" in kinds:
            return None, "a scatter is a kernel of its own"
        if "scan" in kinds and "reduce" in kinds:
            return None, "a scan processes a row in order, and a reduction does not"
        if task.kind == "scan" and follows_scan(task, group):
            return None, "threads share its rows, and it needs the result of another scan"
        if group.instructions + task.size() > MAX_INSTRUCTIONS or len(group.buffers().union(reads)) > MAX_BUFFERS:
            return None, "the kernel would grow too large"
        stored = group.made
        produced = [(node, index) for node, index in task.reads() if node in stored]
        if is_split_moment(task, self.machine):
            assert task.shifted is not None
            centre = task.shifted.centre
            if centre.node not in stored:
                return None, "it needs the mean that another kernel computes"
            produced.append((centre.node, centre.target))
        if any(index is None for _, index in produced):
            return None, "it gathers the values at computed indices"
        if not produced and not related and group.read.isdisjoint(reads):
            return None, "they have no common input"
        reason = ""
        for placed in self._placements(task, group, produced, stored):
            trouble = (
                "" if produced or has_same_access_order(placed, group) else "they read memory with different strides"
            )
            trouble = trouble or self._set_stage(placed, group, stored)
            trouble = trouble or changes_sums(placed, group, bool(produced), self.machine)
            if not trouble:
                set_loop_roles(group, placed)
                return placed, ""
            reason = reason or trouble
        return None, reason or "they have different loops"

    def _placements(
        self, task: Task, group: Group, produced: list[tuple[Expr, Affine | None]], stored: dict[Expr, Placed]
    ) -> list[Placed]:
        """Return the candidate mappings of a task's loops to the loops of a group."""
        folding = task.kind in ("reduce", "scan")
        group_reduces = any(p.task.kind in ("reduce", "scan") for p in group.placed)
        outer = [k for k, loop in enumerate(group.loops) if loop.role == "parallel"]
        inner = [k for k, loop in enumerate(group.loops) if loop.role != "parallel"]
        own_outer = [k for k, loop in enumerate(task.loops) if loop.role == "parallel"]
        own_inner = [k for k, loop in enumerate(task.loops) if loop.role != "parallel"]
        hints = _hints(produced, stored)
        found: list[Placed] = []

        def attempt(pairs: list[tuple[list[int], list[int]]], is_inner: bool) -> None:
            loops: dict[int, int] = {}
            for own, theirs in pairs:
                if not _pair_loops(own, theirs, task.loops, group.loops, hints, loops):
                    return
            found.append(Placed(task, loops, int(is_inner)))

        if folding and group_reduces:
            attempt([(own_outer, outer), (own_inner, inner)], True)
        elif folding:
            # all loops of the group are parallel so far; some of them become the reduced loops
            attempt([(own_outer + own_inner, outer)], True)
        else:
            attempt([(own_outer, outer)], False)
            if group_reduces:
                attempt([(own_outer, outer + inner)], True)
        return found

    def _set_stage(self, placed: Placed, group: Group, stored: dict[Expr, Placed]) -> str:
        """Set the stage in which a task runs: a pass over the row, or code before or after a pass.

        Return "" if the task can run in this stage, otherwise the reason why it cannot.
        """
        ready = placed.stage
        reads = placed.task.reads()
        if is_split_moment(placed.task, self.machine):
            assert placed.task.shifted is not None
            centre = placed.task.shifted.centre
            reads = [*reads, (centre.node, centre.target)]
        for node, index in reads:
            if node not in stored:
                continue
            assert index is not None
            producer = stored[node]
            if placed.flat(index) == producer.flat(producer.task.target):
                # results of reductions are known after the loops, and other values immediately
                ready = max(ready, producer.stage + (producer.task.kind == "reduce"))
            else:
                return "it reads values that other iterations of the earlier kernel compute"
        previous = placed.task.previous
        if placed.task.kind == "rebuild" and previous in stored:
            return "the elements that it does not overwrite must be copied first"
        for other in group.placed:
            if any(node is previous for node, _ in other.task.reads()):
                ready = max(ready, other.stage)
        placed.stage = ready + ((ready ^ placed.stage) & 1)
        measured = is_split_moment(placed.task, self.machine) and placed.stage == 3
        if placed.stage > 1 and placed.inner and not measured:
            trouble = reread_rejection(group, placed.task, self.machine)
            if trouble:
                return trouble
        if placed.stage != 1 and runs_along_shared_rows(group):
            return "threads share the rows of the kernel"
        return self._overwrites(placed, group)

    def _overwrites(self, placed: Placed, group: Group) -> str:
        """Return why in-place writes prevent a task from joining a group, or "" if they do not.

        Of an overwritten array, a task may read elements that no iteration overwrites. It may also read the element
        that the same iteration overwrites, unless its stage is later than that of the overwriting task.
        """
        everyone = [*group.placed, placed]
        extents = [loop.extent for loop in group.loops]
        made = {**group.made, placed.task.node: placed}
        for writer in everyone:
            if writer.task.kind != "update":
                continue
            target = writer.flat(writer.task.target)
            versions = [writer.task.node.operands[0]]
            while versions[-1] in made:
                earlier = made[versions[-1]]
                if not self._writes_are_disjoint(earlier, writer, group):
                    return "it overwrites part of an earlier result"
                versions.append(earlier.task.node.operands[0])
            for reader in everyone:
                if reader is not writer and reader.task.kind == "update" and reader.task.previous is versions[0]:
                    return "both overwrite the same array"
                for node, index in reader.task.reads():
                    if node not in versions:
                        continue
                    form = None if index is None else reader.flat(index)
                    if form == target and reader.stage <= writer.stage:
                        continue
                    if form is None or not disjoint(form, target, extents):
                        return "one overwrites elements that the other reads at other indices"
        return ""

    def _writes_are_disjoint(self, earlier: Placed, later: Placed, group: Group) -> bool:
        """Return whether two tasks update an array in place, and write different elements."""
        if earlier.task.kind != "update" or not {earlier.task.node, later.task.node} <= self.in_place:
            return False
        extents = [loop.extent for loop in group.loops]
        return disjoint(earlier.flat(earlier.task.target), later.flat(later.task.target), extents)


def is_split_moment(task: Task, machine: Machine) -> bool:
    """Return whether a task sums powers of differences from a shift, as a variance does with the mean as the shift, and
    is split into blocks.

    The kernel of such a task must also compute the mean or maximum.
    """
    return task.shifted is not None and order_alone(task, machine).block_length > 0


def follows_scan(task: Task, group: Group) -> bool:
    """Return whether `task` is a scan over long rows that depends on a scan in `group`. On a GPU, several blocks share the work on a long row."""
    if prod(loop.extent for loop in task.loops if loop.role == "scan") <= SHARED_ROW:
        return False
    stack = [task]
    while stack:
        needed = [group.made[node].task for node, _ in stack.pop().reads() if node in group.made]
        if any(other.kind == "scan" for other in needed):
            return True
        stack += needed
    return False


def has_same_access_order(placed: Placed, group: Group) -> bool:
    """Return whether a task and a group access some array with equal strides."""

    def walks(p: Placed) -> set[tuple[Expr, object]]:
        found: set[tuple[Expr, object]] = {(node, index and p.flat(index)[1]) for node, index in p.task.reads()}
        written = (p.task.node, p.task.previous)
        return found | {(node, p.flat(p.task.target)[1]) for node in written if node is not None}

    own = walks(placed)
    return any(not own.isdisjoint(walks(other)) for other in group.placed)


def changes_sums(placed: Placed, group: Group, needs: bool, machine: Machine) -> str:
    """Return why adding a task to a group would change the order of a sum, or "" if it would not.

    The order depends on the loops of the kernel, and on whether they are split. A sum must have the same bits,
    regardless of other computations, and of whether it is interpreted or compiled.
    """
    if not placed.task.rounds() and not any(p.task.rounds() for p in group.placed):
        return ""
    trial = Group(group.number, list(group.loops), [replace(p, loops=dict(p.loops)) for p in group.placed])
    own = replace(placed, loops=dict(placed.loops))
    set_loop_roles(trial, own)
    trial.placed.append(own)
    nest = make_nest(trial)
    sums = [p for p in trial.placed if p.task.rounds()]
    if any(reduction_loops(p, nest) != order_alone(p.task, machine).loops for p in sums):
        return "its sums would be added in another order"
    ways = [(p, order_alone(p.task, machine).across) for p in sums if p.task.kind == "reduce"]
    if machine.is_gpu:
        # the threads that share a sum depend on which accesses of the kernel are contiguous
        across = is_contiguous_across(trial, nest)
        if any(way != across for p, way in ways if p is not own or not needs):
            return "its sums would be divided among other threads"
    elif len({way for _, way in ways}) > 1:
        return "one sum is along rows, and another along columns"
    length = block_length(trial, nest, machine)
    if any(order_alone(p.task, machine).block_length != length for p in sums if p.task.kind == "reduce"):
        return (
            "it needs the complete reduction of rows that are split into blocks"
            if needs
            else "its sums would be split into other blocks"
        )
    return ""


def set_loop_roles(group: Group, placed: Placed) -> None:
    """Mark the loops over which the task `placed` reduces or scans, and move them inside all other loops, if it is the group's first reduction or scan."""
    if placed.task.kind not in ("reduce", "scan") or any(loop.role != "parallel" for loop in group.loops):
        return
    reduced = {placed.loops[k] for k, loop in enumerate(placed.task.loops) if loop.role != "parallel"}
    if not reduced:
        return  # (all reduced axes have length 1)
    order = sorted(range(len(group.loops)), key=lambda k: (k in reduced, k))
    moved = {old: new for new, old in enumerate(order)}
    role: Role = "scan" if placed.task.kind == "scan" else "reduce"
    group.loops = [Loop(group.loops[k].extent, role if k in reduced else "parallel") for k in order]
    for p in group.placed:
        p.loops = {own: moved[theirs] for own, theirs in p.loops.items()}
        p.stage = int(p.inner or bool(reduced))
    placed.loops = {own: moved[theirs] for own, theirs in placed.loops.items()}


def _hints(produced: list[tuple[Expr, Affine | None]], stored: dict[Expr, Placed]) -> dict[int, int]:
    """Guess which loops of a task correspond to which loops of a group: those that have the same stride in a value that
    the group stores and the task reads.
    """
    hints: dict[int, int] = {}
    for node, index in produced:
        producer = stored[node]
        theirs = {(coefficient, loop) for loop, coefficient in producer.flat(producer.task.target)[1]}
        assert index is not None
        for loop, coefficient in index[1]:
            same = [other for c, other in theirs if c == coefficient]
            if len(same) == 1:
                hints.setdefault(loop, same[0])
    return hints


def _pair_loops(
    own: list[int],
    theirs: list[int],
    own_loops: list[Loop],
    their_loops: list[Loop],
    hints: dict[int, int],
    loops: dict[int, int],
) -> bool:
    """Pair the loops of a task with loops of a group that have the same extents.

    Loops in `hints` must be paired as `hints` states. Pairs are added to `loops`. Return whether all loops have a pair.
    """
    if len(own) != len(theirs):
        return False
    free = [k for k in theirs if k not in loops.values()]
    for k in own:
        wish = hints.get(k)
        if wish is not None:
            if wish not in free or own_loops[k].extent != their_loops[wish].extent:
                return False
            loops[k] = wish
            free.remove(wish)
    for k in own:
        if k in loops:
            continue
        match = next((f for f in free if their_loops[f].extent == own_loops[k].extent), None)
        if match is None:
            return False
        loops[k] = match
        free.remove(match)
    return True
