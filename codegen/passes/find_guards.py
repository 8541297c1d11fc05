"""Search for guards, which limit the threads that have work.

An example is ``if i < n``. In: a kernel that is split into runs (the code between two barriers). Out: for each run, or
for each of two parts of the run, bounds of the thread indices, and the comparisons that are constant within these
bounds. A thread outside the bounds has no effect. Invariant: a thread outside the bounds of a run stores nothing that
another thread or another run can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from weft.codegen.kernel_ir.operation import Block, Kernel, Operation, Pointer, Value, program_order
from weft.codegen.passes.conditions import INEQUALITIES, NOTHING, Fact, Facts, FactWalk, Implications
from weft.codegen.passes.linear_index import LinearIndex
from weft.codegen.passes.split_at_barriers import BarrierSplit, Run, is_pure

LARGEST_STEP = 1 << 20  # limit of the difference between adjacent threads
LARGEST_NUMBER = 1 << 62  # limit of the numbers whose remainders select the threads that have work
_DIVIDED = 200  # maximum number of operations of a run that is emitted twice


@dataclass(frozen=True)
class Bound:
    """A bound on the thread index along an axis of the block.

    The bound is ``smaller < larger``, or ``<=`` if not `strict`.

    Attributes
    ----------
    axis : int
    smaller, larger : Value
    strict : bool
    step : int
        Amount by which the value that depends on the axis grows from each thread to the next, negated if that value is
        `larger`. If 0, no value depends on a thread index.
    exact : bool
        Whether the value that depends on the axis cannot overflow. Otherwise the bound holds only if this value is far
        from the maximum of its type.
    factor : Value, optional
        If set, `smaller` grows by this value, which is known only at run time, and `step` is `LARGEST_STEP`. The bound
        holds only if the value is positive and at most `LARGEST_STEP`.
    """

    axis: int
    smaller: Value
    larger: Value
    strict: bool
    step: int
    exact: bool
    factor: Value | None = None


@dataclass(frozen=True)
class ThreadMultiples:
    """The threads in which `number` is a multiple of `divisor`.

    From each thread to the next, `number` increases by 1. If `divisor` is 0, all numbers are multiples.
    """

    number: Value
    divisor: Value


@dataclass
class RunGuards:
    """The limits on the threads that have work in a run (code between barriers).

    `settled` contains the comparisons that the limits decide, and their results. If `multiples` is set, only the
    threads that it describes, within the bounds, have work. `entered` states whether all threads with work take the
    branch that contains the run.
    """

    bounds: list[Bound] = field(default_factory=list)
    multiples: ThreadMultiples | None = None
    settled: dict[Value, bool] = field(default_factory=dict)
    entered: bool = False


class GuardFinder:
    """Finder of guards such as ``if i < n``, which limit the threads that have work between two barriers.

    `merged` is the axis along which blocks run as one block, or None. It may change from run to run.
    """

    def __init__(self, kernel: Kernel, split: BarrierSplit) -> None:
        self.kernel, self.split = kernel, split
        self.merged: int | None = None
        self.conditions = Implications(kernel)
        self.makers: dict[Value, Operation] = {}  # operations that compute the values of runs
        for run in split.runs():
            for o in run.everything():
                self.makers.update(dict.fromkeys(o.results, o))
                for region in o.regions:
                    self.makers.update(dict.fromkeys(region.parameters, o))
        self._indices: dict[int | None, LinearIndex] = {}
        self._definitions: dict[Value, tuple[Block, int]] = {}  # value outside runs -> its block and position
        self._run_positions: dict[Run, tuple[set[Block], int]] = {}  # run -> the blocks around it, and its position
        self._steps = count()
        self._enter(kernel.body, ())

    def _enter(self, block: Block, around: tuple[Block, ...]) -> None:
        around = (*around, block)
        for step in self.split.steps[block]:
            position = next(self._steps)
            if isinstance(step, Run):
                self._run_positions[step] = set(around), position
                continue
            self._definitions.update(dict.fromkeys(step.results, (block, position)))
            for region in (r for r in step.regions if r in self.split.steps):
                self._definitions.update(dict.fromkeys(region.parameters, (region, position)))
                self._enter(region, around)

    @property
    def index(self) -> LinearIndex:
        """Return the analysis of how values depend on the thread indices."""
        if self.merged not in self._indices:
            self._indices[self.merged] = LinearIndex(self.kernel, self.makers, self.merged)
        return self._indices[self.merged]

    def find(self, run: Run, exits: bool) -> RunGuards:
        """Return the guards that limit which threads have work in a run (code between barriers).

        `exits` says whether later runs must know which threads have left the kernel.
        """
        found = RunGuards()
        order = (2, 1 - self.split.axis, self.split.axis)
        exact: set[Fact] = set()
        around = list(self.branches(run))
        entry = NOTHING.union(*(self.conditions.implied(condition, taken) for condition, taken in around))
        if run.sends or any(v in self.split.crossing for o in run.receives for v in o.results):
            held = entry  # all threads that take the branches have an effect
        else:
            held = _Effects(self, exits).facts_of(run, entry)
        for fact in sorted(held):
            if found.multiples is None and (False, fact[2], fact[1]) in held:
                found.multiples = self.multiples(fact, run)
                exact |= {fact, (False, fact[2], fact[1])} if found.multiples else set()
            bound = self.bound(fact, order)
            needed = (bound.smaller, bound.larger, bound.factor) if bound is not None else ()
            if bound is not None and all(v is None or self.is_available(v, run) for v in needed):
                found.bounds.append(bound)
                if bound.exact:
                    exact |= {fact, (False, *fact[1:])}
        facts = frozenset(exact)
        found.entered = all(self.conditions.is_certain(condition, taken, facts) for condition, taken in around)
        found.settled = self.settled(run, facts) if facts else {}
        return found

    def multiples(self, fact: Fact, run: Run) -> ThreadMultiples | None:
        """Return the threads that satisfy a guard ``x % y == 0``, or None.

        `fact` is one of the two inequalities that such a guard implies. Return None for other facts, and unless x
        increases by 1 from each thread to the next, and y is the same for all threads. A remainder is 0 if the divisor
        is 0.
        """
        rest, zero = (self.conditions.values[k] for k in fact[1:])
        maker, makers = self.conditions.makers.get(zero), self.conditions.makers
        if maker is None or maker.opcode != "constant" or maker.attributes["value"] != 0:
            return None
        # ``where(bad, 0, r)`` or ``where(bad, 0, where(wrong_sign, r + d, r))`` with ``r = x rem d`` and
        # ``d = where(bad, 1, y)`` (`remainder` and `fmod` in the op table)
        operations = [makers.get(rest)]
        for _ in range(3):
            last = operations[-1]
            operations.append(makers.get(last.operands[-1]) if last is not None and last.operands else None)
        outer, *inner = operations
        if outer is None or outer.opcode != "where":
            return None
        division = next((o for o in inner[:2] if o is not None and o.opcode == "_truncate_remainder"), None)
        divisor = makers.get(division.operands[1]) if division is not None else None
        if (
            division is None
            or divisor is None
            or divisor.opcode != "where"
            or divisor.operands[0] is not outer.operands[0]
        ):
            return None
        x, y = division.operands[0], divisor.operands[2]
        axis = self.split.axis
        fits = self.merged is None and self.index.largest(x) < LARGEST_NUMBER and self.index.step(x, axis) == (1, True)
        if (
            not fits
            or self.index.axes(y) != frozenset()
            or not (self.is_available(x, run) and self.is_available(y, run))
        ):
            return None
        return ThreadMultiples(x, y)

    def settled(self, run: Run, facts: Facts) -> dict[Value, bool]:
        """Among the comparisons in a code section, find those that the given inequalities decide. Return a dict from them to their results."""
        comparisons = [o.results[0] for o in run.everything() if o.opcode in INEQUALITIES]
        return {
            value: truth
            for value in comparisons
            for truth in (True, False)
            if self.conditions.is_certain(value, truth, facts)
        }

    def divide(self, run: Run) -> list[RunGuards]:
        """Split the threads of a run (code between barriers) by a condition, and return the guards of both parts.

        In each part, an access in a branch needs no mask, as in ``part[t] = x[i] if i < n else 0``. Return an empty
        list if there is no such condition.
        """
        if len(list(run.everything())) > _DIVIDED:
            return []
        for o in run.operations:
            if o.opcode == "if" and any(map(_is_global, program_order(r for g in o.regions for r in g.operations))):
                parts = [self.part(run, o.operands[0], truth) for truth in (True, False)]
                found = [part for part in parts if part is not None]
                if len(found) == len(parts):
                    return sorted(found, key=lambda part: -part.bounds[0].step)
        return []

    def part(self, run: Run, condition: Value, truth: bool) -> RunGuards | None:
        """Return guards that select exactly the threads with ``condition == truth``, or None if no guards select exactly these threads."""
        facts, others = (self.conditions.implied(condition, side) for side in (truth, not truth))
        if len(facts) != 1 or len(others) != 1:
            return None
        ((strict, smaller, larger),) = facts
        bound = self.bound((strict, smaller, larger), (2, 1 - self.split.axis, self.split.axis))
        if others != {(not strict, larger, smaller)} or bound is None or not bound.exact or bound.step == 0:
            return None
        if not all(self.is_available(v, run) for v in (bound.smaller, bound.larger)):
            return None
        settled = self.settled(run, facts | {(False, smaller, larger)})
        return RunGuards([bound], settled={**settled, condition: truth})

    def branches(self, run: Run) -> Iterator[tuple[Value, bool]]:
        """For each branch around the code section `run`, yield the branch condition and the result (true or false) that leads to the section.

        Only branches that some threads take and others do not are included.
        """
        branch = run.branch
        while branch is not None:
            operation, region = branch
            yield operation.operands[0], region == 0
            branch = self.split.branches[operation]

    def is_available(self, value: Value, run: Run) -> bool:
        """Return whether a value can be computed before a run (the code between two barriers) begins."""
        maker = self.makers.get(value)
        if maker is not None:
            return all(self.is_available(v, run) for v in maker.operands)
        if value not in self._definitions:
            return True
        (block, position), (around, start) = self._definitions[value], self._run_positions[run]
        return block in around and position < start

    def bound(self, fact: Fact, order: tuple[int, ...]) -> Bound | None:
        """Return the bound on a thread index that an inequality implies, or None."""
        strict, smaller, larger = fact[0], *(self.conditions.values[k] for k in fact[1:])
        first, second = self.index.axes(smaller), self.index.axes(larger)
        if first is None or second is None:
            return None
        axis = next((a for a in reversed(order) if a in first | second), None)
        if axis is None:
            return Bound(order[0], smaller, larger, strict, 0, True)
        if axis in first and axis in second:
            return None
        found = self.index.step(smaller if axis in first else larger, axis)
        if found is None and axis in first and (factor := self.index.factor(smaller, axis)) is not None:
            return Bound(axis, smaller, larger, strict, LARGEST_STEP, False, factor)
        if found is None or not 0 < found[0] <= LARGEST_STEP:
            return None
        return Bound(axis, smaller, larger, strict, found[0] if axis in first else -found[0], found[1])


def _is_global(o: Operation) -> bool:
    """Return whether an operation is a load from or a store to global memory."""
    kind = o.operands[0].type if o.opcode in ("load", "store") else None
    return isinstance(kind, Pointer) and kind.space == "global"


class _Effects(FactWalk):
    """Traversal of the code between two barriers. It finds the inequalities that hold at each observable effect."""

    def __init__(self, finder: GuardFinder, exits: bool) -> None:
        super().__init__(finder.conditions)
        self.split, self.exits = finder.split, exits
        self.common: Facts | None = None

    def facts_of(self, run: Run, entry: Facts) -> Facts:
        """Return inequalities that are true whenever a run (the code between two barriers) has an observable effect, such as a store."""
        facts: Facts | None = entry
        for o in run.operations:
            facts = self.block([o], facts)
            if facts is not None and any(v in self.split.crossing for v in o.results):
                self.effect(facts)
        return self.common or NOTHING

    def effect(self, facts: Facts) -> None:
        self.common = facts if self.common is None else self.common & facts

    def visit(self, o: Operation, facts: Facts) -> None:
        """If `o` has an observable effect, intersect `self.common` with `facts`. The set `facts` contains the inequalities that hold at `o`."""
        match o.opcode:
            case "if" | "for" | "repeat" | "scope" | "local" | "yield":
                pass
            case "leave":
                if self.exits and o.attributes["label"] == self.split.uniform.exit:
                    self.effect(facts)
            case "store":
                root = self.split.uniform.roots.get(o.operands[0])
                if root is None or root in self.split.kept:
                    self.effect(facts)
            case "load" if not o.attributes.get("volatile"):
                pass
            case _ if not is_pure(o):
                self.effect(facts)
