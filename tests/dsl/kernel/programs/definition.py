"""A decorator that adds a CUDA program with test cases to `PROGRAMS`.

Invariant: every program is free of races, reads no uninitialized memory, and has a result that does not depend on the
order of threads, so that its oracle is exact. Sums whose order varies are sums of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.dsl.kernel.probes.definition import Probe, probe

PROGRAMS: list[Probe] = []
SOURCE = np.random.default_rng(11)


def program(
    want: Callable[..., Any], *cases: tuple[tuple[Any, ...], tuple[Any, ...]], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds a kernel to the list `PROGRAMS`, once for each test case. The function `want` computes the expected results.

    A case is a launch configuration and the arguments of the kernel.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for number, (launch, arguments) in enumerate(cases):
            name = f"{function.__name__}-{number}"
            probe(*arguments, launch=launch, want=want, into=PROGRAMS, name=name, **options)(function)
        return function

    return enter


def whole(*shape: int, high: int = 64, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of random whole numbers."""
    return SOURCE.integers(-high, high, shape).astype(dtype)


def zeros(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of zeros for results."""
    return np.zeros(shape, dtype)


def blocks(n: int, size: int) -> int:
    """Return the number of blocks of `size` threads that are needed for `n` threads."""
    return -(-n // size)
