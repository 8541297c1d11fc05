"""The ``__array_function__`` protocol, which lets NumPy's functions accept weft arrays.

In: a NumPy function and its arguments, and the caller's frame. Out: the result of weft's function of the same name, or of
NumPy's function on the host. Under `weft run`, libraries get NumPy arrays instead of new small weft arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, class_for
from weft.dsl.arrays.on_host import call_numpy, keep, to_host
from weft.dsl.functions.own_names import find_own
from weft.dsl.immediate.at_call import MISSED
from weft.dsl.immediate.callers import is_library, sees_numpy
from weft.dsl.immediate.library_calls import call_for_library

# Under `weft run`, libraries use these functions to convert arrays for their compiled code, as they use `numpy.asarray`.
_CONVERSIONS: frozenset[Callable[..., Any]] = frozenset((np.atleast_1d, np.atleast_2d, np.atleast_3d))  # type: ignore[arg-type, unused-ignore]
# Under `weft run`, libraries use these functions to create arrays that their compiled code writes to.
_LIKE = frozenset((np.empty_like, np.zeros_like, np.ones_like, np.full_like))

# Functions that libraries often call to query an array.
_QUESTIONS: dict[Any, Callable[[Array], Any]] = {
    np.shape: operator.attrgetter("shape"),
    np.ndim: operator.attrgetter("ndim"),
    np.size: operator.attrgetter("size"),
    np.result_type: operator.attrgetter("dtype"),
    np.iscomplexobj: lambda array: array.dtype.kind == "c",
}


def array_function(self: Array, function: Callable[..., Any], types: Any, arguments: Any, options: Any) -> Any:
    """Implement ``__array_function__`` by calling weft's function, or NumPy's function on the host."""
    if len(arguments) == 1 and arguments[0] is self and not options and (question := _QUESTIONS.get(function)):
        return question(self)
    if is_library(2):
        if function in _CONVERSIONS:
            return function(*[np.asarray(each) if isinstance(each, Array) else each for each in arguments])
        if (found := call_for_library(function, arguments, options)) is not MISSED:
            return found
    elif sees_numpy(2):
        # (a program calls weft's functions, so the caller is a compiled library, which has no frames)
        return call_numpy(function, arguments, options, keep)
    if function in _LIKE and class_for(self, 2) is np.ndarray:
        return function(*to_host(arguments), **to_host(options))
    ours = find_own(function)
    return ours(*arguments, **options) if ours is not None else call_numpy(function, arguments, options)
