"""Tests of a shortcut for small arrays: native code calls an array method, such as ``x.clip``, instead of the function ``np.clip``.

The native code is that of weft's functions, or that of functions in scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.dsl.immediate import native_immediate
from weft.dsl.immediate.small_work import METHODS_OF_FUNCTIONS
from weft.dsl.script import native_script
from weft.dsl.script.kinds import MemoryEffect

IMMEDIATE = 16384
FUNCTIONS = [pytest.param(function, id=function.__name__) for function in METHODS_OF_FUNCTIONS]
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "clip": (-1, 2),
    "dot": (np.arange(5.0),),
    "repeat": (2,),
    "searchsorted": (0.5,),
    "squeeze": (),
    "swapaxes": (0, 1),
    "take": ([2, 0],),
    "trace": (),
}
# Calls whose keywords the methods do not have, or whose positional arguments mean something else.
UNLIKE: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "clip": lambda clip, x: clip(x, a_min=-1, a_max=1),
    "swapaxes": lambda swapaxes, x: swapaxes(x, 0, axis2=-1),
    "any": lambda any_, x: any_(x, 0, None, True),
    "all": lambda all_, x: all_(x, 0, None, True),
}


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, or the type and text of its error."""
    try:
        found = function(*arguments, **options)
    except Exception as error:
        return type(error), str(error)
    return [np.asarray(each) for each in found] if isinstance(found, tuple) else np.asarray(found)


def _check(found: Any, wanted: Any) -> None:
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
    np.testing.assert_equal(found, wanted)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_scripts_call_methods_with_the_same_results(function: Callable[..., Any]) -> None:
    def slow(*_: Any, **__: Any) -> None:
        raise AssertionError("the arguments are small")

    native = native_script.make_native(function, slow, slow, MemoryEffect.COMPUTE)
    name, source = function.__name__, np.random.default_rng(3)
    for shape in ((3, 5), (5,), (1, 4), (0,)):
        for dtype in ("f8", "f4", "i4", "?"):
            x = source.integers(-2, 3, shape).astype(dtype)
            given = ARGUMENTS.get(name, ())
            for options in ({}, {"axis": 0}, {"axis": -1}, {"axis": 7}, {"foo": 1}, {"axis": 0, "keepdims": True}):
                with np.errstate(all="ignore"):
                    found, wanted = (_call(each, x, *given, **options) for each in (native, function))
                if isinstance(wanted, tuple) and wanted[0] is TypeError and "axis" in options:
                    assert found[0] is TypeError  # (functions without `axis`)
                else:
                    _check(found, wanted)
            if name in UNLIKE:
                _check(_call(UNLIKE[name], native, x), _call(UNLIKE[name], function, x))
    _check(_call(native, [[3, 1], [2, 5]], *given), _call(function, [[3, 1], [2, 5]], *given))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_small_weft_arrays_have_the_results_of_numpy(function: Callable[..., Any]) -> None:
    native_immediate.install_native_code()
    name, source = function.__name__, np.random.default_rng(3)
    for shape in ((3, 5), (5,), (1, 4)):
        for dtype in ("f8", "i4", "?"):
            x = source.integers(-2, 3, shape).astype(dtype)
            given = ARGUMENTS.get(name, ())
            for options in ({}, {"axis": 0}, {"axis": -1}, {"axis": 7}, {"foo": 1}):
                wanted = _call(function, x, *given, **options)
                found = _call(getattr(wf, name), wf.asarray(x), *given, **options)
                if isinstance(wanted, tuple):
                    assert issubclass(found[0], wanted[0]) or found[0] is TypeError
                else:
                    _check(found, wanted)
            if name in UNLIKE:
                _check(_call(UNLIKE[name], getattr(wf, name), wf.asarray(x)), _call(UNLIKE[name], function, x))


@pytest.mark.parametrize("shape", [(1, 100), (300, 1), (1, 1)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "?"])
def test_repeated_elements_are_reduced_once(dtype: str, shape: tuple[int, ...]) -> None:
    base = (np.random.default_rng(4).random(shape) * 100).astype(dtype)
    if dtype == "f8":
        base[0, 0] = np.nan
    x = wf.broadcast_to(wf.asarray(base), (300, 100))
    for name in ("max", "min", "any", "all"):
        _check(np.asarray(getattr(wf, name)(x)), np.asarray(getattr(np, name)(np.broadcast_to(base, (300, 100)))))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_lists_of_arrays_have_no_methods(function: Callable[..., Any]) -> None:
    given = ARGUMENTS.get(function.__name__, ())
    own = getattr(wf, function.__name__)
    native = native_script.make_native(function, own, own, MemoryEffect.COMPUTE)
    rows = [np.array([3.0, 1.0]), np.array([2.0, 5.0])]
    found = _call(native, [wf.asarray(row) for row in rows], *given)
    _check(np.asarray(found) if isinstance(found, wf.Array) else found, _call(function, rows, *given))
