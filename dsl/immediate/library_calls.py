"""Immediate execution of NumPy functions when a library calls them with small weft arrays.

In: a NumPy function and its arguments. Out: the result of NumPy's function, or `MISSED` if an array is not small or not
in host memory. Invariant: arrays in the result that share memory with an argument are weft arrays over the same
storage. Other arrays in the result are NumPy arrays (see `callers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from weft.dsl.arrays.array import VALUE_READS, Array, ReadOnly, Scalar
from weft.dsl.arrays.on_host import WRITERS, index_of_out
from weft.dsl.arrays.parts import Part, ReadOnlyPart
from weft.dsl.immediate.at_call import COMMON, MISSED, PLAIN, from_numpy_result, to_host_if_small
from weft.dsl.immediate.host_values import values_of
from weft.runtime import IMMEDIATE

# Options with which a function may write to an argument, or which this module does not support.
_UNUSUAL = frozenset({"out", "copy", "overwrite_input", "like", "subok", "device"})


def call_for_library(function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Run NumPy's implementation of a function that a library has called with small weft arrays.

    Return `MISSED` if a weft array is not small or not in host memory, or if the function may write to an argument.
    """
    if not _UNUSUAL.isdisjoint(options) or len(arguments) > _most_arguments(function):
        return MISSED
    return _call(function, arguments, options)


@lru_cache(maxsize=512)
def _most_arguments(function: Callable[..., Any]) -> float:
    """Return the maximum number of positional arguments of a NumPy function without its output argument (those before
    `out`).

    Return infinity if the function has no output argument.
    """
    index = index_of_out(function)
    return 0 if getattr(function, "__name__", "") in WRITERS else inf if index is None else index


def apply_for_library(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """If a library calls a ufunc method with small weft arrays, run NumPy's implementation of the method.

    Return `MISSED` if a weft array is not small or not in host memory, or if the method may write to an argument.
    """
    if method == "at" or not _UNUSUAL.isdisjoint(options):
        return MISSED
    return _call(ufunc if method == "__call__" else getattr(ufunc, method), inputs, options)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    found: list[tuple[np.ndarray, Array]] = []
    given = []
    for value in arguments:
        if type(value) not in _KEPT and (value := _to_numpy(value, found)) is MISSED:
            return MISSED
        given.append(value)
    named = {}
    for name, value in options.items():
        named[name] = _to_numpy(value, found)
        if named[name] is MISSED:
            return MISSED
    if not found:
        return MISSED
    VALUE_READS[0] += 1
    return _to_weft(function(*given, **named), found)


def _to_numpy(value: Any, found: list[tuple[np.ndarray, Array]]) -> Any:
    """Convert the weft arrays in an argument to NumPy arrays, or return `MISSED` if that is not possible."""
    kind = type(value)
    if kind is Array and not found and (values := values_of(value)) is not None:
        if values.size > IMMEDIATE[0] or not (COMMON >> values.dtype.num) & 1:
            return MISSED
        found.append((values, value))
        return values
    if kind in _OWN:
        return to_host_if_small(value, found, IMMEDIATE[0])
    if (kind is list or kind is tuple) and not _CONVERTED.isdisjoint(map(type, value)):
        taken = kind([_to_numpy(each, found) for each in value])
        return MISSED if any(each is MISSED for each in taken) else taken
    return MISSED if isinstance(value, Array) else value


_OWN = {Array, Scalar}
_CONVERTED = {Array, Scalar, ReadOnly, Part, ReadOnlyPart, list, tuple}
# Types of arguments that are passed on unchanged.
_KEPT = PLAIN | {np.ndarray}


def _to_weft(result: Any, found: list[tuple[np.ndarray, Array]]) -> Any:
    """Convert a result's NumPy arrays to weft arrays if they share memory with an argument.

    Other arrays are unchanged.
    """
    kind = type(result)
    if kind in PLAIN:
        return result
    if kind is np.ndarray:
        if result.base is None and all(result is not v and result is not v.base for v, _ in found):
            return result
        shared = any(np.may_share_memory(result, values) for values, _ in found)
        return from_numpy_result(result, found[0][1].device, found) if shared else result
    if kind is tuple or kind is list:
        return kind([_to_weft(each, found) for each in result])
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return kind(*[_to_weft(each, found) for each in result])
    return result
