"""Random loops in which scalars, indices and slices change, run on weft and on NumPy.

An iteration must never reuse an operation, index, plan or scalar that was cached for other values. The same text runs
with `xp` as NumPy and as weft. Some programs read results in each iteration, others in a few iterations.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children

NUMBERS = ("k", "0.5 * k", "0.25", "-0.0", "k / 7", "np.float64(k)", "np.float32(0.5)", "3", "k - 3", "1.5 + k % 2")
INDICES = ("k", "-1", "3", "k % 5", "-k - 1", "0")
SLICES = ("1:-1", "k:", "::2", "k:k + 3", "::-1", "2:", ":-2", ":")
STATEMENTS = (
    "a = a * {n} + b",
    "a = {n} - b",
    "b = a / (1.5 + abs({n}))",
    "a += {n}",
    "a *= 0.5",
    "b -= a * {n}",
    "a[{i}] = {n}",
    "b[{i}] = a[{i}]",
    "a[{i}] += {n}",
    "a[{s}] = a[{s}] * 0.5 + {n}",
    "a[{s}] = {n}",
    "a[{s}] *= {n}",
    "b[{s}] = a[{s}]",
    "b = xp.where(a > {n}, a, -b)",
    "a = xp.maximum(xp.minimum(a, 50), {n})",
    "b = a.copy()",
    "a, b = b, a",
    "b = xp.clip(a, {n}, 40.0)",
    "a = xp.roll(a, k % 3) * 0.5 + xp.pad(b, 1)[2:]",
    "b = xp.concatenate([a[1:], a[:1] * {n}])",
    "total += float(xp.std(a * {n}))",
    "view = a[{s}]",
    "view = view * {n}",
    "c = xp.stack([a, b])[:, {s}].sum(axis=0)",
    "total += float(a[{i}])",
    "total = total * 0.5 + (a * b).mean()",
    "total += float((b * {n}).sum())",
    "if total > {n}: a = a - 1",
    "c[{i} % len(c)] = total",
)


def make_loop(seed: int) -> str:
    """Return the text of a random loop."""
    source = random.Random(seed)
    body = []
    for _ in range(source.randint(2, 8)):
        line = source.choice(STATEMENTS)
        for name, choices in (("{n}", NUMBERS), ("{s}", SLICES), ("{i}", INDICES)):
            while name in line:
                line = line.replace(name, f"({source.choice(choices)})" if name != "{s}" else source.choice(choices), 1)
        body.append(line)
    turns = source.choice((4, 6, 6, 20))
    lines = [f"for turn in range({turns}):", "    k = turn % 8", *(f"    {line}" for line in body)]
    return "\n".join([*lines, "    a, b = xp.clip(a, -100, 100), xp.clip(b, -100, 100)"])


def run_loop(text: str, xp: Any) -> dict[str, Any]:
    """Run the loop, and return the final values of its variables."""
    source = np.random.default_rng(0)
    names: dict[str, Any] = {"xp": xp, "np": np, "total": 0.0}
    for name in ("a", "b", "c", "view"):
        names[name] = xp.asarray(source.random(12))
    with np.errstate(all="ignore"):
        exec(compile(text, "<loop>", "exec"), names)
    return {name: np.asarray(names[name]) for name in ("a", "b", "c", "view", "total")}


def check(seed: int) -> str:
    """Return a description of the first difference between NumPy and weft, or ""."""
    text = make_loop(seed)
    try:
        wanted: dict[str, Any] | str = run_loop(text, np)
    except (ValueError, IndexError, TypeError) as error:
        wanted = type(error).__name__
    try:
        found: dict[str, Any] | str = run_loop(text, wf)
    except (ValueError, IndexError, TypeError) as error:
        found = f"{type(error).__name__}: {error}"
    if isinstance(wanted, str) or isinstance(found, str):
        same = isinstance(wanted, str) and isinstance(found, str) and found.startswith(wanted)
        return "" if same else f"seed {seed}: {found} instead of {wanted}\n{text}"
    for name, value in wanted.items():
        if value.shape != found[name].shape or not np.allclose(
            value, found[name], rtol=1e-6, atol=1e-6, equal_nan=True
        ):
            return f"seed {seed}: {name} is {found[name]}, not {value}\n{text}"
    return ""


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.loops"))
