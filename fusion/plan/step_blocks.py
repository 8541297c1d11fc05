"""Temporal blocking on a GPU: tiles, ring buffers in shared memory, and their cost.

In: a `BlockedSteps` from `Chain.blocked`. Out: the same object with lags, rings and blocks. A block iterates over a
range of rows, and has a tile of the other axes. The points of the tile are distributed over threads. In each
iteration, every step computes one row, and reads the values of other steps only from rows that earlier iterations
stored in the rings. One barrier per iteration therefore suffices, and the loads of all steps can overlap.

The tile has a halo, in which threads compute values that other points need and, near the edge, unused values. Kernel
inputs that are read more than once also have rings, so they are loaded only once. A group with a single axis has no
rows: the whole tile computes one step after another, with a barrier after each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np

from weft.codegen import GPU, find_op
from weft.fusion.graph.expr import Expr
from weft.fusion.plan.blocked_steps import BlockedSteps, IntVector, Statement, find_owners, read_offset, reads_of
from weft.fusion.plan.body import all_instructions
from weft.fusion.plan.group import Group
from weft.fusion.plan.task import Task
from weft.fusion.plan.traffic import traffic

# Sizes of tiles, by the number of axes of the tile.
TILES: dict[int, tuple[IntVector, ...]] = {
    1: ((256,), (512,), (1024,), (2048,)),
    2: ((8, 32), (16, 32), (32, 32), (8, 64), (16, 64), (32, 64)),
}
# Maximum number of blocks on a multiprocessor in the cost estimate.
MOST_BLOCKS = 6
FEW_BLOCKS = 4  # with fewer blocks, a multiprocessor mostly waits for memory
REACH = 8  # maximum offset along an axis of reads from a ring
# Number of blocks that fill a GPU; and minimum rows of a block, as a multiple of the time to fill and empty the rings.
MANY_PARTS = 640
LEAST_FILLS = 3
# Costs in instructions: of a byte of memory; of four bytes of shared memory or the L1 cache (overlapped with
# arithmetic); of finding a step's position and testing whether a point is inside; and of an iteration, per thread.
BYTE_COST = 6
SHARED_COST = 4
STEP_COST = 6
OVER_COST = 3  # cost of a step that overwrites values of another step
ITERATION_COST = 30
LAUNCH_COST = 30_000_000  # cost of a launch: about a microsecond of the whole GPU


def ring_readers(blocked: BlockedSteps) -> Iterator[tuple[Expr, int, IntVector]]:
    """Yield ``(value, number of the reading step, offset)`` for each read from a ring buffer."""
    for found in (blocked.readers, blocked.outside):
        for node, readers in found.items():
            for number, distance in readers:
                yield node, number, distance


def lag_of(blocked: BlockedSteps, node: Expr) -> int:
    """Return by how many rows the step that computes `node` lags behind the first step. For a kernel input, return 0."""
    return blocked.steps[blocked.boxes[node][0]].lag if node in blocked.boxes else 0


def ring_delay(blocked: BlockedSteps, node: Expr, number: int, distance: IntVector) -> int:
    """Return the number of iterations from when a row is stored in a ring buffer to when a step uses this row."""
    owner = blocked.owner.get(node, node)
    return blocked.steps[number].lag - lag_of(blocked, owner) - distance[0] if blocked.rows else 0


def iteration_range(blocked: BlockedSteps) -> tuple[int, int]:
    """Return the row at which a block's row loop starts, relative to the block's first row, and by how much its iterations outnumber the block's rows."""
    spans = [(step.lag - step.low[0], step.lag + step.high[0]) for step in blocked.steps]
    spans += [(-low, high) for low, high in (_halo(blocked, node, 0) for node in blocked.outside)]
    first = min(low for low, _ in spans)
    return first, max(high for _, high in spans) - first


def pads_of(blocked: BlockedSteps) -> IntVector:
    """Return, for each axis of a tile, the largest absolute offset at which a step reads a ring buffer."""
    reaches = [[abs(d) for d in distance[blocked.rows :]] for _, _, distance in ring_readers(blocked)]
    return tuple(max((r[axis] for r in reaches), default=0) for axis in range(blocked.axes - blocked.rows))


def plane_sizes(blocked: BlockedSteps) -> IntVector:
    """Return the shape of the planes that a ring buffer consists of: the shape of a block's tile, plus padding."""
    return tuple(n + pad for n, pad in zip(blocked.tile, pads_of(blocked), strict=True))


def ring_offsets(blocked: BlockedSteps) -> tuple[dict[Expr, int], dict[np.dtype, int]]:
    """Return the ring buffers' offsets in shared arrays, and the lengths of these arrays by dtype."""
    plane, pads = plane_sizes(blocked), pads_of(blocked)
    sizes = dict.fromkeys(
        (node.dtype for node in blocked.rings), sum(p * prod(plane[k + 1 :]) for k, p in enumerate(pads))
    )
    offsets = {}
    for node, (rows, *_) in blocked.rings.items():
        offsets[node] = sizes[node.dtype]
        sizes[node.dtype] += rows * prod(plane)
    threads = threads_of(blocked)
    return offsets, {dtype: -(-count // threads) * threads for dtype, count in sizes.items()}


def ring_bytes(blocked: BlockedSteps) -> int:
    """Return the size in bytes of a block's ring buffers in shared memory."""
    return sum(count * dtype.itemsize for dtype, count in ring_offsets(blocked)[1].items())


def threads_of(blocked: BlockedSteps) -> int:
    """Return the number of threads of a block."""
    return min(GPU.block, prod(blocked.tile))


# -- choices --------------------------------------------------------------------------------------------


def choose_blocks(blocked: BlockedSteps) -> bool:
    """Choose how a GPU kernel divides time steps into blocks, and store the choice in `blocked`. Return False if there is no valid choice."""
    if any(blocked.has_outputs_beyond_blocks(axis) for axis in range(blocked.axes)):
        return False
    blocked.outside = _read_from_outside(blocked)
    blocked.owner = find_owners(blocked, once=True)
    set_lags(blocked, 1)
    rows: dict[Expr, int] = {}
    for node, number, distance in ring_readers(blocked):
        owner = blocked.owner.get(node, node)
        rows[owner] = max(rows.get(owner, 0), ring_delay(blocked, node, number, distance) + 1)
    found: list[tuple[int, IntVector, IntVector, IntVector]] = []
    for tile in TILES[max(1, blocked.axes - 1)]:
        blocked.tile = tile
        blocked.rings = {node: (count, *tile) for node, count in rows.items()}
        if ring_bytes(blocked) <= GPU.shared_bytes and _set_blocks(blocked):
            found.append((merged_cost(blocked), tile, blocked.margin, blocked.width))
    if not found:
        return False
    _, blocked.tile, blocked.margin, blocked.width = min(found)
    blocked.rings = {node: (count, *blocked.tile) for node, count in rows.items()}
    return True


def _read_from_outside(blocked: BlockedSteps) -> dict[Expr, list[tuple[int, IntVector]]]:
    """Return, for each kernel input that is read more than once, a list of its reads. Each read is a pair ``(step number, offset)``.

    Only reads at constant offsets of at most `REACH` count.
    """
    found: dict[Expr, dict[tuple[int, IntVector], None]] = {}
    for number, step in enumerate(blocked.steps):
        for statement in step.statements:
            for node, offset in _offsets(statement):
                distance = ring_offset(o - b for o, b in zip(offset, step.origin, strict=True))
                if node not in blocked.boxes and distance is not None:
                    found.setdefault(node, {})[number, distance] = None
    return {node: list(readers) for node, readers in found.items() if len(readers) > 1}


def ring_offset(distance: Iterable[int]) -> IntVector | None:
    """Convert a distance to a tuple of ints, or return None if it is too large for a ring buffer."""
    found = tuple(distance)
    return None if any(abs(d) > REACH for d in found) else tuple(int(d) for d in found)


def _offsets(statement: Statement) -> Iterator[tuple[Expr, IntVector]]:
    """For each value that a statement reads at a constant offset, yield the value and the coordinates of the first element read.

    For an update, also yield the array's previous version and the coordinates of the first updated element. Reads in branches are left out.
    """
    for node, form, inside in reads_of(statement):
        offset = None if inside else read_offset(statement, node, form)
        if offset is not None:
            yield node, offset
    if statement.previous is not None:
        yield statement.previous, statement.start


def set_lags(blocked: BlockedSteps, apart: int) -> None:
    """Set the lag of each time step: the number of iterations by which it runs behind the first step.

    A step runs at least `apart` iterations behind the last row that it reads. A step that overwrites the values of
    another step also runs at least `apart` iterations after that step has read the same row.
    """
    reads: list[list[tuple[Expr, int]]] = [[] for _ in blocked.steps]
    for node, number, distance in ring_readers(blocked):
        reads[number].append((node, distance[0]))
    for step, found in zip(blocked.steps, reads, strict=True):
        behind = [lag_of(blocked, node) + d + apart for node, d in found]
        for s in step.statements:
            if s.task.node in blocked.owner and s.previous in blocked.owner:
                before = blocked.boxes[s.previous][0]
                behind += [blocked.steps[before].lag - d + apart for _, d in reads[before]]
        step.lag = max(behind, default=0) if blocked.rows else 0


def _halo(blocked: BlockedSteps, node: Expr, axis: int) -> tuple[int, int]:
    """Return the widths of the halo of an input on both sides of a block, along an axis."""
    readers = [(blocked.steps[number], distance[axis]) for number, distance in blocked.outside[node]]
    return max(s.low[axis] - d for s, d in readers), max(s.high[axis] + d for s, d in readers)


def _set_blocks(blocked: BlockedSteps) -> bool:
    """Divide the points of all time steps into blocks, or return False if the halo leaves no room."""
    lengths, rows = blocked.steps[-1].last, blocked.rows
    size = min(node.dtype.itemsize for node in (*blocked.made, *blocked.rings))
    margins, widths = [], []
    for axis in range(rows, blocked.axes):
        points = blocked.tile[axis - rows]
        spans = [(s.low[axis], s.high[axis]) for s in blocked.steps] + [
            _halo(blocked, n, axis) for n in blocked.outside
        ]
        low, high = (max(side) for side in zip(*spans, strict=True))
        ends = [*(s.last[axis] for s in blocked.steps), *(node.shape[axis] for node in blocked.outside)]
        if all(end <= points for end in ends):
            low = high = 0  # there are no neighbors
        unit = max(1, GPU.sector_bytes // size) if axis == blocked.axes - 1 and points >= GPU.block else 1
        margin = -(-low // unit) * unit
        width = min(points - margin - high, lengths[axis])
        if width < lengths[axis]:
            width = width // unit * unit
        if width <= 0:
            return False
        margins.append(margin)
        widths.append(width)
    blocked.margin, blocked.width = tuple(margins), tuple(widths)
    if rows:
        tiles = prod(-(-n // w) for n, w in zip(lengths[1:], widths, strict=True))
        row_block = max(-(-lengths[0] // max(1, -(-MANY_PARTS // tiles))), LEAST_FILLS * iteration_range(blocked)[1], 1)
        blocked.width = (min(lengths[0], row_block), *widths)
    return True


# -- costs ----------------------------------------------------------------------------------------------


def arithmetic_of(task: Task) -> int:
    """Return the number of instructions per element, without loads and stores."""
    ops = (i for i in all_instructions(task.body) if i.kind == "map" and i.node.op != "cast")
    return sum(find_op(i.node.op).cost for i in ops)


def _reads(task: Task) -> int:
    """Return the cost of reading an element's operands through the cache."""
    found = (i.node.dtype.itemsize for i in all_instructions(task.body) if i.kind in ("read", "gather"))
    return sum(SHARED_COST * size // 4 for size in found)


def _overlapped_cost(arithmetic: int, moved: int) -> int:
    return max(arithmetic, moved) + min(arithmetic, moved) // 4


def merged_cost(blocked: BlockedSteps) -> int:
    """Return the estimated cost, in instructions, of a kernel that computes several time steps."""
    # (a step that overwrites another value has few elements)
    tasks = [s.task for step in blocked.steps for s in step.statements if s.task.node not in blocked.owner]
    writes = sum(SHARED_COST * node.dtype.itemsize // 4 for node in blocked.rings)
    arithmetic = (
        sum(arithmetic_of(task) for task in tasks)
        + STEP_COST * len(blocked.steps)
        - (STEP_COST - OVER_COST) * len(blocked.owner)
        + 4 * len(blocked.outside)
    )
    shared = sum(_reads(task) for task in tasks) + writes
    more = iteration_range(blocked)[1] if blocked.rows else 0
    iterations = prod(blocked.counts) * ((blocked.width[0] if blocked.rows else 1) + more)
    done = iterations * (prod(blocked.tile) * _overlapped_cost(arithmetic, shared) + GPU.block * ITERATION_COST)
    blocks = min(MOST_BLOCKS, GPU.all_shared_bytes // max(1, ring_bytes(blocked)))
    if blocks < FEW_BLOCKS:
        done = done * FEW_BLOCKS // max(1, blocks)
    read, written = traffic(blocked)
    covered = iterations * prod(blocked.tile)
    moved = read * covered // max(1, prod(blocked.steps[-1].last)) + written
    return _overlapped_cost(done, moved * BYTE_COST) + LAUNCH_COST


def single_cost(group: Group) -> int:
    """Return the estimated cost of a separate kernel for `group`, in instructions."""
    points = prod(loop.extent for loop in group.loops)
    writes = sum(SHARED_COST * p.task.node.dtype.itemsize // 4 for p in group.placed)
    arithmetic = sum(arithmetic_of(p.task) for p in group.placed)
    shared = sum(_reads(p.task) for p in group.placed) + writes
    return (
        _overlapped_cost(points * _overlapped_cost(arithmetic, shared), sum(traffic(group)) * BYTE_COST) + LAUNCH_COST
    )
