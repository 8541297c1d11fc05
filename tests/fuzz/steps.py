"""Random stencil loops whose time steps are merged into a kernel.

The results on weft must have the same bits as on NumPy.

``python -m tests.fuzz.steps --programs 200 --seed 0`` runs the loops on the CPU. `tests.fuzz.block_steps` runs them
with GPU schedules. All time steps that can be merged are merged, in blocks of random sizes. The cost comparison between
kernels is disabled.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

import weft as wf
from tests.fuzz import children
from weft.codegen import CPU, GPU
from weft.fusion.plan import plan_cache, step_blocks, time_steps
from weft.fusion.plan.blocked_steps import BlockedSteps
from weft.fusion.run import execute

FIELDS = ("u", "v", "w")
EXTENTS = {1: (5, 40, 300, 3000), 2: (4, 7, 20, 33, 130), 3: (3, 5, 9, 18, 35)}


class Program:
    """A random loop: its text, the shape of its arrays, and its block sizes."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.seed = seed
        self.axes = self.source.choice((1, 2, 2, 2, 3))
        self.shape = tuple(self.source.choice(EXTENTS[self.axes]) for _ in range(self.axes))
        self.dtype = np.dtype(self.source.choice(("float32", "float32", "float64", "int32")))
        body = [self._statement() for _ in range(self.source.randint(1, 3))]
        for line, share in (("u, v = v, u", 0.4), ("v, w = w, v", 0.2), ("kept.append(u[::2] + v[::2])", 0.2)):
            if self.source.random() < share:
                body.append(line)
        self.text = "\n".join([f"for turn in range({self.source.randint(2, 12)}):", *(f"    {line}" for line in body)])
        self.limits = {
            "steps_bytes": 0,
            "LEAST_GAIN": -(10**9),
            "steps": (self.source.choice((2, 3, 5, 8, 12)),),
            "MANY_PARTS": self.source.choice((1, 3, 7)),
            "WIDTHS": self.source.choice(((16,), (16, 48), time_steps.WIDTHS)),
            "ROOM": self.source.choice((1 << 20, 1 << 20, 200 << 10, 30 << 10)),
        }
        small = {1: ((32,), (64,), (256,)), 2: ((8, 32), (4, 16), (16, 16), (1, 32))}
        self.block_limits = {
            "steps_bytes": 0,
            "steps": self.limits["steps"],
            "MANY_PARTS": self.source.choice((1, 3, 30)),
            "LEAST_FILLS": self.source.choice((0, 0, 1)),
            "sector_bytes": self.source.choice((4, 32)),
            "TILES": {
                axes: (*self.source.sample(tiles, 1), *step_blocks.TILES[axes][:1]) for axes, tiles in small.items()
            },
        }

    def _statement(self) -> str:
        pick = self.source
        name = pick.choice(FIELDS[:2])
        kind = pick.random()
        if kind < 0.15:
            return f"{name}[{pick.choice((':, ' * (self.axes - 1), ''))}{pick.choice(('0', '-1'))}] = {pick.choice(('0', '3'))}"
        if kind < 0.3 and self.axes > 1:
            other = pick.choice(FIELDS)
            return f"{name}[{pick.choice(('0', '..., 0'))}] = {other}[{pick.choice(('1', '2'))}]".replace(
                "[..., 0] = " + other + "[", "[..., 0] = " + other + "[..., "
            )
        margins = [(pick.randint(0, 2), pick.randint(0, 2)) for _ in range(self.axes)]
        if kind < 0.4:
            return f"w = {self._expression(margins=[(0, 0)] * self.axes)}"
        return f"{name}[{_window(margins, [0] * self.axes)}] = {self._expression(margins)}"

    def _expression(self, margins: list[tuple[int, int]]) -> str:
        pick = self.source
        terms = []
        for _ in range(pick.randint(1, 5)):
            shift = [pick.randint(-low, high) for low, high in margins]
            terms.append(f"{pick.choice(FIELDS)}[{_window(margins, shift)}]")
        found = terms[0]
        for term in terms[1:]:
            found = pick.choice(
                ("({} + {})", "({} - {})", "({} + {})", "xp.maximum({}, {})", "xp.where({0} > {1}, {1}, {0})")
            ).format(found, term)
        return f"{pick.choice(('', '', '3 - ', '0.25 * ' if self.dtype.kind == 'f' else '2 * '))}{found}"

    def run(self, xp: Any) -> dict[str, np.ndarray]:
        """Run the program and return its final arrays."""
        source = np.random.default_rng(self.seed)
        names: dict[str, Any] = {"xp": xp, "kept": []}
        for name in FIELDS:
            values = source.integers(-9, 9, self.shape).astype(self.dtype)
            names[name] = values.copy() if xp is np else xp.asarray(values).copy()
        with np.errstate(all="ignore"):
            exec(compile(self.text, "<steps>", "exec"), names)
        found = {name: names[name] for name in FIELDS} | {f"kept{k}": value for k, value in enumerate(names["kept"])}
        return {name: np.asarray(value) for name, value in found.items()}


def _window(margins: list[tuple[int, int]], shift: list[int]) -> str:
    parts = []
    for (low, high), s in zip(margins, shift, strict=True):
        stop = s - high
        parts.append(f"{low + s}:{stop if stop else ''}")
    return ", ".join(parts)


@contextmanager
def forced(program: Any, device: str) -> Iterator[None]:
    """Within the ``with`` block, force the merging of time steps on `device`, without cached plans.

    The limits are those of `program`.
    """
    execute._plans.clear()
    plan_cache._known.clear()
    with ExitStack() as stack:
        stack.enter_context(wf.device(device))
        for module, machine, limits in (
            (time_steps, CPU, program.limits),
            (step_blocks, GPU, program.block_limits),
        ):
            for name, value in limits.items():
                where = vars(machine if name.islower() else module)
                stack.enter_context(mock.patch.dict(where, {name: value}))
        yield


def check(seed: int, device: str = "cpu") -> str:
    """Return a description of the first difference between NumPy and weft, or ""."""
    program = Program(seed)
    try:
        wanted = program.run(np)
    except (ValueError, IndexError):
        return ""
    with forced(program, device):
        try:
            found = program.run(wf)
        except Exception as error:  # every error is a finding
            return f"seed {seed}: {type(error).__name__}: {error}\n{program.shape} {program.dtype} {program.limits} {program.block_limits}\n{program.text}"
    for name, value in wanted.items():
        if not np.array_equal(value, found[name], equal_nan=program.dtype.kind == "f"):
            many = int((value != found[name]).sum())
            return f"seed {seed}: {name} differs in {many} of {value.size}\n{program.shape} {program.dtype} {program.limits} {program.block_limits}\n{program.text}"
    return ""


def merged(seed: int, device: str = "cpu") -> int:
    """Check a random program. Return the number of time steps in the longest merged chain, or 0."""
    assert check(seed, device) == ""
    plans = [plan for plan in execute._plans.values() if plan.schedule]
    return max((len(g.steps) for plan in plans for g in plan.schedule.groups if isinstance(g, BlockedSteps)), default=0)


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.steps"))
