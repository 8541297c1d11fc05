"""Tests of small operations that libraries perform on weft arrays under ``weft run``."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.arrays.array import Array
from weft.dsl.immediate import callers, native_immediate
from weft.runtime import override

IMMEDIATE = 16384

PROGRAM, LIBRARY = "program.py", "library.py"
SOURCE = """
import numpy as np
import copy
def apply(x, y): return {}
"""


def is_program(frame: FrameType) -> bool:
    return frame.f_globals.get("__file__") in (PROGRAM, __file__)


@pytest.fixture(autouse=True)
def redirected() -> Iterator[None]:
    native_immediate.install_native_code()
    callers.set_program_test(is_program)
    yield
    callers.set_program_test(None)


def function(file: str, expression: str) -> Callable[[Any, Any], Any]:
    """Return a function of `x` and `y` that evaluates `expression` in a module with the path `file`."""
    names: dict[str, Any] = {"__name__": file.removesuffix(".py"), "__file__": file}
    exec(SOURCE.format(expression), names)
    return names["apply"]


NEW = """x + y
2.0 * x
np.ones(600).reshape(200, 3) - x
x @ np.ones(3)
x.T @ y
x.sum(axis=0)
x > y
np.add(x, y)
x[np.array([1, 5])]
np.sqrt(x)
np.add.reduce(x, axis=1)
np.multiply.outer(x[:2], y[:3])
np.linalg.norm(x, axis=1)
np.tensordot(x, y, axes=[range(1), range(1)])
np.where(x > 0, x, y)
np.concatenate([x, y])
np.zeros_like(x)
np.einsum('ij,ij->ij', x, y)
copy.copy(x)
copy.deepcopy({'x': [x]})['x'][0]
x.copy()""".splitlines()
CALLS_OF_FUNCTIONS = [
    "np.linalg.norm(x, axis=1)",
    "np.tensordot(x, y, axes=[range(1), range(1)])",
    "np.where(x > 0, x, y)",
    "np.concatenate([x, y])",
    "np.zeros_like(x)",
    "np.einsum('ij,ij->ij', x, y)",
]
VIEWS = """x[3:]
x.T
x.reshape(-1)
np.reshape(x, -1)
np.broadcast_to(x, (2, 200, 3))
np.moveaxis(x, 0, 1)""".splitlines()


def arrays() -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(2)
    return source.random((200, 3)), source.random((200, 3))


@pytest.mark.parametrize("expression", NEW)
def test_new_small_arrays_of_a_library_are_numpys(expression: str) -> None:
    x, y = arrays()
    wanted = function(LIBRARY, expression)(x, y)
    # (a program calls weft's functions: NumPy's are called by compiled libraries, which have no frames)
    calls_numpys = expression in CALLS_OF_FUNCTIONS
    for file, kind in ((PROGRAM, np.ndarray if calls_numpys else Array), (LIBRARY, np.ndarray)):
        apply = function(file, expression)
        for _ in range(3):  # (code is compiled at the first call)
            found = apply(wf.asarray(x), wf.asarray(y))
        assert type(found) is kind or (file == PROGRAM and found.size <= 128), file
        np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)


@pytest.mark.parametrize("expression", ["x[:5] + 1", "x.T @ y", "x.sum(axis=0)", "x[np.array([1, 5])]", "-x[:, 2][:9]"])
def test_results_with_few_elements_are_numpys_in_a_program_that_does_not_import_weft(expression: str) -> None:
    x, y = (wf.asarray(each) for each in arrays())
    apply, uses = function(PROGRAM, expression), function(PROGRAM, expression)
    uses.__globals__["wf"] = wf
    for _ in range(3):  # (the first call asks for the kind of the module)
        found, own = apply(x, y), uses(x, y)
    assert type(found) is np.ndarray and isinstance(own, Array)
    np.testing.assert_array_equal(found, np.asarray(own), strict=True)
    assert isinstance(apply(wf.asarray(arrays()[0]), y), np.ndarray)


@pytest.mark.parametrize("expression", VIEWS)
def test_views_that_a_library_makes_share_the_memory(expression: str) -> None:
    x = wf.asarray(arrays()[0])
    found = function(LIBRARY, expression)(x, x)
    assert isinstance(found, Array)
    x[150, 1] = 7.0
    np.testing.assert_array_equal(np.asarray(found), function(LIBRARY, expression)(np.asarray(x), None), strict=True)


@pytest.mark.parametrize("length", [3, 30_000])
def test_libraries_convert_arrays_for_compiled_code(length: int) -> None:
    """Test how a library gets a NumPy array for compiled code: ``np.atleast_1d`` returns one that shares the weft array's memory.

    SciPy passes the result to Fortran code, which accepts no other arrays.
    """
    x = wf.ones(length)
    found = function(LIBRARY, "np.atleast_1d(x)")(x, None)
    assert type(found) is np.ndarray
    x[1] = 7.0
    assert found.tolist()[:3] == [1.0, 7.0, 1.0]
    assert type(function(PROGRAM, "np.atleast_1d(x)")(x, None)) is np.ndarray


def test_a_librarys_own_ufuncs_get_numpys_arrays() -> None:
    x = arrays()[0]
    own = np.frompyfunc(lambda a, b: a + b, 2, 1)
    found = function(LIBRARY, "y(x, 1)")(wf.asarray(x), own)
    assert type(found) is np.ndarray and found.dtype == object
    np.testing.assert_array_equal(found.astype(float), x + 1)


def test_a_library_writes_to_the_programs_arrays() -> None:
    x = wf.asarray(arrays()[0])
    function(LIBRARY, "np.copyto(x, y)")(x, 3.0)
    assert float(x.sum()) == 1800.0
    function(LIBRARY, "x.__iadd__(y)")(x, np.ones(3))
    function(LIBRARY, "np.add(x, y, out=x)")(x, np.ones(3))
    function(LIBRARY, "np.add.at(x, 0, y)")(x, 0.0)
    function(LIBRARY, "np.sum(y, 0, None, x)")(out := wf.zeros(3), x)
    assert out.tolist() == [1000.0] * 3
    assert isinstance(x, Array) and x.shape == (200, 3)


def test_large_arrays_of_a_library_are_wefts() -> None:
    x = wf.ones((200, 300))
    assert isinstance(function(LIBRARY, "x * 2 + y")(x, x), Array)
    assert isinstance(function(LIBRARY, "np.linalg.norm(x, axis=0)")(x, x), (Array, np.ndarray))
    small = wf.ones(200)
    assert isinstance(function(LIBRARY, "np.exp(x) * y")(x.T, small), Array)


def test_without_a_program_and_without_tier_zero_all_arrays_are_wefts() -> None:
    x, y = (wf.asarray(each) for each in arrays())
    add, norm = (function(LIBRARY, text) for text in ("x + y", "np.linalg.norm(x, axis=0)"))
    with override(immediate=0):
        assert isinstance(add(x, y), Array)
    callers.set_program_test(None)
    assert isinstance(add(x, y), Array) and isinstance(norm(x, y), Array)


def test_modules_that_use_weft_get_wefts_arrays() -> None:
    x, y = (wf.asarray(each) for each in arrays())
    add = function(LIBRARY, "x + y")
    add.__globals__["wf"] = wf
    assert isinstance(add(x, y), Array)
    other = function(LIBRARY, "x + y")
    other.__globals__["exp"] = wf.linalg
    assert isinstance(other(x, y), Array)


def test_decisions_are_kept_for_modules_only() -> None:
    x = wf.asarray(arrays()[0])
    add = function(LIBRARY, "x + y")
    add(x, x)
    slot = 1 + 2 * ((id(add.__globals__) >> callers.SHIFT) % callers.SLOTS)
    assert callers.CALLERS[slot] == id(add.__globals__) and callers.CALLERS[slot + 1] == 1
    names: dict[str, Any] = {"x": x}
    exec("found = x + x", names)
    slot = 1 + 2 * ((id(names) >> callers.SHIFT) % callers.SLOTS)
    assert callers.CALLERS[slot] != id(names)


def test_generated_code_is_decided_for_each_of_its_namespaces() -> None:
    code = compile("def apply(x): return x + x", "<generated>", "exec")
    x = wf.asarray(arrays()[0])
    for number in range(4):
        names: dict[str, Any] = {"wf": wf} if number % 2 else {}
        exec(code, names)
        for _ in range(2):
            assert type(names["apply"](x)) is (Array if number % 2 else np.ndarray)


def test_namespaces_of_generated_code_are_not_kept() -> None:
    kept: weakref.ref[Any] | None = None
    for _ in range(3):
        names: dict[str, Any] = {"other": np.empty(8).view(Kept)}
        exec("def apply(x): return x + x", names)
        names["apply"](wf.asarray(arrays()[0]))
        kept = weakref.ref(names["other"])
        del names
        gc.collect()
    assert kept is not None and kept() is None


class Kept(np.ndarray):
    """A subclass of NumPy's arrays. A test checks by a weak reference whether an instance is kept alive."""


def test_errors_of_the_decision_reach_the_caller() -> None:
    def fail(frame: FrameType) -> bool:
        raise KeyboardInterrupt

    x = wf.asarray(arrays()[0])
    callers.set_program_test(fail)
    for expression in ("x + y", "x + y[0]", "np.linalg.norm(x)"):
        with pytest.raises(KeyboardInterrupt):
            function(LIBRARY, expression)(x, x)
    callers.set_program_test(None)
    assert isinstance(copy.copy(x), Array)


def test_a_library_iterates_over_numpys_arrays() -> None:
    x = wf.ones((200, 300))
    for row in function(LIBRARY, "iter(x)")(x, None):
        assert type(row) is np.ndarray
        row += 1
    assert float(x.sum()) == 2 * x.size
    assert all(type(row) is Array for row in function(PROGRAM, "iter(x)")(x, None))
