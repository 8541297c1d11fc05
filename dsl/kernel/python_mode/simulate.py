"""Execution of kernels as plain Python, enabled by ``WEFT_KERNEL_PYTHON=1``.

In: the kernel's Python function, grid, block, bytes of dynamic shared memory, and arguments. Out: its effects on the
arrays. Invariant: a program always has the same thread schedule. An error names its block and thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.dsl.kernel.language.kernel_errors import LaunchError
from weft.dsl.kernel.python_mode.simulate_arrays import as_kernel_array
from weft.dsl.kernel.python_mode.simulate_bfloat16 import seen
from weft.dsl.kernel.python_mode.simulate_functions import with_kernel_names
from weft.dsl.kernel.python_mode.simulate_intrinsics import ACTIONS
from weft.dsl.kernel.python_mode.simulate_threads import SimulatedLaunch, Triple

__all__ = ["run_python"]


def run_python(
    function: Callable[..., Any],
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    shared_bytes: int,
    arguments: Iterable[Any],
) -> None:
    """Run a kernel as plain Python by calling it once per thread.

    Parameters
    ----------
    function : callable
        The plain function; the device functions that it calls run as Python too.
    grid, block : int or tuple of int
        Blocks, and threads of a block: one to three numbers, x first.
    shared_bytes : int
        Dynamic shared memory of each block.
    arguments : iterable
        NumPy arrays, which the kernel reads and writes in place; tuples; numbers, which are passed as they are.

    Raises
    ------
    DivergenceError
        If threads wait for one another at different barriers or warp operations.
    Exception
        Any exception of the function, with a note that names block and thread. No other thread runs after it.

    Notes
    -----
    Threads run one after another in the calling OS thread. If a thread waits for others, its OS thread sleeps with its
    stack, and the other threads continue in another OS thread. So a debugger always sees exactly one running thread.
    """
    passed = tuple(_as_seen(argument) for argument in arguments)
    launch = SimulatedLaunch(
        with_kernel_names(function), passed, _triple("grid", grid), _triple("block", block), int(shared_bytes), ACTIONS
    )
    launch.run()


def _as_seen(argument: Any) -> Any:
    """Convert an argument to the form in which kernels in Python mode receive it.

    Arrays become views of type `KernelArray`.
    """
    if isinstance(argument, np.ndarray):
        return as_kernel_array(argument)
    if isinstance(argument, tuple):
        items = [_as_seen(item) for item in argument]
        return type(argument)(*items) if hasattr(argument, "_fields") else tuple(items)
    return seen(argument)


def _triple(name: str, size: int | tuple[int, ...]) -> Triple:
    axes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(axes) <= 3 or any(not hasattr(n, "__index__") or n < 1 for n in axes):
        raise LaunchError(f"the {name} is one to three whole numbers from 1, not {size!r}")
    x, y, z = (*(int(n) for n in axes), 1, 1)[:3]
    return x, y, z
