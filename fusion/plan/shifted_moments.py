"""Shifted moments: sums of ``(x - mean)**2``, ``exp(x - maximum)`` or ``exp2(x - maximum)``. The mean or maximum is called the shift.

In: the task of a sum, and the tasks that it may read. Out: the reduction of the same elements that computes the shift,
if there is one. Invariant: a shifted moment may be computed block by block with each block's own shift. The sums of the
blocks are then converted to the common shift (Chan, Golub and LeVeque 1979), so that the elements are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from weft.codegen import KernelBuilder, Value
from weft.fusion.graph.expr import Expr, is_number
from weft.fusion.plan.body import Instruction
from weft.fusion.plan.task import ShiftedMoment, Task

# Functions of the difference from the maximum. The other moments are squares of the difference from the mean.
EXPONENTIALS = ("exp", "exp2")


def find_shifted_moment(task: Task, find: Callable[[Expr], Task | None]) -> ShiftedMoment | None:
    """If `task` is a sum such as ``sum((x - mean)**2)``, return a `ShiftedMoment`, otherwise None. The function `find` maps a value to its task."""
    if task.kind != "reduce" or task.node.op != "add" or task.node.dtype.char not in "fd":
        return None
    result = task.body[task.result]
    distances = _differences(task)
    if not distances:
        return None
    function = "square" if result.node.op == "multiply" else result.node.op
    # the shift of exponentials is the value that is subtracted
    for side in (1, 0) if function == "square" else (1,):
        at = tuple(sorted({task.body[k].operands[side] for k in distances}))
        found = [_find_shift(task, function, k, find) for k in at]
        if found[0] is None or any(other != found[0] for other in found):
            continue
        centre, divisor = found[0]
        if _same_values(task, [task.body[k].operands[1 - side] for k in distances], centre):
            terms = (task.result, distances[0]) if divisor is not None else (task.result,)
            return ShiftedMoment(function, centre, at, terms, side == 0, divisor)
    return None


def _differences(task: Task) -> list[int]:
    """If a task sums the squares or exponentials of differences, return the indices of the subtractions in its body, otherwise []."""
    body, result = task.body, task.body[task.result]
    if result.kind != "map" or result.node.op not in ("square", "multiply", *EXPONENTIALS):
        return []
    for i in (result, *(body[k] for k in result.operands)):
        if i.kind != "map" or any(dtype != task.node.dtype for dtype in (*i.node.attrs, i.node.dtype)):
            return []
    found = sorted(set(result.operands))
    return found if all(body[k].node.op == "subtract" for k in found) else []


def _find_shift(
    task: Task, function: str, at: int, find: Callable[[Expr], Task | None]
) -> tuple[Task, Expr | None] | None:
    """Find the reduction task that computes a shift. The shift is the value of the instruction with index `at`.

    For a mean, return the task of its sum, and the divisor. For a maximum, return its task and None. Otherwise return None.
    """
    if function != "square":
        centre = _reduction_read(task, at, find)
        return (centre, None) if centre is not None and centre.node.op == "maximum" else None
    quotient, instruction = task, task.body[at]
    if instruction.kind == "read":
        # a mean that is materialized has the same layout as the sum
        mean = find(instruction.node)
        if mean is None or mean.kind != "map" or instruction.index != task.target:
            return None
        quotient, instruction = mean, mean.body[mean.result]
    if instruction.kind != "map" or instruction.node.op != "divide":
        return None
    total, below = instruction.operands
    divisor, kind = quotient.body[below], task.node.dtype
    if divisor.kind != "constant" or any(dtype != kind for dtype in (*instruction.node.attrs, instruction.node.dtype)):
        return None
    centre = _reduction_read(quotient, total, find)
    count = prod(loop.extent for loop in task.loops if loop.role == "reduce")
    if centre is None or centre.node.op != "add" or not is_number(divisor.node, count):
        return None
    return centre, divisor.node


def _reduction_read(task: Task, at: int, find: Callable[[Expr], Task | None]) -> Task | None:
    """If the instruction with index `at` reads a reduction's result for the current row, return the task of the reduction, otherwise None."""
    read = task.body[at]
    found = find(read.node) if read.kind == "read" and read.index == task.target else None
    return found if found is not None and found.kind == "reduce" else None


def _same_values(task: Task, values: list[int], centre: Task) -> bool:
    """Return whether two reduction tasks, `task` and `centre`, process the same elements with the same loops and dtype.

    `centre` computes a mean or maximum. `task` subtracts it from the elements that the instructions `values` compute.
    """
    if (centre.loops, centre.target, centre.node.dtype) != (task.loops, task.target, task.node.dtype):
        return False
    numbers = _Numbers()

    def number(owner: Task, made: list[int], k: int) -> int:
        return numbers.cast(made[k], owner.body[k].node.dtype, task.node.dtype)

    own, theirs = numbers.number(task.body), numbers.number(centre.body)
    return {number(task, own, k) for k in values} == {number(centre, theirs, centre.result)}


class _Numbers:
    """Value numbering of instructions, which gives equal numbers to equal computations."""

    def __init__(self) -> None:
        self.table: dict[object, int] = {}

    def _of(self, key: object) -> int:
        return self.table.setdefault(key, len(self.table))

    def cast(self, number: int, kind: np.dtype, wanted: np.dtype) -> int:
        return number if kind == wanted else self._of(("cast", kind, wanted, number))

    def number(self, body: Iterable[Instruction]) -> list[int]:
        made: list[int] = []
        dtypes: list[np.dtype] = []
        for i in body:
            node = i.node
            operands = tuple(made[k] for k in i.operands)
            match i.kind:
                case "map" if node.op == "cast":
                    key: object = ("cast", *node.attrs, node.dtype, *operands)
                case "map":
                    typed = zip(operands, (dtypes[k] for k in i.operands), node.attrs, strict=True)
                    key = (node.op, node.dtype, i.index, *(self.cast(*own) for own in typed))
                case "constant":
                    key = ("constant", node.dtype, node.attrs)
                case "iota":
                    key = ("iota", node.dtype, i.index)
                case "choose":
                    key = ("choose", len(self.table), object())  # no other value is known to be equal
                case _:
                    key = (i.kind, node, i.index, i.factors, operands)
            made.append(self._of(key))
            dtypes.append(node.dtype)
        return made


def with_own_shift(task: Task) -> tuple[Task, Task]:
    """Split a sum such as ``sum((x - mean)**2)`` into two tasks for one kernel: one recomputes the mean (the shift),
    the other computes the sum.

    The kernel then depends neither on a shift in memory nor on the kernel that computes the original shift.
    """
    shifted = task.shifted
    assert shifted is not None
    old = shifted.centre.node
    again = Expr(old.kind, old.op, old.operands, old.attrs, old.shape, old.dtype, old.location)
    centre = replace(shifted.centre, node=again)
    renamed = task.renamed({old: again})
    return centre, replace(renamed, shifted=replace(shifted, centre=centre))


def shift_sums(
    b: KernelBuilder, shifted: ShiftedMoment, sums: Sequence[Value], own: Value, common: Value, count: Value
) -> list[Value]:
    """Emit code that converts a block's sum ``sum((x - own)**2)`` to ``sum((x - common)**2)``.

    `own` is the block's own shift, and `common` the shift of all blocks.

    The block has `count` elements. Other sums contain an exponential instead of the square. With squares, the sum of the
    differences is converted too. If all elements of a block are -inf, their differences from the maximum are NaN. Such a
    block contributes 0 if other blocks have larger elements.
    """
    if shifted.divisor is not None:
        squares, distances = sums
        away = b.op("subtract", *((common, own) if shifted.turned else (own, common)))
        moved = b.op("multiply", count, away)
        twice = b.op("add", b.op("add", distances, distances), moved)
        finite = b.op("isfinite", squares)  # (an infinity or NaN is already the result)
        there = b.op("add", squares, b.op("multiply", away, twice))
        return [b.op("where", finite, there, squares), b.op("add", distances, moved)]
    kind = own.type
    lowest = b.constant(-np.inf, kind)
    outside = b.op("not_equal", common, lowest)
    nothing = b.op("bitwise_and", b.op("equal", own, lowest), outside)
    scaled = b.op("multiply", sums[0], b.op(shifted.function, b.op("subtract", own, common)))
    return [b.op("where", nothing, b.constant(0, kind), scaled)]


def total_of_squares(b: KernelBuilder, sums: Sequence[Value], count: Value) -> Value:
    """Return the sum of squared deviations from the mean, with the mean's rounding error corrected."""
    squares, distances = sums
    rest = b.op("multiply", b.op("divide", distances, count), distances)
    better = b.op("maximum", b.op("subtract", squares, rest), b.constant(0, squares.type))
    return b.op("where", b.op("isfinite", squares), better, squares)
