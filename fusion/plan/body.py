"""The code of tasks: straight-line instructions that compute an element of a value.

In: an expression and coordinates, one affine form per dimension. Out: instructions. A coordinate may depend on computed
values: the key ``-1 - k`` in a form stands for the value of instruction k. Loops have keys of 0 and above. Gathers,
reshapes that split axes, and arrays assembled from boxes are therefore read without a copy. Invariant: each pair of
value and index map occurs once, or once in each of several branches. An instruction refers only to earlier
instructions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from operator import index
from typing import Literal, assert_never

import numpy as np

from weft.codegen import identity_of, widened
from weft.fusion.graph.expr import Expr, constant, contiguous_strides, intern
from weft.fusion.graph.index_map import (
    ZERO,
    Affine,
    Coordinates,
    bound_form,
    broadcast,
    combine,
    decode_view,
    flatten,
    through_view,
)
from weft.fusion.graph.sizes import Size, common_divisor
from weft.fusion.plan.replaced_arrays import Window, window_of

Role = Literal["parallel", "reduce", "scan", "serial"]
_BOOL = np.dtype(bool)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a task or kernel, with its extent and its role, such as "parallel" or "reduce"."""

    extent: int
    role: Role


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a task's straight-line code.

    ``read``: element `index` of the materialized `node`. ``gather``: its element at `index` plus the values of the
    operands times `factors`. ``iota``: `index` itself. ``map``, ``constant``, ``scalar``: the operation of `node` (a
    map without operands is not in the program's graph, but computes, for example, an index). ``choose``: the first of
    `branches` if its operand holds, otherwise the second. `likely` states that most indices take the first branch.
    """

    kind: Literal["read", "gather", "iota", "map", "constant", "scalar", "choose"]
    node: Expr
    index: Affine = ZERO
    operands: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()
    branches: tuple[Branch, ...] = ()
    likely: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of a selection, with the number of the instruction that computes its result.

    The numbers continue those of the instructions before the selection.
    """

    instructions: tuple[Instruction, ...]
    result: int


def all_instructions(body: Iterable[Instruction]) -> Iterator[Instruction]:
    """Yield all instructions, including those in branches."""
    stack = [iter(body)]
    while stack:
        instruction = next(stack[-1], None)
        if instruction is None:
            stack.pop()
            continue
        yield instruction
        stack.extend(iter(branch.instructions) for branch in reversed(instruction.branches))


class BodyBuilder:
    """Builder of the straight-line code of one task."""

    def __init__(
        self, stored: Collection[Expr], root: Expr, loops: Sequence[Loop], spread: Collection[Expr] = ()
    ) -> None:
        self.stored = stored
        self.root = root
        self.spread = spread  # short reductions that are unrolled where they are used
        self.extents = tuple(loop.extent for loop in loops)
        self.body: list[Instruction] = []
        self.known: dict[object, int] = {}
        self.facts: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}  # bounds of terms that hold in this branch
        self.ranges: dict[int, tuple[int, int]] = {}  # instruction that computes an index -> bounds of its value
        self.divided: dict[int, tuple[Affine, int]] = {}  # instruction that divides -> dividend and divisor
        self.quotients: list[tuple[Affine, int]] = []  # (form, divisor) of the divisions in the kernel

    def value(self, node: Expr, coordinates: Coordinates) -> int:
        """Return the number of the instruction that computes the element of `node` at `coordinates`.

        The implementation is iterative, since graphs are deep.
        """
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

    def read(self, node: Expr, form: Affine) -> int:
        """Emit a read of a materialized value at the flat index `form`."""
        loops = tuple((key, c) for key, c in form[1] if key >= 0)
        computed = [(-1 - key, c) for key, c in form[1] if key < 0]
        if not computed:
            return self._emit(Instruction("read", node, form))
        numbers, factors = zip(*computed, strict=True)
        return self._emit(Instruction("gather", node, (form[0], loops), numbers, factors))

    def within(self, form: Affine, start: int, stop: int, extent: int) -> list[int]:
        """Emit tests that an index is at least `start` and less than `stop`. Omit a test that holds for all indices below `extent`."""
        tests = (("greater_equal", start, start), ("less_equal", stop, stop - 1))
        return [self._test(op, form, bound) for op, edge, bound in tests if 0 < edge < extent]

    def choose(self, conditions: list[int], value: int, otherwise: int) -> int:
        """Emit a selection: `value` if all conditions hold, otherwise `otherwise`."""
        kinds = (_BOOL, self.root.dtype, self.root.dtype)
        node = intern("map", "where", (), kinds, (), self.root.dtype)
        return self._emit(Instruction("map", node, ZERO, (self._all(conditions), value, otherwise)))

    # -- operands and instructions of values ----------------------------------------------------

    def _is_read(self, node: Expr) -> bool:
        return node in self.stored and node is not self.root and node not in self.spread

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
                indices = [(child, broadcast(at, child.shape)) for child in node.operands[1:]]
                if any(w not in self.known for w in indices) or self._is_read(node.operands[0]):
                    return indices
                return [*indices, (node.operands[0], self._gathered(node, at))]
            case "update":
                choices = self._choices(node, at)
                return [choices] if isinstance(choices, tuple) else []
            case "reduce" if node in self.spread:
                return [(node.operands[0], coordinates) for coordinates in _reduced_coordinates(node, at)]
            case _:
                return []

    def _make(self, node: Expr, at: Coordinates) -> int:
        if self._is_read(node):
            return self.read(node, flatten(at, node.shape))
        needs = self._needs(node, at)
        operands = tuple(self.known[w] for w in needs)
        match node.kind:
            case "constant" | "scalar":
                return self._emit(Instruction(node.kind, node))
            case "iota":
                return self._iota(node, at[node.attrs[0]])
            case "map":
                return self._emit(Instruction("map", node, ZERO, operands))
            case "view":
                if operands:
                    return operands[0]
                return self.read(node.operands[0], self._walk(node, at))
            case "gather":
                if len(operands) == len(node.operands):
                    return operands[-1]
                return self.read(node.operands[0], self._position(node, at))
            case "update":
                return operands[0] if operands else self._choose(node, at)
            case "empty":
                return self._emit(Instruction("constant", constant(0, node.dtype)))
            case "reduce":
                return self._unrolled_reduction(node, operands)
            case "leaf" | "scan" | "scatter" | "opaque":
                raise AssertionError(f"{node.kind} is always materialized")
            case _:
                assert_never(node.kind)

    def _emit(self, instruction: Instruction) -> int:
        number = self.known.get(instruction)
        if number is None:
            number = self.known[instruction] = len(self.body)
            self.body.append(instruction)
        return number

    def _unrolled_reduction(self, node: Expr, operands: tuple[int, ...]) -> int:
        """Emit a reduction over few elements as straight-line code, in the order of a reduction loop."""
        kind = accumulator_dtype(node)
        total = self._emit(Instruction("constant", constant(identity_of(node.op, kind), kind)))
        for number in operands:
            value = self._cast(number, node.operands[0].dtype, kind)
            total = self._arithmetic(node.op, kind, (total, value))
        return self._cast(total, kind, node.dtype)

    def _cast(self, number: int, kind: np.dtype, wanted: np.dtype) -> int:
        if kind == wanted:
            return number
        return self._emit(Instruction("map", intern("map", "cast", (), (kind,), (), wanted), ZERO, (number,)))

    # -- views and gathers ------------------------------------------------------------------------

    @staticmethod
    def _walk(node: Expr, at: Coordinates) -> Affine:
        strides, offset = node.attrs
        return combine(offset, tuple(zip(at, strides, strict=True)))

    def _through(self, node: Expr, at: Coordinates) -> Coordinates:
        strides, offset = node.attrs
        base = node.operands[0].shape
        decoded = decode_view(base, node.shape, strides, offset)
        return self.unflatten(self._walk(node, at), base) if decoded is None else through_view(decoded, at)

    def _position(self, node: Expr, at: Coordinates) -> Affine:
        """Return the flat index at which a gather reads its base."""
        base = node.operands[0].shape
        (terms,) = node.attrs
        if len(terms) == len(base):
            return flatten(self._gather_coordinates(node, at), base)
        return self._gather_coordinates(node, at)[0]

    def _gathered(self, node: Expr, at: Coordinates) -> Coordinates:
        base = node.operands[0].shape
        coordinates = self._gather_coordinates(node, at)
        return coordinates if len(coordinates) == len(base) else self.unflatten(coordinates[0], base)

    def _gather_coordinates(self, node: Expr, at: Coordinates) -> Coordinates:
        base, *indices = node.operands
        (terms,) = node.attrs
        lengths = base.shape if len(terms) == len(base.shape) else (base.size,)
        coordinates = []
        for n, (start, steps, which) in zip(lengths, terms, strict=True):
            parts: list[tuple[Affine, int]] = [(at[axis], step) for axis, step in steps]
            if which >= 0:
                number = self.known[indices[which], broadcast(at, indices[which].shape)]
                self.ranges.setdefault(number, (0, n - 1))
                parts.append(((0, ((-1 - number, 1),)), 1))
            coordinates.append(combine(start, tuple(parts)))
        return tuple(coordinates)

    def unflatten(self, flat: Affine, shape: tuple[int, ...]) -> Coordinates:
        """Return the coordinates of the element at a flat index, which must be in range."""
        result: list[Affine] = []
        before: Affine = ZERO
        for n, step in zip(shape, contiguous_strides(shape), strict=True):
            if n == 1:
                result.append(ZERO)
                continue
            whole = self.divide(flat, step)
            result.append(combine(0, ((whole, 1), (before, -n))))
            before = whole
        return tuple(result)

    # -- index arithmetic ----------------------------------------------------------------------------

    def bounds(self, form: Affine) -> tuple[int, int] | None:
        """Return a lower and an upper bound of an affine form, or None if the bounds are unknown."""
        low = high = 0
        for key, c in form[1]:
            found = (0, self.extents[key] - 1) if key >= 0 else self.ranges.get(-1 - key)
            if found is None:
                return None
            low += c * found[c < 0]
            high += c * found[c > 0]
        least, most = self.facts.get(form[1], (low, high))
        return form[0] + max(low, least), form[0] + min(high, most)

    def divide(self, form: Affine, divisor: int) -> Affine:
        """Return ``form // divisor``. Terms that are multiples of the divisor are divided exactly."""
        if divisor == 1:
            return form
        whole, start = divmod(form[0], divisor)
        out = tuple((key, c // divisor) for key, c in form[1] if c % divisor == 0)
        rest = tuple((key, c) for key, c in form[1] if c % divisor)
        factor = common_divisor(divisor, *(c for _, c in rest))
        rest = tuple((key, c // factor) for key, c in rest)
        start, divisor = start // factor, divisor // factor
        return combine(whole, (((0, out), 1), (self._quotient((start, rest), divisor), 1)))

    def _quotient(self, form: Affine, divisor: int) -> Affine:
        found = self.bounds(form)
        correlated = len(form[1]) > 1 and any(key < 0 for key, _ in form[1])
        if correlated and found is not None and found[0] // divisor != found[1] // divisor:
            found = self._tightened(form, found)
        if found is not None and found[0] // divisor == found[1] // divisor:
            return found[0] // divisor, ()
        match form:
            case (0, ((key, 1),)) if -1 - key in self.divided:
                inner, by = self.divided[-1 - key]
                return self.divide(inner, by * divisor)
        self.quotients.append((form, divisor))
        divisor = index(divisor)  # kernels divide by a constant
        kind = self._dtype(found)
        if found is not None and found[0] >= 0:
            kind = np.dtype(f"u{kind.itemsize}")
        number = self._arithmetic("floor_divide", kind, (self.number(form), self._number(divisor, kind)))
        if found is not None:
            self.ranges[number] = found[0] // divisor, found[1] // divisor
        self.divided[number] = form, divisor
        return 0, ((-1 - number, 1),)

    def _tightened(self, form: Affine, found: tuple[int, int]) -> tuple[int, int]:
        """Return tighter bounds, if possible, for an index expression that contains both ``x // d`` and ``x``.

        The bounds `found` come from interval arithmetic, and are too wide for such an expression.
        """
        needed: dict[int, tuple[Affine, int]] = {}
        keys = [key for key, _ in form[1]]
        while keys:
            number = -1 - keys.pop()
            if number >= 0 and number not in needed:
                if number not in self.divided:
                    return found
                needed[number] = self.divided[number]
                keys += [key for key, _ in needed[number][0][1]]
        low, high = bound_form(form, needed, self.extents)
        return max(low, found[0]), min(high, found[1])

    @staticmethod
    def _dtype(found: tuple[int, int] | None) -> np.dtype:
        small = found is not None and -(2**31) <= found[0] and found[1] < 2**31
        return np.dtype(np.int32 if small else np.int64)

    def number(self, form: Affine) -> int:
        """Emit instructions that compute an affine index expression, and return the number of the last instruction."""
        kind = self._dtype(self.bounds(form))
        loops = form[0], tuple((key, c) for key, c in form[1] if key >= 0)
        parts = []
        if loops != ZERO or not form[1]:
            parts.append(self._emit(Instruction("iota", intern("iota", "", (), (0,), (), kind), loops)))
        for key, c in form[1]:
            if key < 0:
                term = -1 - key
                parts.append(term if c == 1 else self._arithmetic("multiply", kind, (term, self._number(c, kind))))
        total = parts[0]
        for part in parts[1:]:
            total = self._arithmetic("add", kind, (total, part))
        return total

    def _number(self, value: int, kind: np.dtype) -> int:
        if type(value) is Size:
            return self._emit(Instruction("iota", intern("iota", "", (), (0,), (), kind), (value, ())))
        return self._emit(Instruction("constant", constant(value, kind)))

    def _arithmetic(self, op: str, kind: np.dtype, operands: tuple[int, ...], result: np.dtype | None = None) -> int:
        node = intern("map", op, (), (kind,) * len(operands), (), result or kind)
        return self._emit(Instruction("map", node, ZERO, operands))

    def _iota(self, node: Expr, form: Affine) -> int:
        if all(key >= 0 for key, _ in form[1]):
            return self._emit(Instruction("iota", node, form))
        number = self.number(form)
        cast = intern("map", "cast", (), (self._dtype(self.bounds(form)),), (), node.dtype)
        return self._emit(Instruction("map", cast, ZERO, (number,)))

    # -- updates of boxes -------------------------------------------------------------------------------

    def _choices(self, node: Expr, at: Coordinates) -> tuple[Expr, Coordinates] | list[tuple[str, Affine, int]]:
        """Return which operand of an update provides an element (the old array or the assigned value), and the
        element's coordinates in that operand.

        If the operand depends on loop indices, return instead the conditions under which it is the assigned value.
        """
        window = window_of(node)
        assert window is not None
        conditions = []
        for form, first, last in zip(at, window.first, window.last, strict=True):
            found = self.bounds(form)
            if found is not None and (found[1] < first or found[0] > last):
                return node.operands[0], at
            if found is None or found[0] < first:
                conditions.append(("greater_equal", form, first))
            if found is None or found[1] > last:
                conditions.append(("less_equal", form, last))
        if conditions:
            return conditions
        return node.operands[1], self._inside(node, window, at)

    @staticmethod
    def _inside(node: Expr, window: Window, at: Coordinates) -> Coordinates:
        """Convert coordinates in an updated array to coordinates in the assigned value."""
        result = [ZERO] * len(node.attrs[0])
        for form, first, last, axis, step in zip(at, window.first, window.last, window.axis, window.step, strict=True):
            if axis >= 0:
                result[axis] = combine(-first if step == 1 else last, ((form, step),))
        return tuple(result)

    def _choose(self, node: Expr, at: Coordinates) -> int:
        window = window_of(node)
        conditions = self._choices(node, at)
        assert window is not None
        assert isinstance(conditions, list)
        holds = self._all([self._test(*condition) for condition in conditions])
        branches = (
            self._branch(node.operands[1], self._inside(node, window, at), conditions),
            self._branch(node.operands[0], at, [_opposite(*conditions[0])] if len(conditions) == 1 else []),
        )
        likely = all(2 * (b - a + 1) >= n for a, b, n in zip(window.first, window.last, node.shape, strict=True))
        return self._emit(Instruction("choose", node, ZERO, (holds,), (), branches, likely))

    def _test(self, op: str, form: Affine, bound: int) -> int:
        kind = self._dtype(self.bounds(form))
        return self._arithmetic(op, kind, (self.number(form), self._number(bound, kind)), _BOOL)

    def _all(self, tests: list[int]) -> int:
        holds = tests[0]
        for test in tests[1:]:
            holds = self._arithmetic("logical_and", _BOOL, (holds, test))
        return holds

    def _branch(self, node: Expr, at: Coordinates, conditions: list[tuple[str, Affine, int]]) -> Branch:
        """Return a branch that computes an element of `node`.

        The branch runs if `conditions` hold, which therefore bound the values of its index arithmetic.
        """
        side = copy(self)
        side.body, side.known, side.facts = list(self.body), dict(self.known), dict(self.facts)
        side.ranges, side.divided = dict(self.ranges), dict(self.divided)
        for op, form, bound in conditions:
            found = side.bounds((0, form[1]))
            if found is not None:
                limit = bound - form[0]
                low, high = found
                side.facts[form[1]] = (max(low, limit), high) if op == "greater_equal" else (low, min(high, limit))
        result = side.value(node, at)
        return Branch(tuple(side.body[len(self.body) :]), result)


def _opposite(op: str, form: Affine, bound: int) -> tuple[str, Affine, int]:
    return ("less_equal", form, bound - 1) if op == "greater_equal" else ("greater_equal", form, bound + 1)


def accumulator_dtype(node: Expr) -> np.dtype:
    """Return the dtype of a reduction's accumulators: that of the result, or float32 for 16-bit floats."""
    return widened(node.dtype)


def _reduced_coordinates(node: Expr, at: Coordinates) -> list[Coordinates]:
    """Return the coordinates of all elements that a reduction combines into one result, in C order."""
    axes, keepdims = node.attrs
    shape = node.operands[0].shape
    kept = iter(at)
    fixed = [
        (next(kept), ZERO)[1] if keepdims and k in axes else ZERO if k in axes else next(kept)
        for k in range(len(shape))
    ]
    found: list[Coordinates] = [()]
    for k, n in enumerate(shape):
        found = [
            (*prefix, form) for prefix in found for form in ([(i, ()) for i in range(n)] if k in axes else [fixed[k]])
        ]
    return found
