"""Support for a program's own classes that define ``__array__``.

NumPy accepts only its own arrays as results of ``__array__``, but in a program on weft, these methods may return weft
arrays. Therefore ``builtins.__build_class__`` is replaced, so that ``__array__`` methods of classes that the program
defines return NumPy arrays over the same memory. weft's own functions call the original method.
"""

from __future__ import annotations

import builtins
import sys
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array
from weft.dsl.script import script_namespace

_NAME = "__array__"

_build_class = builtins.__build_class__
# The code that defined the previous class, and whether a class in this code mentions ``__array__``.
_latest: tuple[CodeType | None, bool] = None, False


class _BuildClass:
    """Replacement for `builtins.__build_class__`. It wraps the ``__array__`` methods of new classes.

    A property returns the function that the interpreter then calls. Class bodies and metaclasses therefore find the
    frames that they expect, except for classes in code that mentions ``__array__``.
    """

    @property
    def __call__(self) -> Any:
        global _latest
        frame = sys._getframe(1)
        code, found = _latest
        if code is not frame.f_code:
            code = frame.f_code
            found = any(_NAME in inner.co_names for inner in code.co_consts if isinstance(inner, CodeType))
            _latest = code, found
        return _build_with_numpys_result if found and script_namespace.is_program(frame) else _build_class


def _build_with_numpys_result(*arguments: Any, **options: Any) -> Any:
    made = _build_class(*arguments, **options)
    method = getattr(made, "__dict__", {}).get(_NAME)
    if type(method) is FunctionType:
        setattr(made, _NAME, _with_numpys_result(method))
    return made


def _with_numpys_result(method: FunctionType) -> Any:
    """Return a version of an ``__array__`` method that returns a NumPy array instead of a weft array."""

    @wraps(method)
    def __array__(self: Any, *arguments: Any, **options: Any) -> Any:
        found = method(self, *arguments, **options)
        return np.asarray(found) if isinstance(found, Array) else found

    __array__.lazy = method  # type: ignore[attr-defined]  # (for `from_protocol`)
    return __array__


_hook: Any = _BuildClass()


def install() -> None:
    """Replace ``builtins.__build_class__`` by `_BuildClass`."""
    builtins.__build_class__ = _hook
