"""Functions that create a `Subject`, a program to run with NumPy or with weft.

For NumPy, a program is loaded as Python loads it. For weft, the same file is loaded as ``weft run`` loads it, with weft
in place of NumPy.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.worker import Subject

GROWING_ERRORS = 1e-6  # tolerance, relative to the largest value

Program = Callable[..., Any]
Results = Callable[[list[Any], Any], dict[str, np.ndarray]]


def load_module(path: Path, name: str = "") -> ModuleType:
    """Load a file as a module."""
    found = importlib.util.spec_from_file_location(name or path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[module.__name__] = module  # Numba looks it up there
    found.loader.exec_module(module)
    return module


def returned_values(returned: Any) -> dict[str, Any]:
    """Return a program's results as a dict by name, without results that are None."""
    values = returned if isinstance(returned, (tuple, list)) else [returned]
    return {f"result {k}": value for k, value in enumerate(v for v in values if v is not None)}


def numpy_results(arguments: list[Any], returned: Any) -> dict[str, np.ndarray]:
    """Return a program's results as a dict of NumPy arrays by name."""
    return {name: np.asarray(value) for name, value in returned_values(returned).items()}


def compare(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray], growing: bool = False) -> str:
    """Return a description of how weft's results differ from NumPy's, or "" if they agree.

    Parameters
    ----------
    growing : bool
        Whether rounding errors grow as the program runs, so that a larger tolerance applies.
    """
    if list(ours) != list(theirs):
        return f"{', '.join(ours)} instead of {', '.join(theirs)}"
    for name, y in theirs.items():
        x = ours[name]
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"{name} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        single = x.dtype in (np.float32, np.complex64)
        scale = np.abs(y[np.isfinite(y)]).max(initial=0) if y.dtype.kind in "fc" else 0
        rtol, atol = (1e-4, 1e-6) if single else (1e-9, 1e-12)
        if not np.allclose(x, y, rtol=rtol, atol=(GROWING_ERRORS if growing else atol) * scale, equal_nan=True):
            return f"{name} differs by up to {np.nanmax(np.abs(x - y)):.3g} (largest value {scale:.3g})"
    return ""


def numpy_subject(program: Program, values: Sequence[Any], results: Results) -> Subject:
    """Return a `Subject` that calls a program with copies of NumPy arrays.

    The program is one for NumPy, or a port to a library that accepts NumPy arrays, such as Numba.
    """

    def arguments() -> list[Any]:
        return [value.copy() if isinstance(value, np.ndarray) else value for value in values]

    return Subject(arguments, lambda made: program(*made), results)


def weft_subject(path: Path, function: str, values: Sequence[Any], results: Results) -> Subject:
    """Return a `Subject` that runs a function from a file as ``weft run`` does.

    The array arguments are created by the `numpy.array` of ``weft run``.
    """
    from weft.dsl.script.numpy_face import submodule
    from weft.dsl.script.redirect import load_program

    program = load_program(path, path.stem)[function]
    return weft_call(program, submodule("numpy").array, values, results)


def weft_call(program: Program, array: Callable[[Any], Any], values: Sequence[Any], results: Results) -> Subject:
    """Return a `Subject` that calls a program with weft arrays.

    A call includes the evaluation of all results and arguments.
    """
    import weft as wf

    def arguments() -> list[Any]:
        made = [array(value) if isinstance(value, np.ndarray) else value for value in values]
        wf.evaluate(*[value for value in made if isinstance(value, wf.Array)])
        return made

    def call(made: list[Any]) -> Any:
        returned = program(*made)
        wf.evaluate(*[v for v in (*returned_values(returned).values(), *made) if isinstance(v, wf.Array)])
        wf.default_device().synchronize()
        return returned

    def counters() -> dict[str, int]:
        counts = wf.statistics()
        return {name: counts[name] for name in ("plans", "plans_read", "compilations", "kernels")}

    def waiting() -> int:
        return int(wf.statistics()["compiling"])

    def kernel_share(made: list[Any]) -> float:
        with wf.profile() as profile:
            begin = time.perf_counter()
            call(made)
            seconds = time.perf_counter() - begin
        return sum(kernel.seconds for kernel in profile.kernels) / seconds

    return Subject(arguments, call, results, counters, waiting, kernel_share)
