"""Find the threads of a block that have work in a run, from guards such as ``if i < n``.

In: a kernel that is split into runs. Out: for each run, bounds of the thread indices outside which a thread has no
effect, and the comparisons that are constant within these bounds. Invariant: a thread outside the bounds of a run
stores nothing that another thread or another run can read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value
from weft.codegen.passes.index_steps import program_order
from weft.codegen.passes.linear_index import LinearIndex
from weft.codegen.passes.split_at_barriers import BarrierSplit, Run, is_pure

# An inequality that holds: whether it is strict, and the numbers of the smaller and the larger value.
Fact = tuple[bool, int, int]
Facts = frozenset[Fact]

_NEGATED = {"less": "greater_equal", "less_equal": "greater", "greater": "less_equal", "greater_equal": "less"}
_LARGEST_STEP = 1 << 20
_INEQUALITIES = frozenset({*_NEGATED, "equal", "not_equal"})


@dataclass(frozen=True)
class Bound:
    """A bound of the thread index along an axis of the block: ``smaller < larger``, or ``<=`` if not `strict`.

    Attributes
    ----------
    axis : int
    smaller, larger : Value
    strict : bool
    step : int
        Difference between adjacent threads of the value that depends on the axis. It is positive for `smaller`, and
        negative for `larger`. If 0, no value depends on a thread index.
    exact : bool
        Whether the value that depends on the axis cannot overflow. Otherwise the bound holds only if this value is far
        from the maximum of its type.
    """

    axis: int
    smaller: Value
    larger: Value
    strict: bool
    step: int
    exact: bool


@dataclass
class RunGuards:
    """The bounds of a run, and the comparisons whose results are known within these bounds."""

    bounds: list[Bound] = field(default_factory=list)
    settled: dict[Value, bool] = field(default_factory=dict)


class GuardFinder:
    """Finder of the guards of a kernel's runs."""

    def __init__(self, kernel: Kernel, split: BarrierSplit, merged: int | None = None) -> None:
        self.split = split
        self.makers: dict[Value, Operation] = {}  # of the values of runs
        self.stores: dict[Value, list[Operation]] = {}  # of each `local`
        self.home: dict[Operation, Block] = {}  # store, load or `if` -> the block that contains it
        self.places = {o: k for k, o in enumerate(program_order(kernel.body.operations))}
        self.around: dict[Block, tuple[Block, ...]] = {}  # block -> the blocks around it, and the block itself
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[Value, int] = {}
        self.values: list[Value] = []  # representative of each number
        for run in split.runs():
            for o in run.everything():
                self.makers.update(dict.fromkeys(o.results, o))
                for region in o.regions:
                    self.makers.update(dict.fromkeys(region.parameters, o))
        self.index = LinearIndex(kernel, self.makers, merged)
        self._enter(kernel.body, ())

    def _enter(self, block: Block, around: tuple[Block, ...]) -> None:
        self.around[block] = (*around, block)
        for o in block.operations:
            if o.opcode in ("store", "load", "if"):
                self.home[o] = block
            if o.opcode == "store":
                self.stores.setdefault(o.operands[0], []).append(o)
            for region in o.regions:
                self._enter(region, self.around[block])

    def find(self, run: Run, exits: bool) -> RunGuards:
        """Return the guards of a run. `exits`: whether later runs must know which threads have left the kernel."""
        found = RunGuards()
        if run.sends or any(v in self.split.crossing for o in run.receives for v in o.results):
            return found
        facts = _Effects(self, exits).facts_of(run)
        order = (2, 1 - self.split.axis, self.split.axis)
        exact: set[Fact] = set()
        for fact in sorted(facts):
            bound = self.bound(fact, order)
            if bound is not None:
                found.bounds.append(bound)
                if bound.exact:
                    exact |= {fact, (False, *fact[1:])}
        for o in run.everything() if exact else ():
            if o.opcode in _INEQUALITIES:
                for truth in (True, False):
                    implied = self.compared(o, truth)
                    if implied and implied <= exact:
                        found.settled[o.results[0]] = truth
        return found

    def bound(self, fact: Fact, order: tuple[int, ...]) -> Bound | None:
        """Return a bound of the innermost thread index on which an inequality depends, or None."""
        strict, smaller, larger = fact[0], self.values[fact[1]], self.values[fact[2]]
        first, second = self.index.axes(smaller), self.index.axes(larger)
        if first is None or second is None:
            return None
        axis = next((a for a in reversed(order) if a in first | second), None)
        if axis is None:
            return Bound(order[0], smaller, larger, strict, 0, True)
        if axis in first and axis in second:
            return None
        found = self.index.step(smaller if axis in first else larger, axis)
        if found is None or not 0 < found[0] <= _LARGEST_STEP:
            return None
        return Bound(axis, smaller, larger, strict, found[0] if axis in first else -found[0], found[1])

    # -- conditions -----------------------------------------------------------------------------

    def implied(self, condition: Value, truth: bool) -> Facts:
        """Return inequalities that hold if a condition has this truth value."""
        maker = self.makers.get(condition)
        if maker is None or condition.type != np.dtype(bool):
            return frozenset()
        match maker.opcode:
            case name if name in _INEQUALITIES:
                return self.compared(maker, truth)
            case "bitwise_and" | "logical_and" | "bitwise_or" | "logical_or":
                if ("and" in maker.opcode) != truth:
                    return frozenset()
                return self.implied(maker.operands[0], truth) | self.implied(maker.operands[1], truth)
            case "bitwise_xor" if self.is_true(maker.operands[1]):
                return self.implied(maker.operands[0], not truth)
            case "load":
                return self.stored(maker, truth)
            case _:
                return frozenset()

    def is_true(self, value: Value) -> bool:
        maker = self.makers.get(value)
        return maker is not None and maker.opcode == "constant" and bool(maker.attributes["value"])

    def compared(self, o: Operation, truth: bool) -> Facts:
        """Return the inequalities that hold if a comparison of integers has this truth value."""
        x, y = o.operands
        if not _is_integer(x) or not _is_integer(y):
            return frozenset()
        if o.opcode in ("equal", "not_equal"):
            if (o.opcode == "equal") != truth:
                return frozenset()
            one, other = self.number(x), self.number(y)
            return frozenset({(False, one, other), (False, other, one)})
        name = o.opcode if truth else _NEGATED[o.opcode]
        if name.startswith("greater"):
            x, y = y, x
        return frozenset({(not name.endswith("equal"), self.number(x), self.number(y))})

    def stored(self, load: Operation, truth: bool) -> Facts:
        """Return what a variable with the value of ``x and y`` or ``x or y`` implies.

        Its first store is the first operand. A branch that depends on this operand contains its second store.
        """
        stores = self.stores.get(load.operands[0], [])
        if len(stores) != 2 or load.operands[0] not in self.split.single:
            return frozenset()
        first, second = sorted(stores, key=self.places.__getitem__)
        outer = self.home[first]
        if outer not in self.around[self.home[load]] or self.places[load] < self.places[second]:
            return frozenset()
        branch = next((o for o in outer.operations if o.opcode == "if" and second in o.regions[0].operations), None)
        if branch is None or self.places[branch] < self.places[first]:
            return frozenset()
        value, condition = first.operands[2], branch.operands[0]
        if self.number(condition) != self.number(value):
            maker = self.makers.get(condition)
            negated = maker is not None and maker.opcode == "bitwise_xor" and self.is_true(maker.operands[1])
            if truth or not negated or self.number(maker.operands[0]) != self.number(value):  # type: ignore[union-attr]
                return frozenset()
        elif not truth:
            return frozenset()
        return self.implied(value, truth) | self.implied(second.operands[2], truth)

    def number(self, value: Value) -> int:
        """Return a number that is the same for all values computed from the same operands by the same operations."""
        found = self._known.get(value)
        if found is None:
            maker = self.makers.get(value)
            key: tuple[object, ...] = (value,)
            if maker is not None and not maker.regions and is_pure(maker):
                attributes = {k: v for k, v in maker.attributes.items() if k != "line"}
                operands = tuple(self.number(v) for v in maker.operands)
                key = (maker.opcode, value.type, repr(attributes), operands)
            found = self._known[value] = self._numbers.setdefault(key, len(self._numbers))
            if found == len(self.values):
                self.values.append(value)
        return found


class _Effects:
    """Traversal of a run that finds the inequalities which hold at each of its effects."""

    def __init__(self, finder: GuardFinder, exits: bool) -> None:
        self.finder, self.split, self.exits = finder, finder.split, exits
        self.common: Facts | None = None
        self.left: dict[str, Facts | None] = {}  # label of an open scope -> what holds wherever it is left

    def facts_of(self, run: Run) -> Facts:
        """Return the inequalities that hold at all effects of a run."""
        facts: Facts | None = frozenset()
        for o in run.operations:
            if facts is None:
                break
            facts = self.operation(o, facts)
            if any(v in self.split.crossing for v in o.results):
                self.effect(facts)
        return self.common or frozenset()

    def effect(self, facts: Facts | None) -> None:
        if facts is not None:
            self.common = facts if self.common is None else self.common & facts

    def block(self, operations: Iterable[Operation], facts: Facts) -> Facts | None:
        """Return what holds after these operations, or None if threads do not reach their end."""
        here: Facts | None = facts
        for o in operations:
            if here is None:
                return None
            here = self.operation(o, here)
        return here

    def operation(self, o: Operation, facts: Facts) -> Facts | None:
        match o.opcode:
            case "if":
                ends = []
                for region, truth in zip(o.regions, (True, False), strict=True):
                    implied = self.finder.implied(o.operands[0], truth)
                    ends.append(self.block(region.operations, facts | implied))
                return _joined(ends)
            case "for":
                self.block(o.regions[0].operations, facts)
            case "repeat":
                self.block(o.regions[0].operations, facts)
                return None
            case "scope":
                label = o.attributes["label"]
                self.left[label] = None
                end = self.block(o.regions[0].operations, facts)
                return _joined([end, self.left.pop(label)])
            case "leave":
                label = o.attributes["label"]
                if label in self.left:
                    self.left[label] = _joined([self.left[label], facts])
                if self.exits and label == self.split.uniform.exit:
                    self.effect(facts)
                return None
            case "store":
                root = self.split.uniform.roots.get(o.operands[0])
                if root is None or root in self.split.kept:
                    self.effect(facts)
            case "load" if not o.attributes.get("volatile"):
                pass
            case "local" | "yield":
                pass
            case _ if not is_pure(o):
                self.effect(facts)
        return facts


def _joined(ends: Iterable[Facts | None]) -> Facts | None:
    """Return what holds after paths that end in these facts. None is the end of a path that is not reached."""
    reached = [end for end in ends if end is not None]
    return frozenset.intersection(*reached) if reached else None


def _is_integer(value: Value) -> bool:
    return not isinstance(value.type, Pointer) and value.type.kind == "i"
