"""A NumPy reference for texture fetches, and kernels that sample textures.

The reference follows the CUDA C++ Programming Guide.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import cuda


def along_axis(x: float, n: int, linear: bool, address: str, normalized: bool) -> list[tuple[int | None, float]]:
    """Return (index, weight) pairs for one axis of a texture. Along this axis, a sample is the weighted sum of the elements at the indices.

    The index None stands for the border.
    """
    x = float(np.float32(x))
    if normalized:
        if address == "wrap":
            x -= np.floor(x)
        elif address == "mirror":
            x = abs((x + 1) % 2 - 1)
        x = float(np.float32(x) * np.float32(n))
    if not linear:
        return [(inside(int(np.floor(x)), n, address), 1.0)]
    x -= 0.5
    first = int(np.floor(x))
    part = np.floor((x - first) * 256 + 0.5) / 256
    return [(inside(first, n, address), 1 - part), (inside(first + 1, n, address), part)]


def inside(i: int, n: int, address: str) -> int | None:
    """Return an index within the texture for the index `i`, or None for the border.

    Indices outside of the texture are wrapped for "wrap", and clamped for "clamp" and "mirror".
    """
    if 0 <= i < n:
        return i
    if address == "border":
        return None
    return i % n if address == "wrap" else min(max(i, 0), n - 1)


def sample(
    values: np.ndarray, points: Sequence[Sequence[float]], filter: str, address: str, normalized: bool
) -> np.ndarray:
    """Sample a texture at points, and return the samples as float64 numbers. Each point has one coordinate per axis: (x), (x, y) or (x, y, z)."""
    out = np.zeros(len(points), np.float64)
    for at, point in enumerate(points):
        axes = [
            along_axis(x, n, filter == "linear", address, normalized)
            for x, n in zip(point, values.shape[::-1], strict=True)
        ]
        for parts in itertools.product(*axes):
            index, weights = tuple(i for i, _ in parts)[::-1], [w for _, w in parts]
            if None not in index:
                out[at] += float(values[index]) * np.prod(weights)
    return out


def sample_1d(t: Any, points: Any, out: Any) -> None:
    """Sample a 1-D texture at each point."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = t.sample(points[i, 0])


def sample_2d(t: Any, points: Any, out: Any) -> None:
    """Sample a 2-D texture at each point."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = t.sample(points[i, 0], points[i, 1])


def sample_3d(t: Any, points: Any, out: Any) -> None:
    """Sample a 3-D texture at each point."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = t.sample(points[i, 0], points[i, 1], points[i, 2])


KERNELS = (sample_1d, sample_2d, sample_3d)
SHAPES = ((9,), (5, 7), (4, 3, 6))
MODES = [
    ("nearest", "clamp", False),
    ("nearest", "border", False),
    ("nearest", "wrap", True),
    ("nearest", "mirror", True),
    ("nearest", "clamp", True),
    ("linear", "clamp", False),
    ("linear", "border", False),
    ("linear", "wrap", True),
    ("linear", "mirror", True),
    ("linear", "border", True),
]


def points_of(shape: tuple[int, ...], normalized: bool) -> np.ndarray:
    """Return random points inside and outside of a texture.

    No coordinate is so close to a rounding boundary that the order of computation matters.
    """
    rng = np.random.default_rng(len(shape))
    steps = rng.integers(-2 * 64, 3 * 64, (200, len(shape))) / 64 + 1 / 256  # in axis lengths, never on a border
    if normalized:
        return steps.astype(np.float32)
    return (steps * np.array(shape[::-1])).astype(np.float32)
