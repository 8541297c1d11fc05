"""Tasks: what has to be stored, and the straight-line code that computes each stored value.

In: the expressions that an evaluation wants. Out: the set of values that are given memory and
one `Task` for each, whose body reads other stored values and computes everything else in place.
Always true: a body mentions each (value, index map) once, however often it is used.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.codegen.ops import find_op
from weft.fusion.expr import Expr, constant, contiguous_strides, iota, map_
from weft.fusion.index_map import (
    ZERO,
    Affine,
    Coordinates,
    broadcast,
    combine,
    decode_view,
    flatten,
    through_view,
    variable,
)

# A value is stored rather than computed again at each index map once that would cost more
# instructions an element than writing and reading it back does (budget: planner notes, 62 on a GPU;
# a CPU does fewer instructions for a byte of traffic).
RECOMPUTE_LIMIT = 24
# Inlined operations of one value at most: bounds the size of a kernel and the time to compile it.
INLINE_LIMIT = 400

# Kinds whose value always has memory of its own.
ALWAYS_STORED = frozenset({"leaf", "empty", "reduce", "scan", "update", "scatter", "opaque"})

Role = Literal["parallel", "reduce", "scan", "serial"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a task or group: how far it runs, and its role."""

    extent: int
    role: Role


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a body.

    ``read``: element `index` of the stored `node`. ``gather``: the same plus the values of operands times
    `factors`. ``iota``: `index` itself. ``map``, ``constant``, ``scalar``: as the node says.
    """

    kind: Literal["read", "gather", "iota", "map", "constant", "scalar"]
    node: Expr
    index: Affine = ZERO
    operands: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()


@dataclass(slots=True)
class Task:
    """How one stored value is computed: its loops, its body, and where the result is written.

    ``update``: a part of the previous version is overwritten. ``rebuild``: the same in new memory, into which what
    lies before and behind the written range is copied.
    """

    node: Expr
    kind: Literal["map", "reduce", "scan", "update", "rebuild", "scatter"]
    loops: list[Loop]
    body: list[Instruction]
    result: int  # which instruction's value is stored or folded
    target: Affine  # flat index that is written
    indices: tuple[int, ...] = ()  # scatter: instructions with computed positions
    factors: tuple[int, ...] = ()

    def reads(self) -> list[tuple[Expr, Affine | None]]:
        """Stored values that the body reads and where; None: at computed positions."""
        return [(i.node, i.index) for i in self.body if i.kind == "read"] + [
            (i.node.operands[0], None) for i in self.body if i.kind == "gather"
        ]

    @property
    def previous(self) -> Expr | None:
        """The version whose other elements have to be in the memory that the task writes to."""
        return self.node.operands[0] if self.kind in ("update", "rebuild", "scatter") else None

    def covered(self) -> tuple[int, int]:
        """The range of flat indices that is written without a gap; empty where there are gaps."""
        if self.kind == "scatter":
            return 0, 0
        start, terms = self.target
        length = 1
        for step, loop in sorted((c, loop) for loop, c in terms):
            if step != length:
                return 0, 0
            length *= self.loops[loop].extent
        return start, start + length


# -- which values are stored ------------------------------------------------------------------


def choose_stored(order: list[Expr], outputs: Collection[Expr]) -> set[Expr]:
    """The values that get memory: `order` is every needed node, operands first."""
    stored = {node for node in order if node.kind in ALWAYS_STORED} | set(outputs)
    maps: dict[Expr, set[object]] = {}  # node -> the different ways in which it is read
    for node in order:
        _note_uses(node, stored, maps)
    inlined: dict[Expr, frozenset[Expr]] = {}
    for node in order:
        if node.kind in ALWAYS_STORED:
            continue
        members = frozenset({node}).union(*(inlined[c] for c in node.operands if c not in stored and c in inlined))
        if node not in stored and (len(members) > INLINE_LIMIT or _worth_storing(node, members, maps.get(node, set()))):
            stored.add(node)
        inlined[node] = frozenset() if node in stored else members
    return stored


def is_window(node: Expr) -> bool:
    """Whether `node` is a view of a value in memory, which a host function can be handed as it is."""
    return node.kind == "view" and node.operands[0].kind in ALWAYS_STORED


def base_of(node: Expr) -> Expr:
    """The stored value that an opaque call reads for operand `node`: a view of one is passed as a view."""
    return node.operands[0] if is_window(node) else node


def _note_uses(node: Expr, stored: set[Expr], maps: dict[Expr, set[object]]) -> None:
    for position, child in enumerate(node.operands):
        ways = maps.setdefault(child, set())
        match node.kind:
            case "view":
                strides, offset = node.attrs
                if decode_view(child.shape, node.shape, strides, offset) is None:
                    stored.add(child)
                ways.add((node.shape, strides, offset))
            case "opaque" if not is_window(child):
                stored.add(child)
            case "gather" | "update" | "scatter" if position == 0:
                stored.add(child)
            case "map" if child.shape != node.shape and child.size > 1:
                ways.add(node.shape)
            case _:
                ways.add("same")


def _worth_storing(node: Expr, members: frozenset[Expr], ways: set[object]) -> bool:
    if node.size <= 1 or not ways:
        return False
    cost = sum(find_op(m.op).cost for m in members if m.kind == "map" and m.op != "cast")
    if (len(ways) - 1) * cost > RECOMPUTE_LIMIT:
        return True
    # a value broadcast along an outer axis would be computed again for every row
    return cost > 12 and any(
        isinstance(way, tuple) and way and isinstance(way[0], int) and _size(way) >= 4 * node.size for way in ways
    )


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


# -- bodies -----------------------------------------------------------------------------------


class BodyBuilder:
    """Builds one task's body: each (value, index map) once."""

    def __init__(self, stored: Collection[Expr], root: Expr) -> None:
        self.stored = stored
        self.root = root
        self.body: list[Instruction] = []
        self.known: dict[object, int] = {}

    def value(self, node: Expr, coordinates: Coordinates) -> int:
        """Number of the instruction that computes `node` at `coordinates`. Iterative: graphs are deep."""
        stack: list[tuple[Expr, Coordinates]] = [(node, coordinates)]
        while stack:
            current, at = stack[-1]
            if (current, at) in self.known:
                stack.pop()
                continue
            wanted = [w for w in self._needs(current, at) if w not in self.known]
            if wanted:
                stack.extend(reversed(wanted))
                continue
            self.known[current, at] = self._make(current, at)
            stack.pop()
        return self.known[node, coordinates]

    def _is_read(self, node: Expr) -> bool:
        return node in self.stored and node is not self.root

    def _needs(self, node: Expr, at: Coordinates) -> list[tuple[Expr, Coordinates]]:
        if self._is_read(node):
            return []
        match node.kind:
            case "map":
                return [(child, broadcast(at, child.shape)) for child in node.operands]
            case "view":
                child = node.operands[0]
                return [] if self._is_read(child) else [(child, self._through(node, at))]
            case "gather":
                return [(child, broadcast(at, child.shape)) for child in node.operands[1:]]
            case _:
                return []

    @staticmethod
    def _through(node: Expr, at: Coordinates) -> Coordinates:
        strides, offset = node.attrs
        decoded = decode_view(node.operands[0].shape, node.shape, strides, offset)
        assert decoded is not None
        return through_view(decoded, at)

    def _emit(self, instruction: Instruction) -> int:
        number = self.known.get(instruction)
        if number is None:
            number = self.known[instruction] = len(self.body)
            self.body.append(instruction)
        return number

    def read(self, node: Expr, index: Affine) -> int:
        """Element `index` of a stored value."""
        return self._emit(Instruction("read", node, index))

    def within(self, form: Affine, start: int, stop: int, extent: int) -> list[int]:
        """Conditions for ``start <= form < stop``, where `form` runs over ``range(extent)``."""
        count = iota((), 0, np.int32 if extent < 1 << 31 else np.int64)
        position = self._emit(Instruction("iota", count, form))
        found = []
        for op, bound in (("greater_equal", start), ("less", stop)):
            if 0 < bound < extent:
                limit = self._emit(Instruction("iota", count, (bound, ())))
                found.append(self._emit(Instruction("map", map_(op, (count, count)), ZERO, (position, limit))))
        return found

    def choose(self, conditions: list[int], value: int, otherwise: int) -> int:
        """`value` where all conditions hold, `otherwise` elsewhere; both of the root's dtype."""
        truth, like = constant(True, bool), constant(0, self.root.dtype)
        both = conditions[0]
        for condition in conditions[1:]:
            both = self._emit(Instruction("map", map_("logical_and", (truth, truth)), ZERO, (both, condition)))
        return self._emit(Instruction("map", map_("where", (truth, like, like)), ZERO, (both, value, otherwise)))

    def _make(self, node: Expr, at: Coordinates) -> int:
        if self._is_read(node):
            return self._emit(Instruction("read", node, flatten(at, node.shape)))
        operands = tuple(self.known[w] for w in self._needs(node, at))
        match node.kind:
            case "constant" | "scalar":
                return self._emit(Instruction(node.kind, node))
            case "iota":
                return self._emit(Instruction("iota", node, at[node.attrs[0]]))
            case "map":
                return self._emit(Instruction("map", node, ZERO, operands))
            case "view":
                if operands:
                    return operands[0]
                strides, offset = node.attrs
                index = combine(offset, tuple(zip(at, strides, strict=True)))
                return self._emit(Instruction("read", node.operands[0], index))
            case "gather":
                index, which, factors = gather_index(node.attrs[0], node.operands[0].shape, at)
                return self._emit(Instruction("gather", node, index, tuple(operands[w] for w in which), factors))
            case kind:
                raise AssertionError(f"{kind} is always stored")


def gather_index(
    terms: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...], base: tuple[int, ...], at: Coordinates
) -> tuple[Affine, tuple[int, ...], tuple[int, ...]]:
    """The flat position in `base` that `terms` name: its affine part, and which index operands are added
    times which factors."""
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


def make_task(node: Expr, stored: set[Expr], first: list[Expr]) -> Task:
    """The task that computes the stored `node`.

    Values that have to be finished before this one overwrites what they read are added to `stored` and
    to `first`: their tasks come before this one.
    """
    match node.kind:
        case "reduce":
            return _reduce_task(node, stored)
        case "scan":
            return _scan_task(node, stored)
        case "update":
            return _update_task(node, stored, first)
        case "scatter":
            return _scatter_task(node, stored, first)
        case _:
            loops, at = _domain(node.shape)
            build = BodyBuilder(stored, node)
            result = build.value(node, at)
            return Task(node, "map", loops, build.body, result, flatten(at, node.shape))


def _domain(shape: tuple[int, ...], role: Role = "parallel") -> tuple[list[Loop], Coordinates]:
    loops: list[Loop] = []
    coordinates = []
    for n in shape:
        if n == 1:
            coordinates.append(ZERO)
        else:
            coordinates.append(variable(len(loops)))
            loops.append(Loop(n, role))
    return loops, tuple(coordinates)


def _reduce_task(node: Expr, stored: set[Expr]) -> Task:
    axes, keepdims = node.attrs
    (operand,) = node.operands
    loops: list[Loop] = []
    coordinates: list[Affine] = []
    for axis, n in enumerate(operand.shape):
        if n == 1:
            coordinates.append(ZERO)
        else:
            coordinates.append(variable(len(loops)))
            loops.append(Loop(n, "reduce" if axis in axes else "parallel"))
    at = tuple(coordinates)
    build = BodyBuilder(stored, node)
    result = build.value(operand, at)
    kept = tuple(ZERO if k in axes else c for k, c in enumerate(at) if keepdims or k not in axes)
    return Task(node, "reduce", loops, build.body, result, flatten(kept, node.shape))


def _scan_task(node: Expr, stored: set[Expr]) -> Task:
    (operand,) = node.operands
    loops, at = _domain(operand.shape)
    for _, ((loop, _), *_) in [at[node.attrs[0]]] if at[node.attrs[0]] != ZERO else []:
        loops[loop] = Loop(loops[loop].extent, "scan")
    build = BodyBuilder(stored, node)
    result = build.value(operand, at)
    return Task(node, "scan", loops, build.body, result, flatten(at, node.shape))


def _update_task(node: Expr, stored: set[Expr], first: list[Expr]) -> Task:
    previous, value = node.operands
    shape, strides, offset = node.attrs
    loops, at = _domain(shape)
    target = combine(offset, tuple(zip(at, strides, strict=True)))
    build = BodyBuilder(stored, node)
    result = build.value(value, at)
    task = Task(node, "update", loops, build.body, result, target)
    if any(read is previous and index != target for read, index in task.reads()) and value not in stored:
        rebuilt = _rebuild_task(node, stored)
        if rebuilt is not None:
            return rebuilt
        # reading elsewhere what is being overwritten: the value is finished first
        stored.add(value)
        first.append(value)
        return _update_task(node, stored, first)
    return task


# A version is rebuilt in new memory only if no more than this share of what is written stays as it was.
REBUILT_SHARE = 0.5


def _rebuild_task(node: Expr, stored: set[Expr]) -> Task | None:
    """The update of a box as a task that writes whole rows of new memory, in the box the value, beside it what was there.

    In one pass, and needs nothing finished before. The value is computed beside the box, too, and left out: None if it
    would read outside of some memory there, or if the box is no box or too small a part.
    """
    previous, value = node.operands
    shape, strides, offset = node.attrs
    box = decode_view(previous.shape, shape, strides, offset)
    if box is None or any(len(terms) > 1 or any(step != 1 for _, step in terms) for _, terms in box):
        return None
    lengths = [shape[terms[0][0]] if terms else 1 for _, terms in box]
    first = next((d for d, n in enumerate(previous.shape) if n > 1), 0)
    # rows of the first dimension: whole, but only those that the box takes part in
    extents = [lengths[d] if d == first else n for d, n in enumerate(previous.shape)]
    if _size(tuple(extents)) > _size(shape) * (1 + REBUILT_SHARE) or previous.size > _size(shape) * (1 + REBUILT_SHARE):
        return None
    loops, at = _domain(tuple(extents))
    coordinates = [ZERO] * len(shape)
    for d, (start, terms) in enumerate(box):
        for axis, _ in terms:
            coordinates[axis] = combine(0 if d == first else -start, ((at[d], 1),))
    build = BodyBuilder(stored, node)
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
        if index is None or not _inside(index, loops, read.size):
            return None
    return task


def _inside(form: Affine, loops: list[Loop], size: int) -> bool:
    """Whether a flat index stays in memory of `size` elements for all iterations."""
    steps = [c * (loops[k].extent - 1) for k, c in form[1]]
    return form[0] + sum(s for s in steps if s < 0) >= 0 and form[0] + sum(s for s in steps if s > 0) < size


def _scatter_task(node: Expr, stored: set[Expr], first: list[Expr]) -> Task:
    previous, value, *positions = node.operands
    terms, shape = node.attrs
    loops, at = _domain(shape, "serial")
    build = BodyBuilder(stored, node)
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
