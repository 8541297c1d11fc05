"""Random programs that run for several sizes and positions.

``python -m tests.fuzz.sizes --programs 200 --seed 0`` runs the programs. Cached plans are reused for other lengths,
strides and offsets. Each program runs for many sizes, which are so small that they often coincide. Inputs are integers,
and results are exact and compared bit by bit.
"""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from tests.fuzz.programs import differences

BINDINGS = 16
EXTENTS = (2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 16, 17, 33, 64, 100)
STEPS = (1, -1, 2, -2, 3)
STATEMENTS = """a[p:q] += b[p:q]|a[p] = b[q]|a[p:q] = a[r:r + q - p] + 1|a[r:r + q - p] = a[p:q]|a[::r] *= 2|a[q:p:-1] -= b[p:q]
a[:p] = b[n - p:]|a[p:] = a[:n - p] + b[p:]|a[p:q] = c|b[p] += a[q]|a += b|b = a * 2 - b|a[i[p:q]] += 1|b[i % n] = a[r]|b = a[::-1] + a
c = a[p:q] * b[r:r + q - p]|c = xp.concatenate([a[p:], b[:p]])|c = a[i[p:q]] + b[p:q]|c = xp.roll(a, p)[q:]|c = xp.where(a > p, a, b)[p:q]
c = a[p:q][::-1]|c = a.reshape(-1, 2)[:, 1]|c = xp.pad(a[p:q], (r, 1))|c = xp.repeat(a[p:q], 2)|c = a[p:q] - a[p:q].max()|c = b[r::p]
c = xp.cumsum(a[p:q])|c = A[p]|c = A[:, q]|c = A[p, r:]|c = (A[p:q] * 2).sum(0)|c = A[p:q].max(1)|c = A.T.reshape(-1)[p:q]|c = xp.diagonal(A)
c = A[p:q] @ b[:A.shape[1]]|c = A.reshape(-1)[p::q]|c = A[p:q, :r].argmax(1)|c = A.sum()|c = A[r:].sum(1)[::-1]|c = A[:, p:q].min(0)|c = A.any(1)
A[p] = a[:m]|A[:, q] = a[q]|A[p:q, 1:] += A[p:q, :-1]|A[p:q] = A[r:r + q - p] * 2|A[:, p:q] -= A[p:q, r:r + 1]|A.T[p] += r|A[p, q] = r|A *= 2
A[1:-1, 1:-1] = A[2:, 1:-1] + A[:-2, 1:-1]|A = A + b[:m]|A = A - A.max(1, keepdims=True)|A[r:] = A[:n - r].copy()|A[:p, :q] = 3|A = A[::-1] + p
B = A[p:q, r:]|B = A[p:q] @ A[p:q].T|B = A.T[p:q]|B = xp.concatenate([A[p:], A[:q]])|B = xp.cumsum(A[p:q], 1)|B = a[p:q, None] * b[r:]|B = A[:, ::r] + 1
B = xp.broadcast_to(a[p:q], (r, q - p)) + 1|B = A[i[:p]]|B = xp.stack([a[p:q], b[p:q]])|B = A[p:q].reshape(-1, q - p)|B = A[p:q] % 3
B[r:] = A[p:q]|B += 1|B = B.T|d = B.sum(0)|d = B.max()|d = c * 2|d = c.sum() + B|d = c[::-1][p:]|c[p:q] = 1|c += 1|d = (c * c).sum()
c = b[p:q] * 2|a[p:q] += c[:q - p]|B = a[p:q, None] * b[r:]|c = a[::s]|c = a[::s] - b[::-s]|B = A[::s] + 1|B = A[:, ::s] * 2|B = A[::s, ::-s]|A[::s] = A[:1] + 1|a[::s] = b[::-s] + 1|d = A[::s].sum(0)""".replace(
    "\n", "|"
)


class Program:
    """A random program: its statements, and the sizes for which it runs."""

    def __init__(self, seed: int) -> None:
        pick = random.Random(seed)
        self.seed = seed
        self.lines = [pick.choice(STATEMENTS.split("|")) for _ in range(pick.randint(2, 7))]
        self.dtype = np.dtype(pick.choice(("float64", "float32", "int32", "int64")))
        self.bindings: list[dict[str, int]] = []
        extents = pick.sample(EXTENTS, 4)
        for _ in range(BINDINGS):
            n, m = pick.choice(extents), pick.choice(extents)
            p, q = sorted(pick.randint(0, n) for _ in range(2))
            self.bindings.append(
                {"n": n, "m": m, "p": p, "q": q, "r": pick.randint(0, n - (q - p)), "s": pick.choice(STEPS)}
            )

    def start(self, sizes: dict[str, int]) -> dict[str, np.ndarray]:
        """Return the input arrays. They include `c` and `B`, which statements may read before they assign to them."""
        source = np.random.default_rng(self.seed)
        n, m = sizes["n"], sizes["m"]
        made = {name: source.integers(-4, 5, shape) for name, shape in (("a", n), ("b", n), ("A", (n, m)))}
        found = {name: np.asarray(value).astype(self.dtype) for name, value in made.items()}
        return {**found, "c": found["a"] + 1, "B": found["A"] + 1, "i": source.integers(0, n, n)}

    def wanted(self, sizes: dict[str, int]) -> tuple[list[str], dict[str, np.ndarray]]:
        """Return the statements that NumPy accepts for these sizes, and the final values."""
        values: dict[str, Any] = {"xp": np, **sizes, **self.start(sizes)}
        kept = []
        for line in self.lines:
            trial = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}
            try:
                exec(line, trial)
                exec(line, values)  # (the copies in `trial` are writable, but some views are not)
            except (ValueError, IndexError, TypeError, AttributeError):
                continue
            kept.append(line)
        return kept, {name: np.asarray(v) for name, v in values.items() if isinstance(v, np.ndarray | np.generic)}

    def run(self, lines: list[str], sizes: dict[str, int], owned: bool) -> dict[str, np.ndarray]:
        """Run statements on weft, and return the arrays. With `owned`, updates may reuse the memory of the inputs."""
        values: dict[str, Any] = {"xp": wf, **sizes}
        values.update({name: wf.asarray(value) for name, value in self.start(sizes).items()})
        if owned:
            values.update({name: v.copy() for name, v in values.items() if isinstance(v, wf.Array)})
            wf.evaluate(*(v for v in values.values() if isinstance(v, wf.Array)))
        for line in lines:
            exec(line, values)
        arrays = {name: value for name, value in values.items() if isinstance(value, wf.Array)}
        wf.evaluate(*arrays.values())
        return {name: np.array(value) for name, value in arrays.items()}


def check(seed: int) -> str:
    """Run a random program for each of its sizes. Return the first difference from NumPy, or ""."""
    program = Program(seed)
    for turn, sizes in enumerate(program.bindings):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            lines, wanted = program.wanted(sizes)
        try:
            trouble = differences(program.run(lines, sizes, seed % 3 > 0), wanted, False)
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            before = program.bindings[:turn]
            return "\n".join([f"seed {seed} {program.dtype} {sizes} after {before}: {trouble}", *lines])
    return ""


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.sizes"))
