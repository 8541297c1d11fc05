"""Random programs whose values are evaluated in random order.

Values are evaluated early, late or never, and kept alive by views or copies.

``python -m tests.fuzz.orders --programs 3000 --seed 0`` runs the programs. Half of the programs are those of `graphs`,
with exact results. The others compute statistics of rows, and are compared with NumPy up to rounding. Recordings end
at the usual limit, or after a few operations. ``WEFT_FUZZ_DEVICE`` names the device.
"""

from __future__ import annotations

import os
import random
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import weft as wf
from tests.fuzz import children, graphs
from tests.fuzz.programs import differences
from weft.fusion.record import recording as record
from weft.fusion.record import storage
from weft.runtime import device as on_device
from weft.runtime import override

Arrays = dict[str, Any]

LIMITS = (256, 256, 2, 3, 5, 8, 13)
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 33, 40, 100, 257, 600)
# A and B are values that can be broadcast together, d is an axis, and T is a value that is overwritten.
STATISTICS = """A.mean(d, keepdims=True)|A.mean(d)|A - B|A - B|A * B|A + B|A / (abs(B) + 1)|xp.exp(A - A.max(d, keepdims=True))|A.max(d, keepdims=True)
A.var(d)|A.var(d, keepdims=True)|A.std(d, keepdims=True)|A.sum(d, keepdims=True)|A.sum(d)|xp.sqrt(abs(A))|A * A|(A - A.mean(d, keepdims=True)) ** 2
xp.exp(A - B).sum(d)|xp.square(A - B).mean(d, keepdims=True)|(A * A).mean(d, keepdims=True)|A[1:]|A[..., ::-1]|A[0]|A.T|A.reshape(-1)|A.copy()|A * 0.5
xp.ptp(A, axis=d)|A.min(d)|xp.log(xp.exp(A - A.max(d, keepdims=True)).sum(d))|(A - A.mean(d, keepdims=True)) / (A.std(d, keepdims=True) + 1)|A @ A.T
xp.concatenate([A, A[:1]])|xp.roll(A, 1)|xp.cumsum(A, d)|A.sum()|A.mean()|A - A.sum() / 7|xp.where(xp.arange(A.shape[-1]) % 2 == 0, A, B)|xp.stack([A, B])
xp.average(A, axis=d)|xp.diff(A, axis=d)|xp.median(A, d)|A.astype('float32')|xp.maximum(A, B)|xp.clip(A, -1, 1)""".replace(
    "\n", "|"
).split("|")
CHANGES = """T -= A|T += A|T *= 0.5|T[1:] *= 0.5|T[...] = T - T.mean(d, keepdims=True)|T[0] = A|T[..., :1] = A|T[::2] -= 1|T[1:] += T[:-1]|T /= abs(A) + 1
T[[0, -1]] = T[[-1, 0]]|T[:] = T[::-1]|xp.subtract(T, A, out=T)|T[T.shape[0] // 2] += 1|xp.sum(A, d, out=T)""".replace(
    "\n", "|"
).split("|")


@dataclass
class Program:
    """A program: its statements, its inputs, and its named sizes.

    If `loose`, results are compared only up to rounding.
    """

    lines: list[str]
    start: Arrays
    sizes: dict[str, int]
    loose: bool


# -- programs ---------------------------------------------------------------------------------


def mixture(seed: int) -> list[Program]:
    """Return three copies of a random program, each with its own inputs. The module `graphs` generates the program.

    The first two copies have the same sizes. The list is empty if an input is float16, since sums of float16 numbers
    are not exact for all sizes.
    """
    generator = graphs.Generator(seed)
    if any(dtype == "float16" for _, dtype in generator.shapes.values()):
        return []
    found = []
    for sizes, data in generator.bindings[:3]:
        start = generator.start(sizes, data)
        world = graphs.World(start, sizes)
        for line in generator.world.lines:
            world.accept(line)
        found.append(Program(world.lines, start, sizes, False))
    return found


def statistics(seed: int) -> list[Program]:
    """Make a random program that computes statistics of rows. Return three copies of the program, each with its own inputs.

    The inputs have random numbers of rows.
    """
    pick = random.Random(seed)
    columns = pick.choice(LENGTHS)
    dtype = pick.choice(("float64", "float64", "float32"))
    lines = _lines(pick, _inputs(seed, pick.choice(LENGTHS[1:12]), columns, dtype))
    starts = (_inputs(seed + k, pick.choice(LENGTHS[1:12]), columns, dtype) for k in range(3))
    programs = []
    for start in starts:
        values = {name: value.copy() for name, value in start.items()}
        kept = [line for line in lines if _follow(line, values)]
        programs.append(Program(kept, start, {}, True))
    return programs


def _inputs(seed: int, rows: int, columns: int, dtype: str) -> Arrays:
    source = np.random.default_rng(seed)
    shapes = {"x": (rows, columns), "y": (rows, columns), "w": (columns,), "c": (rows, 1)}
    return {name: source.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def _lines(pick: random.Random, values: Arrays) -> list[str]:
    lines: list[str] = []
    count = pick.randint(3, 14)
    for _ in range(10 * count):
        if len(lines) == count:
            break
        names = sorted(values)
        if pick.random() < 0.25:
            target = pick.choice(names)
            line = _filled(pick, pick.choice(CHANGES).replace("T", target), names)
        else:
            line = f"v{len(lines)} = {_filled(pick, pick.choice(STATISTICS), names)}"
        if _follow(line, values):
            lines.append(line)
    return lines


def _filled(pick: random.Random, template: str, names: list[str]) -> str:
    recent = names[-4:] if pick.random() < 0.5 else names
    letters = {"A": pick.choice(recent), "B": pick.choice(names), "d": pick.choice(("0", "1", "-1", "None", "1"))}
    return re.sub(r"\b[ABd]\b", lambda found: letters[found[0]], template)


def _follow(line: str, values: Arrays) -> bool:
    """Run a statement with NumPy, and return True.

    If it fails, or a value is too large or not finite, restore `values` and return False.
    """
    before = {name: value.copy() for name, value in values.items()}
    shared = dict(values)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(line, {"xp": np}, shared)
    except Exception:
        good = False
    else:
        good = all(np.isfinite(v).all() and np.abs(v).max(initial=0) < 1e4 and v.size < 50_000 for v in shared.values())
    if good:
        values.update({name: graphs.own(value, [*values.values()]) for name, value in shared.items()})
    else:
        for name, value in before.items():
            if value.shape:
                values[name][...] = value
    return good


# -- running ----------------------------------------------------------------------------------


class Run:
    """A program that runs on weft and on NumPy side by side.

    Between statements, values of weft are read, kept or dropped at random.
    """

    def __init__(self, program: Program, seed: int) -> None:
        self.program = program
        self.pick = random.Random(seed)
        self.own: Arrays = {name: wf.asarray(value) for name, value in program.start.items()}
        self.step = 1e-7 if "float32" in f"{program.lines} {program.start['x'].dtype}" else 1e-15
        start = program.start.items()
        changes = (0, self.step, -self.step) if program.loose else (0,)
        self.sides: list[Arrays] = [
            {name: (v * (1 + by)).astype(v.dtype) if by else v.copy() for name, v in start} for by in changes
        ]
        self.copies: list[tuple[str, wf.Array, list[np.ndarray]]] = []
        self.held: list[wf.Array] = []

    def trouble(self) -> str:
        """Run the program, and return the first difference from NumPy, or ""."""
        lines = self.program.lines
        for number, line in enumerate(lines):
            self._follow(line)
            for _ in range(self.pick.choice((0, 0, 1, 1, 2, 3))):
                trouble = self._interfere({name for name in self.own if _mentions(lines[number + 1 :], name)})
                if trouble:
                    return f"after {line!r}: {trouble}"
        return self._finish()

    def _follow(self, line: str) -> None:
        given = {"evaluate": lambda *a: wf.evaluate(*(v for v in a if isinstance(v, wf.Array))), "see": np.asarray}
        exec(line, {"xp": wf, **given, **self.program.sizes}, self.own)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for k, side in enumerate(self.sides):
                before = [*side.values()]
                exec(line, {"xp": np, "evaluate": lambda *a: None, "see": np.array, **self.program.sizes}, side)
                self.sides[k] = {name: self._own(name, value, before) for name, value in side.items()}

    def _own(self, name: str, value: Any, before: list[Any]) -> Any:
        """Return a NumPy value with the memory layout that weft's value has.

        If both values have the same strides, return NumPy's value unchanged.
        """
        alike = getattr(value, "strides", None) == getattr(self.own.get(name), "strides", None)
        return value if alike else graphs.own(value, before)

    def _arrays(self) -> list[str]:
        return [name for name, value in self.own.items() if isinstance(value, wf.Array)]

    def _interfere(self, needed: set[str]) -> str:
        """Evaluate, compare, keep or drop a random value. Return the difference from NumPy, or ""."""
        names, pick = self._arrays(), self.pick
        if not names:
            return ""
        name = pick.choice(names)
        value = self.own[name]
        match pick.randrange(8):
            case 0:
                wf.evaluate(*(self.own[each] for each in pick.sample(names, pick.randint(1, min(3, len(names))))))
            case 1:
                return self._compare(name, value, self._wanted(name))
            case 2 if value.size:
                return self._compare(f"{name}[0]", value.reshape(-1)[0], [w.reshape(-1)[0] for w in self._wanted(name)])
            case 3 if name not in needed:
                del self.own[name]
            case 4:
                self.held.append(value[..., ::-1] if value.ndim else value)
            case 5:
                self.copies.append((name, value.copy(), self._wanted(name)))
            case 6 if self.held:
                self.held.pop(pick.randrange(len(self.held)))
            case 7 if self.copies:
                return self._compare(*self.copies.pop(pick.randrange(len(self.copies))))
        return ""

    def _finish(self) -> str:
        """Evaluate the remaining values in random order, except for some values that are dropped.

        Return the first difference from NumPy, or "".
        """
        rest = [(name, self.own[name], self._wanted(name)) for name in self._arrays()] + self.copies
        self.own.clear()
        self.copies.clear()
        self.pick.shuffle(rest)
        while rest:
            found = rest.pop()
            if self.pick.random() < 0.75 and (trouble := self._compare(*found)):
                return trouble
            if self.pick.random() < 0.3:
                self.held.clear()
        return ""

    def _wanted(self, name: str) -> list[np.ndarray]:
        return [np.array(side[name]) for side in self.sides]

    def _compare(self, name: str, value: Any, wanted: list[np.ndarray]) -> str:
        found, exact = np.array(value), wanted[0]
        if not self.program.loose or (found.shape, found.dtype) != (exact.shape, exact.dtype) or not exact.size:
            return differences({name: found}, {name: exact}, self.program.loose)
        # permit the error that a change of the last bits of the inputs would cause
        shaken = max(float(np.abs(near - exact).max()) for near in wanted[1:])
        tolerance = 200 * shaken + self.step * 1e4 * max(1.0, float(np.abs(exact).max()))
        away = np.abs(found - exact)
        return (
            ""
            if (away <= tolerance).all()
            else f"{name} is off by {away.max()}: {found.ravel()[:4]} for {exact.ravel()[:4]}"
        )


def _mentions(lines: list[str], name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line in lines)


@contextmanager
def recording_limit(operations: int) -> Iterator[None]:
    """Within the ``with`` block, limit recordings to the given number of pending operations."""
    hard = operations if operations < storage.SOFT_LIMIT else record.HARD_LIMIT
    with mock.patch.object(storage, "SOFT_LIMIT", operations), mock.patch.object(record, "HARD_LIMIT", hard):
        wf.evaluate(wf.zeros(1) + 1)  # ends the recording; the next recording has the new limit
        yield
    wf.evaluate(wf.zeros(1) + 1)


def check(seed: int, device: str = os.environ.get("WEFT_FUZZ_DEVICE", "cpu")) -> str:
    """Run a random program in several orders of evaluation. Return the first fault, or ""."""
    pick = random.Random(seed)
    programs = statistics(seed) if seed % 2 else mixture(seed)
    for program in programs:
        for order in range(3):
            limit = pick.choice(LIMITS)
            trouble = run(program, order, device, limit)
            if trouble:
                kept = minimal(program, order, device, limit)
                inputs = ", ".join(f"{n}: {v.dtype}{v.shape}" for n, v in program.start.items())
                head = f"seed {seed} on {device}, order {order}, limit {limit}, {program.sizes}: {trouble}"
                return "\n".join([head, inputs, *kept])
    return ""


def run(program: Program, order: int, device: str, limit: int) -> str:
    """Run a program in one random order. Return a difference from NumPy, an error, or ""."""
    try:
        # (immediate operations would record nothing)
        with on_device(device), override(immediate=0, interpret="never"), recording_limit(limit):
            return Run(program, order).trouble()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def minimal(program: Program, order: int, device: str, limit: int) -> list[str]:
    """Remove statements from a program as long as some order of evaluation still fails. Return the remaining statements."""
    lines = program.lines
    for k in reversed(range(len(lines))):
        fewer = Program(lines[:k] + lines[k + 1 :], program.start, program.sizes, program.loose)
        values = {name: value.copy() for name, value in program.start.items()}
        if all(_runs(line, values, program.sizes) for line in fewer.lines) and any(
            run(fewer, each, device, limit) for each in (order, *range(5))
        ):
            lines = fewer.lines
            program = fewer
    return lines


def _runs(line: str, values: Arrays, sizes: dict[str, int]) -> bool:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(line, {"xp": np, "evaluate": lambda *a: None, "see": np.array, **sizes}, values)
    except Exception:
        return False
    return True


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.orders"))
