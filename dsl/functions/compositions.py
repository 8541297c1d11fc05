"""Copies of NumPy's Python functions, rebound to call weft's functions.

In: a NumPy function whose code calls other NumPy functions. Out: a function with the same code that calls weft's
functions, so that its operations are recorded. Invariant: the copy differs from NumPy's function only in the objects to
which its global names refer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.arrays.call_sites import on_operands_device
from weft.dsl.arrays.composed_docstrings import describe_composed
from weft.dsl.arrays.memoized import memoized
from weft.dsl.arrays.on_host import call_numpy
from weft.dsl.arrays.scatter import is_gpu
from weft.dsl.functions.joining import as_sequence
from weft.dsl.functions.own_names import OWN, find_own
from weft.dsl.script.numpy_face import NUMPY, ndarray


class _Names(dict[str, Any]):
    """Global names of a copied NumPy function, each resolved to weft's version on first use."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(__builtins__=names["__builtins__"], __name__="weft.dsl.functions.compositions")
        self.names = names

    def __missing__(self, name: str) -> Any:
        found = self[name] = _replaced(self.names[name], self)
        return found


class _Namespace:
    """A stand-in for a NumPy module in copied code, with weft's functions in place of NumPy's."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(NUMPY if hasattr(np, name) else self._module, name)


def compose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of one of NumPy's Python functions, rebound to call weft's functions."""
    plain = inspect.unwrap(getattr(function, "_implementation", function))
    assert isinstance(plain, FunctionType)
    made = _with_names(plain, _Names(plain.__globals__))
    made.__doc__ = describe_composed(plain.__name__) or plain.__doc__
    return made


def compose_memoized(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a NumPy function, rebound to call weft's functions and memoized (see `memoized`)."""
    return memoized(compose(function))


def compose_stack(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a weft version of a NumPy function that joins arrays, such as `numpy.vstack`. The results of its calls are memoized."""
    composed = compose(function)

    @wraps(composed)
    def called(tup: Any, **options: Any) -> Any:
        return composed(as_sequence(tup), **options)  # (NumPy makes this check outside of the copied function)

    return memoized(called)


def compose_on_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a NumPy function. If an argument is a GPU array, the wrapper calls weft's copy of the function, otherwise NumPy's."""
    composed = compose(function)

    @wraps(composed)
    def called(*arguments: Any, **options: Any) -> Any:
        flat = [v for given in arguments for v in (given if isinstance(given, (list, tuple)) else (given,))]
        if any(isinstance(v, Array) and is_gpu(v.device) for v in flat):
            return composed(*arguments, **options)
        return call_numpy(function, arguments, options)

    return called


def compose_index(theirs: Any) -> Any:
    """Return a counterpart of an object such as `numpy.r_` or `numpy.mgrid`. The counterpart creates weft arrays."""
    kind = type(theirs)
    index = next(vars(each)["__getitem__"] for each in kind.__mro__ if "__getitem__" in vars(each))
    name = next(name for name, value in vars(np).items() if value is theirs)
    members = {"__getitem__": on_operands_device(compose(index)), "concatenate": staticmethod(OWN["concatenate"])}
    return type(kind.__name__, (kind,), {**members, "__doc__": describe_composed(name)})()


def _with_names(plain: FunctionType, names: _Names) -> Callable[..., Any]:
    made = FunctionType(plain.__code__, names, plain.__name__, plain.__defaults__, plain.__closure__)
    made.__kwdefaults__, made.__doc__, made.__qualname__ = plain.__kwdefaults__, plain.__doc__, plain.__qualname__
    return made


def _replaced(value: Any, names: _Names) -> Any:
    """Return weft's replacement for an object that NumPy's code refers to, or the object itself if there is none."""
    if isinstance(value, ModuleType):
        is_numpys = value.__name__.partition(".")[0] == "numpy"
        # (`numpy`, `numpy._core.numeric` and other modules contain NumPy's public functions)
        is_public = is_numpys and (
            getattr(value, "add", None) is np.add or getattr(value, "asarray", None) is np.asarray
        )
        return _Namespace(value) if is_public else value
    if value is np.ndarray:
        return ndarray
    if not callable(value) or isinstance(value, type):
        return value
    public = getattr(np, getattr(value, "__name__", ""), None)
    if getattr(public, "_implementation", None) is value:
        value = public
    own = find_own(value)
    if own is not None:
        return own
    if isinstance(value, np.ufunc):
        return getattr(NUMPY, value.__name__)
    if isinstance(value, FunctionType) and value.__module__.startswith("numpy."):  # a helper
        plain = inspect.unwrap(value)
        return _with_names(plain, names if plain.__globals__ is names.names else _Names(plain.__globals__))
    return value
