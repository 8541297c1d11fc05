"""A child process that runs one file of numba-cuda's tests on `weft.cuda`.

``python -m tests.conformance.numba_cuda_child FOLDER cudapy/test_atomics`` reads the names of the tests to skip from
the standard input, as JSON. It reports the beginning and the end of each test by a line of JSON that follows a byte 1.
Invariant: no module of numba-cuda is loaded except its tests. Its internal modules are replaced by stand-ins, and a
test that uses a stand-in is skipped.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import os
import shutil
import sys
import tempfile
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.conformance.numba_cuda import INTERNALS
from weft import cuda
from weft.dsl.cuda.memory_array import MemoryArray

CHANNEL = os.fdopen(os.dup(1), "w", buffering=1)


def tell(*event: Any) -> None:
    """Send an event to the parent process."""
    CHANNEL.write("\x01" + json.dumps(event) + "\n")
    CHANNEL.flush()


class Internal(unittest.SkipTest):
    """Raised to skip a test that needs an object which only Numba has."""


class _Anything(type):
    """A metaclass of the classes that stand in for Numba's objects.

    The stand-ins can serve as base classes and decorators. A test that uses one in another way is skipped.
    """

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(f"{cls.__name__}.{name}")

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        if len(arguments) == 1 and not keywords and isinstance(arguments[0], (types.FunctionType, type)):
            return arguments[0]
        if loading.now:
            return stand_in(cls.__name__)
        raise Internal(f"internal: {cls.__name__}")

    def __iter__(cls) -> Iterator[Any]:
        raise Internal(f"internal: {cls.__name__}")

    def __enter__(cls) -> Any:
        raise Internal(f"internal: {cls.__name__}")


class _Loading:
    now = True


loading = _Loading()


def stand_in(name: str) -> Any:
    """Return a stand-in for an object of Numba."""
    return _Anything(name, (), {})


def _absent(module: str, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return stand_in(f"numba.cuda.cudadrv.{module}.{name}")


class _InternalModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An importer of ``numba`` modules.

    It imports weft's modules if they exist, the tests from their folder, and stand-ins for everything else.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "numba" and not name.startswith("numba."):
            return None
        if name.startswith("numba.cuda.tests.") and name.removeprefix("numba.cuda.") not in MADE:
            return None  # found in the folder by the path of its parent package
        if self._module(name) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return self._module(spec.name)

    def exec_module(self, module: Any) -> None:
        pass

    def _module(self, name: str) -> Any:
        inner = name.removeprefix("numba.").removeprefix("core.") if name.startswith("numba.core.") else name
        inner = inner.removeprefix("numba.cuda.")
        if inner in MADE:
            return MADE[inner]
        found = sys.modules.get(f"weft.cuda.{inner}")
        if found is not None:
            return found
        if inner.partition(".")[0] in INTERNALS:
            return _InternalModule(name)
        return None


# -- a replacement for numba.cuda.testing --------------------------------------------------------------


class Config(types.ModuleType):
    """A stand-in for ``numba.cuda.config``, with the flags that tests read and set."""

    ENABLE_CUDASIM = 0
    CUDA_LOW_OCCUPANCY_WARNINGS = 0
    CUDA_WARN_ON_IMPLICIT_COPY = 0
    DISABLE_PERFORMANCE_WARNINGS = 0
    CUDA_ENABLE_NRT = 0
    CUDA_MEMORY_MANAGER = "default"
    CUDA_USE_NVIDIA_BINDING = 1
    CUDA_DEFAULT_PTX_CC = (7, 5)
    CUDA_DEBUG_POLY = 0
    CUDA_DEBUG_POLY_USE_TYPED_CONST = 0
    DUMP_ASSEMBLY = 0
    IS_WIN32 = False
    NUMBA_NUM_THREADS = 2

    def reload_config(self) -> None:
        raise Internal("internal: configuration read again from the environment")


class CUDATestCase(unittest.TestCase):
    """A stand-in for the base class of Numba's tests."""

    longMessage = True
    FLOAT16_RTOL = np.finfo(np.float16).eps

    def assertFileCheckAsm(self, *arguments: Any, **keywords: Any) -> None:
        raise Internal("internal: the text of Numba's PTX")

    assertFileCheckLLVM = assertFileCheckMatches = assertFileCheckAsm


def _condition(holds: bool, why: str) -> Callable[..., Any]:
    def decorate(*arguments: Any) -> Any:
        if arguments and not isinstance(arguments[0], str):
            return unittest.skipUnless(holds, why)(arguments[0])
        return unittest.skipUnless(holds, why)

    return decorate


class ForeignArray:
    """An array that has only ``__cuda_array_interface__``, like an array of an unknown library."""

    def __init__(self, arr: Any) -> None:
        self._arr = arr
        self.__cuda_array_interface__ = arr.__cuda_array_interface__


def _testing(base: type) -> types.ModuleType:
    made = types.ModuleType("numba.cuda.testing")
    names: dict[str, Any] = {
        "unittest": unittest,
        "ForeignArray": ForeignArray,
        "CUDATestCase": type("CUDATestCase", (CUDATestCase, base), {}),
        "skip_on_standalone_numba_cuda": _condition(False, "needs Numba's CPU compiler"),
        "skip_unless_cudasim": _condition(False, "of Numba's simulator"),
        "cc_X_or_above": lambda major, minor: cuda.get_current_device().compute_capability >= (major, minor),
        "xfail_unless_cudasim": unittest.expectedFailure,
        "skip_without_nvdisasm": _condition(False, "SASS is there on a GPU only"),
        "skip_if_curand_kernel_missing": _condition(False, "linked CUDA C needs a GPU"),
        "skip_if_cuda_includes_missing": _condition(False, "linked CUDA C needs a GPU"),
        "skip_if_nvjitlink_missing": _condition(False, "linked code needs a GPU"),
        "skip_if_cudadevrt_missing": _condition(True, ""),
        "test_data_dir": Path(),
        "NumbaCUDATestCase": CUDATestCase,
    }
    made.__dict__.update(names)

    def missing(name: str) -> Any:
        if name.startswith("skip_"):
            return _condition(True, "")
        raise AttributeError(name)

    made.__getattr__ = missing  # type: ignore[method-assign]
    return made


def _shim(tests: Path) -> str:
    """Create a folder for ``PYTHONPATH``, with which child processes import the stand-ins."""
    folder = tempfile.mkdtemp(prefix="weft-conformance-")
    text = (
        "import pathlib, sys\n"
        "if 'tests.conformance.numba_cuda_child' not in sys.argv and not any('numba_cuda_child' in a for a in sys.orig_argv):\n"
        "    from tests.conformance.numba_cuda_child import install, loading\n"
        f"    install(pathlib.Path({str(tests)!r}))\n"
        "    loading.now = False\n"
    )
    Path(folder, "sitecustomize.py").write_text(text)
    return folder


class _Allocations:
    """A stand-in for Numba's counts of the allocations in kernels. In weft, these counts are always 0."""

    def memsys_enable_stats(self) -> None:
        pass

    memsys_disable_stats = memsys_enable_stats

    def get_allocation_stats(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(alloc=0, free=0, mi_alloc=0, mi_free=0)


def _as_numpy(value: Any) -> Any:
    return np.array(value.numpy()) if isinstance(value, weft.Array) else value


MADE: dict[str, Any] = {"cuda": cuda, "config": Config("numba.cuda.core.config")}
MADE["core.config"] = MADE["config"]


def _numba() -> types.ModuleType:
    made = types.ModuleType("numba")
    made.__path__ = []  # type: ignore[attr-defined]
    kinds = {n: v for n, v in vars(cuda.types).items() if isinstance(v, cuda.types.Type)}
    made.__dict__.update(kinds, cuda=cuda, types=cuda.types, config=MADE["config"], __version__="0.61.0")

    def plain(function: Any = None, **options: Any) -> Any:
        return function if isinstance(function, types.FunctionType) else lambda inner: inner

    def for_cuda(name: str) -> Callable[..., Any]:
        def decorate(*arguments: Any, target: str = "cpu", **options: Any) -> Any:
            if target != "cuda":
                raise Internal("internal: Numba's CPU compiler")
            return getattr(cuda, name)(*arguments, **options)

        return decorate

    made.__dict__.update(jit=plain, njit=plain, vectorize=for_cuda("vectorize"), guvectorize=for_cuda("guvectorize"))
    return made


def install(tests: Path) -> None:
    """Make ``numba`` and ``numba.cuda`` importable."""
    numba = _numba()
    utils = types.ModuleType("numba.cuda.utils")
    utils.PYVERSION = sys.version_info[:2]  # type: ignore[attr-defined]
    special = types.ModuleType("numba.cuda.misc.special")
    special.literal_unroll = cuda.literal_unroll  # type: ignore[attr-defined]
    compiler = _InternalModule("numba.cuda.compiler")
    for name in (
        "compile",
        "compile_ptx",
        "compile_ptx_for_current_device",
        "compile_for_current_device",
        "compile_all",
    ):
        setattr(compiler, name, getattr(cuda, name))
    numpy_support = _InternalModule("numba.cuda.np.numpy_support")
    numpy_support.numpy_version = tuple(int(part) for part in np.__version__.split(".")[:2])  # type: ignore[attr-defined]
    numpy_support.from_dtype = cuda.types.from_dtype  # type: ignore[attr-defined]
    numpy_support.as_dtype = lambda kind: kind.dtype  # type: ignore[attr-defined]
    typeof = types.ModuleType("numba.cuda.typing.typeof")
    typeof.typeof = cuda.types.typeof  # type: ignore[attr-defined]
    vectors = types.ModuleType("numba.cuda.vector_types")
    vectors.vector_types = cuda.vector_types.VECTOR_TYPES  # type: ignore[attr-defined]
    numpy_package = _InternalModule("numba.cuda.np")
    numpy_package.numpy_support = numpy_support  # type: ignore[attr-defined]
    MADE.update(
        {
            "utils": utils,
            "misc.special": special,
            "compiler": compiler,
            "np": numpy_package,
            "np.numpy_support": numpy_support,
            "typing.typeof": typeof,
            "vector_types": vectors,
            "tests.cudapy.extensions_usecases": _InternalModule("numba.cuda.tests.cudapy.extensions_usecases"),
        }
    )
    package = types.ModuleType("numba.cuda.tests")
    package.__path__ = [str(tests)]  # type: ignore[attr-defined]
    package.load_testsuite = lambda *ignored: None  # type: ignore[attr-defined]
    builtins.exec = _exec_with_source  # type: ignore[assignment]
    sys.meta_path.insert(0, _Finder())
    sys.modules.update({"numba": numba, "numba.cuda": cuda, "numba.cuda.tests": package, "numba.types": cuda.types})
    numba.errors = cuda.errors  # type: ignore[attr-defined]
    sys.modules["numba.core"] = numba.core = cuda.core  # type: ignore[attr-defined]
    for name, module in vars(cuda.cudadrv).items():
        if isinstance(module, types.ModuleType):
            module.__getattr__ = functools.partial(_absent, name)  # type: ignore[method-assign]
    cuda.cudadrv.__getattr__ = functools.partial(_absent, "cudadrv")
    cuda.core.config = MADE["config"]
    cuda.__dict__.setdefault("HAS_NUMBA", False)
    cuda.__dict__.setdefault("config", MADE["config"])
    memory = MADE["memory_management.nrt"] = _InternalModule("numba.cuda.memory_management.nrt")
    memory.rtsys = _Allocations()  # type: ignore[attr-defined]
    cuda.__dict__["descriptor"] = stand_in("numba.cuda.descriptor")
    cuda.__dict__["launchconfig"] = _InternalModule("numba.cuda.launchconfig")
    numba.typeof = cuda.types.typeof  # type: ignore[attr-defined]
    sys.modules["numba.cuda.config"] = sys.modules["numba.cuda.core.config"] = MADE["config"]
    if not hasattr(cuda, "__path__"):
        cuda.__path__ = []
    base: type = unittest.TestCase
    support = importlib.import_module("numba.cuda.tests.support")
    base = support.TestCase
    precise = base.assertPreciseEqual  # type: ignore[attr-defined]
    # Numba returns NumPy arrays where weft returns its own arrays
    base.assertPreciseEqual = lambda self, first, second, *rest, **options: precise(  # type: ignore[attr-defined]
        self, _as_numpy(first), _as_numpy(second), *rest, **options
    )
    MADE["testing"] = sys.modules["numba.cuda.testing"] = _testing(base)
    cuda.__dict__["testing"] = MADE["testing"]


def _exec_with_source(text: Any, *namespaces: Any) -> None:
    """Execute text and keep its source, as notebooks do. Weft need not reconstruct the source from byte code."""
    if isinstance(text, str):
        name = f"<text {len(linecache.cache)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        text = compile(text, name, "exec")
    caller = sys._getframe(1)
    _exec(text, *(namespaces or (caller.f_globals, caller.f_locals)))


_exec = exec


# -- pytest --------------------------------------------------------------------------------------------


class _Module(pytest.Module):
    def _getobj(self) -> Any:
        loading.now = True
        try:
            return importlib.import_module(f"numba.cuda.tests.{NAME.replace('/', '.')}")
        finally:
            loading.now = False


def _export_interface() -> None:
    """Give arrays on the CPU a CUDA array interface without a stream.

    weft itself exports none on the CPU, since other libraries would interpret its address as a GPU address.
    """
    type(weft.default_device()).exported_stream = lambda self: 1  # type: ignore[attr-defined]
    for kind in (weft.Array, MemoryArray):
        export = vars(kind)["__cuda_array_interface__"].fget
        kind.__cuda_array_interface__ = property(  # type: ignore[attr-defined]
            lambda self, export=export: {**export(self), "stream": None}
        )


class Plugin:
    """A pytest plugin that reports every test to the parent process."""

    def __init__(self, done: frozenset[str]) -> None:
        self.done = done

    def pytest_collect_directory(self, path: Path, parent: Any) -> Any:
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> Any:
        return _Module.from_parent(parent, path=module_path)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if self.test(item.nodeid) not in self.done]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            tell("result", "(the file)", "failed", _cause(report))

    def test(self, nodeid: str) -> str:
        return nodeid.partition("::")[2]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        tell("start", self.test(nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or (report.when == "setup" and not report.passed):
            cause = _cause(report)
            outcome = report.outcome
            if outcome == "skipped" and "internal:" in cause:
                outcome, cause = "internal", cause.partition("internal:")[2]
            if outcome == "failed" and "Unexpected success" in cause:
                outcome = "passed"
            if hasattr(report, "wasxfail"):
                outcome = "passed"
            tell("result", self.test(report.nodeid), outcome, cause)


def _cause(report: Any) -> str:
    if report.passed:
        return ""
    text = report.longrepr
    if isinstance(text, tuple):
        return str(text[2])
    crash = getattr(text, "reprcrash", None)
    lines = [line[1:].strip() for line in str(text).splitlines() if line.startswith("E ")]
    head = crash.message if crash is not None else (lines[-1] if lines else str(text)[-300:])
    where = "" if crash is None else f"\n{crash.path}:{crash.lineno}"
    return head + where


NAME = ""


def main() -> None:
    """Run the test file that the command line names."""
    global NAME
    tests, NAME = Path(sys.argv[1]), sys.argv[2]
    done = frozenset(json.loads(sys.stdin.read() or "[]"))
    with contextlib.redirect_stdout(sys.stderr):
        install(tests)
        shim = _shim(tests)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [shim, str(Path.cwd()), str(Path("src").absolute()), os.environ["PYTHONPATH"]]
        )
        _export_interface()
        path = tests / f"{NAME}.py"
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "--capture=sys",
            "-c",
            os.devnull,
            f"--rootdir={tests}",
            "--tb=short",
            str(path),
        ]
        pytest.main(options, plugins=[Plugin(done)])
        shutil.rmtree(shim, ignore_errors=True)
    tell("end")


if __name__ == "__main__":
    main()
