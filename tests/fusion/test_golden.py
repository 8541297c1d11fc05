"""Tests that the texts of plans and of their kernels equal the golden files.

``pytest tests/fusion/test_golden.py --update-golden`` rewrites the golden files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tests.oracle.parse import parse_kernel
from weft.codegen import print_kernel
from weft.fusion import explain_storages, kernels_of

pytestmark = pytest.mark.cpu

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
A = np.ones((6, 8))


def stencil() -> wf.Array:
    x = wf.asarray(A)
    x[1:-1, 1:-1] += 0.1 * (x[2:, 1:-1] + x[:-2, 1:-1])
    return x


def time_steps() -> wf.Array:
    with wf.device("simt"):
        u = wf.zeros((4096, 4096), np.float32)
        wf.evaluate(u)
        for _ in range(3):
            u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        return u


def rows_and_columns() -> tuple[wf.Array, ...]:
    x = wf.asarray(np.ones((2100, 128), np.float32))
    return x.sum(axis=0), x.max(axis=1)


PROGRAMS: dict[str, Callable[[], wf.Array | tuple[wf.Array, ...]]] = {
    "rows and columns": rows_and_columns,
    "polynomial": lambda: (lambda x: 2.0 * x + 3.0 * x * x - 1.0)(wf.asarray(A)),
    "softmax": lambda: (lambda e: e / e.sum(1, keepdims=True))(
        wf.exp(wf.asarray(A) - wf.asarray(A).max(1, keepdims=True))
    ),
    "stencil": stencil,
    "time steps": time_steps,
    "transpose": lambda: (lambda x: x[:, :6] + x.T[:6, :6])(wf.asarray(A)),
    "argmax": lambda: wf.asarray(A).argmax(axis=0),
    "scan": lambda: wf.asarray(A).cumsum(axis=1),
    "long scan": lambda: (wf.asarray(np.ones(100_000)) * 0.5).cumsum() + 1,
    "variance": lambda: wf.asarray(np.ones(100_000, np.float32)).var(),
    "gather": lambda: wf.asarray(A)[[1, 0], 2:] * 2,
    "product": lambda: wf.maximum(wf.asarray(np.ones((6, 16))) @ wf.asarray(np.ones((16, 8))) + wf.asarray(A)[0], 0),
    "projection": lambda: (lambda x: (x - x.mean(0)) @ wf.asarray(np.ones((16, 12))))(wf.asarray(np.ones((20, 16)))),
    "gram matrix": lambda: (lambda x: x.T @ x)(wf.asarray(np.ones((20, 16)))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_plan(name: str, update_golden: bool) -> None:
    made = PROGRAMS[name]()
    storages = [array._storage for array in (made if isinstance(made, tuple) else (made,))]
    kernels = kernels_of(storages)
    text = f"{explain_storages(storages, timed=False)}\n\n" + "\n".join(print_kernel(k) for k in kernels)
    # the source lines of operations are not part of the plan
    text = "\n".join(line for line in text.splitlines() if "members:" not in line) + "\n"
    path = GOLDEN / f"{name}.txt"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    for kernel in kernels:
        assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
