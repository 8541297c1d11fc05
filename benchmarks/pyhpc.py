"""Two programs of dionhaefner/pyhpc-benchmarks, loaded from a checkout.

The programs are measured in the fused suite. Each has the versions that its authors wrote for several libraries. Weft
runs the version for NumPy. torch.compile runs the version for PyTorch, without TorchScript.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.programs import Arrays, Program
from weft.dsl.script.redirect import load_program

# Folder, prefix of its files, name of the function to measure with JAX, maximum difference.
PROGRAMS = (
    ("equation_of_state", "eos", "gsw_dHdT", 1e-8),
    ("isoneutral_mixing", "isoneutral", "isoneutral_diffusion_pre", 1e-8),
)
SIZE, QUICK = 1 << 22, 1 << 12


def programs(folder: Path) -> tuple[Program, ...]:
    """Return the programs in a checkout. The versions for other libraries are loaded when they are accessed."""
    return tuple(_program(folder / "benchmarks" / name, *rest) for name, *rest in PROGRAMS)


class _Forms(Mapping[str, Callable[..., Any]]):
    """A mapping from names of libraries to versions of a program for them. Each access loads the version."""

    def __init__(self, loaders: Mapping[str, Callable[[], Callable[..., Any]]]) -> None:
        self._loaders = loaders

    def __getitem__(self, name: str) -> Callable[..., Any]:
        run = self._loaders[name]()
        return lambda xp, *arrays: run(*arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


def _program(folder: Path, prefix: str, work: str, tolerance: float) -> Program:
    def inputs(_: np.random.Generator, size: int) -> Arrays:
        arrays: Arrays = _load(folder / "__init__.py").generate_inputs(size)
        return arrays

    plain = folder / f"{prefix}_numpy.py"
    forms = _Forms(
        {
            "numpy": lambda: load_program(plain, plain.stem, to_weft=False)["run"],
            "weft": lambda: load_program(plain, plain.stem)["run"],
            "numba": lambda: _load(folder / f"{prefix}_numba.py").run,
            "jax": lambda: getattr(_load(folder / f"{prefix}_jax.py"), work),
            "torch": lambda: _without_script(folder / f"{prefix}_pytorch.py").run,
        }
    )
    name = f"{folder.name.replace('_', ' ')}, {SIZE >> 20} M float64"
    return Program(name, forms["numpy"], inputs, SIZE, QUICK, tolerance, forms=forms)


def _load(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module  # Numba looks it up there
    found.loader.exec_module(module)
    return module


def _without_script(path: Path) -> ModuleType:
    """Load a module with `torch.jit.script` disabled, so that torch.compile gets plain functions."""
    with patch("torch.jit.script", lambda function: function):
        return _load(path)
