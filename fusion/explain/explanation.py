"""Explanations of the kernels of an evaluation.

In: pending storages. Out: an `Explanation` with the members, formulas, loops and bytes of each kernel, and the reason
for its boundary. Nothing of the program is compiled or run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.codegen import CPU, Kernel, Target
from weft.fusion.explain.drawn_numbers import drawn_by_kernels
from weft.fusion.explain.formulas import LOOPS, Names, formulas_of
from weft.fusion.explain.kernel_facts import instructions_of, list_operations, work_of
from weft.fusion.explain.picture import draw_plan, show_html
from weft.fusion.explain.reports import describe_location
from weft.fusion.explain.speed import arithmetic_rate
from weft.fusion.graph.expr import Expr, is_stream, topological, value_bytes
from weft.fusion.lower.kernels import lower_for
from weft.fusion.lower.lowering import lower_group, shares_rows
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.body import all_instructions
from weft.fusion.plan.group import Group
from weft.fusion.plan.grouping import ALONE, NEEDS_CALL
from weft.fusion.plan.horizontal_fusion import schedule_versions
from weft.fusion.plan.live_graph import make_graph
from weft.fusion.plan.materialized_values import base_of
from weft.fusion.plan.merge_groups import merge_groups
from weft.fusion.plan.nest import make_nest
from weft.fusion.plan.numpy_loops import find_numpy_loop
from weft.fusion.plan.reduction_splits import block_length
from weft.fusion.plan.replaced_arrays import replace_arrays
from weft.fusion.plan.row_column_reductions import RowsAndColumns
from weft.fusion.plan.schedule import Schedule
from weft.fusion.plan.steps import Shown
from weft.fusion.plan.traffic import copied_bytes, least_bytes, taken_by_value, traffic
from weft.fusion.record.storage import Epoch, Storage
from weft.runtime import Device, copy_bandwidth, counted, setting, source_line


@dataclass(frozen=True, slots=True)
class KernelNote:
    """The description of one step of a plan: a kernel or a library call."""

    title: str
    members: tuple[str, ...]
    formulas: tuple[str, ...]
    boundary: str
    loops: tuple[tuple[str, int], ...]
    bytes_read: int
    bytes_written: int
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    instructions: int = 0  # approximate number per element: the sum of the ops' costs
    # total number of instructions; an instruction on wide elements is counted as several float32 instructions
    work: int = 0
    bandwidth: float | None = None  # bandwidth of the device, in bytes per second
    rate: float | None = None  # arithmetic rate of the device, in float32 instructions per second
    call: str = ""  # what a library call does, and where it runs; empty for kernels
    kept: tuple[str, ...] = ()  # values that never leave the chip
    passes: int = 1  # number of passes over each row
    within: str = "registers"  # where the values of `kept` are
    draws: tuple[str, ...] = ()  # the calls whose random numbers the kernel draws itself
    given: tuple[str, ...] = ()  # small arrays, each passed to kernels by value or copied from the host
    saved: int = 0  # bytes that would be written and read if values that stay in the caches were materialized
    widened: tuple[tuple[str, int], ...] = ()  # (file, line) in the user's program where float32 becomes float64

    @property
    def headline(self) -> str:
        """The title of the step (a kernel or a library call) and, for a kernel, its loops."""
        loops = " x ".join(f"{role} {name} {extent}" for name, (role, extent) in zip(LOOPS, self.loops, strict=False))
        loops = loops or "one point"
        return self.title if self.call else f"{self.title}: {loops}"

    @property
    def operations(self) -> tuple[str, ...]:
        """All operations of the step: first the random number calls (`draws`), then the operations in `members`."""
        return (*self.draws, *self.members)

    @property
    def storage(self) -> str:
        """The values of the step, and where it keeps them (memory, registers or caches), as text."""
        parts = [f"{', '.join(self.reads)} read" if self.reads else "", f"{', '.join(self.writes)} written"]
        parts.extend(self.given)
        parts.append(f"{', '.join(self.kept)} in {self.within}" if self.kept else "")
        parts.append("rows read again from registers or the cache" if self.passes > 1 else "")
        return "; ".join(part for part in parts if part)

    @property
    def seconds(self) -> float | None:
        """The expected time of the step, given its memory traffic and its arithmetic.

        None for library calls, kernels that draw random numbers, and devices of unknown speed.
        """
        if not self.bandwidth or self.call or self.draws:
            return None
        return max(self._traffic_seconds(), self.work / self.rate if self.rate else 0.0)

    def _traffic_seconds(self) -> float:
        assert self.bandwidth is not None
        return (self.bytes_read + self.bytes_written) / self.bandwidth

    @property
    def costs(self) -> str:
        """The memory traffic and the other known costs of the step as text."""
        parts = [f"{show_bytes(self.bytes_read)} read", f"{show_bytes(self.bytes_written)} written"]
        if self.instructions:
            parts.append(f"{counted(self.instructions, 'instruction')} per element")
        if self.saved:
            parts.append(f"{show_bytes(self.saved)} saved")
        if self.call:
            parts.append(self.call)
        if self.seconds is not None and self.seconds > self._traffic_seconds():
            share = self._traffic_seconds() / self.seconds
            parts.append(f"{show_seconds(self.seconds)} of arithmetic, at {share:.0%} of the speed of a copy")
        elif self.seconds is not None:
            parts.append(f"{show_seconds(self.seconds)} at the speed of a copy")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The result of `explain`, which describes the kernels of an evaluation.

    The `kernels` attribute lists the kernels and library calls in launch order.

    ``str()`` formats the result as text. A notebook shows it as a table and a picture.

    `least` is the number of bytes moved if each input is read once and each result is written once. `stages`
    contains a title and the text of each kernel at the requested stage.

    Examples
    --------
    >>> explanation = wf.explain(wf.sqrt(wf.ones(100_000)) + 1)
    >>> len(explanation.kernels)
    1
    >>> explanation.summary
    '1 kernel, 0 B read, 800.0 kB written (1.00 times the least possible)'
    """

    kernels: tuple[KernelNote, ...]
    least: int = 0
    stages: tuple[tuple[str, str], ...] = ()

    @property
    def summary(self) -> str:
        """A one-line summary of the plan."""
        if not self.kernels:
            return "nothing to run: every value is already in memory"
        read = sum(k.bytes_read for k in self.kernels)
        written = sum(k.bytes_written for k in self.kernels)
        calls = sum(bool(k.call) for k in self.kernels)
        parts = (counted(len(self.kernels) - calls, "kernel"), counted(calls, "library call"))
        count = " and ".join(part for part in parts if not part.startswith("0"))
        over = f" ({(read + written) / self.least:.2f} times the least possible)" if self.least else ""
        return f"{count}, {show_bytes(read)} read, {show_bytes(written)} written{over}"

    def svg(self, numbers: Sequence[int] = ()) -> str:
        """Return an SVG picture of the plan.

        Boxes stand for kernels, inputs and results, and lines for arrays that are passed between them. `numbers`
        contains the numbers of the kernels. By default, the kernels are numbered from 1.
        """
        return draw_plan(self, numbers)

    def _repr_html_(self) -> str:
        return show_html(self)

    def __repr__(self) -> str:
        if not self.kernels:
            return self.summary
        lines = [self.summary]
        for number, kernel in enumerate(self.kernels, 1):
            lines.append("")
            lines.append(f"[{number}] {kernel.headline}")
            lines.extend(f"    {formula}" for formula in kernel.formulas)
            lines.append(f"    members:  {', '.join(kernel.operations)}")
            lines.append(f"    boundary: {kernel.boundary}")
            lines.append(f"    storage:  {kernel.storage}")
            lines.append(f"    bytes:    {kernel.costs}")
        for title, text in self.stages:
            lines += ["", f"-- {title}", text]
        return "\n".join(lines)


def show_bytes(count: int) -> str:
    """Format a number of bytes with a decimal unit such as kB."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < (1000 if unit == "B" else 999.95) or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def show_count(count: int) -> str:
    """Format a number with a decimal prefix such as M."""
    size = float(count)
    for unit in ("", " k", " M"):
        if size < 999.5:
            return f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:.3g} G"


def show_seconds(seconds: float) -> str:
    """Format a time in seconds, milliseconds or microseconds."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 0.9995 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    raise AssertionError


def schedules_of(storages: Iterable[Storage], target: Target | None = None) -> list[Schedule]:
    """Return the schedules that would evaluate `storages`. There is one schedule for each recording.

    The default target is that of the recording's device.
    """
    epochs: dict[Epoch, list[Storage]] = {}
    for storage in storages:
        if storage.buffer is None and storage.epoch is not None:
            epochs.setdefault(storage.epoch, []).append(storage)
    found = []
    for epoch, members in epochs.items():
        roots = list(dict.fromkeys(s.expr for s in members if s.expr is not None))
        live = [s.expr for s in epoch.live() if s.expr is not None]
        graph = make_graph([*roots, *live], epoch.results)
        graph = replace_arrays(graph, topological([*graph.versions, *graph.origins.values()]))
        roots, live = list(dict.fromkeys(graph.versions[: len(roots)])), graph.versions[len(roots) :]
        on = target or epoch.device.target
        schedule = schedule_versions(live, roots, graph.origins, on.machine)
        found.append(merge_groups(schedule, on.machine))
    return found


def explain_storages(storages: Iterable[Storage], timed: bool = True) -> Explanation:
    """Return the description of an evaluation of `storages`.

    With `timed`, it includes expected times, for which the speed of the device is measured.
    """
    recordings: dict[Epoch | None, list[Storage]] = {}
    for storage in storages:
        recordings.setdefault(storage.epoch, []).append(storage)
    notes: list[KernelNote] = []
    least, counts = 0, None
    for own in recordings.values():
        device = own[0].device
        for schedule in schedules_of(own):
            speeds = (copy_bandwidth(device), arithmetic_rate(device)) if timed else (None, None)
            names = Names(schedule.outputs, counts)
            counts = names.counts
            notes += explain_schedule(schedule, device, *speeds, names=names)
            least += least_bytes(schedule, _drawn(schedule, device))
    return Explanation(tuple(notes), least)


def inputs_of(group: Group) -> list[Expr]:
    """Return the materialized values that a group reads or updates, without the values that the group itself computes."""
    if group.opaque is not None:
        found = [base_of(c) for c in group.opaque.operands]
    else:
        own = {p.task.node for p in group.placed}
        found = [
            i.node
            for p in group.placed
            for i in all_instructions(p.task.body)
            if i.kind in ("read", "gather") and i.node not in own
        ]
        previous = [p.task.previous for p in group.placed]
        found += [node for node in previous if node is not None and node not in group.private]
    return list(dict.fromkeys(node for node in found if node.kind != "empty"))


def kernels_of(storages: Iterable[Storage], target: Target | None = None) -> list[Kernel]:
    """Return the kernels of an evaluation of `storages`, before they are scheduled for a device.

    If `target` is given, the kernels have the attributes that its schedules need.
    """
    return [
        lowered.kernel
        for schedule in schedules_of(storages, target)
        for group in schedule.groups
        if group.opaque is None
        for lowered in (lower_group(group) if target is None else lower_for(target, group, special=True))
    ]


def show_plans(show: Callable[[Explanation], None] | None) -> None:
    """Set the function that receives explanations of new plans.

    `show` is called before the plan runs. If `show` is None, new plans are printed if the debug setting contains
    ``plan``, and otherwise not shown.
    """
    Shown.plans = show


def print_plan(plan: Explanation) -> None:
    """Print a plan and an empty line to standard error."""
    print(plan, end="\n\n", file=sys.stderr)


def announce(schedule: Schedule, device: Device) -> None:
    """Pass the explanation of a new plan to the function that the user set with `show_plans`.

    If there is no such function, print the plan if the debug setting contains ``plan``.
    """
    show = Shown.plans or (print_plan if "plan" in setting("debug") else None)
    if show is not None:
        least = least_bytes(schedule, _drawn(schedule, device))
        show(Explanation(tuple(explain_schedule(schedule, device)), least))


def _drawn(schedule: Schedule, device: Device | None) -> set[Expr]:
    """Return the random number streams that the kernels of a schedule generate themselves."""
    streams = any(group.opaque is not None and is_stream(group.opaque) for group in schedule.groups)
    return drawn_by_kernels(schedule, device.target) if streams and device is not None else set()


def explain_schedule(
    schedule: Schedule,
    device: Device | None = None,
    bandwidth: float | None = None,
    rate: float | None = None,
    names: Names | None = None,
) -> list[KernelNote]:
    """Return a description of each kernel and library call of a schedule.

    The descriptions contain expected times if the device's bandwidth and arithmetic rate are given. `names` is a table
    of names, whose numbering may continue that of other schedules.
    """
    names = names or Names(schedule.outputs)
    drawn = dict.fromkeys(_drawn(schedule, device), KernelNote("", (), (), "", (), 0, 0))
    notes = []
    for group in schedule.groups:
        if group.opaque is None:
            note = replace(_own_note(group, names, schedule, device), bandwidth=bandwidth, rate=rate)
            note = replace(note, given=_value_parameters(group, names))
            notes.append(_with_draws(note, group, drawn))
        elif group.opaque in drawn:
            drawn[group.opaque] = _call_note(group, group.opaque, names, device)
        else:
            note = _call_note(group, group.opaque, names, device)
            notes.append(replace(note, given=_value_parameters(group, names)))
    return notes


def _with_draws(note: KernelNote, group: Group, drawn: dict[Expr, KernelNote]) -> KernelNote:
    """Return a copy of the kernel description `note` that includes the random numbers that the kernel generates itself.

    `drawn` maps each random number stream to the description of the call that the kernel replaces.
    """
    calls = [(node, drawn[node]) for node in inputs_of(group) if node in drawn]
    if not calls:
        return note
    numbers = [name for _, call in calls for name in call.writes]
    states = [name for _, call in calls for name in call.reads]
    needs_call = any(node.kind == "opaque" and node not in drawn for node in inputs_of(group))
    return replace(
        note,
        formulas=(*(line for _, call in calls for line in call.formulas), *note.formulas),
        draws=tuple(dict.fromkeys(member for _, call in calls for member in call.members)),
        boundary=note.boundary if needs_call or note.boundary != NEEDS_CALL else ALONE,
        bytes_read=note.bytes_read + sum(call.bytes_read - node.nbytes for node, call in calls),
        reads=tuple(dict.fromkeys([*states, *(name for name in note.reads if name not in numbers)])),
        given=(*note.given, f"{', '.join(numbers)} drawn in the cache, block by block"),
    )


def _value_parameters(group: Group, names: Names) -> tuple[str, ...]:
    """Describe each of the small arrays in host memory that a kernel or a library call reads."""
    taken = taken_by_value(group) if group.opaque is None else []
    small = [node for node in inputs_of(group) if value_bytes(node)]
    return tuple(f"{names(node)} {'by value' if node in taken else 'on the host'}" for node in small)


def _own_note(group: Group, names: Names, schedule: Schedule, device: Device | None) -> KernelNote:
    """Return the description of a group's kernel, or of the NumPy loop that runs instead of the kernel."""
    note = _note(group, names, schedule)
    if device is None or device.name != "cpu" or find_numpy_loop(group) is None:
        return note
    title = note.title.replace("kernel", "NumPy's loop", 1)
    return replace(note, title=title, call="by NumPy, over blocks on all threads; nothing is compiled")


def _note(group: Group, names: Names, schedule: Schedule) -> KernelNote:
    read, written = traffic(group)
    copied = [
        p.task for p in group.placed if p.task.kind in ("update", "scatter") and p.task.node not in schedule.in_place
    ]
    if isinstance(group, BlockedSteps):
        copied = []
    for task in copied:
        if task.node.operands[0].kind != "empty":
            read, written = read + copied_bytes(task), written + copied_bytes(task)
    loops = tuple((loop.role, loop.extent) for loop in group.loops)
    formulas = tuple(line for p in group.placed for line in formulas_of(p, group, names, schedule.in_place))
    roles = {loop.role for loop in group.loops}
    title = "kernel, " + ("reduction" if "reduce" in roles else "scan" if "scan" in roles else "map")
    if isinstance(group, BlockedSteps):
        title += f", {len(group.steps)} time steps in one kernel"
    elif group.passes() > 1:
        title += f", {group.passes()} passes over each row"
    if isinstance(group, RowsAndColumns):
        title += " of rows and of columns in one pass, split into blocks that are combined at the end"
    elif block_length(group, make_nest(group), CPU):
        title += ", split into blocks that are combined at the end"
    elif shares_rows(group, make_nest(group)):
        title += ", split into blocks, which the threads of a CPU read twice"
    reads = tuple(names(node) for node in inputs_of(group))
    writes = tuple(dict.fromkeys(names(p.task.node) for p in group.placed if p.task.node not in group.private))
    kept = tuple(names(p.task.node) for p in group.placed if p.task.node in group.private)
    costs = read, written, reads, writes, instructions_of(group)
    members = tuple(dict.fromkeys(op + describe_location(location) for op, location in list_operations(group)))
    found = KernelNote(title, members, formulas, group.reason, loops, *costs)
    found = replace(found, kept=kept, passes=group.passes(), work=work_of(group), widened=_widened(group))
    if not isinstance(group, BlockedSteps):
        return found
    within = (
        f"{'shared memory' if group.tile else 'the cache'}, {'a few rows of each' if group.rows else 'block by block'}"
    )
    return replace(found, saved=sum(2 * node.nbytes for node in group.private), within=within)


def _call_note(group: Group, node: Expr, names: Names, device: Device | None) -> KernelNote:
    """Return the description of a library call on whole arrays."""
    arguments = ", ".join(names(base_of(c)) + ("[view]" if base_of(c) is not c else "") for c in node.operands)
    read = sum(c.nbytes for c in node.operands)
    work = f"{show_count(node.size * node.operands[0].shape[-1])} multiply-adds " if node.op == "matmul" else ""
    describe = getattr(node.attrs[0], "describe", None)
    if describe is not None:
        where = describe(node.operands[0].shape, node.operands[0].dtype)
    elif is_stream(node):
        where = "by native code on all threads"
    elif device is None or not device.name.startswith("cuda"):
        where = "by NumPy"
    elif node.op == "matmul":
        where = "by cuBLAS (if cuBLAS is not installed, by NumPy on the host)"
    else:
        where = "by NumPy on the host: the operands are copied to the host, and the result is copied back"
    return KernelNote(
        f"call {node.op}",
        (node.op + describe_location(node.location),),
        (f"{names(node)} = {node.op}({arguments})",),
        group.reason,
        (),
        read,
        node.nbytes,
        tuple(names(c) for c in inputs_of(group)),
        (names(node),),
        call=work + where,
    )


def _widened(group: Group) -> tuple[tuple[str, int], ...]:
    """Return the user's source lines where a kernel computes float64 values from float32 arrays."""
    nodes = [i.node for p in group.placed for i in all_instructions(p.task.body) if i.kind == "map"]
    wide = [node for node in nodes if node.dtype == np.float64]
    found = [n.location for n in wide if any(one.dtype == np.float32 and one.size > 1 for one in n.operands)]
    return tuple(dict.fromkeys(source_line(location) for location in found if location is not None))
