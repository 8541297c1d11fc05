"""Tests of the ``__array__`` methods of a program's classes."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.dsl.arrays.array import Array
from weft.dsl.script.redirect import load_program

_CLASS = """
import numpy as np
class Held:
    def __init__(self, values):
        self.values = values
    def __array__(self, dtype=None, copy=None):
        "Convert."
        return np.asarray(self.values, dtype)
"""


def _load(folder: Path, text: str) -> dict[str, Any]:
    script = folder / "script.py"
    script.write_text(_CLASS + text)
    return load_program(script, "script")


def test_numpy_converts_objects_whose_methods_return_weft_arrays(tmp_path: Path) -> None:
    left = _load(tmp_path, "large, small = Held(np.arange(1000.0)), Held(np.arange(3))\n")
    large = left["large"]
    assert isinstance(large.values, Array) and type(np.asarray(large)) is np.ndarray
    assert np.array_equal(np.asarray(large), np.arange(1000.0)) and np.median([large, large]) == 499.5
    assert np.asarray(large, np.float32).dtype == np.float32 and np.asarray(left["small"]).tolist() == [0, 1, 2]
    large.values[0] = 7
    assert np.asarray(large)[0] == 7
    assert type(large).__array__.__doc__ == "Convert."


def test_functions_of_weft_keep_the_arrays_lazy(tmp_path: Path) -> None:
    left = _load(tmp_path, "x = np.arange(50_000.0)\ny = np.asarray(Held(x))\nz = np.asarray(Held(x + 1))\n")
    assert left["y"] is left["x"] and left["z"]._storage.buffer is None


@pytest.mark.parametrize(
    "text",
    [
        "class Derived(Held):\n    def __array__(self, *a, **k):\n        return super().__array__(*a, **k)\n",
        "def make():\n    class Derived(Held):\n        __array__ = Held.__array__\n    return Derived\nDerived = make()\n",
        "import abc\nclass Derived(Held, metaclass=abc.ABCMeta):\n    def __array__(self, *a, **k):\n        return self.values\n",
    ],
)
def test_derived_classes(tmp_path: Path, text: str) -> None:
    left = _load(tmp_path, text + "x = Derived(np.arange(1000))\n")
    assert type(np.asarray(left["x"])) is np.ndarray and np.asarray(left["x"]).sum() == 499500


def test_other_classes_are_made_by_python(tmp_path: Path) -> None:
    """Test that weft does not change how Python creates a class that has no ``__array__`` method.

    The stack frame above the class body belongs to the program, not to weft. Classes outside of the program are
    unchanged.
    """
    left = _load(
        tmp_path,
        "import sys\ndef define():\n    class Plain:\n        above = sys._getframe(1).f_code.co_name\n    return Plain\n",
    )
    assert left["define"]().above == "define" and type(builtins.__build_class__) is not type(len)

    class Own:  # (not a class of the program)
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.zeros(3)

    assert Own.__array__.__qualname__.endswith("Own.__array__") and not hasattr(Own.__array__, "lazy")
