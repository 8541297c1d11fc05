"""The structure of a logical kernel: its parallel loops and their body.

In: a logical kernel. Out: a `Nest`, and properties of it: which loops can be distributed over threads, which
dimension is contiguous, and how many registers a body needs. The kernel is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.index_steps import index_steps


@dataclass(frozen=True, slots=True)
class Level:
    """A parallel loop of a kernel, with the operations that precede it in the enclosing loop or kernel."""

    before: tuple[Operation, ...]
    loop: Operation

    @property
    def index(self) -> Value:
        """The index of the loop."""
        return self.loop.regions[0].parameters[0]

    @property
    def extent(self) -> Value:
        """The extent of the loop."""
        return self.loop.operands[1]


@dataclass(frozen=True, slots=True)
class Nest:
    """The parallel loops of a kernel (`levels`), and the operations in their innermost body (`item`).

    The outermost loop comes first.
    """

    levels: tuple[Level, ...]
    item: tuple[Operation, ...]

    @property
    def inward(self) -> list[Operation]:
        """The operations between a parallel loop and the next inner one. All inner iterations share the results."""
        return [o for level in self.levels[1:] for o in level.before]

    @property
    def operations(self) -> list[Operation]:
        """All operations of one iteration of the parallel loops, in order."""
        return [*self.inward, *self.item]

    def points(self, sizes: Mapping[str, int]) -> int:
        """Return the number of iterations of all parallel loops for the given sizes."""
        return prod(sizes[level.extent.name] for level in self.levels)


def find_nest(kernel: Kernel) -> Nest:
    """Return the nested parallel loops of a kernel, with the body of the innermost loop.

    Each loop ends the body of the loop around it, and no other loop or store precedes it there. The loops start at 0,
    and their extents are known at the launch. Other parallel loops are part of the body.
    """
    outside = {p.value for p in kernel.parameters}
    levels: list[Level] = []
    zeros = {v for v, number in kernel.constants().items() if number == 0}
    block: Block = kernel.body
    while True:
        operations = _without_yield(block)
        if not levels:
            outside.update(v for o in operations for v in o.results)
        *before, last = operations or [Operation("yield")]
        nests = (
            last.opcode == "for"
            and last.attributes["role"] == "parallel"
            and not last.results
            and last.operands[0] in zeros
            and last.operands[1] in outside
            and not has_regions(before)
            and not has_stores(before)
        )
        if not nests:
            return Nest(tuple(levels), tuple(operations))
        levels.append(Level(tuple(before), last))
        block = last.regions[0]


def _without_yield(block: Block) -> list[Operation]:
    return [o for o in block.operations if o.opcode != "yield"]


def has_stores(operations: Iterable[Operation]) -> bool:
    """Return whether any of `operations`, or any operation nested in them, writes memory."""
    return any(o.opcode in ("store", "atomic") for o in program_order(operations))


def has_regions(operations: Iterable[Operation]) -> bool:
    """Return whether any of `operations` has a region, such as a loop or a branch."""
    return any(o.regions for o in operations)


def is_spread(operation: Operation) -> bool:
    """Return whether an operation is a loop whose iterations several threads may share."""
    return operation.opcode == "for" and operation.attributes["role"] in ("reduce", "parallel")


def reduction_chain(loop: Operation) -> list[Operation]:
    """Return a loop and the loops nested in it. Stop before a loop whose iterations the threads cannot share.

    Each loop ends the body of the loop around it, and no other loop or store precedes it there. The bounds of each loop
    are invariant in the loops around it, and all loops have the same accumulators.
    """
    chain = [loop]
    inside = set(loop.regions[0].parameters)
    while True:
        region = chain[-1].regions[0]
        operations = _without_yield(region)
        # constants are the same everywhere
        inside.update(v for o in operations if o.opcode != "constant" for v in o.results)
        if not operations or not is_spread(operations[-1]):
            return chain
        inner = operations[-1]
        straight = (
            inner.attributes.get("combine", ()) == loop.attributes.get("combine", ())
            and inner.operands[2:] == region.parameters[1:]
            and region.operations[-1].operands == inner.results
            and not any(v in inside for v in inner.operands[:2])
            and not has_regions(operations[:-1])
            and not has_stores(operations[:-1])
        )
        if not straight:
            return chain
        chain.append(inner)
        inside.update(inner.regions[0].parameters)


def prefers_columns(nest: Nest, loops: list[Operation]) -> bool:
    """Return whether adjacent threads should process adjacent columns, rather than share a row.

    They should if more accessed bytes are contiguous along the innermost parallel loop than along `loops`. Only
    accesses inside `loops` that depend on a parallel loop count. Those contiguous along both count for `loops`.
    """
    if not nest.levels:
        return False
    whole = [*nest.levels[0].loop.regions[0].operations]
    along = index_steps(whole, nest.levels[-1].index)
    straight = [o for o in program_order(whole) if o.opcode != "for"]  # (the start of a loop does not matter)
    domain = [index_steps(straight, level.index) for level in nest.levels]
    columns = rows = 0
    for loop in loops:
        inner = reduction_chain(loop)[-1]
        across = index_steps(whole, inner.regions[0].parameters[0])
        for operation in program_order([loop]):
            if operation.opcode in ("load", "store"):
                pointer, index = operation.operands[:2]
                if all(steps.get(index, 0) == 0 for steps in domain):
                    continue  # the same for every item, and therefore cached
                weight = pointer.element.itemsize
                columns += weight * (along.get(index, 0) in (1, -1) and across.get(index, 0) not in (1, -1))
                rows += weight * (across.get(index, 0) in (1, -1))
    return columns > rows


def pressure(operations: Iterable[Operation]) -> int:
    """Return the number of 32-bit registers that the results of `operations` need at the same time."""
    ordered = [o for o in program_order(operations) if o.opcode != "constant"]
    made = {v for o in ordered for v in o.results if not isinstance(v.type, Pointer)}
    last: dict[Value, int] = {}
    for at, operation in enumerate(ordered):
        for value in operation.operands:
            if value in made:
                last[value] = at
    live = most = 0
    ends: dict[int, int] = {}
    for at, operation in enumerate(ordered):
        for value in operation.results:
            if value in last:
                size = max(1, value.dtype.itemsize // 4)
                live += size
                ends[last[value]] = ends.get(last[value], 0) + size
        most = max(most, live)
        live -= ends.get(at, 0)
    return most
