"""Programs as text, and source locations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.codegen import find_op
from weft.fusion.graph.expr import Expr, Location, constant_value, topological
from weft.runtime import show_location, source_line

# Maximum number of program lines in a report.
MOST_LINES = 4000


def describe_location(location: Location | None) -> str:
    """Return a source location as text such as `` (file.py:12)``, or "" if it is unknown."""
    return "" if location is None else f" ({show_location(location)})"


def shares_of_lines(members: Iterable[tuple[str, Location | None]]) -> tuple[tuple[str, int, float], ...]:
    """Return the user's source lines that contain operations, each with its share of the cost of all operations.

    `members` contains the descriptions of the operations, and their locations.
    """
    costs: dict[tuple[str, int], int] = {}
    for op, where in members:
        if where is not None:
            line = source_line(where)
            costs[line] = costs.get(line, 0) + _cost(op)
    whole = sum(costs.values())
    return tuple((file, line, cost / whole) for (file, line), cost in costs.items())


def _cost(member: str) -> int:
    """Return the cost of an operation, given its description as text."""
    try:
        return find_op(member.rpartition(" ")[2]).cost
    except KeyError:  # an update or a copy
        return 1


def describe(versions: Sequence[Expr]) -> str:
    """Return a program as text: a line for each value, and a last line with the results."""
    order = topological(versions)
    names = {node: f"v{k}" for k, node in enumerate(order)}
    lines = []
    for node in order[:MOST_LINES]:
        operands = ", ".join(names[child] for child in node.operands)
        attrs = repr(constant_value(node)) if node.kind == "constant" else repr(node.attrs) if node.attrs else ""
        kind = f"{node.kind} {node.op}".strip()
        lines.append(
            f"{names[node]} = {kind}({operands}) {attrs} {node.dtype}{list(node.shape)}{describe_location(node.location)}"
        )
    if len(order) > MOST_LINES:
        lines.append(f"... and {len(order) - MOST_LINES} more")
    return "\n".join([*lines, "results: " + ", ".join(names[v] for v in versions)])
