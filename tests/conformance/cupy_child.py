"""A pytest plugin that runs CuPy's tests with weft or NumPy in place of CuPy.

The plugin is configured by the environment variables ``CUPY_TESTS_*``, which `tests.conformance.cupy_suite` sets. It
writes a file with one line of JSON for each test. Invariant: of the checkout of CuPy, only ``cupy/testing`` and the
tests are loaded. Stand-ins replace CuPy's internal modules. A test that calls a function of a stand-in is skipped.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import math
import os
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CHECKOUT = Path(os.environ["CUPY_TESTS_CHECKOUT"])
BACKEND = importlib.import_module(os.environ["CUPY_TESTS_BACKEND"])
EVERY = int(os.environ["CUPY_TESTS_EVERY"])
RESULTS = Path(os.environ["CUPY_TESTS_RESULTS"])
DELEGATED = ("linalg", "fft", "random")  # submodules that the backend has as well

# Bit generators that only CuPy has, and NumPy's bit generators that replace them.
BIT_GENERATORS = {"XORWOW": "SFC64", "MRG32k3a": "PCG64", "Philox4x3210": "Philox", "BitGenerator": "BitGenerator"}


class _Internal:
    """A stand-in for an object that only CuPy has. Tests that call it are skipped."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Internal(f"{self._name}.{name}")

    def __bool__(self) -> bool:
        return False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if _collecting:
            return self
        pytest.skip(f"internal: {self._name}")

    def __index__(self) -> int:
        return 0 if _collecting else int(self())

    def __lt__(self, other: Any) -> bool:
        return False

    __gt__ = __ge__ = __le__ = __lt__

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()


_collecting = [True]


class _InternalModule(types.ModuleType):
    """A stand-in for a module that only CuPy has."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Internal(f"{self.__name__}.{name}")


class _DelegatingModule(types.ModuleType):
    """A stand-in for a CuPy module. It looks up attributes in the corresponding module of the library under test."""

    __path__: list[str] = []

    def __init__(self, name: str, backend: Any) -> None:
        super().__init__(name)
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class _FftConfiguration(types.ModuleType):
    """A stand-in for ``cupy.fft.config``. Its obsolete option issues the same warning as CuPy's."""

    _planning = True

    @property
    def enable_nd_planning(self) -> bool:
        warnings.warn("enable_nd_planning is obsolete", DeprecationWarning, stacklevel=2)
        return self._planning

    @enable_nd_planning.setter
    def enable_nd_planning(self, value: bool) -> None:
        warnings.warn("enable_nd_planning is obsolete", DeprecationWarning, stacklevel=2)
        self._planning = value

    use_multi_gpus = _use_multi_gpus = False


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer of stand-ins for modules of CuPy."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        package = fullname.partition(".")[0]
        if package not in ("cupy", "cupyx", "cupy_backends") or fullname.startswith("cupy.testing."):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _InternalModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: a stand-in has no code."""


def _install(module: types.ModuleType) -> types.ModuleType:
    """Add a module to `sys.modules` and to its package."""
    package, _, name = module.__name__.rpartition(".")
    sys.modules[module.__name__] = module
    if package:
        setattr(sys.modules[package], name, module)
    return module


def _module_of(array: Any) -> Any:
    return BACKEND if isinstance(array, BACKEND.ndarray) and type(array) is not np.ndarray else np


def install_stand_ins() -> None:
    """Install the backend as ``cupy``, and stand-ins as CuPy's other modules.

    ``cupy.testing`` is loaded from the checkout.
    """
    sys.meta_path.insert(0, _Finder())
    cupy: Any = _install(_DelegatingModule("cupy", BACKEND))
    cupy.asnumpy = lambda a, *rest, **options: np.asarray(a)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    cupy.get_array_module = lambda *arrays: next((BACKEND for a in arrays if _module_of(a) is BACKEND), np)
    for name in DELEGATED:
        _install(_DelegatingModule(f"cupy.{name}", getattr(BACKEND, name)))
    generator: Any = _install(types.ModuleType("cupy.random._generator"))
    generator._random_states, generator.RandomState = {}, BACKEND.random.RandomState
    generators: Any = _install(types.ModuleType("cupy.random._bit_generator"))
    generators.__dict__.update({name: getattr(BACKEND.random, numpys) for name, numpys in BIT_GENERATORS.items()})
    sys.modules["cupy.random"].reset_states = lambda: setattr(generator, "_random_states", {})  # type: ignore[attr-defined]
    exceptions = _install(types.ModuleType("cupy.exceptions"))
    exceptions.__dict__.update({k: v for k, v in vars(np.exceptions).items() if not k.startswith("_")})
    _install(_FftConfiguration("cupy.fft.config"))
    for name in ("cupy._core", "cupy._util", "cupy.cuda", "cupyx", "cupyx.scipy", "cupyx.scipy.sparse"):
        _install(importlib.import_module(name))
    sys.modules["cupy._core"].internal = _install(types.ModuleType("cupy._core.internal"))  # type: ignore[attr-defined]
    sys.modules["cupy._core.internal"].prod = math.prod  # type: ignore[attr-defined]
    sys.modules["cupy._util"].PerformanceWarning = type("PerformanceWarning", (RuntimeWarning,), {})  # type: ignore[attr-defined]
    sys.modules["cupyx"].errstate = lambda **options: contextlib.nullcontext()  # type: ignore[attr-defined]
    sys.modules["cupyx.scipy.sparse"].issparse = lambda value: False  # type: ignore[attr-defined]
    testing = types.ModuleType("cupy.testing")
    testing.__path__ = [str(CHECKOUT / "cupy" / "testing")]
    _install(testing)
    _load_loops(CHECKOUT / "cupy" / "testing" / "_loops.py")
    exec(compile((CHECKOUT / "cupy" / "testing" / "__init__.py").read_text(), "testing", "exec"), vars(testing))


def _load_loops(path: Path) -> None:
    """Load the module ``cupy.testing._loops`` after replacing ``.get()`` by ``cupy.asnumpy``. Only CuPy's arrays have a method `get`."""
    module = types.ModuleType("cupy.testing._loops")
    module.__file__ = str(path)
    text = path.read_text().replace("cupy_r[mask].get()", "cupy.asnumpy(cupy_r)[mask]")
    _install(module)
    exec(compile(text, str(path), "exec"), vars(module))


def pytest_configure(config: pytest.Config) -> None:
    """Install the stand-ins before the tests are collected."""
    install_stand_ins()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep every `EVERY`-th parametrization of each test, starting with the first."""
    _collecting.clear()
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        test = re.sub(r"_param_\d+_\{.*?\}(?=::)|\[.*\]$", "", item.nodeid, flags=re.DOTALL)
        if seen[test] % EVERY == 0:
            kept.append(item)
        seen[test] += 1
    items[:] = kept


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test."""
    if report.when != "call" and report.outcome == "passed":
        return
    cause = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps([report.nodeid, report.outcome, cause]) + "\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write the failure of a file that cannot be imported."""
    if report.failed:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, "failed", str(report.longrepr)]) + "\n")
