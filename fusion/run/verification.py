"""Verification of plans by comparison with interpreted programs.

The ``verify`` setting enables it. In: an evaluation that is about to run. Out: a `Verification`, which compares the
results after the plan has run. Invariant: interpretation runs first and overwrites nothing, so that both runs start
with the same values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import weft.runtime as runtime  # (its names load when they are used)
from weft.codegen import dtype_kind, is_bfloat16
from weft.fusion.explain.reports import describe, describe_location
from weft.fusion.graph.expr import Expr, topological
from weft.fusion.plan.live_graph import make_graph
from weft.fusion.plan.steps import Batch, KernelLaunch, Plan
from weft.fusion.record.storage import Epoch
from weft.fusion.run.interpret import NeedsKernelError, interpret, make_program
from weft.runtime import VerificationError, counted, setting

# Maximum difference of floats on a GPU from interpreted floats, which the host's functions compute. It is given in
# units in the last place of the largest element.
GPU_UNITS = 1000


class VerificationCounts:
    """Counters of the evaluations that were verified, and of those that could not be verified."""

    compared = 0
    skipped = 0


class Verification:
    """The interpreted results of an evaluation, for comparison with the results of a plan."""

    def __init__(self, epoch: Epoch, versions: list[Expr], wanted: tuple[int, ...] | None) -> None:
        self.versions = versions
        self.device: Any = epoch.device
        self.found: dict[int, Any] = {}
        self.inputs: dict[str, np.ndarray] = {}
        self.difference: tuple[int, str] | None = None
        graph = make_graph(versions, epoch.results)
        self.graph = graph
        try:
            program = make_program(graph, wanted, epoch.device)
            program.tail = len(program.steps)
            table = interpret(program, epoch)
        except NeedsKernelError:
            VerificationCounts.skipped += 1
            return
        VerificationCounts.compared += 1
        self.found = {k: table[slot] for k, slot in enumerate(program.handed) if slot >= 0}
        if setting("dump"):
            self.inputs = _inputs(graph.versions, epoch)

    def compare(self, plan: Plan, table: list[Any]) -> None:
        """Compare the outputs of a plan with the interpreted results, and record the first difference."""
        for k, slot in enumerate(plan.handed):
            version = self.versions[k]
            if slot < 0 or k not in self.found or self.difference is not None:
                continue
            ours, wanted = (
                self.device.download(buffer, version.dtype, version.shape) for buffer in (table[slot], self.found[k])
            )
            where = first_difference(ours, wanted, 0 if self.device.memory_on_host else GPU_UNITS)
            if where:
                self.difference = k, where

    def close(self, plan: Plan) -> None:
        """Finish the verification of `plan`. If one of its outputs differs from the interpreted result, raise VerificationError.

        The arrays already have the results of the plan.
        """
        if self.difference is None:
            return
        k, where = self.difference
        version = self.versions[k]
        text = "\n".join(
            [
                f"result {k} of {len(self.versions)}, {version.dtype}{list(version.shape)}{describe_location(version.location)}: {where}",
                "",
                describe(self.graph.versions),
                "",
                _plan_text(plan),
            ]
        )
        path = runtime.write_report("difference", text)
        saved = _save(self.inputs, path)
        raise VerificationError(
            f"a compiled plan and the same program interpreted differ: {where}{describe_location(version.location)}; "
            f"the plan is in {path or 'no file: the cache folder cannot be written'}"
            f"{saved}. Set WEFT_INTERPRET=always to go on without plans"
        )


def first_difference(found: np.ndarray, wanted: np.ndarray, units: int = 0) -> str:
    """Describe the first difference between two arrays of the same dtype, or return "" if they are equal.

    Bits are compared, except that all NaNs are equal, and floats may differ by `units` units in the last place of the
    largest finite element.
    """
    if dtype_kind(found.dtype) == "c":
        parts = found.real.dtype
        found, wanted = (np.ascontiguousarray(x)[..., None].view(parts) for x in (found, wanted))
    bits = np.dtype(f"u{found.itemsize}")
    same = np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(wanted).view(bits)
    if dtype_kind(found.dtype) == "f":
        numbers = [x.astype(np.float32) if is_bfloat16(x.dtype) else x for x in (found, wanted)]
        same = same.reshape(found.shape) | ((numbers[0] != numbers[0]) & (numbers[1] != numbers[1]))
        if units and not same.all():
            sizes = np.abs(numbers[1][np.isfinite(numbers[1])], dtype=np.float64)
            step = 2.0 ** -(7 if is_bfloat16(found.dtype) else np.finfo(found.dtype).nmant)
            with np.errstate(all="ignore"):
                apart = np.abs(numbers[0].astype(np.float64) - numbers[1])
            same |= apart <= units * step * sizes.max(initial=0.0)
    same = same.reshape(found.shape)
    if same.all():
        return ""
    index = tuple(int(k) for k in np.unravel_index(int(np.argmin(same)), same.shape)) if same.ndim else ()
    count = int(same.size - np.count_nonzero(same))
    return f"{found[index]!r} compiled, {wanted[index]!r} interpreted, at {index} and at {counted(count - 1, 'more place')}"


def _inputs(versions: list[Expr], epoch: Epoch) -> dict[str, np.ndarray]:
    """Return copies of the arrays and scalars that an evaluation reads."""
    found: dict[str, np.ndarray] = {}
    for node in topological(versions):
        if node.kind == "leaf":
            found[f"slot{node.attrs[0]}"] = epoch.device.download(
                epoch.slots[node.attrs[0]], node.dtype, node.shape
            ).copy()
        elif node.kind == "scalar":
            found[f"slot{node.attrs[0]}"] = np.asarray(epoch.slots[node.attrs[0]])
    return found


def _save(inputs: dict[str, np.ndarray], report: str) -> str:
    folder = setting("dump")
    if not folder or not inputs:
        return "; with WEFT_DUMP=FOLDER its inputs are saved too"
    path = Path(folder) / f"{Path(report).stem or 'difference'}.npz"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **inputs)  # type: ignore[arg-type]
    except OSError as error:
        return f", its inputs could not be saved: {error}"
    return f", its inputs in {path}"


def _plan_text(plan: Plan) -> str:
    launches = [
        launch
        for step in plan.steps
        for launch in (step.launches if isinstance(step, Batch) else [step] if isinstance(step, KernelLaunch) else [])
    ]
    return "\n\n".join(launch.text() for launch in launches)
