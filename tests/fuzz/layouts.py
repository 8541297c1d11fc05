"""Random programs over arrays with all memory layouts.

Arrays are permuted, reversed, sliced, repeated and partly overwritten.

``python -m tests.fuzz.layouts --programs 200 --seed 0`` runs the programs. Values are small integers, so that every
result is exact. On every device, results must have NumPy's bits.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from tests.fuzz.rows import DEVICES, differing
from weft.runtime import device as on_device

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 63, 64, 65, 66, 100, 127, 128, 130, 200, 256, 257, 300, 512, 1000, 1024)
EXTENTS += (1030, 4100)
DTYPES = ("float32", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "float16")


class Generator:
    """A generator of one random program with up to three inputs a, b and c. The program uses views of them that can be broadcast together."""

    def __init__(self, seed: int, most: int = 60_000) -> None:
        self.random = pick = random.Random(seed)
        source = np.random.default_rng(seed)
        dims = pick.choice((1, 2, 2, 2, 2, 3, 3, 4))
        shape: list[int] = []
        for _ in range(dims):
            left = most // max(int(np.prod(shape)), 1)
            shape.append(pick.choice([n for n in EXTENTS if n <= left] or [1]))
        pick.shuffle(shape)
        self.shape = tuple(shape)
        self.inputs: dict[str, np.ndarray] = {}
        self.lines: list[str] = []
        self.views: list[str] = []
        self.count = 0
        common = pick.choice(DTYPES)
        for name in "abc"[: pick.randint(1, 3)]:
            dtype = np.dtype(common if pick.random() < 0.7 else pick.choice(DTYPES))
            form, text = self.layout()
            low = 0 if dtype.kind in "ub" else -4
            values = source.integers(low, 2 if dtype.kind == "b" else 5, form)
            self.inputs[name] = np.asarray(values).astype(dtype)
            self.views.append(self.line(f"{name}{text}"))
        self.write()

    def line(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"v{self.count} = {text}")
        return f"v{self.count}"

    def layout(self) -> tuple[tuple[int, ...], str]:
        """Return a random shape for an input, and source text that selects a view of the input, such as ``[::2, 1:4].transpose(1, 0)``."""
        pick = self.random
        order = list(range(len(self.shape)))
        if pick.random() < 0.6:
            pick.shuffle(order)
        inside = [self.shape[k] for k in order]
        steps = []
        for k, n in enumerate(inside):
            kind = pick.randrange(10)
            if kind == 0:
                inside[k], part = n + 3, f"1:{n + 1}"
            elif kind == 1:
                inside[k], part = 2 * n, "::2"
            elif kind == 2:
                part = "::-1"
            elif kind == 3:
                inside[k], part = 1, ":"
            elif kind == 4 and n < 500:
                inside[k], part = n + 1, f"-{n}:"
            else:
                part = ":"
            steps.append(part)
        back = [order.index(k) for k in range(len(order))]
        return tuple(inside), f"[{', '.join(steps)}].transpose({', '.join(map(str, back))})"

    def write(self) -> None:
        pick = self.random
        for _ in range(pick.randint(1, 5)):
            x, y = pick.choice(self.views), pick.choice(self.views)
            kind = pick.randrange(12)
            if kind < 5:
                form = pick.choice(
                    ("{x} + {y}", "{x} * 3 - {y}", "xp.where({x} > {y}, {x}, {y} + 1)", "xp.maximum({x}, {y})")
                )
                if any(d.kind in "bc" for d in self.dtypes()):
                    form = "{x} + {y}"
                self.views.append(self.line(form.format(x=x, y=y)))
            elif kind < 7:
                name, index = self.target()
                operator = "=" if self.inputs[name].dtype.kind == "b" else pick.choice(("=", "+="))
                self.lines.append(f"{name}{index} {operator} 2")
            elif kind == 7:
                name = self.line(f"xp.zeros({self.shape}, 'complex64')")
                self.lines.append(f"{name}[...] = {x}")
            elif kind == 8:
                self.line(f"xp.broadcast_to({x}, {self.shape}).T + 1")
            else:
                axes = tuple(sorted(pick.sample(range(len(self.shape)), pick.randint(1, len(self.shape)))))
                fold = pick.choice(("sum", "max", "min")) if not any(d.kind == "c" for d in self.dtypes()) else "sum"
                self.line(f"xp.{fold}(xp.broadcast_to({x}, {self.shape}).astype('{self.wide()}'), axis={axes})")

    def dtypes(self) -> set[np.dtype]:
        return {v.dtype for v in self.inputs.values()}

    def wide(self) -> str:
        """Return a dtype in which all sums of the program are exact."""
        if any(d.kind == "c" for d in self.dtypes()):
            return "complex128"
        return self.random.choice(("float64", "float32", "int64"))

    def target(self) -> tuple[str, str]:
        """Return the name of a random input, and an index of the part that a statement overwrites."""
        name = self.random.choice(list(self.inputs))
        parts = [self.random.choice((":", "1:", ":-1", "::2", "::-1", "0")) for _ in self.shape]
        return name, f"[{', '.join(parts)}]"

    def run(self, device: str) -> dict[str, np.ndarray]:
        """Run the program on a device, and return its values by name. The device "" stands for NumPy."""
        if not device:
            values: dict[str, Any] = {name: value.copy() for name, value in self.inputs.items()}
            for line in self.lines:
                exec(line, {"xp": np}, values)
            return {name: np.asarray(value) for name, value in values.items()}
        with on_device(device):
            values = {name: wf.asarray(value.copy()) for name, value in self.inputs.items()}
            for line in self.lines:
                exec(line, {"xp": wf}, values)
            wf.evaluate(*values.values())
            return {name: np.array(value) for name, value in values.items()}


def check(seed: int, devices: tuple[str, ...] = DEVICES, most: int = 60_000) -> str:
    """Return a description of the first difference between NumPy and weft on the devices, or ""."""
    generator = Generator(seed, most)
    found = differing(generator.run, int(np.prod(generator.shape)), devices)
    if found is None:
        return ""
    inputs = ", ".join(f"{n}: {v.dtype}{v.shape}" for n, v in generator.inputs.items())
    return "\n".join([f"seed {seed} on {found[0]}: {found[1]}", inputs, *generator.lines])


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.layouts"))
