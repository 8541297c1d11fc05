"""Plan records, from which plans are created for other graphs.

In: a plan, and the nodes of its form. Out: a `PlanRecord`, which recreates the plan for other nodes of the form and,
unless it is exact, for other sizes. A record can be written as text and read in another process. Invariant: the text
names kernels by their digests and expressions by their index in the form, so nothing in it depends on the process.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from operator import index
from typing import Any, assert_never

from weft.fusion.graph.expr import Expr, Location
from weft.fusion.graph.sizes import Computation, Size, Trace
from weft.fusion.plan.arena import ArenaSlices, Donation
from weft.fusion.plan.steps import Batch, HostCall, KernelFacts, KernelLaunch, Plan, Step
from weft.runtime import BufferRequests

# A kernel of a record: the loaded function, and the fields of `KernelLaunch` that describe it.
Source = tuple[Any, str, str, bool, Callable[[Sequence[Expr]], KernelFacts], Callable[[], str]]
# Attributes of a plan that depend neither on the sizes nor on the expressions of a graph.
_UNCHANGED = ("table_size", "slots", "scalars", "counter", "values", "moved")


class PlanRecord:
    """A template for plans. It refers to no particular graph, and creates plans for graphs of the same structure."""

    def __init__(
        self, computation: Computation, data: dict[str, Any], kernels: list[Source], exact: list[int] | None
    ) -> None:
        self.computation = computation
        self.exact = exact  # the only sizes of the plan, or None: all that meet the conditions of `computation`
        self.read = False  # whether the record was read from disk and has not been used yet
        self._data = data
        self._kernels = kernels

    def find(self, sizes: Sequence[int], nodes: list[Expr]) -> Plan | None:
        """Return the plan for a graph with the given sizes and nodes, or None if the sizes do not fit."""
        if self.exact is not None and self.exact != sizes:
            return None
        numbers = self.computation(sizes)
        return None if numbers is None else self._build(numbers, nodes)

    def _build(self, numbers: Sequence[int], nodes: list[Expr]) -> Plan:
        data, kernels = self._data, self._kernels
        steps: list[Step] = []
        for step in data["steps"]:
            match step[0]:
                case "launch":
                    steps.append(_launch(step, kernels[step[1]], numbers, nodes))
                case "new":
                    steps.append((step[1], numbers[step[2]]))
                case "drop":
                    steps.append(step[1])
                case "call":
                    operands = [(slot, nodes[k], window) for slot, k, window in step[3]]
                    node = nodes[step[1]]
                    loop = import_module("weft.fusion.plan.numpy_loops").TABLE[node.kind, node.op] if step[4] else None
                    steps.append(HostCall(node, step[2], operands, loop))
                case "donation":
                    _, slot, source, how, n, begin, end, *others = step
                    steps.append(Donation(slot, source, how, numbers[n], (numbers[begin], numbers[end]), tuple(others)))
                case "slices":
                    parts = [(slot, numbers[offset], numbers[n]) for slot, offset, n in step[2]]
                    steps.append(ArenaSlices(step[1], parts))
        descriptors = data["descriptors"]
        return Plan(
            steps,
            outputs=[(nodes[k], slot) for k, slot in data["outputs"]],
            schedule=None,
            descriptors=None if descriptors is None else (descriptors[0], numbers[descriptors[1]]),
            **data["unchanged"],
        )

    # -- text -----------------------------------------------------------------------------

    def as_text(self, nodes: Sequence[Expr]) -> str:
        """Return the record as a line of text. `nodes` are the nodes of a graph for which the record is valid."""
        numbers = _number_locations(nodes)
        kernels = []
        for _, name, digest, exact, facts, _ in self._kernels:
            known = facts(nodes)
            members = [(op, numbers.get(_identity(where), -1)) for op, where in known.members]
            location = numbers.get(_identity(known.location), -1)
            kernels.append([name, digest, exact, members, known.instructions, location])
        return json.dumps([self.exact, self.computation.as_data(), self._data, kernels], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, find: Callable[[str], Any | None]) -> PlanRecord | None:
        """Return the plan record that `as_text` converted to `text`.

        Return None if `find` returns None for a kernel's digest. Raises ValueError, TypeError or KeyError if `as_text`
        did not write the text.
        """
        exact, computation, data, kernels = json.loads(text)
        sources: list[Source] = []
        for name, digest, special, members, instructions, location in kernels:
            function = find(digest)
            if function is None:
                return None
            sources.append((function, name, digest, special, partial(_facts, members, instructions, location), str))
        found = cls(Computation.from_data(computation), data, sources, exact)
        found.read = True
        return found


def _launch(step: list[Any], source: Source, numbers: Sequence[int], nodes: list[Expr]) -> KernelLaunch:
    _, _, parallel, work, slots, patches, scalars, nbytes, origin, streams = step
    function, name, digest, exact, facts, text = source
    return KernelLaunch(
        function,
        tuple([numbers[k] for k in parallel]),
        numbers[work],
        array("q", [numbers[k] for k in slots]),
        [(argument, slot, numbers[k]) for argument, slot, k in patches],
        [(argument, slot) for argument, slot in scalars],
        numbers[nbytes],
        nodes[origin].location if origin >= 0 else None,
        name,
        digest,
        exact,
        partial(facts, nodes),
        text,
        streams=[(argument, slot, numbers[k]) for argument, slot, k in streams],
    )


def _facts(members: Sequence[Any], instructions: int, location: int, nodes: Sequence[Expr]) -> KernelFacts:
    def at(number: int) -> Location | None:
        return nodes[number].location if number >= 0 else None

    return KernelFacts(tuple((op, at(k)) for op, k in members), instructions, at(location))


def _identity(location: Location | None) -> tuple[Any, ...] | None:
    """Convert a source location to a key that is fast to hash. If the location is None, return None."""
    return None if location is None else (id(location[0]), *location[1:])


def _number_locations(nodes: Sequence[Expr]) -> dict[tuple[Any, ...] | None, int]:
    return {_identity(node.location): k for k, node in enumerate(nodes) if node.location is not None}


def record_plan(plan: Plan, nodes: Sequence[Expr], trace: Trace | None, exact: list[int] | None) -> PlanRecord | None:
    """Return a reusable record of a plan.

    With a `trace`, the record applies to all sizes that meet the traced conditions. If `exact` is not None, the record
    applies only to these sizes. Return None if a step or a result of the plan is for an expression not in `nodes`.
    """
    results: list[Any] = []
    numbers: dict[Any, int] = {}

    def at(number: Any) -> int:
        """Return the position of a number in the list `results`. If the number is missing, add it at the end."""
        traced = type(number) is Size
        key = number.name if traced else index(number)
        if key not in numbers:
            numbers[key] = len(results)
            results.append(number if traced else key)
        return numbers[key]

    where = {node: k for k, node in enumerate(nodes)}
    locations = _number_locations(nodes)
    kernels: list[Source] = []
    steps: list[list[Any]] = []
    try:
        for step in plan.steps:
            match step:
                case KernelLaunch():
                    origin = locations.get(_identity(step.origin), -1)
                    steps.append(_describe_launch(step, len(kernels), origin, at))
                    kernels.append((step.function, step.name, step.digest, step.exact, _known(step.facts), step.text))
                case HostCall(node, out, given, loop):
                    operands = [[slot, where[child], window] for slot, child, window in given]
                    steps.append(["call", where[node], out, operands, loop is not None])
                case Donation(slot, source, how, nbytes, except_for, others):
                    steps.append(["donation", slot, source, how, at(nbytes), *map(at, except_for), *others])
                case ArenaSlices(whole, parts):
                    steps.append(["slices", whole, [[slot, at(offset), at(n)] for slot, offset, n in parts]])
                case (slot, nbytes):
                    steps.append(["new", slot, at(nbytes)])
                case int():
                    steps.append(["drop", step])
                case Batch() | BufferRequests():
                    raise AssertionError("a plan is recorded before its steps are merged")
                case _:
                    assert_never(step)
        outputs = [[where[node], slot] for node, slot in plan.outputs]
    except KeyError:
        return None
    data = {
        "steps": steps,
        "outputs": outputs,
        "descriptors": plan.descriptors and [plan.descriptors[0], at(plan.descriptors[1])],
        "unchanged": {name: getattr(plan, name) for name in _UNCHANGED},
    }
    computation = Computation(0, [], results) if trace is None else trace.finish(results)
    return PlanRecord(computation, data, kernels, exact)


def _known(facts: Callable[[], KernelFacts]) -> Callable[[Sequence[Expr]], KernelFacts]:
    return lambda nodes: facts()


def _describe_launch(step: KernelLaunch, kernel: int, origin: int, at: Callable[[Any], int]) -> list[Any]:
    return [
        "launch",
        kernel,
        [at(n) for n in step.parallel],
        at(step.work),
        [at(n) for n in step.arguments],
        [[argument, slot, at(offset)] for argument, slot, offset in step.patches],
        [list(pair) for pair in step.scalars],
        at(step.nbytes),
        origin,
        [[argument, slot, at(count)] for argument, slot, count in step.streams],
    ]
