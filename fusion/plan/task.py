"""Tasks, each of which computes one value that is written to memory.

In: a materialized expression, and the set of other materialized expressions. Out: a `Task`, whose body reads other
materialized values and computes everything else inline. Invariant: loops are split where a reshape splits axes, so
that most index divisions disappear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from weft.codegen import dtype_kind
from weft.fusion.graph.expr import Expr, constant, contiguous_strides
from weft.fusion.graph.index_map import (
    ZERO,
    Affine,
    Coordinates,
    broadcast,
    combine,
    decode_view,
    disjoint,
    flatten,
    reach,
    variable,
)
from weft.fusion.graph.sizes import common_divisor
from weft.fusion.plan.body import BodyBuilder, Instruction, Loop, Role, all_instructions

# Maximum number of attempts to split loops so that indices need no division; and minimum length of the innermost loop.
CUTS = 3
SHORTEST = 8


@dataclass
class Task:
    """The computation of a value that is written to memory: its loops, its code and its stores.

    An ``update`` overwrites a part of the previous version. A ``rebuild`` writes the new version to new memory, into
    which the elements before and after the written range are copied.
    """

    node: Expr
    kind: Literal["map", "reduce", "scan", "update", "rebuild", "scatter"]
    loops: list[Loop]
    body: list[Instruction]
    result: int  # index of the instruction whose value is stored or reduced
    target: Affine  # flat index of the element that is written
    indices: tuple[int, ...] = ()  # scatter: instructions that compute indices
    factors: tuple[int, ...] = ()
    shifted: ShiftedMoment | None = None
    window: Task | None = None  # rebuild: the task that would only update the box
    order: ReductionOrder | None = None

    def __post_init__(self) -> None:
        everything = list(all_instructions(self.body))
        self._size = len(everything)
        self._reads: list[tuple[Expr, Affine | None]] = [(i.node, i.index) for i in everything if i.kind == "read"]
        self._reads += [(i.node, None) for i in everything if i.kind == "gather"]

    def reads(self) -> list[tuple[Expr, Affine | None]]:
        """Return a pair for each read of a materialized value: the value, and the affine index of the element. For a gather, the index is None."""
        return self._reads

    def size(self) -> int:
        """Return the number of instructions, including those in branches."""
        return self._size

    @property
    def previous(self) -> Expr | None:
        """The version of the array before this task changes some of its elements. None for a task that computes all elements."""
        return self.node.operands[0] if self.kind in ("update", "rebuild", "scatter") else None

    def rounds(self) -> bool:
        """Return whether a task is a reduction or scan whose rounding depends on the order of evaluation."""
        exact = self.node.op in ("minimum", "maximum", "argmin", "argmax") or dtype_kind(self.node.dtype) not in "fc"
        return self.kind in ("reduce", "scan") and not exact

    def can_run_in_place(self) -> bool:
        """Return whether a task can update its array in place, by overwriting the array's previous version.

        A scatter must not read that version. Other tasks must read no element that another iteration overwrites.
        """
        if self.kind == "scatter":
            return all(node is not self.previous for node, _ in self.reads())
        extents = [loop.extent for loop in self.loops]
        return all(
            node is not self.previous
            or index == self.target
            or (index is not None and disjoint(index, self.target, extents))
            for node, index in self.reads()
        )

    def renamed(self, alias: Mapping[Expr, Expr]) -> Task:
        """Return a copy of the task that reads ``alias[v]`` instead of each value v in the mapping `alias`."""
        if alias.keys().isdisjoint(node for node, _ in self.reads()):
            return self
        window = self.window and self.window.renamed(alias)
        return replace(self, body=_renamed(self.body, alias), window=window)

    def signature(self) -> tuple[object, ...]:
        """Return a key of a reduction. Reductions with equal keys compute the same values."""
        node = self.node
        steps = tuple(
            (
                i.kind,
                i.node if i.kind in ("read", "gather") else (i.node.op, i.node.attrs, i.node.dtype),
                *_index_and_operands(i),
            )
            for i in all_instructions(self.body)
        )
        return node.op, node.dtype, tuple(self.loops), steps, self.result, self.target

    def written_range(self) -> tuple[int, int]:
        """Return the range of flat indices that a task writes. If the task may skip indices in between, return an empty range."""
        if self.kind == "scatter":
            return 0, 0
        start, terms = self.target
        length = 1
        for step, loop in sorted((c, loop) for loop, c in terms):
            if step != length:
                return 0, 0
            length *= self.loops[loop].extent
        return start, start + length


@dataclass(frozen=True, slots=True)
class ReductionOrder:
    """The order in which a task reduces elements.

    `block_length` is 0 if the reduction is not split. `across` states whether the lanes compute different results: see
    `is_contiguous_across` and `reduces_across` in `nest`.
    """

    loops: tuple[object, ...]
    block_length: int
    across: bool


@dataclass(frozen=True, slots=True)
class ShiftedMoment:
    """A sum of ``(x - shift)**2``, ``exp(x - shift)`` or ``exp2(x - shift)``, where the shift is the mean or the maximum of x.

    `function` is the square or the exponential, and the task `centre` computes the shift. `at` are the instructions of
    the sum's body that return the shift, and `terms` are the instructions whose values are summed. If `divisor` is not
    None, the shift is a mean: the sum of `centre`, divided by `divisor`. In this case the differences are also summed,
    as the last term. With `turned`, elements are subtracted from the shift.
    """

    function: str
    centre: Task
    at: tuple[int, ...]
    terms: tuple[int, ...]
    turned: bool = False
    divisor: Expr | None = None


def _renamed(body: Iterable[Instruction], alias: Mapping[Expr, Expr]) -> list[Instruction]:
    return [
        replace(
            i,
            node=alias.get(i.node, i.node) if i.kind in ("read", "gather") else i.node,
            branches=tuple(replace(b, instructions=tuple(_renamed(b.instructions, alias))) for b in i.branches),
        )
        for i in body
    ]


def _index_and_operands(i: Instruction) -> tuple[object, ...]:
    return i.index, i.operands, i.factors, tuple((len(branch.instructions), branch.result) for branch in i.branches)


def gather_index(
    terms: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...], base: tuple[int, ...], at: Coordinates
) -> tuple[Affine, tuple[int, ...], tuple[int, ...]]:
    """Return the affine part of a gather's flat index, and the index operands with their strides."""
    strides = contiguous_strides(base) if len(terms) == len(base) else (1,)
    parts: list[tuple[Affine, int]] = []
    start = 0
    which, factors = [], []
    for stride, (first, steps, operand) in zip(strides, terms, strict=True):
        start += first * stride
        parts.extend((at[axis], step * stride) for axis, step in steps)
        if operand >= 0:
            which.append(operand)
            factors.append(stride)
    return combine(start, tuple(parts)), tuple(which), tuple(factors)


# -- tasks ------------------------------------------------------------------------------------


def make_task(node: Expr, stored: set[Expr], first: list[Expr], short: Collection[Expr] = ()) -> Task:
    """Return the task for a value that is materialized: the loops and operations that compute the value and write it to memory.

    The task of a reduction includes reductions in `short` that it reads, unless its body would grow too large.

    Values that have to be computed before this task overwrites their operands are added to `stored` and to `first`.
    The tasks of these values must run before this task.
    """
    match node.kind:
        case "reduce":
            return _reduce_task(node, stored, short)
        case "scan":
            (operand,) = node.operands
            roles: list[Role] = ["scan" if k == node.attrs[0] else "parallel" for k in range(len(operand.shape))]
            loops, at, build, result = _compute(node, operand, stored, roles)
            return Task(node, "scan", loops, build.body, result, flatten(at, node.shape))
        case "update" if node.operands[0] in stored:
            return _update_task(node, stored, first)
        case "scatter":
            return _scatter_task(node, stored, first)
        case _:
            loops, at, build, result = _compute(node, node, stored)
            return Task(node, "map", loops, build.body, result, flatten(at, node.shape))


def _domain(
    shape: tuple[int, ...], roles: Sequence[Role] | Role = "parallel", cuts: dict[int, tuple[int, ...]] | None = None
) -> tuple[list[Loop], Coordinates]:
    """Return the loops over an array, and an element's coordinates in terms of the loop indices.

    There is one loop per axis whose length is not 1, or several if `cuts` lists lengths at which the axis is cut. Each
    length is a multiple of the previous one.
    """
    loops: list[Loop] = []
    coordinates = []
    for axis, n in enumerate(shape):
        if n == 1:
            coordinates.append(ZERO)
            continue
        pieces = (1, *(cuts or {}).get(axis, ()), n)
        terms = []
        for step, whole in zip(reversed(pieces[:-1]), reversed(pieces[1:]), strict=True):
            terms.append((variable(len(loops)), step))
            loops.append(Loop(whole // step, roles if isinstance(roles, str) else roles[axis]))
        coordinates.append(combine(0, tuple(terms)))
    return loops, tuple(coordinates)


def _compute(
    root: Expr, value: Expr, stored: set[Expr], roles: Sequence[Role] | Role = "parallel", spread: Collection[Expr] = ()
) -> tuple[list[Loop], Coordinates, BodyBuilder, int]:
    """Return the loops, coordinates, builder and result of the code that computes `value`."""
    cuts: dict[int, tuple[int, ...]] = {}
    best = None
    for _ in range(CUTS):
        loops, at = _domain(value.shape, roles, cuts)
        build = BodyBuilder(stored, root, loops, spread)
        result = build.value(value, at)
        if best is None or len(build.quotients) < len(best[2].quotients):
            best = loops, at, build, result
        more = _cut(value.shape, cuts, loops, at, build.quotients)
        if more == cuts:
            break
        cuts = more
    assert best is not None
    return best


def _cut(
    shape: tuple[int, ...],
    cuts: dict[int, tuple[int, ...]],
    loops: list[Loop],
    at: Coordinates,
    quotients: list[tuple[Affine, int]],
) -> dict[int, tuple[int, ...]]:
    """Choose axes to split into nested loops, so that index computations need fewer divisions. Return the block lengths for each axis."""
    axis_of = {loop: (axis, step) for axis, (_, terms) in enumerate(at) for loop, step in terms}
    wanted: dict[int, set[int]] = {axis: set(lengths) for axis, lengths in cuts.items()}
    for form, divisor in quotients:
        for loop, c in form[1]:
            length = divisor // common_divisor(divisor, c)
            if loop < 0 or not 1 < length < loops[loop].extent or loops[loop].extent % length:
                continue
            axis, step = axis_of[loop]
            innermost = prod(shape[axis + 1 :]) == 1
            if loops[loop].role != "scan" and not (innermost and length * step < SHORTEST):
                wanted.setdefault(axis, set()).add(length * step)
    result = {}
    for axis, lengths in wanted.items():
        chain: list[int] = []
        for length in sorted(lengths):
            if length % (chain[-1] if chain else 1) == 0:
                chain.append(length)
        result[axis] = tuple(chain)
    return result


# Maximum number of instructions of a body into which short reductions are unrolled.
SPREAD_LIMIT = 64


def _reduce_task(node: Expr, stored: set[Expr], short: Collection[Expr]) -> Task:
    """Return the task of a reduction. If the operand is computed from other, short reductions, the task may unroll and include them."""
    axes, keepdims = node.attrs
    (operand,) = node.operands
    if (
        operand.size == 0
    ):  # no elements may be read, not even outside of the loops: values computed from them might be used as indices
        operand = constant(0, operand.dtype, operand.shape)
    roles: list[Role] = ["reduce" if axis in axes else "parallel" for axis in range(len(operand.shape))]
    spread: set[Expr] = set()
    task: Task | None = None
    while True:
        loops, at, build, result = _compute(node, operand, stored, roles, spread)
        kept = tuple(ZERO if k in axes else c for k, c in enumerate(at) if keepdims or k not in axes)
        found = Task(node, "reduce", loops, build.body, result, flatten(kept, node.shape))
        if task is not None and found.size() > SPREAD_LIMIT:
            return task
        task = found
        more = {
            read
            for read, index in task.reads()
            if read in short and index is not None and any(loops[k].role == "reduce" for k, _ in index[1])
        }
        if not more:
            return task
        spread |= more


def _update_task(node: Expr, stored: set[Expr], first: list[Expr]) -> Task:
    value = node.operands[1]
    _, strides, offset = node.attrs
    loops, at, build, result = _compute(node, value, stored)
    target = combine(offset, tuple(zip(at, strides, strict=True)))
    task = Task(node, "update", loops, build.body, result, target)
    if not task.can_run_in_place() and value not in stored:
        rebuilt = _rebuild_task(node, stored)
        if rebuilt is not None:
            rebuilt.window = task
            return rebuilt
        # the value reads overwritten elements at other points, so it is computed first
        stored.add(value)
        first.append(value)
        return _update_task(node, stored, first)
    return task


# A version is rebuilt in new memory only if the unchanged elements are at most this share of the written elements.
REBUILT_SHARE = 0.5


def _rebuild_task(node: Expr, stored: set[Expr]) -> Task | None:
    """Return a task that writes the result of ``array[box] = value`` to new memory in one pass. The box is a rectangular part of the array.

    Outside of the box, the task writes the previous version. The value is also
    computed there, and discarded. Return None if this would read outside of an array, if the update
    is not a box, or if the box is too small.
    """
    previous, value = node.operands
    shape, strides, offset = node.attrs
    box = decode_view(previous.shape, shape, strides, offset)
    if box is None or any(len(terms) > 1 or any(step != 1 for _, step in terms) for _, terms in box):
        return None
    lengths = [shape[terms[0][0]] if terms else 1 for _, terms in box]
    first = next((d for d, n in enumerate(previous.shape) if n > 1), 0)
    # whole rows of the first dimension, but only those that the box intersects
    extents = [lengths[d] if d == first else n for d, n in enumerate(previous.shape)]
    if prod(extents) > prod(shape) * (1 + REBUILT_SHARE) or previous.size > prod(shape) * (1 + REBUILT_SHARE):
        return None
    loops, at = _domain(tuple(extents))
    coordinates = [ZERO] * len(shape)
    for d, (start, terms) in enumerate(box):
        for axis, _ in terms:
            coordinates[axis] = combine(0 if d == first else -start, ((at[d], 1),))
    build = BodyBuilder(stored, node, loops)
    result = build.value(value, tuple(coordinates))
    start = box[first][0] if box else 0
    target = flatten(tuple(combine(start, ((c, 1),)) if d == first else c for d, c in enumerate(at)), previous.shape)
    beside = [d for d in range(first + 1, len(box)) if lengths[d] < previous.shape[d]]
    if beside:
        conditions = [
            c for d in beside for c in build.within(at[d], box[d][0], box[d][0] + lengths[d], previous.shape[d])
        ]
        result = build.choose(conditions, result, build.read(previous, target))
    task = Task(node, "rebuild", loops, build.body, result, target)
    for read, index in task.reads():
        first, last = (-1, 0) if index is None else reach(index, build.extents)
        if first < 0 or last >= read.size:
            return None
    return task


def _scatter_task(node: Expr, stored: set[Expr], first: list[Expr]) -> Task:
    previous, value, *positions = node.operands
    terms, shape = node.attrs
    own = _own_axes(terms, previous.shape)
    loops, at = _domain(shape, ["parallel" if axis in own else "serial" for axis in range(len(shape))])
    build = BodyBuilder(stored, node, loops)
    result = build.value(value, at)
    operands = [build.value(p, broadcast(at, p.shape)) for p in positions]
    target, which, factors = gather_index(terms, previous.shape, at)
    task = Task(node, "scatter", loops, build.body, result, target, tuple(operands[w] for w in which), factors)
    late = [x for x in (value, *positions) if x not in stored]
    if late and any(read is previous for read, _ in task.reads()):
        stored.update(late)
        first.extend(late)
        return _scatter_task(node, stored, first)
    return task


def _own_axes(terms: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...], base: tuple[int, ...]) -> set[int]:
    """Return the axes of a scatter along which no two positions write the same element."""
    if len(terms) != len(base):
        return set()
    return {steps[0][0] for _, steps, operand in terms if operand < 0 and len(steps) == 1 and steps[0][1]}
