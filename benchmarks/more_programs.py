"""Additional programs for the fused suite.

Inputs and outputs are as in `benchmarks.programs`. The programs run if ``--more`` is given or the device is a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import Arrays, Program, _line, _normal, _square

BINS = 64
CENTRES = 16


def cumulative_sum(xp: Any, x: Any) -> Any:
    """Return the cumulative sums of a long array, with elementwise scaling before and after."""
    return xp.cumsum(x * 0.5) * 2.0


def _torch_cumulative_sum(xp: Any, x: Any) -> Any:
    return xp.cumsum(x * 0.5, dim=0) * 2.0


def histogram(xp: Any, x: Any) -> Any:
    """Return the number of values in each of 64 bins, counted with `bincount`."""
    index = xp.clip((x + 4.0) * (BINS / 8.0), 0.0, BINS - 1.0)
    return xp.bincount(index.astype(xp.int32), minlength=BINS)


def _torch_histogram(xp: Any, x: Any) -> Any:
    index = xp.clip((x + 4.0) * (BINS / 8.0), 0.0, BINS - 1.0)
    return xp.bincount(index.to(xp.int32), minlength=BINS)


def _jax_histogram(xp: Any, x: Any) -> Any:
    index = xp.clip((x + 4.0) * (BINS / 8.0), 0.0, BINS - 1.0)
    return xp.bincount(index.astype(xp.int32), length=BINS)


def k_means_step(xp: Any, points: Any, centres: Any) -> Any:
    """Return the new centres after one step of k-means."""
    d = points[:, None, :] - centres[None, :, :]
    label = (d * d).sum(axis=2).argmin(axis=1)
    member = label[:, None] == xp.arange(CENTRES)[None, :]
    counts = member.sum(axis=0)
    return (member[:, :, None] * points[:, None, :]).sum(axis=0) / xp.maximum(counts, 1)[:, None]


def _torch_k_means_step(xp: Any, points: Any, centres: Any) -> Any:
    d = points[:, None, :] - centres[None, :, :]
    label = (d * d).sum(dim=2).argmin(dim=1)
    member = label[:, None] == xp.arange(CENTRES, device=points.device)[None, :]
    counts = member.sum(dim=0)
    return (member[:, :, None] * points[:, None, :]).sum(dim=0) / xp.clamp(counts, min=1)[:, None]


def _clusters(source: np.random.Generator, n: int) -> Arrays:
    points = source.uniform(0.0, 1.0, (n, 4)).astype(np.float32)
    return points, points[:CENTRES] + np.float32(0.01)


def matmul_epilogue(xp: Any, x: Any, w: Any, b: Any) -> Any:
    """Return the output of a neural network layer: a matrix product, a bias, and ReLU."""
    y = x @ w + b
    return xp.where(y > 0.0, y, 0.0 * y)


MORE = (
    Program("cumulative sum, 16 M", cumulative_sum, _normal(_line), 1 << 24, 4099, 5e-4, streams=True,
            forms={"torch": _torch_cumulative_sum}),
    Program("histogram, 16 M in 64 bins", histogram, _normal(_line), 1 << 24, 4099, 1e-4, streams=True,
            forms={"torch": _torch_histogram, "jax": _jax_histogram}),
    Program("k-means step, 256 K points", k_means_step, _clusters, 1 << 18, 997, 1e-4,
            forms={"torch": _torch_k_means_step}),
    Program("matmul with epilogue, 2048", matmul_epilogue, _normal(_square, _square, _line), 2048, 67, 1e-5),
)  # fmt: skip
