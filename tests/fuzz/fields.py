"""Random loops over fields of different shapes and dtypes, run on weft and on NumPy.

``python -m tests.fuzz.fields --programs 200 --seed 0`` runs programs alternately on the CPU and with GPU schedules.
Fields may be staggered, and values in the middle of an iteration may be read later. The programs write borders, and
shift, pad and concatenate arrays. Scalars change between iterations. Each program runs at two lengths. Most limits are
as small as in `tests.fuzz.steps`.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children, steps

DEVICES = ("cpu", "simt", "cpu", "simt::backward")
EXTENTS = {1: (5, 6, 40, 300, 3000), 2: (4, 6, 7, 20, 33, 130), 3: (4, 5, 9, 18, 35)}
KINDS = ("float32", "float32", "float32", "float64", "int32", "int8", "bool")


@dataclass
class Field:
    """The shape and the dtype of an array variable.

    Axis k has ``n_k + more[k]`` elements, where n_k is a size given to the program.
    """

    more: tuple[int, ...]
    dtype: str


class Program:
    """A random loop: its text, the lengths of its arrays, and its block sizes."""

    def __init__(self, seed: int) -> None:
        self.source = pick = random.Random(seed)
        self.seed = seed
        self.axes = pick.choice((1, 2, 2, 2, 2, 3))
        self.lengths = [tuple(pick.choice(EXTENTS[self.axes]) for _ in range(self.axes)) for _ in range(2)]
        mixed, staggered = pick.random() < 0.4, pick.random() < 0.4
        kind = pick.choice(KINDS[:5])
        self.begin: dict[str, Field] = {}
        for name in "uvpk"[: pick.randint(2, 4)]:
            more = tuple(pick.choice((0, 0, 1)) if staggered else 0 for _ in range(self.axes))
            self.begin[name] = Field(more, pick.choice(KINDS) if mixed else kind)
        self.fields = dict(self.begin)
        self.kept = False
        body: list[str] = []
        steady = pick.random() < 0.5  # all iterations consist of the same few updates
        for _ in range(pick.randint(1, 2) if steady else pick.randint(1, 5)):
            body += self._update(pick.choice(list(self.begin)), steady) if steady else self._statement()
        self.turns = pick.randint(4, 12) if steady else pick.randint(1, 8)
        if steady and pick.random() < 0.6:
            early = self._value() if pick.random() < 0.5 else [f"kept.append({self._seen('u')})"]
            body += early if pick.random() < 0.3 else self._once(early)
        behind = self._value() + [f"kept.append({self._seen('u')})"] if pick.random() < 0.4 else []
        self.text = "\n".join([f"for turn in range({self.turns}):", *(f"    {line}" for line in body), *behind])
        self.at_once = pick.random() < 0.7
        self.limits, self.block_limits = _limits(pick)

    # -- statements ---------------------------------------------------------------------------

    def _statement(self) -> list[str]:
        pick = self.source
        written = [name for name in self.fields if name != "k"]
        name = pick.choice(written)
        field = self.fields[name]
        kind = pick.random()
        if kind < 0.12:
            return self._border(name)
        if kind < 0.17:
            return self._moved(name, field)
        if kind < 0.30:
            return self._value()
        if kind < 0.38:
            return [f"kept.append({self._seen(name)})"]
        if kind < 0.45:
            other = pick.choice(written)
            if self.fields[other] == field and other != name:
                return [f"{name}, {other} = {other}, {name}"]
        if kind < 0.50:
            part = self._part(field.more, (0,) * self.axes)
            if part:
                return [f"{name}[{part} > {pick.choice(('0', '1', '3'))}] = {pick.choice(('0', '1'))}"]
        if kind < 0.54:
            parts = [pick.choice((":", "::2", "1::2", "::-1")) for _ in range(self.axes)]
            text = ", ".join(parts)
            return [f"{name}[{text}] = {name}[{text}]{pick.choice(('[::-1]', ' + 1', ''))}".replace("True + 1", "True")]
        return self._update(name)

    def _update(self, name: str, steady: bool = False) -> list[str]:
        """Return source lines that assign a random expression to a slice of an array. The expression reads slices of any arrays in the program."""
        pick, field = self.source, self.fields[name]
        low, high = ([1 if steady else pick.choice((0, 1, 1, 1, 2)) for _ in range(self.axes)] for _ in range(2))
        more = tuple(m - a - b for m, a, b in zip(field.more, low, high, strict=True))
        window = self._window(low, more)
        value = self._expression(more, tuple(low))
        if any(f.dtype != field.dtype for f in self.fields.values()) and field.dtype.startswith("int"):
            value = f"xp.clip({value}, -99, 99)"  # the result of an out-of-range cast is undefined
        if pick.random() < 0.15 and field.dtype not in ("bool", "int8"):
            return [f"{name}[{window}] = {name}[{window}] + {value}"]
        line = f"{name}[{window}] = {value}"
        return self._once([line]) if pick.random() < 0.06 else [line]

    def _once(self, lines: list[str]) -> list[str]:
        """Put source lines into an ``if`` statement, and return the new lines. The condition is true in only some iterations."""
        when = self.source.choice(("turn % 2", "turn % 3", "turn == 0", "turn == 1", "turn == 3"))
        return [f"if {when}:", *(f"    {line}" for line in lines)] if lines else []

    def _border(self, name: str) -> list[str]:
        """Write one to three assignments to borders of an array."""
        pick = self.source
        lines = []
        for _ in range(pick.randint(1, 3)):
            before = ":, " * pick.randrange(self.axes)
            to, near, far = pick.choice((("0", "1", "-2"), ("-1", "-2", "1"), ("0", "2", "-1"), ("-1", "-3", "0")))
            value = pick.choice((f"{name}[{before}{near}]",) * 3 + (f"{name}[{before}{far}]", "0", "1"))
            lines.append(f"{name}[{before}{to}] = {value}")
        return lines

    def _moved(self, name: str, field: Field) -> list[str]:
        """Write a statement that rolls an array, or replaces its borders by padding."""
        pick = self.source
        axis = pick.randrange(self.axes)
        before = ":, " * axis
        choices = [
            f"{name} = xp.roll({name}, {pick.choice((1, -1, 2))}, {axis})",
            f"{name} = xp.concatenate([{name}[{before}-1:], {name}[{before}:-1]], {axis})",
            f"{name} = xp.concatenate([{name}[{before}1:], {name}[{before}:1]], {axis})",
        ]
        inner = ", ".join(["1:-1"] * self.axes)
        for mode in ("edge", "wrap", "constant"):
            choices.append(f"{name} = xp.pad({name}[{inner}], 1, mode='{mode}')")
        return [pick.choice(choices)]

    def _value(self) -> list[str]:
        """Return a list with one statement that creates an array. The list is empty if the chosen variable cannot hold the array."""
        pick = self.source
        field = self.fields[pick.choice(list(self.fields))]
        name = pick.choice(("w", "x"))
        if pick.random() < 0.3:
            before = [n for n in self.fields if n != name]
            other = pick.choice(before)
            self.fields[name] = self.fields[other]
            return [f"{name} = {other}.copy()"]
        low = tuple(pick.choice((0, 0, 1, 1, 2)) for _ in range(self.axes))
        more = tuple(m - a - pick.choice((0, 1)) for m, a in zip(field.more, low, strict=True))
        if any(m < -4 for m in more):
            more = field.more
        text = self._expression(more, low)
        if name in self.fields and (name in self.begin or self.fields[name].more != more):
            return []
        new = name not in self.fields
        kind = self.fields[name].dtype if not new else pick.choice((field.dtype, *KINDS))
        # (defined before the first iteration, so that any statement may read it)
        self.fields[name] = Field(more, kind)
        self.begin.setdefault(name, self.fields[name])
        return [f"{name} = xp.clip({text}, -99, 99).astype('{kind}')"]

    def _seen(self, name: str) -> str:
        """Return a random expression that reads the array `name`. The generated program keeps the expression's value for a comparison with NumPy."""
        pick = self.source
        self.kept = True
        half = ", ".join(pick.choice((":", "::2", "1:-1", ":1")) for _ in range(self.axes))
        return pick.choice(
            (
                f"{name}.copy()",
                f"{name}[{half}] * 2",
                f"{name}[{half}].max(initial=0)",
                f"{name}.min(axis={pick.randrange(self.axes)})",
                f"({name}[{half}] != {name}[{half}]).sum()",
                f"xp.where({name} > 0, {name}, 1)",
            )
        )

    # -- expressions --------------------------------------------------------------------------

    def _window(self, at: Any, more: tuple[int, ...]) -> str:
        """Return the source text of slices, such as ``1:n0 - 1``. Along each axis, the slice starts at `at` and has `n + more` elements."""
        parts = []
        for axis, (a, m) in enumerate(zip(at, more, strict=True)):
            end = a + m
            parts.append(f"{a or ''}:n{axis}{f' + {end}' if end > 0 else f' - {-end}' if end < 0 else ''}")
        return ", ".join(parts)

    def _part(self, more: tuple[int, ...], near: tuple[int, ...]) -> str | None:
        """Return the source text of a random slice of a random array, or None if the array is too small.

        The slice has n plus `more` elements along each axis. It starts close to the indices in `near`.
        """
        pick = self.source
        name = pick.choice(list(self.fields))
        at = []
        for has, wanted, about in zip(self.fields[name].more, more, near, strict=True):
            if has < wanted:
                return None
            at.append(min(has - wanted, max(0, about + pick.choice((-2, -1, -1, 0, 0, 0, 1, 1, 2)))))
        text = f"{name}[{self._window(at, more)}]"
        if pick.random() < 0.04:
            text += "[::-1]"
        return text

    def _expression(self, more: tuple[int, ...], near: tuple[int, ...]) -> str:
        pick = self.source
        terms = [term for term in (self._part(more, near) for _ in range(pick.randint(1, 5))) if term]
        if not terms:
            sizes = ", ".join(f"n{axis} + {m}" for axis, m in enumerate(more))
            terms = [f"xp.full(({sizes},), turn)"]
        found = terms[0]
        for term in terms[1:]:
            found = pick.choice(
                (
                    "({} + {})",
                    "({} + {})",
                    "({0} + 0 - {1})",
                    "xp.maximum({}, {})",
                    "xp.where({0} > {1}, {1}, {0})",
                    "xp.where({1} > 0, {0}, 2)",
                )
            ).format(found, term)
        return pick.choice(
            ("{}", "{}", "{}", "3 - {}", "0.25 * {}", "{} * dt", "{} + turn", "abs({} + 0)", "xp.minimum({}, 9)")
        ).format(found)

    # -- runs ---------------------------------------------------------------------------------

    def run(self, xp: Any, lengths: tuple[int, ...]) -> dict[str, np.ndarray]:
        """Run the program and return its final arrays."""
        source = np.random.default_rng(self.seed)
        names: dict[str, Any] = {"xp": xp, "kept": [], "dt": 0.5}
        names |= {f"n{axis}": n for axis, n in enumerate(lengths)}
        for name, field in self.begin.items():
            shape = tuple(n + m for n, m in zip(lengths, field.more, strict=True))
            values = source.integers(-9, 9, shape)
            array = (values > 0 if field.dtype == "bool" else values).astype(field.dtype)
            names[name] = array.copy() if xp is np else xp.asarray(array).copy()
        if xp is not np and self.at_once:
            xp.evaluate(*(names[name] for name in self.begin))
        text = self.text.replace(":\n", ":\n    dt = 0.5 + 0.25 * turn\n", 1)
        with np.errstate(all="ignore"):
            exec(compile(text, "<fields>", "exec"), names)
        found = {name: names[name] for name in self.fields} | {f"kept{k}": v for k, v in enumerate(names["kept"])}
        if xp is not np and self.at_once:
            xp.evaluate(*(value for value in found.values() if isinstance(value, wf.Array)))
        return {name: np.asarray(value) for name, value in found.items()}

    def describe(self) -> str:
        """Return a description of everything that determines the program's behaviour."""
        return f"{self.lengths} {self.begin} {self.at_once} {self.limits} {self.block_limits}\n{self.text}"


def _limits(pick: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two dicts of random limits for merging time steps into one kernel. The first is for the CPU, and the second is for GPUs."""
    like = steps.Program(pick.randrange(1 << 30))
    most = {"steps": (pick.choice((2, 5, 8, 12, 12)),)}
    return like.limits | most, like.block_limits | most


def check(seed: int, device: str = "") -> str:
    """Return a description of the first difference between NumPy and weft, or ""."""
    return judge(Program(seed), device or DEVICES[seed % len(DEVICES)])


def judge(program: Program, device: str) -> str:
    """Return a description of the first difference between NumPy and weft on a device, or ""."""
    with steps.forced(program, device):
        for lengths in program.lengths:
            head = f"seed {program.seed} on {device} at {lengths}: "
            try:
                wanted = program.run(np, lengths)
            except (ValueError, IndexError, TypeError):
                continue
            try:
                found = program.run(wf, lengths)
            except Exception as error:  # every error is a finding
                return f"{head}{type(error).__name__}: {error}\n{program.describe()}"
            for name, value in wanted.items():
                other = found[name]
                if value.dtype != other.dtype or value.shape != other.shape:
                    return f"{head}{name} is {other.dtype}{other.shape}, not {value.dtype}{value.shape}\n{program.describe()}"
                if not np.array_equal(value, other, equal_nan=value.dtype.kind == "f"):
                    many = int((value != other).sum())
                    return f"{head}{name} differs in {many} of {value.size}\n{program.describe()}"
    return ""


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.fields"))
