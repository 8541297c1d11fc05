"""Integer inequalities that follow from the conditions of branches.

In: a threaded kernel. Out: the inequalities (facts) that hold where a condition is true or false, and a traversal that
knows the facts at each operation. Invariant: two values with the same number are equal wherever both are defined, in
one iteration of the loops around them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from weft.codegen.kernel_ir.operation import Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.split_at_barriers import is_pure

# An inequality that holds: whether it is strict, and the numbers of the smaller and the larger value.
Fact = tuple[bool, int, int]
Facts = frozenset[Fact]
NOTHING: Facts = frozenset()

DEEPEST = 24  # maximum depth of nested conditions
_NEGATED = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}
INEQUALITIES = frozenset({*_NEGATED, "equal", "not_equal"})


@dataclass(frozen=True, eq=False)
class Merge:
    """The possible contents of a variable at a point where control flow merges.

    After an `if`, the contents depend on `condition`. They are unknown if `condition` is None.

    At the start of an iteration, `before` are the contents before the loop, and the loop stores the values in `stored`.
    """

    condition: Value | None = None
    contents: tuple[Content, ...] = ()
    before: Content | None = None
    stored: tuple[Value, ...] = ()

    def ends(self) -> Iterator[tuple[Content, bool]]:
        """For each region of an `if`, yield a variable's contents at the end of the region, and the truth value of the condition there."""
        yield from zip(self.contents, (True, False), strict=False)


Content = Value | Merge
Held = ChainMap[Value, Content]  # variable -> its contents; the first map is that of the innermost branch


class Implications:
    """Analysis of the inequalities that a kernel's conditions imply."""

    def __init__(self, kernel: Kernel) -> None:
        operations = list(program_order(kernel.body.operations))
        self.makers = {v: o for o in operations for v in o.results}
        self.values: list[Value] = []  # one value for each number
        self._numbers: dict[object, int] = {}
        self._known: dict[Value, int] = {}
        self._loaded: dict[Value, Content] = {}  # result of a load of a variable -> the contents of the variable
        self._facts: dict[tuple[Content, bool], Facts] = {}
        self._variables = {o.results[0] for o in operations if o.opcode == "local" and o.attributes["count"] == 1}
        for o in operations:
            for k, value in enumerate(o.operands):
                if k or o.opcode not in ("load", "store"):
                    self._variables.discard(value)
        self._follow(kernel.body.operations, ChainMap())

    def _follow(self, operations: Iterable[Operation], held: Held) -> bool:
        """Walk through operations in order. At each load of a variable, record the variable's contents. Return False if a jump skips the last operations."""
        for o in operations:
            if o.opcode == "leave":
                return False
            for value in () if o.opcode == "load" else o.results:
                self.number(value)  # in program order, so that chains of any length need no recursion
            variable = o.operands[0] if o.operands and o.operands[0] in self._variables else None
            if variable is not None and o.opcode == "store":
                held[variable] = o.operands[2]
            elif variable is not None:
                self._loaded[o.results[0]] = held.setdefault(variable, Merge())
            elif o.opcode == "if":
                self._follow_branch(o, held)
            elif o.regions:
                self._forget(o, held, entering=True)
                self._follow(o.regions[0].operations, held)
                self._forget(o, held, entering=False)
        return True

    def _follow_branch(self, o: Operation, held: Held) -> None:
        ends = []
        for region in o.regions:
            inner = held.new_child()
            if self._follow(region.operations, inner):
                ends.append(inner)
        for variable in {v for end in ends for v in end.maps[0]}:
            contents = [end.get(variable) or held.setdefault(variable, Merge()) for end in ends]
            if len(contents) == 1 or contents[0] is contents[1]:
                held[variable] = contents[0]
            else:
                held[variable] = Merge(o.operands[0], tuple(contents))

    def _forget(self, o: Operation, held: Held, entering: bool) -> None:
        """For each variable that a loop or scope changes, replace the known contents by a `Merge` (a set of possible contents)."""
        stored: dict[Value, list[Value]] = {}
        for inner in program_order(o.regions[0].operations):
            if inner.opcode == "store" and inner.operands[0] in self._variables:
                stored.setdefault(inner.operands[0], []).append(inner.operands[2])
        for variable, values in stored.items():
            before = held.get(variable) if entering else None
            held[variable] = Merge(before=before, stored=tuple(values))

    # -- values ---------------------------------------------------------------------------------

    def content(self, value: Value) -> Content:
        """Return the contents of the variable from which `value` was loaded, or `value` itself if it was not loaded.

        Contents that depend on a branch, or are unknown, are a `Merge`.
        """
        found: Content = value
        while isinstance(found, Value) and found in self._loaded:
            found = self._loaded[found]
        return found

    def number(self, value: Value) -> int:
        """Return the value number of `value`. Values that are known to be equal have equal numbers."""
        found = self._known.get(value)
        if found is None:
            content = self.content(value)
            key: object = content
            if isinstance(content, Value):
                maker = self.makers.get(content)
                if maker is not None and not maker.regions and is_pure(maker):
                    attributes = {k: v for k, v in maker.attributes.items() if k != "line"}
                    key = maker.opcode, content.type, repr(attributes), tuple(self.number(v) for v in maker.operands)
            found = self._known[value] = self._numbers.setdefault(key, len(self._numbers))
            if found == len(self.values):
                self.values.append(content if isinstance(content, Value) else value)
        return found

    def start_of(self, value: Value) -> tuple[Value, list[Value]] | None:
        """Return a variable's value before a loop that only adds to it, and the values that the loop adds.

        `value` is the value of the variable at the start of an iteration. Return None for other values.
        """
        content = self.content(value)
        steps: dict[Value, None] = {}
        while isinstance(content, Merge) and content.before is not None:
            for stored in content.stored:
                maker = self.makers.get(stored)
                operands = maker.operands if maker is not None and maker.opcode == "add" else ()
                others = [y for x, y in zip(operands, operands[::-1], strict=True) if self._begins_with(x, content)]
                if not others:
                    return None
                steps[others[0]] = None
            content = content.before
        return (content, list(steps)) if isinstance(content, Value) and steps else None

    def _begins_with(self, value: Value, start: Merge) -> bool:
        """Return whether `value` is what a variable contains at the start of a loop iteration.

        `start` represents these contents. The contents at the start of an inner loop's iteration also count, if they were `start` before it.
        """
        content = self.content(value)
        while isinstance(content, Merge) and content is not start and content.before is not None:
            content = content.before
        return content is start

    # -- conditions -----------------------------------------------------------------------------

    def implied(self, condition: Content, truth: bool, depth: int = DEEPEST) -> Facts:
        """Return the inequalities that hold if a condition has the given truth value."""
        content = self.content(condition) if isinstance(condition, Value) else condition
        if (content, truth) not in self._facts:
            found = NOTHING
            if depth and isinstance(content, Merge):
                found = self._merged(content, truth, depth - 1)
            elif depth and isinstance(content, Value) and content in self.makers:
                found = self._made(self.makers[content], truth, depth - 1)
            self._facts[content, truth] = found
        return self._facts[content, truth]

    def _made(self, maker: Operation, truth: bool, depth: int) -> Facts:
        """Return the inequalities that hold if an operation's result has a given truth value."""
        match maker.opcode:
            case name if name in INEQUALITIES:
                return self.compared(maker, truth)
            case "bitwise_and" | "logical_and" | "bitwise_or" | "logical_or" if _is_bool(maker.results[0]):
                if ("and" in maker.opcode) != truth:
                    return NOTHING
                return NOTHING.union(*(self.implied(v, truth, depth) for v in maker.operands))
            case "bitwise_xor" if self.truth(maker.operands[1]):
                return self.implied(maker.operands[0], not truth, depth)
            case _:
                return NOTHING

    def _merged(self, merge: Merge, truth: bool, depth: int) -> Facts:
        """For a bool variable that is assigned in the branches of an `if`, return the inequalities that hold if the
        variable equals `truth`.

        For example, the result of ``x and y`` is stored in a variable, within a branch that depends on x.
        """
        ends = [
            self.implied(content, truth, depth) | self.implied(merge.condition, taken, depth)
            for content, taken in merge.ends()
            if merge.condition is not None and not self._excludes(content, truth, merge.condition, taken)
        ]
        return frozenset.intersection(*ends) if ends else NOTHING

    def is_certain(self, condition: Content, truth: bool, facts: Facts, depth: int = DEEPEST) -> bool:
        """Return whether a condition must have the value `truth` if the inequalities `facts` hold."""
        content = self.content(condition) if isinstance(condition, Value) else condition
        if not depth:
            return False
        if isinstance(content, Merge):
            return any(
                content.condition is not None
                and self.is_certain(content.condition, taken, facts, depth - 1)
                and self.is_certain(end, truth, facts, depth - 1)
                for end, taken in content.ends()
            )
        maker = self.makers.get(content)
        if maker is None:
            return False
        match maker.opcode:
            case name if name in INEQUALITIES:
                implied = self.compared(maker, truth)
                return bool(implied) and implied <= facts
            case "bitwise_and" | "logical_and" | "bitwise_or" | "logical_or" if _is_bool(maker.results[0]):
                parts = (self.is_certain(v, truth, facts, depth - 1) for v in maker.operands)
                return all(parts) if ("and" in maker.opcode) == truth else any(parts)
            case "bitwise_xor" if self.truth(maker.operands[1]):
                return self.is_certain(maker.operands[0], not truth, facts, depth - 1)
            case _:
                return False

    def _excludes(self, content: Content, truth: bool, condition: Value, taken: bool) -> bool:
        """Return whether two conditions cannot have the given truth values together. The parameter after each condition is its truth value."""
        constant = self.truth(content) if isinstance(content, Value) else None
        if constant is not None:
            return constant != truth
        (one, positive), (other, alike) = self._literal(content), self._literal(condition)
        return one == other and (truth == positive) != (taken == alike)

    def _literal(self, content: Content) -> tuple[int | Merge, bool]:
        """Return a condition without its negations, and whether the number of negations was even.

        The condition is given by its value number or its `Merge`.
        """
        positive = True
        while True:
            content = self.content(content) if isinstance(content, Value) else content
            if isinstance(content, Merge):
                return content, positive
            maker = self.makers.get(content)
            if maker is None or maker.opcode != "bitwise_xor" or not self.truth(maker.operands[1]):
                return self.number(content), positive
            content, positive = maker.operands[0], not positive

    def truth(self, value: Value) -> bool | None:
        """Return the value of a constant condition, or None for other conditions."""
        maker = self.makers.get(value)
        is_constant = maker is not None and maker.opcode == "constant" and _is_bool(value)
        return bool(maker.attributes["value"]) if is_constant else None  # type: ignore[union-attr]

    def compared(self, o: Operation, truth: bool) -> Facts:
        """Return the inequalities that hold if a comparison of signed integers has the result `truth`."""
        x, y = o.operands
        if not is_signed(x) or not is_signed(y):
            return NOTHING
        if o.opcode in ("equal", "not_equal"):
            if (o.opcode == "equal") != truth:
                return NOTHING
            one, other = self.number(x), self.number(y)
            return frozenset({(False, one, other), (False, other, one)})
        name = o.opcode if truth else _NEGATED[o.opcode]
        if name.startswith("greater"):
            x, y = y, x
        return frozenset({(not name.endswith("equal"), self.number(x), self.number(y))})


class FactWalk:
    """A traversal of a kernel that tracks the inequalities that hold at each operation."""

    def __init__(self, conditions: Implications) -> None:
        self.conditions = conditions
        self._left: dict[str, Facts | None] = {}  # label of an open scope -> the facts where it is left

    def visit(self, o: Operation, facts: Facts) -> None:
        """Process an operation, before the operations in its regions. Subclasses override this method."""
        raise NotImplementedError

    def block(self, operations: Iterable[Operation], facts: Facts | None) -> Facts | None:
        """Process operations. Return the inequalities that hold after them, or None if this point is not reached."""
        for o in operations:
            if facts is None:
                return None
            self.visit(o, facts)
            facts = self._after(o, facts)
        return facts

    def _after(self, o: Operation, facts: Facts) -> Facts | None:
        match o.opcode:
            case "if":
                implied = (self.conditions.implied(o.operands[0], truth) for truth in (True, False))
                return _joined(
                    self.block(region.operations, facts | more) for region, more in zip(o.regions, implied, strict=True)
                )
            case "for":
                self.block(o.regions[0].operations, facts)
            case "repeat":
                self.block(o.regions[0].operations, facts)
                return None
            case "scope":
                label = o.attributes["label"]
                self._left[label] = None
                end = self.block(o.regions[0].operations, facts)
                return _joined([end, self._left.pop(label)])
            case "leave":
                label = o.attributes["label"]
                if label in self._left:
                    self._left[label] = _joined([self._left[label], facts])
                return None
        return facts


def _joined(ends: Iterable[Facts | None]) -> Facts | None:
    """Return the facts that hold where several paths join, or None if no path reaches this point.

    `ends` are the facts at the ends of the paths, None for an end that is not reached.
    """
    reached = [end for end in ends if end is not None]
    return frozenset.intersection(*reached) if reached else None


def is_signed(value: Value) -> bool:
    """Return whether a value is a signed integer."""
    return not isinstance(value.type, Pointer) and value.type.kind == "i"


def _is_bool(value: Value) -> bool:
    return value.type == np.dtype(bool)
