"""Tests of imports and of `Array.__class__` under ``weft run``.

They differ between libraries and the program.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import types
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import callers, native_immediate
from weft.dsl.script import native_callers

LIBRARY = """
import numpy as np
def sees(x): return isinstance(x, np.ndarray)
def namespace():
    import numpy.linalg
    from numpy import fft
    return numpy, fft
def fails():
    import numpy.nothing
"""
PROGRAM = """
import sys, traceback
import numpy as np
from weft.dsl.script import script_function
sys.path.append(sys.argv[1])
import library
script_function.install_native_code()
for _ in range(3):
    x = np.arange(3000.0)
    import numpy, numpy.linalg as linalg
    print(type(numpy.zeros).__name__, type(linalg.norm).__name__, type(x).__name__, isinstance(x, np.ndarray))
    print(library.sees(x), type(library.namespace()[0].zeros).__name__, library.namespace()[1].__name__)
    print(__import__("numpy").zeros is np.zeros, __import__(name="json").__name__)
for failing in (library.fails, lambda: __import__("no_module"), lambda: __import__(3), lambda: __import__("\\ud800")):
    try:
        failing()
    except Exception as error:
        print(type(error).__name__, [frame.name for frame in traceback.extract_tb(error.__traceback__)])
"""


def run_with_library(folder: Path, library: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose argument is the folder of the module `library`."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "library.py").write_text(library)
    (folder / "inside").mkdir()
    script = folder / "inside" / "script.py"
    script.write_text(program)
    command = [sys.executable, "-m", "weft", "run", str(script), str(outside)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_and_libraries_get_their_own_numpy(tmp_path: Path) -> None:
    done = run_with_library(tmp_path, LIBRARY, PROGRAM)
    assert done.returncode == 0, done.stderr
    once = [
        "ScriptFunction ScriptFunction Array True",
        "True builtin_function_or_method numpy.fft",
        "True json",
    ]
    frames = [
        "ModuleNotFoundError ['<module>', 'fails']",
        "ModuleNotFoundError ['<module>', '<lambda>', '_import_numpy']",
        "TypeError ['<module>', '<lambda>', '_import_numpy']",
        "ModuleNotFoundError ['<module>', '<lambda>', '_import_numpy']",
    ]
    assert done.stdout.splitlines() == once * 3 + frames


SEES = """
from collections.abc import Sized
import numpy as np
def sees(x): return x.__class__.__name__, isinstance(x, Sized), isinstance(x, np.ufunc)
"""
ASKS = """
import operator, sys
import numpy as np
sys.path.append(sys.argv[1])
import library
x, numpys = np.arange(300_000.0), sys.modules["numpy"]
print(library.sees(x), library.sees(x.sum()), library.sees((x > 1).sum()))
total = x.sum()
print(type(total).__name__, isinstance(total, np.ndarray), isinstance(total, float), total.__class__.__name__)
print(library.sees(np.sin), library.sees(np.sum), isinstance(np.add, np.ufunc))
# (as a compiled library does, whose functions have no frames)
print(type(numpys.concatenate([x, x])).__name__, type(numpys.mean(x)).__name__, type(np.concatenate([x, x])).__name__)
numpys.copyto(x, 1.0)
print(x[:2].tolist(), type(numpys.zeros(300_000) + x).__name__)
class Model:
    apply, total = np.tanh, np.sum
    def tolist(self): return []
    def __array__(self, dtype=None, copy=None): return np.array([1.0, 2.0])
print(Model().apply(0.0), Model().total())
"""


def test_what_libraries_see(tmp_path: Path) -> None:
    done = run_with_library(tmp_path, SEES, ASKS)
    assert done.stdout.splitlines() == [
        "('ndarray', True, False) ('float64', False, False) ('int64', False, False)",
        "Scalar False True float64",
        "('ufunc', False, True) ('ScriptFunction', False, False) True",
        "ndarray float64 Array",
        "[1.0, 1.0] Array",
        "0.0 3.0",
    ], done.stderr


def test_compiled_modules_of_the_program_take_weft_arrays(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("_statistics")
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        pytest.skip("Python contains the compiled modules")
    shutil.copy(spec.loader.path, tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        "import pickle, _statistics, math\n"
        "function = _statistics._normal_dist_inv_cdf\n"
        "print(type(function).__name__, function.__name__, function(0.5, 1.0, 2.0))\n"
        "print(pickle.loads(pickle.dumps(function)) is function, type(math.sin).__name__)\n"
    )
    said = subprocess.check_output([sys.executable, "-m", "weft", "run", str(script)], text=True)
    assert said.splitlines() == ["_WithNumpy _normal_dist_inv_cdf 1.0", "True builtin_function_or_method"]


@pytest.fixture
def library() -> Any:
    """Yield the namespace of a module that counts as a library."""
    callers.set_program_test(lambda frame: frame.f_globals is globals())
    yield types.ModuleType("library").__dict__ | {"__file__": "library.py", "np": np, "answer": None}
    callers.set_program_test(None)


def test_unknown_modules_are_left_to_python(library: dict[str, Any]) -> None:
    asked: list[Any] = []

    def slow(value: Any, depth: int = 1) -> type:
        asked.append(value)
        return np.ndarray

    library |= {"answer": native_callers.native_class(slow), "is_library": callers.is_library}
    exec("def sees(x): return answer(x)", library)
    x = wf.arange(3)
    assert library["sees"](x) is np.ndarray and len(asked) == 1
    assert eval("is_library()", library)  # (now the module is known; another module may take its entry in the table)
    assert library["sees"](x) is np.ndarray and len(asked) == 1
    callers.set_program_test(None)
    assert library["sees"](x) is np.ndarray and len(asked) == 2


def test_a_module_that_imports_numpy_before_weft_uses_weft(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "user.py").write_text("import numpy as np\nimport weft as wf\ndef double(x): return x + x\n")
    (tmp_path / "inside").mkdir()
    script = tmp_path / "inside" / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nfrom weft.dsl.script import script_function\nscript_function.install_native_code()\n"
        "sys.path.append(sys.argv[1])\nimport user\nprint(type(user.double(np.arange(3000.0))).__name__)\n"
    )
    command = [sys.executable, "-m", "weft", "run", str(script), str(outside)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "Array\n", done.stderr


def test_dot_leaves_foreign_operands_to_numpy_before_and_after_native_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom weft.dsl.script import script_function\n"
        "x, masked = np.arange(3000.0), np.ma.array(np.ones(3000), mask=[True, False] * 1500)\n"
        "for _ in range(2):\n"
        "    print(*(type(each).__name__ for each in (x, np.dot(x, masked), x.dot(masked))))\n"
        "    script_function.install_native_code()\n"
    )
    command = [sys.executable, "-m", "weft", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == 2 * "Array float64 float64\n", done.stderr


def test_native_code_is_not_installed_twice_by_an_import_within_the_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed: list[int] = []

    def install() -> None:
        installed.append(1)
        native_immediate.install_native_code()

    monkeypatch.setattr(native_immediate, "INSTALLED", {})
    monkeypatch.setattr(native_immediate, "_install", install)
    native_immediate.install_native_code()
    assert installed == [1]
