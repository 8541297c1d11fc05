"""Compilation of fused operations to functions that a device can launch.

In: a device and a group. Out: the lowered kernels of the group, with the loaded functions from `Device.load`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.codegen import (
    Kernel,
    Machine,
    Pointer,
    RowPlanes,
    Target,
    can_merge,
    describe_shapes,
    is_loaded,
    kernel_digest,
    merge_kernels,
    merge_pointers,
    obtain_function,
    print_kernel,
    share_rows,
    streaming_threshold,
)
from weft.fusion.graph.expr import Expr
from weft.fusion.graph.sizes import Size
from weft.fusion.graph.statistics import STATISTICS
from weft.fusion.lower.kernel_writer import Binding, Lowered
from weft.fusion.lower.lowering import FINISH, lower_group
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.plan.group import Group
from weft.fusion.plan.row_column_reductions import RowsAndColumns
from weft.fusion.plan.steps import LARGE, SizeSpecialization
from weft.runtime import Device

# Texts of parametric kernels that were needed before, with any constants. The set is bounded.
_met: set[str] = set()
_MET_LIMIT = 50_000
# Minimum row length for non-temporal stores in blocked time steps.
LONG_ROW = 1 << 10


def obtain_kernels(device: Device, group: Group, may: SizeSpecialization) -> list[tuple[Any, Lowered]]:
    """Return the compiled kernels of a group of fused operations, with their launch parameters.

    Constants are compiled into the first kernel. Sizes are also compiled in if that makes a GPU's schedule faster. If
    the same kernel is needed again with other constants, the constants become parameters, so that a changing scalar
    needs no compilation. On a GPU, `may` determines whether constants and sizes are compiled in, and the kernel that
    combines partial results always takes both as parameters.
    """
    general = lower_for(device.target, group, special=False)
    chosen, skeleton = general, None
    on_gpu = device.target.machine.is_gpu
    if on_gpu or any(binding[0] == "number" for lowered in general for binding in lowered.bindings):
        large = any(k.bytes_read + k.bytes_written >= LARGE for k in general)
        whole = large and not on_gpu  # (the text of a large CPU kernel includes the schedule)
        skeleton = f"{large} " + "".join(print_kernel(k.kernel) if whole else _skeleton(k.kernel) for k in general)
        trace = next((value.trace for k in general for _, value, _ in k.bindings if type(value) is Size), None)
        before = trace.mark() if trace is not None else 0
        special = lower_for(device.target, group, special=True)
        worthwhile = large if may.back else skeleton not in _met and (may.first or not on_gpu)
        if worthwhile or all(is_loaded(device, _digest(device, lowered)) for lowered in special):
            chosen = [g if on_gpu and s.kernel.name == FINISH else s for g, s in zip(general, special, strict=True)]
            if trace is not None:
                trace.alone |= any("exact" in lowered.kernel.attributes for lowered in special)
        elif trace is not None:
            trace.forget(before)  # drop the conditions on sizes that only the specialized kernel needs
    may.made += sum(not is_loaded(device, _digest(device, lowered)) for lowered in chosen)
    functions = [(obtain_function(device, lowered.kernel, _digest(device, lowered)), lowered) for lowered in chosen]
    if skeleton is not None:  # recorded before compilation: concurrent threads wait for the same compilation
        if len(_met) >= _MET_LIMIT:
            _met.clear()
        _met.add(skeleton)
    return functions


def _digest(device: Device, lowered: Lowered) -> str:
    if not lowered.digest:
        lowered.digest = kernel_digest(device.target, lowered.kernel)
    return lowered.digest


def _skeleton(kernel: Kernel) -> str:
    """Return the text of a kernel without its attributes and the alignment of its parameters."""
    parameters = [replace(parameter, align=1) for parameter in kernel.parameters]
    return print_kernel(replace(kernel, attributes={}, parameters=parameters))


def lower_for(target: Target, group: Group, *, special: bool) -> list[Lowered]:
    """Return the kernels of a group of fused operations, in kernel IR for a target.

    With `special`, constants and sizes are compiled into the kernels.

    On an x86-64 CPU, kernels that access more memory than the last-level cache holds are marked for prefetches and
    non-temporal stores, unless they compute blocked time steps with short rows. On a GPU, two kernels are merged if one
    launch can execute both.
    """
    machine = target.machine
    found = lower_group(group, parametric=not special, machine=machine)
    STATISTICS.lowered += len(found)
    if machine.is_gpu:
        for lowered in found:
            _set_alignment(lowered, machine)
        if (
            len(found) == 2
            and not isinstance(group, RowsAndColumns)
            and can_merge(*(lowered.kernel for lowered in found))
        ):
            found = [_merged(*found)]
        else:
            for lowered in found:
                _share_rows(lowered)
    for lowered in found:
        parts = lowered.kernel.name == FINISH
        logical, sizes = lowered.kernel, lowered.sizes()
        lowered.kernel = describe_shapes(logical, sizes, target, exact=special, parts=parts)
        schedule = lowered.kernel.attributes.get("schedule")
        if special and isinstance(schedule, RowPlanes) and (same := _overlapping_pointers(lowered)):
            lowered.kernel = describe_shapes(merge_pointers(logical, same), sizes, target, exact=True, parts=parts)
        if not special and not (schedule and schedule.keeps_alignment):
            _forget_alignment(lowered.kernel, schedule.vectors if schedule else ())
        threshold = streaming_threshold(target)
        # (rows of blocked time steps may be too short for non-temporal stores)
        long = not isinstance(group, BlockedSteps) or group.width[-1] >= LONG_ROW
        if threshold and lowered.bytes_read + lowered.bytes_written >= threshold and long:
            lowered.kernel.attributes["streams"] = True
    return found


def _overlapping_pointers(lowered: Lowered) -> dict[str, tuple[str, int]]:
    """Return the read-only pointer parameters that point into the same array as another such parameter.

    The result maps the name of each pointer to the name of the other pointer and the distance in elements between the
    two.
    """
    first: dict[Expr, tuple[str, int]] = {}
    same: dict[str, tuple[str, int]] = {}
    read = [(p, binding) for p, binding in lowered.bound() if binding[0] == "buffer" and p.noalias and not p.writable]
    for p, (_, node, offset) in sorted(read, key=lambda each: -each[0].align):
        name, start = first.setdefault(node, (p.value.name, int(offset)))
        if name != p.value.name:
            same[p.value.name] = name, (int(offset) - start) // node.dtype.itemsize
    return same


def _set_alignment(lowered: Lowered, machine: Machine) -> None:
    for parameter, (kind, _, offset) in lowered.bound():
        if isinstance(parameter.value.type, Pointer) and kind in ("buffer", "partial"):
            parameter.align = (
                machine.vector_bytes if offset % machine.vector_bytes == 0 else parameter.value.type.dtype.itemsize
            )


def _forget_alignment(kernel: Kernel, vectors: tuple[str, ...]) -> None:
    """Declare only element alignment for pointer parameters, so that more kernels are equal. Pointers of vector accesses are left unchanged."""
    for parameter in kernel.parameters:
        if isinstance(parameter.value.type, Pointer) and parameter.value.name not in vectors:
            parameter.align = parameter.value.type.dtype.itemsize


def _share_rows(lowered: Lowered) -> None:
    """Replace the kernel of a row scan, if possible, by one in which several blocks share a row."""
    shared = share_rows(lowered.kernel, lowered.sizes())
    if shared is not None:
        lowered.kernel = shared.kernel
        lowered.parallel = (shared.blocks,)
        lowered.bindings.append(("descriptors", shared.nbytes, 0))


def _merged(first: Lowered, second: Lowered) -> Lowered:
    """Merge the two kernels of a split reduction."""
    written = {value: p.value.name for p, (kind, value, _) in first.bound() if kind == "partial"}
    same = {p.value.name: written[value] for p, (kind, value, _) in second.bound() if kind == "partial"}
    own = [binding for p, binding in second.bound() if p.value.name not in same]
    bytes_written = first.bytes_written - sum(nbytes for _, nbytes in first.partials) + second.bytes_written
    bindings: list[Binding] = [*first.bindings, *own, ("counter", 0, 0)]
    kernel = merge_kernels(first.kernel, second.kernel, same)
    return replace(first, kernel=kernel, bindings=bindings, bytes_written=bytes_written)
