"""Execution of kernels as plain Python (``WEFT_KERNEL_PYTHON=1``).

In: the kernel's Python function, grid, block, bytes of dynamic shared memory, and arguments. Out: its effects on the
arrays. Invariant: a program always has the same thread schedule. An error names its block and thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.dsl.kernel.launch.arguments import map_leaves
from weft.dsl.kernel.python_mode.simulate_arrays import as_kernel_array
from weft.dsl.kernel.python_mode.simulate_bfloat16 import seen
from weft.dsl.kernel.python_mode.simulate_functions import with_kernel_names
from weft.dsl.kernel.python_mode.simulate_intrinsics import ACTIONS
from weft.dsl.kernel.python_mode.simulate_threads import SimulatedLaunch, Triple


def run_python(
    function: Callable[..., Any], grid: Triple, block: Triple, shared_bytes: int, arguments: Iterable[Any]
) -> None:
    """Run a kernel as plain Python by calling it once per thread.

    The kernel reads and writes NumPy arrays in place. Numbers are passed unchanged, except that bfloat16 scalars become
    `Brain` objects.

    Raises
    ------
    DivergenceError
        If threads wait for one another at different barriers or warp operations.
    Exception
        Any exception of the function, with a note that names block and thread. Then no other thread runs.

    Notes
    -----
    Threads run one after another in the calling OS thread. If a thread waits for others, its OS thread sleeps with its
    stack, and the other threads continue in another OS thread. So a debugger always sees exactly one running thread.
    """
    passed = tuple(map_leaves(_as_seen, argument) for argument in arguments)
    SimulatedLaunch(with_kernel_names(function), passed, grid, block, shared_bytes, ACTIONS).run()


def _as_seen(argument: Any) -> Any:
    """Convert an array or a number to the form in which kernels in Python mode receive it."""
    return as_kernel_array(argument) if isinstance(argument, np.ndarray) else seen(argument)
