"""Compilation of plans in a second process.

In: graphs, which are interpreted until their plans are compiled. Out: their plans, in the disk cache. Invariant: a
graph is refused if this process could not find its plan in the disk cache, for example because the graph has a user
function.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import weft.codegen as codegen
import weft.runtime as runtime  # (names load when they are used)
from weft.fusion.graph.expr import Expr
from weft.fusion.plan import plan_cache
from weft.fusion.plan.live_graph import LiveGraph

if TYPE_CHECKING:
    from weft.runtime import Device, Request


def request_plan(
    form: plan_cache.Form, graph: LiveGraph, wanted: tuple[int, ...] | None, device: Device, slots: int
) -> Request | None:
    """Request a plan from a second process, or return None if this process must compile it.

    The result of the request is the CPU time of the compilation in seconds.
    """
    plan_store = plan_cache.store()
    if plan_store.open_store(device) is None or not plan_store.is_nameable(form.key):
        return None
    # (the second process describes the machine if this process would have to load LLVM to do so)
    key = plan_store.store_key(form.key, device) if codegen.is_host_described() else b""
    arguments = device.name, slots, wanted, key, *_flatten(form.nodes, graph)
    then = partial(plan_cache.forget, form.key)  # (the next search reads the disk)
    return runtime.submit("weft.fusion.run.planning.compile_plan", arguments, then, urgent=True)


def _flatten(nodes: list[Expr], graph: LiveGraph) -> tuple[Any, ...]:
    """Convert a graph to tuples and numbers for another process.

    `nodes` contains all nodes of the graph. A node follows its operands.
    """
    number = {node: k for k, node in enumerate(nodes)}
    location_numbers: dict[Any, int] = {}
    rows = []
    for node in nodes:
        where = node.location
        location_number = (
            None if where is None else location_numbers.setdefault((id(where[0]), *where[1:]), len(location_numbers))
        )
        operands = tuple([number[child] for child in node.operands])
        rows.append((node.kind, node.op, operands, node.attrs, node.shape, node.dtype, location_number))
    origins = [(number[leaf], number[origin]) for leaf, origin in graph.origins.items()]
    return rows, [number[version] for version in graph.versions], origins


def restore(rows: list[Any], versions: list[int], origins: list[tuple[int, int]]) -> LiveGraph:
    """Rebuild a graph from the result of `_flatten`.

    The locations of the nodes are placeholders, which are equal where the original locations were equal.
    """
    nodes: list[Expr] = []
    for kind, op, operands, attrs, shape, dtype, location_number in rows:
        location = None if location_number is None else (restore.__code__, location_number)
        nodes.append(Expr(kind, op, tuple([nodes[k] for k in operands]), attrs, shape, dtype, location))
    return LiveGraph([nodes[k] for k in versions], {nodes[leaf]: nodes[origin] for leaf, origin in origins})
