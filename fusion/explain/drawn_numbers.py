"""Detection of random number streams that CPU kernels generate themselves.

In: a schedule. Out: the streams that are never in memory. Invariant: these are the streams that
`weft.fusion.plan.stream_operands` removes from the plan.
"""

from __future__ import annotations

from weft.codegen import Target, find_spans, run_passes
from weft.fusion.graph.expr import Expr, is_stream
from weft.fusion.lower.kernel_writer import Lowered
from weft.fusion.lower.kernels import lower_for
from weft.fusion.plan.materialized_values import base_of
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.stream_operands import MOST_READERS
from weft.runtime import MOST_AT_ONCE


def drawn_by_kernels(schedule: Schedule, target: Target) -> set[Expr]:
    """Return the random number streams that CPU kernels generate instead of reading them from memory."""
    calls = [group.opaque for group in schedule.groups if group.opaque is not None]
    streams = {node for node in calls if is_stream(node) and node.operands[0].kind == "leaf"} - set(schedule.outputs)
    streams -= {base_of(operand) for node in calls for operand in node.operands}
    if not streams or target.machine.is_gpu:
        return set()
    launches: dict[Expr, list[bool]] = {}
    for group in schedule.groups:
        if group.opaque is None and (read := streams & group.read):
            for lowered in lower_for(target, group, special=False):
                in_order = _read_in_order(lowered, target)
                for node, slots in _slots(lowered, read).items():
                    launches.setdefault(node, []).append(len(slots) == 1 and slots[0] in in_order)
    return {node for node, found in launches.items() if all(found) and len(found) <= MOST_READERS}


def _slots(lowered: Lowered, streams: set[Expr]) -> dict[Expr, list[int]]:
    """Map each random number stream to the positions of its kernel parameters."""
    found: dict[Expr, list[int]] = {}
    for slot, (kind, value, _) in enumerate(lowered.bindings):
        if kind == "buffer" and value in streams:
            found.setdefault(value, []).append(slot)
    return found


def _read_in_order(lowered: Lowered, target: Target) -> set[int]:
    """Find the arrays that a kernel's outermost loop reads from front to back. Return their positions among the kernel's parameters.

    An iteration of the loop reads at most `MOST_AT_ONCE` elements.
    """
    if not lowered.parallel:
        return set()
    found = set()
    for slot, span in find_spans(run_passes(lowered.kernel, target)).items():
        each, read = (lowered.bindings[int(n[1:])][1] if isinstance(n, str) else n for n in span)
        if read <= each <= MOST_AT_ONCE and not lowered.bindings[slot][2]:
            found.add(slot)
    return found
