"""Running plans: from a schedule to launches, and the cache of plans.

In: an epoch and the versions that are live in it. Out: a buffer for each that was evaluated. Always
true: a plan depends on expressions alone, so that it is found again by them; slots are read only
while it runs; a failure leaves the epoch as it was. A plan that has begun to overwrite memory from before it is finished, and its
results are handed out, before Ctrl-C goes on.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from struct import Struct
from sys import getrefcount
from time import perf_counter
from typing import Any

import numpy as np

from weft.fusion import resized
from weft.fusion.arena import Carve, Take, arrange_memory
from weft.fusion.explain import announce, launch_note
from weft.fusion.expr import Expr, topological
from weft.fusion.graph import Graph, make_graph
from weft.fusion.group import Group
from weft.fusion.host_calls import call_host, call_there
from weft.fusion.join_groups import join_groups
from weft.fusion.kernel_writer import Lowered
from weft.fusion.kernels import LARGE, Special, obtain_kernels
from weft.fusion.numpy_loops import NumpyLoop, find_numpy_loop
from weft.fusion.plan import Batch, Call, KernelLaunch, Plan, Step
from weft.fusion.schedule import Schedule
from weft.fusion.siblings import schedule_versions
from weft.fusion.sizes import Size, greatest
from weft.fusion.statistics import STATISTICS
from weft.fusion.storage import OVERWRITING, Epoch
from weft.fusion.stored import is_window
from weft.fusion.sweep import Sweep
from weft.fusion.task import Task
from weft.fusion.tiers import is_optimizers, note_compiled, rescue, try_interpreting
from weft.runtime import (
    Buffer,
    Device,
    DeviceMismatchError,
    LaunchNote,
    Listening,
    Requests,
    launch_heard,
    setting,
    show_place,
)

PLANS_LIMIT = 4096
# Runs of a large plan on a GPU after which kernels for its sizes alone are compiled.
OFTEN = 8

Settle = Callable[[Plan, list[Any]], None]

_plans: OrderedDict[Any, Plan] = OrderedDict()
_plans_lock = threading.RLock()  # (a finaliser may come between, and evaluate)


def run(epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None, settle: Settle) -> None:
    """Evaluate the wanted `versions` of the epoch (None: all), and those live ones that they need.

    `settle` is told the plan and its table of buffers, in which `Plan.handed` says where each version's is: more than once
    where an interrupt comes meanwhile.
    """
    key = (epoch.device.name, tuple(versions), wanted, tuple(epoch.results.items()) if epoch.results else ())
    plan = _plans.get(key)
    if plan is None:
        graph = make_graph(versions, epoch.results)
        price: float | None = 0.0
        if setting("interpret") != "never" and not setting("verify"):
            price = try_interpreting(key, graph, epoch, versions, wanted, settle)
            if price is None:
                return
        begin = perf_counter()
        try:
            plan = _keep(key, versions, graph, _plan_movable(epoch, graph, wanted))
            note_compiled(price or 0.0, perf_counter() - begin)
        except Exception as error:
            if not is_optimizers(error):
                raise
            rescue(error, key, graph, epoch, versions, wanted, settle)
            return
    elif plan.patience:
        plan.patience -= 1
        if not plan.patience:
            graph = make_graph(versions, epoch.results)
            alone = _plan_alone(epoch, graph, wanted)
            plan = plan if alone is None else _keep(key, versions, graph, alone)
    if not setting("verify") or epoch.device.streaming:
        execute(plan, epoch, settle)
        return
    verdict = import_module("weft.fusion.judge").Verdict(epoch, versions, wanted)

    def judged(plan: Plan, table: list[Any]) -> None:
        verdict.compare(plan, table)
        settle(plan, table)

    execute(plan, epoch, judged)
    verdict.close(plan)


def _keep(key: Any, versions: list[Expr], graph: Graph, plan: Plan) -> Plan:
    """Let a plan of a graph be found by its key, and name its outputs by the recorded versions."""
    place_of = dict(plan.outputs)
    plan.handed = [place_of.get(version, -1) for version in graph.versions]
    plan.complete = -1 not in plan.handed
    sizes = {node.attrs[0]: node.nbytes for node in topological(graph.versions) if node.kind == "leaf"}
    plan.leaves, plan.leaf_sizes = [*sizes], [*sizes.values()]
    plan.outputs = [(version, place) for version, place in zip(versions, plan.handed, strict=True) if place >= 0]
    with _plans_lock:
        _plans[key] = plan
        if len(_plans) > PLANS_LIMIT:
            _plans.popitem(last=False)
    return plan


# -- making plans -----------------------------------------------------------------------------


def _plan_movable(epoch: Epoch, graph: Graph, wanted: tuple[int, ...] | None) -> Plan:
    """A plan found for other sizes and positions, or a new one."""
    form = resized.find_form(epoch.device.name, graph, wanted)
    plan = resized.find(form)
    may = resized.may_be_special(form)
    # (on a GPU the first sizes are compiled in, and help no others)
    if plan is None and resized.is_worth_keeping(form, at_once=epoch.device.name == "cpu"):

        def make(copy: Graph) -> Plan:
            return make_plan(epoch.device, len(epoch.slots), copy, wanted, may)

        plan = resized.trace_plan(form, graph, make)
        if plan is not None:
            _note_new(plan)
    plan = plan or _plan_new(epoch, graph, wanted, may)
    resized.note_kernels(form, may.made)
    if not may.first and _is_worth_more(plan, epoch.device):
        plan.patience = OFTEN
    return plan


def _is_worth_more(plan: Plan, device: Device) -> bool:
    """Whether kernels for these sizes alone are worth another compilation: large ones, on a GPU."""
    if device.target.scheduled_for.kind != "cuda":
        return False
    launches = [step for step in plan.steps if isinstance(step, KernelLaunch)]
    return any(step.nbytes >= LARGE and "exact" not in step.lowered.kernel.attributes for step in launches)


def _plan_alone(epoch: Epoch, graph: Graph, wanted: tuple[int, ...] | None) -> Plan | None:
    """A plan for these sizes alone, where their form has not taken many kernels yet."""
    form = resized.find_form(epoch.device.name, graph, wanted)
    may = resized.may_be_special(form, back=True)
    if not may.back:
        return None
    plan = _plan_new(epoch, graph, wanted, may)
    resized.note_kernels(form, may.made)
    return plan


def _plan_new(epoch: Epoch, graph: Graph, wanted: tuple[int, ...] | None, may: Special) -> Plan:
    plan = make_plan(epoch.device, len(epoch.slots), graph, wanted, may)
    _note_new(plan)
    return plan


def _note_new(plan: Plan) -> None:
    STATISTICS.plans += 1
    announce(plan.schedule)


def make_plan(device: Device, slots: int, graph: Graph, wanted: tuple[int, ...] | None, may: Special) -> Plan:
    """Plan the evaluation of `graph.versions[k]` for k in `wanted` (None: of all), on `device`."""
    versions = graph.versions
    roots = versions if wanted is None else [versions[k] for k in wanted]
    for node in topological(roots):
        if node.kind == "leaf" and node.attrs[1] != device.name:
            raise DeviceMismatchError(f"a value on {device.name} was computed from an array on {node.attrs[1]}")
    for_gpu = device.target.scheduled_for.kind == "cuda"
    schedule = schedule_versions(versions, roots, graph.origins, for_gpu=for_gpu)
    schedule = join_groups(schedule, device.target, special=may.first or may.back)
    return PlanWriter(device, slots, schedule, may).write()


class PlanWriter:
    """Turns a schedule into steps."""

    def __init__(self, device: Device, slots: int, schedule: Schedule, may: Special) -> None:
        self.device = device
        self.may = may
        self.schedule = schedule
        self.slots = slots
        self.places = slots
        self.place_of: dict[Expr, int] = {}
        self.steps: list[Step] = []
        self.partial_places: dict[int, int] = {}
        self.scalars: dict[int, None] = {}
        self.ticket: int | None = None
        self.board: tuple[int, int] | None = None

    def write(self) -> Plan:
        """The plan."""
        outputs = set(self.schedule.outputs)
        ending: dict[int, list[Expr]] = {}
        for node, position in self.schedule.last_use.items():
            ending.setdefault(position, []).append(node)
        for position, group in enumerate(self.schedule.groups):
            loop = find_numpy_loop(group) if self.device.name == "cpu" else None
            if group.opaque is not None:
                self._call(group.opaque, group.opaque.operands)
            elif loop is not None:
                self._call(group.placed[0].task.node, loop[1], loop[0])
            else:
                for placed in group.placed:
                    if placed.task.node not in group.private:
                        self._memory(placed.task, group)
                for function, lowered in obtain_kernels(self.device, group, self.may):
                    self._launch(function, lowered, group)
                self._release_partials()
                for taken in group.over.values():
                    del self.place_of[taken]
            for node in ending.get(position, ()):
                # (an empty base that its only update replaced was never given a place)
                if node not in outputs and node in self.place_of:
                    self.steps.append(self.place_of[node])
        listed = [(node, self.place(node)) for node in self.schedule.outputs]
        steps, places = arrange_memory(self.steps, self.slots, self.places, {place for _, place in listed})
        return Plan(
            steps,
            places,
            listed,
            self.schedule,
            self.slots,
            [*self.scalars],
            any(isinstance(step, Take) and step.how == "take-if-unshared" for step in steps),
            self.ticket,
            self.board,
        )

    def place(self, node: Expr) -> int:
        """Where the table holds a stored value."""
        if node.kind == "leaf":
            return node.attrs[0]
        found = self.place_of.get(node)
        if found is None:
            found = self._new(node.nbytes)
            self.place_of[node] = found
        return found

    def _new(self, nbytes: int) -> int:
        number = self.places
        self.places += 1
        self.steps.append((number, nbytes))
        return number

    def _memory(self, task: Task, group: Group) -> None:
        node, previous = task.node, task.previous
        if node in group.over:
            self.place_of[node] = self.place(group.over[node])
            return
        if previous is None or previous.kind == "empty" or isinstance(group, Sweep):
            self.place(node)
            return
        source = self.place(previous)
        owned = previous.kind != "leaf"
        if node not in self.schedule.in_place:
            size = node.dtype.itemsize
            first, behind = (size * k for k in task.covered())
            self.steps.append(Take(self.place(node), source, "fill", node.nbytes, (first, behind)))
            return
        self.place_of[node] = self.places
        self.places += 1
        self.steps.append(Take(self.place_of[node], source, "take" if owned else "take-if-unshared", node.nbytes))

    def _call(self, node: Expr, values: Sequence[Expr], loop: NumpyLoop | None = None) -> None:
        operands = []
        for child in values:
            window = is_window(child) and child not in self.place_of
            operands.append((self.place(child.operands[0] if window else child), child, window))
        self.steps.append(Call(node, self.place(node), operands, loop))

    def _launch(self, function: Any, lowered: Lowered, group: Group) -> None:
        for number, nbytes in lowered.partials:
            if number not in self.partial_places:
                self.partial_places[number] = self._new(nbytes)
        slots: list[Any] = [0] * len(lowered.bindings)
        patches, scalars = [], []
        for k, (kind, value, offset) in enumerate(lowered.bindings):
            match kind:
                case "int":
                    slots[k] = value
                case "number":
                    slots[k] = value if type(value) is Size else pack_scalar(value)
                case "buffer":
                    patches.append((k, self.place(value), offset))
                case "partial":
                    patches.append((k, self.partial_places[value], 0))
                case "ticket":
                    if self.ticket is None:
                        self.ticket = self.places
                        self.places += 1
                    patches.append((k, self.ticket, 0))
                case "board":
                    # one after the other, all kernels of the plan write on the same one
                    if self.board is None:
                        self.board = self.places, 0
                        self.places += 1
                    place, nbytes = self.board
                    self.board = place, greatest(nbytes, value)
                    patches.append((k, place, 0))
                case "scalar":
                    scalars.append((k, value))
                    self.scalars[value] = None
        if all(lowered.parallel):
            nbytes, origin = lowered.bytes_read + lowered.bytes_written, group.placed[-1].task.node.location
            # (sizes of a trace are no ints: `resized.py` packs what they stand for)
            arguments: Any = array("q", slots) if all(type(value) is int for value in slots) else slots
            packed = (function, lowered.parallel, lowered.work, arguments, patches, scalars, nbytes, origin)
            self.steps.append(KernelLaunch(*packed, lowered, group))

    def _release_partials(self) -> None:
        self.steps.extend(self.partial_places.values())
        self.partial_places.clear()


def gather_requests(steps: list[Step]) -> list[Step]:
    """The steps with requests for memory that follow one another as one."""
    found: list[Step] = []
    for step in steps:
        if not isinstance(step, tuple):
            found.append(step)
            continue
        if not found or not isinstance(found[-1], Requests):
            found.append(Requests([], []))
        found[-1].places.append(step[0])  # type: ignore[union-attr]
        found[-1].sizes.append(step[1])  # type: ignore[union-attr]
    return found


def gather_launches(device: Device, steps: list[Step]) -> list[Step]:
    """The steps with kernels that follow one another as one batch, where the device starts them by one call."""
    prepare = getattr(device, "prepare", None)
    if prepare is None:
        return steps
    found: list[Step] = []
    launches: list[KernelLaunch] = []
    given_up: list[Step] = []

    def close() -> None:
        if launches:
            prepared = prepare(launches)
            batch = Batch(prepared, launches[:], sum(launch.nbytes for launch in launches))
            found.extend(launches if prepared is None else [batch])
        found.extend(given_up)
        launches.clear()
        given_up.clear()

    for step in steps:
        if isinstance(step, KernelLaunch):
            launches.append(step)
        elif isinstance(step, int):
            given_up.append(step)
        else:
            close()
            found.append(step)
    given_up.clear()  # (everything is, at the end)
    close()
    return found


# -- running ----------------------------------------------------------------------------------


# (as many bytes as the number has, at the low end of a slot)
_BITS = {size: Struct(code).unpack for size, code in ((1, "B"), (2, "<H"), (4, "<I"), (8, "<q"))}


def pack_scalar(value: np.generic) -> int:
    """The bits of a NumPy scalar in the low bytes of a slot."""
    found: int = _BITS[value.itemsize](value)[0]  # type: ignore[arg-type]
    return found


def execute(plan: Plan, epoch: Epoch, settle: Settle) -> None:
    """Run a plan with the epoch's slots, and hand out what it made."""
    device = epoch.device
    _check_slots(plan, epoch)
    missing = plan.slots - len(epoch.slots)
    table: list[Any] = epoch.slots + plan.blank if not missing else _table(plan, epoch.slots, missing)
    if device.streaming:
        _claim(table, device)
    if plan.asks_more:
        _fill(table, plan, device)
    program = plan.program
    if program is None:
        program = plan.program = gather_launches(device, gather_requests(plan.steps))
    watched = device.streaming or Listening.listeners or "launch" in setting("debug")
    at, end = 0, len(program)
    donated: set[int] = set()  # slots whose memory results have now
    if plan.overwrites:
        epoch.stage = OVERWRITING
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            while at < end:
                step = program[at]
                kind = type(step)
                if kind is Batch and not watched:
                    step.prepared.run(table)  # type: ignore[union-attr]
                    STATISTICS.launches += len(step.launches)  # type: ignore[union-attr]
                    STATISTICS.bytes += step.nbytes  # type: ignore[union-attr]
                elif kind is Requests:
                    device.allocate_into(table, step)  # type: ignore[arg-type]
                elif kind is Carve:
                    _carve(step, table, device)  # type: ignore[arg-type]
                elif kind is Take:
                    if _take(step, table, device):  # type: ignore[arg-type]
                        donated.add(step.source)  # type: ignore[union-attr]
                else:
                    _do(step, table, device)
                # no signal is handled between these two
                at += 1
                table[-1] = 0
            if donated and epoch.results:  # nobody shows what lay there, but it may be recorded once more
                epoch.results = {v: leaf for v, leaf in epoch.results.items() if leaf.attrs[0] not in donated}
            settle(plan, table)
            break
        except KeyboardInterrupt as error:
            if not plan.overwrites:
                raise  # it can be run again from the beginning
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _check_slots(plan: Plan, epoch: Epoch) -> None:
    """Raise RuntimeError unless each slot that is read holds memory of its own, of the size that the expressions say."""
    try:
        found = [epoch.slots[slot] for slot in plan.leaves]
        good = [buffer.nbytes for buffer in found] == plan.leaf_sizes and len({*map(id, found)}) == len(found)
    except (AttributeError, IndexError):  # a number, or nothing
        good = False
    if not good:
        raise RuntimeError("an expression names memory that its recording does not hold; please report this")


def _table(plan: Plan, slots: list[Any], missing: int) -> list[Any]:
    """The table of a run whose epoch has more slots than the plan's had, or fewer."""
    return [*slots[: plan.slots], *[None] * missing, *plan.blank]


def _fill(table: list[Any], plan: Plan, device: Device) -> None:
    """What a table has beside memory: numbers, and what launches count in and write notes on."""
    if plan.ticket is not None:
        table[plan.ticket] = device.ticket()
    if plan.board is not None:
        place, nbytes = plan.board
        table[place] = device.board(nbytes)
    for place in plan.scalars:
        table[place] = pack_scalar(table[place])


def _do(step: Step, table: list[Any], device: Device) -> None:
    """One step, or what an interrupt left of it: kernels are not run twice, the rest may be."""
    if isinstance(step, Batch):
        _start(step, table, device)
    elif isinstance(step, KernelLaunch):
        if not table[-1]:
            table[-1] = 1
            _launch(step, table, device)
    elif isinstance(step, int):
        table[step] = None
    elif isinstance(step, Call):
        if hasattr(step.node.attrs[0], "enqueue"):
            call_there(step, table, device)
        elif Listening.listeners:
            moved = sum(child.nbytes for _, child, _ in step.operands) + step.node.nbytes
            note = LaunchNote(f"call {step.node.op}", nbytes=moved, place=show_place(step.node.location))
            launch_heard(device, note, partial(call_host, step, table, device))
        else:
            call_host(step, table, device)


def _carve(step: Carve, table: list[Any], device: Device) -> None:
    whole = table[step.whole]
    start = whole.address
    for place, offset, nbytes in step.parts:
        table[place] = Buffer(device, start + offset, nbytes, whole)


def _start(step: Batch, table: list[Any], device: Device) -> None:
    """Start the kernels of a batch where they are told of one by one, or go on by themselves once they are started."""
    if Listening.listeners or "launch" in setting("debug"):
        for launch in step.launches[table[-1] :]:
            table[-1] += 1
            _launch(launch, table, device)
        return
    if not table[-1]:
        table[-1] = len(step.launches)
        step.prepared.run(table)
        STATISTICS.launches += len(step.launches)
        STATISTICS.bytes += step.nbytes


def _launch(step: KernelLaunch, table: list[Any], device: Device) -> None:
    """Start one kernel by itself."""
    if "launch" in setting("debug"):
        print(f"launch {step.lowered.kernel.name} over {step.parallel}, {step.work} elements", file=sys.stderr)
    slots = step.slots[:]
    for slot, place, offset in step.patches:
        slots[slot] = table[place].address + offset
    for slot, place in step.scalars:
        slots[slot] = table[place]
    if Listening.listeners:
        if step.note is None:
            step.note = launch_note(step.group, step.lowered.kernel, step.nbytes, step.work)
        launch_heard(device, step.note, partial(device.launch, step.function, step.parallel, step.work, slots))
    else:
        device.launch(step.function, step.parallel, step.work, slots)
    STATISTICS.launches += 1
    STATISTICS.bytes += step.nbytes


def _claim(table: list[Any], device: Device) -> None:
    """Tell a device with several streams what the plan reads."""
    for value in table:
        if isinstance(value, Buffer):
            device.claim(value)


def _references(table: list[Any], place: int) -> int:
    return getrefcount(table[place])


def _count_unshared() -> int:
    """References to a buffer that only a slot list and the table hold."""
    slots = [Buffer(None, 0, 0)]  # type: ignore[arg-type]
    return _references([*slots], 0)


_UNSHARED = _count_unshared()


def _take(step: Take, table: list[Any], device: Device) -> bool:
    """Give an update the memory of its previous version, or a copy of it; whether the memory of a slot was donated."""
    if step.how == "fill":
        source, place = table[step.source], table[step.place]
        first, behind = step.except_for
        if first == behind:
            device.copy(source, place, step.nbytes)
            return False
        for start, stop in ((0, first), (behind, step.nbytes)):
            if start < stop:
                part, copy = (Buffer(device, b.address + start, stop - start, b) for b in (source, place))
                device.copy(part, copy, stop - start)
        return False
    if step.how == "take" or (step.how == "take-if-unshared" and _references(table, step.source) <= _UNSHARED):
        table[step.place] = table[step.source]
        if device.streaming:
            device.claim(table[step.place], written=True)
        return step.how != "take"
    fresh = device.allocate(step.nbytes)
    device.copy(table[step.source], fresh, step.nbytes)
    table[step.place] = fresh
    return False
