"""New plans for the plan cache.

In: a graph and a function that plans it. Out: a plan, which is cached for graphs of the same form. Invariant: if
planning uses a size in a way that cannot be recorded, the plan is cached for exact sizes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.fusion.graph.expr import Expr
from weft.fusion.graph.sizes import Trace
from weft.fusion.plan import plan_cache
from weft.fusion.plan.live_graph import LiveGraph
from weft.fusion.plan.plan_cache import SIZED, Form, SizeEncoder, is_traced_constant
from weft.fusion.plan.plan_records import record_plan
from weft.fusion.plan.steps import Plan
from weft.runtime import Device


class SizeTracer:
    """Converter of array sizes and constants to `Size` objects, which record how planning uses them. It has the methods of `SizeEncoder`."""

    def __init__(self, encoder: SizeEncoder, trace: Trace) -> None:
        codes = ((value, abs(code) - 2) for value, code in encoder.codes.items())
        self.sizes: dict[int, Any] = {value: trace.sizes[k] for value, k in codes if k >= 0}
        self.offsets = {key: trace.sizes[abs(code) - 2] for key, code in encoder.offsets.items()}
        self.constants = {bits: trace.sizes[k] for bits, k in encoder.constants.items()}

    def number(self, value: int) -> Any:
        """Return the `Size` object that traces a number (a length or stride). If there is none, return the number."""
        return self.sizes.get(value, value)

    def offset(self, value: int, strides: Any) -> Any:
        """Return the `Size` object that traces the offset of a view. If there is none, return the offset unchanged."""
        return self.offsets.get((strides, value), value)

    def __call__(self, numbers: tuple[int, ...]) -> tuple[Any, ...]:
        return tuple([self.sizes.get(n, n) for n in numbers])


def trace_plan(form: Form, device: Device, graph: LiveGraph, make: Callable[[LiveGraph], Plan]) -> Plan | None:
    """Create a plan with the function `make`, and cache it. If possible, the plan is reused for the same graph with other array sizes.

    `make` plans a copy of the graph in which `Size` objects replace the sizes, and record how planning uses the sizes.
    Return None if planning uses a size in a way that cannot be recorded.
    """
    trace = Trace(form.encoder.values)
    sizes = SizeTracer(form.encoder, trace)
    copies: dict[Expr, Expr] = {}
    for node in form.nodes:
        operands = tuple([copies[child] for child in node.operands])
        attrs = node.attrs
        if node.kind in SIZED:
            attrs = SIZED[node.kind](attrs, sizes)
        elif is_traced_constant(node):
            attrs = (sizes.constants[attrs[0]],)
        # not interned: no program contains this expression
        shape = sizes(node.shape)
        copies[node] = Expr(node.kind, node.op, operands, attrs, shape, node.dtype, node.location)
    try:
        origins = {copies[leaf]: copies[origin] for leaf, origin in graph.origins.items()}
        plan = make(LiveGraph([copies[v] for v in graph.versions], origins))
    except (TypeError, ValueError, AttributeError, OverflowError):
        plan_cache.give_up(form)
        return None
    exact = form.encoder.values if trace.alone else None
    template = record_plan(plan, [copies[node] for node in form.nodes], trace, exact)
    assert template is not None, "every step is of a node of the graph"
    found = template.find(form.encoder.values, form.nodes)
    assert found is not None, "conditions hold for the sizes that they were found with"
    found.schedule = plan.schedule
    plan_cache.add(form, device, template)
    return found


def keep_exact(form: Form, device: Device, plan: Plan) -> None:
    """Cache a plan that is valid only for graphs with the same sizes."""
    record = record_plan(plan, form.nodes, None, form.encoder.values)
    if record is not None:
        plan_cache.add(form, device, record)
