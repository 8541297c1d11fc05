"""The face of the user's layer: arrays and functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from weft.dsl import memory, methods, operators
from weft.dsl.array import Array
from weft.dsl.numpy_face import NUMPY, OWN, ndarray, submodule
from weft.dsl.plans import compile, evaluate, explain
from weft.dsl.symbolic import lambdify
from weft.dsl.ufunc import UFunc
from weft.runtime import set_judge

__all__ = [
    "NUMPY",
    "OWN",
    "Array",
    "UFunc",
    "compile",
    "evaluate",
    "explain",
    "find_name",
    "lambdify",
    "memory",
    "ndarray",
    "submodule",
]


def find_name(name: str) -> Callable[..., Any] | Any:
    """A public name of weft's or, seen from weft, of NumPy's. Raises AttributeError."""
    if name.startswith("_"):
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    try:
        return getattr(NUMPY, name)
    except AttributeError:
        text = f"module 'weft' has no attribute {name!r}, and NumPy has none"
        raise AttributeError(text, name=name, obj=sys.modules["weft"]) from None


_installed = (methods, operators)
# the sanitizer loads when a watched kernel runs
set_judge(lambda function: import_module("weft.dsl.kernel.sanitizer_schedules").judge(function))
