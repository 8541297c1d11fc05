"""Random loops in which the lengths of arrays change, run on weft and on NumPy.

The test also compares plans. A plan that is reused for other sizes must equal, step by step, a new plan for these
sizes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from unittest import mock

import numpy as np

import weft as wf
from tests.fuzz import children
from weft.codegen import obtain_function
from weft.fusion.lower.kernels import lower_for
from weft.fusion.plan import plan_cache
from weft.fusion.plan.steps import HostCall, KernelLaunch, Plan, Step
from weft.fusion.run import execute, planning

LONG, SIDE = 200, 40
STATEMENTS = (
    "x[:k] = y[:k] * 2 + x[:k]",
    "x[k:] = y[:-k] if k else y",
    "x[m:m + k] += y[k:k + k] * 0.5",
    "x[k:2 * k] = x[:k] + 1",
    "x[:k] += y[:k][::-1]",
    "y[:k] = -x[:k][::-1] * 0.25",
    "x[k] = (b[k] - A[k, :k] @ x[:k]) / (2 + A[k, k])",
    "x[m] = (x[:k] * y[m:m + k]).sum()",
    "total = total * 0.5 + x[:k] @ y[:k]",
    "total = total + (x[:k] * b[:k]).mean() if k else total",
    "x[:k] = y[k:2 * k] ** 2",
    "A[k:, m] /= 1.5 + A[m, m] ** 2",
    "A[k + 1:, k + 1:] -= xp.outer(A[k + 1:, k], A[k, k + 1:]) * 0.1",
    "A[:k, :k] = A[:k, :k].T * 0.5 + A[:k, :k]",
    "A[:k, :m] *= y[:m]",
    "A[k:, :m] = 0.5",
    "x[:m] += A[:k, :m].sum(axis=0)",
    "y[:k] = A[:k, :m].sum(axis=1)",
    "w = A[k:, :] @ A[:, :m]",
    "w = A[k:, :] @ x[:SIDE]",
    "w = A[:k, :m] * x[:m]; total = total + w.sum()",
    "w = A[:k, :m + 1]; w = w - w.max(axis=1, keepdims=True); w = xp.exp(w); w = w / w.sum(axis=1, keepdims=True)",
    "w = w * 0.5",
    "y[:k] = xp.cumsum(x[:k])",
    "x[:k + m] = xp.concatenate([y[:k], b[:m]])",
    "A[:k] = A[:k] - A[:k].mean(axis=1, keepdims=True)",
    "x[:k * m] = A[:k, :m].reshape(-1)" if LONG >= SIDE * SIDE else "y[:k * 3] = A[:k, :3].reshape(-1)",
    "y[:4 * k] = A.reshape(-1)[:4 * k]",
    "x[:k] = xp.sort(y[:k])",
    "A[k] = x[m:m + SIDE]",
    "A[:, m] = y[k:k + SIDE]",
    "x[p[:k]] = y[:k]",
    "x[:k] = y[p[:k]] * x[p[m:m + k]]",
    "xp.add.at(x, p[:k], 0.5)",
    "w = xp.where(A[:k, :m] > 0.5, x[:m], y[:k, None])",
    "total = total + x[:k + 1].argmax()",
    "y = xp.clip(y, -2, 2)",
    "b = xp.zeros(SIDE + k) if m % 3 == 0 else xp.ones(SIDE + m)",
    "w = xp.broadcast_to(x[:k], (m + 1, k)) + y[:m + 1, None]",
    "x[k:k + 1] = y[m:m + 1]",
    "x[:k:2] = 1.5 * k",
    "A[:k, ::2] += A[:k, 1::2]",
)


def make_loop(seed: int) -> str:
    """Return the text of a random loop."""
    source = random.Random(seed)
    body = [source.choice(STATEMENTS) for _ in range(source.randint(1, 5))]
    how = source.choice(("random", "random", "growing", "shrinking", "triangle"))
    turns = source.choice((6, 12, 25, 25))
    lines = ["at = 0"]
    match how:
        case "random":
            lines += [f"for turn in range({turns}):", "    k, m = lengths.randrange(SIDE), lengths.randrange(SIDE)"]
        case "growing":
            lines += ["for k in range(SIDE):", "    m = k // 2"]
        case "shrinking":
            lines += ["for k in range(SIDE - 1, -1, -1):", "    m = SIDE - 1 - k"]
        case _:
            lines += ["for k in range(SIDE // 2):", "  for m in range(k, SIDE // 2):"]
    lines += [f"    {line}" for line in body]
    if source.random() < 0.7:
        lines += ["    look(x, y, A, w, total)"]
    lines += ["    x, y, A = xp.clip(x, -9, 9), xp.clip(y, -9, 9), xp.clip(A, -9, 9)"] if source.random() < 0.5 else []
    return "\n".join(lines)


def run_loop(text: str, xp: Any, seed: int) -> dict[str, Any]:
    """Run the loop, and return the final values of its variables."""
    source = np.random.default_rng(0)
    names: dict[str, Any] = {"xp": xp, "SIDE": SIDE, "total": 0.0, "lengths": random.Random(seed)}
    names["look"] = lambda *values: wf.evaluate(*(v for v in values if isinstance(v, wf.Array))) if xp is wf else None
    for name, shape in (("x", LONG), ("y", LONG), ("b", SIDE), ("A", (SIDE, SIDE)), ("w", SIDE)):
        names[name] = xp.asarray(source.random(shape))
    names["p"] = xp.asarray(source.permutation(LONG)[: 2 * SIDE])
    with np.errstate(all="ignore"):
        exec(compile(text, "<loop>", "exec"), names)
    return {name: np.asarray(names[name]) for name in ("x", "y", "b", "A", "w", "total")}


@contextmanager
def compared(trouble: list[str]) -> Iterator[None]:
    """Within the ``with`` block, compare reused plans with new plans. Differences are appended to `trouble`."""
    found_plan, keep = plan_cache.find, plan_cache.is_worth_keeping

    def general(device: Any, group: Any, may: Any) -> list[Any]:
        return [(obtain_function(device, k.kernel), k) for k in lower_for(device.target, group, special=False)]

    def find(form: plan_cache.Form, device: Any) -> Plan | None:
        plan = found_plan(form, device)
        if plan is not None:
            known = plan_cache._known.pop(form.key)
            pending.append((form, plan, known))
        return None

    def trace(form: Any, device: Any, graph: Any, make: Any) -> Plan | None:
        plan = traced(form, device, graph, make)
        if pending and pending[-1][0] is form:
            _, found, known = pending.pop()
            plan_cache._known[form.key] = known
            if plan is not None and (difference := compare(found, plan)):
                trouble.append(difference)
            return found
        return plan

    pending: list[Any] = []
    traced = planning.trace_plan
    with (
        mock.patch.object(plan_cache, "find", find),
        mock.patch.object(planning, "trace_plan", trace),
        mock.patch.object(plan_cache, "is_worth_keeping", lambda form, at_once: keep(form, at_once=True)),
        mock.patch.object(plan_cache, "AT_ONCE", plan_cache.NODES),
        mock.patch.object(planning, "obtain_kernels", general),
    ):
        yield


def compare(found: Plan, made: Plan) -> str:
    """Return the first difference between a reused plan and a new plan, or "".

    Plans with different numbers of slots are not compared.
    """
    if found.slots != made.slots:
        return ""  # steps name slots by other numbers
    if (found.table_size, found.outputs, found.scalars) != (made.table_size, made.outputs, made.scalars):
        return "other results"
    if len(found.steps) != len(made.steps):
        return f"{len(found.steps)} steps instead of {len(made.steps)}"
    for k, (one, other) in enumerate(zip(_ordered(found.steps), _ordered(made.steps), strict=True)):
        if isinstance(one, KernelLaunch) and isinstance(other, KernelLaunch):
            for name in ("function", "parallel", "work", "arguments", "patches", "scalars", "nbytes"):
                mine, theirs = getattr(one, name), getattr(other, name)
                if mine != theirs:
                    return f"step {k}: {name} {mine} instead of {theirs}"
        elif isinstance(one, HostCall) and isinstance(other, HostCall):
            if (one.node, one.out, one.operands, one.loop) != (other.node, other.out, other.operands, other.loop):
                return f"step {k}: another call"
        elif one != other:
            return f"step {k}: {one} instead of {other}"
    return ""


def _ordered(steps: list[Step]) -> list[Step]:
    """Return the steps of a plan. If several steps in a row release memory, sort them, so that plans can be compared.

    The order of these releases is irrelevant.
    """
    found: list[Step] = []
    for given_up, run in groupby(steps, lambda step: isinstance(step, int)):
        together = list(run)
        found += sorted(together) if given_up else together  # type: ignore[type-var]
    return found


def check(seed: int) -> str:
    """Run a random loop. Return the first difference in values or plans, or ""."""
    text = make_loop(seed)
    wanted = _outcome(text, np, seed)
    trouble: list[str] = []
    with wf.device("simt" if seed % 4 == 3 else "cpu"):
        found = _outcome(text, wf, seed)
        execute._plans.clear()
        plan_cache._known.clear()
        with compared(trouble):
            again = _outcome(text, wf, seed)
    for result in (found, again):
        if isinstance(wanted, str) or isinstance(result, str):
            if not (isinstance(wanted, str) and isinstance(result, str) and result.startswith(wanted)):
                ends = (
                    result if isinstance(result, str) else "values",
                    wanted if isinstance(wanted, str) else "values",
                )
                return f"seed {seed}: {ends[0]} instead of {ends[1]}\n{text}"
            continue
        for name, value in wanted.items():
            if value.shape != result[name].shape or not np.allclose(
                value, result[name], rtol=1e-6, atol=1e-6, equal_nan=True
            ):
                return f"seed {seed}: {name} is {result[name]}, not {value}\n{text}"
    return f"seed {seed}: {trouble[0]}\n{text}" if trouble else ""


def _outcome(text: str, xp: Any, seed: int) -> dict[str, Any] | str:
    try:
        return run_loop(text, xp, seed)
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        return type(error).__name__ if xp is np else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.lengths"))
