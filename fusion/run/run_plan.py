"""Execution of the steps of plans.

In: a plan and an epoch. Out: a buffer for each value of the plan. Invariant: a failure leaves the epoch unchanged. After
a plan has begun to overwrite older memory, it finishes and its results are assigned before Ctrl-C takes effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import Any

from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.plan.arena import ArenaSlices, Donation
from weft.fusion.plan.steps import LARGE, Batch, HostCall, KernelLaunch, Plan, Step, pack_scalar
from weft.fusion.record.by_value import in_memory
from weft.fusion.record.storage import OVERWRITING, Epoch, references
from weft.fusion.run.host_calls import call_host, call_launcher, launch_with_draws
from weft.runtime import (
    Buffer,
    BufferRequests,
    Device,
    LaunchNote,
    Listening,
    launch_heard,
    setting,
    show_location,
    source_line,
)

AssignResults = Callable[[Plan, list[Any]], None]


def is_worth_more(plan: Plan, device: Device) -> bool:
    """Return whether a plan may become faster with kernels that are compiled for its exact array sizes.

    This is assumed for kernels on a GPU that access much memory and were compiled for other sizes too.
    """
    if not device.target.machine.is_gpu:
        return False
    launches = [step for step in plan.steps if isinstance(step, KernelLaunch)]
    return any(step.nbytes >= LARGE and not step.exact for step in launches)


def gather_requests(steps: list[Step]) -> list[Step]:
    """Merge consecutive memory requests of a plan, and return the steps."""
    found: list[Step] = []
    for kind, group in groupby(steps, type):
        run: list[Any] = [*group]
        if kind is tuple:
            run = [BufferRequests([slot for slot, _ in run], [nbytes for _, nbytes in run])]
        found += run
    return found


def gather_launches(device: Device, steps: list[Step]) -> list[Step]:
    """Merge consecutive kernel launches into batches, if the device supports batches. Return the new list of steps."""
    found: list[Step] = []
    launches: list[KernelLaunch] = []
    given_up: list[Step] = []

    def close() -> None:
        if launches:
            prepared = device.prepare(launches)
            if prepared is None:
                found.extend(launches)
            else:
                found.append(Batch(prepared, launches[:], sum(launch.nbytes for launch in launches)))
        found.extend(given_up)
        launches.clear()
        given_up.clear()

    for step in steps:
        if isinstance(step, KernelLaunch) and not step.streams:
            launches.append(step)
        elif isinstance(step, int):
            given_up.append(step)
        else:
            close()
            found.append(step)
    given_up.clear()  # (at the end, all memory is released)
    close()
    return found


def execute(plan: Plan, epoch: Epoch, assign_results: AssignResults, shown: bool) -> None:
    """Run a plan on the slots of a recording, and pass the table of buffers to `assign_results`.

    `shown` is whether each launch is printed.
    """
    begin = perf_counter()
    device = epoch.device
    _check_slots(plan, epoch)
    missing = plan.slots - len(epoch.slots)
    table: list[Any] = epoch.slots + plan.blank if not missing else _table(plan, epoch.slots, missing)
    for slot in plan.moved:
        table[slot] = in_memory(table[slot])
    if device.streaming:
        _wait_for_inputs(table, device)
    if plan.asks_more:
        _fill_table(table, plan, epoch)
    program = plan.program
    if program is None:
        program = plan.program = gather_launches(device, gather_requests(plan.steps))
    listening = device.streaming or Listening.listeners or shown
    at, end = 0, len(program)
    donated: set[int] = set()  # slots whose memory has been donated to results
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            while at < end:
                step = program[at]
                kind = type(step)
                if kind is Batch and not listening:
                    step.prepared.run(table)  # type: ignore[union-attr]
                    STATISTICS.launches += len(step.launches)  # type: ignore[union-attr]
                    STATISTICS.bytes += step.nbytes  # type: ignore[union-attr]
                elif kind is BufferRequests:
                    device.allocate_into(table, step)  # type: ignore[arg-type]
                elif kind is ArenaSlices:
                    _slice_arena(step, table, device)  # type: ignore[arg-type]
                elif kind is Donation:
                    slot = _donate(step, table, device)  # type: ignore[arg-type]
                    if slot >= 0:
                        donated.add(slot)
                        epoch.stage = OVERWRITING
                else:
                    _run_step(step, table, device)
                # no signal is handled between these two lines
                at += 1
                table[-1] = 0
            if donated and epoch.results:  # the old values are no longer accessible, but the leaf may be recorded again
                epoch.results = {v: leaf for v, leaf in epoch.results.items() if leaf.attrs[0] not in donated}
            assign_results(plan, table)
            break
        except KeyboardInterrupt as error:
            if not donated:
                raise  # the plan can be run again from the beginning
            interrupt = error
    STATISTICS.running += perf_counter() - begin
    if interrupt is not None:
        raise interrupt


def _check_slots(plan: Plan, epoch: Epoch) -> None:
    """Raise RuntimeError unless all buffers that a plan reads are different and have the expected sizes."""
    try:
        found = [epoch.slots[slot] for slot in plan.leaves]
        good = [buffer.nbytes for buffer in found] == plan.leaf_sizes
        good = good and (len(found) < 2 or len({*map(id, found)}) == len(found))
    except (AttributeError, IndexError):  # the slot has a scalar or does not exist
        good = False
    if not good:
        raise RuntimeError("an expression names memory that its recording does not hold; please report this")


def _table(plan: Plan, slots: list[Any], missing: int) -> list[Any]:
    """Return a buffer table with the plan's number of slots.

    The recording has `missing` slots fewer than the plan, or more slots if `missing` is negative.
    """
    return [*slots[: plan.slots], *[None] * missing, *plan.blank]


def _fill_table(table: list[Any], plan: Plan, epoch: Epoch) -> None:
    """Complete a buffer table before a run.

    Scalars are packed. The addresses of small arrays, the completion counter and the look-back descriptors are added.
    """
    device = epoch.device
    if plan.counter is not None:
        table[plan.counter] = device.completion_counter()
    if plan.descriptors is not None:
        slot, nbytes = plan.descriptors
        table[slot] = device.lookback_descriptors(nbytes)
    for slot, source in plan.values:
        table[slot] = epoch.slots[source].address
    STATISTICS.by_value += len(plan.values)
    for slot in plan.scalars:
        table[slot] = pack_scalar(table[slot])


def _run_step(step: Step, table: list[Any], device: Device) -> None:
    """Run a step, or the rest of a step that was interrupted. Steps that run kernels must not be repeated, but other steps may be."""
    if isinstance(step, Batch):
        _launch_batch(step, table, device)
    elif isinstance(step, KernelLaunch):
        if not table[-1]:
            _launch(step, table, device)
    elif isinstance(step, int):
        table[step] = None
    elif isinstance(step, HostCall):
        if hasattr(step.node.attrs[0], "enqueue"):
            call_launcher(step, table, device)
        elif Listening.listeners:
            moved = sum(child.nbytes for _, child, _ in step.operands) + step.node.nbytes
            where = step.node.location
            sources = ((*source_line(where), 1.0),) if where is not None else ()
            note = LaunchNote(f"call {step.node.op}", nbytes=moved, location=show_location(where), sources=sources)
            launch_heard(device, note, partial(call_host, step, table, device))
        else:
            call_host(step, table, device)


def _slice_arena(step: ArenaSlices, table: list[Any], device: Device) -> None:
    whole = table[step.whole]
    start = whole.address
    for slot, offset, nbytes in step.parts:
        table[slot] = Buffer(device, start + offset, nbytes, whole)


def _launch_batch(step: Batch, table: list[Any], device: Device) -> None:
    """Launch the kernels of a batch, except those that were launched before an interrupt.

    The kernels are launched one by one if there are listeners, or if launches are printed.
    """
    if table[-1] or Listening.listeners or "launch" in setting("debug"):
        for launch in step.launches[table[-1] :]:
            _launch(launch, table, device)
        return
    if device.streaming:  # (other devices count the launches themselves, and skip those that are counted)
        table[-1] = len(step.launches)
    step.prepared.run(table)
    STATISTICS.launches += len(step.launches)
    STATISTICS.bytes += step.nbytes


def _launch(step: KernelLaunch, table: list[Any], device: Device) -> None:
    """Launch a kernel of a plan. When it starts, add 1 to the last entry of the buffer table, which counts the started kernels."""
    if "launch" in setting("debug"):
        print(f"launch {step.name} over {step.parallel}, {step.work} elements", file=sys.stderr)
    arguments = step.arguments[:]
    for argument, slot, offset in step.patches:
        arguments[argument] = table[slot].address + offset
    for argument, slot in step.scalars:
        arguments[argument] = table[slot]
    run = device.launch if not step.streams else partial(launch_with_draws, step.streams, table, device)
    count = table[-1] + 1

    def start() -> None:
        table[-1] = count  # (only now: a kernel whose launch is interrupted before it starts must not be skipped)
        run(step.function, step.parallel, step.work, arguments)

    if Listening.listeners:
        if step.note is None:
            step.note = step.describe()
        launch_heard(device, step.note, start)
    else:
        start()
    STATISTICS.launches += 1
    STATISTICS.bytes += step.nbytes


def _wait_for_inputs(table: list[Any], device: Device) -> None:
    """Make the current stream wait for earlier work of other streams on the inputs of a plan."""
    for value in table:
        if isinstance(value, Buffer):
            device.claim(value)


def _donate(step: Donation, table: list[Any], device: Device) -> int:
    """Prepare memory for a result. If the result takes over the memory of one of the recording's buffers, return this buffer's slot, otherwise -1."""
    if step.how == "fill":
        source, target = table[step.source], table[step.slot]
        first, behind = step.except_for
        if first == behind:
            device.copy(source, target, step.nbytes)
            return -1
        for start, stop in ((0, first), (behind, step.nbytes)):
            if start < stop:
                part, copy = (Buffer(device, b.address + start, stop - start, b) for b in (source, target))
                device.copy(part, copy, stop - start)
        return -1
    for donor in (step.source, *step.others):
        alone = step.how == "donate" or references(table, donor) == 2  # (of the recording's slots, and of the table)
        if alone and (step.how != "donate-or-new" or table[donor].pooled):
            table[step.slot] = table[donor]
            if device.streaming:
                device.claim(table[step.slot], written=True)
            return -1 if step.how == "donate" else donor
    if step.request is None:
        step.request = BufferRequests([step.slot], [step.nbytes])
    device.allocate_into(table, step.request)
    if step.how == "donate-if-unshared":
        device.copy(table[step.source], table[step.slot], step.nbytes)
    return -1
