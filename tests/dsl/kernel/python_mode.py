"""Execution of a kernel as plain Python, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.kernel.language import names as cuda
from weft.dsl.kernel.launch.dispatcher import triple
from weft.dsl.kernel.python_mode.simulate import run_python

FULL = 0xFFFFFFFF
f32 = np.float32


def run(kernel: Callable[..., None], grid: Any, block: Any, *arguments: Any, shared: int = 0) -> None:
    run_python(kernel, triple("grid", grid), triple("block", block), shared, arguments)


def by_thread(kernel: Callable[..., Any], threads: int = 32, dtype: Any = np.int64, grid: int = 1) -> np.ndarray:
    """Call a function without arguments in each thread, and return the results."""

    def store(out: np.ndarray) -> None:
        value = kernel()
        out[cuda.grid(1)] = value

    out = np.full(threads * grid, 99, dtype)
    run(store, grid, threads, out)
    return out
