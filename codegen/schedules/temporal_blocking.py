"""The GPU schedule of temporal blocking.

One kernel computes several time steps. The tiles of the time steps are in shared memory.

In: a logical kernel written for this schedule: one parallel loop over blocks of work. Inside it, or inside serial
loops, are perfectly nested loops with constant extents over the points of a tile. These loops have the role reduce, and
their iterations may run in any order. Out: the threaded kernel: one thread block per block of work, with its `local`
arrays in shared memory, and one or a few points per thread in straight-line code. Invariant: a barrier follows each
tile. Within a tile, loads and stores of different threads to the same element have no defined order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from weft.codegen.kernel_ir.operation import Kernel, Operation, Value, program_order
from weft.codegen.schedules.decision import Decision
from weft.codegen.schedules.nest import Nest, has_stores, reduction_chain
from weft.codegen.schedules.writer import ThreadWriter
from weft.codegen.target import Target

# Registers per thread with which 6, 5 or 4 blocks fit a multiprocessor: while loads are in flight, other blocks run.
REGISTER_AIMS = (40, 48, 64)


@dataclass(frozen=True, slots=True)
class TemporalBlocking(Decision):
    """The parameter of temporal blocking on a GPU: the number of threads that share a tile."""

    threads: int


def fits(kernel: Kernel, nest: Nest, sizes: Mapping[str, int], exact: bool) -> TemporalBlocking | None:
    """If this schedule fits a kernel, return the parameters from the kernel's attributes, otherwise None."""
    given = kernel.attributes.get("schedule")
    return given if isinstance(given, TemporalBlocking) else None


def write(kernel: Kernel, nest: Nest, decision: TemporalBlocking, target: Target) -> Kernel:
    """Lower a kernel that computes several time steps to a kernel for GPU threads."""
    w = ThreadWriter(kernel, nest, decision.threads)
    w.builder.kernel.attributes["register_aims"] = REGISTER_AIMS
    w.bind(nest.levels, w.block)
    _StepWriter(w, kernel).copy(nest.item)
    return w.finish("temporal_blocking", 1, every=True)


class _StepWriter:
    """Writer of the code of one thread, which computes some elements of each tile."""

    def __init__(self, w: ThreadWriter, kernel: Kernel) -> None:
        self.w = w
        self.constants = kernel.constants()

    def copy(self, operations: tuple[Operation, ...] | list[Operation]) -> None:
        """Emit a thread's code for `operations`. For each tile, the threads divide the elements among themselves."""
        for o in operations:
            if o.opcode == "local":
                self.w.map[o.results[0]] = self.w.shared_array(o.results[0].element, o.attributes["count"])
            elif o.opcode == "for" and o.attributes["role"] == "reduce":
                self._tile(o)
                self.w.barrier()
            elif o.opcode == "for" and any(
                inner.opcode == "for" and inner.attributes["role"] == "reduce" for inner in program_order([o])
            ):
                with self.w.loop(self.w.map[o.operands[1]], self.w.map[o.operands[0]], rolled=True) as index:
                    self.w.map[o.regions[0].parameters[0]] = index
                    self.copy(o.regions[0].operations)
            elif o.opcode != "yield":
                self.w.copy([o])

    def _tile(self, loop: Operation) -> None:
        """Emit the code for this thread's elements of a tile, with all loads before the stores."""
        levels = reduction_chain(loop)
        *between, body = ([o for o in level.regions[0].operations if o.opcode != "yield"] for level in levels)
        before = [o for operations in between for o in operations[:-1]]
        extents = [int(self.constants[level.operands[1]]) for level in levels]
        points = prod(extents)
        assert points % self.w.threads == 0
        first = next((k for k, o in enumerate(body) if has_stores([o])), len(body))
        known = []
        outside = dict(self.w.map)
        for slot in range(points // self.w.threads):
            self.w.map = dict(outside)
            self._set_indices(levels, extents, slot * self.w.threads)
            self.w.copy([*before, *body[:first]])
            known.append(self.w.map)
        for found in known:
            self.w.map = found
            self.w.copy(body[first:])
        self.w.map = outside

    def _set_indices(self, levels: list[Operation], extents: list[int], slot: int) -> None:
        """Set the indices of the loops over a tile, so that they select element number ``slot + thread index``."""
        w = self.w
        rest = w.thread
        for level, extent in list(zip(levels, extents, strict=True))[:0:-1]:
            rest, w.map[_index(level)] = w.split(rest, extent)
            assert w.threads % extent == 0
        apart = slot // prod(extents[1:])
        w.map[_index(levels[0])] = w.compute("add", rest, apart) if apart else rest


def _index(loop: Operation) -> Value:
    return loop.regions[0].parameters[0]
