"""The GPU schedule of reductions that threads of a block share.

A block of T threads processes X items (iterations of the parallel loops) at a time with Y = T / X threads each. X and Y
are powers of two that depend on the extents, so the tree of a reduction depends only on the shape, never on the size of
the grid.

rows     The reduced elements are contiguous, and the Y threads of an item are adjacent. The threads combine their
         results by shuffles, and across warps (Y = T) through shared memory.
columns  The items are contiguous: X adjacent threads process X items, and the threads of an item are X apart. The
         threads combine their results through shared memory: the upper half into the lower half, until one thread is
         left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Value, program_order
from weft.codegen.machines import GPU
from weft.codegen.ops.op_table import combine_all
from weft.codegen.passes.reduction_identities import reduction_identities
from weft.codegen.schedules.decision import AnySizesDecision
from weft.codegen.schedules.nest import (
    Nest,
    has_regions,
    has_stores,
    is_spread,
    prefers_columns,
    pressure,
    reduction_chain,
)
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target
from weft.runtime import RowLimits

# Maximum length of a row that one warp reduces: `WARP_LENGTH` if at least `MANY_ROWS` rows fill a GPU with warps,
# otherwise `SHORT_LENGTH`.
WARP_LENGTH = 1024
SHORT_LENGTH = 128
MANY_ROWS = 2048
# Shorter rows have one thread per ROW_ELEMENTS elements, because a warp per row would mostly wait.
SHARED_LENGTH = 64
ROW_ELEMENTS = 8
# Maximum number of blocks. A block processes up to 256 short rows at a time, and then continues with further rows,
# which takes less time than starting more blocks.
MOST_BLOCKS = 1 << 14
# Iterations of a loop that are in flight at once, and the number of 32-bit registers that they may use.
UNROLL = 4
REGISTERS = 96


@dataclass(slots=True)
class Team:
    """The division of a block's threads among iterations of the parallel loops.

    `size` threads share an item, and `part` is the index of this thread among them.
    """

    columns: bool
    size: Value
    items: Value  # number of items in a tile
    part: Value
    slot: Value  # index of the item in the tile
    shared: dict[tuple[int, np.dtype], Value]
    active: Value | None = None

    def first(self, w: ThreadWriter) -> Value:
        """Return whether this thread is the first of the threads that share an item.

        Threads without an item are never first.
        """
        assert self.active is not None
        return w.both(self.active, w.test("equal", self.part, 0))


def split_item(nest: Nest) -> tuple[list[Operation], list[Operation]] | None:
    """Split an iteration's operations into two parts. The first part ends with the last loop that threads can share.

    One thread executes the second part. Return None if there is no such loop, or if the first part has atomics,
    branches or serial loops.
    """
    spread = [k for k, operation in enumerate(nest.item) if is_spread(operation)]
    if not spread:
        return None
    prologue, epilogue = list(nest.item[: spread[-1] + 1]), list(nest.item[spread[-1] + 1 :])
    for operation in prologue:
        if operation.opcode == "atomic" or (operation.regions and not is_spread(operation)):
            return None
    return prologue, epilogue


class SharedItems(AnySizesDecision):
    """Empty parameter class of the schedule for shared reductions, which needs no parameters of its own."""


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> SharedItems | None:
    """Return the parameters of this schedule, or None if threads cannot share the loops."""
    return SharedItems() if split_item(nest) is not None else None


def write(kernel: Kernel, nest: Nest, decision: SharedItems, target: Target) -> Kernel:
    """Lower a kernel with reductions to a threaded kernel, in which several threads share each reduction."""
    parts = split_item(nest)
    assert parts is not None
    prologue, epilogue = parts
    loops = [operation for operation in prologue if is_spread(operation)]
    columns = prefers_columns(nest, loops)
    w = ThreadWriter(kernel, nest, GPU.block)
    items = w.product(w.extents())
    team = _make_team(w, items, loops, columns)
    with w.tiles(w.parts(items, team.items)) as tile:
        item = w.compute("add", w.compute("multiply", tile, team.items), team.slot)
        team.active = w.test("less", item, items)
        w.bind(nest.levels, w.compute("minimum", item, w.compute("subtract", items, 1)))
        w.enter(nest.levels[1:])
        _item(w, team, prologue, epilogue, _reads_changing(w, nest.inward))
    if columns:
        return w.finish("columns", GPU.warp, most_blocks=MOST_BLOCKS)
    limits = RowLimits(SHARED_LENGTH, ROW_ELEMENTS, MANY_ROWS, SHORT_LENGTH, WARP_LENGTH)
    return w.finish("rows", 1, most_blocks=MOST_BLOCKS, row_limits=limits)


def _make_team(w: ThreadWriter, items: Value, loops: Sequence[Operation], columns: bool) -> Team:
    # code that does not depend on the item comes before the loop over tiles
    shared: dict[tuple[int, np.dtype], Value] = {}
    count = GPU.block if columns else GPU.warps
    for loop in loops:
        for k, value in enumerate(loop.results):
            if (k, value.dtype) not in shared:
                shared[k, value.dtype] = w.shared_array(value.dtype, count)
    if columns:
        together = w.power_of_two(items, GPU.warp)
        size = w.quotient(w.number(GPU.block), together)
        part, slot = w.split(w.thread, together)
        return Team(True, size, together, part, slot, shared)
    size = _row_threads(w, items, loops)
    slot, part = w.split(w.thread, size)
    return Team(False, size, w.quotient(w.number(GPU.block), size), part, slot, shared)


def _row_threads(w: ThreadWriter, items: Value, loops: Sequence[Operation]) -> Value:
    """Return the number of threads that share a row: one to eight, a warp or a block."""
    chain = reduction_chain(loops[0])
    if any(v not in w.map for loop in chain for v in loop.operands[:2]):
        # the length differs between items: these are the blocks of a long reduction
        return w.number(GPU.block)
    length: Value | None = None
    for loop in chain:
        extent = w.compute("subtract", w.map[loop.operands[1]], w.map[loop.operands[0]])
        bounded = w.compute("minimum", w.compute("maximum", extent, 0), 2 * WARP_LENGTH)
        length = bounded if length is None else w.compute("multiply", length, bounded)
        if loop is not chain[0]:
            length = w.compute("minimum", length, 2 * WARP_LENGTH)
    assert length is not None
    few = w.test("less", items, MANY_ROWS)
    limit = w.choose(few, SHORT_LENGTH, WARP_LENGTH)
    several = w.quotient(w.power_of_two(length, SHARED_LENGTH), ROW_ELEMENTS)
    short = w.choose(w.test("less", length, SHARED_LENGTH), w.compute("maximum", several, 1), GPU.warp)
    return w.choose(w.test("greater", length, limit), GPU.block, short)


def _reads_changing(w: ThreadWriter, operations: Iterable[Operation]) -> bool:
    """Return whether operations read memory that the kernel may write."""
    steady = {p.value for p in w.builder.kernel.parameters if p.noalias and not p.writable}
    return any(o.opcode == "load" and o.operands[0] not in steady for o in operations)


def _item(
    w: ThreadWriter, team: Team, prologue: Sequence[Operation], epilogue: Sequence[Operation], reads: bool
) -> None:
    """Emit the operations of one iteration of the parallel loops.

    All threads of the item compute the prologue and share its loops. Only the first thread executes the epilogue, and
    the stores outside of loops. A barrier separates each write of a thread from earlier and later reads of other
    threads. Threads without an item also read. `reads` states whether the code before the item has read memory that the
    kernel may write.
    """
    writes = False
    for part in (*([operation] for operation in prologue), *([list(epilogue)] if epilogue else [])):
        loads, stores = _reads_changing(w, program_order(part)), has_stores(part)
        if (stores and (reads or writes)) or (loads and writes):
            w.barrier()
            reads = writes = False
        if len(part) == 1 and is_spread(part[0]):
            _distribute_loop(w, team, part[0])
        elif stores or part == epilogue:
            with w.when(team.first(w)):
                w.copy(part)
        else:
            w.copy(part)
        reads, writes = reads or loads, writes or stores


def _distribute_loop(w: ThreadWriter, team: Team, loop: Operation) -> None:
    """Emit a loop whose iterations are distributed over threads, and combine the threads' results."""
    chain = reduction_chain(loop)
    combine = loop.attributes.get("combine", ())
    initial = identities(w, combine, loop.results)
    starts = [w.map[inner.operands[0]] for inner in chain]
    extents = [
        w.compute("subtract", w.map[inner.operands[1]], start) for inner, start in zip(chain, starts, strict=True)
    ]
    threads, numbers = _divide_threads(w, team, extents)
    assert team.active is not None
    stops = [w.map[inner.operands[1]] for inner in chain]
    # a thread without an item runs no iterations
    stops[0] = w.choose(team.active, stops[0], starts[0])
    firsts = [w.compute("add", start, number) for start, number in zip(starts, numbers, strict=True)]
    found = _strided(w, chain, list(zip(firsts, stops, threads, strict=True)), initial)
    if not combine:
        return
    total = _combine_columns(w, team, combine, found) if team.columns else _combine_rows(w, team, combine, found)
    before = [w.map[v] for v in loop.operands[2:]]
    w.map.update(zip(loop.results, combine_all(w.builder, combine, before, total), strict=True))


def _divide_threads(w: ThreadWriter, team: Team, extents: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """Distribute a team of threads over nested loops, so that the threads share the iterations of each loop.

    Return the number of threads along each loop, and this thread's index among them.

    The innermost loop gets adjacent threads, as many as it has iterations. The enclosing loops get the rest.
    """
    left, part = team.size, team.part
    threads: list[Value] = []
    numbers: list[Value] = []
    for extent in reversed(extents[1:]):
        along = w.compute("minimum", w.power_of_two(extent, GPU.block), left)
        part, number = w.split(part, along)
        left = w.quotient(left, along)
        threads.append(along)
        numbers.append(number)
    return [left, *reversed(threads)], [part, *reversed(numbers)]


def _strided(
    w: ThreadWriter, chain: Sequence[Operation], plan: Sequence[tuple[Value, Value, Value]], carried: Sequence[Value]
) -> list[Value]:
    """Emit nested loops that several threads share, and return the final accumulators.

    `plan` has, for each loop, the start for this thread, the end of the loop, and the stride of the iterations.
    """
    region = chain[0].regions[0]
    first, stop, apart = plan[0]
    if len(chain) == 1:
        if _unrolls(region.operations):
            first, carried = _unrolled(w, region, first, stop, apart, carried)
        with w.builder.loop(stop, "serial", start=first, initial=carried, step_by=apart) as opened:
            opened.yield_(*_emit_iteration(w, region, opened.index, opened.carried))
        return list(opened.results)
    with w.builder.loop(stop, "serial", start=first, initial=carried, step_by=apart) as opened:
        w.map[region.parameters[0]] = opened.index
        w.map.update(zip(region.parameters[1:], opened.carried, strict=True))
        w.copy(o for o in region.operations if o is not chain[1] and o.opcode != "yield")
        opened.yield_(*_strided(w, chain[1:], plan[1:], opened.carried))
    return list(opened.results)


def _emit_iteration(w: ThreadWriter, region: Block, index: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
    w.map[region.parameters[0]] = index
    w.map.update(zip(region.parameters[1:], carried, strict=True))
    return w.copy(region.operations)


def _unrolls(operations: Sequence[Operation]) -> bool:
    """Return whether several iterations of a loop can be interleaved."""
    return not has_regions(operations) and not has_stores(operations) and UNROLL * pressure(operations) <= REGISTERS


def _unrolled(
    w: ThreadWriter, region: Block, first: Value, stop: Value, apart: Value, carried: Sequence[Value]
) -> tuple[Value, Sequence[Value]]:
    """Emit a loop over groups of iterations, so that several loads are in flight at once.

    Return the next index and the accumulators. Elements are accumulated in the same order as without groups.
    """
    beyond = w.compute("multiply", apart, UNROLL - 1)
    wide = w.compute("multiply", apart, UNROLL)
    last = w.compute("subtract", stop, beyond)
    with w.builder.loop(last, "serial", start=first, initial=[first, *carried], step_by=wide) as opened:
        index, current = opened.index, opened.carried[1:]
        for _ in range(UNROLL):
            current = _emit_iteration(w, region, index, current)
            index = w.compute("add", index, apart)
        opened.yield_(index, *current)
    return opened.results[0], opened.results[1:]


# -- combination across threads -------------------------------------------------------------------


def by_halves(parts: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Combine the first half of the parts with the second half, repeatedly, until one part is left."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [combine(*pair) for pair in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def identities(w: ThreadWriter, combine: Sequence[str], values: Sequence[Value]) -> list[Value]:
    """Return the identities of the reductions as constants with the dtypes of `values`."""
    types = [v.type for v in values]
    return [w.number(v, t) for v, t in zip(reduction_identities(combine, types), types, strict=True)]


def _combine_rows(w: ThreadWriter, team: Team, combine: Sequence[str], found: Sequence[Value]) -> list[Value]:
    """Emit code that combines the values of adjacent threads that share a reduction. All of them get the result."""
    values = reduce_warp(w, combine, found, GPU.warp // 2, lambda mask: w.test("greater", team.size, mask))

    def across_warps() -> list[Value]:
        warp, lane = w.split(w.thread, GPU.warp)
        w.barrier()
        with w.when(w.test("equal", lane, 0)):
            for k, value in enumerate(values):
                w.builder.store(team.shared[k, value.dtype], warp, value)
        w.barrier()
        which = w.split(lane, GPU.warps)[1]
        parts = [w.builder.load(team.shared[k, v.dtype], which) for k, v in enumerate(values)]
        return reduce_warp(w, combine, parts, GPU.warps // 2)

    return list(w.select(w.test("greater", team.size, GPU.warp), across_warps, lambda: values))


def shuffled(
    w: ThreadWriter,
    combine: Sequence[str],
    values: Sequence[Value],
    mask: int,
    within: Callable[[int], Value] | None = None,
) -> list[Value]:
    """Emit code that combines a lane's accumulators with those of the lane at XOR distance `mask`.

    Lanes for which ``within(mask)`` is false keep their accumulators.
    """
    others = [w.builder.emit("shuffle_xor", (v,), (v.type,), mask=mask)[0] for v in values]
    found = combine_all(w.builder, combine, values, others)
    if within is None:
        return found
    there = within(mask)
    return [w.builder.op("where", there, new, old) for new, old in zip(found, values, strict=True)]


def reduce_warp(
    w: ThreadWriter,
    combine: Sequence[str],
    values: Sequence[Value],
    mask: int,
    within: Callable[[int], Value] | None = None,
) -> list[Value]:
    """Emit a butterfly reduction over a warp: XOR shuffles with the masks `mask`, ``mask // 2`` and so on to 1."""
    found = list(values)
    while mask:
        found = shuffled(w, combine, found, mask, within)
        mask //= 2
    return found


def _combine_columns(w: ThreadWriter, team: Team, combine: Sequence[str], found: Sequence[Value]) -> list[Value]:
    """Emit code that combines the results of the threads that share a column, and gives all of them the total."""
    shared = [team.shared[k, v.dtype] for k, v in enumerate(found)]

    def step(distance: int) -> None:
        with w.when(w.test("less", w.thread, distance)):
            other = w.compute("add", w.thread, distance)
            mine = [w.builder.load(pointer, w.thread) for pointer in shared]
            theirs = [w.builder.load(pointer, other) for pointer in shared]
            for pointer, value in zip(shared, combine_all(w.builder, combine, mine, theirs), strict=True):
                w.builder.store(pointer, w.thread, value)
        w.barrier()

    w.barrier()
    for pointer, value in zip(shared, found, strict=True):
        w.builder.store(pointer, w.thread, value)
    w.barrier()
    distance = GPU.block // 2
    while distance >= GPU.warp:
        step(distance)
        distance //= 2
    # fewer columns than lanes: the threads of a column are closer together
    with w.when(w.test("less", team.items, GPU.warp)):
        while distance:
            with w.when(w.test("less_equal", team.items, distance)):
                step(distance)
            distance //= 2
    return [w.builder.load(pointer, team.slot) for pointer in shared]
