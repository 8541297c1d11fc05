"""Tests of whole programs: the number of kernels, the memory traffic, and the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from benchmarks.programs import PROGRAMS as BENCHMARKS
from weft.fusion import explain_storages

Result = Any
N = 96
A = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((N, N)).astype(np.float32)


def softmax(xp: Any, x: Any) -> Result:
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(xp: Any, x: Any) -> Result:
    shifted = x - x.max(axis=1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=1, keepdims=True))


def layer_norm(xp: Any, x: Any) -> Result:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


def normalise(xp: Any, x: Any) -> Result:
    return x / xp.sqrt((x * x).sum(axis=1, keepdims=True))


def jacobi_step(xp: Any, x: Any) -> Result:
    u = x.copy()
    u[1:-1, 1:-1] = 0.2 * (u[1:-1, 1:-1] + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


def two_buffers(xp: Any, x: Any, new: Any) -> Result:
    new = new.copy()
    new[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return new


def k_means_step(xp: Any, x: Any, centres: Any) -> Result:
    label = ((x[:, None, :] - centres[None]) ** 2).sum(-1).argmin(1)
    mine = label[None, :] == xp.arange(centres.shape[0])[:, None]
    sums = xp.where(mine[:, :, None], x[None], xp.float32(0)).sum(1)
    return sums / xp.maximum(mine.sum(1), 1)[:, None]


# name -> program, inputs, number of kernels, ratio of moved bytes to necessary bytes
PROGRAMS: dict[str, tuple[Callable[..., Result], tuple[np.ndarray, ...], int, float]] = {
    "softmax": (softmax, (A,), 1, 1.0),
    "log-softmax": (log_softmax, (A,), 1, 1.0),
    "layer norm": (layer_norm, (A,), 1, 1.0),
    "RMS norm": (lambda xp, x: x / xp.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5), (A,), 1, 1.0),
    "softmax, then layer norm": (lambda xp, x: layer_norm(xp, softmax(xp, x)), (A,), 1, 1.0),
    "x / norm(x)": (normalise, (A,), 1, 1.0),
    "variance of rows": (lambda xp, x: x.var(axis=1), (A,), 1, 1.0),
    "deviation of columns": (lambda xp, x: x.std(axis=0), (A,), 1, 1.0),
    "standard score": (lambda xp, x: (x - x.mean(axis=0)) / x.std(axis=0), (A,), 1, 1.0),
    # deviations need the complete mean, and x does not fit on chip, so x is read twice
    "variance of all": (lambda xp, x: x.var(), (A,), 2, 2.001),
    "argmax with value": (lambda xp, x: (x.argmax(axis=1), x.max(axis=1)), (A,), 1, 1.0),
    "three reductions": (lambda xp, x: (x.max(), x.mean(), (x * x).sum()), (A,), 1, 1.0),
    "rows and columns": (lambda xp, x: (x.sum(axis=0), x.sum(axis=1)), (A,), 2, 2.0),
    "Jacobi step": (jacobi_step, (A,), 1, 1.0),
    "Jacobi step of two buffers": (two_buffers, (A, B), 1, 1.0),
    "distances of normalised points": (
        lambda xp, x, y: ((normalise(xp, x)[:, None, :] - normalise(xp, y)[None]) ** 2).sum(-1),
        (A[:, :3].copy(), B[:, :3].copy()),
        3,
        1.2,
    ),
    "k-means step": (k_means_step, (A[:, :4].copy(), B[:8, :4].copy()), 3, 4.0),
}


def results_of(value: Result) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_bytes_and_values(name: str) -> None:
    run, inputs, kernels, times = PROGRAMS[name]
    found = results_of(run(wf, *(wf.asarray(x) for x in inputs)))
    told = explain_storages([a._storage for a in found], timed=False)
    assert len(told.kernels) <= kernels, told
    moved = sum(k.bytes_read + k.bytes_written for k in told.kernels)
    assert moved <= times * told.least, told
    wanted = results_of(run(np, *(x.astype(np.float64) for x in inputs)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("program", BENCHMARKS, ids=lambda p: p.name)
def test_programs_of_the_benchmarks(program: Any) -> None:
    inputs = program.inputs(np.random.default_rng(0), program.quick)
    found = results_of(program.run(wf, *(wf.asarray(x) for x in inputs)))
    told = explain_storages([a._storage for a in found], timed=False)
    steps = 10 if program.name.startswith("Jacobi") else 1
    assert len(told.kernels) == steps, told
    moved = sum(k.bytes_read + k.bytes_written for k in told.kernels)
    assert told.least <= moved <= steps * told.least
    wf.reset_statistics()
    wf.evaluate(*found)
    assert wf.statistics()["bytes"] == moved


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max"])
def test_short_reductions_written_out_have_the_bits_of_loops(dtype: str, name: str) -> None:
    values = np.random.default_rng(7).standard_normal((40, 9, 4)) * 3
    x = wf.asarray(values.astype(dtype))

    def inner() -> wf.Array:
        return getattr(x, name)(axis=2)

    stored = wf.evaluate(inner())
    apart = wf.evaluate(abs(stored).max(axis=1))
    wf.reset_statistics()
    together = wf.evaluate(abs(inner()).max(axis=1))
    assert wf.statistics()["kernels"] == 1
    np.testing.assert_array_equal(np.asarray(together), np.asarray(apart))
