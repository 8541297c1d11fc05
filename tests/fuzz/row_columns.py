"""Random reductions along rows and columns of one array.

Reductions that are computed together in merged kernels must have the same bits as reductions computed separately.

``python -m tests.fuzz.row_columns --programs 200 --seed 0`` runs the programs. Inputs are arbitrary numbers, so that a
sum in another order has other bits. Kernels are merged regardless of their size.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import weft as wf
from tests.fuzz import children
from weft.codegen import CPU, GPU
from weft.fusion.plan import row_column_reductions
from weft.runtime import device as on_device

LONG = (513, 600, 1000, 1025, 1500, 2049, 4100)
SHORT = (1, 2, 8, 31, 32, 33, 40, 63, 64, 65, 100, 127, 128, 130, 200)
MIDDLE = (64, 100, 130, 200, 256, 300, 1030)
DTYPES = (
    "float32",
    "float32",
    "float32",
    "float64",
    "float64",
    "float16",
    "int32",
    "int8",
    "uint64",
    "bool",
    "complex64",
)
REDUCTIONS = ("sum", "sum", "sum", "sum", "mean", "mean", "max", "min", "argmax", "argmin", "any", "prod", "var")
PROLOGUES = (
    "x",
    "x",
    "x",
    "x * 2 + 1",
    "x * w",
    "x * s",
    "x * s + w",
    "x[::-1] - w",
    "abs(x)",
    "xp.where(x > 0, x, w)",
    "y",
)
EPILOGUES = ("{}", "{}", "{}", "{} * 2", "abs({}) + 1", "{} + 3")


@contextmanager
def however_small() -> Iterator[None]:
    """Within the ``with`` block, merge row and column reductions of any size."""
    with (
        mock.patch.multiple(row_column_reductions, LEAST_PARTS=1, LEAST_ROW=2),
        mock.patch.dict(vars(CPU), pair_bytes=0),
        mock.patch.dict(vars(GPU), pair_bytes=0, threads=0),
    ):
        yield


def bits(array: wf.Array) -> bytes:
    """Return the bits of an array, with all NaNs mapped to the same bits."""
    found = np.array(array)
    return np.where(found == found, found, 0).tobytes() + (found == found).tobytes()


class Generator:
    """A generator of a program with several reductions of an array x.

    The program may also use the first row w and the first column s of the array.
    """

    def __init__(self, seed: int) -> None:
        self.random = pick = random.Random(seed)
        source = np.random.default_rng(seed)
        shape = [pick.choice(LONG), pick.choice(SHORT if pick.random() < 0.5 else MIDDLE)]
        kind = pick.randrange(12)
        if kind == 0:
            shape = [pick.choice((2, 3, 9)), pick.choice((33_000, 40_001))]
        elif kind == 1:
            shape = [pick.choice((2, 3)), pick.choice(LONG[:4]), pick.choice(SHORT[2:8])]
        elif kind == 2:
            shape = [pick.choice((9, 70)), pick.choice((5, 12)), pick.choice((40, 64, 70))]
        elif kind == 3:
            shape.reverse()
        dtype = np.dtype(pick.choice(DTYPES))
        values = source.standard_normal(shape) * (10 if dtype.kind in "iub" else 1)
        self.x = np.asarray(abs(values) if dtype.kind == "u" else values).astype(dtype)
        self.w = self.x[(0,) * (self.x.ndim - 1)].copy()
        self.s = self.x[..., :1].copy()
        self.view = pick.choice((*[""] * 8, "[1:]", "[::2]", "[..., :-1]", "[..., ::2]", ".T", "[:0]"))
        if self.view in ("[..., :-1]", "[..., ::2]"):
            self.w = self.w[
                : (self.x.shape[-1] - 1) if self.view == "[..., :-1]" else None : 1 if "-1" in self.view else 2
            ]
        self.prologue = pick.choice(PROLOGUES)
        self.together = pick.random() < 0.3  # whether y is also a result
        self.results = [self.result(0), self.result(1), *(self.result() for _ in range(pick.randint(0, 2)))]

    def result(self, along: int | None = None) -> str:
        """Return the text of a reduction, or of an expression that uses the result of a reduction.

        The axis is `along`, or random if `along` is None.
        """
        pick = self.random
        ndim = self.x.ndim
        choices: list[int | tuple[int, ...]] = [*range(ndim)] * 3
        choices += [(0, 1), (1, 2)] if ndim == 3 else []
        fold, axis = pick.choice(REDUCTIONS), pick.choice(choices) if along is None else along
        if fold in ("argmax", "argmin") and isinstance(axis, tuple):
            fold = "max"
        if self.x.dtype.kind == "c" and fold not in ("sum", "mean"):
            fold = "sum"
        if fold == "var" and self.x.dtype.kind == "b":
            fold = "sum"
        prologue = (
            "x"
            if self.view in (".T", "[:0]", "[1:]", "[::2]")
            else pick.choice((self.prologue, self.prologue, *PROLOGUES))
        )
        if self.x.dtype.kind in "bc":
            prologue = "x"
        if fold in ("max", "min", "argmax", "argmin") and not eval(f"x{self.view}", {"x": self.x}).size:
            fold = "sum"
        found = f"xp.{fold}({prologue}, axis={axis}{', keepdims=True' if pick.random() < 0.2 else ''})"
        return pick.choice(EPILOGUES).format(found)

    def values(self, xp: Any, wrap: Any) -> dict[str, Any]:
        """Return the variables of the program. `wrap` converts NumPy inputs to arrays of the module `xp`."""
        x = wrap(self.x)
        x = eval(f"x{self.view}")
        found = {"xp": xp, "x": x, "w": wrap(self.w), "s": wrap(self.s)[: x.shape[0]] if x.ndim < 3 else wrap(self.s)}
        found["y"] = x if self.x.dtype.kind in "bc" else x * 3 - 1
        return found

    def run(self, device: str, alone: bool) -> list[bytes]:
        """Compute all results together or, if `alone` is true, each one separately. Return the bits of the results."""
        with on_device(device):
            if alone:
                found = []
                for text in self.results:
                    found.append(bits(eval(text, self.values(wf, wf.asarray))))
                return found
            values = self.values(wf, wf.asarray)
            results = [eval(text, values) for text in self.results]
            extra = [values["y"]] if self.together else []
            del values
            wf.evaluate(*results, *extra)
            return [bits(result) for result in results]


def check(seed: int, devices: tuple[str, ...] = ("cpu",)) -> str:
    """Return a report of the first result whose bits change if other results are computed with it, or "" if there is
    none.
    """
    generator = Generator(seed)
    for device in devices:
        with however_small():
            together = generator.run(device, alone=False)
        alone = generator.run(device, alone=True)
        for text, one, other in zip(generator.results, together, alone, strict=True):
            if one != other:
                head = (
                    f"seed {seed} on {device}, {generator.x.dtype}{generator.x.shape}{generator.view}: {text} differs"
                )
                return "\n".join([head, *generator.results])
    return ""


if __name__ == "__main__":
    sys.exit(children.main("tests.fuzz.row_columns"))
