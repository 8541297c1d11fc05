"""Loop nests of kernels: ordering and merging of the loops of fused operations.

In: a `Group`. Out: a `Nest` with the new position of each loop of the group. Invariant: of the loops whose order is
free, the innermost has the smallest memory strides. Two loops are merged only if every index treats them as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.fusion.graph.expr import Expr
from weft.fusion.graph.index_map import Affine
from weft.fusion.graph.sizes import least
from weft.fusion.plan.body import Loop, all_instructions
from weft.fusion.plan.group import Group, Placed


@dataclass(slots=True)
class Nest:
    """The loops of a kernel that runs a group of fused operations. They were reordered and merged. `position` maps old loop numbers to new ones."""

    outer: list[Loop]
    inner: list[Loop]
    position: dict[int, int]  # group loop -> position in outer + inner; loops that were merged away are missing

    def rewrite(self, form: Affine) -> Affine:
        """Convert an affine index over the group's loops to an index over the kernel's loops."""
        return form[0], tuple(sorted((self.position[k], c) for k, c in form[1] if k in self.position))


# What is accessed (a value, or the name of an index), the flat index, the element size, and the weight of the access in
# the choice of the loop order: writes have twice the weight of reads.
Access = tuple[Expr | str, Affine, int, int]


def all_accesses(group: Group) -> list[Access]:
    """Return all array accesses of a group, and all indices that the code uses as values (as in `argmin`)."""
    found: list[Access] = []
    for p in group.placed:
        for i in all_instructions(p.task.body):
            if i.kind in ("read", "gather"):
                found.append((i.node, p.flat(i.index), i.node.dtype.itemsize, 1))
            elif i.kind == "iota":
                found.append(("iota", p.flat(i.index), 1, 1))
        found.append((p.task.node, p.flat(p.task.target), p.task.node.dtype.itemsize, 2))
        if p.task.node.op in ("argmin", "argmax"):
            found.append(("position", reduction_position(p), 1, 1))
    return found


def reduction_position(placed: Placed) -> Affine:
    """Return the position of the current element, counted in C order over the reduced elements, as an expression in the group's loop indices."""
    terms = []
    step = 1
    own = placed.task.loops
    for k in reversed(range(len(own))):
        if own[k].role == "reduce":
            terms.append((placed.loops[k], step))
            step *= own[k].extent
    return 0, tuple(sorted(terms))


# In bytes. The hardware prefetcher does not distinguish strides of this size and above.
PAGE = 1 << 12


def make_nest(group: Group) -> Nest:
    """Return the loops of a group's kernel in the order of `order_loops`, merged where possible."""
    keys = range(len(group.loops))
    outer = [k for k in keys if group.loops[k].role == "parallel"]
    inner = [k for k in keys if group.loops[k].role != "parallel"]
    (outside, inside), position = arrange_loops(group, (outer, inner))
    return Nest(outside, inside, position)


def arrange_loops(group: Group, classes: Sequence[list[int]]) -> tuple[list[list[Loop]], dict[int, int]]:
    """Order and merge the loops within each list of `classes`. The loops of the first list are outside all others.

    Return the loops of each list, and the new position of each loop of the group that was not merged away.
    """
    accesses = all_accesses(group)
    coefficients = [dict(terms) for _, (_, terms), _, _ in accesses]
    position: dict[int, int] = {}
    result: list[list[Loop]] = []
    for members in classes:
        names = order_loops(group, members, accesses)
        merged: list[Loop] = []
        before = sum(len(loops) for loops in result)
        for n, k in enumerate(names):
            loop = group.loops[k]
            outside = names[n - 1]
            if merged and all(c.get(outside, 0) == loop.extent * c.get(k, 0) for c in coefficients):
                # the enclosing loop continues this loop
                merged[-1] = Loop(merged[-1].extent * loop.extent, loop.role)
                del position[outside]
            else:
                merged.append(loop)
            position[k] = before + len(merged) - 1
        result.append(merged)
    return result, position


def order_loops(group: Group, members: list[int], accesses: list[Access]) -> list[int]:
    """Return the loops `members` in kernel order, outermost first."""
    ordered = any(loop.role in ("scan", "serial") for loop in group.loops)
    if ordered and any(group.loops[k].role != "parallel" for k in members):
        return members

    def step_bytes(k: int) -> int:
        steps = ((abs(c) * size, times) for _, (_, terms), size, times in accesses for loop, c in terms if loop == k)
        return sum(times * least(step, PAGE) for step, times in steps)

    return sorted(members, key=lambda k: -step_bytes(k))


def _distinct_accesses(group: Group) -> set[tuple[Expr | str, Affine, int]]:
    return {(value, form, size) for value, form, size, _ in all_accesses(group)}


# Up to this stride, whole vectors are loaded, and elements are extracted from them.
MOST_STEP = 4


def reduces_across(group: Group, nest: Nest) -> bool:
    """Return whether each vector lane of a CPU reduction should compute a result of its own. Otherwise, the lanes compute parts of one result."""
    last = len(nest.outer) + len(nest.inner) - 1
    reads = [dict(nest.rewrite(form)[1]) for node, form, _ in _distinct_accesses(group) if isinstance(node, Expr)]

    def score(loop: int) -> int:
        return sum(_stride_score(steps[loop]) for steps in reads if last in steps and loop in steps)

    own = max(0, score(last))
    return any(score(k) > own for k in range(len(nest.outer)))


def _stride_score(step: int) -> int:
    """Return the score of a stride: 2 if it is contiguous, 1 if it is small and positive, else -1."""
    return 2 if step in (1, -1) else 1 if 0 < step <= MOST_STEP else -1


def is_contiguous_across(group: Group, nest: Nest) -> bool:
    """Return whether a reduction steps across contiguous memory, like ``a.sum(axis=0)`` in C order. The majority of the accessed bytes decides."""
    if not nest.outer or not nest.inner:
        return False
    last = len(nest.outer) - 1
    balance = 0
    for _, form, size in _distinct_accesses(group):
        steps = dict(nest.rewrite(form)[1])
        if all(k > last for k in steps):
            continue  # the same elements for every result, and therefore cached
        along, across = steps.get(len(nest.outer) + len(nest.inner) - 1, 0), steps.get(last, 0)
        if along:
            balance += size * ((abs(across) == 1) - (abs(along) == 1))
    return balance > 0
