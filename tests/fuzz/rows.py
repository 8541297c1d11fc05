"""Random programs that reduce rows several times.

Elementwise operations use the results of reductions, and later reductions use the results of these operations.

``python -m tests.fuzz.rows --programs 200 --seed 0`` runs the programs. All inputs are small multiples of 1/4, so that
every sum is exact and results do not depend on the order of reductions. Results must have NumPy's bits.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import children
from tests.fuzz.programs import differences, few_blocks
from weft.runtime import device as on_device

LENGTHS = (
    1,
    2,
    3,
    5,
    8,
    31,
    32,
    33,
    64,
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    511,
    1000,
    1023,
    1024,
    1025,
    1030,
    2047,
    2048,
)
LENGTHS += (2049, 3000, 4096, 4099, 5000, 8192, 8193, 9000, 16384, 16388, 20000, 40000, 66000, 100_000)
ROWS = (1, 2, 3, 4, 7, 8, 9, 33, 64, 300, 2100, 5000)
DTYPES = ("float32", "float32", "float32", "float64", "int32", "int64", "int16", "uint8", "bool")
DEVICES = ("cpu", "simt", "simt::backward", "simt::sanitized")
MOST_SANITIZED = 12_000  # maximum number of elements if every access takes a microsecond


class Generator:
    """A generator of a program over an input x. The program computes values v1, v2, ..."""

    def __init__(self, seed: int, most: int = 100_000) -> None:
        self.random = random.Random(seed)
        pick = self.random
        length = pick.choice([n for n in LENGTHS if n <= most])
        rows = pick.choice([n for n in ROWS if n * length <= most] or [1])
        self.shape: tuple[int, ...] = (rows, length)
        kind = pick.randrange(10)
        if kind == 0:
            self.shape = (length,)
        elif kind < 3:
            self.shape = (length, rows)
        elif kind == 3:
            self.shape = (pick.choice((2, 3)), max(rows // 2, 1), length)
        self.dtype = np.dtype(pick.choice(DTYPES))
        values = np.random.default_rng(seed).integers(0 if self.dtype.kind in "ub" else -20, 20, self.shape)
        self.x = (values * 0.25 if self.dtype.kind == "f" else values).astype(self.dtype)
        self.lines: list[str] = []
        self.count = 0
        self.whole = ["x"]  # names of values with the shape of x
        self.write()

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def line(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def write(self) -> None:
        """Write one to four stages.

        A stage is a scan, or a reduction that may be followed by operations on its result.
        """
        pick = self.random
        axis = pick.choice((*range(-len(self.shape), 0), None))
        start = pick.randrange(8)
        if start == 0 and self.shape[-1] > 2:
            self.whole = [self.line(f"x[..., 1:{pick.choice(('', '-1'))}]")]
        elif start == 1:
            self.whole = [self.line("x[..., ::-1]")]
        elif start == 2 and len(self.shape) > 1:
            self.whole = [self.line("x.T")]
        elif start == 3:
            self.whole = [self.line("xp.where(x > 0, x, x * x % 8)" if self.dtype.kind != "b" else "~x")]
        for _ in range(pick.randint(1, 4)):
            x = pick.choice(self.whole)
            if pick.random() < 0.2:
                axis = pick.choice((*range(-len(self.shape), 0), None))
            if pick.random() < 0.25:
                self.whole.append(self.line(self.running(x, axis if axis is not None else -1)))
                continue
            s = self.line(self.fold(x, axis))
            if pick.random() < 0.8:
                self.whole.append(self.line(self.after(x, s)))

    def fold(self, x: str, axis: int | None) -> str:
        """Return the text of a reduction of x that keeps the reduced axes."""
        kind = self.random.choice("max min sum sum mean argmax argmin any all prod".split())
        rest = f"axis={axis}, keepdims=True"
        if kind == "mean":
            return f"xp.floor(xp.mean({x}.astype('float64'), {rest}))"
        if kind in ("any", "all"):
            return f"xp.{kind}({x} {self.random.choice(('> 1', '< 3', '== 4'))}, {rest})"
        if kind == "prod":
            return f"xp.prod(xp.where({x} > 0, -1, 1), {rest})"
        return f"xp.{kind}({x}, {rest})"

    def running(self, x: str, axis: int) -> str:
        """Write an expression that contains a scan, such as a cumulative sum, of the array `x`. The results are small numbers."""
        match self.random.randrange(4):
            case 0:
                return f"xp.{self.random.choice(('maximum', 'minimum'))}.accumulate({x}.astype('float32'), {axis})"
            case 1:
                return f"xp.cumprod(xp.where({x} > 0, -1, 1), {axis}) * {x}"
            case 2:
                return f"xp.cumsum({x} {self.random.choice(('> 1', '< 3'))}, {axis}) % 8"
        return f"xp.cumsum({x}, {axis}) % 8"

    def after(self, x: str, s: str) -> str:
        """Write an elementwise operation to follow a reduction. It combines the array `x` with the reduction `s`, and its results are small."""
        pick = self.random
        dtype = self.dtype if self.dtype.kind == "f" else np.dtype("float64")
        x, s = f"{x}.astype('{dtype}')", f"{s}.astype('{dtype}')"
        return pick.choice(
            (
                f"xp.clip({x} - {s}, -8, 8)",
                f"xp.where({x} < {s}, {x}, -{x})",
                f"xp.where({x} == {s}, 3, {x})",
                f"xp.clip({x} * ({s} % 3), -8, 8)",
                f"xp.floor({x} / ({s} % 5 + 1)) % 8",
            )
        )

    def run(self, device: str) -> dict[str, np.ndarray]:
        """Run the program on a device, and return its values by name. The device "" stands for NumPy."""
        if not device:
            values: dict[str, Any] = {"x": self.x.copy()}
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                for line in self.lines:
                    exec(line, {"xp": np}, values)
            return {name: np.asarray(value) for name, value in values.items()}
        with on_device(device):
            values = {"x": wf.asarray(self.x)}
            for line in self.lines:
                exec(line, {"xp": wf}, values)
            wf.evaluate(*values.values())
            return {name: np.array(value) for name, value in values.items()}


def differing(
    run: Callable[[str], dict[str, np.ndarray]], size: int, devices: tuple[str, ...]
) -> tuple[str, str] | None:
    """Return the first device on which a program differs from NumPy, and the difference.

    The result is None if there is no difference. `size` is the number of elements. If it is large, devices that check
    every access are skipped.
    """
    wanted = run("")
    for device in devices:
        if device.endswith("sanitized") and size > MOST_SANITIZED:
            continue
        try:
            trouble = differences(run(device), wanted, False)
            if not trouble and device.startswith("simt"):
                with few_blocks(device):
                    trouble = differences(run(device), wanted, False)
                    trouble = trouble and f"in two blocks: {trouble}"
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            return device, trouble
    return None


def check(seed: int, devices: tuple[str, ...] = DEVICES, most: int = 100_000) -> str:
    """Return a description of the first difference between NumPy and weft on the devices, or ""."""
    generator = Generator(seed, most)
    found = differing(generator.run, generator.x.size, devices)
    if found is None:
        return ""
    head = f"seed {seed} on {found[0]}, {generator.dtype}{generator.shape}: {found[1]}"
    return "\n".join([head, *generator.lines])


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.rows"))
