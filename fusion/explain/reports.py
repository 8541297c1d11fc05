"""Descriptions of programs and source locations as text."""

from __future__ import annotations

from collections.abc import Sequence

from weft.fusion.graph.expr import Expr, Location, constant_value, topological
from weft.runtime import show_location

# Maximum number of program lines in a report.
MOST_LINES = 4000


def describe_location(location: Location | None) -> str:
    """Return a source location as text such as `` (file.py:12)``, or "" if it is unknown."""
    return "" if location is None else f" ({show_location(location)})"


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
