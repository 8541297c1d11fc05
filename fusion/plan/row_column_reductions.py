"""Merging of row and column reductions. One kernel reduces the same array both along its rows and along its columns.

In: a schedule. Out: the schedule, in which pairs of a row and a column reduction are merged. Invariant: both keep the
order that they have in separate kernels. A pair is therefore merged only if its work can be divided among threads: one
of the reductions is split anyway, or there are axes that neither reduces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from weft.codegen import Machine, find_op, threads_below, threads_of
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.index_map import Affine
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.body import Instruction, Loop, Role, accumulator_dtype, all_instructions
from weft.fusion.plan.group import Group, Placed
from weft.fusion.plan.grouping import LOOK_BACK, MAX_BUFFERS
from weft.fusion.plan.nest import Nest, arrange_loops, is_contiguous_across, make_nest
from weft.fusion.plan.reduction_splits import block_length, order_alone
from weft.fusion.plan.schedule import Schedule, finish_schedule
from weft.fusion.plan.traffic import bytes_read

# Maximum number of instructions per element. With more, the code for each row of an iteration would have few loads.
MOST_INSTRUCTIONS = 120
# Minimum number of parts into which the work is divided, to keep some threads busy; and minimum row length.
LEAST_PARTS = 8
LEAST_ROW = 32
# Maximum bytes of column accumulators, which stay in a core's L2 cache.
ROOM = 1 << 19
# On a GPU: minimum row length for a warp; elements of a vector; maximum bytes of accumulators per column.
GPU_ROW = 64
VECTOR = 4
GPU_COLUMN = 32


@dataclass(slots=True)
class RowsAndColumns(Group):
    """A group of reductions of the same elements, some along rows and some along columns."""

    # the reductions along rows and the reductions along columns, with the loops of the merged group
    rows: Group = field(default_factory=lambda: Group(0))
    columns: Group = field(default_factory=lambda: Group(0))
    batch: list[Loop] = field(default_factory=list)  # loops that neither group reduces
    down: Loop = field(default_factory=lambda: Loop(1, "reduce"))  # the loop that `columns` reduces
    along: Loop = field(default_factory=lambda: Loop(1, "reduce"))  # the loop that `rows` reduces
    position: dict[int, int] = field(default_factory=dict)  # loop -> its position in ``[*batch, down, along]``
    length: int = 0  # elements per block of a row, or 0 if rows are not split
    row_block: int = 0  # rows per block of a column, or 0 if columns are not split
    apart: int = 1  # number of parts that share the rows of a block: each processes every `apart`-th row


# -- merging of two groups ----------------------------------------------------------------------


def merge_pair(one: Group, other: Group, machine: Machine) -> RowsAndColumns | None:
    """Return two groups merged into one kernel, or None if they should not be merged."""
    loops = _same_loops(one, other)
    if loops is None:
        return None
    # the values of the first group must exist before the second group reads them
    moved = [replace(p, loops={k: loops[at] for k, at in p.loops.items()}) for p in other.placed]
    second = Group(other.number, [Loop(loop.extent, "parallel") for loop in one.loops])
    for k, at in loops.items():
        second.loops[at] = other.loops[k]
    for p in moved:
        second.place(p)
    if not _reads_where_computed(one, second):
        return None
    for rows, columns in ((one, second), (second, one)):
        found = _merged(rows, columns, [one, second], machine)
        if found is not None:
            return found
    return None


def _same_loops(one: Group, other: Group) -> dict[int, int] | None:
    """Return a mapping from the second group's loops to the first's, or None if the loops differ.

    The mapping follows from the indices of a value that both groups access.
    """
    if len(one.loops) != len(other.loops):
        return None
    for node, theirs in _forms(other):
        for same, own in _forms(one, made=True):
            if same is not node or own[0] != theirs[0]:
                continue
            at = {c: k for k, c in own[1]}
            found = {k: at.get(c, -1) for k, c in theirs[1]}
            whole = len(at) == len(own[1]) == len(one.loops) and sorted(found.values()) == list(range(len(one.loops)))
            if whole and all(other.loops[k].extent == one.loops[at].extent for k, at in found.items()):
                return found
    return None


def _forms(group: Group, *, made: bool = False) -> Iterator[tuple[Expr, Affine]]:
    """Yield the values that a group reads in its first pass, each with its flat index.

    With `made`, also yield the elementwise values that it computes in this pass.
    """
    for p in group.placed:
        if p.stage == 1:
            yield from ((node, p.flat(index)) for node, index in p.task.reads() if index is not None)
            if made and p.task.kind == "map":
                yield p.task.node, p.flat(p.task.target)


def _reads_where_computed(first: Group, second: Group) -> bool:
    """Return whether the second group reads each value of the first group in the iteration that computes the value.

    Only elementwise values qualify, and both groups must process them in their first pass.
    """
    for p in second.placed:
        for node, index in p.task.reads():
            producer = first.made.get(node)
            if producer is None:
                continue
            if index is None or producer.stage != 1 or producer.task.kind != "map" or p.stage != 1:
                return False
            if p.flat(index) != producer.flat(producer.task.target):
                return False
    return True


def _merged(rows: Group, columns: Group, order: list[Group], machine: Machine) -> RowsAndColumns | None:
    pairs = [(a.role == "parallel", b.role == "parallel") for a, b in zip(rows.loops, columns.loops, strict=True)]
    if (False, False) in pairs:
        return None
    classes = [
        [k for k, pair in enumerate(pairs) if pair == kind] for kind in ((True, True), (True, False), (False, True))
    ]
    roles: list[Role] = ["parallel" if all(pair) else "reduce" for pair in pairs]
    found = RowsAndColumns(
        order[1].number, [Loop(loop.extent, role) for loop, role in zip(rows.loops, roles, strict=True)]
    )
    for group in order:
        for p in group.placed:
            found.place(p)
    (batch, down, along), position = arrange_loops(found, classes)
    if len(down) != 1 or len(along) != 1 or not _walks_in_order(found, len(batch), position):
        return None
    found.rows, found.columns, found.batch, found.position = rows, columns, batch, position
    found.down, found.along = down[0], along[0]
    return found if (_split_for_gpu(found, machine) if machine.is_gpu else _split_both(found, machine)) else None


def _walks_in_order(group: RowsAndColumns, batch: int, position: dict[int, int]) -> bool:
    """Return whether all accesses are fast in a loop along rows.

    All accesses must be contiguous or constant along rows, and at least one must be contiguous. At most as many
    accesses may be contiguous along columns as along rows.
    """
    beside = below = 0
    for node, form in _forms(group, made=True):
        steps: dict[int, int] = {}
        for k, c in form[1]:
            if k in position:
                steps[position[k]] = c
        down, along = steps.get(batch, 0), steps.get(batch + 1, 0)
        if along not in (0, 1):
            return False
        beside += along == 1
        below += not along and down in (1, -1)
    return beside > 0 and below <= beside


def _nests(found: RowsAndColumns) -> list[Nest] | None:
    """Return two loop nests: one for rows, and one for columns. Return None if a nest has several inner loops, or if rows are not contiguous."""
    nests = [make_nest(group) for group in (found.rows, found.columns)]
    if any(len(nest.inner) != 1 for nest in nests):
        return None
    ways = [is_contiguous_across(group, nest) for group, nest in zip((found.rows, found.columns), nests, strict=True)]
    return nests if ways == [False, True] else None


def _split_both(found: RowsAndColumns, machine: Machine) -> bool:
    """Choose the block sizes of a CPU kernel that computes a row reduction and a column reduction. Return whether such a merged kernel pays off."""
    nests = _nests(found)
    if nests is None or not all(
        order_alone(p.task, machine).across is (part is found.columns)
        for part in (found.rows, found.columns)
        for p in part.placed
        if p.task.kind == "reduce" and p.task.rounds()
    ):
        return False
    found.length, found.row_block = (
        block_length(group, nest, machine) for group, nest in zip((found.rows, found.columns), nests, strict=True)
    )
    blocks = -(-found.along.extent // found.length) if found.length else 1
    row_blocks = -(-found.down.extent // found.row_block) if found.row_block else 1
    parts = blocks * row_blocks * prod(loop.extent for loop in found.batch)
    kept = (found.length or found.along.extent) * sum(_itemsizes(found.columns))
    return parts >= LEAST_PARTS and found.along.extent >= LEAST_ROW and kept <= ROOM


def _split_for_gpu(found: RowsAndColumns, machine: Machine) -> bool:
    """Choose the block sizes of a GPU kernel that computes a row reduction and a column reduction. Return whether such a merged kernel pays off.

    A warp or a thread block reduces each row, and keeps column accumulators in registers. In a block of rows, each of
    `apart` parts processes every `apart`-th row.
    """
    nests = _nests(found)
    if nests is None or found.batch:
        return False
    rows, columns = nests
    if block_length(found.rows, rows, machine) or any(p.task.node.dtype.kind == "c" for p in found.placed):
        return False
    found.row_block = block_length(found.columns, columns, machine)
    length = found.along.extent
    if not found.row_block or length < GPU_ROW or len(columns.outer) != 1:
        return False
    row_blocks = -(-found.down.extent // found.row_block)
    found.apart = threads_below(length, row_blocks * length)
    threads = threads_of(length)
    vectors = 1
    while vectors * threads * VECTOR < length:
        vectors *= 2
    read = {node: node.dtype.itemsize for node, form in _forms(found, made=True) if len(form[1]) == len(found.loops)}
    kept = sum(max(1, size // 4) for size in (*read.values(), *_itemsizes(found.columns)))
    enough = row_blocks * found.apart * threads >= machine.threads
    return enough and kept * vectors * VECTOR <= machine.kept_registers and sum(_itemsizes(found.columns)) <= GPU_COLUMN


def _itemsizes(group: Group) -> list[int]:
    """Return the size in bytes of each accumulator of a group."""
    sizes = []
    for p in group.placed:
        if p.task.kind == "reduce":
            extreme = p.task.node.op in ("argmin", "argmax")
            sizes += [accumulator_dtype(p.task.node).itemsize, *([p.task.node.operands[0].dtype.itemsize] * extreme)]
    return sizes


def is_plain(group: Group) -> bool:
    """Return whether a group reduces in one pass, without branches or gathers, and with few instructions."""
    if type(group) is not Group or group.opaque is not None:
        return False
    if not any(p.task.kind == "reduce" for p in group.placed) or group.instructions > MOST_INSTRUCTIONS:
        return False
    return all(_is_plain(p) for p in group.placed)


def _is_plain(placed: Placed) -> bool:
    kinds = {"reduce": (1,), "map": (1, 2)}
    if placed.stage not in kinds.get(placed.task.kind, ()):
        return False
    return all(_is_straight(i) for i in all_instructions(placed.task.body))


def _is_straight(instruction: Instruction) -> bool:
    if instruction.kind != "map":
        return instruction.kind not in ("gather", "choose")
    definition = find_op(instruction.node.op) if instruction.node.op != "cast" else None
    return definition is None or definition.body is None or definition.straight


# -- merging of schedules -------------------------------------------------------------------------


def merge_rows_and_columns(schedule: Schedule, machine: Machine) -> Schedule:
    """Return a schedule in which pairs of row and column reductions are merged."""
    if sum(is_plain(group) for group in schedule.groups) < 2:
        return schedule
    groups: list[Group | None] = list(schedule.groups)
    masks = [group.members if isinstance(group, BlockedSteps) else 1 << group.number for group in schedule.groups]
    merged = False
    waiting: list[int] = []  # positions of groups with which later groups may be merged
    for after, group in enumerate(schedule.groups):
        if not is_plain(group):
            continue
        for before in reversed(waiting[-LOOK_BACK:]):
            first = groups[before]
            assert first is not None
            where = _launch_position(groups, masks, before, after)
            made = (
                None
                if where is None or not _shares_enough_reads(first, group, machine)
                else merge_pair(first, group, machine)
            )
            if made is None or where is None:
                continue
            masks[where] = masks[before] | masks[after]
            made.before = (first.before | group.before) & ~masks[where]
            made.reason = first.reason
            groups[before] = groups[after] = None
            groups[where] = made
            waiting.remove(before)
            merged = True
            break
        else:
            waiting.append(after)
    if not merged:
        return schedule
    found = [group for group in groups if group is not None]
    for group in found:
        if isinstance(group, RowsAndColumns):
            _keep_in_registers(group, found, set(schedule.outputs))
    return finish_schedule(schedule.outputs, found, schedule.in_place)


def _shares_enough_reads(one: Group, other: Group, machine: Machine) -> bool:
    """Return whether merging two groups into one kernel is worthwhile.

    They must be small enough for one kernel, and share enough reads. Reads by `other` of values of `one` count too.
    """
    if len(one.buffers() | other.buffers()) > MAX_BUFFERS or one.instructions + other.instructions > MOST_INSTRUCTIONS:
        return False
    sizes = bytes_read(one)
    common = sum(count for node, count in bytes_read(other).items() if node in sizes)
    return common + sum(node.nbytes for node in other.read if node in one.made) >= machine.pair_bytes


def _launch_position(groups: list[Group | None], masks: list[int], before: int, after: int) -> int | None:
    """Return a position in the launch order at which the merged kernel of two groups can run, or None."""
    first, second = groups[before], groups[after]
    assert first is not None
    assert second is not None
    between = [(group, masks[k]) for k, group in enumerate(groups[before + 1 : after], before + 1) if group is not None]
    if not any(group.before & masks[before] for group, _ in between):
        return after
    return None if any(second.before & mask for _, mask in between) else before


def _keep_in_registers(group: RowsAndColumns, groups: list[Group], outputs: set[Expr]) -> None:
    """Record in the attribute `private` which values a merged group keeps in registers."""
    others = {node for g in groups if g is not group for node in g.needs()}
    inside = {p.task.node for p in group.placed if p.stage == 1 and p.task.kind == "map"}
    group.private = group.rows.private | group.columns.private | (inside - others - outputs)
    for part in (group.rows, group.columns):
        part.private, part.over = group.private, group.over
