"""Random statements on parts of one array in kernels, compared with NumPy.

``python -m tests.fuzz.array_statements --programs 200 --seed 0`` runs kernels on the CPU, with GPU schedules, and in
Python mode. All operands are parts of the output array: with other starts, broadcast along some axes, or with new axes.
The array has 1 to 4 axes, which may be permuted, reversed or strided in memory.
"""

from __future__ import annotations

import linecache
import random
import sys
import warnings
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from weft.runtime import override

RUNS = ("cpu", "simt", "cpu", "Python")
KNOWN = 2  # the kernel receives this number as `k`


class Statement:
    """A random statement that modifies parts of an array. The class generates the array, and a kernel that contains only this statement."""

    def __init__(self, seed: int) -> None:
        self.random = pick = random.Random(seed)
        self.seed = seed
        axes = pick.choice((1, 2, 2, 3, 3, 3, 4))
        self.shape = tuple(pick.choice((1, 2, 3, 4, 5, 6)[pick.choice((0, 2, 2, 2)) :]) for _ in range(axes))
        self.order = pick.sample(range(axes), axes) if pick.random() < 0.5 else list(range(axes))
        self.steps = [pick.choice((1, 1, 1, -1, 2, -2)) for _ in range(axes)]
        # The indices of the output along each axis: the first one, their number (None for an integer index), the step.
        self.output = [self._indices(n) for n in self.shape]
        out = f"q[{', '.join(self._slice(*indices) for indices in self.output)}, ...]"
        self.operands = pick.choice((1, 1, 2))
        if self.operands == 2:
            one, other = self._operand(), pick.choice((self._operand(), out))
            self.text = f"np.{pick.choice(('add', 'subtract'))}({one}, {other}, {out})"
        else:
            self.text = f"{out} {pick.choice(('=', '+=', '-='))} {self._operand()}"

    def _indices(self, n: int) -> tuple[int, int | None, int]:
        pick = self.random
        if pick.random() < 0.15:
            return pick.randrange(n), None, 1
        step = pick.choice((1, 1, 1, -1, 2, -2))
        count = pick.randint(1, max(1, -(-n // abs(step))))
        return self._start(n, count, step), count, step

    def _start(self, n: int, count: int, step: int) -> int:
        """Return a random start for a slice. The slice has `count` indices at distance `step`, and fits into an axis of length `n`."""
        reach = (count - 1) * abs(step)
        return self.random.randint(0, n - 1 - reach) + (reach if step < 0 else 0)

    def _number(self, value: int) -> str:
        if self.random.random() < 0.6:
            return str(value)
        return f"k {'+' if value >= KNOWN else '-'} {abs(value - KNOWN)}"

    def _slice(self, start: int, count: int | None, step: int) -> str:
        if count is None:
            return self._number(start)
        stop = start + count * step
        text = f"{'' if start == 0 and step > 0 else self._number(start)}:{self._number(stop) if stop >= 0 else ''}"
        return text if step == 1 else f"{text}:{step}"

    def _operand(self) -> str:
        """Return the text of a part of the array that NumPy can broadcast to the output."""
        pick, parts = self.random, []
        leading = True
        for n, (start, count, step) in zip(self.shape, self.output, strict=True):
            at = pick.randrange(n)
            if count is None:
                parts.append(self._number(pick.choice((start, at))))
            elif pick.random() > 0.3:
                leading = False
                parts.append(self._slice(pick.choice((start, self._start(n, count, step))), count, step))
            elif leading and pick.random() < 0.5:
                parts.append(self._number(at))
            else:
                leading = False
                parts.append(f"{self._number(at)}, None" if pick.random() < 0.3 else self._slice(at, 1, step))
        if pick.random() < 0.1 and all(":" in part for part in parts):
            return f"q.T[{', '.join(parts[::-1])}].T"
        return f"q[{', '.join(parts)}]"

    def array(self) -> np.ndarray:
        """Return the array, whose layout in memory is random."""
        lengths = [self.shape[axis] * abs(self.steps[axis]) for axis in self.order]
        values = np.random.default_rng(self.seed).integers(-(10**6), 10**6, lengths)
        return values.transpose(np.argsort(self.order))[tuple(slice(None, None, step) for step in self.steps)]

    def function(self) -> Any:
        """Return the Python function of the kernel."""
        text = f"import numpy as np\n\ndef kernel(q, k):\n    {self.text}\n"
        file = f"<array statement {self.seed}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        scope: dict[str, Any] = {}
        exec(compile(text, file, "exec"), scope)
        return scope["kernel"]


def check(seed: int) -> str:
    """Return a description of the difference between NumPy and a kernel, or ""."""
    statement, device = Statement(seed), RUNS[seed % len(RUNS)]
    function, wanted, found = statement.function(), statement.array(), statement.array()
    function(wanted, KNOWN)
    case = f"seed {seed} on {device}: {statement.text}, shape {statement.shape}, order {statement.order}, steps {statement.steps}"
    try:
        with warnings.catch_warnings(), override(kernel_python=device == "Python"):
            warnings.simplefilter("ignore", wf.PerformanceWarning)
            with wf.device("cpu" if device == "Python" else device):
                wf.kernel(function)[1, 1](found, KNOWN)
    except ValueError as error:
        return "" if statement.operands > 1 and "overlap the output on both sides" in str(error) else f"{case}: {error}"
    except wf.KernelError as error:
        return f"{case}: {error}"
    return "" if np.array_equal(found, wanted) else case


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.array_statements"))
