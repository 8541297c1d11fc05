"""Programs: graphs whose nodes are in the order of interpretation.

In: a graph and the requested versions. Out: a `Program`: steps in an order in which operands come first. Invariant:
updates that may overwrite memory from before the run come last, after every step that can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import weft.codegen as codegen  # (its names load when they are used)
from weft.fusion.graph.expr import Expr, topological
from weft.fusion.plan.live_graph import LiveGraph
from weft.fusion.run.interpret import maps, moves, reductions, variances
from weft.fusion.run.reduce_arrays import NeedsKernelError
from weft.fusion.run.stored_loops import compiler
from weft.runtime import Device


class ValueStep(NamedTuple):
    """A step of an interpreted program, which computes one value from other values."""

    node: Expr
    number: int
    operands: tuple[int, ...]
    run: Callable[[Any, Any, ValueStep], Any]
    detail: Any = None


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """The steps of an interpreted graph."""

    steps: list[ValueStep]
    tail: int  # position of the first step that may overwrite memory from before the run
    uses: list[int]  # number of steps that read each value, plus one for an output or a leaf that later work reads
    outputs: list[tuple[Expr, int]]
    handed: list[int]  # number of each version's value, or -1 if the version stays pending
    numbers: dict[Expr, int] = field(repr=False)
    any_order: bool = False
    movable: bool = False  # whether the orders of reductions are the same for any offsets of views
    nodes: list[Expr] = field(default_factory=list, repr=False)  # of the graph's form

    def moved(self, nodes: list[Expr]) -> Program:
        """Return a copy of this program for a graph that differs only in the offsets of its views."""
        new = dict(zip(self.nodes, nodes, strict=True))
        steps = [ValueStep(new[each.node], each.number, each.operands, each.run, each.detail) for each in self.steps]
        outputs = [(new[node], number) for node, number in self.outputs]
        numbers = {new[node]: number for node, number in self.numbers.items()}
        return Program(steps, self.tail, self.uses, outputs, self.handed, numbers, self.any_order)


@dataclass(slots=True, eq=False, repr=False)
class ReductionOrders:
    """The facts that determine in which order a plan would combine the elements of a reduction."""

    order: list[Expr]
    outputs: list[Expr]
    origins: Mapping[Expr, Expr]
    device: Device
    any_order: bool
    rules: tuple[set[Expr], set[Expr]] | None = None  # the cached result of `stored`

    @property
    def target(self) -> Any:
        """The target whose kernels determine the order of reductions."""
        return codegen.order_target() if self.device.name == "cpu" else self.device.target

    def stored(self) -> tuple[set[Expr], set[Expr]]:
        """Predict what a compiled plan would do: return the set of values that the plan would store in memory, and the
        set of reductions that the plan may inline.
        """
        if self.rules is None:
            rules = compiler()  # (loads the code generator)
            short = rules.find_short(self.order, set(self.outputs))
            self.rules = rules.choose_materialized(self.order, self.outputs), short
        return self.rules


def make_program(graph: LiveGraph, wanted: Sequence[int] | None, device: Device, *, any_order: bool = False) -> Program:
    """Return the program that interprets a graph.

    Raises NeedsKernelError if only a plan computes the right bits. With `any_order`, the results may have other bits:
    sums may have another order, and reference functions may compute ops.
    """
    roots = graph.versions if wanted is None else [graph.versions[k] for k in wanted]
    order = topological(roots)
    needed = set(order)
    outputs = list(dict.fromkeys([*roots, *(v for v in graph.versions if v in needed)]))
    kept = [v for v in graph.versions if v not in needed]
    found = {} if any_order or reductions.has_gpu_schedules(device) else variances.find_variances(order, graph.origins)
    order, operands = _without_intermediates(order, outputs, found)
    users: dict[Expr, list[Expr]] = {node: [] for node in order}
    for node in order:
        if node.kind == "leaf" and node.attrs[1] != device.name:
            raise NeedsKernelError
        for child in set(operands[node]):
            users[child].append(node)
    inside = maps.find_inlined(order, users, set(outputs))
    orders = ReductionOrders(order, outputs, graph.origins, device, any_order)
    shown = [node for node in order if node not in inside]
    front, back = _split_tail(shown, users)
    numbers = {node: k for k, node in enumerate([*front, *back])}
    steps = [
        ValueStep(node, numbers[node], (numbers[found[node][0]],), variances.run_variance, found[node][1])
        if node in found
        else _make_step(node, operands[node], numbers, inside, orders)
        for node in [*front, *back]
    ]
    uses = [0] * len(steps)
    for step in steps:
        for operand in step.operands:
            uses[operand] += 1
    for node in outputs:
        uses[numbers[node]] += 1
    for node in topological(kept):
        if node in numbers and node.kind == "leaf":
            uses[numbers[node]] += 1
    risky = any(reductions.may_fail(step.node) for step in steps)
    return Program(
        steps,
        len(steps) if risky else len(front),
        uses,
        [(node, numbers[node]) for node in outputs],
        [numbers.get(version, -1) if version in needed else -1 for version in graph.versions],
        numbers,
        any_order,
        orders.rules is None,
    )


def _without_intermediates(
    order: list[Expr], outputs: list[Expr], found: Mapping[Expr, tuple[Expr, Any]]
) -> tuple[list[Expr], dict[Expr, tuple[Expr, ...]]]:
    """Let variances and counts read the array that they are computed from, instead of intermediate values.

    Return the nodes that are still needed, and the operands of each node.

    Variances in `found` have their array as operand. The nodes of the squared differences are omitted unless other
    nodes need them. In the same way, counts of true elements have a bool array as operand.
    """
    operands = {node: (found[node][0],) if node in found else reductions.operands_of(node) for node in order}
    if all(operands[node] is node.operands for node in order):
        return order, operands
    needed = set(outputs)
    for node in reversed(order):
        if node in needed:
            needed.update(operands[node])
    return [node for node in order if node in needed], operands


def _split_tail(order: list[Expr], users: dict[Expr, list[Expr]]) -> tuple[list[Expr], list[Expr]]:
    """Return the nodes in two lists: first all nodes except final updates, then the final updates.

    A final update is used only as a result and as the previous version of other final updates.
    """
    tail: set[Expr] = set()
    for node in reversed(order):
        if node.kind == "update" and all(u in tail and u.operands[0] is node for u in users[node]):
            tail.add(node)
    return [n for n in order if n not in tail], [n for n in order if n in tail]


def _make_step(
    node: Expr, given: tuple[Expr, ...], numbers: dict[Expr, int], inside: set[Expr], orders: ReductionOrders
) -> ValueStep:
    number = numbers[node]
    if node.kind == "map":
        inputs, cluster = maps.make_cluster(node, inside, orders.any_order)
        return ValueStep(node, number, tuple(numbers[n] for n in inputs), maps.run_cluster, cluster)
    operands = tuple([numbers[child] for child in given])
    match node.kind:
        case "reduce":
            return ValueStep(node, number, operands, reductions.run_reduce, reductions.choose_order(node, orders))
        case "scan":
            if not orders.any_order:
                reductions.check_scan(node, orders)
            return ValueStep(node, number, operands, reductions.run_scan)
        case "opaque":
            if hasattr(node.attrs[0], "enqueue") and not orders.any_order:
                raise NeedsKernelError
            return ValueStep(node, number, operands, moves.run_opaque)
        case kind:
            return ValueStep(node, number, operands, moves.RUN[kind])
