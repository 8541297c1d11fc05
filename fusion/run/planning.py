"""Planning: conversion of a graph to steps over a table of buffers.

In: a graph and a device. Out: a `Plan` with all kernels compiled and loaded. Invariant: a plan depends only on
expressions, not on an epoch. Planning therefore needs no lock. A process whose plans are all on disk loads neither this
module nor the modules for scheduling and lowering.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from itertools import count
from time import process_time
from typing import Any, Literal, assert_never

from weft.codegen import kernel_digest, machine_of, print_kernel
from weft.fusion.explain.kernel_facts import facts_of
from weft.fusion.graph.expr import Expr, is_window, topological, value_bytes
from weft.fusion.graph.sizes import Size, greatest
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.lower.kernel_writer import Lowered
from weft.fusion.lower.kernels import obtain_kernels
from weft.fusion.plan import plan_cache, plan_store
from weft.fusion.plan.arena import Donation, arrange_memory
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.group import Group
from weft.fusion.plan.horizontal_fusion import schedule_versions
from weft.fusion.plan.live_graph import LiveGraph
from weft.fusion.plan.merge_groups import merge_groups
from weft.fusion.plan.numpy_loops import NumpyLoop, find_numpy_loop
from weft.fusion.plan.schedule import Schedule, find_donors
from weft.fusion.plan.steps import HostCall, KernelLaunch, Plan, Shown, SizeSpecialization, Step, pack_scalar
from weft.fusion.plan.stream_operands import read_streams
from weft.fusion.plan.task import Task
from weft.fusion.plan.traced_plans import keep_exact, trace_plan
from weft.fusion.run.background import restore
from weft.runtime import Device, DeviceMismatchError, get_device, override, setting


def make_new(
    device: Device, epoch_slots: int, graph: LiveGraph, wanted: tuple[int, ...] | None, form: plan_cache.Form
) -> Plan:
    """Return a new plan for a graph, and cache the plan.

    If possible, the plan is cached for graphs with other sizes too. `epoch_slots` is the number of slots of the epoch.
    `wanted` is the argument of `make_plan`.
    """
    may = _may_be_special(form)
    plan = None
    # (on a GPU, the first sizes are compiled into the kernels, which are useless for other sizes)
    if plan_cache.is_worth_keeping(form, at_once=device.name == "cpu"):

        def make(copy: LiveGraph) -> Plan:
            return make_plan(device, epoch_slots, copy, wanted, may)

        plan = trace_plan(form, device, graph, make)
    if plan is None:
        plan = make_plan(device, epoch_slots, graph, wanted, may)
        keep_exact(form, device, plan)
    _note_new(plan, device, form, may)
    return plan


def _may_be_special(form: plan_cache.Form) -> SizeSpecialization:
    return SizeSpecialization(first=plan_cache.is_first(form))


def make_specialized(
    device: Device, epoch_slots: int, graph: LiveGraph, wanted: tuple[int, ...] | None, form: plan_cache.Form
) -> Plan | None:
    """Return a plan for the exact array sizes of `graph`. Return None if the graph's structure is new, or if many kernels were compiled for it."""
    if not plan_cache.may_specialize(form):
        return None
    may = SizeSpecialization(first=False, back=True)
    plan = make_plan(device, epoch_slots, graph, wanted, may)
    _note_new(plan, device, form, may)
    return plan


def compile_plan(
    name: str, epoch_slots: int, wanted: tuple[int, ...] | None, key: bytes, rows: Any, versions: Any, origins: Any
) -> float:
    """Compile the plan of a graph that another process sent, and store the plan on disk.

    `key` is the key of the plan on disk, or empty if the other process does not know this machine's description.
    Return the CPU time in seconds. Raises LookupError if the other process would not find the plan.
    """
    device = get_device(name)
    graph = restore(rows, versions, origins)
    form = plan_cache.find_form(name, graph, wanted)
    if key and plan_store.store_key(form.key, device) != key:
        raise LookupError("this is another version or another machine")
    begin = process_time()
    with override(interpret="never", strict=True):
        if plan_cache.find(form, device) is None:
            make_new(device, epoch_slots, graph, wanted, form)
    seconds = process_time() - begin
    plan_cache.forget(form.key)
    if plan_cache.find(form, device) is None:
        raise LookupError("the plan is not on disk")
    return seconds


def _note_new(plan: Plan, device: Device, form: plan_cache.Form, may: SizeSpecialization) -> None:
    STATISTICS.plans += 1
    plan_cache.note_kernels(form, may.made)
    if plan.schedule is not None and (Shown.plans or "plan" in setting("debug")):
        import_module("weft.fusion.explain.explanation").announce(plan.schedule, device)


def make_plan(
    device: Device, epoch_slots: int, graph: LiveGraph, wanted: tuple[int, ...] | None, may: SizeSpecialization
) -> Plan:
    """Return a plan that evaluates `graph` on `device`. The argument `wanted` selects the values of the graph that the plan computes.

    `wanted` contains positions in the list ``graph.versions``. None means the whole list.
    """
    versions = graph.versions
    roots = versions if wanted is None else [versions[k] for k in wanted]
    for node in topological(roots):
        if node.kind == "leaf" and node.attrs[1] != device.name:
            raise DeviceMismatchError(f"a value on {device.name} was computed from an array on {node.attrs[1]}")
    machine = machine_of(device)
    schedule = schedule_versions(versions, roots, graph.origins, machine)
    schedule = merge_groups(schedule, machine, special=may.first or may.back)
    if not machine.is_gpu:
        # (on a GPU, donating an operand would rule out the load instructions for memory that the kernel does not write)
        outputs = set(schedule.outputs)
        find_donors(schedule, [version for version in versions if version not in outputs])
    return PlanWriter(device, epoch_slots, schedule, may).write()


class PlanWriter:
    """Writer that turns a schedule into a plan. The steps of the plan access a table of buffers."""

    def __init__(self, device: Device, epoch_slots: int, schedule: Schedule, may: SizeSpecialization) -> None:
        self.device = device
        self.may = may
        self.schedule = schedule
        self.epoch_slots = epoch_slots
        self.new_slots = count(epoch_slots)
        self.slots_of: dict[Expr, int] = {}
        self.steps: list[Step] = []
        self.partial_slots: dict[int, int] = {}
        self.scalars: dict[int, None] = {}
        self.values: dict[int, int] = {}
        self.moved: dict[int, None] = {}
        self.counter: int | None = None
        self.descriptors: tuple[int, int] | None = None

    def write(self) -> Plan:
        """Write the plan's steps for each group of operations in the schedule, and return the finished plan."""
        outputs = set(self.schedule.outputs)
        ending: dict[int, list[Expr]] = {}
        for node, position in self.schedule.last_use.items():
            ending.setdefault(position, []).append(node)
        calls = [k for k, group in enumerate(self.schedule.groups) if group.opaque is not None]
        for position, group in enumerate(self.schedule.groups):
            fails_later = bool(calls) and position < calls[-1]
            loop = find_numpy_loop(group) if self.device.name == "cpu" else None
            if group.opaque is not None:
                self._call(group.opaque, group.opaque.operands)
            elif loop is not None:
                self._call(group.placed[0].task.node, loop[1], loop[0])
            else:
                for placed in group.placed:
                    if placed.task.node not in group.private:
                        self._memory(placed.task, group, fails_later)
                for function, lowered in obtain_kernels(self.device, group, self.may):
                    self._launch(function, lowered, group)
                self.steps.extend(self.partial_slots.values())
                self.partial_slots.clear()
                for taken in group.over.values():
                    del self.slots_of[taken]
            for node in ending.get(position, ()):
                # (an empty base that its only update replaced never got a slot)
                if node not in outputs and node in self.slots_of:
                    self.steps.append(self.slots_of[node])
        listed = [(node, self.slot_of(node)) for node in self.schedule.outputs]
        kept = {slot for _, slot in listed}
        steps = read_streams(self.steps, kept) if self.device.name == "cpu" else self.steps
        steps, table_size = arrange_memory(steps, self.epoch_slots, next(self.new_slots), kept)
        return Plan(
            steps,
            table_size,
            listed,
            self.schedule,
            self.epoch_slots,
            [*self.scalars],
            self.counter,
            self.descriptors,
            [(slot, source) for source, slot in self.values.items()],
            [*self.moved],
        )

    def slot_of(self, node: Expr) -> int:
        """Return the index of a value's buffer in the plan's buffer table. If the value has no buffer yet, append an allocation step to the plan."""
        if node.kind == "leaf":
            if value_bytes(node):
                self.moved[node.attrs[0]] = None
            return node.attrs[0]
        found = self.slots_of.get(node)
        if found is None:
            found = self._new(node.nbytes)
            self.slots_of[node] = found
        return found

    def _new(self, nbytes: int) -> int:
        number = next(self.new_slots)
        self.steps.append((number, nbytes))
        return number

    def _memory(self, task: Task, group: Group, fails_later: bool) -> None:
        """Append the steps that provide the memory for a result.

        No input is overwritten if a later call may fail (`fails_later`), because the plan may then run again.
        """
        node, previous = task.node, task.previous
        if node in group.over:
            self.slots_of[node] = self.slot_of(group.over[node])
            return
        if node in group.donors:
            self._donate(node, "donate-or-new", *map(self.slot_of, group.donors[node]))
            return
        if previous is None or previous.kind == "empty" or isinstance(group, BlockedSteps):
            self.slot_of(node)
            return
        source = self.slot_of(previous)
        owned = previous.kind != "leaf"
        if node not in self.schedule.in_place or (fails_later and not owned):
            size = node.dtype.itemsize
            first, behind = (size * k for k in task.written_range())
            self.steps.append(Donation(self.slot_of(node), source, "fill", node.nbytes, (first, behind)))
            return
        self._donate(node, "donate" if owned else "donate-if-unshared", source)

    def _donate(
        self, node: Expr, how: Literal["donate", "donate-if-unshared", "donate-or-new"], source: int, *others: int
    ) -> None:
        slot = self.slots_of[node] = next(self.new_slots)
        self.steps.append(Donation(slot, source, how, node.nbytes, others=others))

    def _call(self, node: Expr, values: Sequence[Expr], loop: NumpyLoop | None = None) -> None:
        operands = []
        for child in values:
            window = is_window(child) and child not in self.slots_of
            operands.append((self.slot_of(child.operands[0] if window else child), child, window))
        self.steps.append(HostCall(node, self.slot_of(node), operands, loop))

    def _launch(self, function: Any, lowered: Lowered, group: Group) -> None:
        for number, nbytes in lowered.partials:
            if number not in self.partial_slots:
                self.partial_slots[number] = self._new(nbytes)
        arguments: list[Any] = [0] * len(lowered.bindings)
        patches, scalars = [], []
        for k, (kind, value, offset) in enumerate(lowered.bindings):
            match kind:
                case "int":
                    arguments[k] = value
                case "number":
                    arguments[k] = value if type(value) is Size else pack_scalar(value)
                case "buffer":
                    patches.append((k, self.slot_of(value), offset))
                case "value":
                    if value.attrs[0] not in self.values:
                        self.values[value.attrs[0]] = next(self.new_slots)
                    scalars.append((k, self.values[value.attrs[0]]))
                case "partial":
                    patches.append((k, self.partial_slots[value], 0))
                case "counter":
                    if self.counter is None:
                        self.counter = next(self.new_slots)
                    patches.append((k, self.counter, 0))
                case "descriptors":
                    # kernels of a plan run one after another, and share the descriptors
                    if self.descriptors is None:
                        self.descriptors = next(self.new_slots), 0
                    slot, nbytes = self.descriptors
                    self.descriptors = slot, greatest(nbytes, value)
                    patches.append((k, slot, 0))
                case "scalar":
                    scalars.append((k, value))
                    self.scalars[value] = None
                case _:
                    assert_never(kind)
        if all(lowered.parallel):
            nbytes, origin = lowered.bytes_read + lowered.bytes_written, group.placed[-1].task.node.location
            # (traced sizes are not ints: `plan_cache.py` packs their values)
            words: Any = array("q", arguments) if all(type(value) is int for value in arguments) else arguments
            packed = (function, lowered.parallel, lowered.work, words, patches, scalars, nbytes, origin)
            exact = "exact" in lowered.kernel.attributes
            facts, text = partial(facts_of, group), partial(print_kernel, lowered.kernel)
            digest = lowered.digest or kernel_digest(self.device.target, lowered.kernel)
            self.steps.append(KernelLaunch(*packed, lowered.kernel.name, digest, exact, facts, text))
