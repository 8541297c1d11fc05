"""Live graphs: graphs of the expressions that are still to be computed. Values that are already in memory appear as inputs.

In: the versions of an epoch, and the results of the epoch's earlier evaluations. Out: a `LiveGraph` of the same
versions. Invariant: no pass that follows operands reaches the operands of a result. Only the search for the shift of a
sum needs to know how a result was computed, and uses `LiveGraph.origins`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.fusion.graph.expr import Expr, topological


class LiveGraph(NamedTuple):
    """The expressions of an evaluation, with inputs in place of values that are in memory."""

    versions: list[Expr]
    # leaf that holds a reduction, or a reduction divided by a constant -> this expression
    origins: dict[Expr, Expr]


def reduction_of(node: Expr) -> Expr | None:
    """Return `node` if it is a reduction. If `node` is a reduction divided by a constant, return the reduction.

    Otherwise, return None. There may be views between the reduction and the division.
    """
    if node.kind == "map" and node.op == "divide" and node.operands[1].kind == "constant":
        node = node.operands[0]
        while node.kind == "view":
            node = node.operands[0]
    return node if node.kind == "reduce" else None


def make_graph(versions: Sequence[Expr], results: Mapping[Expr, Expr]) -> LiveGraph:
    """Return a graph of the expressions in `versions`. The dict `results` maps already computed expressions to the inputs that replace them."""
    made: dict[Expr, Expr] = {}
    order = topological(versions, results.__contains__)
    for node in order:
        made[node] = results[node] if node in results else with_operands(node, made)
    return LiveGraph([made[version] for version in versions], _find_origins(order, made, results))


def _find_origins(order: list[Expr], made: dict[Expr, Expr], results: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
    """Return a dict from graph inputs that are results of earlier reductions to expressions that compute these results from values of the graph."""
    again: dict[Expr, Expr] = {}  # a reduction, or a node computed from one -> its counterpart in the new graph
    origins: dict[Expr, Expr] = {}
    for node in order:
        reduction = reduction_of(node) if node in results else None
        if reduction is None or reduction.operands[0] not in made:
            continue
        again[reduction] = (
            made[reduction] if reduction in made and reduction not in results else with_operands(reduction, made)
        )
        for step in topological([node], again.__contains__):
            if step not in again:
                again[step] = with_operands(step, again)
        origins[results[node]] = again[node]
    return origins


def with_operands(node: Expr, made: Mapping[Expr, Expr]) -> Expr:
    """Return the operation `node` with its operands replaced according to the mapping `made`."""
    operands = tuple([made[child] for child in node.operands])
    if operands == node.operands:
        return node
    # not interned: no user code recorded it
    return Expr(node.kind, node.op, operands, node.attrs, node.shape, node.dtype, node.location)
