"""Vectorization of CPU scatters, whose loops are split into blocks.

In: a logical kernel before `choose_lanes`. Out: the kernel with one serial loop split into blocks. The loop only stores
computed values at computed indices, or updates the elements there, and the computation takes some work. Each block
first computes its indices and values into thread-local memory, then executes its writes. Invariant: the writes keep
their order, and no memory that is read ahead is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value
from weft.codegen.passes.inline_rows import has_control_flow
from weft.codegen.passes.rewrite import Copier, Replaced, Rewriter

# Number of elements of a block; and the minimum number of operations, besides loads, casts and constants, for which a
# split is worthwhile.
BLOCK = 512
LEAST_WORK = 8
_EASY = frozenset({"constant", "cast", "load", "store", "yield"})


def cut_scatters(kernel: Kernel) -> Kernel:
    """Split the first scatter loop with enough work into blocks.

    Return the kernel unchanged if there is no such loop, or if the loop reads memory that may be written, other than
    the elements that it updates.

    Only loops directly inside a parallel loop are split. The threads divide the iterations of the parallel loop.
    """
    shared = [o for o in kernel.body.operations if o.opcode == "for" and o.attributes["role"] == "parallel"]
    inside = (inner for outer in shared for inner in outer.regions[0].operations)
    found = next((s for o in inside if (s := _Scatter.find(o)) is not None), None)
    unwritten = {p.value for p in kernel.parameters if p.noalias and not p.writable}
    if found is None or any(o.opcode == "load" and o.operands[0] not in unwritten for o in found.ahead):
        return kernel
    return _Cutter(kernel, found).run()


def serialize_inner_loops(kernel: Kernel) -> Kernel:
    """If a parallel loop is directly inside a serial loop, make the parallel loop serial, too.

    Only outer loops use several threads. This pass runs after lanes are chosen.
    """
    for outer in kernel.walk():
        if outer.opcode == "for" and outer.attributes["role"] == "serial":
            for inner in outer.regions[0].operations:
                if inner.opcode == "for" and inner.attributes["role"] == "parallel":
                    inner.attributes = {**inner.attributes, "role": "serial"}
    return kernel


@dataclass(frozen=True)
class _Scatter:
    """A serial loop whose last operation stores or updates an array element.

    It computes the values in `kept` by the operations `ahead`, and writes them by the operations `writes`.
    """

    loop: Operation
    ahead: list[Operation]
    writes: list[Operation]
    kept: list[Value]

    @classmethod
    def find(cls, loop: Operation) -> _Scatter | None:
        """Return a description of a loop that scatters computed values, if it is worthwhile to split the loop. Otherwise, return None."""
        if loop.opcode != "for" or loop.attributes["role"] != "serial" or loop.results:
            return None
        if loop.attributes.get("step", 1) != 1 or "step_from" in loop.attributes:
            return None
        *body, _ = loop.regions[0].operations
        if not body or body[-1].opcode != "store" or any(o.regions or has_control_flow(o) for o in body):
            return None
        pointer, index, value = body[-1].operands
        old = [o for o in body if o.opcode == "load" and o.operands == (pointer, index)]
        updates = [o for o in body if value in o.results and any(v in o.operands for each in old for v in each.results)]
        users = [o for o in body if old and old[0].results[0] in o.operands]
        if old and (len(old) > 1 or not updates or users != updates):
            return None
        writes = [*old, *updates, body[-1]] if old else [body[-1]]
        ahead = [o for o in body if o not in writes]
        made = {v for o in ahead for v in o.results}
        kept = list(dict.fromkeys(v for o in writes for v in o.operands if v in made))
        if any(o.opcode == "store" for o in ahead) or any(isinstance(v.type, Pointer) for v in kept):
            return None
        work = sum(o.opcode not in _EASY for o in ahead)
        return cls(loop, ahead, writes, kept) if work >= LEAST_WORK and kept else None


class _Cutter(Rewriter):
    """Rewriter that copies a kernel and splits its scatter loop into blocks."""

    def __init__(self, kernel: Kernel, scatter: _Scatter) -> None:
        super().__init__(kernel)
        self.scatter = scatter

    def structured(self, operation: Operation, operands: list[Replaced]) -> None:
        if operation is not self.scatter.loop:
            super().structured(operation, operands)
            return
        b, scatter = self.builder, self.scatter
        start, stop = operands
        index = operation.regions[0].parameters[0]
        with b.at(0):
            memory = [b.local(v.type, BLOCK) for v in scatter.kept]
        with b.loop(stop, "serial", start=start, step=BLOCK) as blocks:
            end = b.op("minimum", b.op("add", blocks.index, b.constant(BLOCK)), stop)
            with b.loop(end, "parallel", start=blocks.index) as first:
                known = {index: first.index}
                Copier(b, known).copy(scatter.ahead)
                at = b.op("subtract", first.index, blocks.index)
                for pointer, value in zip(memory, scatter.kept, strict=True):
                    b.store(pointer, at, known[value])
            with b.loop(end, "serial", start=blocks.index) as second:
                at = b.op("subtract", second.index, blocks.index)
                known = {index: second.index}
                for pointer, value in zip(memory, scatter.kept, strict=True):
                    known[value] = b.load(pointer, at)
                Copier(b, known).copy(scatter.writes)
