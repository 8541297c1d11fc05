"""Plans found again at other positions: `path[k] = x` has the same plan for every k.

In: versions that no plan was made for. Out: their form, which says all about them but where the views of arrays in memory
begin, and, from a plan of the same form, a plan of theirs. Always true: the views of an array in memory that a form leaves
open keep their distances, so that what overlaps, and how, is the same for all versions of the form; such an array is gone
to through views only, and overwritten in place. So its plan is right for an array that begins elsewhere in the same memory,
which is all that a distance added to its addresses says.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from weft.fusion.expr import Expr
from weft.fusion.plan import Call, KernelLaunch, Plan, Step
from weft.fusion.reference import topological

FORMS_LIMIT = 1024


@dataclass(slots=True)
class Form:
    """Versions but for the places in `starts`.

    Attributes
    ----------
    key
        Equal for versions of one form.
    nodes : list of Expr
        Everything the versions need, operands first: in the same order for versions of one form.
    starts : dict
        Leaves that the form leaves open, and the element that their first view begins at.
    """

    key: Any
    nodes: list[Expr]
    starts: dict[Expr, int]


def find_form(versions: list[Expr], wanted: tuple[int, ...] | None, results: dict[Expr, Expr]) -> Form | None:
    """The form of these versions, of which `results` are in memory already; None where no array is gone to through
    views alone."""
    nodes = topological(versions, lambda node: node in results)
    homes: dict[Expr, Expr] = {}  # leaves, and their updates: the leaf
    starts: dict[Expr, int] = {}
    whole: set[Expr] = set()  # leaves that are read otherwise too
    for node in nodes:
        if node in results:
            if node.kind in ("update", "scatter"):
                return None
            continue
        if node.kind == "leaf":
            homes[node] = node
        for k, child in enumerate(node.operands):
            home = homes.get(child)
            if home is None:
                continue
            if k == 0 and node.kind in ("view", "update"):
                starts.setdefault(home, node.attrs[-1])
                if node.kind == "update":
                    homes[node] = home
            else:
                whole.add(home)
    for home in whole:
        starts.pop(home, None)
    if not starts:
        return None
    numbers: dict[Expr, int] = {}  # what depends on a position; everything else is itself in the key
    parts: list[tuple[Any, ...]] = []
    for node in nodes:
        if node in results:
            numbers[node] = len(numbers)
            parts.append(("result", "", (), results[node].attrs, node.shape, node.dtype))
            continue
        operands, attrs = node.operands, node.attrs
        start = None
        if operands and node.kind in ("view", "update"):
            start = starts.get(homes.get(operands[0]))  # type: ignore[arg-type]
        if start is not None:
            attrs = (*attrs[:-1], attrs[-1] - start)
        elif not any(child in numbers for child in operands):
            continue
        numbers[node] = len(numbers)
        parts.append((node.kind, node.op, tuple(numbers.get(c, c) for c in operands), attrs, node.shape, node.dtype))
    return Form((tuple(parts), tuple(numbers.get(v, v) for v in versions), wanted), nodes, starts)


_plans: OrderedDict[Any, tuple[Form, Plan]] = OrderedDict()
_lock = threading.Lock()


def keep(form: Form, plan: Plan) -> None:
    """Let versions of the same form find the plan, if it goes to the arrays that the form leaves open by address alone."""
    known = set(form.nodes)
    for step in plan.steps:
        if isinstance(step, Call) and not known.issuperset((step.node, *(child for _, child, _ in step.operands))):
            return
    if not known.issuperset(node for node, _ in plan.outputs):
        return
    in_place = plan.schedule.in_place
    for group in plan.schedule.groups:
        if any(_home(taken) in form.starts for taken in group.over.values()):
            return
        for placed in group.placed:
            node = placed.task.node
            if _home(node) in form.starts and (placed.task.kind != "update" or node not in in_place):
                return  # it is written as new memory, position by position
    with _lock:
        _plans[form.key] = form, plan
        if len(_plans) > FORMS_LIMIT:
            _plans.popitem(last=False)


def find(form: Form) -> Plan | None:
    """A plan for versions of this form, from one that was kept."""
    kept = _plans.get(form.key)
    if kept is None:
        return None
    first, plan = kept
    names = dict(zip(first.nodes, form.nodes, strict=True))
    distances = {leaf: (form.starts[names[leaf]] - start) * leaf.dtype.itemsize for leaf, start in first.starts.items()}
    steps = [_moved(step, distances, names) for step in plan.steps]
    return replace(plan, steps=steps, outputs=[(names[node], place) for node, place in plan.outputs])


def _home(node: Expr) -> Expr:
    """The array in memory that a stored value is, or lies over."""
    while node.kind in ("update", "scatter"):
        node = node.operands[0]
    return node


def _moved(step: Step, distances: dict[Expr, int], names: dict[Expr, Expr]) -> Step:
    match step:
        case KernelLaunch():
            bindings = step.lowered.bindings
            patches = []
            for slot, place, offset in step.patches:
                kind, value, _ = bindings[slot]
                distance = distances.get(_home(value), 0) if kind == "buffer" else 0
                patches.append((slot, place, offset + distance))
            return step if patches == step.patches else replace(step, patches=patches)
        case Call():
            operands = [(place, names[child], window) for place, child, window in step.operands]
            return Call(names[step.node], step.out, operands)
        case _:
            return step
