"""The operations that the sweep measures, with their operands.

An operation takes the namespace (NumPy or weft), two arrays of the same shape, layout and dtype, and an `Extra` with
further arguments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

ELEMENTS = 1_000_000
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128")
LAYOUTS = ("C", "transposed", "strided", "reversed", "broadcast")
MIXED = 6  # number of cases of each operation with a random combination of shape, layout and dtype


@dataclass(frozen=True)
class Extra:
    """Arguments of an operation other than its operands."""

    limit: Any  # a number within the range of the values
    rows: Any  # indices along the first axis
    flat: Any  # indices of elements
    chosen: Any  # a mask
    zeros: Any  # zeros with the operands' shape, layout and dtype


Operation = Callable[[Any, Any, Any, Extra], Any]

ELEMENTWISE: dict[str, Operation] = {
    "x + y": lambda xp, x, y, e: x + y,
    "x * y": lambda xp, x, y, e: x * y,
    "x / y": lambda xp, x, y, e: x / y,
    "x // y": lambda xp, x, y, e: x // y,
    "x * y + x": lambda xp, x, y, e: x * y + x,
    "x ** 2": lambda xp, x, y, e: x**2,
    "x ** 1.5": lambda xp, x, y, e: x**1.5,
    "-x": lambda xp, x, y, e: -x,
    "abs(x)": lambda xp, x, y, e: abs(x),
    "sqrt(x)": lambda xp, x, y, e: xp.sqrt(x),
    "exp(x)": lambda xp, x, y, e: xp.exp(x),
    "log(x)": lambda xp, x, y, e: xp.log(x),
    "sin(x)": lambda xp, x, y, e: xp.sin(x),
    "tanh(x)": lambda xp, x, y, e: xp.tanh(x),
    "maximum(x, y)": lambda xp, x, y, e: xp.maximum(x, y),
    "x > y": lambda xp, x, y, e: x > y,
    "where(x > y, x, y)": lambda xp, x, y, e: xp.where(x > y, x, y),
    "isnan(x)": lambda xp, x, y, e: xp.isnan(x),
    "clip(x, 0, limit)": lambda xp, x, y, e: xp.clip(x, 0, e.limit),
}
REDUCTIONS: dict[str, Operation] = {
    "sum(x)": lambda xp, x, y, e: x.sum(),
    "sum(x, 0)": lambda xp, x, y, e: x.sum(axis=0),
    "sum(x, -1)": lambda xp, x, y, e: x.sum(axis=-1),
    "mean(x)": lambda xp, x, y, e: x.mean(),
    "mean(x, 0)": lambda xp, x, y, e: x.mean(axis=0),
    "mean(x, -1)": lambda xp, x, y, e: x.mean(axis=-1),
    "max(x)": lambda xp, x, y, e: x.max(),
    "max(x, 0)": lambda xp, x, y, e: x.max(axis=0),
    "max(x, -1)": lambda xp, x, y, e: x.max(axis=-1),
    "min(y)": lambda xp, x, y, e: y.min(),
    "min(y, 0)": lambda xp, x, y, e: y.min(axis=0),
    "any(zeros)": lambda xp, x, y, e: e.zeros.any(),
    "any(x > limit, 0)": lambda xp, x, y, e: (x > e.limit).any(axis=0),
    "all(y, -1)": lambda xp, x, y, e: y.all(axis=-1),
    "argmax(x)": lambda xp, x, y, e: x.argmax(),
    "argmax(x, 0)": lambda xp, x, y, e: x.argmax(axis=0),
    "argmax(x, -1)": lambda xp, x, y, e: x.argmax(axis=-1),
    "argmin(y, 0)": lambda xp, x, y, e: y.argmin(axis=0),
    "var(x)": lambda xp, x, y, e: x.var(),
    "var(x, 0)": lambda xp, x, y, e: x.var(axis=0),
    "std(x, -1)": lambda xp, x, y, e: x.std(axis=-1),
    "prod(x, -1)": lambda xp, x, y, e: x.prod(axis=-1),
    "count_nonzero(x)": lambda xp, x, y, e: xp.count_nonzero(x),
    "count_nonzero(x > limit)": lambda xp, x, y, e: xp.count_nonzero(x > e.limit),
    "ptp(x, 0)": lambda xp, x, y, e: xp.ptp(x, axis=0),
    "nanmax(x, -1)": lambda xp, x, y, e: xp.nanmax(x, axis=-1),
    "dot(x, y)": lambda xp, x, y, e: xp.dot(x.reshape(-1), y.reshape(-1)),
}


def _assign(xp: Any, x: Any, mask: Any, value: Any) -> Any:
    copied = x.copy()
    copied[mask] = value
    return copied


def _lower(xp: Any, x: Any) -> Any:
    if x.ndim == 1:
        raise ValueError("a vector would become a square")
    return xp.tril(x)


OTHERS: dict[str, Operation] = {
    "x[x > limit]": lambda xp, x, y, e: x[x > e.limit],
    "x[mask]": lambda xp, x, y, e: x[e.chosen],
    "x[mask] = limit": lambda xp, x, y, e: _assign(xp, x, e.chosen, e.limit),
    "x[rows]": lambda xp, x, y, e: x[e.rows],
    "take(x, indices)": lambda xp, x, y, e: xp.take(x, e.flat),
    "nonzero(x > limit)": lambda xp, x, y, e: xp.nonzero(x > e.limit),
    "concatenate(x, y)": lambda xp, x, y, e: xp.concatenate([x, y]),
    "concatenate(x, y, -1)": lambda xp, x, y, e: xp.concatenate([x, y], axis=-1),
    "stack(x, y, -1)": lambda xp, x, y, e: xp.stack([x, y], axis=-1),
    "roll(x, 1)": lambda xp, x, y, e: xp.roll(x, 1),
    "roll(x, 1, 0)": lambda xp, x, y, e: xp.roll(x, 1, axis=0),
    "pad(x, 1)": lambda xp, x, y, e: xp.pad(x, 1),
    "repeat(x, 2, -1)": lambda xp, x, y, e: xp.repeat(x, 2, axis=-1),
    "tile(x, 2)": lambda xp, x, y, e: xp.tile(x, 2),
    "x.T.copy()": lambda xp, x, y, e: x.T.copy(),
    "x.ravel()": lambda xp, x, y, e: x.copy().ravel(),
    "flip(x).copy()": lambda xp, x, y, e: xp.flip(x).copy(),
    "x.astype(float32)": lambda xp, x, y, e: x.astype(np.float32),
    "x.astype(float64)": lambda xp, x, y, e: x.astype(np.float64),
    "x.astype(int64)": lambda xp, x, y, e: x.astype(np.int64),
    "x.astype(uint8)": lambda xp, x, y, e: x.astype(np.uint8),
    "sort(x)": lambda xp, x, y, e: xp.sort(x, axis=-1),
    "argsort(x)": lambda xp, x, y, e: xp.argsort(x, axis=-1, kind="stable"),
    "cumsum(x)": lambda xp, x, y, e: xp.cumsum(x),
    "cumsum(x, 0)": lambda xp, x, y, e: xp.cumsum(x, axis=0),
    "diff(x)": lambda xp, x, y, e: xp.diff(x, axis=-1),
    "percentile(x, 30)": lambda xp, x, y, e: xp.percentile(x, 30),
    "tril(x)": lambda xp, x, y, e: _lower(xp, x),
}
OPERATIONS = {**ELEMENTWISE, **REDUCTIONS, **OTHERS}


def shapes(elements: int) -> dict[str, tuple[int, ...]]:
    """Return seven array shapes, in a dict whose keys are the names of the shapes. Each shape has about `elements` elements."""
    side, edge, few = math.isqrt(elements), round(elements ** (1 / 3)), min(100, math.isqrt(elements) // 3)
    return {
        "1-D": (elements,),
        "rows of 3": (elements // 3, 3),
        f"rows of {few}": (elements // few, few),
        "square": (side, side),
        f"{few} rows": (few, elements // few),
        "3 rows": (3, elements // 3),
        "cube": (edge, edge, edge),
    }


@dataclass(frozen=True)
class Case:
    """A measured case: an operation on arrays of one shape, layout and dtype."""

    operation: str
    shape: str
    layout: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.operation}, {self.shape}, {self.layout}, {self.dtype}"


def cases(elements: int = ELEMENTS) -> Iterator[Case]:
    """Yield the cases of each operation, which differ in shape, layout and dtype.

    The last cases of each operation have random combinations of shape, dtype and a layout other than "C".
    """
    known = list(shapes(elements))
    for k, operation in enumerate(OPERATIONS):
        found = [Case(operation, shape, "C", "float64") for shape in known]
        found += [Case(operation, "square", layout, "float64") for layout in LAYOUTS]
        found += [Case(operation, shape, "C", dtype) for shape in ("square", "1-D") for dtype in DTYPES]
        mixed = random.Random(k)
        for _ in range(MIXED):
            found.append(Case(operation, mixed.choice(known), mixed.choice(LAYOUTS[1:]), mixed.choice(DTYPES)))
        yield from dict.fromkeys(found)


def base_shape(layout: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a base array from which `lay_out` makes a view of the given shape."""
    match layout:
        case "transposed":
            return shape[::-1]
        case "strided":
            return (*shape[:-1], 2 * shape[-1])
        case "broadcast":
            return (1, *shape[1:])
        case _:
            return shape


def lay_out(xp: Any, base: Any, layout: str, shape: tuple[int, ...]) -> Any:
    """Return a view of `base` with the given layout and shape. For the layout "C", return `base` itself."""
    match layout:
        case "transposed":
            return base.T
        case "strided":
            return base[..., ::2]
        case "reversed":
            return base[::-1]
        case "broadcast":
            return xp.broadcast_to(base, shape)
        case _:
            return base


def values(dtype: str, shape: tuple[int, ...], source: np.random.Generator, mostly: bool) -> np.ndarray:
    """Return random values for an operand.

    Integers are from 1 to 99. Floats, and the real and imaginary parts of complex numbers, are from 0.5 to 50. Booleans
    are random in the middle third of all axes, and equal to `mostly` elsewhere, so that a search from either end does
    not stop early.
    """
    kind = np.dtype(dtype).kind
    if kind == "b":
        found = np.full(shape, mostly)
        inner = found[tuple(slice(n // 3, max(n // 3 + 1, 2 * n // 3)) for n in shape)]
        inner[...] = source.random(inner.shape) < 0.5
        return found
    if kind in "ui":
        return source.integers(1, 100, shape).astype(dtype)
    real = source.uniform(0.5, 50, shape)
    return (real + 1j * source.uniform(0.5, 50, shape) if kind == "c" else real).astype(dtype)


def operands(xp: Any, case: Case, elements: int) -> tuple[Any, Any, Extra]:
    """Return the two operands and the further arguments of a case.

    All arrays are arrays of `xp`, which is NumPy or weft.
    """
    source = np.random.default_rng(7)
    shape = shapes(elements)[case.shape]
    below = base_shape(case.layout, shape)
    x, y, zeros = (
        lay_out(xp, xp.asarray(array), case.layout, shape)
        for array in (
            values(case.dtype, below, source, False),
            values(case.dtype, below, source, True),
            np.zeros(below, case.dtype),
        )
    )
    extra = Extra(
        limit=False if case.dtype == "bool" else 25,
        rows=xp.asarray(source.integers(0, shape[0], shape[0])),
        flat=xp.asarray(source.integers(0, math.prod(shape), math.prod(shape))),
        chosen=xp.asarray(source.random(shape) < 0.5),
        zeros=zeros,
    )
    return x, y, extra
