"""Execution of recordings, and the cache of plans.

In: an epoch and its live versions. Out: a buffer for each evaluated version. Invariant: a plan depends only on
expressions, which are its cache key. Slots are read only during a run.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.fusion.graph.expr import Expr, topological
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.plan import plan_cache
from weft.fusion.plan.live_graph import LiveGraph, make_graph
from weft.fusion.plan.replaced_arrays import replace_arrays
from weft.fusion.record.storage import Epoch
from weft.runtime import OVERRIDES, VARIABLES, Device, key_of, renew_in_children, setting, uninterruptible

if TYPE_CHECKING:
    from weft.fusion.plan.steps import Plan

PLANS_LIMIT = 4096
# Number of runs of a large plan on a GPU after which kernels for its exact sizes are compiled.
OFTEN = 8

# Settings that change the execution of plans. Execution reads them only if one of them is given.
_SETTINGS = frozenset({key_of("verify"), key_of("debug")})

_TIERS = "weft.fusion.run.tiers"

AssignResults = Callable[[Any, list[Any]], None]


class Evaluation(NamedTuple):
    """A request to evaluate recorded values: the arguments of `run`, and the key under which the plan is cached."""

    key: object
    epoch: Epoch
    versions: list[Expr]
    wanted: tuple[int, ...] | None
    assign_results: Callable[[Any, list[Any]], None]  # takes a plan, or an `Interpreted` with the same attributes


_plans: OrderedDict[Any, Plan] = OrderedDict()
_lock = threading.RLock()  # (reentrant: a finalizer may evaluate while this thread holds the lock)
renew_in_children(sys.modules[__name__])


def run(epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None, assign_results: AssignResults) -> None:
    """Evaluate the requested values of a recording, and the values that they need.

    `wanted` contains their positions in `versions`. None means all. `assign_results` is called with the plan and its
    table of buffers, in which `Plan.handed` gives the index of each version's buffer. It may be called more than once
    if an interrupt occurs.
    """
    key = (epoch.device.name, tuple(versions), wanted, tuple(epoch.results.items()) if epoch.results else ())
    plan = _plans.get(key)
    if plan is None:
        plan = _find_or_make(Evaluation(key, epoch, versions, wanted, assign_results))
        if plan is None:
            return
    elif plan.patience:
        plan.patience -= 1
        if not plan.patience:
            plan = _make_specialized(key, epoch, versions, wanted) or plan
    given = OVERRIDES or not VARIABLES.isdisjoint(_SETTINGS)
    shown = bool(given) and "launch" in setting("debug")
    if not given or not setting("verify"):
        _run_plan().execute(plan, epoch, assign_results, shown)
        return
    verdict = import_module("weft.fusion.run.verification").Verification(epoch, versions, wanted)

    def verified(plan: Plan, table: list[Any]) -> None:
        verdict.compare(plan, table)
        assign_results(plan, table)

    _run_plan().execute(plan, epoch, verified, shown)
    verdict.close(plan)


def _find_or_make(evaluation: Evaluation) -> Plan | None:
    """Return a cached or a new plan for a graph, or None if the graph was interpreted instead."""
    # (the module is loaded when something is first interpreted, perhaps by another thread at this moment)
    if _TIERS in sys.modules and setting("interpret") == "auto" and not setting("verify"):
        if _tiers().reinterpret(evaluation):
            return None
    begin = perf_counter()
    device, slots = evaluation.epoch.device, len(evaluation.epoch.slots)
    graph = _graph_of(evaluation.epoch, evaluation.versions)
    plan: Plan | None = None
    price: float | None = 0.0
    try:
        graph, form = _find_form(device, graph, evaluation.wanted)
        first = plan_cache.is_first(form)
        if setting("interpret") != "always":
            plan = plan_cache.find(form, device)
        if plan is None:
            tiers = _tiers()
            STATISTICS.unknown += not tiers.is_known(evaluation.key, form)
            if setting("interpret") != "never" and not setting("verify"):
                price = tiers.try_interpreting(evaluation, form, graph)
                if price is None:
                    return None
                plan = plan_cache.find(form, device)  # (the second process may have just compiled it)
        if plan is None:
            start = perf_counter()
            plan = _planning().make_new(device, slots, graph, evaluation.wanted, form)
            tiers.note_compiled(price or 0.0, perf_counter() - start)
        if not first and _run_plan().is_worth_more(plan, device):
            plan.patience = OFTEN
    except Exception as error:
        tiers = _tiers()
        if not tiers.is_optimizer_failure(error):
            raise
        tiers.interpret_after_failure(error, evaluation, graph)
        return None
    STATISTICS.planning += perf_counter() - begin
    return _keep(evaluation.key, evaluation.versions, graph, plan)


def _graph_of(epoch: Epoch, versions: list[Expr]) -> LiveGraph:
    return make_graph(versions, epoch.results) if epoch.results else LiveGraph(versions[:], {})


def _find_form(device: Device, graph: LiveGraph, wanted: tuple[int, ...] | None) -> tuple[LiveGraph, plan_cache.Form]:
    """Return the graph for which to make a plan, and the structure (form) of this graph.

    In this graph, updates that together replace a whole array are written to new memory.
    """
    form = plan_cache.find_form(device.name, graph, wanted)
    if [node.kind for node in form.nodes].count("update") < 2:
        return graph, form
    replaced = replace_arrays(graph, form.nodes)
    return (graph, form) if replaced is graph else (replaced, plan_cache.find_form(device.name, replaced, wanted))


def _tiers() -> Any:
    """Import and return the `tiers` module, which is not needed for plans that come from disk."""
    return import_module(_TIERS)


@cache
def _run_plan() -> Any:
    """Import and return the `run_plan` module, which interpreted graphs do not need."""
    return import_module("weft.fusion.run.run_plan")


@cache
def _planning() -> Any:
    """Import and return the `planning` module, which is needed only to create a plan.

    Python 3.11 turns an interrupt during the definition of a dataclass into a RuntimeError. Interrupts are therefore
    delayed until the module is loaded.
    """
    return uninterruptible(lambda: import_module("weft.fusion.run.planning"), "planning")


def _make_specialized(key: object, epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None) -> Plan | None:
    """Return a plan with kernels for the graph's exact sizes, or None if that is not worthwhile."""
    graph, form = _find_form(epoch.device, _graph_of(epoch, versions), wanted)
    make = _planning().make_specialized
    plan: Plan | None = make(epoch.device, len(epoch.slots), graph, wanted, form)
    return None if plan is None else _keep(key, versions, graph, plan)


def _keep(key: object, versions: list[Expr], graph: LiveGraph, plan: Plan) -> Plan:
    """Set the remaining fields of a new plan, cache the plan, and return it."""
    plan.blank = [None] * (plan.table_size - plan.slots) + [0]
    plan.asks_more = bool(plan.scalars or plan.values) or plan.counter is not None or plan.descriptors is not None
    slot_of = dict(plan.outputs)
    plan.handed = [slot_of.get(version, -1) for version in graph.versions]
    plan.complete = -1 not in plan.handed
    sizes = {node.attrs[0]: node.nbytes for node in topological(graph.versions) if node.kind == "leaf"}
    plan.leaves, plan.leaf_sizes = [*sizes], [*sizes.values()]
    plan.outputs = [(version, slot) for version, slot in zip(versions, plan.handed, strict=True) if slot >= 0]
    with _lock:
        _plans[key] = plan
        if len(_plans) > PLANS_LIMIT:
            _plans.popitem(last=False)
    return plan
