"""The public interface of the array layer."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.dsl.arrays import methods, operators
from weft.dsl.arrays.array import Array, evaluate
from weft.dsl.arrays.ufunc import UFunc
from weft.dsl.functions.own_names import OWN
from weft.runtime import Registered
from weft.runtime.lazy_names import checked_imports, lazy_names

if TYPE_CHECKING:
    from weft.dsl.functions.symbolic import lambdify
    from weft.dsl.plans import compile, explain

__all__ = ["OWN", "Array", "UFunc", "compile", "evaluate", "explain", "find_name", "lambdify"]

__getattr__ = lazy_names(globals(), checked_imports(__file__))


def find_name(name: str) -> Any:
    """Return the object called `name` in weft's namespace.

    Names that weft does not define are NumPy's. NumPy's functions are wrapped to accept weft arrays. Raises
    AttributeError if neither weft nor NumPy defines the name, and for private names that weft does not define.
    """
    if name in OWN:
        return OWN[name]
    if name.startswith("_"):
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    try:
        return getattr(import_module("weft.dsl.script.numpy_face").NUMPY, name)
    except AttributeError as error:
        raise AttributeError(str(error), name=name, obj=sys.modules["weft"]) from None


_installed = (methods, operators)
# The sanitizer is loaded when the first sanitized kernel runs.
Registered.checker_module = "weft.dsl.kernel.sanitizer.sanitized_launch"
