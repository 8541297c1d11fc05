"""Temporal blocking: several time steps of a stencil are merged into one kernel.

In: a schedule. Out: the schedule with chains of steps merged, if the traffic saved outweighs the additional arithmetic.
The work is divided into blocks: ranges of rows, and tiles of the other axes. In each step, a block computes the points
that the last step needs: its own part, and a halo that shrinks with each step by the reach of the stencil.

A block of several axes iterates over its rows once. In each iteration every step computes one row, `lag` rows behind
the first step. Between two steps, a few rows are kept in a ring that stays in the L2 cache (on a GPU in shared memory:
`step_blocks.py`). Elements that an update does not change are copied. Invariant: a merged kernel writes only new
memory, so blocks are independent. Each element is computed by the same operations as in separate steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from weft.codegen import Machine
from weft.fusion.graph.expr import Expr
from weft.fusion.plan import step_blocks
from weft.fusion.plan.blocked_steps import (
    BlockedSteps,
    IntVector,
    Rolled,
    Statement,
    Step,
    find_owners,
    read_offset,
    read_statement,
    reads_of,
)
from weft.fusion.plan.body import Loop, all_instructions
from weft.fusion.plan.group import Group, needed_values
from weft.fusion.plan.schedule import Schedule, finish_schedule
from weft.fusion.plan.task import Task
from weft.fusion.plan.traffic import traffic

# Maximum number of steps of a kernel, and of their instructions: they limit the compile time.
MOST_STEPS = 24
MOST_INSTRUCTIONS = 400
REACH = 8  # maximum reach of one step along an axis
# Maximum bytes of the rings of a block: they share a core's L2 cache with the data that is read and written.
ROOM = 1 << 20
WIDTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)  # widths of a block along an axis after the rows, in points
VECTOR = 16  # rows of rings are multiples of this number of elements
ROW_COST = 48  # cost of starting a row, in points
MANY_PARTS = 16
# Cost of a byte that is read from or written to memory, in instructions.
BYTE_COST = 3
RING_COST = 5  # cost of an element that is stored in a ring and loaded again from the L2 cache
# Minimum share of the expected time that must be saved, in percent.
LEAST_GAIN = 10
MOST_PERIOD = 6  # maximum number of steps in an iteration of a loop over steps
FAR = 1 << 40
LOOK_AHEAD = 64  # maximum number of groups that wait for a chain to end


# -- chains ---------------------------------------------------------------------------------------------


class Chain:
    """Successive time steps for one kernel, added statement by statement."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.boxes: dict[Expr, tuple[int, IntVector]] = {}
        # value -> the steps that read it, and the offsets of the reads
        self.read: dict[Expr, list[tuple[int, IntVector]]] = {}

    def add(self, statements: Sequence[Statement]) -> bool:
        """Add statements to this chain, up to the first that does not fit. Return whether all fit."""
        return all(self._add(statement) for statement in statements)

    def _add(self, statement: Statement) -> bool:
        if self.steps and len(self.steps[0].extents) != len(statement.extents):
            return False
        offsets: list[tuple[Expr, IntVector]] = []
        for node, form, inside in reads_of(statement):
            if node in self.boxes:
                offset = read_offset(statement, node, form)
                if offset is None or inside:
                    return False
                offsets.append((node, offset))
        beside = statement.previous
        number, step = self._step_for(statement, offsets, beside)
        if beside in self.boxes:
            offsets.append((beside, statement.start))
        reads = [(node, self._distance(step, node, offset)) for node, offset in offsets]
        if any(abs(d) > REACH for _, distance in reads for d in distance):
            return False
        # (the code contains these offsets as constants, whatever the array lengths)
        reads = [(node, tuple(int(d) for d in distance)) for node, distance in reads]
        if number == len(self.steps):
            self.steps.append(step)
        step.statements.append(statement)
        if statement.updates:
            step.last = statement.task.node.shape
        self.boxes[statement.task.node] = number, statement.start
        for node, distance in reads:
            if self.boxes[node][0] != number:
                self.read.setdefault(node, []).append((number, distance))
        return True

    def _distance(self, step: Step, node: Expr, offset: IntVector) -> IntVector:
        """Return the offset at which a time step reads `node`, relative to the point that the step computes. There is one number per axis.

        `offset` is the element that the first point reads.
        """
        writer, start = self.boxes[node]
        there = self.steps[writer].origin
        return tuple(o - s + a - b for o, s, a, b in zip(offset, start, there, step.origin, strict=True))

    def _step_for(
        self, statement: Statement, reads: list[tuple[Expr, IntVector]], beside: Expr | None
    ) -> tuple[int, Step]:
        """Return the number of the time step to which a statement is added, and the step itself."""
        here = len(self.steps) - 1
        updating = statement.updates
        if self.steps and self.steps[here].extents == statement.extents:
            step = self.steps[here]
            others = [s for s in step.statements if s.updates]
            alike = (
                all((s.start, s.task.node.shape) == (statement.start, statement.task.node.shape) for s in others)
                if updating
                else True
            )
            # (a step that moved to another origin could no longer be compared with the points of other steps)
            moved = updating and not others
            same = all(self.boxes[n][0] != here or self.boxes[n][1] == offset for n, offset in reads)
            if alike and same and not moved and (beside not in self.boxes or self.boxes[beside][0] != here):
                return here, step
        shape = statement.task.node.shape
        origin = statement.start if updating else (0,) * len(shape)
        return here + 1, Step([], origin, statement.extents, shape)

    def blocked(self, number: int, kept: set[Expr]) -> BlockedSteps:
        """Return a description of the kernel that computes the time steps of this chain block by block. It includes the halo of each step.

        `kept` are the values that are needed outside the kernel.
        """
        axes, steps = len(self.steps[0].extents), self.steps
        blocked = BlockedSteps(number, steps=steps, boxes=self.boxes, readers=self.read)
        for step in steps:
            step.low, step.high = [-FAR] * axes, [-FAR] * axes
            for statement in step.statements:
                blocked.place(statement.placed)
        steps[-1].low, steps[-1].high = [0] * axes, [0] * axes
        # step -> the steps whose values it reads, with the offsets of the reads
        links: list[list[tuple[int, IntVector]]] = [[] for _ in steps]
        for node, readers in self.read.items():
            for reader, distance in readers:
                links[reader].append((self.boxes[node][0], distance))
        for step, found in zip(reversed(steps), reversed(links), strict=True):
            if any(s.task.node in kept for s in step.statements):
                step.low, step.high = ([max(0, h) for h in halo] for halo in (step.low, step.high))
            for writer, distance in found:
                for axis, d in enumerate(distance):
                    low, high = steps[writer].low, steps[writer].high
                    low[axis] = max(low[axis], step.low[axis] - d)
                    high[axis] = max(high[axis], step.high[axis] + d)
        blocked.loops = [Loop(max(step.extents[a] for step in steps), "parallel") for a in range(axes)]
        blocked.read -= blocked.made.keys() - kept
        blocked.private = blocked.made.keys() - kept
        return blocked


# -- blocks --------------------------------------------------------------------------------------------


def choose_parts(blocked: BlockedSteps) -> bool:
    """Choose how one kernel executes merged time steps: block widths, ring buffers and a loop over the steps. Return False if no width fits."""
    axes, steps = blocked.axes, blocked.steps
    blocked.owner = find_owners(blocked, once=False)  # (the last vector of a row overlaps the previous vector)
    step_blocks.set_lags(blocked, 0)
    lengths = steps[-1].last
    halo = [max(s.low[a] + s.high[a] + int(blocked.points_beyond_blocks(s, a)) for s in steps) for a in range(axes)]
    behind: dict[Expr, int] = {}
    for node, readers in blocked.readers.items():
        ring = blocked.owner.get(node, node)
        writer = steps[blocked.boxes[ring][0]]
        rows = max(steps[k].lag - writer.lag - d[0] for k, d in readers) + 1 if blocked.rows else 1
        behind[ring] = max(rows, behind.get(ring, 0))
    found: list[tuple[float, IntVector, list[int]]] = []
    for width in product(WIDTHS, repeat=axes - blocked.rows):
        sizes = [w + h for w, h in zip(width, halo[blocked.rows :], strict=True)]
        sizes[-1] = -(-sizes[-1] // VECTOR) * VECTOR
        share = prod(w / (w + h / 2) for w, h in zip(width, halo[blocked.rows :], strict=True))
        share *= width[-1] / (width[-1] + ROW_COST)
        if sum(rows * node.dtype.itemsize for node, rows in behind.items()) * prod(sizes) <= ROOM:
            found.append((share, width, sizes))
    if not found:
        return False
    _, width, sizes = max(found)
    blocked.rings = {node: (rows, *sizes) for node, rows in behind.items()}
    # blocks of equal length, within the limit
    even = [-(-n // -(-n // w)) for n, w in zip(lengths[blocked.rows :], width, strict=True)]
    even[-1] = min(width[-1], -(-even[-1] // VECTOR) * VECTOR)
    if blocked.rows:
        tiles = prod(-(-n // w) for n, w in zip(lengths[1:], even, strict=True))
        rows = -(-lengths[0] // max(1, -(-MANY_PARTS // tiles)))
        even = [max(1, min(lengths[0], max(rows, 4 * halo[0]))), *even]
    blocked.width = tuple(even)
    blocked.rolled = find_rolled(blocked)
    return True


# -- loops over steps -----------------------------------------------------------------------------------


def find_rolled(blocked: BlockedSteps) -> Rolled | None:
    """Return a loop that can replace periodic time steps, or None.

    Short periods are tried first and, for each period, early steps first."""
    steps = blocked.steps
    signatures = [_signature(blocked, number) for number in range(len(steps))]
    for period in range(1, min(MOST_PERIOD, len(steps) // 3) + 1):
        alike = [signatures[k] == signatures[k + period] for k in range(len(steps) - period)]
        for first in range(period, len(steps) - 2 * period):
            stop = first
            while stop < len(alike) and alike[stop]:
                stop += 1
            iterations = (stop - first) // period + 1
            if iterations < 2:
                continue
            rolled = _slopes(blocked, first, period, iterations)
            if rolled is not None:
                return rolled
    return None


def _slopes(blocked: BlockedSteps, first: int, period: int, iterations: int) -> Rolled | None:
    """Express repeating time steps as one loop, with halo widths and lags as linear functions of the loop index.

    Return None if they are not linear.

    The loop has `iterations` iterations of `period` steps each. All steps must have the same slopes, and all iterations the same rings.
    """
    steps = blocked.steps
    begin = first
    for node, readers in blocked.readers.items():
        if any(first <= k < first + period for k, _ in readers):
            begin = min(begin, blocked.boxes[node][0])
    pairs = [(steps[k], steps[k + period]) for k in range(begin, first + (iterations - 1) * period)]
    if any(_rings(blocked, a) != _rings(blocked, b) for a, b in pairs):
        return None
    found = {
        (
            tuple(y - x for x, y in zip(a.low, b.low, strict=True)),
            tuple(y - x for x, y in zip(a.high, b.high, strict=True)),
            b.lag - a.lag,
        )
        for a, b in pairs
    }
    return Rolled(first, period, iterations, *found.pop()) if len(found) == 1 else None


def _signature(blocked: BlockedSteps, number: int) -> object:
    """Return a key that is equal for time steps with the same computation. The key refers to other steps by relative step numbers."""
    step = blocked.steps[number]

    def spell(node: Expr) -> object:
        if node not in blocked.boxes:
            return node
        writer, start = blocked.boxes[node]
        statements = [s.task.node for s in blocked.steps[writer].statements]
        return number - writer, statements.index(node), start, node.shape, node.dtype

    parts = [
        (
            s.task.kind,
            s.start,
            s.task.result,
            s.task.target,
            s.task.node.dtype,
            s.task.node in blocked.private or s.task.node,
        )
        for s in step.statements
    ]
    copied = [s.previous and spell(s.previous) for s in step.statements]
    bodies = [
        (i.kind, i.index, i.operands, i.factors, [(len(b.instructions), b.result) for b in i.branches])
        + ((i.node.op, i.node.attrs, i.node.dtype) if i.kind == "map" else (spell(i.node),))
        for s in step.statements
        for i in all_instructions(s.task.body)
    ]
    return step.extents, step.last, parts, copied, bodies, _rings(blocked, step)


def _rings(blocked: BlockedSteps, step: Step) -> object:
    """Return a key with which time steps are compared. It consists of the step's origin and of the step's ring buffers.

    A ring buffer that belongs to another step is identified by the distance to that step.
    """
    found: list[object] = []
    for s in step.statements:
        node = s.task.node
        owner = blocked.owner.get(node)
        found.append(blocked.boxes[node][0] - blocked.boxes[owner][0] if owner else blocked.rings.get(node))
    return step.origin, found


# -- costs ----------------------------------------------------------------------------------------------


def work_of(task: Task) -> int:
    """Return the number of instructions per element, including the loads and the store."""
    loads = sum(i.kind == "read" for i in all_instructions(task.body))
    return step_blocks.arithmetic_of(task) + loads + 1


def merged_cost(blocked: BlockedSteps) -> int:
    """Estimate the instructions of a CPU kernel that computes several time steps. A byte of memory traffic counts as `BYTE_COST` instructions."""
    total = 0
    for step in blocked.steps:
        if step.statements[0].task.node in blocked.owner:
            # (a step that overwrites another value usually has few elements, in few of the rows)
            total += prod(blocked.counts) * blocked.width[0] * ROW_COST // 2
            total += prod(step.extents) * (work_of(step.statements[0].task) + RING_COST)
            continue
        sizes = [
            n * (w + low + high) // w if parts > 1 else n
            for n, w, low, high, parts in zip(
                step.last, blocked.width, step.low, step.high, blocked.counts, strict=True
            )
        ]
        sizes[-1] = sizes[-1] * (blocked.width[-1] + ROW_COST) // blocked.width[-1]
        total += prod(sizes) * sum(
            work_of(s.task) + RING_COST * (s.task.node in blocked.rings) for s in step.statements
        )
    return total + sum(traffic(blocked)) * BYTE_COST


def single_cost(group: Group) -> int:
    """Return the estimated cost of a separate kernel for `group`, in instructions."""
    points = prod(loop.extent for loop in group.loops)
    return points * sum(work_of(p.task) for p in group.placed) + sum(traffic(group)) * BYTE_COST


# -- merging --------------------------------------------------------------------------------------------


def merge_time_steps(schedule: Schedule, machine: Machine) -> Schedule:
    """Return an equivalent schedule in which one kernel computes several time steps of a stencil, where this is faster on the machine."""
    if len(schedule.groups) < 2:
        return schedule
    found = _ChainMerger(schedule, machine).run()
    if found is schedule.groups:
        return schedule
    in_place = schedule.in_place.difference(*(g.made for g in found if isinstance(g, BlockedSteps)))
    return finish_schedule(schedule.outputs, found, in_place)


class _ChainMerger:
    """Merger of the time steps of a schedule, which are collected in chains."""

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        self.schedule = schedule
        self.machine = machine
        self.choose = step_blocks.choose_blocks if machine.is_gpu else choose_parts
        self.merged_cost = step_blocks.merged_cost if machine.is_gpu else merged_cost
        self.single_cost = step_blocks.single_cost if machine.is_gpu else single_cost
        self.outputs = set(schedule.outputs)
        self.readers: dict[Expr, set[int]] = {}
        for group in schedule.groups:
            for node in group.needs():
                self.readers.setdefault(node, set()).add(group.number)
        self.done: list[Group] = []
        self.merged = False
        self.chain = Chain()
        self.members: list[tuple[Group, list[Statement]]] = []
        self.late: list[Group] = []  # groups that depend on a member, and on which no member depends
        self.mask = self.late_mask = 0

    def run(self) -> list[Group]:
        """Return the groups after merging: the schedule's own list if no group was merged."""
        for group in self.schedule.groups:
            self._take(group)
        self._close()
        return self.done if self.merged else self.schedule.groups

    def _take(self, group: Group) -> None:
        statements = _statements(group)
        depends = bool(group.before & (self.mask | self.late_mask))
        if statements is not None and not group.before & self.late_mask:
            related = any(node in self.chain.boxes for s in statements for node in needed_values(s.task))
            if self.members and related and self.chain.add(statements):
                self.members.append((group, statements))
                self.mask |= 1 << group.number
                return
            if depends or not self.members:
                self._close()
                if self.chain.add(statements):
                    self.members.append((group, statements))
                    self.mask = 1 << group.number
                else:
                    self.chain = Chain()
                    self.done.append(group)
                return
        if not depends:
            self.done.append(group)
            return
        self.late.append(group)
        self.late_mask |= 1 << group.number
        if len(self.late) > LOOK_AHEAD:
            self._close()

    def _close(self) -> None:
        groups = self._merge_members() if len(self.members) > 1 else [group for group, _ in self.members]
        self.done += groups + self.late
        self.chain, self.members, self.late, self.mask, self.late_mask = Chain(), [], [], 0, 0

    def _merge_members(self) -> list[Group]:
        alone = [group for group, _ in self.members]
        if max(sum(traffic(group)) for group in alone) < self.machine.steps_bytes:
            return alone
        best, found = (100 - LEAST_GAIN) * sum(self.single_cost(group) for group in alone) // 100, alone
        before: int | None = None
        for pieces in dict.fromkeys(-(-len(alone) // most) for most in self.machine.steps):
            cost, groups = self._in_pieces(pieces)
            if groups and before is not None and cost >= before:
                break  # more pieces only increase the traffic
            if groups:
                before = cost
            if groups and cost < best:
                best, found = cost, groups
        self.merged = self.merged or found is not alone
        return found

    def _in_pieces(self, pieces: int) -> tuple[int, list[Group]]:
        cost, count = 0, len(self.members)
        groups: list[Group] = []
        for k in range(pieces):
            piece = self.members[count * k // pieces : count * (k + 1) // pieces]
            if len(piece) == 1:
                groups.append(piece[0][0])
                cost += self.single_cost(piece[0][0])
                continue
            made = self._merged(piece)
            if made is None:
                return 0, []
            groups.append(made)
            cost += self.merged_cost(made)
        return cost, groups

    def _merged(self, piece: list[tuple[Group, list[Statement]]]) -> BlockedSteps | None:
        chain = Chain()
        members = {group.number for group, _ in piece}
        if not all(chain.add(statements) for _, statements in piece):
            return None
        kept = {node for node in chain.boxes if node in self.outputs or not self.readers.get(node, set()) <= members}
        size = sum(s.task.size() for step in chain.steps for s in step.statements)
        if len(chain.steps) > MOST_STEPS or size > MOST_INSTRUCTIONS:
            return None
        blocked = chain.blocked(piece[-1][0].number, kept)
        if any(h < -REACH * len(chain.steps) for step in blocked.steps for h in (*step.low, *step.high)):
            return None  # a step whose values are not needed
        if not self.choose(blocked):
            return None
        blocked.members = sum(1 << number for number in members)
        for group, _ in piece:
            blocked.before |= group.before & ~blocked.members
        blocked.reason = piece[0][0].reason
        return blocked


def _statements(group: Group) -> list[Statement] | None:
    if group.opaque is not None or any(
        p.stage or p.task.kind not in ("map", "update", "rebuild") for p in group.placed
    ):
        return None
    found = [read_statement(p) for p in group.placed]
    return None if any(s is None for s in found) else [s for s in found if s is not None]
