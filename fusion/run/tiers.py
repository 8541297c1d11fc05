"""The choice between interpretation and compilation of graphs.

In: a graph without a plan in memory. Out: whether it was interpreted. Once the interpreted runs of a form have lost a
fifth of the time that compilation is expected to take, a second process compiles the form, which is interpreted until
its plan is on disk. Without a second process, this process compiles the form once all of that time is lost. If a single
run would lose all of that time, the form is compiled immediately. This ski-rental rule applies to the total of all
processes. Invariant: interpretation and compiled plans give the same bits. A sum may have NumPy's order only if
planning failed.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import weft.runtime as runtime  # (names that are not needed here load when they are used)
from weft.fusion.explain.reports import describe, shares_of_lines
from weft.fusion.graph.expr import topological
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.plan import plan_cache
from weft.fusion.plan.live_graph import LiveGraph
from weft.fusion.record.storage import Epoch
from weft.fusion.record.unfused_sites import calls_since_try, is_faster_compiled
from weft.fusion.run.background import request_plan
from weft.fusion.run.interpret import Interpreted, NeedsKernelError, Program, interpret, make_program
from weft.fusion.run.primitives import is_ready
from weft.fusion.run.raised_limit import raise_limit
from weft.runtime import (
    RAISED,
    CompileError,
    DeviceLostError,
    DeviceMismatchError,
    LaunchNote,
    Listening,
    SettingError,
    counted,
    launch_heard,
    renew_in_children,
    setting,
)

if TYPE_CHECKING:
    from weft.fusion.run.execute import Evaluation

PROGRAMS_LIMIT = 256
FORMS_LIMIT = 4096
# Seconds to load the planner and LLVM; to plan a program, per operation, and per kernel; to compile a primitive; to
# interpret a step, and per element.
START, PLANNING, OPERATION, KERNEL, PRIMITIVE = 0.1, 0.01, 0.0003, 0.025, 0.02
STEP, ELEMENT = 5e-6, 1e-9
# Approximate number of different operations that share a kernel (iterations over the same shapes have the same
# kernels); and the share of an interpreted run that a plan would save.
TOGETHER = 8
LOST = 0.75
# Share of this loss that the operation loses if NumPy computes it immediately.
LOST_IMMEDIATELY = 0.2
# Share of its price that a form may lose before the second process compiles it, on another core.
BACKGROUND = 0.2
# Multiple of the expected seconds of compilation, including the start of the second process. If a form loses this much
# time after its request, this process compiles it: the second process may get no time on a busy machine.
PATIENCE = 4.0
# The lost time of a form is stored on disk each time it has grown by this share of its price.
NOTED = 0.125
# Errors that concern the user: a plan would fail too.
_OUTSIDE = (MemoryError, DeviceMismatchError, DeviceLostError, SettingError)


class FormCost:
    """The costs of interpreting and of compiling graphs of one structure, in seconds."""

    lost: float = 0.0
    price: float = 0.0
    broken: bool = False  # whether planning failed
    due: bool = False  # whether the form is to be compiled, or has been compiled
    request: Any = None  # the last request to the second process
    patience: float = 0.0  # lost seconds after which this process no longer waits for the second process
    sizes: Any = None  # the sizes of the graph in the last request
    largest: int = 0  # the number of elements of the largest array
    key: Any = None
    noted: float = 0.0  # lost seconds that are stored on disk


# Programs of interpreted graphs (None if only a plan computes the right bits), and their forms. Both are bounded.
_programs: OrderedDict[Any, tuple[Program | None, FormCost]] = OrderedDict()


class _Rate:
    """The ratio of measured to expected compile time, and the time needed to load the planner.

    The ratio is lower if the disk cache often has the code.
    """

    factor = 1.0
    start = START  # cost of loading the planner, less the time that interpreted programs have lost; 0 after loading
    second = START  # the same for the second process, whose start slows this process down
    loaded = False  # whether the planner is loaded
    ended = 0.0  # time at which the last interpreted run ended


_forms: OrderedDict[Any, FormCost] = OrderedDict()  # by the key of the form
_lock = threading.RLock()
renew_in_children(sys.modules[__name__])


def find_costs(form: plan_cache.Form, epoch: Epoch) -> tuple[FormCost | None, float]:
    """Return the costs of a graph structure, and the expected time of an interpreted run minus that of a compiled run,
    in seconds.

    The costs are None if the graph is not to be interpreted. The number of seconds is 0 if it does not matter.
    """
    how = setting("interpret")
    if how == "never":
        return None, 0.0
    found = _form_of(form.key)
    if how == "always" or found.broken:
        return found, 0.0
    if epoch.device.name != "cpu" or setting("debug") or setting("dump"):
        return None, 0.0
    if not found.price:
        found.key = form.key
        if plan_cache.may_be_stored(epoch.device):
            found.lost = found.noted = plan_cache.store().read_lost_seconds(form.key, epoch.device)
    operations = [node for node in form.nodes if node.kind not in ("leaf", "scalar", "constant", "view", "empty")]
    different = {
        (node.kind, node.op, node.dtype, node.shape, *(each.kind for each in node.operands)) for node in operations
    }
    kernels = 1 + len(different) // TOGETHER
    found.price = _Rate.factor * (PLANNING + OPERATION * len(operations) + KERNEL * kernels)
    found.largest = max(node.size for node in form.nodes)
    written = [node.operands[1].size if node.kind in ("update", "scatter") else node.size for node in operations]
    seconds = STEP * len(operations) + ELEMENT * sum(written)
    missing = {
        (node.op, node.attrs, node.dtype)
        for node in operations
        if node.kind == "map" and not is_ready(node.op, node.attrs, node.dtype)
    }
    return found, LOST * seconds + PRIMITIVE * _Rate.factor * len(missing)


def _form_of(key: object) -> FormCost:
    with _lock:
        found = _forms.get(key)
        if found is None:
            found = _forms[key] = FormCost()
            if len(_forms) > FORMS_LIMIT:
                _forms.popitem(last=False)
        return found


def note_compiled(form_price: float, seconds: float) -> None:
    """Update the ratio of measured to expected compile time after a compilation in this process."""
    begun, _Rate.start, _Rate.loaded = _Rate.loaded, 0.0, True
    seconds -= 0.0 if begun else min(START, seconds)
    _note_rate(form_price, seconds)


def _note_rate(form_price: float, seconds: float) -> None:
    if form_price > 0 and seconds > 0:
        _Rate.factor = min(4.0, max(0.05, 0.7 * _Rate.factor + 0.3 * _Rate.factor * seconds / form_price))


def try_interpreting(evaluation: Evaluation, kind: plan_cache.Form, graph: LiveGraph) -> float | None:
    """Interpret a graph, unless its structure should be compiled now or cannot be interpreted.

    Return None if the graph was interpreted. Otherwise return the expected seconds of compilation, or 0 if unknown.
    """
    begin = thread_time()  # (time that other programs of a busy machine take is not lost by interpretation)
    alike = _key_for_any_offsets(kind)
    found = _programs.get(alike)
    if found is not None and found[0] is not None and _keeps_interpreting(found[1]):
        moved = found[0].moved(kind.nodes)
        _keep_program(evaluation.key, moved, found[1])
        if _interpret(evaluation, moved, found[1], begin):
            return None
    form, losing = find_costs(kind, evaluation.epoch)
    if form is None:
        return 0.0
    if _should_interpret(form, losing, kind, graph, evaluation):
        found = _programs.get(evaluation.key)
        program = found[0] if found is not None else None
        if found is None:
            try:
                program = make_program(graph, evaluation.wanted, evaluation.epoch.device, any_order=form.broken)
            except NeedsKernelError:
                pass
            _keep_program(evaluation.key, program, form)
            if program is not None and program.movable:
                program.nodes = kind.nodes
                _keep_program(alike, program, form)
        if _interpret(evaluation, program, form, begin):
            return None
    form.due = True
    return form.price


def _should_interpret(
    form: FormCost, losing: float, kind: plan_cache.Form, graph: LiveGraph, evaluation: Evaluation
) -> bool:
    """Return whether to interpret a graph. If its compilation is due, request it.

    Interpretation is expected to take `losing` seconds longer than a compiled plan."""
    if form.broken or setting("interpret") == "always":
        return True
    if losing >= form.price + _Rate.start:
        return False
    asked = form.request
    if asked is None and not form.due and form.lost + losing < _limit(form):
        return True
    if asked is not None and not asked.is_over():
        return form.lost < form.patience
    if asked is not None and asked.state == "crashed":
        _give_up(form, graph, CompileError("the process that compiled it ended unexpectedly"))
        return True
    if asked is None or form.sizes != kind.encoder.values:
        epoch, form.sizes = evaluation.epoch, kind.encoder.values
        form.patience = form.lost + PATIENCE * (form.price + START)
        form.request = request_plan(kind, graph, evaluation.wanted, epoch.device, len(epoch.slots))
        return form.request is not None or (not form.due and form.lost + losing < form.price + _Rate.start)
    return False  # (its compilation failed, and the error will be raised here, or its plan is too large)


def _limit(form: FormCost) -> float:
    """Return a limit in seconds.

    A graph structure is compiled once its interpreted runs have taken this much longer in total than compiled runs
    would have.
    """
    return BACKGROUND * form.price + _Rate.second if setting("background") else form.price + _Rate.start


def is_known(key: object, kind: plan_cache.Form) -> bool:
    """Return whether interpretation was tried before for the same graph, or for a graph that differs only in the offsets of its views."""
    return key in _programs or _key_for_any_offsets(kind) in _programs


def _key_for_any_offsets(kind: plan_cache.Form) -> object:
    """Return a key that is equal for graphs of the same structure, lengths, strides and constants."""
    return kind.key, tuple(kind.encoder.codes), tuple(kind.encoder.constants)


def reinterpret(evaluation: Evaluation) -> bool:
    """Interpret a known graph again, unless it should now be compiled. Return whether it was interpreted."""
    found = _programs.get(evaluation.key)
    return found is not None and _keeps_interpreting(found[1]) and _interpret(evaluation, *found, thread_time())


def _keeps_interpreting(form: FormCost) -> bool:
    """Return whether to continue to interpret graphs of the structure `form`."""
    if setting("debug") or setting("dump"):
        return False
    if setting("interpret") == "always" or form.broken:
        return True
    asked = form.request
    if asked is not None:
        if not asked.is_over():
            return form.lost < form.patience
        if asked.state == "done" and asked.result:
            _note_rate(form.price, asked.result)
            asked.result = 0.0
        return False
    return not form.due and form.lost < _limit(form)


def _interpret(evaluation: Evaluation, program: Program | None, form: FormCost, begin: float) -> bool:
    """Interpret a graph by running `program`.

    Estimate how much longer this takes than a compiled plan, and add this time to the cost record `form`.

    Return False if only a plan computes the right bits.
    """
    if program is None:
        return False
    skipped = calls_since_try(evaluation.epoch.first) if is_faster_compiled(program.outputs[-1][0]) else 0
    start, begin_run = perf_counter(), thread_time()
    try:
        _run(program, evaluation)
    except NeedsKernelError:
        _keep_program(evaluation.key, None, form)
        return False
    _raise_limit(form, start, perf_counter())
    end = thread_time()
    lost = LOST * (end - begin + LOST_IMMEDIATELY * skipped * (end - begin_run))
    form.lost += lost
    if START / 2 >= _Rate.second > START / 2 - lost:
        runtime.prepare()  # (the second process takes as long to start as this process takes to lose the other half)
    _Rate.start, _Rate.second = max(0.0, _Rate.start - lost), max(0.0, _Rate.second - lost)
    if form.key is not None and form.lost > form.noted + NOTED * form.price:
        if plan_cache.may_be_stored(evaluation.epoch.device):
            plan_cache.store().note_lost_seconds(form.key, evaluation.epoch.device, form.lost)
        form.noted = form.lost
    return True


def _raise_limit(form: FormCost, start: float, end: float) -> None:
    """Raise the maximum array size for immediate execution. The raised limit holds while a background process compiles the program.

    The limit is raised if interpretation takes most of the time and the arrays do not exceed the raised limit. The run
    began at `start` and ended at `end`.
    """
    often, _Rate.ended = start - _Rate.ended < end - start, end
    if often and form.request is not None and form.largest <= RAISED * setting("immediate"):
        if not form.request.is_over():
            raise_limit(form.request)


def _keep_program(key: object, program: Program | None, form: FormCost) -> None:
    with _lock:
        _programs[key] = program, form
        if len(_programs) > PROGRAMS_LIMIT:
            _programs.popitem(last=False)


def _run(program: Program, evaluation: Evaluation) -> None:
    epoch, versions = evaluation.epoch, evaluation.versions
    made: list[Any] = []
    begin = perf_counter()
    if Listening.listeners:
        nodes = topological([node for node, _ in program.outputs])
        sources = shares_of_lines([(node.op, node.location) for node in nodes if node.location is not None])
        nbytes = sum(v.nbytes for v in versions) + sum(node.nbytes for node in nodes if node.kind == "leaf")
        note = LaunchNote(f"{counted(len(program.steps), 'step')} interpreted", nbytes=nbytes, sources=sources)
        launch_heard(epoch.device, note, lambda: made.extend(interpret(program, epoch)))
    else:
        made = interpret(program, epoch)
    STATISTICS.interpreted += 1
    STATISTICS.running += perf_counter() - begin
    evaluation.assign_results(Interpreted(program, versions), made)


# -- failures of the optimizer ------------------------------------------------------------------


def is_optimizer_failure(error: Exception) -> bool:
    """Return whether an error is a failure of the optimizer. If so, the caller may interpret the graph instead.

    Return False for errors that are not the optimizer's, such as MemoryError, and for all errors with WEFT_STRICT=1.
    """
    return not isinstance(error, _OUTSIDE) and not setting("strict")


def interpret_after_failure(error: Exception, evaluation: Evaluation, graph: LiveGraph) -> None:
    """Interpret a graph that could not be planned or compiled.

    Issue one warning per graph structure. Raises `error` if the graph cannot be interpreted either.
    """
    device = evaluation.epoch.device
    try:
        known = plan_cache.find_form(device.name, graph, evaluation.wanted).key
        form, alike = _form_of(known), _without_slots(known)
    except Exception:  # the search for forms may be part of the failure
        nodes = topological(graph.versions)
        form, alike = _form_of(evaluation.key), tuple([(node.kind, node.op, node.dtype, node.shape) for node in nodes])
    try:
        program = make_program(graph, evaluation.wanted, device, any_order=True)
        _run(program, evaluation)
    except Exception as other:
        raise error from other
    _keep_program(evaluation.key, program, form)
    form.broken = True
    known_by_all = _form_of(alike)
    if not known_by_all.broken:
        _give_up(known_by_all, graph, error)


def _give_up(form: FormCost, graph: LiveGraph, error: Exception) -> None:
    """Mark a graph structure as broken, so that all later graphs with this structure are interpreted. Issue a warning.

    With WEFT_STRICT=1, raise `error` instead.
    """
    form.broken = not setting("strict")
    runtime.report_failure(
        "the optimizer", "this program is interpreted, which is slower", error, describe(graph.versions)
    )


def _without_slots(key: Any) -> Any:
    """Remove the buffer table indices (slots) from the key of a graph structure, and return the new key."""
    device, nodes, *rest = key
    return device, tuple([(*node[:3], *node[4:]) if node[0] in ("leaf", "scalar") else node for node in nodes]), *rest
