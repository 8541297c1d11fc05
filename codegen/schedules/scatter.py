"""The GPU schedule of integer scatters that update few elements.

An example is a histogram. Each block accumulates in shared memory, and updates the result with its accumulators at the
end.

In: a logical kernel of one loop whose item ends in an atomic of integers, and a `PrivateScatter`. Out: the threaded
kernel. Invariant: the result does not depend on the order of the threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value
from weft.codegen.machines import GPU
from weft.codegen.ops.op_table import identity_of
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.elements import vector_lanes
from weft.codegen.schedules.lanes import LaneWriter
from weft.codegen.schedules.nest import Nest
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Number of blocks that fill a GPU. With more blocks, each would process fewer elements before it adds its counters to
# the result.
MOST_BLOCKS = 1 << 10
# Maximum bytes of shared memory per block, so that a multiprocessor holds six blocks; and the minimum number of
# elements per accumulator for which private accumulators are worthwhile.
MOST_BYTES = 1 << 15
LEAST_ROOM = 32  # minimum number of accumulators
LEAST_ELEMENTS = 4
_COUNT = np.dtype(np.uint32)


def find_scatter(nest: Nest) -> Operation | None:
    """Return the only atomic operation of a kernel, or None.

    The result is None unless the kernel is a single loop without branches, stores or other atomic operations.
    """
    found = [o for o in nest.item if o.opcode == "atomic"]
    if len(nest.levels) != 1 or len(found) != 1 or any(o.opcode == "store" or has_control_flow(o) for o in nest.item):
        return None
    return found[0] if not any(o.regions for o in nest.item) else None


@dataclass(frozen=True, slots=True)
class PrivateScatter(Decision):
    """The parameter of this schedule: the number of accumulators per block."""

    room: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> PrivateScatter | None:
    """Return the parameters of this schedule, or None if it does not fit."""
    atomic = find_scatter(nest)
    if atomic is None or "scatter_size" not in kernel.attributes:
        return None
    scatter_size, elements = sizes[kernel.attributes["scatter_size"]], sizes[nest.levels[0].extent.name]
    room, most = LEAST_ROOM, MOST_BYTES // _accumulator_dtype(kernel, atomic).itemsize
    while room < scatter_size and room <= most:
        room *= 2
    return PrivateScatter(room) if room <= most and elements >= LEAST_ELEMENTS * scatter_size else None


def write(kernel: Kernel, nest: Nest, decision: PrivateScatter, target: Target) -> Kernel:
    """Lower a scatter to a GPU kernel in which each block accumulates in shared memory."""
    atomic = find_scatter(nest)
    assert atomic is not None
    w = ThreadWriter(kernel, nest, GPU.block)
    kind, dtype = atomic.attributes["kind"], _accumulator_dtype(kernel, atomic)
    scatter_size = next(w.map[p.value] for p in kernel.parameters if p.value.name == kernel.attributes["scatter_size"])
    # subtractions are accumulated as negative sums
    nothing = w.number(identity_of("add" if kind == "subtract" else kind, dtype), dtype)
    held = w.shared_array(dtype, decision.room)
    with w.loop(scatter_size, w.thread, step=GPU.block) as index:
        w.builder.store(held, index, nothing)
    w.barrier()
    _elements(w, nest, atomic, held)
    w.barrier()
    pointer = w.map[atomic.operands[0]]
    result = atomic.results[0].type
    with w.loop(scatter_size, w.thread, step=GPU.block) as index:
        value = w.builder.load(held, index)
        with w.when(w.builder.op("not_equal", value, nothing)):
            whole = w.builder.cast(value, result)  # type: ignore[arg-type]
            after = "add" if kind == "subtract" else kind
            w.builder.emit("atomic", (pointer, index, whole), (result,), kind=after)
    return w.finish("scatter", GPU.block * LEAST_ELEMENTS, most_blocks=MOST_BLOCKS)


def _elements(w: ThreadWriter, nest: Nest, atomic: Operation, held: Value) -> None:
    """Emit code that updates a block's accumulators."""
    (level,) = nest.levels
    lanes, vectors = vector_lanes(w.builder.kernel, nest)
    extent = w.map[level.extent]
    dtype = held.element
    before = [o for o in nest.item if o is not atomic]

    def accumulate(index: Value, value: Value) -> None:
        kept = value if value.type == dtype else w.number(1, dtype)
        w.builder.emit("atomic", (held, index, kept), (dtype,), kind=atomic.attributes["kind"], scope="block")

    own = w.compute("add", w.compute("multiply", w.block, GPU.block), w.thread)
    apart = w.compute("multiply", w.grid, GPU.block)
    count = w.compute("right_shift", extent, lanes.bit_length() - 1)
    with w.builder.loop(count, "serial", start=own, step_by=apart, rolled=True, opaque=True) as opened:
        writer = LaneWriter(w, lanes, vectors)
        slot = writer.slot(w.compute("multiply", opened.index, lanes))
        writer.begin([slot], level.index)
        writer.copy(before, [slot], level.index)
        for lane in range(lanes):
            accumulate(*(writer.value(slot, lane, v) for v in atomic.operands[1:]))
    rest = w.compute("bitwise_and", extent, lanes - 1)
    with w.when(w.test("less", own, rest)):
        w.map[level.index] = w.compute("add", w.compute("subtract", extent, rest), own)
        w.copy(before)
        accumulate(*(w.map[v] for v in atomic.operands[1:]))


def _accumulator_dtype(kernel: Kernel, atomic: Operation) -> np.dtype:
    """Return the dtype of the accumulators in shared memory."""

    # 32 bits suffice for counts, and are faster
    value = atomic.operands[2]
    return _COUNT if kernel.constants().get(value) == 1 and atomic.attributes["kind"] == "add" else value.dtype
