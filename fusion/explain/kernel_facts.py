"""Facts about kernels that profiles and explanations show.

In: the group of tasks that a kernel computes. Out: its operations, and their arithmetic costs.
"""

from __future__ import annotations

from math import prod

from weft.codegen import find_op
from weft.fusion.graph.expr import Location
from weft.fusion.plan.body import Instruction, all_instructions
from weft.fusion.plan.group import Group
from weft.fusion.plan.steps import KernelFacts


def facts_of(group: Group) -> KernelFacts:
    """Return the facts that profiles show about a group's kernel."""
    location = next((p.task.node.location for p in group.placed if p.task.node.location is not None), None)
    return KernelFacts(tuple(dict.fromkeys(list_operations(group))), instructions_of(group), location)


def list_operations(group: Group) -> list[tuple[str, Location | None]]:
    """Return the operations of a kernel, without casts, and their source locations (or None)."""
    members: list[tuple[str, Location | None]] = []
    for p in group.placed:
        for i in all_instructions(p.task.body):
            if i.kind == "map" and i.node.op != "cast" and i.node.operands:  # (not index arithmetic)
                members.append((i.node.op, i.node.location))
        if p.task.kind != "map":
            members.append((f"{p.task.kind} {p.task.node.op}".strip(), p.task.node.location))
    return members or [("copy", None)]


def instructions_of(group: Group) -> int:
    """Return the approximate number of instructions that a group's kernel executes per element."""
    return sum(cost for cost, _ in _instructions(group))


def work_of(group: Group) -> int:
    """Return the total arithmetic cost of a kernel, in float32 operations."""
    points = prod(loop.extent for loop in group.loops)
    wide = sum(
        cost * max(1, max(d.itemsize for d in (*i.node.attrs, i.node.dtype)) // 4) for cost, i in _instructions(group)
    )
    return points * wide


def _instructions(group: Group) -> list[tuple[int, Instruction]]:
    """Return the cost and the instruction of each operation of a kernel. Casts are omitted.

    Equal operations of tasks of the same stage are counted once.
    """
    found: dict[object, tuple[int, Instruction]] = {}
    known: dict[object, int] = {}  # equal operations have equal numbers
    for p in group.placed:
        numbers: list[int] = []
        for i in p.task.body:
            index = p.flat(i.index) if i.kind in ("read", "gather", "iota") else None
            what = (i.node.op, i.node.attrs, i.node.dtype) if i.kind in ("map", "constant", "scalar") else i.node
            key = (p.stage, i.kind, what, index, i.factors, tuple(numbers[k] for k in i.operands))
            numbers.append(known.setdefault(key, len(known)))
            for part in all_instructions([i]):
                if part.kind == "map" and part.node.op != "cast":
                    inside = numbers[-1] if part is i else (numbers[-1], part.node, part.operands)
                    found[inside] = (find_op(part.node.op).cost, part)
    return list(found.values())
