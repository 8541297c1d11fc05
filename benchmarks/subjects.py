"""Sides of a comparison that suites of programs have in common, as they run in a worker's process.

NumPy's side loads a program as Python does. Weft's runs the same file as ``weft run`` does, with weft in place of NumPy.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.worker import Subject

Program = Callable[..., Any]
Results = Callable[[list[Any], Any], dict[str, np.ndarray]]


def load_module(path: Path, name: str = "") -> ModuleType:
    """Load a file as a module."""
    found = importlib.util.spec_from_file_location(name or path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[module.__name__] = module  # Numba looks for it there
    found.loader.exec_module(module)
    return module


def copies(values: Sequence[Any]) -> list[Any]:
    """Return the values with new arrays in place of arrays."""
    return [value.copy() if isinstance(value, np.ndarray) else value for value in values]


def returned_values(returned: Any) -> dict[str, Any]:
    """Return what a program returned, by name; nothing for None."""
    values = returned if isinstance(returned, (tuple, list)) else [returned]
    return {f"result {k}": value for k, value in enumerate(v for v in values if v is not None)}


def weft_subject(path: Path, function: str, values: Sequence[Any], results: Results) -> Subject:
    """Return a program's function on weft; a call ends when its results and arguments are evaluated."""
    import weft as wf
    from weft.dsl.numpy_face import submodule
    from weft.dsl.redirect import Redirected

    program = Redirected(path.parent).run(path, path.stem)[function]
    array = submodule("numpy").array

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
        return {name: counts[name] for name in ("plans", "compilations", "kernels")}

    def kernel_share(made: list[Any]) -> float:
        with wf.profile() as profile:
            begin = time.perf_counter()
            call(made)
            seconds = time.perf_counter() - begin
        return sum(kernel.seconds for kernel in profile.kernels) / seconds

    return Subject(arguments, call, results, counters, kernel_share)
